/* How long writers stand still: appends 100-byte records one after the other and notes each
 * appender's longest pause, through the public C API alone.
 *
 *   stall_bench --master HOST:PORT,... --path PATH [--appenders N] [--size BYTES] [--async]
 *
 * Commands on the standard input, a line each:
 *   begin   forget what was, measure from now on
 *   end     print one line of JSON: of the appenders' longest pauses since `begin` the median and
 *           the largest (a pause that goes on counts), records stored, seconds
 * The end of the input ends it. `--async` keeps many appends under way: for throughput. */
#include "bench/program.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS    120000u
#define APPENDERS_MAX 1024u

struct options {
    const char *master, *path;
    unsigned appenders;
    size_t size;
    bool async;
};

/* Of one appender; the lock is only ever waited for by `begin` and `end`. */
struct worker {
    const struct options *options;
    struct lh_cluster *cluster;
    pthread_t thread;
    pthread_mutex_t lock;
    double last, longest; /* seconds: when something was last stored, and the longest pause */
    uint64_t records;
};

static atomic_bool over;

static void stored(struct worker *w, uint32_t records)
{
    double now = lh_bench_now_s();

    pthread_mutex_lock(&w->lock);
    if (now - w->last > w->longest)
        w->longest = now - w->last;
    w->last = now;
    w->records += records;
    pthread_mutex_unlock(&w->lock);
}

static void on_stored(void *arg, int error, struct lh_position first, uint32_t count)
{
    (void)first;
    lh_bench_check("append", error);
    stored(arg, count);
}

static void *run(void *arg)
{
    struct worker *w = arg;
    const struct options *o = w->options;
    struct lh_appender *a;
    char *record = malloc(o->size);

    memset(record, 'x', o->size);
    lh_bench_check("open an appender", lh_appender_open(w->cluster, o->path, NULL, TIMEOUT_MS, &a));
    while (!atomic_load(&over)) {
        if (o->async) {
            lh_bench_check("append", lh_append_async(a, record, o->size, on_stored, w, TIMEOUT_MS));
        } else {
            lh_bench_check("append", lh_append(a, record, o->size, TIMEOUT_MS, NULL));
            stored(w, 1);
        }
    }
    lh_bench_check("close", lh_appender_close(a, TIMEOUT_MS));
    free(record);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void begin(struct worker *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct worker *w = &workers[i];
        pthread_mutex_lock(&w->lock);
        w->last = lh_bench_now_s();
        w->longest = 0;
        w->records = 0;
        pthread_mutex_unlock(&w->lock);
    }
}

static void end(struct worker *workers, unsigned count, double began)
{
    double pauses[APPENDERS_MAX], now = lh_bench_now_s();
    uint64_t records = 0;

    for (unsigned i = 0; i < count; i++) {
        struct worker *w = &workers[i];
        pthread_mutex_lock(&w->lock);
        pauses[i] = now - w->last > w->longest ? now - w->last : w->longest;
        records += w->records;
        pthread_mutex_unlock(&w->lock);
    }
    qsort(pauses, count, sizeof *pauses, by_value);
    printf("{\"median_ms\": %.3f, \"worst_ms\": %.3f, \"records\": %" PRIu64
           ", \"seconds\": %.3f}\n",
        pauses[count / 2] * 1e3, pauses[count - 1] * 1e3, records, now - began);
    fflush(stdout);
}

static bool parse(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--async") == 0) {
            o->async = true;
            continue;
        }
        if (value == NULL)
            return false;
        if (strcmp(argv[i], "--master") == 0)
            o->master = value;
        else if (strcmp(argv[i], "--path") == 0)
            o->path = value;
        else if (strcmp(argv[i], "--appenders") == 0)
            o->appenders = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--size") == 0)
            o->size = strtoul(value, NULL, 10);
        else
            return false;
        i++;
    }
    return o->master != NULL && o->path != NULL && o->appenders > 0 &&
           o->appenders <= APPENDERS_MAX && o->size > 0;
}

int main(int argc, char **argv)
{
    struct options o = {.appenders = 1, .size = 100};
    struct lh_cluster *cluster;
    char line[64];
    double began = lh_bench_now_s();

    if (!parse(argc, argv, &o)) {
        fputs("usage: stall_bench --master HOST:PORT,... --path PATH [--appenders N] "
              "[--size BYTES] [--async]\n",
            stderr);
        return 64;
    }
    lh_bench_check("open the cluster", lh_cluster_open(o.master, NULL, &cluster));
    struct worker *workers = calloc(o.appenders, sizeof *workers);
    for (unsigned i = 0; i < o.appenders; i++) {
        workers[i] = (struct worker){.options = &o, .cluster = cluster, .last = lh_bench_now_s()};
        pthread_mutex_init(&workers[i].lock, NULL);
        pthread_create(&workers[i].thread, NULL, run, &workers[i]);
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strcmp(line, "begin\n") == 0) {
            began = lh_bench_now_s();
            begin(workers, o.appenders);
        } else if (strcmp(line, "end\n") == 0) {
            end(workers, o.appenders, began);
        }
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < o.appenders; i++)
        pthread_join(workers[i].thread, NULL);
    lh_cluster_close(cluster);
    free(workers);
    return 0;
}
