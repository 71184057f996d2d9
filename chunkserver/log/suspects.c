/* FAIL-5: what one failed sync says of the other logs of its server.
 *
 * A file system that shuts itself down may have called the last syncs before that a success. And
 * what was never synced goes when it is mounted again, though the machine was up all the time. So
 * when a sync has failed, each log that can be meant is synced once, some at a time. Where that
 * fails, too, the log is in doubt as the first one is; where it succeeds all is well. */
#include "chunkserver/log/internal.h"
#include "chunkserver/log/jobs.h"

/* The word beside each replica in the map: when its last sync succeeded, in ms of the core's clock;
 * 0: none has. That it begins again after 49 days can only mean a sync too many. */
static uint32_t moment(const struct lh_cs_logs *logs)
{
    uint32_t ms = (uint32_t)(logs->cs->now.ns / 1000000);

    return ms == 0 ? 1 : ms;
}

void lh_cs_suspects_synced(struct lh_cs_replica *r)
{
    *lh_idmap_word(&r->logs->replicas, r->chunk) = moment(r->logs);
    r->logs->internal->suspects.synced = true;
}

static bool was_synced_lately(const struct lh_cs_replica *r)
{
    uint32_t at = *lh_idmap_word(&r->logs->replicas, r->chunk);

    return at != 0 && moment(r->logs) - at <= r->logs->cs->config.bounds.doubt_reach_ms;
}

static bool is_asked(const struct lh_cs_replica *r)
{
    for (const struct lh_cs_job *j = r->active->jobs; j != NULL; j = j->after)
        if (j->kind == LH_CS_JOB_KEEP)
            return true;
    return false;
}

static void ask(struct lh_cs_replica *r)
{
    bool kept = r->state == LH_CS_REPLICA_READY || r->state == LH_CS_REPLICA_FROZEN;

    /* What lacks bytes of a sealed log is found by its checksum, and copied. */
    if (!kept || r->header.sealed || r->in_doubt || r->anew || r->returning || is_asked(r) ||
        (r->written == r->synced && !was_synced_lately(r)))
        return;
    LH_MARK("synced-on-anothers-account");
    lh_cs_replica_submit(r, (struct lh_cs_job){.kind = LH_CS_JOB_KEEP});
    lh_cs_replica_pump(r);
}

static void ask_some(void *core, struct lh_timer *timer)
{
    struct lh_cs_logs *logs = LH_OWNER(timer, struct lh_cs_logs_internal, suspects.timer)->logs;
    struct lh_cs_logs_internal *in = logs->internal;
    struct lh_cs_replica *r = NULL;

    (void)core;
    for (uint64_t left = logs->cs->config.bounds.doubt_share; left > 0; left--) {
        r = lh_idmap_from(&logs->replicas, in->suspects.next);
        if (r == NULL)
            break;
        in->suspects.next = r->chunk + 1;
        ask(r);
    }
    if (r != NULL && in->suspects.next != 0)
        lh_timer_set(&logs->cs->timers, timer, logs->cs->now);
}

void lh_cs_logs_suspect(struct lh_cs_logs *logs)
{
    struct lh_cs_logs_internal *in = logs->internal;

    if (!in->suspects.synced || LH_PLANTED("failed-sync-of-one-file-alone"))
        return;
    in->suspects.synced = false;
    in->suspects.next = 0;
    lh_timer_set(&logs->cs->timers, &in->suspects.timer, logs->cs->now);
}

void lh_cs_suspects_init(struct lh_cs_logs *logs)
{
    logs->replicas.words = true;
    logs->internal->suspects.timer.fire = ask_some;
}
