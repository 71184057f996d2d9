/* What this server shows the master of the leases that it believes it may act on: all of them when
 * it registers (SES-5a, LEASE-7), their sum in each heartbeat, and all of them again when the
 * master's sum is another one (LEASE-8).
 *
 * What is not shown is never acted on again. That holds because a lease that this server may act on
 * has a primary part, in whatever state; because a part that ends leaves a released mark (LEASE-6)
 * or a higher version behind; and because a grant that is still on its way when a registration goes
 * out names a session that is over (SES-3). */
#include "chunkserver/session/showing.h"

#include "base/alloc.h"
#include "chunkserver/primary/primary.h"
#include "lease/sum.h"

#include <stdlib.h>

/* What has run out ends before anything is shown, and not when its timer fires: nothing is
 * neither shown nor over. */
static void end_run_out(struct lh_cs_session *s)
{
    struct lh_cs_primary *p, *next;

    DL_FOREACH_SAFE(s->primaries->all, p, next)
    {
        if (!lh_cs_primary_may_act(p))
            lh_cs_primary_run_out(p);
    }
}

size_t lh_cs_showing_fill(struct lh_cs_session *s, Leasehold__ChunkVersion ***leases)
{
    size_t room = 0, count = 0;
    struct lh_cs_primary *p;

    end_run_out(s);
    *leases = NULL;
    DL_COUNT(s->primaries->all, p, room);
    if (room == 0)
        return 0;
    Leasehold__ChunkVersion *items = lh_alloc_array(room, sizeof *items);
    *leases = lh_alloc_array(room, sizeof **leases);
    DL_FOREACH(s->primaries->all, p)
    {
        if (p->state == LH_CS_PRIMARY_ADOPTING && LH_PLANTED("shown-grant-forgotten"))
            continue;
        leasehold__chunk_version__init(&items[count]);
        items[count].chunk = p->replica->chunk;
        items[count].version = p->version;
        items[count].appends = p->appends;
        (*leases)[count] = &items[count];
        count++;
    }
    if (count == 0)
        free(items);
    return count;
}

void lh_cs_showing_free(Leasehold__ChunkVersion **leases, size_t count)
{
    if (count > 0)
        free(leases[0]);
    free(leases);
}

void lh_cs_showing_sum(struct lh_cs_session *s, Leasehold__LeaseSum *sum)
{
    struct lh_lease_sum leases = {0};
    struct lh_cs_primary *p;

    end_run_out(s);
    DL_FOREACH(s->primaries->all, p)
    {
        if (p->state != LH_CS_PRIMARY_ADOPTING) /* else the master has not heard of it yet */
            lh_lease_sum_add(&leases, p->replica->chunk, p->version);
    }
    sum->count = leases.count;
    sum->hash = leases.hash;
}

void lh_cs_showing_answer(struct lh_cs_session *s)
{
    struct lh_cs_host *cs = s->cs;
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ShownLeases shown = LEASEHOLD__SHOWN_LEASES__INIT;

    LH_MARK("leases-shown-when-asked");
    shown.session = lh_cs_session_id(cs);
    shown.n_leases = lh_cs_showing_fill(s, &shown.leases);
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SHOWN;
    m.shown = &shown;
    lh_cs_send(cs, &m);
    lh_cs_showing_free(shown.leases, shown.n_leases);
}
