/* Records of a master's store as benches need them: files of chunks with three members each, as
 * docs/formats.md has them. */
#pragma once

#include "base/step.h"

#include <stdbool.h>
#include <stdint.h>

#define LH_BENCH_CHUNK_BYTES (UINT64_C(64) << 20)
#define LH_BENCH_MEMBERS     3u
#define LH_BENCH_VERSION     3u

/* Each returns a pair to be put, whose key and value are malloc'd. */

/* The store's own, of the newest format, with room for so many files and chunks. */
struct lh_change lh_bench_master(uint64_t files, uint64_t chunks);
struct lh_change lh_bench_file(uint64_t file);
/* `index`: in the file. Its members are the servers cs1 to cs`servers` in turn, from the one of the
 * chunk's number on; one that is not sealed is granted to the first. */
struct lh_change lh_bench_chunk(
    uint64_t file, uint64_t index, uint64_t chunk, uint64_t servers, bool sealed);

/* Of a sealed chunk's log. */
uint64_t lh_bench_checksum(uint64_t chunk);
