/* Many appenders of one program on one cluster handle, through the public C API alone: for how long
 * all of them are kept.
 *
 *   many_bench --master HOST:PORT,... --path PATH [--appenders N]
 *
 * Opens them, stores a record of each and prints `ready`. Then for each line of the standard input
 * it appends a 100-byte record of each, without waiting, and prints a line of JSON when the last
 * one is acknowledged: seconds since the line, and records. The end of the input ends it. */
#include "bench/program.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 600000u
#define AT_ONCE    500u /* so many openings of a new chunk's lanes, in the beginning */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_stored = PTHREAD_COND_INITIALIZER;
static unsigned missing;

static void on_stored(void *arg, int error, struct lh_position first, uint32_t count)
{
    (void)arg;
    (void)first;
    lh_bench_check("append", error);
    pthread_mutex_lock(&lock);
    missing -= count;
    if (missing == 0)
        pthread_cond_signal(&all_stored);
    pthread_mutex_unlock(&lock);
}

/* A record of each of them is stored when it returns. */
static void append_each(struct lh_appender **appenders, unsigned count)
{
    static const char record[100];

    missing = count;
    for (unsigned i = 0; i < count; i++)
        lh_bench_check("append",
            lh_append_async(appenders[i], record, sizeof record, on_stored, NULL, LH_NO_TIMEOUT));
    pthread_mutex_lock(&lock);
    while (missing > 0)
        pthread_cond_wait(&all_stored, &lock);
    pthread_mutex_unlock(&lock);
}

static struct lh_appender **open_all(struct lh_cluster *cluster, const char *path, unsigned count)
{
    struct lh_appender **appenders = calloc(count, sizeof(struct lh_appender *));

    if (appenders == NULL)
        exit(70);
    for (unsigned i = 0; i < count; i++)
        lh_bench_check("open", lh_appender_open(cluster, path, NULL, TIMEOUT_MS, &appenders[i]));
    for (unsigned i = 0; i < count; i += AT_ONCE)
        append_each(appenders + i, count - i < AT_ONCE ? count - i : AT_ONCE);
    return appenders;
}

static void serve(struct lh_appender **appenders, unsigned count)
{
    char line[80];

    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        double begun = lh_bench_now_s();
        append_each(appenders, count);
        printf("{\"seconds\": %.3f, \"records\": %u}\n", lh_bench_now_s() - begun, count);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    const char *master = NULL, *path = NULL;
    struct lh_cluster *cluster;
    unsigned count = 20000;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--master") == 0)
            master = argv[i + 1];
        else if (strcmp(argv[i], "--path") == 0)
            path = argv[i + 1];
        else if (strcmp(argv[i], "--appenders") == 0)
            count = (unsigned)strtoul(argv[i + 1], NULL, 10);
    }
    if (master == NULL || path == NULL || count == 0) {
        fprintf(stderr, "usage: many_bench --master HOST:PORT,... --path PATH [--appenders N]\n");
        return 64;
    }
    lh_bench_check("open the cluster", lh_cluster_open(master, NULL, &cluster));
    struct lh_appender **appenders = open_all(cluster, path, count);
    serve(appenders, count);
    for (unsigned i = 0; i < count; i++)
        lh_bench_check("close", lh_appender_close(appenders[i], TIMEOUT_MS));
    free(appenders);
    lh_cluster_close(cluster);
    return 0;
}
