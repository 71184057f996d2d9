/* CRC32C (Castagnoli, RFC 3720 appendix B.4), by the processor's instruction through isa-l. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The CRC of nothing is 0; lh_crc32c(lh_crc32c(0, a), b) is the CRC of a followed by b. */
uint32_t lh_crc32c(uint32_t crc, const void *data, size_t size);
