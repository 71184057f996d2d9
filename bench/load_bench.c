/* How long a master's core takes, of processor time, to load its store from memory, to follow
 * another master's commits, and for its first step:
 *
 *   bazel run --config=release //bench:load_bench -- [CHUNKS [FILES [OPEN]]]
 *
 * Chunks are sealed and have three members each, as bench/records.h makes them; the last chunks
 * of the first OPEN files are open and granted. A commit is what a seal is: the chunk, the next one
 * with its grant, the master's record. */
#include "base/alloc.h"
#include "base/assert.h"
#include "bench/records.h"
#include "master/master.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define COMMITS 100000u
#define SERVERS 100u

static struct lh_change *pairs;
static size_t count, capacity;

static void put(struct lh_change pair)
{
    LH_GROW(pairs, capacity, count + 1);
    pairs[count++] = pair;
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
    put(lh_bench_master(files, files * each + COMMITS));
    for (uint64_t f = 1; f <= files; f++)
        put(lh_bench_file(f));
    for (uint64_t f = 1; f <= files; f++)
        for (uint64_t i = 0; i < each; i++)
            put(lh_bench_chunk(f, i, i * files + f, SERVERS, f > open || i + 1 < each));
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
        put(lh_bench_master(files, files * each + COMMITS));
        put(lh_bench_chunk(file, index, id, SERVERS, true));
        put(lh_bench_chunk(file, index + 1, files * each + i + 1, SERVERS, false));
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
