/* Jobs: changes of a replica's header, of its file's length or of its existence. A job runs alone,
 * after every byte that was accepted before it has been written and before any byte after it.
 *
 * Each is a chain of steps: a step begins one operation on the disk and names the step that follows
 * when that is done. */
#include "chunkserver/log/jobs.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/log/replica.h"
#include "chunkserver/log/scan.h"
#include "chunkserver/log/space.h"
#include "chunkserver/log/tables.h"

#include <stdlib.h>
#include <string.h>

typedef bool step(struct lh_cs_replica *r, struct lh_cs_job *j);

static const struct lh_cs_disk_user job_disk;

/* ------------------------------------------------------------------------------------------------
 * What a step begins, and what follows it. */

static bool begin(
    struct lh_cs_replica *r, struct lh_cs_job *j, step *next, enum lh_disk_op op, uint64_t length)
{
    j->next = next;
    lh_cs_disk_ask(
        r->logs, &job_disk, r, NULL, &(struct lh_cs_disk_request){.op = op, .length = length});
    return false;
}

static bool sync_log(struct lh_cs_replica *r, struct lh_cs_job *j, step *next)
{
    return begin(r, j, next, LH_DISK_SYNC, 0);
}

static bool truncate_log(struct lh_cs_replica *r, struct lh_cs_job *j, step *next, uint64_t length)
{
    lh_cs_space_given_back(r);
    return begin(r, j, next, LH_DISK_TRUNCATE, LH_LOG_START + length);
}

static bool write_header(struct lh_cs_replica *r, struct lh_cs_job *j, step *next)
{
    /* One of the slots is on the disk for sure: the other one is written. */
    r->header.generation += r->header_unsynced ? 2 : 1;
    r->header_unsynced = true;
    r->header.committed = lh_cs_replica_known_committed(r);
    struct lh_buf slot = lh_chunk_header_encode(&r->header);
    j->next = next;
    lh_cs_disk_ask(r->logs, &job_disk, r, NULL,
        &(struct lh_cs_disk_request){
            .op = LH_DISK_WRITE, .offset = lh_chunk_header_offset(&r->header), .data = &slot});
    return false;
}

static bool done(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    (void)r;
    (void)j;
    return true;
}

/* ------------------------------------------------------------------------------------------------
 * What steps decide by. */

static bool marks_truncated(const struct lh_cs_replica *r, const struct lh_cs_job *j)
{
    return j->at_start && !r->header.cut && !LH_PLANTED("cut-log-gives-a-length");
}

/* Does the header say already that the log was equal at `length`? So it is with a chunk that is
 * new. */
static bool vouches_for(const struct lh_cs_replica *r, uint64_t length)
{
    return r->header.equal_length == length && r->header.committed <= length && !r->header.cut &&
           memcmp(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES) == 0;
}

/* Must the header be on the disk before equality at `length` is confirmed? It names the boot
 * (REC-2a), and if that is there already only a length changes, to vouch for more of what is on the
 * disk. So while no machine goes down, a change of versions costs one sync. */
static bool must_be_verified(const struct lh_cs_replica *r, uint64_t length)
{
    return r->header.committed > length || r->header.equal_length > length ||
           memcmp(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES) != 0;
}

/* Is everything below the version that the header has on the disk? */
static bool adopt_needs_sync(const struct lh_cs_replica *r)
{
    if (LH_PLANTED("confirmed-before-durable") || LH_PLANTED("confirmed-with-unsynced-writes"))
        return false;
    return !r->header_synced || r->synced < r->end;
}

/* The log first: a header that vouches for bytes must not get to the disk before them. */
static bool log_goes_first(const struct lh_cs_replica *r, uint64_t length)
{
    return r->synced < length && !LH_PLANTED("equality-header-before-log") &&
           !LH_PLANTED("confirmed-with-unsynced-writes");
}

/* What was known to be committed behind `length` is not any more. */
static void forget_committed(struct lh_cs_replica *r, uint64_t length)
{
    if (r->header.committed > length)
        r->header.committed = length;
    if (r->committed > length)
        r->committed = length;
}

/* REC-4: whatever the header says besides, this is nobody's full member. Nothing that is here
 * counts as equal any more, so a torn tail may be anywhere. */
static void note_incomplete(struct lh_cs_replica *r, uint64_t length)
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
static void seal_below(struct lh_cs_replica *r, uint64_t length)
{
    uint64_t committed = lh_cs_replica_known_committed(r);

    if (committed <= length)
        return;
    LH_MARK("seal-below-what-was-committed");
    lh_fx_log(r->cs->fx, LH_ERROR,
        "chunk %llu: it is sealed at %llu bytes, and %llu were acknowledged: records are lost",
        (unsigned long long)r->chunk, (unsigned long long)length, (unsigned long long)committed);
    forget_committed(r, length);
}

/* ------------------------------------------------------------------------------------------------
 * CREATE: whatever has no header goes first. */

static bool create_header_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, done);
}

static bool create_file_made(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return write_header(r, j, create_header_written);
}

static bool create_file(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    r->headless = false;
    return begin(r, j, create_file_made, LH_DISK_CREATE, LH_LOG_START);
}

static bool create(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (r->headless)
        return begin(r, j, create_file, LH_DISK_REMOVE, 0);
    return create_file(r, j);
}

/* ------------------------------------------------------------------------------------------------
 * ADOPT (FENCE-1): one sync covers the version and every write accepted below it. */

static bool adopt_header_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return LH_PLANTED("confirmed-before-durable") || sync_log(r, j, done);
}

static bool adopt(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (j->version <= r->header.version)
        return !adopt_needs_sync(r) || sync_log(r, j, done);
    if (!r->header_synced) {
        /* It was read at the start, and may be in the operating system's hands alone. Its other
         * slot is written next. */
        r->header_synced = true;
        return sync_log(r, j, adopt);
    }
    r->header.version = j->version;
    if (LH_PLANTED("doubt-cleared-by-adopting"))
        memcpy(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES);
    return write_header(r, j, adopt_header_written);
}

/* ------------------------------------------------------------------------------------------------
 * CONFIRM (REC-2): the log is equal at this length. */

static bool confirmed(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    (void)j;
    r->read_back = false;
    return true;
}

static bool confirm_header_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (LH_PLANTED("confirmed-with-unsynced-writes"))
        return confirmed(r, j);
    return sync_log(r, j, confirmed);
}

static bool confirm_header(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (vouches_for(r, j->length))
        return confirmed(r, j);
    bool wait = must_be_verified(r, j->length);
    r->header.equal_length = j->length;
    r->header.copying = false; /* it has joined (REC-4) */
    r->header.cut = false;
    if (r->header.committed > j->length)
        r->header.committed = j->length; /* lost everywhere, and reported (REC-2a) */
    memcpy(r->header.equal_boot, r->cs->config.boot_id, LH_BOOT_ID_BYTES);
    return write_header(r, j, wait ? confirm_header_written : confirmed);
}

static bool confirm(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return log_goes_first(r, j->length) ? sync_log(r, j, confirm_header) : confirm_header(r, j);
}

/* ------------------------------------------------------------------------------------------------
 * SEAL (SEAL-1): the log first, as in CONFIRM: nothing is scanned any more below a seal. */

static bool seal_header_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, done);
}

static bool seal_header(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    seal_below(r, j->length);
    r->header.sealed = true;
    r->header.copying = r->header.cut = false;
    r->header.version = j->version;
    r->header.sealed_length = j->length;
    r->header.sealed_checksum = j->checksum;
    return write_header(r, j, seal_header_written);
}

static bool seal_sync_log(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if ((r->synced < j->length || r->end > j->length) && !LH_PLANTED("seal-header-before-log"))
        return sync_log(r, j, seal_header);
    return seal_header(r, j);
}

static bool seal(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return r->end > j->length ? truncate_log(r, j, seal_sync_log, j->length) : seal_sync_log(r, j);
}

/* ------------------------------------------------------------------------------------------------
 * TRUNCATE. A tear cannot be told from rot: from here on this log may be one that lacks something
 * (FAIL-3). Both slots may be new: one of them has to be on the disk. */

static bool truncate_done(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return LH_PLANTED("cut-not-synced") || sync_log(r, j, done);
}

static bool truncate_file(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return truncate_log(r, j, truncate_done, j->length);
}

static bool truncate_mark_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, truncate_file);
}

static bool truncate_mark(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (!marks_truncated(r, j))
        return truncate_file(r, j);
    r->header.cut = true;
    return write_header(r, j, truncate_mark_written);
}

static bool truncate_begin(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    /* Also where it says so already: the process before may have died. */
    if (j->at_start && !r->header_synced && !LH_PLANTED("cut-log-gives-a-length"))
        return sync_log(r, j, truncate_mark);
    return truncate_mark(r, j);
}

/* ------------------------------------------------------------------------------------------------
 * COPY (REC-4): the mark, then the cut. */

static bool copy_truncated(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, done);
}

static bool copy_marked(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return r->written <= j->length || truncate_log(r, j, copy_truncated, j->length);
}

static bool copy_mark_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, copy_marked);
}

static bool copy(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    note_incomplete(r, j->length);
    return write_header(r, j, copy_mark_written);
}

/* ------------------------------------------------------------------------------------------------
 * TRIM, LOSE, REMOVE. */

static bool trim(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    lh_cs_space_given_back(r);
    return begin(r, j, done, LH_DISK_RESERVE, 0);
}

static bool lose_mark_written(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return sync_log(r, j, done);
}

static bool lose(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    if (r->headless)
        return true;
    r->header.lost = true;
    return write_header(r, j, lose_mark_written);
}

static bool remove_file(struct lh_cs_replica *r, struct lh_cs_job *j)
{
    return begin(r, j, done, LH_DISK_REMOVE, 0);
}

static step *const first_steps[] = {
    [LH_CS_JOB_CREATE] = create,
    [LH_CS_JOB_ADOPT] = adopt,
    [LH_CS_JOB_CONFIRM] = confirm,
    [LH_CS_JOB_SEAL] = seal,
    [LH_CS_JOB_TRUNCATE] = truncate_begin,
    [LH_CS_JOB_COPY] = copy,
    [LH_CS_JOB_TRIM] = trim,
    [LH_CS_JOB_LOSE] = lose,
    [LH_CS_JOB_REMOVE] = remove_file,
};

/* ------------------------------------------------------------------------------------------------
 * The end of a job. */

/* What is true once the job is done, before its owner hears of it. */
static void apply(struct lh_cs_replica *r, const struct lh_cs_job *j)
{
    switch (j->kind) {
    case LH_CS_JOB_CREATE:
        r->header_synced = true;
        r->writers_known = true;
        if (r->state == LH_CS_REPLICA_CREATING) /* not to be removed meanwhile */
            r->state = LH_CS_REPLICA_READY;
        lh_cs_space_given_back(r);
        lh_cs_space_grows(r);
        break;
    case LH_CS_JOB_ADOPT:
        /* The barrier kept later bytes from being written meanwhile. */
        r->header_synced = true;
        r->synced = r->written;
        break;
    case LH_CS_JOB_CONFIRM:
        if (r->synced < j->length)
            r->synced = j->length;
        r->incomplete = false;
        break;
    case LH_CS_JOB_SEAL:
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
        if (j->at_start)
            r->header_synced = true;
        if (r->state == LH_CS_REPLICA_TRUNCATING) /* not lost meanwhile */
            lh_cs_scan_start(r);
        break;
    case LH_CS_JOB_COPY:
        r->header_synced = true;
        if (r->state == LH_CS_REPLICA_READY) /* not lost, not to be removed meanwhile */
            lh_cs_scan_start(r);
        break;
    case LH_CS_JOB_TRIM:
    case LH_CS_JOB_LOSE:
    case LH_CS_JOB_REMOVE:
        break;
    }
}

static void answer(struct lh_cs_replica *r, const struct lh_cs_job *j, int error)
{
    if (j->owner != NULL)
        j->owner(r, j, error);
}

/* The running job ended; the replica may be freed here. */
static void end(struct lh_cs_replica *r, int error)
{
    struct lh_cs_job *j = r->jobs;

    r->jobs = j->after;
    r->job_running = false;
    if (error == LH_OK)
        apply(r, j);
    bool failed_create = j->kind == LH_CS_JOB_CREATE && error != LH_OK;
    bool still_there = failed_create && j->next == create_file; /* what was in its place */
    bool half_made = failed_create && (j->next == create_header_written || j->next == done);
    bool unremoved = j->kind == LH_CS_JOB_REMOVE && error != LH_OK && error != LH_ERR_NOT_FOUND;
    bool gone = (j->kind == LH_CS_JOB_REMOVE && !unremoved) ||
                (failed_create && !half_made && !still_there);
    if (half_made) { /* the file is there, without a header */
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
    if (error != LH_OK && !gone && !still_there && !unremoved && j->kind != LH_CS_JOB_LOSE) {
        LH_MARK("disk-job-fails");
        lh_cs_replica_lose(r, error, r->written);
    }
    answer(r, j, error);
    free(j);
    if (gone) {
        lh_cs_replica_free(r);
        return;
    }
    lh_cs_replica_pump(r);
}

bool lh_cs_jobs_ready(const struct lh_cs_replica *r)
{
    if (r->writing > 0 || r->syncing > 0 || r->space.reserving > 0)
        return false;
    if (r->jobs->kind == LH_CS_JOB_REMOVE || r->jobs->kind == LH_CS_JOB_CREATE)
        return r->outstanding == 0; /* no read of the file that goes */
    return true;
}

void lh_cs_jobs_drop_waiting(struct lh_cs_replica *r, int error)
{
    struct lh_cs_job **rest = r->job_running ? &r->jobs->after : &r->jobs;
    struct lh_cs_job *dropped = *rest;

    *rest = NULL;
    while (dropped != NULL) {
        struct lh_cs_job *j = dropped;
        dropped = j->after;
        answer(r, j, error);
        free(j);
    }
}

void lh_cs_jobs_begin(struct lh_cs_replica *r)
{
    r->job_running = true;
    if (r->jobs->next(r, r->jobs))
        end(r, LH_OK);
}

static void step_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = t->replica;

    (void)bytes;
    LH_ASSERT(r->job_running && r->jobs != NULL);
    if (t->op == LH_DISK_CREATE && error == LH_ERR_ALREADY_EXISTS) {
        lh_fx_log(r->cs->fx, LH_ERROR, "chunk %llu: its file exists already; not touched",
            (unsigned long long)r->chunk);
    }
    if (t->op == LH_DISK_SYNC && error == LH_OK)
        r->header_unsynced = false;
    if (r->jobs->kind == LH_CS_JOB_TRIM)
        error = LH_OK; /* it concerns no byte of the log */
    if (error != LH_OK || r->jobs->next(r, r->jobs))
        end(r, error);
}

static const struct lh_cs_disk_user job_disk = {.done = step_done, .frees = true};

void lh_cs_replica_submit(struct lh_cs_replica *r, struct lh_cs_job job)
{
    struct lh_cs_job *j = lh_alloc(sizeof *j);

    *j = job;
    j->barrier = r->end;
    r->filling = NULL; /* what is accepted from now on goes behind the barrier */
    j->next = first_steps[j->kind];
    j->after = NULL;
    if (j->kind == LH_CS_JOB_ADOPT && j->version > r->adopting)
        r->adopting = j->version;
    struct lh_cs_job **last = &r->jobs;
    while (*last != NULL)
        last = &(*last)->after;
    *last = j;
}

void lh_cs_jobs_free(struct lh_cs_replica *r)
{
    while (r->jobs != NULL) {
        struct lh_cs_job *j = r->jobs;
        r->jobs = j->after;
        free(j);
    }
}
