#include "bench/records.h"

#include "base/alloc.h"
#include "proto/stored.pb-c.h"

#include <inttypes.h>
#include <stdio.h>

/* A letter, then numbers of eight bytes, big-endian. */
static struct lh_change pair_of(
    char letter, const uint64_t *numbers, size_t n, const ProtobufCMessage *record)
{
    size_t size = protobuf_c_message_get_packed_size(record);
    struct lh_change pair = {
        .key = lh_alloc(1 + 8 * n),
        .key_size = (uint32_t)(1 + 8 * n),
        .value = lh_alloc(size + 1),
        .value_size = (uint32_t)size,
    };

    pair.key[0] = (uint8_t)letter;
    for (size_t i = 0; i < 8 * n; i++)
        pair.key[1 + i] = (uint8_t)(numbers[i / 8] >> (56 - 8 * (i % 8)));
    protobuf_c_message_pack(record, pair.value);
    return pair;
}

struct lh_change lh_bench_master(uint64_t files, uint64_t chunks)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;

    record.format = 2;
    record.cluster_id = (char *)(uintptr_t) "0123456789abcdef0123456789abcdef";
    record.master_term = 1;
    record.longest_session_ns = UINT64_C(30000000000);
    record.next_file = files + 1;
    record.next_chunk = chunks + 1;
    return pair_of('M', NULL, 0, &record.base);
}

struct lh_change lh_bench_file(uint64_t file)
{
    LeaseholdStored__File record = LEASEHOLD_STORED__FILE__INIT;
    char path[64];

    (void)snprintf(path, sizeof path, "/bench/%03u/file-%06" PRIu64, (unsigned)(file % 1000), file);
    record.file = file;
    record.path = path;
    record.replication = LH_BENCH_MEMBERS;
    record.min_replicas = 2;
    record.chunk_size = LH_BENCH_CHUNK_BYTES;
    return pair_of('f', &file, 1, &record.base);
}

uint64_t lh_bench_checksum(uint64_t chunk)
{
    return chunk * UINT64_C(0x9e3779b97f4a7c15);
}

struct lh_change lh_bench_chunk(
    uint64_t file, uint64_t index, uint64_t chunk, uint64_t servers, bool sealed)
{
    LeaseholdStored__Chunk record = LEASEHOLD_STORED__CHUNK__INIT;
    LeaseholdStored__Member members[LH_BENCH_MEMBERS], *pointers[LH_BENCH_MEMBERS];
    char names[LH_BENCH_MEMBERS][32];

    for (unsigned i = 0; i < LH_BENCH_MEMBERS; i++) {
        leasehold_stored__member__init(&members[i]);
        (void)snprintf(names[i], sizeof names[i], "cs%" PRIu64, (chunk + i) % servers + 1);
        members[i].server_id = names[i];
        pointers[i] = &members[i];
    }
    record.chunk = chunk;
    record.file = file;
    record.index = index;
    record.start = index * LH_BENCH_CHUNK_BYTES;
    record.version = LH_BENCH_VERSION;
    record.n_members = LH_BENCH_MEMBERS;
    record.members = pointers;
    record.created = true;
    record.sealed = sealed;
    record.length = sealed ? LH_BENCH_CHUNK_BYTES : 0;
    record.checksum = lh_bench_checksum(chunk);
    if (!sealed) {
        record.holder = names[0];
        record.holder_incarnation = 1;
    }
    return pair_of('k', (uint64_t[]){file, index}, 2, &record.base);
}
