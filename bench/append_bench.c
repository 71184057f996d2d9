/* Measures appends and reads against a running cluster, through the public C API alone.
 *
 *   append_bench --master HOST:PORT,... --mode async|sync|read --path PATH
 *                [--appenders N] [--files N] [--size BYTES] [--seconds S]
 *
 * With several files (PATH-0, PATH-1, ...) the appenders take them in turn. Time begins when every
 * appender is open and has stored a record.
 *
 * Prints one line of JSON. bench/run starts clusters for it and puts the lines into a table. */
#include "client/library/leasehold.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 30000u
#define SAMPLES    (1u << 20)

struct options {
    const char *master, *mode, *path;
    unsigned appenders, files;
    size_t size;
    double seconds;
};

struct worker {
    const struct options *options;
    struct lh_cluster *cluster;
    pthread_barrier_t *ready;
    unsigned number;
    pthread_t thread;
    uint64_t records;
    uint32_t *latencies_us10; /* tenths of a microsecond; synchronous mode */
    size_t samples;
};

static _Atomic uint64_t failures;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static _Noreturn void die(const char *what, int error)
{
    fprintf(stderr, "append_bench: %s: %s: %s\n", what, lh_error_name(error), lh_last_error());
    exit(1);
}

static void check(const char *what, int error)
{
    if (error != LH_OK)
        die(what, error);
}

static void on_stored(void *arg, int error, struct lh_position first, uint32_t count)
{
    (void)arg;
    (void)first;
    if (error != LH_OK)
        atomic_fetch_add(&failures, count);
}

/* Text-like and different in each record, so that nothing on the way can cheat. */
static void fill(char *record, size_t size, uint64_t number)
{
    for (size_t i = 0; i + sizeof number <= size; i += 4096)
        memcpy(record + i, &number, sizeof number);
}

/* Opens one, stores a first record with it, and waits until all workers have. */
static struct lh_appender *open_appender(struct worker *w, const char *record)
{
    const struct options *o = w->options;
    struct lh_appender *a;
    char path[4096];

    if (o->files > 1)
        snprintf(path, sizeof path, "%s-%u", o->path, w->number % o->files);
    else
        snprintf(path, sizeof path, "%s", o->path);
    check("open an appender", lh_appender_open(w->cluster, path, NULL, TIMEOUT_MS, &a));
    check("append", lh_append(a, record, o->size, TIMEOUT_MS, NULL));
    pthread_barrier_wait(w->ready);
    return a;
}

static void *run_async(void *arg)
{
    struct worker *w = arg;
    char *record = malloc(w->options->size);

    memset(record, 'x', w->options->size);
    struct lh_appender *a = open_appender(w, record);
    double end = now_s() + w->options->seconds;
    while ((w->records & 63) != 0 || now_s() < end) {
        fill(record, w->options->size, w->records);
        check("append", lh_append_async(a, record, w->options->size, on_stored, NULL, TIMEOUT_MS));
        w->records++;
    }
    check("flush", lh_flush(a, TIMEOUT_MS));
    check("close", lh_appender_close(a, TIMEOUT_MS));
    free(record);
    return NULL;
}

static void *run_sync(void *arg)
{
    struct worker *w = arg;
    char *record = malloc(w->options->size);

    memset(record, 'x', w->options->size);
    struct lh_appender *a = open_appender(w, record);
    double t = now_s(), end = t + w->options->seconds;
    while (t < end) {
        fill(record, w->options->size, w->records);
        check("append", lh_append(a, record, w->options->size, TIMEOUT_MS, NULL));
        double done = now_s();
        if (w->samples < SAMPLES)
            w->latencies_us10[w->samples++] = (uint32_t)((done - t) * 1e7);
        w->records++;
        t = done;
    }
    check("close", lh_appender_close(a, TIMEOUT_MS));
    free(record);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void append(const struct options *o, struct lh_cluster *cluster, bool sync)
{
    struct worker *workers = calloc(o->appenders, sizeof *workers);
    uint64_t records = 0;
    size_t samples = 0;
    pthread_barrier_t ready;

    pthread_barrier_init(&ready, NULL, o->appenders + 1);
    for (unsigned i = 0; i < o->appenders; i++) {
        workers[i] =
            (struct worker){.options = o, .cluster = cluster, .ready = &ready, .number = i};
        if (sync)
            workers[i].latencies_us10 = malloc(SAMPLES * sizeof(uint32_t));
        pthread_create(&workers[i].thread, NULL, sync ? run_sync : run_async, &workers[i]);
    }
    uint32_t *all = sync ? malloc((size_t)o->appenders * SAMPLES * sizeof *all) : NULL;
    pthread_barrier_wait(&ready);
    double began = now_s();
    for (unsigned i = 0; i < o->appenders; i++) {
        pthread_join(workers[i].thread, NULL);
        records += workers[i].records;
        if (sync)
            memcpy(all + samples, workers[i].latencies_us10, workers[i].samples * sizeof *all);
        samples += workers[i].samples;
        free(workers[i].latencies_us10);
    }
    double seconds = now_s() - began;
    printf("{\"records\": %" PRIu64
           ", \"seconds\": %.3f, \"records_per_s\": %.0f, \"mb_per_s\": %.1f, "
           "\"failures\": %" PRIu64,
        records, seconds, (double)records / seconds,
        (double)records * (double)o->size / seconds / 1e6, failures);
    if (samples > 0) {
        qsort(all, samples, sizeof *all, by_value);
        printf(", \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f", all[samples / 2] / 10.0,
            all[samples - 1 - samples / 100] / 10.0, all[samples - 1] / 10.0);
    }
    printf("}\n");
    free(all);
    free(workers);
}

static void read_all(const struct options *o, struct lh_cluster *cluster)
{
    struct lh_reader *reader;
    struct lh_batch batch;
    uint64_t records = 0, bytes = 0;
    int error;

    check("open a reader", lh_reader_open(cluster, o->path, NULL, TIMEOUT_MS, &reader));
    double began = now_s();
    while ((error = lh_reader_next_batch(reader, TIMEOUT_MS, &batch)) == LH_OK) {
        const void *data;
        size_t size, cursor = 0;
        while (lh_batch_next(&batch, &cursor, &data, &size)) {
            records++;
            bytes += size;
        }
    }
    double seconds = now_s() - began;
    if (error != LH_END)
        die("read", error);
    lh_reader_close(reader);
    printf("{\"records\": %" PRIu64
           ", \"seconds\": %.3f, \"records_per_s\": %.0f, \"mb_per_s\": %.1f, "
           "\"failures\": 0}\n",
        records, seconds, (double)records / seconds, (double)bytes / seconds / 1e6);
}

static const char *value_of(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return otherwise;
}

int main(int argc, char **argv)
{
    struct options o = {
        .master = value_of(argc, argv, "--master", "127.0.0.1:7400"),
        .mode = value_of(argc, argv, "--mode", "async"),
        .path = value_of(argc, argv, "--path", NULL),
        .appenders = (unsigned)strtoul(value_of(argc, argv, "--appenders", "1"), NULL, 10),
        .files = (unsigned)strtoul(value_of(argc, argv, "--files", "1"), NULL, 10),
        .size = strtoul(value_of(argc, argv, "--size", "100"), NULL, 10),
        .seconds = strtod(value_of(argc, argv, "--seconds", "5"), NULL),
    };
    const struct lh_cluster_options options = {.tls_dir = value_of(argc, argv, "--tls-dir", NULL)};
    struct lh_cluster *cluster;

    if (o.path == NULL || o.appenders == 0 || o.files == 0 || o.size == 0 || argc % 2 == 0) {
        fprintf(stderr,
            "usage: append_bench --path PATH [--master HOST:PORT,...] [--mode async|sync|read]\n"
            "                    [--appenders N] [--files N] [--size BYTES] [--seconds S]\n"
            "                    [--tls-dir DIRECTORY]\n");
        return 64;
    }
    check("open the cluster", lh_cluster_open(o.master, &options, &cluster));
    if (strcmp(o.mode, "read") == 0)
        read_all(&o, cluster);
    else
        append(&o, cluster, strcmp(o.mode, "sync") == 0);
    lh_cluster_close(cluster);
    return failures == 0 ? 0 : 1;
}
