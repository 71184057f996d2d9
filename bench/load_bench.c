/* How long a master's core takes, of processor time, to load its store from memory, to follow
 * another master's commits, and for its first step:
 *
 *   bazel run --config=release //bench:load_bench -- [CHUNKS [FILES [OPEN]]]
 *
 * Chunks are sealed and have three members each, as bench/store_fill.c writes them; the last chunks
 * of the first OPEN files are open and granted. A commit is what a seal is: the chunk, the next one
 * with its grant, the master's record. */
#include "base/alloc.h"
#include "base/assert.h"
#include "master/master.h"
#include "proto/stored.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK_BYTES (UINT64_C(64) << 20)
#define COMMITS     100000u
#define MEMBERS     3u
#define SERVERS     100u

static struct lh_change *pairs;
static size_t count, capacity;

static void put(char letter, const uint64_t *numbers, size_t n, const ProtobufCMessage *record)
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
    LH_GROW(pairs, capacity, count + 1);
    pairs[count++] = pair;
}

static void put_master(uint64_t files, uint64_t chunks)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;

    record.format = 1;
    record.cluster_id = (char *)(uintptr_t) "0123456789abcdef0123456789abcdef";
    record.master_term = 1;
    record.next_file = files + 1;
    record.next_chunk = chunks + 1;
    put('M', NULL, 0, &record.base);
}

static void put_file(uint64_t file)
{
    LeaseholdStored__File record = LEASEHOLD_STORED__FILE__INIT;
    char path[64];

    snprintf(path, sizeof path, "/bench/%03u/file-%06" PRIu64, (unsigned)(file % 1000), file);
    record.file = file;
    record.path = path;
    record.replication = MEMBERS;
    record.min_replicas = 2;
    record.chunk_size = CHUNK_BYTES;
    put('f', &file, 1, &record.base);
}

static void put_chunk(uint64_t file, uint64_t index, uint64_t chunk, bool sealed)
{
    LeaseholdStored__Chunk record = LEASEHOLD_STORED__CHUNK__INIT;
    LeaseholdStored__Member members[MEMBERS], *pointers[MEMBERS];
    char names[MEMBERS][32];

    for (unsigned i = 0; i < MEMBERS; i++) {
        leasehold_stored__member__init(&members[i]);
        snprintf(names[i], sizeof names[i], "cs%" PRIu64, (chunk + i) % SERVERS + 1);
        members[i].server_id = names[i];
        pointers[i] = &members[i];
    }
    record.chunk = chunk;
    record.file = file;
    record.index = index;
    record.start = index * CHUNK_BYTES;
    record.version = 3;
    record.n_members = MEMBERS;
    record.members = pointers;
    record.created = true;
    record.sealed = sealed;
    record.length = sealed ? CHUNK_BYTES : 0;
    record.checksum = chunk * UINT64_C(0x9e3779b97f4a7c15);
    if (!sealed) {
        record.holder = names[0];
        record.holder_incarnation = 1;
    }
    put('k', (uint64_t[]){file, index}, 2, &record.base);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(int error, const char *text)
{
    if (error == LH_OK)
        return;
    fprintf(stderr, "load_bench: %s\n", text);
    exit(1);
}

static uint64_t number(int argc, char **argv, int i, uint64_t preset)
{
    return argc > i ? strtoull(argv[i], NULL, 10) : preset;
}

int main(int argc, char **argv)
{
    uint64_t chunks = number(argc, argv, 1, 1000000), files = number(argc, argv, 2, 100000);
    uint64_t open = number(argc, argv, 3, 10000), each = chunks / files;
    struct lh_master_config config = lh_master_config_default();
    struct lh_input in = {.kind = LH_IN_TIMER, .now = {1000000000}};
    struct lh_effects fx = {0};
    char text[512];

    LH_ASSERT(each > 0 && open > 0 && open <= files);
    put_master(files, files * each + COMMITS);
    for (uint64_t f = 1; f <= files; f++)
        put_file(f);
    for (uint64_t f = 1; f <= files; f++)
        for (uint64_t i = 0; i < each; i++)
            put_chunk(f, i, i * files + f, f > open || i + 1 < each);
    size_t stored = count;

    double begun = seconds();
    struct lh_master *m = lh_master_create(&config);
    for (size_t i = 0; i < stored; i++)
        must(lh_master_load(m, pairs[i].key, pairs[i].key_size, pairs[i].value, pairs[i].value_size,
                 text, sizeof text),
            text);
    printf("%" PRIu64 " chunks of %" PRIu64 " files loaded: %.3f s\n", files * each, files,
        seconds() - begun);

    double amending = 0;
    for (uint64_t i = 0; i < COMMITS; i++) {
        uint64_t file = i % open + 1, index = each - 1 + i / open;
        uint64_t id = index < each ? index * files + file : files * each + i - open + 1;
        size_t first = count;
        put_master(files, files * each + COMMITS);
        put_chunk(file, index, id, true);
        put_chunk(file, index + 1, files * each + i + 1, false);
        begun = seconds();
        must(lh_master_amend(m, &pairs[first], count - first, text, sizeof text), text);
        amending += seconds() - begun;
    }
    printf("%u commits of 3 changes followed: %.2f us each\n", COMMITS, amending / COMMITS * 1e6);

    begun = seconds();
    lh_master_step(m, &in, &fx);
    printf("first step, with %" PRIu64 " leases: %.3f s\n", open, seconds() - begun);
    lh_effects_deinit(&fx);
    return 0;
}
