/* Jobs, one after another: their order, and what is true when one has ended. What each does is in
 * steps.c. */
#include "chunkserver/log/jobs.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "chunkserver/log/frozen.h"
#include "chunkserver/log/internal.h"
#include "chunkserver/log/rewrite.h"
#include "chunkserver/log/scan.h"
#include "chunkserver/log/space.h"
#include "chunkserver/log/steps.h"
#include "chunkserver/log/tables.h"

#include <inttypes.h>
#include <stdlib.h>

/* A log that was cut, or rewritten: nothing lies behind its end. */
static void read_again(struct lh_cs_replica *r)
{
    if (r->state != LH_CS_REPLICA_TRUNCATING && r->state != LH_CS_REPLICA_FROZEN)
        return; /* lost meanwhile */
    r->torn = false;
    lh_cs_thawed(r);
    if (r->header.sealed)
        r->state = LH_CS_REPLICA_READY;
    else
        lh_cs_scan_start(r);
}

static void rewritten(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    bool recorded = r->unrecorded;
    struct lh_cs_job seal = *j;

    if (r->state != LH_CS_REPLICA_FROZEN)
        return; /* it is damaged, or to be removed */
    LH_MARK("replica-rewritten");
    r->header = lh_cs_rewriting_header(j);
    r->in_doubt = r->header_unsynced = r->header_refused = r->unrecorded = false;
    r->synced = r->written;
    read_again(r);
    if (!recorded)
        return;
    seal.owner = r->active->frozen.seal.owner;
    seal.session = r->active->frozen.seal.session;
    seal.version = r->header.version;
    if (seal.owner != NULL)
        seal.owner(r, &seal, LH_OK);
}

/* What is true once the job is done, before its owner hears of it. */
static void apply(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    switch (j->kind) {
    case LH_CS_JOB_CREATE:
        r->writers_known = true;
        r->in_doubt = r->in_doubt && r->anew;   /* that was the file before, which is gone */
        if (r->state == LH_CS_REPLICA_CREATING) /* not to be removed meanwhile */
            r->state = LH_CS_REPLICA_READY;
        lh_cs_space_given_back(r);
        lh_cs_space_grows(r);
        break;
    case LH_CS_JOB_ADOPT:
        /* The barrier kept later bytes from being written meanwhile. */
        r->synced = r->written;
        break;
    case LH_CS_JOB_CONFIRM:
        if (r->synced < j->length)
            r->synced = j->length;
        r->incomplete = false;
        break;
    case LH_CS_JOB_SEAL:
        if (r->state == LH_CS_REPLICA_FROZEN)
            r->state = LH_CS_REPLICA_READY;
        r->unrecorded = r->header_refused = false;
        lh_cs_thawed(r);
        r->end = r->written = r->synced = j->length;
        r->checksum = j->checksum;
        r->incomplete = false;
        lh_cs_replica_note_committed(r, j->length);
        lh_cs_replica_readable(r);
        lh_cs_space_rests(r);
        if (r->writers_known && r->state == LH_CS_REPLICA_READY)
            lh_cs_table_keep(r);
        break;
    case LH_CS_JOB_TRUNCATE:
        r->header_refused = false;
        read_again(r);
        break;
    case LH_CS_JOB_COPY:
        if (r->state == LH_CS_REPLICA_READY) /* not lost, not to be removed meanwhile */
            lh_cs_scan_start(r);
        break;
    case LH_CS_JOB_KEEP:
        if (r->in_doubt)
            break; /* by another word of the kernel, meanwhile */
        r->synced = r->written;
        if (r->state == LH_CS_REPLICA_READY)
            r->logs->users->durable(r);
        else
            lh_cs_kept(r);
        break;
    case LH_CS_JOB_REWRITE:
        rewritten(r, j);
        break;
    case LH_CS_JOB_COMPARE:
    case LH_CS_JOB_TRIM:
    case LH_CS_JOB_LOSE:
    case LH_CS_JOB_REMOVE:
        break;
    }
}

static void job_free(struct lh_cs_job *j)
{
    lh_cs_rewriting_free(j->rewriting);
    free(j);
}

static void answer(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    if (j->owner != NULL)
        j->owner(r, j, error);
}

/* The running job ended; the replica may be freed here. */
static void end(struct lh_cs_replica *r, int error)
{
    struct lh_cs_active *mo = lh_cs_move(r);
    struct lh_cs_job *j = mo->jobs;

    mo->jobs = j->after;
    mo->job_running = false;
    if (error == LH_OK)
        apply(r, j);
    if (error != LH_OK && (r->anew || r->returning) && j->kind == LH_CS_JOB_CREATE) {
        lh_cs_put_old_back(r, error);
        answer(r, j, error);
        job_free(j);
        lh_cs_replica_pump(r);
        return;
    }
    bool failed_create = j->kind == LH_CS_JOB_CREATE && error != LH_OK;
    enum lh_cs_create_left left = failed_create ? lh_cs_create_left(j) : LH_CS_LEFT_NOTHING;
    bool still_there = left == LH_CS_LEFT_WHAT_WAS_THERE;
    bool half_made = left == LH_CS_LEFT_NO_HEADER;
    bool unremoved = j->kind == LH_CS_JOB_REMOVE && error != LH_OK && error != LH_ERR_NOT_FOUND;
    bool gone = (j->kind == LH_CS_JOB_REMOVE && !unremoved) ||
                (failed_create && !half_made && !still_there);
    if (half_made) {
        r->state = LH_CS_REPLICA_REMOVING;
        lh_cs_replica_submit(r, (struct lh_cs_job){.kind = LH_CS_JOB_REMOVE});
    }
    /* Its file is there, in whatever state: it is not forgotten, so that it can be removed later,
     * or replaced. */
    if (unremoved)
        LH_MARK("disk-remove-fails");
    if (unremoved || still_there) {
        r->state = LH_CS_REPLICA_LOST;
        r->headless = true;
    }
    if (failed_create)
        LH_MARK("disk-create-fails");
    if (error != LH_OK && j->kind != LH_CS_JOB_CREATE && j->kind != LH_CS_JOB_REMOVE) {
        LH_MARK("disk-job-fails");
        lh_cs_job_refused(r, j, error);
    }
    answer(r, j, error);
    job_free(j);
    if (gone) {
        lh_cs_replica_free(r);
        return;
    }
    lh_cs_replica_pump(r);
}

bool lh_cs_jobs_ready(const struct lh_cs_replica *r)
{
    const struct lh_cs_active *mo = r->active;

    if (mo->writing > 0 || mo->syncing > 0 || mo->space.reserving)
        return false;
    if (mo->jobs->kind == LH_CS_JOB_REMOVE || mo->jobs->kind == LH_CS_JOB_CREATE)
        return r->outstanding == 0; /* no read of the file that goes */
    return true;
}

bool lh_cs_jobs_have(const struct lh_cs_replica *r, enum lh_cs_job_kind kind)
{
    for (const struct lh_cs_job *j = r->active->jobs; j != NULL; j = j->after)
        if (j->kind == kind)
            return true;
    return false;
}

void lh_cs_jobs_drop_waiting(struct lh_cs_replica *r, int error)
{
    struct lh_cs_active *mo = lh_cs_move(r);
    struct lh_cs_job **rest = mo->job_running ? &mo->jobs->after : &mo->jobs;
    struct lh_cs_job *dropped = *rest;

    *rest = NULL;
    while (dropped != NULL) {
        struct lh_cs_job *j = dropped;
        dropped = j->after;
        answer(r, j, error);
        job_free(j);
    }
}

void lh_cs_jobs_begin(struct lh_cs_replica *r)
{
    struct lh_cs_active *mo = lh_cs_move(r);

    mo->job_running = true;
    mo->jobs->before = r->header;
    if (mo->jobs->next(r, mo->jobs))
        end(r, LH_OK);
}

static void step_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = t->replica;
    struct lh_cs_job *j = r->active->jobs;
    uint8_t chain[LH_BATCH_CHAIN_BYTES];

    LH_ASSERT(r->active->job_running && j != NULL);
    j->done = t->op;
    if (j->rewriting != NULL)
        error = lh_cs_rewriting_done(j, t, error, bytes);
    else if (t->op == LH_DISK_READ && error == LH_OK) /* less than was asked for: a shorter file */
        j->matches =
            lh_buf_read(bytes, 0, chain, sizeof chain) &&
            (lh_get64(chain) == j->checksum || LH_PLANTED("chain-below-the-end-not-compared"));
    if (t->op == LH_DISK_CREATE && error == LH_ERR_ALREADY_EXISTS) {
        lh_fx_log(r->logs->cs->fx, LH_ERROR,
            "chunk %" PRIu64 ": its file exists already; not touched", r->chunk);
    }
    if (t->op == LH_DISK_SYNC && error == LH_OK && j->rewriting == NULL)
        r->header_unsynced = false;
    if (t->op == LH_DISK_REPLACE && error == LH_OK)
        r->anew = r->in_doubt = false;
    if (t->op == LH_DISK_RESERVE)
        error = LH_OK; /* it concerns no byte of the log */
    if (error == LH_OK && r->returning && j->kind != LH_CS_JOB_REMOVE)
        error = LH_ERR_CANCELLED; /* its next step would be of the old file */
    if (error != LH_OK || j->next(r, j))
        end(r, error);
}

const struct lh_cs_disk_user lh_cs_job_disk = {.done = step_done, .frees = true};

void lh_cs_replica_submit(struct lh_cs_replica *r, struct lh_cs_job job)
{
    struct lh_cs_active *mo = lh_cs_move(r);
    struct lh_cs_job *j = lh_alloc(sizeof *j);

    *j = job;
    j->barrier = r->end;
    mo->filling = NULL; /* what is accepted from now on goes behind the barrier */
    j->next = lh_cs_job_first_steps[j->kind];
    j->after = NULL;
    if (j->kind == LH_CS_JOB_ADOPT && j->version > r->adopting)
        r->adopting = j->version;
    struct lh_cs_job **last = &mo->jobs;
    while (*last != NULL)
        last = &(*last)->after;
    *last = j;
}

bool lh_cs_job_asked_again(struct lh_cs_replica *r, const struct lh_cs_job *job)
{
    for (struct lh_cs_job *j = r->active->jobs; j != NULL; j = j->after) {
        if (j->kind == job->kind && j->owner == job->owner && j->version == job->version) {
            j->session = job->session;
            return true;
        }
    }
    return false;
}

void lh_cs_jobs_asked_again(struct lh_cs_replica *r, uint64_t session)
{
    for (struct lh_cs_job *j = r->active->jobs; j != NULL; j = j->after)
        j->session = session;
}

void lh_cs_jobs_free(struct lh_cs_replica *r)
{
    while (r->active->jobs != NULL) {
        struct lh_cs_job *j = r->active->jobs;
        lh_cs_move(r)->jobs = j->after;
        job_free(j);
    }
}
