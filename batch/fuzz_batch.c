/* libFuzzer target for everything that reads batches from strangers.
 *
 * The first byte of the input chooses how the rest is sliced and whether batches are made of it
 * first: without that no input would ever get past the checksum. What must hold for any bytes:
 *   - the answer does not depend on the slices;
 *   - a refusal leaves the header untouched;
 *   - of what was accepted, the cursor gives exactly `count` records, and those records framed
 *     again give the same bytes;
 *   - a scan of the bytes as a log ends. */
#include "base/assert.h"
#include "base/crc32c.h"
#include "batch/batch.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX  (1u << 20)
#define RECORD_MAX 60u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct lh_buf sliced(const uint8_t *bytes, size_t size, size_t step)
{
    struct lh_buf b = {0};

    for (size_t at = 0; at < size; at += step) {
        /* A block of its own for each slice, so that a read past one is seen. */
        struct lh_buf part = lh_buf_copy(bytes + at, size - at < step ? size - at : step);
        lh_buf_append(&b, &part, 0, part.size);
        lh_buf_clear(&part);
    }
    return b;
}

static bool same(const struct lh_batch_header *a, const struct lh_batch_header *b)
{
    return a->crc == b->crc && a->size == b->size && a->count == b->count &&
           a->writer == b->writer && a->sequence == b->sequence;
}

static void check_framing(const uint8_t *batch, const struct lh_batch_header *h)
{
    struct lh_batch_builder builder;
    struct lh_batch_cursor cursor;
    const uint8_t *record;
    uint32_t length;
    uint32_t count = 0;
    int error;

    lh_batch_builder_init(&builder, h->size);
    lh_batch_cursor_init(&cursor, batch, h->size);
    while ((error = lh_batch_cursor_next(&cursor, &record, &length)) == LH_OK) {
        LH_ASSERT(length <= RECORD_MAX);
        bool fits = lh_batch_builder_add(&builder, record, length);
        LH_ASSERT(fits);
        count++;
    }
    LH_ASSERT(error == LH_ERR_NOT_FOUND);
    LH_ASSERT(count == h->count);

    struct lh_buf again = lh_batch_builder_finish(&builder, h->writer, h->sequence);
    LH_ASSERT(again.size == h->size);
    LH_ASSERT(memcmp(lh_buf_slices(&again)[0].data, batch, h->size) == 0);
    lh_buf_clear(&again);
}

static void scan(const uint8_t *bytes, const struct lh_buf *log)
{
    size_t at = 0;

    for (;;) {
        struct lh_batch_header loose = {.size = 1}, strict = {.size = 1};
        int loose_error = lh_batch_check(log, at, BYTES_MAX, &loose);
        int error = lh_batch_check_records(log, at, BYTES_MAX, RECORD_MAX, &strict);
        if (error == LH_OK) {
            LH_ASSERT(loose_error == LH_OK && same(&loose, &strict));
            check_framing(bytes + at, &strict);
        } else {
            LH_ASSERT(strict.size == 1);
        }
        if (loose_error != LH_OK) {
            LH_ASSERT(loose.size == 1 && error == loose_error);
            return;
        }
        LH_ASSERT(loose.size >= LH_BATCH_HEADER_BYTES && loose.size <= log->size - at);
        at += loose.size;
    }
}

static void put32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* Makes records out of what follows the header (each at most 63 bytes) and a header that fits them;
 * returns the batch's size. At least LH_BATCH_HEADER_BYTES + LH_RECORD_HEADER_BYTES bytes. */
static uint32_t frame(uint8_t *bytes, size_t size)
{
    size_t at = LH_BATCH_HEADER_BYTES;
    uint32_t count = 0;
    bool last = false;

    while (size - at >= LH_RECORD_HEADER_BYTES && !last) {
        uint32_t length = bytes[at] & 63;
        last = (bytes[at] & 64) != 0; /* more batches follow */
        if (length > size - at - LH_RECORD_HEADER_BYTES)
            length = (uint32_t)(size - at - LH_RECORD_HEADER_BYTES);
        put32(bytes + at, length);
        at += LH_RECORD_HEADER_BYTES + length;
        count++;
    }
    memcpy(bytes + 4, "LHB1", 4);
    put32(bytes + 8, (uint32_t)at);
    put32(bytes + 12, count);
    bytes[16] |= 1; /* a writer */
    bytes[31] &= 0x7f;
    return (uint32_t)at;
}

/* Turns the bytes into a log of whole batches. With `lie`, one of their bytes is changed before the
 * checksum is made, as a broken or hostile writer would. */
static void make_log(uint8_t *bytes, size_t size, bool lie)
{
    while (size >= LH_BATCH_HEADER_BYTES + LH_RECORD_HEADER_BYTES) {
        uint8_t where = bytes[8], what = bytes[9];
        uint32_t batch = frame(bytes, size);
        if (lie)
            bytes[where % batch] ^= what;
        put32(bytes, lh_crc32c(0, bytes + 4, batch - 4));
        bytes += batch;
        size -= batch;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    unsigned how = data[0];
    uint8_t *bytes = malloc(size);
    LH_ASSERT(bytes != NULL);
    memcpy(bytes, data + 1, --size);
    if (how & 1)
        make_log(bytes, size, (how & 2) != 0);

    struct lh_buf one = sliced(bytes, size, size == 0 ? 1 : size);
    struct lh_buf many = sliced(bytes, size, 1 + (how >> 2));
    struct lh_batch_header a = {0}, b = {0};
    int error = lh_batch_check_records(&one, 0, BYTES_MAX, RECORD_MAX, &a);
    LH_ASSERT(error == lh_batch_check_records(&many, 0, BYTES_MAX, RECORD_MAX, &b));
    LH_ASSERT(same(&a, &b));
    scan(bytes, &one);
    scan(bytes, &many);

    lh_buf_clear(&one);
    lh_buf_clear(&many);
    free(bytes);
    return 0;
}
