/* What this server shows the master of the leases that it believes it may act on: all of them when
 * it registers (SES-5a, LEASE-7), their sum in each heartbeat, and all of them again when the
 * master's sum is another one (LEASE-8).
 *
 * What is not shown is never acted on again. That holds because a lease that this server may act on
 * has a primary part, in whatever state; because a part that ends leaves a released mark (LEASE-6)
 * or a higher version behind; and because a grant that is still on its way when a registration goes
 * out names a session that is over (SES-3). */
#include "chunkserver/primary/internal.h"

#include "base/alloc.h"
#include "chunkserver/primary/streams.h"
#include "lease/sum.h"

#include <stdlib.h>

/* What has run out ends before anything is shown, and not when its timer fires: nothing is
 * neither shown nor over. */
void lh_cs_showing_end_run_out(struct lh_cs_primaries *primaries)
{
    struct lh_cs_primary *p, *next;

    DL_FOREACH_SAFE(primaries->all, p, next) {
        if (!lh_cs_primary_may_act(p))
            lh_cs_primary_run_out(p);
    }
}

bool lh_cs_showing_lease(const struct lh_cs_replica *r, Leasehold__ChunkVersion *lease)
{
    const struct lh_cs_primary *p = lh_cs_primary_of(r);

    if (p == NULL || (p->state == LH_CS_PRIMARY_ADOPTING && LH_PLANTED("shown-grant-forgotten")))
        return false;
    leasehold__chunk_version__init(lease);
    lease->chunk = r->chunk;
    lease->version = p->version;
    lease->appends = p->appends;
    return true;
}

uint64_t *lh_cs_showing_chunks(const struct lh_cs_primaries *primaries, size_t *count)
{
    const struct lh_cs_primary *p;
    size_t i = 0;

    DL_COUNT(primaries->all, p, *count);
    uint64_t *chunks = lh_alloc_array(*count + 1, sizeof *chunks);
    DL_FOREACH(primaries->all, p)
        chunks[i++] = p->replica->chunk;
    return chunks;
}

void lh_cs_showing_sum(struct lh_cs_primaries *primaries, Leasehold__LeaseSum *sum)
{
    struct lh_lease_sum leases = {0};
    struct lh_cs_primary *p;

    lh_cs_showing_end_run_out(primaries);
    DL_FOREACH(primaries->all, p) {
        if (p->state != LH_CS_PRIMARY_ADOPTING) /* else the master has not heard of it yet */
            lh_lease_sum_add(&leases, p->replica->chunk, p->version);
    }
    sum->count = leases.count;
    sum->hash = leases.hash;
}

/* LEASE-4: chunks in use since the last extension was asked. An append that is still arriving is
 * use, or one that takes longer than a term could never be stored. */
static bool wants_extension(const struct lh_cs_primary *p)
{
    if (p->state == LH_CS_PRIMARY_RECALLED)
        return false;
    return p->state != LH_CS_PRIMARY_OPEN || p->queue.count > 0 || lh_cs_lanes_arrive(p) ||
           (p->appends != p->appends_extended && !LH_PLANTED("extension-not-asked"));
}

void lh_cs_showing_active(struct lh_cs_primaries *primaries, Leasehold__Heartbeat *hb)
{
    struct lh_cs_primary *p;
    size_t most = 0;

    DL_COUNT(primaries->all, p, most);
    Leasehold__ChunkVersion *active = lh_alloc_array(most, sizeof *active);
    hb->active = lh_alloc_array(most, sizeof *hb->active);
    DL_FOREACH(primaries->all, p) {
        if (!wants_extension(p))
            continue;
        Leasehold__ChunkVersion *a = &active[hb->n_active];
        leasehold__chunk_version__init(a);
        a->chunk = p->replica->chunk;
        a->version = p->version;
        a->appends = p->appends;
        p->appends_extended = p->appends;
        hb->active[hb->n_active++] = a;
    }
    if (hb->n_active == 0)
        free(active);
}

void lh_cs_showing_active_free(Leasehold__Heartbeat *hb)
{
    if (hb->n_active > 0)
        free(hb->active[0]);
    free(hb->active);
}

void lh_cs_showing_answer(struct lh_cs_primaries *primaries)
{
    struct lh_cs_host *cs = primaries->cs;
    Leasehold__SessionRequest m = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ShownLeases shown = LEASEHOLD__SHOWN_LEASES__INIT;
    struct lh_cs_primary *p;
    size_t most = 0;

    LH_MARK("leases-shown-when-asked");
    lh_cs_showing_end_run_out(primaries);
    DL_COUNT(primaries->all, p, most);
    Leasehold__ChunkVersion *leases = lh_alloc_array(most, sizeof *leases);
    shown.leases = lh_alloc_array(most, sizeof *shown.leases);
    DL_FOREACH(primaries->all, p) {
        shown.leases[shown.n_leases] = &leases[shown.n_leases];
        shown.n_leases += lh_cs_showing_lease(p->replica, &leases[shown.n_leases]);
    }
    shown.session = lh_cs_session_id(cs);
    m.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SHOWN;
    m.shown = &shown;
    lh_cs_send(cs, &m);
    free(shown.leases);
    free(leases);
}
