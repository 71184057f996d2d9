/* The library: readers. The core reads ahead and checks; here whole answers of megabytes are taken
 * apart, so a record costs no lock and no call into the core. */
#include "client/library/library.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "batch/batch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define READAHEAD_DEFAULT (8u << 20)
#define READAHEAD_MIN     (1u << 20)

struct lh_reader {
    struct lh_cluster *cluster;
    struct lh_client_reader *core;
    struct lh_buf fetched; /* what `bytes` points into, unless that is `flat` */
    uint8_t *flat;
    size_t flat_capacity;
    const uint8_t *bytes; /* whole batches */
    size_t size, at;      /* `at`: of the batch after the present one */
    uint64_t start;       /* file offset of `bytes` */
    bool in_batch;        /* `batch`, `cursor` and `index` are of a batch not read to its end */
    struct lh_batch batch;
    size_t cursor;
    uint32_t index;           /* of the next record in the batch */
    struct lh_client_gap gap; /* that the last call has met */
    struct lh_gap_member *gap_members;
    uint32_t skip; /* records of the first batch that come before the asked start */
};

int lh_reader_open(struct lh_cluster *cluster, const char *path,
    const struct lh_reader_options *options, uint64_t timeout_ms, struct lh_reader **reader)
{
    struct lh_reader_options o = options == NULL ? (struct lh_reader_options){0} : *options;

    if (cluster == NULL || path == NULL || reader == NULL)
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "cluster, path or reader is NULL");
    if (o.readahead_bytes == 0)
        o.readahead_bytes = READAHEAD_DEFAULT;
    if (o.readahead_bytes < READAHEAD_MIN)
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "readahead_bytes is %" PRIu64 ", less than 1 MiB",
            o.readahead_bytes);
    struct lh_reader_open_call call = {
        .call.kind = LH_CALL_READER_OPEN,
        .path = path,
        .deadline = lh_deadline(timeout_ms),
        .offset = o.start.offset,
        .follow = o.follow,
        .readahead = o.readahead_bytes,
        .skip_damaged = o.skip_damaged,
    };
    int error = lh_call_wait(cluster, &call.call);
    if (error != LH_OK)
        return error;
    struct lh_reader *r = lh_alloc(sizeof *r);
    r->cluster = cluster;
    r->core = call.reader;
    r->start = o.start.offset;
    r->skip = o.start.index;
    *reader = r;
    return LH_OK;
}

static void forget_gap(struct lh_reader *r)
{
    lh_client_gap_deinit(&r->gap);
    free(r->gap_members);
    r->gap_members = NULL;
}

/* The reader stands behind it; nothing is at hand. */
static int meet_gap(struct lh_reader *r, struct lh_client_gap *gap)
{
    r->gap = *gap;
    r->gap_members = lh_alloc_array(gap->member_count, sizeof *r->gap_members);
    for (size_t i = 0; i < gap->member_count; i++)
        r->gap_members[i] =
            (struct lh_gap_member){gap->members[i].server_id, gap->members[i].error};
    lh_buf_clear(&r->fetched);
    r->size = r->at = 0;
    r->start = gap->to;
    r->in_batch = false;
    r->skip = 0;
    return LH_GAP;
}

int lh_reader_gap(const struct lh_reader *r, struct lh_gap *gap)
{
    if (r == NULL || gap == NULL)
        return lh_missing("reader or gap");
    if (r->gap.member_count == 0)
        return lh_fail(LH_ERR_INVALID_ARGUMENT, "the last call on this reader has met no gap");
    *gap =
        (struct lh_gap){r->gap.from, r->gap.to, r->gap.chunk, r->gap_members, r->gap.member_count};
    return LH_OK;
}

/* Replaces the bytes at hand by the next ones of the file. */
static int fetch(struct lh_reader *r, uint64_t timeout_ms)
{
    struct lh_fetch_call call = {
        .call.kind = LH_CALL_FETCH,
        .reader = r->core,
        .deadline = lh_deadline(timeout_ms),
    };
    int error = lh_call_wait(r->cluster, &call.call);

    if (error != LH_OK)
        return error == LH_ERR_CLOSED ? LH_END : error;
    if (call.gap.member_count > 0)
        return meet_gap(r, &call.gap);
    lh_buf_clear(&r->fetched);
    r->fetched = call.batches;
    r->size = r->fetched.size;
    r->start = call.offset;
    r->at = 0;
    if (r->fetched.count == 1) {
        r->bytes = lh_buf_slices(&r->fetched)[0].data;
        return LH_OK;
    }
    /* The network delivers in pieces that end within records. One copy of all of it costs less than
     * looking at every record for a seam. */
    if (r->size > r->flat_capacity) {
        free(r->flat);
        r->flat = lh_realloc_array(NULL, r->size, 1);
        r->flat_capacity = r->size;
    }
    bool whole = lh_buf_read(&r->fetched, 0, r->flat, r->size);
    LH_ASSERT(whole);
    lh_buf_clear(&r->fetched);
    r->bytes = r->flat;
    return LH_OK;
}

/* Makes the batch after the present one the present one. */
static int advance(struct lh_reader *r, uint64_t timeout_ms)
{
    struct lh_batch_header h;

    if (r->at == r->size) {
        int error = fetch(r, timeout_ms);
        if (error != LH_OK)
            return error;
    }
    int error = lh_batch_header_decode(r->bytes + r->at, &h);
    LH_ASSERT(error == LH_OK && h.size <= r->size - r->at); /* the core has checked it */
    r->batch = (struct lh_batch){
        .data = r->bytes + r->at,
        .size = h.size,
        .offset = r->start + r->at,
        .count = h.count,
        .writer = h.writer,
        .sequence = h.sequence,
    };
    r->at += h.size;
    r->cursor = 0;
    r->index = 0;
    r->in_batch = true;
    return LH_OK;
}

bool lh_batch_next(const struct lh_batch *batch, size_t *cursor, const void **data, size_t *size)
{
    const uint8_t *bytes = batch->data;
    const uint8_t *record;
    uint32_t n;
    size_t at = *cursor == 0 ? LH_BATCH_HEADER_BYTES : *cursor;
    struct lh_batch_cursor c = {bytes + at, bytes + batch->size - LH_BATCH_CHAIN_BYTES};

    if (lh_batch_cursor_next(&c, &record, &n) != LH_OK)
        return false;
    *cursor = (size_t)(c.at - bytes);
    *data = record;
    *size = n;
    return true;
}

/* LH_END at the end of the batch. */
static int next_in_batch(struct lh_reader *r, struct lh_record *record)
{
    if (lh_batch_next(&r->batch, &r->cursor, &record->data, &record->size)) {
        record->position = (struct lh_position){.offset = r->batch.offset, .index = r->index++};
        return LH_OK;
    }
    if (r->index != r->batch.count)
        return lh_fail(LH_ERR_CORRUPT,
            "the batch at offset %" PRIu64 " has fewer records than it says", r->batch.offset);
    r->in_batch = false;
    return LH_END;
}

int lh_reader_next(struct lh_reader *r, uint64_t timeout_ms, struct lh_record *record)
{
    if (lh_process_check(r->cluster) != LH_OK)
        return LH_ERR_CLOSED;
    forget_gap(r);
    for (;;) {
        while (r->in_batch) {
            int error = next_in_batch(r, record);
            if (error == LH_OK && r->skip == 0)
                return LH_OK;
            if (error == LH_OK)
                r->skip--;
            else if (error == LH_END)
                r->skip = 0;
            else
                return error;
        }
        int error = advance(r, timeout_ms);
        if (error != LH_OK)
            return error;
    }
}

int lh_reader_next_batch(struct lh_reader *r, uint64_t timeout_ms, struct lh_batch *batch)
{
    int error = lh_process_check(r->cluster);

    forget_gap(r);
    if (error == LH_OK)
        error = advance(r, timeout_ms);
    if (error != LH_OK)
        return error;
    r->in_batch = false;
    r->skip = 0;
    *batch = r->batch;
    return LH_OK;
}

struct lh_position lh_reader_position(const struct lh_reader *r)
{
    if (r->in_batch && r->index < r->batch.count)
        return (struct lh_position){.offset = r->batch.offset, .index = r->index + r->skip};
    return (struct lh_position){.offset = r->start + r->at, .index = r->skip};
}

void lh_reader_close(struct lh_reader *r)
{
    if (r == NULL || lh_is_inherited(r->cluster))
        return;
    struct lh_reader_close_call call = {.call.kind = LH_CALL_READER_CLOSE, .reader = r->core};
    (void)lh_call_wait(r->cluster, &call.call);
    forget_gap(r);
    lh_buf_clear(&r->fetched);
    free(r->flat);
    free(r);
}
