#include "base/seal.h"

#include "base/prng.h"

#include <isa-l/crc64.h>
#include <string.h>

/* Of a field of 8 bytes, as protobuf has it. */
static const uint8_t tag[2] = {(LH_SEAL_FIELD << 3 & 0x7f) | 1 | 0x80, LH_SEAL_FIELD >> 4};

uint64_t lh_seal_hash(const void *key, size_t key_size, const void *value, size_t value_size)
{
    /* The key's size comes first: so no byte moves from the one to the other unseen. */
    uint64_t crc = crc64_ecma_refl(key_size, key, key_size);

    return lh_mix64(value_size == 0 ? crc : crc64_ecma_refl(crc, value, value_size));
}

void lh_seal_write(uint8_t *to, uint64_t hash)
{
    memcpy(to, tag, sizeof tag);
    for (size_t i = sizeof tag; i < LH_SEAL_BYTES; i++, hash >>= 8)
        to[i] = (uint8_t)hash;
}

enum lh_seal lh_seal_look(
    const void *key, size_t key_size, const void *value, size_t *value_size, uint64_t *hash)
{
    size_t size = *value_size;
    const uint8_t *at = NULL;
    uint8_t own[LH_SEAL_BYTES];

    if (size >= LH_SEAL_BYTES)
        at = (const uint8_t *)value + size - LH_SEAL_BYTES;
    if (at == NULL || memcmp(at, tag, sizeof tag) != 0) {
        *hash = lh_seal_hash(key, key_size, value, size);
        return LH_SEAL_NONE;
    }
    *value_size = size - LH_SEAL_BYTES;
    *hash = lh_seal_hash(key, key_size, value, *value_size);
    lh_seal_write(own, *hash);
    return memcmp(at, own, sizeof own) == 0 ? LH_SEAL_FITS : LH_SEAL_BROKEN;
}
