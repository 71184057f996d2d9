/* One chunk's log and header on this server's disk.
 *
 * The log is written by one write and synced by one sync at a time: what arrives meanwhile goes
 * with the next, so the cost of a write or a sync is shared by everything that waited for it.
 * Changes of the header, of the file's length or of its existence are jobs: see jobs.c. */
#include "chunkserver/log/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/log/frozen.h"
#include "chunkserver/log/jobs.h"
#include "chunkserver/log/scan.h"
#include "chunkserver/log/space.h"
#include "chunkserver/log/tables.h"
#include "proto/leasehold.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void lh_cs_logs_init(
    struct lh_cs_logs *logs, struct lh_cs_host *cs, const struct lh_cs_log_users *users, void *self)
{
    logs->cs = cs;
    logs->users = users;
    logs->self = self;
    logs->internal = lh_alloc(sizeof *logs->internal);
    logs->internal->logs = logs;
    lh_cs_disk_init(logs);
    lh_cs_space_init(logs);
    lh_cs_tables_init(logs);
    lh_cs_frozen_init(logs);
    lh_cs_suspects_init(logs);
}

void lh_cs_logs_deinit(struct lh_cs_logs *logs)
{
    struct lh_cs_logs_internal *in = logs->internal;
    struct lh_cs_replica *r;

    lh_cs_disk_deinit(logs);
    LH_IDMAP_FOREACH(r, &logs->replicas) {
        lh_cs_replica_free(r);
    }
    lh_idmap_deinit(&logs->replicas);
    lh_timer_unset(&logs->cs->timers, &in->disk.shortage.timer);
    lh_timer_unset(&logs->cs->timers, &in->space.timer);
    lh_timer_unset(&logs->cs->timers, &in->tables.timer);
    lh_timer_unset(&logs->cs->timers, &in->frozen.timer);
    lh_timer_unset(&logs->cs->timers, &in->suspects.timer);
    free(in->changed);
    free(in);
}

struct lh_cs_replica *lh_cs_replica_find(struct lh_cs_logs *logs, uint64_t chunk)
{
    return lh_idmap_find(&logs->replicas, chunk);
}

struct lh_cs_replica *lh_cs_replica_add(
    struct lh_cs_logs *logs, uint64_t chunk, enum lh_cs_replica_state state)
{
    struct lh_cs_replica *r = lh_alloc(sizeof *r);

    r->chunk = chunk;
    r->logs = logs;
    r->state = state;
    r->active = &lh_cs_idle;
    r->checksum = lh_log_seed(chunk);
    lh_idmap_add(&logs->replicas, r);
    return r;
}

void lh_cs_replica_free(struct lh_cs_replica *r)
{
    r->logs->users->removed(r);
    lh_cs_active_free(r);
    lh_writers_clear(&r->writers);
    lh_idmap_remove(&r->logs->replicas, r);
    free(r);
}

uint64_t lh_cs_replica_durable(const struct lh_cs_replica *r)
{
    if (r->header.durability == LEASEHOLD__DURABILITY__SYNCED)
        return LH_PLANTED("acknowledged-before-sync") ? r->written : r->synced;
    return LH_PLANTED("acknowledged-from-memory") ? r->end : r->written;
}

/* REC-2a: of a buffered file bytes can have gone with the kernel's memory, or with a sync that
 * failed (FAIL-5), but only after a version took appends at all. Of a synced one they can be
 * missing that a sync has lied about. */
bool lh_cs_replica_unverified(const struct lh_cs_replica *r)
{
    static const uint8_t never[LH_BOOT_ID_BYTES];
    const uint8_t *equal = r->header.equal_boot;

    if (LH_PLANTED("doubt-ignored") || r->header.sealed || r->header.version == 0)
        return false;
    if (r->header.durability == LEASEHOLD__DURABILITY__BUFFERED)
        return r->in_doubt || memcmp(equal, r->logs->cs->config.boot_id, LH_BOOT_ID_BYTES) != 0;
    return lh_cs_replica_truncated(r) && memcmp(equal, never, LH_BOOT_ID_BYTES) == 0 &&
           !LH_PLANTED("two-in-doubt-are-sure");
}

bool lh_cs_replica_truncated(const struct lh_cs_replica *r)
{
    return r->header.truncated || r->torn;
}

bool lh_cs_replica_is_kept(const struct lh_cs_replica *r)
{
    return r->state == LH_CS_REPLICA_FROZEN || (r->state == LH_CS_REPLICA_LOST && !r->headless);
}

bool lh_cs_replica_sealing(const struct lh_cs_replica *r)
{
    return r->header.sealed || lh_cs_jobs_have(r, LH_CS_JOB_SEAL);
}

bool lh_cs_replica_sealed_durably(const struct lh_cs_replica *r)
{
    return r->header.sealed && !r->incomplete && !r->unrecorded &&
           !(r->active->job_running && r->active->jobs->kind == LH_CS_JOB_SEAL);
}

bool lh_cs_replica_usable(const struct lh_cs_replica *r)
{
    return r->state == LH_CS_REPLICA_READY && !lh_cs_replica_sealing(r);
}

bool lh_cs_replica_sealed_now(const struct lh_cs_replica *r)
{
    return r->header.sealed && !r->active->job_running;
}

bool lh_cs_replica_changes(const struct lh_cs_replica *r)
{
    return r->active->jobs != NULL || r->active->scan != NULL;
}

bool lh_cs_replica_has_work(const struct lh_cs_replica *r)
{
    return r->active->unwritten > 0 || r->active->writing > 0 || r->active->jobs != NULL;
}

bool lh_cs_replica_is_left_over(const struct lh_cs_replica *r)
{
    return r->state == LH_CS_REPLICA_LOST && r->headless && r->active->jobs == NULL;
}

/* A write holds whole batches, so that a log's length, written or synced, here or as a member tells
 * it, is always a batch's end: nobody ever commits, seals or reads half a batch. */
static void to_be_written(
    struct lh_cs_replica *r, const struct lh_buf *bytes, size_t from, size_t size)
{
    struct lh_cs_active *mo = lh_cs_move(r);
    struct lh_cs_log_write *w = mo->filling;

    if (w == NULL || w->bytes.size + size > r->logs->cs->config.bounds.write_bytes) {
        w = mo->filling = lh_alloc(sizeof *w);
        DL_APPEND(mo->writes, w);
    }
    mo->unwritten += size;
    r->logs->unwritten += size;
    lh_buf_append(&w->bytes, bytes, from, size);
    w->checksum = r->checksum;
}

static struct lh_buf take_write(struct lh_cs_active *mo)
{
    struct lh_cs_log_write *w = mo->writes;
    struct lh_buf bytes = w->bytes;

    if (w == mo->filling)
        mo->filling = NULL;
    DL_DELETE(mo->writes, w);
    free(w);
    mo->unwritten -= bytes.size;
    return bytes;
}

void lh_cs_replica_drop_unwritten(struct lh_cs_replica *r)
{
    while (r->active->writes != NULL) {
        struct lh_buf bytes = take_write(lh_cs_move(r));
        r->logs->unwritten -= bytes.size;
        lh_buf_clear(&bytes);
    }
    r->logs->users->pressure_fell(r->logs->self);
}

bool lh_cs_replica_accept(struct lh_cs_replica *r, const struct lh_batch_header *h,
    uint64_t checksum, struct lh_buf *bytes)
{
    LH_ASSERT(lh_cs_replica_usable(r) && bytes->size == h->size);
    LH_ASSERT(h->size <= r->header.chunk_size - r->end);
    if (!lh_writers_note(&r->writers, h, r->end))
        return false;
    if (r->end == r->written)
        lh_cs_move(r)->written_checksum = r->checksum;
    r->checksum = checksum;
    r->end += h->size;
    size_t half = LH_PLANTED("half-batch-committed") ? h->size / 2 : h->size;
    to_be_written(r, bytes, 0, half);
    if (half < h->size)
        to_be_written(r, bytes, half, h->size - half);
    lh_buf_clear(bytes);
    return true;
}

int lh_cs_replica_take(
    struct lh_cs_replica *r, const struct lh_buf *batches, uint64_t limit, size_t *taken)
{
    uint32_t batch_max = lh_batch_bytes_max(r->header.chunk_size);

    LH_ASSERT(r->end <= limit && limit <= r->header.chunk_size);
    for (*taken = 0; *taken < batches->size;) {
        size_t at = *taken;
        struct lh_batch_header h;
        struct lh_buf one = {0};
        uint64_t checksum = r->checksum;
        int error = lh_batch_check(batches, at, batch_max, &h);
        if (error != LH_OK)
            return error == LH_ERR_WOULD_BLOCK ? error : LH_ERR_CORRUPT;
        if (h.size > limit - r->end)
            return LH_ERR_CHUNK_FULL;
        if (!lh_log_fits(batches, at, &h, &checksum) && !LH_PLANTED("chain-unchecked-by-copy"))
            return LH_ERR_OUT_OF_SEQUENCE;
        lh_buf_append(&one, batches, at, h.size);
        if (!lh_cs_replica_accept(r, &h, checksum, &one)) {
            lh_buf_clear(&one);
            return LH_ERR_OUT_OF_SEQUENCE;
        }
        *taken += h.size;
    }
    return LH_OK;
}

/* What the header remembers may lie behind the end of a log that has lost its tail: then this
 * replica knows that it lacks acknowledged bytes (REC-2a). */
uint64_t lh_cs_replica_known_committed(const struct lh_cs_replica *r)
{
    return r->committed > r->header.committed ? r->committed : r->header.committed;
}

void lh_cs_replica_note_committed(struct lh_cs_replica *r, uint64_t committed)
{
    if (committed > r->end)
        committed = r->end;
    if (committed <= r->committed)
        return;
    r->committed = committed;
    lh_cs_replica_readable(r);
}

void lh_cs_replica_readable(struct lh_cs_replica *r)
{
    r->logs->users->readable(r);
}

static void write_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);
static void sync_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);

static const struct lh_cs_disk_user log_write = {.done = write_done, .frees = true};
static const struct lh_cs_disk_user log_sync = {.done = sync_done, .frees = true};

static void write_log(struct lh_cs_replica *r)
{
    struct lh_cs_active *mo = lh_cs_move(r);
    uint64_t offset = r->end - mo->unwritten;
    mo->writing_checksum = mo->writes->checksum;
    struct lh_buf data = take_write(mo);

    mo->writing = data.size;
    lh_cs_disk_ask(r->logs, &log_write, r, NULL,
        &(struct lh_cs_disk_request){
            .op = LH_DISK_WRITE, .offset = LH_LOG_START + offset, .data = &data});
    lh_cs_space_grows(r);
    lh_cs_space_ahead(r);
}

/* A buffered log is synced, too, now and then: a change of versions waits until all of it is on the
 * disk (FENCE-1), and with it the writers. Not while it is written as fast as it can be, for that
 * takes as long whenever it is done. */
static bool sync_is_due(struct lh_cs_replica *r)
{
    uint64_t dirty = r->written - r->synced;

    if (r->header.durability == LEASEHOLD__DURABILITY__SYNCED)
        return true;
    if (!r->sync_began) { /* the first bytes: nothing is due yet */
        r->sync_began = true;
        lh_cs_move(r)->sync_begun_at = r->logs->cs->now;
    }
    struct lh_duration since = lh_instant_until(r->active->sync_begun_at, r->logs->cs->now);
    const struct lh_chunkserver_bounds *b = &r->logs->cs->config.bounds;
    if (dirty < b->sync_least_bytes || dirty > b->sync_most_bytes ||
        since.ns < lh_milliseconds(b->sync_pause_ms).ns)
        return false;
    lh_cs_move(r)->sync_begun_at = r->logs->cs->now; /* now it begins */
    return true;
}

static void pump(struct lh_cs_replica *r)
{
    const struct lh_cs_active *mo = r->active;

    lh_cs_old_is_read(r);
    if (mo->job_running || r->state == LH_CS_REPLICA_LOADING || r->state == LH_CS_REPLICA_SCANNING)
        return;
    const struct lh_cs_job *j = mo->jobs;
    uint64_t start = r->end - mo->unwritten;
    uint64_t limit = j == NULL || j->barrier > r->end ? r->end : j->barrier;

    if (r->state == LH_CS_REPLICA_READY && mo->writing == 0 && limit > start)
        write_log(r);
    if (j != NULL) {
        if ((r->state != LH_CS_REPLICA_READY || limit <= start) && lh_cs_jobs_ready(r))
            lh_cs_jobs_begin(r);
        return;
    }
    if (r->state == LH_CS_REPLICA_READY && r->active->syncing == 0 && r->written > r->synced &&
        sync_is_due(r)) {
        lh_cs_move(r)->syncing = r->written;
        lh_cs_disk_ask(
            r->logs, &log_sync, r, NULL, &(struct lh_cs_disk_request){.op = LH_DISK_SYNC});
    }
}

void lh_cs_replica_pump(struct lh_cs_replica *r)
{
    pump(r);
    r->logs->users->pumped(r);
}

static void written(struct lh_cs_replica *r, uint64_t bytes, int error)
{
    if (error != LH_OK) {
        if (error == LH_ERR_DISK_FULL)
            LH_MARK("disk-full");
        else
            LH_MARK("disk-write-fails");
        lh_cs_freeze(r, error);
        return;
    }
    bool hidden = r->committed > r->written;
    r->written += bytes;
    lh_cs_move(r)->written_checksum = r->active->writing_checksum;
    if (hidden)
        lh_cs_replica_readable(r);
    if (r->header.durability == LEASEHOLD__DURABILITY__BUFFERED ||
        LH_PLANTED("acknowledged-before-sync"))
        r->logs->users->durable(r);
}

static void write_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = t->replica;
    uint64_t size = r->active->writing;

    (void)bytes;
    lh_cs_move(r)->writing = 0;
    r->logs->unwritten -= size;
    r->logs->users->pressure_fell(r->logs->self);
    if (r->state == LH_CS_REPLICA_READY)
        written(r, size, error);
    lh_cs_replica_pump(r);
}

static void sync_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = t->replica;
    uint64_t covers = LH_PLANTED("sync-covers-later-writes") ? r->written : r->active->syncing;

    (void)bytes;
    lh_cs_move(r)->syncing = 0;
    if (error != LH_OK && !LH_PLANTED("fsync-retried")) {
        LH_MARK("disk-sync-fails");
        lh_cs_doubt(r, error);
    } else if (error == LH_OK && r->state == LH_CS_REPLICA_READY && covers > r->synced) {
        r->synced = covers;
        r->logs->users->durable(r);
    }
    if (error == LH_OK)
        r->header_unsynced = false;
    lh_cs_replica_pump(r);
}

void lh_cs_replica_lose(struct lh_cs_replica *r, int error, uint64_t offset)
{
    if (r->anew)
        lh_cs_put_old_back(r, error);
    else if (r->state != LH_CS_REPLICA_LOST && r->state != LH_CS_REPLICA_REMOVING &&
             r->state != LH_CS_REPLICA_FROZEN)
        lh_cs_replica_condemn(r, error, offset);
}

void lh_cs_replica_condemn(struct lh_cs_replica *r, int error, uint64_t offset)
{
    lh_cs_thawed(r);
    lh_fx_log(r->logs->cs->fx, LH_ERROR,
        "chunk %" PRIu64 ": this replica is damaged (%s at %" PRIu64 "); it must be copied again",
        r->chunk, lh_error_text(error), offset);
    LH_MARK("replica-lost");
    r->logs->cs->counts.replicas_lost[-error]++;
    r->logs->users->lost(r, error);
    r->state = LH_CS_REPLICA_LOST;
    lh_cs_replica_drop_unwritten(r);
    if (r->active->scan != NULL)
        lh_buf_clear(&r->active->scan->rest);
    if (r->end > r->written)
        r->checksum = r->active->written_checksum;
    r->end = r->written;
    lh_cs_jobs_drop_waiting(r, error);
    if (!r->headless)
        lh_cs_replica_submit(r, (struct lh_cs_job){.kind = LH_CS_JOB_LOSE});
    lh_cs_space_rests(r);
    lh_cs_table_forget(r);
    lh_cs_report_lost(r, error);
    lh_cs_scan_loaded(r);
}
