/* REC-6, FAIL-5: what becomes of a replica whose disk has refused a change or a sync.
 *
 * A refused write says nothing of what was written before. So the replica is frozen: nothing of
 * it changes any more, and all of it can be read. The file is synced once. If that succeeds,
 * what was written is on the disk, and it is tried now and again whether the disk takes changes.
 * If it fails, the file is never written to again: what it holds is rewritten in a new one
 * (rewrite.c). */
#include "chunkserver/log/frozen.h"

#include "base/assert.h"
#include "chunkserver/log/internal.h"
#include "chunkserver/log/jobs.h"
#include "chunkserver/log/scan.h"
#include "chunkserver/log/tables.h"
#include "proto/leasehold.pb-c.h"

#include <inttypes.h>

/* ------------------------------------------------------------------------------------------------
 * Those that wait for their disks, in the order in which they came. */

static void set_timer(struct lh_cs_logs *logs, struct lh_instant at)
{
    struct lh_timer *timer = &logs->internal->frozen.timer;

    if (!lh_timer_is_set(timer) || lh_instant_before(at, timer->at))
        lh_timer_set(&logs->cs->timers, timer, at);
}

static void wait_for_disk(struct lh_cs_replica *r)
{
    struct lh_cs_active *mo = lh_cs_move(r);

    if (!mo->frozen.listed) {
        mo->frozen.listed = true;
        mo->frozen.waits = 0;
        DL_APPEND2(r->logs->internal->frozen.list, mo, frozen.before, frozen.after);
    }
    struct lh_duration pause = {0}; /* the first time */
    if (mo->frozen.waits > 0)
        pause = lh_cs_refusal_pause(&r->logs->cs->config.bounds, mo->frozen.waits - 1);
    mo->frozen.again_at = lh_instant_add(r->logs->cs->now, pause);
    mo->frozen.waits++;
    set_timer(r->logs, mo->frozen.again_at);
}

void lh_cs_read_later(struct lh_cs_replica *r, uint32_t before)
{
    wait_for_disk(r);
    struct lh_cs_active *mo = lh_cs_move(r);
    r->read_waits = true;
    mo->frozen.again_at =
        lh_instant_add(r->logs->cs->now, lh_cs_refusal_pause(&r->logs->cs->config.bounds, before));
    set_timer(r->logs, mo->frozen.again_at);
}

void lh_cs_thawed(struct lh_cs_replica *r)
{
    if (r->read_waits)
        lh_cs_scan_stop(r);
    r->read_waits = false;
    if (!r->active->frozen.listed)
        return;
    struct lh_cs_active *mo = lh_cs_move(r);
    mo->frozen.listed = false;
    DL_DELETE2(r->logs->internal->frozen.list, mo, frozen.before, frozen.after);
}

/* Asks the disk again, by the change that the replica waits for. */
static void ask_again(struct lh_cs_replica *r)
{
    struct lh_cs_job job = {.kind = LH_CS_JOB_TRUNCATE, .length = r->end, .at_start = r->torn};

    lh_cs_move(r)->frozen.again_at = LH_INSTANT_NEVER; /* until that has failed */
    if (r->read_waits) {
        r->read_waits = false;
        lh_cs_scan_again(r);
        return;
    }
    if (r->in_doubt) {
        job = (struct lh_cs_job){
            .kind = LH_CS_JOB_REWRITE, .length = r->end, .checksum = r->checksum};
    } else if (r->unrecorded) {
        const struct lh_cs_sealing *seal = &r->active->frozen.seal;
        job = (struct lh_cs_job){.kind = LH_CS_JOB_SEAL,
            .owner = seal->owner,
            .session = seal->session,
            .version = r->header.version,
            .length = r->header.sealed_length,
            .checksum = r->header.sealed_checksum};
    }
    lh_cs_replica_submit(r, job);
    lh_cs_replica_pump(r);
}

static void look(void *core, struct lh_timer *timer)
{
    struct lh_cs_logs *logs = LH_OWNER(timer, struct lh_cs_logs_internal, frozen.timer)->logs;
    struct lh_cs_active *mo, *next;
    struct lh_instant soonest = LH_INSTANT_NEVER;

    (void)core;
    DL_FOREACH_SAFE2(logs->internal->frozen.list, mo, next, frozen.after) {
        if (!lh_instant_reached(logs->cs->now, mo->frozen.again_at))
            soonest = lh_instant_min(soonest, mo->frozen.again_at);
        else if (mo->jobs == NULL || mo->replica->read_waits)
            ask_again(mo->replica);
        else
            wait_for_disk(mo->replica);
    }
    if (soonest.ns != LH_INSTANT_NEVER.ns)
        set_timer(logs, soonest);
}

void lh_cs_frozen_init(struct lh_cs_logs *logs)
{
    logs->internal->frozen.timer.fire = look;
}

/* ------------------------------------------------------------------------------------------------
 * Freezing. */

/* What was accepted and not written is given up. */
static void take_back(struct lh_cs_replica *r)
{
    lh_cs_replica_drop_unwritten(r);
    if (r->written == r->end)
        return;
    (void)lh_cs_table_cut(r, r->written);
    r->end = r->written;
    r->checksum = r->active->written_checksum;
    if (r->committed > r->end)
        r->committed = r->end;
}

/* False: it has no log that could be kept, or is frozen already. */
static bool freeze(struct lh_cs_replica *r, int error)
{
    if (r->state != LH_CS_REPLICA_READY && r->state != LH_CS_REPLICA_TRUNCATING)
        return false;
    take_back(r);
    LH_MARK("replica-frozen");
    lh_fx_log(r->logs->cs->fx, LH_WARN,
        "chunk %" PRIu64 ": a change was refused (%s): this replica of %" PRIu64
        " bytes can only be read until its disk takes changes again",
        r->chunk, lh_error_text(error), r->end);
    r->state = LH_CS_REPLICA_FROZEN;
    r->logs->users->cut_back(r, error);
    lh_cs_jobs_drop_waiting(r, error);
    lh_cs_scan_loaded(r);
    return true;
}

void lh_cs_freeze(struct lh_cs_replica *r, int error)
{
    if (r->returning)
        return; /* that was the new file's */
    if (r->anew)
        lh_cs_put_old_back(r, error);
    else if (freeze(r, error))
        lh_cs_replica_submit(r, (struct lh_cs_job){.kind = LH_CS_JOB_KEEP});
}

void lh_cs_doubt(struct lh_cs_replica *r, int error)
{
    if (r->returning)
        return; /* that was the new file's */
    if (r->anew) {
        lh_cs_put_old_back(r, error);
        return;
    }
    if (!r->in_doubt)
        LH_MARK("replica-in-doubt");
    r->in_doubt = true;
    lh_cs_suspects_ask(r->logs);
    if (r->state == LH_CS_REPLICA_FROZEN)
        lh_cs_jobs_drop_waiting(r, error); /* a KEEP would sync it */
    else if (!freeze(r, error))
        return; /* it is damaged, or to be removed: what waits goes on */
    wait_for_disk(r);
}

void lh_cs_put_old_back(struct lh_cs_replica *r, int error)
{
    if (r->state == LH_CS_REPLICA_REMOVING || r->returning)
        return;
    LH_MARK("old-file-is-put-back");
    r->returning = true;
    r->logs->users->cut_back(r, error);
    lh_cs_thawed(r);
    lh_cs_replica_drop_unwritten(r);
    lh_cs_jobs_drop_waiting(r, error);
    lh_cs_scan_stop(r);
    lh_cs_table_forget(r);
    r->anew = r->header_unsynced = r->header_refused = false;
    r->end = r->written = r->synced = r->committed = 0;
    r->state = LH_CS_REPLICA_LOADING;
    lh_cs_old_is_read(r);
}

void lh_cs_old_is_read(struct lh_cs_replica *r)
{
    if (!r->returning || r->state != LH_CS_REPLICA_LOADING || r->outstanding > 0 ||
        r->active->job_running)
        return;
    r->returning = false;
    lh_cs_scan_load(r);
}

void lh_cs_kept(struct lh_cs_replica *r)
{
    if (r->state == LH_CS_REPLICA_FROZEN)
        wait_for_disk(r);
}

/* ------------------------------------------------------------------------------------------------
 * Jobs that were refused. */

/* What a header says counts once it is on the disk. Which of the two slots is there for sure stays
 * as it is. */
static void put_header_back(struct lh_cs_replica *r, const struct lh_cs_job *j)
{
    uint64_t generation = r->header.generation;

    r->header = j->before;
    r->header.generation = generation; /* it may be on the disk: no number comes twice */
    if (j->done == LH_DISK_WRITE) {    /* a sync covers nothing of it: its slot is the next one's */
        r->header_unsynced = j->unsynced_before;
        r->header_refused =
            !LH_PLANTED("refused-header-stands") && !LH_PLANTED("header-number-comes-twice");
        if (!r->header_unsynced)
            r->header.generation++;
        if (LH_PLANTED("header-number-comes-twice"))
            r->header.generation = j->before.generation;
    }
    r->incomplete = r->header.copying;
}

void lh_cs_job_refused(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    bool in_memory = r->unrecorded;

    if (r->state == LH_CS_REPLICA_REMOVING)
        return;
    if (r->state == LH_CS_REPLICA_LOST) { /* the mark of that stays */
        if (j->kind == LH_CS_JOB_ADOPT || j->kind == LH_CS_JOB_SEAL)
            put_header_back(r, j);
        if (j->done == LH_DISK_SYNC)
            lh_cs_doubt(r, error);
        return;
    }
    if (j->kind == LH_CS_JOB_COMPARE) { /* a read: it says nothing, and the scrub asks again */
        r->logs->users->differs(r);
        return;
    }
    if (j->kind == LH_CS_JOB_REWRITE) {
        wait_for_disk(r);
        return;
    }
    put_header_back(r, j);
    if (j->kind == LH_CS_JOB_TRUNCATE)
        r->torn = j->at_start;
    if (j->done == LH_DISK_SYNC)
        lh_cs_doubt(r, error);
    else if (r->state == LH_CS_REPLICA_FROZEN)
        wait_for_disk(r);
    else
        lh_cs_freeze(r, error);
    /* The master's word is durable. */
    if (j->kind == LH_CS_JOB_SEAL && !in_memory && !r->incomplete &&
        r->state == LH_CS_REPLICA_FROZEN && r->end >= j->length)
        lh_cs_replica_seal_kept(r, j);
}

void lh_cs_replica_seal_kept(struct lh_cs_replica *r, const struct lh_cs_job *job)
{
    struct lh_cs_active *mo = lh_cs_move(r);

    LH_ASSERT(r->state == LH_CS_REPLICA_FROZEN && !r->incomplete && job->length <= r->end);
    LH_MARK("sealed-in-memory");
    mo->frozen.seal = (struct lh_cs_sealing){.owner = job->owner, .session = job->session};
    (void)lh_cs_table_cut(r, job->length);
    r->unrecorded = true;
    r->header.sealed = true;
    r->header.version = job->version;
    r->header.sealed_length = job->length;
    r->header.sealed_checksum = job->checksum;
    r->end = r->written = job->length;
    if (r->synced > r->end)
        r->synced = r->end;
    r->checksum = job->checksum;
    lh_cs_replica_fence(r, job->version);
    if (r->committed < r->end)
        r->committed = r->end;
    lh_cs_replica_readable(r);
}

void lh_cs_replica_seal_session(struct lh_cs_replica *r, uint64_t session)
{
    if (r->unrecorded)
        lh_cs_move(r)->frozen.seal.session = session;
}
