/* All primary parts of a server. */
#include "chunkserver/primary/internal.h"

#include "base/alloc.h"
#include "chunkserver/primary/leases.h"
#include "chunkserver/primary/members.h"
#include "chunkserver/primary/pair.h"
#include "chunkserver/primary/recovery.h"
#include "chunkserver/primary/streams.h"

#include <stdlib.h>

struct lh_cs_primaries *lh_cs_primaries_create(struct lh_cs_host *cs, struct lh_cs_logs *logs)
{
    struct lh_cs_primaries *primaries = lh_alloc(sizeof *primaries);

    primaries->cs = cs;
    primaries->logs = logs;
    lh_cs_streams_init(primaries);
    return primaries;
}

void lh_cs_primaries_destroy(struct lh_cs_primaries *primaries)
{
    lh_batch_stamper_deinit(&primaries->stamper);
    lh_cs_pairs_deinit(primaries);
    lh_cs_leases_deinit(primaries);
    lh_timer_unset(&primaries->cs->timers, &primaries->streams.alive);
    free(primaries);
}

void lh_cs_primaries_discount_pause(struct lh_cs_primaries *primaries, struct lh_duration slept)
{
    struct lh_cs_primary *p;

    DL_FOREACH(primaries->all, p) {
        for (size_t i = 0; i < p->member_count; i++) {
            struct lh_cs_member *m = &p->members[i];
            lh_cs_host_discount_pause(primaries->cs, &m->progress_at, &m->discounted, slept);
        }
        lh_cs_primary_set_timer(p);
    }
}

void lh_cs_primaries_abandon(struct lh_cs_primaries *primaries, int error)
{
    struct lh_cs_primary *p, *next;

    DL_FOREACH_SAFE(primaries->all, p, next) {
        LH_MARK("lease-given-up-for-stalled-disk");
        lh_cs_primary_abandon(p, error);
    }
}

void lh_cs_primaries_continue(struct lh_cs_primaries *primaries)
{
    struct lh_cs_primary *p, *next;

    DL_FOREACH_SAFE(primaries->all, p, next) {
        if (lh_holder_version(primaries->cs->holder, p->replica->chunk) != p->version) {
            LH_MARK("primary-not-continued");
            lh_cs_primary_abandon(p, LH_ERR_NOT_PRIMARY);
            continue;
        }
        if (!lh_cs_primary_may_act(p)) {
            lh_cs_primary_run_out(p);
            continue;
        }
        LH_MARK("primary-continued");
        lh_cs_primary_set_timer(p);
        if (p->state >= LH_CS_PRIMARY_OPEN)
            lh_cs_primary_report_recovered(p); /* the session before may have taken it along */
    }
}

void lh_cs_primaries_extended(struct lh_cs_primaries *primaries)
{
    struct lh_cs_primary *p;

    DL_FOREACH(primaries->all, p) {
        lh_cs_primary_set_timer(p);
    }
}

struct lh_cs_primary_figures lh_cs_primaries_figures(const struct lh_cs_primaries *primaries)
{
    struct lh_cs_primary_figures f = {.pending_bytes = primaries->streams.pending_bytes};
    const struct lh_cs_primary *p;

    DL_FOREACH(primaries->all, p) {
        f.primaries++;
        f.open += p->state == LH_CS_PRIMARY_OPEN;
    }
    return f;
}
