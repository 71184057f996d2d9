/* A piece of a log that is read from the disk for somebody: a reader, a member, a copy. Every batch
 * of it is checked, also that it stands where it belongs (FAIL-4): so the bytes in front of the
 * piece are read too, which have the running checksum there. */
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct lh_cs_disk_request;
struct lh_cs_replica;

/* What was read, as far as it is whole batches. */
struct lh_cs_piece {
    struct lh_buf batches;
    uint64_t before, behind; /* running checksums */
};

/* The read that brings the log's bytes [offset, offset + bytes). */
void lh_cs_piece_request(struct lh_cs_disk_request *request, uint64_t offset, uint64_t bytes);
/* What that read brought, of at most `most` bytes and the batch that goes beyond. A part of a batch
 * at the end is no error if anything is before it. `piece->batches` is the caller's, also then.
 *   WOULD_BLOCK  not even one whole batch
 *   others       as lh_log_check(): of the batch behind `piece->batches` */
LH_MUST_USE int lh_cs_piece_check(const struct lh_cs_replica *r, uint64_t offset,
    const struct lh_buf *bytes, size_t most, struct lh_cs_piece *piece);
