/* Fills a master's data directory with files of sealed chunks, through the store's own code, for
 * bench/start:
 *
 *   store_fill --data-dir DIR --chunks N --files N --servers N [--open N] [--replicas DIR]
 *
 * Chunks have three members each. Their numbers are as if all files had grown at the same time.
 * `--open`: the last chunk of so many files is open, and its first member has the lease.
 * `--replicas`: also the data directory of the first server, with a header for each replica, as
 * large as it should be, and without a log. */
#include "base/alloc.h"
#include "bench/records.h"
#include "chunkserver/log/header.h"
#include "master/store/metastore_lmdb.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUTS_PER_COMMIT 20000u

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

static void put(struct lh_change change)
{
    if (fill.changes == NULL)
        fill.changes = lh_alloc_array(PUTS_PER_COMMIT, sizeof *fill.changes);
    fill.changes[fill.count++] = change;
    if (fill.count == PUTS_PER_COMMIT)
        commit();
}

static void put_replica(uint64_t chunk)
{
    struct lh_chunk_header h = {
        .generation = 2,
        .version = LH_BENCH_VERSION,
        .chunk_size = LH_BENCH_CHUNK_BYTES,
        .sealed = true,
        .sealed_length = LH_BENCH_CHUNK_BYTES,
        .sealed_checksum = lh_bench_checksum(chunk),
    };
    struct lh_buf slot = lh_chunk_header_encode(chunk, &h);
    uint8_t bytes[LH_SLOT_BYTES];
    char name[32];

    lh_buf_read(&slot, 0, bytes, sizeof bytes);
    lh_buf_clear(&slot);
    snprintf(name, sizeof name, "%016" PRIx64 ".chunk", chunk);
    int fd = openat(fill.replicas, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0 || write(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes ||
        ftruncate(fd, LH_LOG_START + (off_t)LH_BENCH_CHUNK_BYTES) != 0) {
        perror("store_fill: a replica");
        exit(1);
    }
    close(fd);
}

static void put_chunk(uint64_t file, uint64_t index, uint64_t chunk, uint64_t servers, bool sealed)
{
    for (unsigned i = 0; i < LH_BENCH_MEMBERS; i++)
        if (fill.replicas != 0 && (chunk + i) % servers == 0)
            put_replica(chunk);
    put(lh_bench_chunk(file, index, chunk, servers, sealed));
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
    uint64_t servers = number(argc, argv, "--servers"), open = 0;
    const char *path = NULL;
    char why[512];

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--data-dir") == 0)
            path = argv[i + 1];
        if (strcmp(argv[i], "--open") == 0)
            open = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--replicas") == 0)
            open_replicas(argv[i + 1]);
    }
    if (path == NULL ||
        lh_metastore_lmdb_open(path, 0, committed, NULL, &fill.store, why, sizeof why) != LH_OK) {
        fprintf(stderr, "store_fill: %s\n", path == NULL ? "--data-dir is missing" : why);
        return 1;
    }
    put(lh_bench_master(files, chunks));
    for (uint64_t file = 1; file <= files; file++)
        put(lh_bench_file(file));
    for (uint64_t file = 1; file <= files; file++)
        for (uint64_t chunk = file; chunk <= chunks; chunk += files)
            put_chunk(file, (chunk - file) / files, chunk, servers,
                file > open || chunk + files <= chunks);
    commit();
    lh_metastore_close(fill.store);
    return 0;
}
