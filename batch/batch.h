/* The record-batch format (APP-1, docs/formats.md): the unit of ordering, replication,
 * acknowledgement and duplicate detection.
 *
 *   offset  size  field        all integers little-endian
 *        0     4  crc          CRC32C of bytes [4, size - 8)
 *        4     4  magic        "LHB2"
 *        8     4  size         of the whole batch in bytes, header and chain included
 *       12     4  count        records, at least 1
 *       16     8  writer       the writer's id, never 0
 *       24     8  sequence     of the first record; the others follow by one each
 *       32        records      each: 4 bytes length, then that many bytes
 *   size-8     8  chain        the log's running checksum behind this batch
 *
 * The writer leaves the chain 0. The primary fills it when it gives the batch its place in the log;
 * everything else is stored and sent exactly as its writer framed it, and every hop checks the same
 * checksums.
 * Functions here take bytes from anywhere and never trust them. Thread-safe: no shared state. */
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_BATCH_HEADER_BYTES  32u
#define LH_BATCH_CHAIN_BYTES   8u
#define LH_BATCH_FRAME_BYTES   (LH_BATCH_HEADER_BYTES + LH_BATCH_CHAIN_BYTES)
#define LH_RECORD_HEADER_BYTES 4u

/* Bounds of a chunk's size, and what follows from it (APP-1). */
#define LH_CHUNK_BYTES_MIN     (64u << 10)
#define LH_CHUNK_BYTES_MAX     (1u << 30)
#define LH_CHUNK_BYTES_DEFAULT (64u << 20)

/* No batch is larger than this, whatever the chunk's size: it must fit a message. */
#define LH_BATCH_BYTES_LIMIT (32u << 20)

/* The largest batch, its frame included, that a chunk of `chunk_size` bytes takes: half of it. */
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
 * (wrong magic, a size that cannot hold the frame and `count` records, no records, writer 0, or
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

/* The running checksum of an empty log of that chunk. */
uint64_t lh_log_seed(uint64_t chunk);

/* The log's running checksum (REC-2): what it is after the batch `h` follows a log whose running
 * checksum was `checksum`. It covers every byte, through the batches' own checksums, and the place
 * of each: no batch of another log fits, nor one of another place in this log. */
uint64_t lh_log_checksum(uint64_t checksum, const struct lh_batch_header *h);

/* The running checksum at `offset` of the log of that chunk: what is stored in front of it, with
 * which `b` begins; or the seed, at 0. MALFORMED: no batch ends there. */
LH_MUST_USE int lh_log_checksum_before(
    const struct lh_buf *b, uint64_t offset, uint64_t chunk, uint64_t *checksum);

/* Does the checked batch at `offset` of `b` stand where it belongs, behind a log whose running
 * checksum is `*checksum`? It becomes the one that is stored in the batch. */
LH_MUST_USE bool lh_log_fits(
    const struct lh_buf *b, size_t offset, const struct lh_batch_header *h, uint64_t *checksum);

/* Both: lh_batch_check(), and CORRUPT if the batch belongs elsewhere. */
LH_MUST_USE int lh_log_check(const struct lh_buf *b, size_t offset, uint32_t bytes_max,
    uint64_t *checksum, struct lh_batch_header *h);

/* Batches up to this size are copied when they get their chain. A copy costs less than the slice
 * that it saves at each further hop. */
#define LH_BATCH_COPIED_BYTES 1024u

/* Gives batches their chain. Bytes may be shared with others, also with the client (base/buf.h), so
 * they are not written to: a small batch is copied, and of a large one the last bytes are replaced.
 * All zero: nothing was done yet. Blocks are shared by the batches that follow each other. */
struct lh_batch_stamper {
    struct lh_buf block;
    uint8_t *bytes;
    size_t used;
};

void lh_batch_stamp(struct lh_batch_stamper *s, struct lh_buf *batch,
    const struct lh_batch_header *h, uint64_t chain);
void lh_batch_stamper_deinit(struct lh_batch_stamper *s);

/* Packs records into one batch. */
struct lh_batch_builder {
    struct lh_buf buf;
    uint8_t *bytes;
    uint32_t size; /* of the finished batch */
    uint32_t capacity;
    uint32_t count;
};

/* Room for a batch of `capacity` bytes, its frame included. */
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

/* `batch` points at `size` bytes: a whole batch, its frame included. */
void lh_batch_cursor_init(struct lh_batch_cursor *c, const uint8_t *batch, uint32_t size);

/* LH_OK with the next record; NOT_FOUND at the end; MALFORMED when the lengths do not add up. */
LH_MUST_USE int lh_batch_cursor_next(
    struct lh_batch_cursor *c, const uint8_t **record, uint32_t *size);
