/* Reading replicas back: the headers of all files at start, and the logs of unsealed ones, whole
 * (FAIL-3). The log is scanned from its beginning, not from a remembered offset: the writer table
 * must be rebuilt anyway (APP-5), and every byte's checksum is verified on the way. */
#include "chunkserver/log/scan.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/log/behind.h"
#include "chunkserver/log/frozen.h"
#include "chunkserver/log/internal.h"
#include "chunkserver/log/tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS_BYTES (2 * LH_SLOT_BYTES)

static void header_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);
static void read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);

static const struct lh_cs_disk_user header_read = {.done = header_done};
static const struct lh_cs_disk_user log_read = {.done = read_done};

void lh_cs_scan_load(struct lh_cs_replica *r)
{
    r->state = LH_CS_REPLICA_LOADING;
    lh_cs_disk_ask(r->logs, &header_read, r, NULL,
        &(struct lh_cs_disk_request){.op = LH_DISK_READ, .length = HEADERS_BYTES});
}

static void load_more(struct lh_cs_logs *logs)
{
    const struct lh_chunkserver_config *c = &logs->cs->config;

    while (logs->loading < c->bounds.scan_files && logs->internal->load_next < c->chunk_count) {
        struct lh_cs_replica *r = lh_cs_replica_find(logs, c->chunks[logs->internal->load_next++]);
        if (r == NULL || r->state != LH_CS_REPLICA_LOADING || r->loading)
            continue;
        r->loading = true;
        logs->loading++;
        lh_cs_scan_load(r);
    }
}

void lh_cs_logs_load(struct lh_cs_logs *logs)
{
    const struct lh_chunkserver_config *c = &logs->cs->config;

    /* All of them from the beginning: a peer may ask for the last one before it is looked at, and
     * is not to hear that there is no replica. */
    for (size_t i = 0; i < c->chunk_count; i++)
        if (LH_CS_IS_CHUNK(c->chunks[i]) && lh_cs_replica_find(logs, c->chunks[i]) == NULL)
            lh_cs_replica_add(logs, c->chunks[i], LH_CS_REPLICA_LOADING);
    load_more(logs);
}

void lh_cs_scan_loaded(struct lh_cs_replica *r)
{
    if (!r->loading)
        return;
    LH_ASSERT(r->logs->loading > 0);
    r->loading = false;
    r->logs->loading--;
    load_more(r->logs);
    if (r->logs->loading == 0)
        r->logs->users->loaded(r->logs->self);
}

static void lost_at_load(struct lh_cs_replica *r, int error)
{
    lh_fx_log(r->logs->cs->fx, LH_ERROR,
        "chunk %" PRIu64 ": cannot be used: %s; its file is left alone", r->chunk,
        lh_error_text(error));
    r->state = LH_CS_REPLICA_LOST;
    r->headless = true;
    lh_cs_scan_loaded(r);
}

/* The old file is read again: its master may have heard in between that it is being copied, and not
 * know any more that something can be read of it (REC-9). */
static void found_lost(struct lh_cs_replica *r)
{
    r->state = LH_CS_REPLICA_LOST;
    if (!r->loading)
        lh_cs_report_lost(r, LH_ERR_CORRUPT);
}

static void found_sealed(struct lh_cs_replica *r)
{
    r->state = LH_CS_REPLICA_READY;
    r->end = r->written = r->synced = r->committed = r->header.sealed_length;
    r->checksum = r->header.sealed_checksum;
    if (r->header.lost)
        found_lost(r);
    else if (r->in_doubt)
        lh_cs_doubt(r, LH_ERR_UNSYNCED);
    lh_cs_scan_loaded(r);
}

/* One refused read says nothing of what is there (REC-6); some in a row, with pauses, do. */
bool lh_cs_scan_asked_again(struct lh_cs_replica *r, int error)
{
    if (error == LH_ERR_IO && r->refused_reads + 1u < r->logs->cs->config.bounds.scan_tries) {
        lh_cs_read_later(r, r->refused_reads++);
        return true;
    }
    if (r->refused_reads > 0 && r->state == LH_CS_REPLICA_FROZEN)
        lh_cs_kept(r); /* that it can be written is waited for, too */
    else if (r->refused_reads > 0)
        lh_cs_thawed(r);
    r->refused_reads = 0;
    return false;
}

static void header_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = t->replica;

    if (r->state != LH_CS_REPLICA_LOADING)
        return; /* it is to be removed */
    if (error == LH_ERR_UNSYNCED && !r->in_doubt) {
        LH_MARK("scan-in-doubt");
        r->in_doubt = !LH_PLANTED("doubt-dies-with-its-process");
        /* From now on the disk itself is read. */
        lh_cs_scan_load(r);
        return;
    }
    if (lh_cs_scan_asked_again(r, error)) {
        LH_MARK("scan-header-asked-again");
        return;
    }
    if (error == LH_OK)
        error = lh_chunk_header_decode(bytes, r->chunk, &r->header);
    if (error == LH_OK &&
        (r->header.chunk_size < LH_CHUNK_BYTES_MIN || r->header.chunk_size > LH_CHUNK_BYTES_MAX))
        error = LH_ERR_CORRUPT;
    if (error != LH_OK) {
        LH_MARK("scan-no-header");
        lost_at_load(r, error);
        return;
    }
    r->adopting = r->header.version;
    r->incomplete = r->header.copying;
    if (r->incomplete) {
        LH_MARK("scan-incomplete");
        r->header.sealed = false;
    }
    if (LH_PLANTED("lost-replica-comes-back"))
        r->header.lost = false;
    if (r->header.lost)
        LH_MARK("scan-lost");
    if (r->header.sealed) {
        found_sealed(r);
    } else {
        lh_cs_scan_start(r);
    }
}

void lh_cs_scan_stop(struct lh_cs_replica *r)
{
    struct lh_cs_scan *scan = r->active->scan;

    if (scan == NULL)
        return;
    lh_buf_clear(&scan->rest);
    free(scan->behind);
    free(scan);
    lh_cs_move(r)->scan = NULL;
}

static void scan_read(struct lh_cs_replica *r)
{
    lh_cs_disk_ask(r->logs, &log_read, r, NULL,
        &(struct lh_cs_disk_request){.op = LH_DISK_READ,
            .offset = LH_LOG_START + r->active->scan->at,
            .length = r->logs->cs->config.bounds.scan_bytes});
}

void lh_cs_scan_again(struct lh_cs_replica *r)
{
    const struct lh_cs_scan *scan = r->active->scan;

    if (r->state == LH_CS_REPLICA_LOADING)
        lh_cs_scan_load(r);
    else if (scan->behind != NULL)
        lh_cs_behind_again(r);
    else
        scan_read(r);
}

/* A replica that takes requests meanwhile (a sealed one, read back for settling) stays READY. */
void lh_cs_scan_start(struct lh_cs_replica *r)
{
    if (r->active->scan != NULL)
        return;
    struct lh_cs_scan *scan = lh_cs_move(r)->scan = lh_alloc(sizeof *scan);
    lh_cs_table_forget(r);
    scan->checksum = lh_log_seed(r->chunk);
    if (!r->header.sealed) {
        r->state = LH_CS_REPLICA_SCANNING;
        r->end = 0;
        r->checksum = scan->checksum;
    }
    scan_read(r);
}

/* FAIL-5: what a process before had in memory is not known any more, and the last sync that
 * succeeded may not have been true. So nobody can say whether all that was acknowledged is here,
 * also if the log ends with a whole batch. */
static void found_in_doubt(struct lh_cs_replica *r)
{
    if (!LH_PLANTED("doubted-log-counts-where-it-ends"))
        r->torn = true;
    if (!LH_PLANTED("rewritten-log-counts-as-whole"))
        memset(r->header.equal_boot, 0, LH_BOOT_ID_BYTES);
    lh_cs_doubt(r, LH_ERR_UNSYNCED);
}

static void scan_done(struct lh_cs_replica *r)
{
    r->writers_known = true;
    if (r->header.sealed) {
        LH_MARK("scan-for-settling");
        lh_cs_table_keep(r);
        r->logs->users->read_back(r);
        return;
    }
    r->state = LH_CS_REPLICA_READY;
    r->written = r->end;
    r->synced = r->end; /* what a server finds at its start, or has just cut, is on the disk */
    if (r->committed > r->end)
        r->committed = r->end;
    if (r->header.lost)
        found_lost(r);
    if (r->in_doubt && !r->header.lost)
        found_in_doubt(r);
    else if (r->loading && !r->header.lost)
        lh_cs_replica_submit(r, (struct lh_cs_job){.kind = LH_CS_JOB_TRIM});
    lh_cs_scan_loaded(r);
    lh_cs_replica_pump(r);
}

static void scan_failed(struct lh_cs_replica *r, int error, uint64_t offset)
{
    lh_cs_scan_stop(r);
    lh_cs_replica_lose(r, error, offset);
    r->logs->users->read_back(r);
    lh_cs_replica_pump(r);
}

void lh_cs_scan_reaches(struct lh_cs_replica *r, uint64_t end, uint64_t checksum)
{
    r->checksum = checksum;
    r->end = end;
    /* Whatever the header says, only where a batch ends (APP-3). */
    if (end > r->committed && end <= r->header.committed)
        r->committed = end;
}

void lh_cs_scan_lost(struct lh_cs_replica *r, int error, uint64_t offset)
{
    lh_cs_scan_stop(r);
    if (r->header.lost) {
        scan_done(r);
        return;
    }
    r->written = r->synced = r->end;
    scan_failed(r, error, offset);
}

/* What of an open log that is damaged at `offset` lies behind that is looked for, unless it is a
 * copy: that begins again. */
static void damaged(struct lh_cs_replica *r, int error, uint64_t offset)
{
    if (r->header.sealed || r->incomplete)
        scan_failed(r, error, offset);
    else if (LH_PLANTED("lost-log-ends-at-its-damage"))
        lh_cs_scan_lost(r, error, offset);
    else
        lh_cs_behind_begin(r, error, offset);
}

/* FAIL-3: is what follows, which is no batch for that reason, rot? While the machine stays up the
 * page cache holds what was written, in order: a process that dies leaves at most a last batch
 * without its end. When power fails, of what was not synced anything may be there: a batch that is
 * damaged says nothing. */
static bool is_rot(const struct lh_cs_replica *r, int why)
{
    bool same_boot = !r->in_doubt && memcmp(r->header.equal_boot, r->logs->cs->config.boot_id,
                                         LH_BOOT_ID_BYTES) == 0;

    return (same_boot || LH_PLANTED("torn-tail-taken-for-rot")) && why != LH_OK &&
           why != LH_ERR_WOULD_BLOCK;
}

/* The log ends, or is torn, at `good`; `extra` bytes of the file lie behind that. */
static void scan_ended(struct lh_cs_replica *r, uint64_t good, bool extra, int why)
{
    if (r->header.sealed) {
        if (good != r->header.sealed_length) {
            damaged(r, LH_ERR_CORRUPT, good);
        } else {
            lh_cs_scan_stop(r);
            scan_done(r);
        }
        return;
    }
    /* Below the length at which equality was confirmed nothing can be a torn tail. */
    if (good < r->header.equal_length || (extra && is_rot(r, why))) {
        if (good < r->header.equal_length)
            LH_MARK("scan-corrupt-below-equal");
        else
            LH_MARK("scan-rot-under-the-same-boot");
        damaged(r, LH_ERR_CORRUPT, good);
        return;
    }
    if (extra && r->header.lost) {
        damaged(r, LH_ERR_CORRUPT, good); /* nothing is cut of what is damaged */
        return;
    }
    lh_cs_scan_stop(r);
    if (extra && !LH_PLANTED("torn-tail-skipped")) {
        LH_MARK("scan-torn-tail");
        if (r->in_doubt) { /* nothing is cut of a file that is never written to again */
            scan_done(r);
            return;
        }
        lh_fx_log(r->logs->cs->fx, LH_WARN, "chunk %" PRIu64 ": cutting a torn tail at %" PRIu64,
            r->chunk, good);
        /* The file itself is cut and synced, so that no remnant behind the tear can come back to
         * life (FAIL-3); then it is read back again. */
        r->written = good;
        r->state = LH_CS_REPLICA_TRUNCATING;
        lh_cs_replica_submit(r, (struct lh_cs_job){
                                    .kind = LH_CS_JOB_TRUNCATE,

                                    .length = good,
                                    .at_start = true,
                                });
        lh_cs_replica_pump(r);
        return;
    }
    scan_done(r);
}

/* Checks the batch at `at`, and that it stands where it belongs. */
static int check(
    struct lh_cs_replica *r, const struct lh_buf *data, size_t at, struct lh_batch_header *h)
{
    struct lh_cs_scan *scan = r->active->scan;
    uint64_t before = scan->checksum;
    uint8_t raw[LH_BATCH_HEADER_BYTES];
    int error = lh_batch_check(data, at, lh_batch_bytes_max(r->header.chunk_size), h);

    if (error == LH_OK && !lh_log_fits(data, at, h, &scan->checksum) &&
        !LH_PLANTED("chain-unchecked-by-scan"))
        error = LH_ERR_CORRUPT;
    if (error == LH_ERR_CORRUPT && LH_PLANTED("torn-tail-kept") &&
        lh_buf_read(data, at, raw, sizeof raw)) {
        error = lh_batch_header_decode(raw, h);
        scan->checksum = lh_log_checksum(before, h);
    }
    return error;
}

/* APP-5: rebuilds the writer table. False: the batch does not continue its writer's sequence. */
static bool note(struct lh_cs_replica *r, const struct lh_batch_header *h, uint64_t offset)
{
    return LH_PLANTED("writer-table-not-rebuilt") || lh_writers_note(&r->writers, h, offset);
}

static void read_done(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes)
{
    struct lh_cs_replica *r = t->replica;
    struct lh_cs_scan *scan = r->active->scan;

    if (r->state == LH_CS_REPLICA_LOST || r->state == LH_CS_REPLICA_REMOVING ||
        r->state == LH_CS_REPLICA_CREATING) {
        lh_cs_scan_stop(r);
        return;
    }
    if (lh_cs_scan_asked_again(r, error)) {
        LH_MARK("scan-log-asked-again");
        return;
    }
    if (error != LH_OK) {
        damaged(r, error, scan->at);
        return;
    }
    bool at_end = bytes->size < r->logs->cs->config.bounds.scan_bytes;
    uint64_t log_at = scan->at - scan->rest.size; /* where `rest` begins */
    scan->at += bytes->size;
    struct lh_buf data = lh_buf_take(&scan->rest);
    lh_buf_append(&data, bytes, 0, bytes->size);

    uint64_t limit = r->header.sealed ? r->header.sealed_length : r->header.chunk_size;
    size_t at = 0;
    int why = LH_OK;
    while (at < data.size && log_at + at < limit) {
        struct lh_batch_header h;
        why = check(r, &data, at, &h);
        if (why == LH_OK && (h.size > limit - (log_at + at) || !note(r, &h, log_at + at)))
            why = LH_ERR_CORRUPT;
        if (why != LH_OK)
            break;
        if (!r->header.sealed)
            lh_cs_scan_reaches(r, log_at + at + h.size, scan->checksum);
        at += h.size;
    }
    if (why == LH_ERR_WOULD_BLOCK && !at_end) {
        lh_buf_append(&scan->rest, &data, at, data.size - at);
        lh_buf_clear(&data);
        scan_read(r);
        return;
    }
    bool more = why == LH_OK && !at_end && log_at + at < limit;
    bool extra = at < data.size;
    lh_buf_clear(&data);
    if (more)
        scan_read(r);
    else
        scan_ended(r, log_at + at, extra, why);
}
