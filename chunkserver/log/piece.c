/* A piece of a log that is read from the disk for a reader, a member or a copy. Every batch of it
 * is checked, also that it stands where it belongs (FAIL-4): so the bytes in front of the piece are
 * read too, which have the running checksum there. */
#include "chunkserver/log/internal.h"

/* How many bytes in front of the piece have the running checksum there. */
static uint64_t before(uint64_t offset)
{
    return offset < LH_BATCH_CHAIN_BYTES ? offset : LH_BATCH_CHAIN_BYTES;
}

void lh_cs_piece_request(struct lh_cs_disk_request *request, uint64_t offset, uint64_t bytes)
{
    request->op = LH_DISK_READ;
    request->offset = LH_LOG_START + offset - before(offset);
    request->length = bytes + before(offset);
}

/* Of a damaged log the bytes in front of a whole batch may be what is damaged. Whether that batch
 * stands where it belongs is then seen by who has what lies before it: a copy does (REC-9). */
static bool may_stand_alone(const struct lh_cs_replica *r, const struct lh_cs_piece *piece)
{
    return piece->placed || (r->state == LH_CS_REPLICA_LOST && piece->for_copy);
}

int lh_cs_piece_check(const struct lh_cs_replica *r, uint64_t offset, const struct lh_buf *bytes,
    size_t most, struct lh_cs_piece *piece)
{
    uint32_t batch_max = lh_batch_bytes_max(r->header.chunk_size);
    size_t start = before(offset), at = start;
    int error = lh_log_checksum_before(bytes, offset, r->chunk, &piece->before);

    piece->batches = (struct lh_buf){0};
    piece->behind = piece->before;
    while (error == LH_OK && at < bytes->size && at - start < most) {
        struct lh_batch_header h;
        error = lh_batch_check(bytes, at, batch_max, &h);
        if (error == LH_OK && !lh_log_fits(bytes, at, &h, &piece->behind) &&
            !(at == start && may_stand_alone(r, piece)) && !LH_PLANTED("chain-unchecked-by-read"))
            error = LH_ERR_CORRUPT;
        if (error == LH_OK)
            at += h.size;
    }
    if (at == start)
        return error == LH_OK ? LH_ERR_WOULD_BLOCK : error;
    lh_buf_append(&piece->batches, bytes, start, at - start);
    return error == LH_ERR_WOULD_BLOCK ? LH_OK : error;
}
