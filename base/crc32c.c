#include "base/crc32c.h"

#include <isa-l/crc.h>

uint32_t lh_crc32c(uint32_t crc, const void *data, size_t size)
{
    const unsigned char *p = data;

    /* isa-l counts in int: feed it at most a gigabyte at a time. It does not write to its input,
     * its prototype merely lacks the const. */
    crc = ~crc;
    while (size > 0) {
        int n = size > (1 << 30) ? (1 << 30) : (int)size;
        crc = crc32_iscsi((unsigned char *)(uintptr_t)p, n, crc);
        p += n;
        size -= (size_t)n;
    }
    return ~crc;
}
