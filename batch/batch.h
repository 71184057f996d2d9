/* The record-batch format (APP-1, docs/formats.md): the unit of ordering, replication,
 * acknowledgement and duplicate detection.
 *
 *   offset  size  field        all integers little-endian
 *        0     4  crc          CRC32C of bytes [4, size)
 *        4     4  magic        "LHB1"
 *        8     4  size         of the whole batch in bytes, header included
 *       12     4  count        records, at least 1
 *       16     8  writer       the writer's id, never 0
 *       24     8  sequence     of the first record; the others follow by one each
 *       32        records      each: 4 bytes length, then that many bytes
 *
 * A batch is stored and sent exactly as its writer framed it; every hop checks the same checksum.
 * Functions here take bytes from anywhere and never trust them. Thread-safe: no shared state. */
#ifndef LH_BATCH_BATCH_H
#define LH_BATCH_BATCH_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_BATCH_HEADER_BYTES  32u
#define LH_RECORD_HEADER_BYTES 4u

/* Bounds of a chunk's size, and what follows from it (APP-1). */
#define LH_CHUNK_BYTES_MIN     (64u << 10)
#define LH_CHUNK_BYTES_MAX     (1u << 30)
#define LH_CHUNK_BYTES_DEFAULT (64u << 20)

/* No batch is larger than this, whatever the chunk's size: it must fit a message. */
#define LH_BATCH_BYTES_LIMIT (32u << 20)

/* The largest batch, header included, that a chunk of `chunk_size` bytes takes: half of it. */
uint32_t lh_batch_bytes_max(uint64_t chunk_size);

/* The longest record: a quarter of `chunk_size`, less what its batch adds, so that it fits. */
uint32_t lh_record_bytes_max(uint64_t chunk_size);

/* Batches that one writer may have unanswered in one chunk; every replica remembers the positions
 * of as many last batches per writer (APP-5). */
#define LH_WRITER_WINDOW 16u

struct lh_batch_header {
    uint32_t crc;
    uint32_t size;
    uint32_t count;
    uint64_t writer;
    uint64_t sequence;
};

/* The sequence number of the batch's last record. */
static inline uint64_t lh_batch_last(const struct lh_batch_header *h)
{
    return h->sequence + h->count - 1;
}

/* Decodes a header without checking the checksum. MALFORMED: no batch starts with these bytes
 * (wrong magic, a size that cannot hold the header and `count` records, no records, writer 0, or
 * sequence numbers that overflow). */
LH_MUST_USE int lh_batch_header_decode(
    const uint8_t bytes[LH_BATCH_HEADER_BYTES], struct lh_batch_header *h);

/* Checks the batch that begins at `offset` of `b`: header, size, checksum. `bytes_max` bounds its
 * size (lh_batch_bytes_max()). On LH_OK `*h` is its header.
 *   WOULD_BLOCK  the bytes end before the batch does (more may follow); `*h` is not set
 *   MALFORMED    no batch starts here
 *   TOO_LARGE    larger than `bytes_max`
 *   CORRUPT      the checksum does not match */
LH_MUST_USE int lh_batch_check(
    const struct lh_buf *b, size_t offset, uint32_t bytes_max, struct lh_batch_header *h);

/* As lh_batch_check(), and that the records' lengths fill the batch exactly, none longer than
 * `record_max`. Who takes a batch from a client uses this one: a batch that every later reader
 * would refuse must not get in. MALFORMED or TOO_LARGE when they do not. */
LH_MUST_USE int lh_batch_check_records(const struct lh_buf *b, size_t offset, uint32_t bytes_max,
    uint32_t record_max, struct lh_batch_header *h);

/* The log's running checksum (REC-2): what it is after the batch `h` follows a log whose running
 * checksum was `checksum` (0 for the empty log). It covers every byte, through the batches' own
 * checksums. */
uint64_t lh_log_checksum(uint64_t checksum, const struct lh_batch_header *h);

/* Packs records into one batch. */
struct lh_batch_builder {
    struct lh_buf buf;
    uint8_t *bytes;
    uint32_t size, capacity;
    uint32_t count;
};

/* Room for a batch of `capacity` bytes, header included. */
void lh_batch_builder_init(struct lh_batch_builder *b, uint32_t capacity);
void lh_batch_builder_deinit(struct lh_batch_builder *b);

/* False, and nothing added, when the record does not fit any more. */
bool lh_batch_builder_add(struct lh_batch_builder *b, const void *record, uint32_t size);

/* The finished batch, at least one record long; the builder is then as deinitialised. */
struct lh_buf lh_batch_builder_finish(
    struct lh_batch_builder *b, uint64_t writer, uint64_t sequence);

/* Goes through the records of one checked batch in contiguous memory. */
struct lh_batch_cursor {
    const uint8_t *at, *end;
};

/* `batch` points at `size` bytes: a whole batch, header included. */
void lh_batch_cursor_init(struct lh_batch_cursor *c, const uint8_t *batch, uint32_t size);

/* LH_OK with the next record; NOT_FOUND at the end; MALFORMED when the lengths do not add up. */
LH_MUST_USE int lh_batch_cursor_next(
    struct lh_batch_cursor *c, const uint8_t **record, uint32_t *size);

#endif
