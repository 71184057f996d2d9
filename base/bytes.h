/* Little-endian integers in bytes that need not be aligned: all that we lay out ourselves, in
 * batches and in chunk files, is written this way. */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t lh_get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static inline uint64_t lh_get64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static inline void lh_put32(uint8_t *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof v);
}

static inline void lh_put64(uint8_t *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof v);
}
