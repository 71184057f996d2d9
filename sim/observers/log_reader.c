#include "sim/observers/log_reader.h"

#include "base/bytes.h"
#include "base/crc32c.h"

#include <string.h>

#define SLOT 4096u

static bool read_slot(const uint8_t *p, struct lh_sim_header *h)
{
    if (memcmp(p, "LHCHUNK", 8) != 0 || lh_get32(p + 8) != lh_crc32c(0, p + 12, SLOT - 12) ||
        lh_get32(p + 12) != 2)
        return false;
    uint32_t flags = lh_get32(p + 52);
    *h = (struct lh_sim_header){.valid = true,
        .generation = lh_get64(p + 16),
        .chunk = lh_get64(p + 24),
        .version = lh_get64(p + 32),
        .chunk_size = lh_get64(p + 40),
        .synced = lh_get32(p + 48) == 1,
        .sealed = (flags & 1) != 0,
        .lost = (flags & 2) != 0,
        .copying = (flags & 4) != 0,
        .truncated = (flags & 8) != 0,
        .sealed_length = lh_get64(p + 56),
        .sealed_checksum = lh_get64(p + 64),
        .equal_length = lh_get64(p + 72),
        .committed = lh_get64(p + 80)};
    memcpy(h->equal_boot, p + 88, sizeof h->equal_boot);
    return true;
}

struct lh_sim_header lh_sim_header_read(const uint8_t *bytes, uint64_t size)
{
    struct lh_sim_header newest = {0}, h;

    for (unsigned slot = 0; slot < 2; slot++)
        if (bytes != NULL && size >= (slot + 1) * SLOT && read_slot(bytes + slot * SLOT, &h) &&
            (!newest.valid || h.generation > newest.generation))
            newest = h;
    return newest;
}

bool lh_sim_batch_header(const uint8_t *bytes, struct lh_sim_batch *b)
{
    *b = (struct lh_sim_batch){.crc = lh_get32(bytes),
        .size = lh_get32(bytes + 8),
        .count = lh_get32(bytes + 12),
        .writer = lh_get64(bytes + 16),
        .sequence = lh_get64(bytes + 24)};
    return memcmp(bytes + 4, "LHB2", 4) == 0 && b->count > 0 && b->writer != 0 &&
           b->sequence <= UINT64_MAX - b->count &&
           b->size >= LH_SIM_BATCH_HEADER + UINT64_C(4) * b->count + LH_SIM_BATCH_CHAIN;
}

bool lh_sim_batch_read(const uint8_t *log, uint64_t size, uint64_t at, struct lh_sim_batch *b)
{
    if (at > size || size - at < LH_SIM_BATCH_HEADER || !lh_sim_batch_header(log + at, b) ||
        b->size > size - at ||
        lh_crc32c(0, log + at + 4, b->size - 4 - LH_SIM_BATCH_CHAIN) != b->crc)
        return false;
    b->offset = at;
    b->chain = lh_get64(log + at + b->size - LH_SIM_BATCH_CHAIN);
    return true;
}

bool lh_sim_batch_in(const struct lh_buf *bytes, uint64_t at, struct lh_sim_batch *b)
{
    uint8_t header[LH_SIM_BATCH_HEADER], chain[LH_SIM_BATCH_CHAIN];

    if (!lh_buf_read(bytes, at, header, sizeof header) || !lh_sim_batch_header(header, b) ||
        b->size > bytes->size - at ||
        lh_buf_crc32c(bytes, at + 4, b->size - 4 - LH_SIM_BATCH_CHAIN, 0) != b->crc ||
        !lh_buf_read(bytes, at + b->size - sizeof chain, chain, sizeof chain))
        return false;
    b->offset = at;
    b->chain = lh_get64(chain);
    return true;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t lh_sim_checksum_of_nothing(uint64_t chunk)
{
    return mix(chunk + UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t lh_sim_checksum_after(uint64_t checksum, const struct lh_sim_batch *b)
{
    return mix(checksum + ((uint64_t)b->size << 32 | b->crc) + UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t lh_sim_log_scan(
    uint64_t chunk, const uint8_t *log, uint64_t size, uint64_t limit, uint64_t *checksum)
{
    struct lh_sim_batch b;
    uint64_t at = 0;

    *checksum = lh_sim_checksum_of_nothing(chunk);
    while (at < limit && lh_sim_batch_read(log, size, at, &b) &&
           b.chain == lh_sim_checksum_after(*checksum, &b)) {
        *checksum = b.chain;
        at += b.size;
    }
    return at;
}
