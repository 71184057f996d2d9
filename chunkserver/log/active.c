/* What a log has only while something goes on with it, and when that is over. */
#include "chunkserver/log/internal.h"

#include "base/alloc.h"
#include "chunkserver/log/frozen.h"
#include "chunkserver/log/jobs.h"
#include "chunkserver/log/scan.h"
#include "chunkserver/log/space.h"
#include "chunkserver/log/tables.h"

#include <stdlib.h>

const struct lh_cs_active lh_cs_idle;

/* Is nothing lost if it is forgotten when the last sync began? A log rests some time after it was
 * written to: then the pause is over that begins there. If that is not so, it is remembered. */
static bool syncs_are_past(const struct lh_cs_replica *r)
{
    const struct lh_cs_active *mo = r->active;
    const struct lh_chunkserver_bounds *b = &r->logs->cs->config.bounds;
    struct lh_instant paused = lh_instant_add(mo->sync_begun_at, lh_milliseconds(b->sync_pause_ms));
    struct lh_instant rests =
        lh_instant_add(mo->space.grown_at, lh_milliseconds(b->reserve_idle_ms));

    return mo->sync_begun_at.ns == 0 || r->header.sealed || !lh_instant_before(rests, paused);
}

/* What was reserved and lies within the log says nothing any more. */
bool lh_cs_is_idle(const struct lh_cs_replica *r)
{
    const struct lh_cs_active *mo = r->active;

    return mo->writes == NULL && mo->writing == 0 && mo->syncing == 0 && mo->jobs == NULL &&
           mo->scan == NULL && !mo->space.growing && !mo->space.reserving &&
           mo->space.tried <= r->end && !mo->table.kept && !mo->frozen.listed && syncs_are_past(r);
}

void lh_cs_stir(struct lh_cs_replica *r)
{
    struct lh_cs_logs_internal *in = r->logs->internal;

    if (r->changed)
        return;
    r->changed = true;
    LH_GROW(in->changed, in->changed_capacity, in->changed_count + 1);
    in->changed[in->changed_count++] = r->chunk;
}

struct lh_cs_active *lh_cs_move(struct lh_cs_replica *r)
{
    struct lh_cs_active *mo = (struct lh_cs_active *)(uintptr_t)r->active;

    if (r->active == &lh_cs_idle) {
        mo = lh_alloc(sizeof *mo);
        mo->replica = r;
        r->active = mo;
    }
    lh_cs_stir(r);
    return mo;
}

static void forget(struct lh_cs_replica *r)
{
    free((void *)(uintptr_t)r->active);
    r->active = &lh_cs_idle;
    if (!r->writers_known)
        r->sync_began =
            false; /* nothing is appended to it: should it grow again, it begins again */
}

void lh_cs_active_free(struct lh_cs_replica *r)
{
    if (r->active == &lh_cs_idle)
        return;
    lh_cs_move(r)->space.tried = 0; /* nothing is to be given back */
    lh_cs_space_rests(r);
    lh_cs_table_leave(r);
    lh_cs_thawed(r);
    lh_cs_jobs_free(r);
    lh_cs_replica_drop_unwritten(r);
    lh_cs_scan_stop(r);
    forget(r);
}

void lh_cs_logs_settle(struct lh_cs_logs *logs)
{
    struct lh_cs_logs_internal *in = logs->internal;

    for (size_t i = 0; i < in->changed_count; i++) {
        struct lh_cs_replica *r = lh_cs_replica_find(logs, in->changed[i]);
        if (r == NULL)
            continue; /* removed */
        r->changed = false;
        if (r->active != &lh_cs_idle && lh_cs_is_idle(r))
            forget(r);
        logs->users->settled(r);
    }
    in->changed_count = 0;
}
