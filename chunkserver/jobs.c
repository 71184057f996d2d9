/* Jobs: changes of a replica's header, of its file's length or of its existence. A job runs alone,
 * after every byte that was accepted before it has been written and before any byte after it. */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/internal.h"

#include <stdlib.h>
#include <string.h>

void replica_submit(struct replica *r, struct job job)
{
    struct job *j = lh_alloc(sizeof *j);

    *j = job;
    j->barrier = r->end;
    r->filling = NULL; /* what is accepted from now on goes behind the barrier */
    j->step = 0;
    j->next = NULL;
    if (j->kind == JOB_ADOPT && j->version > r->adopting)
        r->adopting = j->version;
    struct job **last = &r->jobs;
    while (*last != NULL)
        last = &(*last)->next;
    *last = j;
}

static void job_write_header(struct replica *r)
{
    /* One of the slots is on the disk for sure: the other one is written. */
    r->header.generation += r->header_unsynced ? 2 : 1;
    r->header_unsynced = true;
    r->header.committed = replica_known_committed(r);
    struct lh_buf slot = lh_chunk_header_encode(&r->header);
    disk(r->cs, TICKET_JOB, r, NULL, LH_DISK_WRITE, lh_chunk_header_offset(&r->header), 0, &slot);
}

static void job_sync(struct replica *r)
{
    disk(r->cs, TICKET_JOB, r, NULL, LH_DISK_SYNC, 0, 0, NULL);
}

static void job_truncate(struct replica *r, uint64_t length)
{
    space_given_back(r);
    disk(r->cs, TICKET_JOB, r, NULL, LH_DISK_TRUNCATE, 0, LH_LOG_START + length, NULL);
}

static bool marks_cut(const struct replica *r, const struct job *j)
{
    return j->at_start && !r->header.cut && !LH_PLANTED("cut-log-gives-a-length");
}

/* Does the header say already that the log was equal at `length`? So it is with a chunk that is
 * new. */
static bool vouches_for(const struct replica *r, uint64_t length)
{
    return r->header.equal_length == length && r->header.committed <= length && !r->header.cut &&
           memcmp(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES) == 0;
}

/* Must the header be on the disk before equality at `length` is confirmed? It names the boot, for
 * the doubt of REC-2a, and if that is there already only a length changes, to vouch for more of
 * what is on the disk. So while no machine goes down, a change of versions costs one sync. */
static bool doubt_ends(const struct replica *r, uint64_t length)
{
    return r->header.committed > length || r->header.equal_length > length ||
           memcmp(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES) != 0;
}

/* The version was written (step 1), or it was there before: is everything below it on the disk? */
static bool adopt_needs_sync(const struct replica *r, int step)
{
    if (LH_PLANTED("confirmed-before-durable"))
        return false;
    if (step == 0 && LH_PLANTED("confirmed-with-unsynced-writes"))
        return false;
    return step == 1 || !r->header_synced || r->synced < r->end;
}

/* The log first: a header that vouches for bytes must not get to the disk before them. */
static bool log_goes_first(const struct replica *r, uint64_t length)
{
    return r->synced < length && !LH_PLANTED("equality-header-before-log") &&
           !LH_PLANTED("confirmed-with-unsynced-writes");
}

/* What was known to be committed behind `length` is not any more. */
static void forget_committed(struct replica *r, uint64_t length)
{
    if (r->header.committed > length)
        r->header.committed = length;
    if (r->committed > length)
        r->committed = length;
}

/* REC-4: whatever the header says besides, this is nobody's full member. Nothing that is here
 * counts as equal any more, so a torn tail may be anywhere. */
static void mark_incomplete(struct replica *r, uint64_t length)
{
    r->header.copying = true;
    r->header.sealed = false;
    r->header.sealed_length = r->header.sealed_checksum = 0;
    r->header.equal_length = 0;
    memset(r->header.equal_boot, 0, LH_BOOT_ID_BYTES);
    forget_committed(r, length);
}

/* The seal is the master's word, also if this server knows of more: a loss was reported (REC-2a),
 * or the master's metadata is an older copy (KEEP-4). */
static void seal_below(struct replica *r, uint64_t length)
{
    uint64_t committed = replica_known_committed(r);

    if (committed <= length)
        return;
    LH_MARK("seal-below-what-was-committed");
    lh_fx_log(r->cs->fx, LH_ERROR,
        "chunk %llu: it is sealed at %llu bytes, and %llu were acknowledged: records are lost",
        (unsigned long long)r->chunk, (unsigned long long)length, (unsigned long long)committed);
    forget_committed(r, length);
}

/* What each kind of job does, step by step. Returns true when there is nothing left to do. */
static bool job_step(struct replica *r, struct job *j)
{
    int step = j->step++;

    switch (j->kind) {
    case JOB_CREATE:
        if (step == 0 && r->headless)
            disk(r->cs, TICKET_JOB, r, NULL, LH_DISK_REMOVE, 0, 0, NULL);
        else if (step == 0 || (step == 1 && r->headless)) {
            r->headless = false;
            j->step = 2;
            disk(r->cs, TICKET_JOB, r, NULL, LH_DISK_CREATE, 0, LH_LOG_START, NULL);
        } else if (step == 2)
            job_write_header(r);
        else if (step == 3)
            job_sync(r);
        else
            return true;
        return false;
    case JOB_ADOPT:
        /* FENCE-1: one sync covers the version and every write accepted below it. */
        if (step == 0 && j->version > r->header.version && !r->header_synced) {
            /* It was read at the start, and may be in the operating system's hands alone. Its other
             * slot is written next. */
            r->header_synced = true;
            j->step = 0;
            job_sync(r);
        } else if (step == 0 && j->version > r->header.version) {
            r->header.version = j->version;
            if (LH_PLANTED("doubt-cleared-by-adopting"))
                memcpy(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES);
            job_write_header(r);
        } else if (step <= 1 && adopt_needs_sync(r, step)) {
            j->step = 2;
            job_sync(r);
        } else {
            return true;
        }
        return false;
    case JOB_CONFIRM:
        if (step == 0 && log_goes_first(r, j->length)) {
            job_sync(r);
        } else if (step <= 1 && !vouches_for(r, j->length)) {
            j->step = doubt_ends(r, j->length) ? 2 : 3;
            r->header.equal_length = j->length;
            r->header.copying = false; /* it has joined (REC-4) */
            r->header.cut = false;
            if (r->header.committed > j->length)
                r->header.committed = j->length; /* lost everywhere, and reported (REC-2a) */
            memcpy(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES);
            job_write_header(r);
        } else if (step == 2 && !LH_PLANTED("confirmed-with-unsynced-writes")) {
            job_sync(r);
        } else {
            r->read_back = false;
            return true;
        }
        return false;
    case JOB_SEAL:
        if (step == 0 && r->end > j->length) {
            job_truncate(r, j->length);
        } else if (step <= 1 && (r->synced < j->length || r->end > j->length) &&
                   !LH_PLANTED("seal-header-before-log")) {
            /* The log first, as in JOB_CONFIRM: nothing is scanned any more below a seal. */
            j->step = 2;
            job_sync(r);
        } else if (step <= 2) {
            j->step = 3;
            seal_below(r, j->length);
            r->header.sealed = true;
            r->header.copying = r->header.cut = false;
            r->header.version = j->version;
            r->header.sealed_length = j->length;
            r->header.sealed_checksum = j->checksum;
            job_write_header(r);
        } else if (step == 3) {
            job_sync(r);
        } else {
            return true;
        }
        return false;
    case JOB_CUT:
        /* A tear cannot be told from rot: from here on this log may be one that lacks something
         * (FAIL-3). Both slots may be new: one of them has to be on the disk. */
        if (step == 0 && j->at_start && !r->header_synced &&
            !LH_PLANTED("cut-log-gives-a-length")) {
            job_sync(r); /* also where it says so already: the process before may have died */
        } else if (step <= 1 && marks_cut(r, j)) {
            j->step = 2;
            r->header.cut = true;
            job_write_header(r);
        } else if (step == 2) {
            job_sync(r);
        } else if (step <= 3) {
            j->step = 4;
            job_truncate(r, j->length);
        } else if (step == 4 && !LH_PLANTED("cut-not-synced")) {
            job_sync(r);
        } else {
            return true;
        }
        return false;
    case JOB_COPY:
        if (step == 0) {
            mark_incomplete(r, j->length);
            job_write_header(r);
        } else if (step == 1 || step == 3) {
            job_sync(r);
        } else if (step == 2 && r->written > j->length) {
            job_truncate(r, j->length);
        } else {
            return true;
        }
        return false;
    case JOB_TRIM:
        if (step > 0)
            return true;
        space_given_back(r);
        disk(r->cs, TICKET_JOB, r, NULL, LH_DISK_RESERVE, 0, 0, NULL);
        return false;
    case JOB_LOSE:
        if (step == 0 && !r->headless) {
            r->header.lost = true;
            job_write_header(r);
        } else if (step <= 1 && !r->headless) {
            j->step = 2;
            job_sync(r);
        } else {
            return true;
        }
        return false;
    case JOB_REMOVE:
        if (step == 0)
            disk(r->cs, TICKET_JOB, r, NULL, LH_DISK_REMOVE, 0, 0, NULL);
        else
            return true;
        return false;
    }
    LH_UNREACHABLE();
}

/* What is true once the job is done, before its origin hears of it. */
static void job_apply(struct replica *r, const struct job *j)
{
    switch (j->kind) {
    case JOB_CREATE:
        r->header_synced = true;
        r->writers_known = true;
        if (r->state == REPLICA_CREATING) /* not to be removed meanwhile */
            r->state = REPLICA_READY;
        space_given_back(r);
        space_grows(r);
        break;
    case JOB_ADOPT:
        /* The barrier kept later bytes from being written meanwhile. */
        r->header_synced = true;
        r->synced = r->written;
        break;
    case JOB_CONFIRM:
        if (r->synced < j->length)
            r->synced = j->length;
        r->incomplete = false;
        break;
    case JOB_SEAL:
        r->end = r->written = r->synced = j->length;
        r->checksum = j->checksum;
        r->incomplete = false;
        replica_note_committed(r, j->length);
        readings_wake(r);
        space_rests(r);
        if (r->writers_known && r->state == REPLICA_READY)
            settling_keeps(r);
        break;
    case JOB_CUT:
        if (j->at_start)
            r->header_synced = true;
        if (r->state == REPLICA_CUTTING) /* not lost meanwhile */
            scan_start(r);
        break;
    case JOB_COPY:
        r->header_synced = true;
        if (r->state == REPLICA_READY) /* not lost, not to be removed meanwhile */
            scan_start(r);
        break;
    case JOB_TRIM:
    case JOB_LOSE:
    case JOB_REMOVE:
        break;
    }
}

/* Tells whoever wanted the job. */
static void job_answer(struct replica *r, const struct job *j, int error)
{
    switch (j->origin) {
    case FOR_MASTER:
        orders_job_done(r->cs, r, j, error);
        break;
    case FOR_PRIMARY:
        if (r->primary != NULL && r->primary->version == j->version)
            primary_job_done(r->primary, j, error);
        break;
    case FOR_SECONDARY:
        secondary_job_done(r, j, error);
        break;
    case FOR_COPYING:
        copying_job_done(r, j, error);
        break;
    case FOR_NOBODY:
        break;
    }
}

/* The running job ended; the replica may be freed here. */
static void job_end(struct replica *r, int error)
{
    struct job *j = r->jobs;

    r->jobs = j->next;
    r->job_running = false;
    if (error == LH_OK)
        job_apply(r, j);
    bool failed_create = j->kind == JOB_CREATE && error != LH_OK;
    bool half_made = failed_create && j->step > 2;    /* the file is there, without a header */
    bool still_there = failed_create && j->step == 1; /* what was in its place */
    bool unremoved = j->kind == JOB_REMOVE && error != LH_OK && error != LH_ERR_NOT_FOUND;
    bool gone =
        (j->kind == JOB_REMOVE && !unremoved) || (failed_create && !half_made && !still_there);
    if (half_made) {
        r->state = REPLICA_REMOVING;
        replica_submit(r, (struct job){.kind = JOB_REMOVE, .origin = FOR_NOBODY});
    }
    /* Its file is there, in whatever state: it is not forgotten, so that it can be removed later,
     * or replaced. */
    if (unremoved)
        LH_MARK("disk-remove-fails");
    if (unremoved || still_there) {
        r->state = REPLICA_LOST;
        r->headless = true;
    }
    if (failed_create)
        LH_MARK("disk-create-fails");
    if (error != LH_OK && !gone && !still_there && !unremoved && j->kind != JOB_LOSE) {
        LH_MARK("disk-job-fails");
        replica_lose(r, error, r->written);
    }
    job_answer(r, j, error);
    free(j);
    if (gone) {
        replica_free(r);
        return;
    }
    replica_pump(r);
}

bool jobs_ready(const struct replica *r)
{
    if (r->writing > 0 || r->syncing > 0 || r->reserving > 0)
        return false;
    if (r->jobs->kind == JOB_REMOVE || r->jobs->kind == JOB_CREATE)
        return r->outstanding == 0; /* no read of the file that goes */
    return true;
}

void jobs_drop_waiting(struct replica *r, int error)
{
    struct job **rest = r->job_running ? &r->jobs->next : &r->jobs;
    struct job *dropped = *rest;

    *rest = NULL;
    while (dropped != NULL) {
        struct job *j = dropped;
        dropped = j->next;
        job_answer(r, j, error);
        free(j);
    }
}

void jobs_begin(struct replica *r)
{
    r->job_running = true;
    if (job_step(r, r->jobs))
        job_end(r, LH_OK);
}

void jobs_disk_done(struct replica *r, enum lh_disk_op op, int error)
{
    LH_ASSERT(r->job_running && r->jobs != NULL);
    if (op == LH_DISK_CREATE && error == LH_ERR_ALREADY_EXISTS) {
        lh_fx_log(r->cs->fx, LH_ERROR, "chunk %llu: its file exists already; not touched",
            (unsigned long long)r->chunk);
    }
    if (op == LH_DISK_SYNC && error == LH_OK)
        r->header_unsynced = false;
    if (r->jobs->kind == JOB_TRIM)
        error = LH_OK; /* it concerns no byte of the log */
    if (error != LH_OK || job_step(r, r->jobs))
        job_end(r, error);
}
