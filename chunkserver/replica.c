/* One chunk's log and header on this server's disk.
 *
 * The log is written by one write and synced by one sync at a time: what arrives meanwhile goes
 * with the next, so the cost of a write or a sync is shared by everything that waited for it.
 * Changes of the header, of the file's length or of its existence are *jobs*: a job runs alone,
 * after every byte that was accepted before it has been written. */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/internal.h"

#include <stdlib.h>
#include <string.h>

/* As much as one write takes; more waits for the next. */
#define WRITE_BYTES_MAX (8u << 20)

struct replica *replica_find(struct lh_chunkserver *cs, uint64_t chunk)
{
    struct replica *r;

    HASH_FIND(hh, cs->replicas, &chunk, sizeof chunk, r);
    return r;
}

struct replica *replica_add(struct lh_chunkserver *cs, uint64_t chunk, enum replica_state state)
{
    struct replica *r = lh_alloc(sizeof *r);

    r->chunk = chunk;
    r->cs = cs;
    r->state = state;
    HASH_ADD(hh, cs->replicas, chunk, sizeof r->chunk, r);
    return r;
}

void replica_free(struct replica *r)
{
    LH_ASSERT(r->primary == NULL && r->readings == NULL && r->settlings == NULL);
    HASH_DELETE(hh, r->cs->replicas, r);
    while (r->jobs != NULL) {
        struct job *j = r->jobs;
        r->jobs = j->next;
        free(j);
    }
    lh_writers_clear(&r->writers);
    lh_buf_clear(&r->pending);
    lh_buf_clear(&r->scan_rest);
    free(r);
}

uint64_t replica_durable(const struct replica *r)
{
    if (r->header.durability == LEASEHOLD__DURABILITY__SYNCED)
        return LH_PLANTED("acknowledged-before-sync") ? r->written : r->synced;
    return LH_PLANTED("acknowledged-from-memory") ? r->end : r->written;
}

/* REC-2a: only a buffered file's bytes can have gone with the machine, and only after a version
 * took appends at all. */
bool replica_doubted(const struct replica *r)
{
    if (LH_PLANTED("doubt-ignored"))
        return false;
    return r->header.durability == LEASEHOLD__DURABILITY__BUFFERED && !r->header.sealed &&
           r->header.version > 0 &&
           memcmp(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES) != 0;
}

bool replica_sealing(const struct replica *r)
{
    for (const struct job *j = r->jobs; j != NULL; j = j->next)
        if (j->kind == JOB_SEAL)
            return true;
    return r->header.sealed;
}

bool replica_sealed_as_it_is(const struct replica *r)
{
    const struct job *j = r->jobs;

    while (j != NULL && j->kind != JOB_SEAL)
        j = j->next;
    return j == NULL ? r->header.sealed : j->length == r->end;
}

bool replica_usable(const struct replica *r)
{
    return r->state == REPLICA_READY && !replica_sealing(r);
}

bool replica_accept(struct replica *r, const struct lh_batch_header *h, struct lh_buf *bytes)
{
    LH_ASSERT(replica_usable(r) && bytes->size == h->size);
    LH_ASSERT(h->size <= r->header.chunk_size - r->end);
    if (!lh_writers_note(&r->writers, h, r->end))
        return false;
    r->checksum = lh_log_checksum(r->checksum, h);
    r->end += h->size;
    lh_buf_append(&r->pending, bytes, 0, bytes->size);
    lh_buf_clear(bytes);
    return true;
}

/* What the header remembers may lie behind the end of a log that has lost its tail: then this
 * replica knows that it lacks acknowledged bytes (REC-2a). */
uint64_t replica_known_committed(const struct replica *r)
{
    return r->committed > r->header.committed ? r->committed : r->header.committed;
}

void replica_note_committed(struct replica *r, uint64_t committed)
{
    if (committed > r->end)
        committed = r->end;
    if (committed <= r->committed)
        return;
    r->committed = committed;
    readings_wake(r);
}

void replica_submit(struct replica *r, struct job job)
{
    struct job *j = lh_alloc(sizeof *j);

    *j = job;
    j->barrier = r->end;
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
    r->header.generation++;
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
    disk(r->cs, TICKET_JOB, r, NULL, LH_DISK_TRUNCATE, 0, LH_LOG_START + length, NULL);
}

/* Does the header, as it is on the disk, say already that the log was equal at `length`? So it is
 * with a chunk that is new. */
static bool vouches_for(const struct replica *r, uint64_t length)
{
    return r->header.equal_length == length && r->header.committed <= length &&
           memcmp(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES) == 0;
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
            disk(r->cs, TICKET_JOB, r, NULL, LH_DISK_CREATE, 0, LH_LOG_START + r->header.chunk_size,
                NULL);
        } else if (step == 2)
            job_write_header(r);
        else if (step == 3)
            job_sync(r);
        else
            return true;
        return false;
    case JOB_ADOPT:
        /* FENCE-1: one sync covers the version and every write accepted below it. */
        if (step == 0 && j->version > r->header.version) {
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
            j->step = 2;
            r->header.equal_length = j->length;
            if (r->header.committed > j->length)
                r->header.committed = j->length; /* lost everywhere, and reported (REC-2a) */
            memcpy(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES);
            job_write_header(r);
        } else if (step == 2 && !LH_PLANTED("confirmed-with-unsynced-writes")) {
            job_sync(r);
        } else {
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
            r->header.sealed = true;
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
        if (step == 0)
            job_truncate(r, j->length);
        else if (step == 1 && !LH_PLANTED("cut-not-synced"))
            job_sync(r);
        else
            return true;
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
        r->state = REPLICA_READY;
        r->writers_known = true;
        break;
    case JOB_ADOPT:
        /* The barrier kept later bytes from being written meanwhile. */
        r->header_synced = true;
        r->synced = r->written;
        break;
    case JOB_CONFIRM:
        if (r->synced < j->length)
            r->synced = j->length;
        break;
    case JOB_SEAL:
        if (r->end > j->length) {
            lh_writers_clear(&r->writers);
            r->writers_known = false;
        }
        r->end = r->written = r->synced = j->length;
        r->checksum = j->checksum;
        replica_note_committed(r, j->length);
        readings_wake(r);
        break;
    case JOB_CUT:
        if (r->state == REPLICA_CUTTING) /* not lost meanwhile */
            scan_start(r);
        break;
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
    bool half_made = failed_create && j->step > 2; /* the file is there, without a header */
    bool gone = j->kind == JOB_REMOVE || (failed_create && !half_made);
    if (half_made) {
        r->state = REPLICA_REMOVING;
        replica_submit(r, (struct job){.kind = JOB_REMOVE, .origin = FOR_NOBODY});
    }
    if (failed_create)
        LH_MARK("disk-create-fails");
    if (error != LH_OK && !gone && j->kind != JOB_LOSE) {
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

static void write_log(struct replica *r, uint64_t bytes)
{
    struct lh_buf data = {0};
    uint64_t offset = r->end - r->pending.size;

    if (bytes > WRITE_BYTES_MAX)
        bytes = WRITE_BYTES_MAX;
    if (bytes == r->pending.size) {
        data = lh_buf_take(&r->pending);
    } else {
        struct lh_buf rest = {0};
        lh_buf_append(&data, &r->pending, 0, bytes);
        lh_buf_append(&rest, &r->pending, bytes, r->pending.size - bytes);
        lh_buf_clear(&r->pending);
        r->pending = rest;
    }
    r->writing = bytes;
    disk(r->cs, TICKET_WRITE, r, NULL, LH_DISK_WRITE, LH_LOG_START + offset, 0, &data);
}

/* May a job run now? Roles that use the file must be out of its way first. */
static bool job_ready(const struct replica *r, const struct job *j)
{
    if (r->writing > 0 || r->syncing > 0)
        return false;
    if (j->kind == JOB_REMOVE)
        return r->outstanding == 0;
    return true;
}

void replica_pump(struct replica *r)
{
    if (r->job_running || r->state == REPLICA_LOADING || r->state == REPLICA_SCANNING)
        return;
    struct job *j = r->jobs;
    uint64_t start = r->end - r->pending.size;
    uint64_t limit = j == NULL || j->barrier > r->end ? r->end : j->barrier;

    if (r->state == REPLICA_READY && r->writing == 0 && limit > start)
        write_log(r, limit - start);
    if (j != NULL) {
        if ((r->state != REPLICA_READY || limit <= start) && job_ready(r, j)) {
            r->job_running = true;
            if (job_step(r, j))
                job_end(r, LH_OK);
        }
        return;
    }
    if (r->state == REPLICA_READY && r->header.durability == LEASEHOLD__DURABILITY__SYNCED &&
        r->syncing == 0 && r->written > r->synced) {
        r->syncing = r->written;
        disk(r->cs, TICKET_SYNC, r, NULL, LH_DISK_SYNC, 0, 0, NULL);
    }
}

/* Jobs that wait cannot be done any more; the one that runs ends by itself. */
static void drop_waiting_jobs(struct replica *r, int error)
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

/* The log is cut back to what was written, and read back: offset, checksum and writers of what was
 * accepted and not written are no longer true. */
static void cut_back(struct replica *r, int error)
{
    lh_buf_clear(&r->pending);
    r->end = r->written;
    r->state = REPLICA_CUTTING;
    if (r->primary != NULL)
        primary_abandon(r->primary, error);
    secondary_end(r, error);
    drop_waiting_jobs(r, error);
    replica_submit(r, (struct job){.kind = JOB_CUT, .origin = FOR_NOBODY, .length = r->written});
}

static void log_advanced(struct replica *r)
{
    if (r->primary != NULL)
        primary_local_durable(r->primary);
    else
        secondary_durable(r);
}

void replica_disk_done(struct replica *r, enum ticket_kind kind, enum lh_disk_op op, int error)
{
    if (kind == TICKET_JOB) {
        struct job *j = r->jobs;
        LH_ASSERT(r->job_running && j != NULL);
        if (op == LH_DISK_CREATE && error == LH_ERR_ALREADY_EXISTS) {
            lh_fx_log(r->cs->fx, LH_ERROR, "chunk %llu: its file exists already; not touched",
                (unsigned long long)r->chunk);
        }
        if (error != LH_OK || job_step(r, j))
            job_end(r, error);
        return;
    }
    if (kind == TICKET_WRITE) {
        uint64_t bytes = r->writing;
        r->writing = 0;
        if (r->state != REPLICA_READY) {
            replica_pump(r);
            return;
        }
        if (error == LH_ERR_DISK_FULL) {
            LH_MARK("disk-full");
            lh_fx_log(r->cs->fx, LH_ERROR, "chunk %llu: the disk is full at %llu bytes of its log",
                (unsigned long long)r->chunk, (unsigned long long)r->written);
            cut_back(r, error);
        } else if (error != LH_OK) {
            LH_MARK("disk-write-fails");
            replica_lose(r, error, r->written);
        } else {
            bool hidden = r->committed > r->written;
            r->written += bytes;
            if (hidden)
                readings_wake(r);
            if (r->header.durability == LEASEHOLD__DURABILITY__BUFFERED ||
                LH_PLANTED("acknowledged-before-sync"))
                log_advanced(r);
        }
    } else {
        uint64_t covers = LH_PLANTED("sync-covers-later-writes") ? r->written : r->syncing;
        r->syncing = 0;
        if (error != LH_OK && !LH_PLANTED("fsync-retried")) {
            LH_MARK("disk-sync-fails");
            /* FAIL-5: the kernel may have dropped the dirty pages and marked them clean; a second
             * fdatasync would lie. So it is also when the log is just being cut back. */
            replica_lose(r, error, r->synced);
        } else if (error == LH_OK && r->state == REPLICA_READY && covers > r->synced) {
            r->synced = covers;
            log_advanced(r);
        }
    }
    replica_pump(r);
}

void replica_lose(struct replica *r, int error, uint64_t offset)
{
    if (r->state == REPLICA_LOST || r->state == REPLICA_REMOVING)
        return;
    lh_fx_log(r->cs->fx, LH_ERROR,
        "chunk %llu: this replica is lost (%s at %llu); it must be copied anew",
        (unsigned long long)r->chunk, lh_error_text(error), (unsigned long long)offset);
    LH_MARK("replica-lost");
    if (r->primary != NULL) {
        LH_MARK("replica-lost-of-primary");
        primary_abandon(r->primary, error);
    }
    r->state = REPLICA_LOST;
    secondary_end(r, error);
    readings_refuse_all(r, LH_ERR_CORRUPT);
    lh_buf_clear(&r->pending);
    lh_buf_clear(&r->scan_rest);
    r->end = r->written;
    drop_waiting_jobs(r, error);
    if (!r->headless)
        replica_submit(r, (struct job){.kind = JOB_LOSE, .origin = FOR_NOBODY});
    orders_replica_lost(r->cs, r, error);
    scan_loaded(r);
}
