/* Opens the same files again and again, through the public C API alone: what does a master hear of
 * it, with and without lookups under leases (VAL-7)? bench/opens drives it.
 *
 *   opens_bench --master HOST:PORT,... --path PATH [--files N] [--lookups N]
 *
 * The files are PATH-1 to PATH-N, and exist. Commands on the standard input, a line each, answered
 * by a line of JSON each:
 *   appenders   open and close an appender of each file
 *   readers     open and close a reader of each file
 *   fill        append a record to each file
 *   records     open a reader of each file, read its first record and close it
 *   first N     the first record of PATH-N, as text
 * The end of the input closes the cluster. */
#include "client/library/leasehold.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 120000u
#define PATH_BYTES 256

struct options {
    const char *master, *path;
    uint32_t files, lookups;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void path_of(const struct options *o, uint32_t number, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s-%" PRIu32, o->path, number);
}

static int open_appender(struct lh_cluster *cluster, const char *path)
{
    struct lh_appender *appender;
    int error = lh_appender_open(cluster, path, NULL, TIMEOUT_MS, &appender);

    if (error == LH_OK)
        lh_appender_close(appender, TIMEOUT_MS);
    return error;
}

static int open_reader(struct lh_cluster *cluster, const char *path)
{
    struct lh_reader *reader;
    int error = lh_reader_open(cluster, path, NULL, TIMEOUT_MS, &reader);

    if (error == LH_OK)
        lh_reader_close(reader);
    return error;
}

static int fill(struct lh_cluster *cluster, const char *path)
{
    struct lh_appender *appender;
    struct lh_position at;
    int error = lh_appender_open(cluster, path, NULL, TIMEOUT_MS, &appender);

    if (error != LH_OK)
        return error;
    error = lh_append(appender, path, strlen(path), TIMEOUT_MS, &at);
    lh_appender_close(appender, TIMEOUT_MS);
    return error;
}

static int read_first(struct lh_cluster *cluster, const char *path)
{
    struct lh_reader *reader;
    struct lh_record record;
    int error = lh_reader_open(cluster, path, NULL, TIMEOUT_MS, &reader);

    if (error != LH_OK)
        return error;
    error = lh_reader_next(reader, TIMEOUT_MS, &record);
    lh_reader_close(reader);
    return error;
}

static void open_all(struct lh_cluster *cluster, const struct options *o,
    int (*opens)(struct lh_cluster *cluster, const char *path))
{
    uint32_t opened = 0, missing = 0, failed = 0;
    double began = now_s();
    char path[PATH_BYTES];

    for (uint32_t i = 1; i <= o->files; i++) {
        path_of(o, i, path);
        int error = opens(cluster, path);
        opened += error == LH_OK;
        missing += error == LH_ERR_NOT_FOUND;
        failed += error != LH_OK && error != LH_ERR_NOT_FOUND;
    }
    printf("{\"opened\": %" PRIu32 ", \"missing\": %" PRIu32 ", \"failed\": %" PRIu32
           ", \"seconds\": %.6f}\n",
        opened, missing, failed, now_s() - began);
}

static void first(struct lh_cluster *cluster, const struct options *o, uint32_t number)
{
    struct lh_reader *reader;
    struct lh_record record;
    char path[PATH_BYTES];

    path_of(o, number, path);
    int error = lh_reader_open(cluster, path, NULL, TIMEOUT_MS, &reader);
    if (error == LH_OK) {
        error = lh_reader_next(reader, TIMEOUT_MS, &record);
        if (error == LH_OK)
            printf("{\"record\": \"%.*s\"}\n", (int)record.size, (const char *)record.data);
        lh_reader_close(reader);
    }
    if (error != LH_OK)
        printf("{\"error\": \"%s\"}\n", error == LH_END ? "END" : lh_error_name(error));
}

static bool parse(int argc, char **argv, struct options *o)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--master") == 0)
            o->master = argv[i + 1];
        else if (strcmp(argv[i], "--path") == 0)
            o->path = argv[i + 1];
        else if (strcmp(argv[i], "--files") == 0)
            o->files = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--lookups") == 0)
            o->lookups = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else
            return false;
    }
    return argc % 2 == 1 && o->master != NULL && o->path != NULL;
}

int main(int argc, char **argv)
{
    struct options o = {.files = 1};
    struct lh_cluster *cluster;
    char line[64];

    if (!parse(argc, argv, &o)) {
        fputs("usage: opens_bench --master HOST:PORT,... --path PATH [--files N] [--lookups N]\n",
            stderr);
        return 64;
    }
    struct lh_cluster_options options = {.lookups_max = o.lookups};
    if (lh_cluster_open(o.master, &options, &cluster) != LH_OK) {
        fprintf(stderr, "opens_bench: %s\n", lh_last_error());
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strcmp(line, "appenders\n") == 0)
            open_all(cluster, &o, open_appender);
        else if (strcmp(line, "readers\n") == 0)
            open_all(cluster, &o, open_reader);
        else if (strcmp(line, "fill\n") == 0)
            open_all(cluster, &o, fill);
        else if (strcmp(line, "records\n") == 0)
            open_all(cluster, &o, read_first);
        else if (strncmp(line, "first ", 6) == 0)
            first(cluster, &o, (uint32_t)strtoul(line + 6, NULL, 10));
    }
    lh_cluster_close(cluster);
    return 0;
}
