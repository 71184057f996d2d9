/* FAIL-5: what one failed sync says of the other logs of its server.
 *
 * A file system that shuts itself down may have called the last syncs before that a success. It
 * takes none any more. So when a sync has failed, or the probe, each open log is synced once that
 * was synced since the last probe but one that succeeded began, some at a time. Where that fails,
 * too, the log is in doubt as the first one is; where it succeeds all is well. What was synced
 * before is true: the file system has taken changes after it. The last probe itself may have been
 * lied about. */
#include "chunkserver/log/internal.h"
#include "chunkserver/log/jobs.h"

void lh_cs_suspects_synced(struct lh_cs_replica *r)
{
    struct lh_cs_logs_internal *in = r->logs->internal;

    *lh_idmap_word(&r->logs->replicas, r->chunk) = in->suspects.probe + 1;
    in->suspects.synced = true;
}

/* The word beside it in the map: while which probe was the last its sync succeeded, and one more;
 * 0: none has. */
static bool was_synced_lately(const struct lh_cs_replica *r)
{
    return *lh_idmap_word(&r->logs->replicas, r->chunk) > r->logs->internal->suspects.true_before;
}

static void ask(struct lh_cs_replica *r)
{
    bool kept = r->state == LH_CS_REPLICA_READY || r->state == LH_CS_REPLICA_FROZEN;

    /* What a sealed log lacks is found by its checksum, and copied. */
    if (!kept || r->header.sealed || r->in_doubt || r->anew || r->returning ||
        lh_cs_jobs_have(r, LH_CS_JOB_KEEP) || !was_synced_lately(r))
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

void lh_cs_suspects_ask(struct lh_cs_logs *logs)
{
    struct lh_cs_logs_internal *in = logs->internal;

    if (!in->suspects.synced || LH_PLANTED("failed-sync-of-one-file-alone"))
        return;
    in->suspects.synced = false;
    in->suspects.next = 0;
    lh_timer_set(&logs->cs->timers, &in->suspects.timer, logs->cs->now);
}

void lh_cs_logs_probe_begins(struct lh_cs_logs *logs)
{
    logs->internal->suspects.probe++;
}

void lh_cs_logs_probe_ended(struct lh_cs_logs *logs, bool well)
{
    struct lh_cs_logs_internal *in = logs->internal;

    if (!well) {
        lh_cs_suspects_ask(logs);
        return;
    }
    in->suspects.true_before = in->suspects.probed;
    in->suspects.probed = in->suspects.probe;
}

void lh_cs_suspects_init(struct lh_cs_logs *logs)
{
    logs->replicas.words = true;
    logs->internal->suspects.timer.fire = ask_some;
}
