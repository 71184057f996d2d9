/* Chunk files as docs/formats.md describes them, read without the cores' code: so a mistake in how
 * the cores lay bytes out is not made twice. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_SIM_LOG_START 8192u

struct lh_sim_header {
    bool valid; /* a slot was */
    uint64_t generation, chunk, version, chunk_size;
    bool synced; /* the file's level */
    bool sealed, lost;
    bool copying;   /* incomplete, whatever the rest says (REC-4) */
    bool truncated; /* at a start; it may have been longer (FAIL-3) */
    uint64_t sealed_length, sealed_checksum;
    uint64_t equal_length, committed;
    uint8_t equal_boot[16];
};

/* The newest valid header of a chunk file; `bytes` NULL: there is no file. */
struct lh_sim_header lh_sim_header_read(const uint8_t *bytes, uint64_t size);

/* One batch in a log, or alone. */
struct lh_sim_batch {
    uint64_t offset; /* in the chunk */
    uint32_t size, crc, count;
    uint64_t chain;
    uint64_t writer, sequence;
};

#define LH_SIM_BATCH_HEADER 32u
#define LH_SIM_BATCH_CHAIN  8u

/* The header that stands in these 32 bytes; no checksum is looked at. False: no batch begins so. */
bool lh_sim_batch_header(const uint8_t *bytes, struct lh_sim_batch *b);

/* The batch that begins at `at`, whole and sound. False: there is none. */
bool lh_sim_batch_read(const uint8_t *log, uint64_t size, uint64_t at, struct lh_sim_batch *b);

/* The same for bytes in a message; `b->offset` is `at`. */
bool lh_sim_batch_in(const struct lh_buf *bytes, uint64_t at, struct lh_sim_batch *b);

/* The running checksum of an empty log of that chunk. */
uint64_t lh_sim_checksum_of_nothing(uint64_t chunk);

/* The running checksum after `b`. */
uint64_t lh_sim_checksum_after(uint64_t checksum, const struct lh_sim_batch *b);

/* How long the front of that chunk's log is that consists of whole, sound batches in their places,
 * up to `limit`; its running checksum. */
uint64_t lh_sim_log_scan(
    uint64_t chunk, const uint8_t *log, uint64_t size, uint64_t limit, uint64_t *checksum);
