#include "batch/batch.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/prng.h"

#include <string.h>

#define MAGIC 0x3242484cu /* "LHB2" */

/* Of the blocks that a stamper puts small batches and chains into. */
#define STAMPER_BYTES (16u << 10)

uint32_t lh_batch_bytes_max(uint64_t chunk_size)
{
    uint64_t half = chunk_size / 2;

    return half < LH_BATCH_BYTES_LIMIT ? (uint32_t)half : LH_BATCH_BYTES_LIMIT;
}

uint32_t lh_record_bytes_max(uint64_t chunk_size)
{
    return lh_batch_bytes_max(chunk_size) / 2 - LH_BATCH_FRAME_BYTES - LH_RECORD_HEADER_BYTES;
}

int lh_batch_header_decode(const uint8_t bytes[LH_BATCH_HEADER_BYTES], struct lh_batch_header *h)
{
    if (lh_get32(bytes + 4) != MAGIC)
        return LH_ERR_MALFORMED;
    struct lh_batch_header d = {
        .crc = lh_get32(bytes),
        .size = lh_get32(bytes + 8),
        .count = lh_get32(bytes + 12),
        .writer = lh_get64(bytes + 16),
        .sequence = lh_get64(bytes + 24),
    };
    if (d.count == 0 || d.writer == 0 || d.sequence > UINT64_MAX - d.count)
        return LH_ERR_MALFORMED;
    if (d.size < LH_BATCH_FRAME_BYTES ||
        (d.size - LH_BATCH_FRAME_BYTES) / LH_RECORD_HEADER_BYTES < d.count)
        return LH_ERR_MALFORMED;
    *h = d;
    return LH_OK;
}

int lh_batch_check(
    const struct lh_buf *b, size_t offset, uint32_t bytes_max, struct lh_batch_header *h)
{
    uint8_t bytes[LH_BATCH_HEADER_BYTES];
    struct lh_batch_header d;

    if (!lh_buf_read(b, offset, bytes, sizeof bytes))
        return LH_ERR_WOULD_BLOCK;
    int error = lh_batch_header_decode(bytes, &d);
    if (error != LH_OK)
        return error;
    if (d.size > bytes_max)
        return LH_ERR_TOO_LARGE;
    if (d.size > b->size - offset)
        return LH_ERR_WOULD_BLOCK;
    if (lh_buf_crc32c(b, offset + 4, d.size - 4 - LH_BATCH_CHAIN_BYTES, 0) != d.crc)
        return LH_ERR_CORRUPT;
    *h = d;
    return LH_OK;
}

/* A position in a buf that moves forward without searching from its start each time. It may rest at
 * the end of a slice; it steps into the next one only to read there. */
struct walker {
    const struct lh_slice *slice;
    size_t at;
};

static void skip(struct walker *w, size_t bytes)
{
    w->at += bytes;
    while (w->at > w->slice->size) {
        w->at -= w->slice->size;
        w->slice++;
    }
}

static uint32_t read_length(struct walker *w)
{
    uint8_t bytes[LH_RECORD_HEADER_BYTES];

    for (size_t i = 0; i < sizeof bytes; i++) {
        if (w->at == w->slice->size) {
            w->slice++;
            w->at = 0;
        }
        bytes[i] = w->slice->data[w->at++];
    }
    return lh_get32(bytes);
}

int lh_batch_check_records(const struct lh_buf *b, size_t offset, uint32_t bytes_max,
    uint32_t record_max, struct lh_batch_header *h)
{
    struct lh_batch_header d;
    int error = lh_batch_check(b, offset, bytes_max, &d);

    if (error != LH_OK)
        return error;
    struct walker w = {lh_buf_slices_const(b), 0};
    size_t left = d.size - LH_BATCH_FRAME_BYTES;

    skip(&w, offset + LH_BATCH_HEADER_BYTES);
    for (uint32_t i = 0; i < d.count; i++) {
        if (left < LH_RECORD_HEADER_BYTES)
            return LH_ERR_MALFORMED;
        uint32_t size = read_length(&w);
        left -= LH_RECORD_HEADER_BYTES;
        if (size > left)
            return LH_ERR_MALFORMED;
        if (size > record_max)
            return LH_ERR_TOO_LARGE;
        skip(&w, size);
        left -= size;
    }
    if (left != 0)
        return LH_ERR_MALFORMED;
    *h = d;
    return LH_OK;
}

uint64_t lh_log_seed(uint64_t chunk)
{
    return lh_mix64(chunk + 0x9e3779b97f4a7c15u);
}

uint64_t lh_log_checksum(uint64_t checksum, const struct lh_batch_header *h)
{
    /* The batch's crc covers its bytes, size and numbers; chaining makes the order count. A 64-bit
     * finaliser keeps the chain from collapsing to 32 bits. */
    return lh_mix64(checksum + (((uint64_t)h->size << 32) | h->crc) + 0x9e3779b97f4a7c15u);
}

int lh_log_checksum_before(
    const struct lh_buf *b, uint64_t offset, uint64_t chunk, uint64_t *checksum)
{
    uint8_t bytes[LH_BATCH_CHAIN_BYTES];

    if (offset == 0) {
        *checksum = lh_log_seed(chunk);
        return LH_OK;
    }
    if (offset < LH_BATCH_FRAME_BYTES || !lh_buf_read(b, 0, bytes, sizeof bytes))
        return LH_ERR_MALFORMED;
    *checksum = lh_get64(bytes);
    return LH_OK;
}

bool lh_log_fits(
    const struct lh_buf *b, size_t offset, const struct lh_batch_header *h, uint64_t *checksum)
{
    uint8_t chain[LH_BATCH_CHAIN_BYTES];
    uint64_t due = lh_log_checksum(*checksum, h);
    bool whole = lh_buf_read(b, offset + h->size - sizeof chain, chain, sizeof chain);

    LH_ASSERT(whole);
    *checksum = lh_get64(chain);
    return *checksum == due;
}

int lh_log_check(const struct lh_buf *b, size_t offset, uint32_t bytes_max, uint64_t *checksum,
    struct lh_batch_header *h)
{
    int error = lh_batch_check(b, offset, bytes_max, h);

    return error == LH_OK && !lh_log_fits(b, offset, h, checksum) ? LH_ERR_CORRUPT : error;
}

/* So many bytes of the present block, or of a new one. */
static uint8_t *stamper_room(struct lh_batch_stamper *s, size_t size)
{
    if (s->bytes == NULL || STAMPER_BYTES - s->used < size) {
        lh_buf_clear(&s->block);
        s->block = lh_buf_alloc(STAMPER_BYTES, &s->bytes);
        s->used = 0;
    }
    return s->bytes + s->used;
}

void lh_batch_stamp(struct lh_batch_stamper *s, struct lh_buf *batch,
    const struct lh_batch_header *h, uint64_t chain)
{
    struct lh_buf stored = {0};
    size_t kept = h->size - LH_BATCH_CHAIN_BYTES;
    size_t copied = h->size <= LH_BATCH_COPIED_BYTES ? kept : 0;
    uint8_t *to = stamper_room(s, copied + LH_BATCH_CHAIN_BYTES);

    LH_ASSERT(batch->size == h->size);
    if (copied > 0) {
        bool whole = lh_buf_read(batch, 0, to, copied);
        LH_ASSERT(whole);
    } else {
        lh_buf_append(&stored, batch, 0, kept);
    }
    lh_put64(to + copied, chain);
    lh_buf_append(&stored, &s->block, s->used, copied + LH_BATCH_CHAIN_BYTES);
    s->used += copied + LH_BATCH_CHAIN_BYTES;
    lh_buf_clear(batch);
    *batch = stored;
}

void lh_batch_stamper_deinit(struct lh_batch_stamper *s)
{
    lh_buf_clear(&s->block);
    *s = (struct lh_batch_stamper){0};
}

void lh_batch_builder_init(struct lh_batch_builder *b, uint32_t capacity)
{
    LH_ASSERT(capacity >= LH_BATCH_FRAME_BYTES);
    *b = (struct lh_batch_builder){.size = LH_BATCH_FRAME_BYTES, .capacity = capacity};
    b->buf = lh_buf_alloc(capacity, &b->bytes);
}

void lh_batch_builder_deinit(struct lh_batch_builder *b)
{
    lh_buf_clear(&b->buf);
    *b = (struct lh_batch_builder){0};
}

bool lh_batch_builder_add(struct lh_batch_builder *b, const void *record, uint32_t size)
{
    uint32_t left = b->capacity - b->size;

    if (left < LH_RECORD_HEADER_BYTES || left - LH_RECORD_HEADER_BYTES < size)
        return false;
    uint8_t *at = b->bytes + b->size - LH_BATCH_CHAIN_BYTES;
    lh_put32(at, size);
    if (size > 0)
        memcpy(at + LH_RECORD_HEADER_BYTES, record, size);
    b->size += LH_RECORD_HEADER_BYTES + size;
    b->count++;
    return true;
}

struct lh_buf lh_batch_builder_finish(
    struct lh_batch_builder *b, uint64_t writer, uint64_t sequence)
{
    struct lh_buf batch = {0};

    LH_ASSERT(b->count > 0 && writer != 0);
    lh_put32(b->bytes + 4, MAGIC);
    lh_put32(b->bytes + 8, b->size);
    lh_put32(b->bytes + 12, b->count);
    lh_put64(b->bytes + 16, writer);
    lh_put64(b->bytes + 24, sequence);
    lh_put32(b->bytes, lh_crc32c(0, b->bytes + 4, b->size - 4 - LH_BATCH_CHAIN_BYTES));
    lh_put64(b->bytes + b->size - LH_BATCH_CHAIN_BYTES, 0);
    lh_buf_append(&batch, &b->buf, 0, b->size);
    lh_batch_builder_deinit(b);
    return batch;
}

void lh_batch_cursor_init(struct lh_batch_cursor *c, const uint8_t *batch, uint32_t size)
{
    LH_ASSERT(size >= LH_BATCH_FRAME_BYTES);
    c->at = batch + LH_BATCH_HEADER_BYTES;
    c->end = batch + size - LH_BATCH_CHAIN_BYTES;
}

int lh_batch_cursor_next(struct lh_batch_cursor *c, const uint8_t **record, uint32_t *size)
{
    size_t left = (size_t)(c->end - c->at);

    if (left == 0)
        return LH_ERR_NOT_FOUND;
    if (left < LH_RECORD_HEADER_BYTES)
        return LH_ERR_MALFORMED;
    uint32_t n = lh_get32(c->at);
    if (n > left - LH_RECORD_HEADER_BYTES)
        return LH_ERR_MALFORMED;
    *record = c->at + LH_RECORD_HEADER_BYTES;
    *size = n;
    c->at += LH_RECORD_HEADER_BYTES + n;
    return LH_OK;
}
