/* Reading replicas back: the headers of all files at start, and the logs of unsealed ones, whole
 * (FAIL-3). The log is scanned from its beginning, not from a remembered offset: the writer table
 * must be rebuilt anyway (APP-5), and every byte's checksum is verified on the way. */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/internal.h"

#include <string.h>

#define HEADERS_BYTES (2 * LH_SLOT_BYTES)

void scan_load_more(struct lh_chunkserver *cs)
{
    while (cs->loading < cs->config.bounds.scan_files && cs->load_next < cs->config.chunk_count) {
        uint64_t chunk = cs->config.chunks[cs->load_next++];
        if (chunk == LH_PROBE_FILE || replica_find(cs, chunk) != NULL)
            continue;
        struct replica *r = replica_add(cs, chunk, REPLICA_LOADING);
        r->loading = true;
        cs->loading++;
        disk(cs, TICKET_HEADER, r, NULL, LH_DISK_READ, 0, HEADERS_BYTES, NULL);
    }
}

void scan_loaded(struct replica *r)
{
    if (!r->loading)
        return;
    LH_ASSERT(r->cs->loading > 0);
    r->loading = false;
    r->cs->loading--;
    scan_load_more(r->cs);
    if (r->cs->loading == 0)
        session_start(r->cs);
}

static void lost_at_load(struct replica *r, int error)
{
    lh_fx_log(r->cs->fx, LH_ERROR, "chunk %llu: cannot be used: %s; its file is left alone",
        (unsigned long long)r->chunk, lh_error_text(error));
    r->state = REPLICA_LOST;
    r->headless = true;
    scan_loaded(r);
}

/* SEAL-1: that the seal was recorded is told in the registration. A former process may have died
 * before its header was on the disk, so it is synced first. */
void scan_sealed(struct replica *r)
{
    r->state = REPLICA_READY;
    r->end = r->written = r->synced = r->committed = r->header.sealed_length;
    r->checksum = r->header.sealed_checksum;
    scan_loaded(r);
}

void scan_header_done(struct replica *r, int error, struct lh_buf *bytes)
{
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
    if (r->header.lost && !LH_PLANTED("lost-replica-comes-back")) {
        LH_MARK("scan-lost");
        r->state = REPLICA_LOST;
        scan_loaded(r);
    } else if (r->header.sealed && !LH_PLANTED("seal-believed-from-memory")) {
        disk(r->cs, TICKET_HEADER, r, NULL, LH_DISK_SYNC, 0, 0, NULL);
    } else if (r->header.sealed) {
        scan_sealed(r);
    } else {
        scan_start(r);
    }
}

void scan_header_synced(struct replica *r, int error)
{
    if (error != LH_OK) {
        lost_at_load(r, error);
        return;
    }
    r->header_synced = true;
    /* And what was reserved for it before it was sealed is given back. */
    disk(r->cs, TICKET_HEADER, r, NULL, LH_DISK_RESERVE, 0, 0, NULL);
}

static void scan_read(struct replica *r)
{
    disk(r->cs, TICKET_SCAN, r, NULL, LH_DISK_READ, LH_LOG_START + r->scan_at,
        r->cs->config.bounds.scan_bytes, NULL);
}

/* A replica that takes requests meanwhile (a sealed one, read back for settling) stays READY. */
void scan_start(struct replica *r)
{
    if (r->scanning)
        return;
    r->scanning = true;
    settling_forgets(r);
    lh_buf_clear(&r->scan_rest);
    r->scan_at = 0;
    if (!r->header.sealed) {
        r->state = REPLICA_SCANNING;
        r->end = 0;
        r->checksum = 0;
    }
    scan_read(r);
}

static void scan_done(struct replica *r)
{
    lh_buf_clear(&r->scan_rest);
    r->writers_known = true;
    if (r->header.sealed) {
        LH_MARK("scan-for-settling");
        settling_keeps(r);
        settlings_answer(r);
        return;
    }
    r->state = REPLICA_READY;
    r->read_back = true;
    r->written = r->end;
    r->synced = 0; /* nothing here vouches for the disk: the next sync will */
    if (r->committed > r->end)
        r->committed = r->end;
    if (r->loading)
        replica_submit(r, (struct job){.kind = JOB_TRIM, .origin = FOR_NOBODY});
    scan_loaded(r);
    replica_pump(r);
}

static void scan_failed(struct replica *r, int error, uint64_t offset)
{
    replica_lose(r, error, offset);
    settlings_answer(r);
    replica_pump(r);
}

/* The log ends, or is torn, at `good`; `extra` bytes of the file lie behind that. */
static void scan_ended(struct replica *r, uint64_t good, bool extra, int why)
{
    r->scanning = false;
    if (r->header.sealed) {
        if (good != r->header.sealed_length)
            scan_failed(r, LH_ERR_CORRUPT, good);
        else
            scan_done(r);
        return;
    }
    /* Below the length at which equality was confirmed nothing can be a torn tail. */
    if (good < r->header.equal_length) {
        LH_MARK("scan-corrupt-below-equal");
        scan_failed(r, why == LH_OK ? LH_ERR_CORRUPT : why, good);
        return;
    }
    if (extra && !LH_PLANTED("torn-tail-skipped")) {
        LH_MARK("scan-torn-tail");
        lh_fx_log(r->cs->fx, LH_WARN, "chunk %llu: cutting a torn tail at %llu",
            (unsigned long long)r->chunk, (unsigned long long)good);
        /* The file itself is cut and synced, so that no remnant behind the tear can come back to
         * life (FAIL-3); then it is read back once more. */
        r->written = good;
        lh_buf_clear(&r->scan_rest);
        r->state = REPLICA_CUTTING;
        replica_submit(r, (struct job){
                              .kind = JOB_CUT,
                              .origin = FOR_NOBODY,
                              .length = good,
                              .at_start = true,
                          });
        replica_pump(r);
        return;
    }
    scan_done(r);
}

/* APP-5: rebuilds the writer table. False: the batch does not continue its writer's sequence. */
static bool note(struct replica *r, const struct lh_batch_header *h, uint64_t offset)
{
    return LH_PLANTED("writer-table-not-rebuilt") || lh_writers_note(&r->writers, h, offset);
}

void scan_read_done(struct replica *r, int error, struct lh_buf *bytes)
{
    if (r->state == REPLICA_LOST || r->state == REPLICA_REMOVING || r->state == REPLICA_CREATING) {
        r->scanning = false;
        return;
    }
    if (error != LH_OK) {
        r->scanning = false;
        scan_failed(r, error, r->scan_at);
        return;
    }
    bool at_end = bytes->size < r->cs->config.bounds.scan_bytes;
    uint64_t log_at = r->scan_at - r->scan_rest.size; /* where `rest` begins */
    r->scan_at += bytes->size;
    struct lh_buf data = lh_buf_take(&r->scan_rest);
    lh_buf_append(&data, bytes, 0, bytes->size);

    uint64_t limit = r->header.sealed ? r->header.sealed_length : r->header.chunk_size;
    uint32_t batch_max = lh_batch_bytes_max(r->header.chunk_size);
    size_t at = 0;
    int why = LH_OK;
    while (at < data.size && log_at + at < limit) {
        struct lh_batch_header h;
        uint8_t raw[LH_BATCH_HEADER_BYTES];
        why = lh_batch_check(&data, at, batch_max, &h);
        if (why == LH_ERR_CORRUPT && LH_PLANTED("torn-tail-kept") &&
            lh_buf_read(&data, at, raw, sizeof raw))
            why = lh_batch_header_decode(raw, &h);
        if (why == LH_OK && (h.size > limit - (log_at + at) || !note(r, &h, log_at + at)))
            why = LH_ERR_CORRUPT;
        if (why != LH_OK)
            break;
        if (!r->header.sealed) {
            r->checksum = lh_log_checksum(r->checksum, &h);
            r->end += h.size;
            /* Whatever the header says, only where a batch ends (APP-3). */
            if (r->end > r->committed && r->end <= r->header.committed)
                r->committed = r->end;
        }
        at += h.size;
    }
    if (why == LH_ERR_WOULD_BLOCK && !at_end) {
        lh_buf_append(&r->scan_rest, &data, at, data.size - at);
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
