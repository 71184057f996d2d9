/* Creates files and appends a first record to each, through the public C API alone. bench/files
 * drives it.
 *
 *   files_bench --master HOST:PORT,... [--path PATH] [--files N] [--threads N]
 *
 * Each thread has a cluster of its own. The line of JSON that is printed has how long it all took,
 * and each file: from before it was created until its record was stored. */
#include "bench/samples.h"

#include "client/library/leasehold.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS  120000u
#define PATH_BYTES  256
#define THREADS_MAX 1024u

struct options {
    const char *master, *path;
    uint64_t files, threads;
};

static struct options o = {.path = "/files", .files = 2000, .threads = 64};
static atomic_uint_fast64_t next_file, failed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lh_bench_samples samples;

static int make(struct lh_cluster *cluster, const char *path)
{
    struct lh_appender *appender;
    struct lh_position at;
    int error = lh_create(cluster, path, NULL, TIMEOUT_MS, NULL);

    if (error == LH_OK)
        error = lh_appender_open(cluster, path, NULL, TIMEOUT_MS, &appender);
    if (error != LH_OK)
        return error;
    error = lh_append(appender, path, strlen(path), TIMEOUT_MS, &at);
    lh_appender_close(appender, TIMEOUT_MS);
    return error;
}

static void *run(void *none)
{
    struct lh_cluster *cluster;
    char path[PATH_BYTES];
    uint64_t number;

    if (lh_cluster_open(o.master, NULL, &cluster) != LH_OK) {
        fprintf(stderr, "files_bench: %s\n", lh_last_error());
        exit(1);
    }
    while ((number = atomic_fetch_add(&next_file, 1)) < o.files) {
        uint64_t began = lh_bench_now_ns();
        snprintf(path, sizeof path, "%s/%012" PRIu64, o.path, number);
        int error = make(cluster, path);
        if (error != LH_OK && atomic_fetch_add(&failed, 1) == 0)
            fprintf(stderr, "files_bench: %s: %s\n", lh_error_name(error), lh_last_error());
        pthread_mutex_lock(&lock);
        lh_bench_sample(&samples, began);
        pthread_mutex_unlock(&lock);
    }
    lh_cluster_close(cluster);
    return none;
}

static bool parse(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--master") == 0)
            o.master = argv[i + 1];
        else if (strcmp(argv[i], "--path") == 0)
            o.path = argv[i + 1];
        else if (strcmp(argv[i], "--files") == 0)
            o.files = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            o.threads = strtoull(argv[i + 1], NULL, 10);
        else
            return false;
    }
    return argc % 2 == 1 && o.master != NULL && o.threads > 0 && o.threads <= THREADS_MAX;
}

int main(int argc, char **argv)
{
    static pthread_t threads[THREADS_MAX];

    if (!parse(argc, argv)) {
        fputs("usage: files_bench --master HOST:PORT,... [--path PATH] [--files N] "
              "[--threads N]\n",
            stderr);
        return 64;
    }
    uint64_t began = lh_bench_now_ns();
    for (uint64_t i = 0; i < o.threads; i++)
        if (pthread_create(&threads[i], NULL, run, NULL) != 0)
            return 1;
    for (uint64_t i = 0; i < o.threads; i++)
        pthread_join(threads[i], NULL);
    double seconds = (double)(lh_bench_now_ns() - began) / 1e9;
    printf("{");
    lh_bench_print_samples("file", &samples);
    printf("\"files\": %" PRIu64 ", \"failed\": %" PRIu64 ", \"seconds\": %.3f}\n", o.files,
        (uint64_t)failed, seconds);
    return failed > 0;
}
