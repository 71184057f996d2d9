/* Fills a master's data directory with files of sealed chunks, through the store's own code, for
 * bench/start:
 *
 *   store_fill --data-dir DIR --chunks N --files N --servers N [--replicas DIR]
 *
 * Chunks have three members each. Their numbers are as if all files had grown at the same time.
 * `--replicas`: also the data directory of the first server, with a header for each replica, as
 * large as it should be, and without a log. */
#include "base/alloc.h"
#include "chunkserver/log/header.h"
#include "master/store/metastore_lmdb.h"
#include "proto/stored.pb-c.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUTS_PER_COMMIT 20000u
#define CHUNK_BYTES     (UINT64_C(64) << 20)
#define MEMBERS         3u
#define VERSION         3u

static struct {
    struct lh_metastore *store;
    struct lh_change *changes;
    size_t count;
    uint64_t commits;
    int replicas; /* the folder; 0: none */
} fill;

static void committed(void *arg, uint64_t ticket, int error, const char *why)
{
    (void)arg;
    (void)ticket;
    if (error == LH_OK)
        return;
    fprintf(stderr, "store_fill: %s\n", why);
    exit(1);
}

static void commit(void)
{
    if (fill.count > 0)
        lh_metastore_commit(fill.store, ++fill.commits, fill.changes, fill.count);
    fill.changes = NULL;
    fill.count = 0;
}

/* A letter, then numbers of eight bytes, big-endian: docs/formats.md. */
static void put(char letter, const uint64_t *numbers, size_t n, const ProtobufCMessage *record)
{
    size_t size = protobuf_c_message_get_packed_size(record);
    struct lh_change change = {
        .key = lh_alloc(1 + 8 * n),
        .key_size = (uint32_t)(1 + 8 * n),
        .value = lh_alloc(size),
        .value_size = (uint32_t)size,
    };

    change.key[0] = (uint8_t)letter;
    for (size_t i = 0; i < 8 * n; i++)
        change.key[1 + i] = (uint8_t)(numbers[i / 8] >> (56 - 8 * (i % 8)));
    protobuf_c_message_pack(record, change.value);
    if (fill.changes == NULL)
        fill.changes = lh_alloc_array(PUTS_PER_COMMIT, sizeof *fill.changes);
    fill.changes[fill.count++] = change;
    if (fill.count == PUTS_PER_COMMIT)
        commit();
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

static uint64_t checksum_of(uint64_t chunk)
{
    return chunk * UINT64_C(0x9e3779b97f4a7c15);
}

static void put_replica(uint64_t chunk)
{
    struct lh_chunk_header h = {
        .generation = 2,
        .chunk = chunk,
        .version = VERSION,
        .chunk_size = CHUNK_BYTES,
        .sealed = true,
        .sealed_length = CHUNK_BYTES,
        .sealed_checksum = checksum_of(chunk),
    };
    struct lh_buf slot = lh_chunk_header_encode(&h);
    uint8_t bytes[LH_SLOT_BYTES];
    char name[32];

    lh_buf_read(&slot, 0, bytes, sizeof bytes);
    lh_buf_clear(&slot);
    snprintf(name, sizeof name, "%016" PRIx64 ".chunk", chunk);
    int fd = openat(fill.replicas, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0 || write(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes ||
        ftruncate(fd, LH_LOG_START + (off_t)CHUNK_BYTES) != 0) {
        perror("store_fill: a replica");
        exit(1);
    }
    close(fd);
}

static void put_chunk(uint64_t file, uint64_t index, uint64_t chunk, uint64_t servers)
{
    LeaseholdStored__Chunk record = LEASEHOLD_STORED__CHUNK__INIT;
    LeaseholdStored__Member members[MEMBERS], *pointers[MEMBERS];
    char names[MEMBERS][32];

    for (unsigned i = 0; i < MEMBERS; i++) {
        leasehold_stored__member__init(&members[i]);
        snprintf(names[i], sizeof names[i], "cs%" PRIu64, (chunk + i) % servers + 1);
        members[i].server_id = names[i];
        pointers[i] = &members[i];
        if (fill.replicas != 0 && (chunk + i) % servers == 0)
            put_replica(chunk);
    }
    record.chunk = chunk;
    record.file = file;
    record.index = index;
    record.start = index * CHUNK_BYTES;
    record.version = VERSION;
    record.n_members = MEMBERS;
    record.members = pointers;
    record.created = record.sealed = true;
    record.length = CHUNK_BYTES;
    record.checksum = checksum_of(chunk);
    put('k', (uint64_t[]){file, index}, 2, &record.base);
}

static void open_replicas(const char *path)
{
    char chunks[4096];

    snprintf(chunks, sizeof chunks, "%s/chunks", path);
    if (mkdir(path, 0755) != 0 || mkdir(chunks, 0755) != 0 ||
        (fill.replicas = open(chunks, O_RDONLY | O_DIRECTORY)) <= 0) {
        perror(path);
        exit(1);
    }
}

static uint64_t number(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], name) == 0 && strtoull(argv[i + 1], NULL, 10) > 0)
            return strtoull(argv[i + 1], NULL, 10);
    fprintf(stderr, "store_fill: %s is missing; usage: see the head of store_fill.c\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    uint64_t chunks = number(argc, argv, "--chunks"), files = number(argc, argv, "--files");
    uint64_t servers = number(argc, argv, "--servers");
    const char *path = NULL;
    char why[512];

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--data-dir") == 0)
            path = argv[i + 1];
        if (strcmp(argv[i], "--replicas") == 0)
            open_replicas(argv[i + 1]);
    }
    if (path == NULL ||
        lh_metastore_lmdb_open(path, 0, committed, NULL, &fill.store, why, sizeof why) != LH_OK) {
        fprintf(stderr, "store_fill: %s\n", path == NULL ? "--data-dir is missing" : why);
        return 1;
    }
    put_master(files, chunks);
    for (uint64_t file = 1; file <= files; file++)
        put_file(file);
    for (uint64_t file = 1; file <= files; file++)
        for (uint64_t chunk = file; chunk <= chunks; chunk += files)
            put_chunk(file, (chunk - file) / files, chunk, servers);
    commit();
    lh_metastore_close(fill.store);
    return 0;
}
