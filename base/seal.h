/* What a pair of the master's store vouches for itself with: 64 bits of a hash of its key and its
 * value. They follow the value as the last field of a message (LH_SEAL_FIELD), so whoever reads the
 * value as a message need not know of them. The hash is CRC-64, which sees every change of up to 64
 * bits in a row, mixed so that sums of hashes tell pairs apart. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define LH_SEAL_FIELD 100u
#define LH_SEAL_BYTES 10u /* the field's tag and 8 bytes, the lowest first */

enum lh_seal {
    LH_SEAL_NONE, /* the value has none: an earlier release has written it */
    LH_SEAL_FITS,
    LH_SEAL_BROKEN /* key, value or seal are not what was written */
};

uint64_t lh_seal_hash(const void *key, size_t key_size, const void *value, size_t value_size);
/* Writes LH_SEAL_BYTES bytes. */
void lh_seal_write(uint8_t *to, uint64_t hash);
/* `*value_size` becomes that of the value alone, unless there is no seal; `*hash` is what it should
 * say. */
enum lh_seal lh_seal_look(
    const void *key, size_t key_size, const void *value, size_t *value_size, uint64_t *hash);
