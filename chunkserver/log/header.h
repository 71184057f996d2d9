/* The bytes of a chunk file's two header slots (docs/formats.md).
 *
 * A header is written to the slot that does not hold the newest one, and synced, before anything
 * that it says is promised to anybody: a torn write leaves the older header. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "chunkserver/config.h"

#define LH_SLOT_BYTES 4096u

/* What it says of the chunk, which the file is named with. */
struct lh_chunk_header {
    uint64_t generation; /* rises with each write; its lowest bit names the slot */
    uint64_t version;    /* adopted (FENCE-1) */
    uint64_t chunk_size;
    uint8_t durability; /* leasehold.Durability */
    bool sealed;
    bool lost;      /* FAIL-5: of no use until it is copied again */
    bool truncated; /* FAIL-3: at a start its end was no whole batch; it may have been longer */
    bool copying;   /* REC-4: incomplete, whatever the rest says */
    uint64_t sealed_length;
    uint64_t sealed_checksum;
    uint64_t equal_length; /* the log's length when equality was last confirmed: known good */
    uint64_t committed;    /* a committed length that was known when this was written */
    uint8_t equal_boot[LH_BOOT_ID_BYTES]; /* the boot under which that was (REC-2a) */
};

/* One slot's bytes, LH_SLOT_BYTES long, in the file of that chunk. */
struct lh_buf lh_chunk_header_encode(uint64_t chunk, const struct lh_chunk_header *h);

/* Where in the file the slot of this generation lies. */
static inline uint64_t lh_chunk_header_offset(const struct lh_chunk_header *h)
{
    return (h->generation & 1) * LH_SLOT_BYTES;
}

/* The newer of the two valid slots in the first 2 * LH_SLOT_BYTES bytes of a file of chunk `chunk`.
 *   CORRUPT         neither slot is valid
 *   WRONG_FORMAT    written by a newer version of the software: leave the file alone
 *   WRONG_IDENTITY  the header of another chunk (a misdirected write, a renamed file) */
LH_MUST_USE int lh_chunk_header_decode(
    const struct lh_buf *bytes, uint64_t chunk, struct lh_chunk_header *h);
