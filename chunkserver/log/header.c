#include "chunkserver/log/header.h"

#include "base/bytes.h"
#include "base/crc32c.h"

#include <string.h>

/* Field offsets in a slot. The checksum covers everything behind it. */
enum {
    AT_MAGIC = 0,
    AT_CRC = 8,
    AT_FORMAT = 12,
    AT_GENERATION = 16,
    AT_CHUNK = 24,
    AT_VERSION = 32,
    AT_CHUNK_SIZE = 40,
    AT_DURABILITY = 48,
    AT_FLAGS = 52,
    AT_SEALED_LENGTH = 56,
    AT_SEALED_CHECKSUM = 64,
    AT_EQUAL_LENGTH = 72,
    AT_COMMITTED = 80,
    AT_EQUAL_BOOT = 88,
};

static const char magic[8] = "LHCHUNK\0";

#define FORMAT       2u
#define FLAG_SEALED  1u
#define FLAG_LOST    2u
#define FLAG_COPYING 4u
#define FLAG_CUT     8u

struct lh_buf lh_chunk_header_encode(uint64_t chunk, const struct lh_chunk_header *h)
{
    uint8_t *p;
    struct lh_buf b = lh_buf_alloc(LH_SLOT_BYTES, &p);

    memset(p, 0, LH_SLOT_BYTES);
    memcpy(p + AT_MAGIC, magic, sizeof magic);
    lh_put32(p + AT_FORMAT, FORMAT);
    lh_put64(p + AT_GENERATION, h->generation);
    lh_put64(p + AT_CHUNK, chunk);
    lh_put64(p + AT_VERSION, h->version);
    lh_put64(p + AT_CHUNK_SIZE, h->chunk_size);
    lh_put32(p + AT_DURABILITY, h->durability);
    lh_put32(p + AT_FLAGS, (h->sealed ? FLAG_SEALED : 0) | (h->lost ? FLAG_LOST : 0) |
                               (h->copying ? FLAG_COPYING : 0) | (h->truncated ? FLAG_CUT : 0));
    lh_put64(p + AT_SEALED_LENGTH, h->sealed_length);
    lh_put64(p + AT_SEALED_CHECKSUM, h->sealed_checksum);
    lh_put64(p + AT_EQUAL_LENGTH, h->equal_length);
    lh_put64(p + AT_COMMITTED, h->committed);
    memcpy(p + AT_EQUAL_BOOT, h->equal_boot, LH_BOOT_ID_BYTES);
    lh_put32(p + AT_CRC, lh_crc32c(0, p + AT_FORMAT, LH_SLOT_BYTES - AT_FORMAT));
    return b;
}

static int decode_slot(const uint8_t *p, uint64_t chunk, struct lh_chunk_header *h)
{
    if (memcmp(p + AT_MAGIC, magic, sizeof magic) != 0 ||
        lh_get32(p + AT_CRC) != lh_crc32c(0, p + AT_FORMAT, LH_SLOT_BYTES - AT_FORMAT))
        return LH_ERR_CORRUPT;
    if (lh_get32(p + AT_FORMAT) != FORMAT)
        return LH_ERR_WRONG_FORMAT;
    if (lh_get64(p + AT_CHUNK) != chunk)
        return LH_ERR_WRONG_IDENTITY;
    *h = (struct lh_chunk_header){
        .generation = lh_get64(p + AT_GENERATION),
        .version = lh_get64(p + AT_VERSION),
        .chunk_size = lh_get64(p + AT_CHUNK_SIZE),
        .durability = (uint8_t)lh_get32(p + AT_DURABILITY),
        .sealed = (lh_get32(p + AT_FLAGS) & FLAG_SEALED) != 0,
        .lost = (lh_get32(p + AT_FLAGS) & FLAG_LOST) != 0,
        .copying = (lh_get32(p + AT_FLAGS) & FLAG_COPYING) != 0,
        .truncated = (lh_get32(p + AT_FLAGS) & FLAG_CUT) != 0,
        .sealed_length = lh_get64(p + AT_SEALED_LENGTH),
        .sealed_checksum = lh_get64(p + AT_SEALED_CHECKSUM),
        .equal_length = lh_get64(p + AT_EQUAL_LENGTH),
        .committed = lh_get64(p + AT_COMMITTED),
    };
    memcpy(h->equal_boot, p + AT_EQUAL_BOOT, LH_BOOT_ID_BYTES);
    return LH_OK;
}

int lh_chunk_header_decode(const struct lh_buf *bytes, uint64_t chunk, struct lh_chunk_header *h)
{
    int result = LH_ERR_CORRUPT;

    for (size_t slot = 0; slot < 2; slot++) {
        uint8_t raw[LH_SLOT_BYTES];
        struct lh_chunk_header found;
        if (!lh_buf_read(bytes, slot * LH_SLOT_BYTES, raw, sizeof raw))
            continue;
        int error = decode_slot(raw, chunk, &found);
        if (error == LH_ERR_WRONG_FORMAT)
            return error;
        if (error == LH_ERR_WRONG_IDENTITY && result != LH_OK)
            result = error;
        if (error != LH_OK)
            continue;
        if (result != LH_OK || found.generation > h->generation)
            *h = found;
        result = LH_OK;
    }
    return result;
}
