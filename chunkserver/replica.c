/* One chunk's log and header on this server's disk.
 *
 * The log is written by one write and synced by one sync at a time: what arrives meanwhile goes
 * with the next, so the cost of a write or a sync is shared by everything that waited for it.
 * Changes of the header, of the file's length or of its existence are jobs: see jobs.c. */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/internal.h"

#include <stdlib.h>
#include <string.h>

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
    if (r->copying != NULL)
        copying_end(r->copying);
    scrub_turn_away(r);
    r->reserved = 0;
    space_rests(r);
    settling_forgets(r);
    HASH_DELETE(hh, r->cs->replicas, r);
    while (r->jobs != NULL) {
        struct job *j = r->jobs;
        r->jobs = j->next;
        free(j);
    }
    replica_drop_unwritten(r);
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

bool replica_sealed_durably(const struct replica *r)
{
    return r->header.sealed && !r->incomplete && !(r->job_running && r->jobs->kind == JOB_SEAL);
}

bool replica_usable(const struct replica *r)
{
    return r->state == REPLICA_READY && !replica_sealing(r);
}

/* A write holds whole batches, so that a log's length, written or synced, here or as a member tells
 * it, is always a batch's end: nobody ever commits, seals or reads half a batch. */
static void to_be_written(struct replica *r, const struct lh_buf *bytes, size_t from, size_t size)
{
    struct log_write *w = r->filling;

    if (w == NULL || w->bytes.size + size > r->cs->config.bounds.write_bytes) {
        w = r->filling = lh_alloc(sizeof *w);
        DL_APPEND(r->writes, w);
    }
    r->unwritten += size;
    r->cs->unwritten += size;
    lh_buf_append(&w->bytes, bytes, from, size);
}

static struct lh_buf take_write(struct replica *r)
{
    struct log_write *w = r->writes;
    struct lh_buf bytes = w->bytes;

    if (w == r->filling)
        r->filling = NULL;
    DL_DELETE(r->writes, w);
    free(w);
    r->unwritten -= bytes.size;
    return bytes;
}

void replica_drop_unwritten(struct replica *r)
{
    while (r->writes != NULL) {
        struct lh_buf bytes = take_write(r);
        r->cs->unwritten -= bytes.size;
        lh_buf_clear(&bytes);
    }
    secondary_release_pressure(r->cs);
}

bool replica_accept(struct replica *r, const struct lh_batch_header *h, struct lh_buf *bytes)
{
    LH_ASSERT(replica_usable(r) && bytes->size == h->size);
    LH_ASSERT(h->size <= r->header.chunk_size - r->end);
    if (!lh_writers_note(&r->writers, h, r->end))
        return false;
    r->checksum = lh_log_checksum(r->checksum, h);
    r->end += h->size;
    size_t half = LH_PLANTED("half-batch-committed") ? h->size / 2 : h->size;
    to_be_written(r, bytes, 0, half);
    if (half < h->size)
        to_be_written(r, bytes, half, h->size - half);
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

static void write_log(struct replica *r)
{
    uint64_t offset = r->end - r->unwritten;
    struct lh_buf data = take_write(r);

    r->writing = data.size;
    disk(r->cs, TICKET_WRITE, r, NULL, LH_DISK_WRITE, LH_LOG_START + offset, 0, &data);
    space_grows(r);
    space_ahead(r);
}

/* A buffered log is synced, too, now and then: a change of versions waits until all of it is on the
 * disk (FENCE-1), and with it the writers. Not while it is written as fast as it can be, for that
 * takes as long whenever it is done. */
static bool sync_is_due(struct replica *r)
{
    uint64_t dirty = r->written - r->synced;

    if (r->header.durability == LEASEHOLD__DURABILITY__SYNCED)
        return true;
    if (r->sync_begun_at.ns == 0)
        r->sync_begun_at = r->cs->now; /* the first bytes: nothing is due yet */
    struct lh_duration since = lh_instant_until(r->sync_begun_at, r->cs->now);
    const struct lh_chunkserver_bounds *b = &r->cs->config.bounds;
    return dirty >= b->sync_least_bytes && dirty <= b->sync_most_bytes &&
           since.ns >= lh_milliseconds(b->sync_pause_ms).ns;
}

static void pump(struct replica *r)
{
    if (r->job_running || r->state == REPLICA_LOADING || r->state == REPLICA_SCANNING)
        return;
    struct job *j = r->jobs;
    uint64_t start = r->end - r->unwritten;
    uint64_t limit = j == NULL || j->barrier > r->end ? r->end : j->barrier;

    if (r->state == REPLICA_READY && r->writing == 0 && limit > start)
        write_log(r);
    if (j != NULL) {
        if ((r->state != REPLICA_READY || limit <= start) && jobs_ready(r))
            jobs_begin(r);
        return;
    }
    if (r->state == REPLICA_READY && r->syncing == 0 && r->written > r->synced && sync_is_due(r)) {
        r->syncing = r->written;
        r->sync_begun_at = r->cs->now;
        disk(r->cs, TICKET_SYNC, r, NULL, LH_DISK_SYNC, 0, 0, NULL);
    }
}

void replica_pump(struct replica *r)
{
    pump(r);
    if (r->copying != NULL)
        copying_pump(r->copying);
}

/* The log is cut back to what was written, and read back: offset, checksum and writers of what was
 * accepted and not written are no longer true. */
static void cut_back(struct replica *r, int error)
{
    replica_drop_unwritten(r);
    r->end = r->written;
    r->state = REPLICA_CUTTING;
    if (r->primary != NULL)
        primary_abandon(r->primary, error);
    secondary_end(r, error);
    jobs_drop_waiting(r, error);
    replica_submit(r, (struct job){.kind = JOB_CUT, .origin = FOR_NOBODY, .length = r->written});
    if (r->copying != NULL)
        copying_fail(r->copying, error);
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
        jobs_disk_done(r, op, error);
        return;
    }
    if (kind == TICKET_WRITE) {
        uint64_t bytes = r->writing;
        r->writing = 0;
        r->cs->unwritten -= bytes;
        secondary_release_pressure(r->cs);
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
        if (error == LH_OK)
            r->header_unsynced = false;
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
    r->cs->counts.replicas_lost[-error]++;
    if (r->primary != NULL) {
        LH_MARK("replica-lost-of-primary");
        primary_abandon(r->primary, error);
    }
    r->state = REPLICA_LOST;
    r->added_up = false;
    secondary_end(r, error);
    readings_refuse_all(r, LH_ERR_CORRUPT);
    replica_drop_unwritten(r);
    lh_buf_clear(&r->scan_rest);
    r->end = r->written;
    jobs_drop_waiting(r, error);
    if (r->copying != NULL)
        r->copying->error = error;
    scrub_turn_away(r);
    if (!r->headless)
        replica_submit(r, (struct job){.kind = JOB_LOSE, .origin = FOR_NOBODY});
    space_rests(r);
    settling_forgets(r);
    orders_replica_lost(r->cs, r, error);
    scan_loaded(r);
}
