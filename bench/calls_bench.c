/* How long clients stand still when the master changes: each of them calls one function again and
 * again and notes how long its longest call took, from the first try until it was carried out,
 * through the public C API alone.
 *
 *   calls_bench --master HOST:PORT,... --mode append|create|open|first|list|put|lock|cached
 *               --path PATH [--clients N] [--pause MS]
 *
 *   append   a record of 100 bytes to PATH, which exists, synchronously
 *   create   a file, PATH-CLIENT-NUMBER
 *   open     an appender of PATH, and its first record
 *   first    both: a file, and its first record
 *   list     the names that begin with PATH
 *   put      a value, PATH-CLIENT
 *   lock     acquires PATH-CLIENT in a session, and releases it
 *   cached   a value, PATH-CLIENT, and a read of it by a session that caches it
 *
 * Commands on the standard input, a line each:
 *   begin   forget what was, measure from now on
 *   end     print one line of JSON: the longest call since `begin` in ms (one that goes on counts),
 *           calls that were carried out, calls that failed (they were tried again), seconds
 * The end of the input ends it. */
#include "client/library/leasehold.h"
#include "client/library/leasehold_leases.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS   120000u
#define CLIENTS_MAX  1024u
#define PATH_BYTES   256
#define RECORD_BYTES 100

struct client;

struct options {
    const char *master, *path;
    int (*call)(struct client *c, char path[PATH_BYTES]);
    unsigned clients, pause_ms;
};

/* The lock is only ever waited for by `begin` and `end`. */
struct client {
    const struct options *options;
    struct lh_cluster *cluster;
    struct lh_appender *appender; /* of `append`; NULL: it is to be opened */
    struct lh_session *session;   /* of `lock` and `cached`; likewise */
    char name[PATH_BYTES];        /* PATH-CLIENT */
    pthread_t thread;
    unsigned number;
    uint64_t files;
    pthread_mutex_t lock;
    double since, longest; /* seconds: when the call began that goes on; 0: none does */
    uint64_t calls, failed;
};

static const char record[RECORD_BYTES] = {'x'};
static atomic_bool over;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Calls: LH_OK, or an error after which the same is called again. */

static int one_append(struct client *c, char path[PATH_BYTES])
{
    (void)path;
    if (c->appender == NULL) {
        int error = lh_appender_open(c->cluster, c->options->path, NULL, TIMEOUT_MS, &c->appender);
        if (error != LH_OK)
            return error;
    }
    int error = lh_append(c->appender, record, sizeof record, TIMEOUT_MS, NULL);
    if (error != LH_OK) {
        (void)lh_appender_close(c->appender, 0);
        c->appender = NULL;
    }
    return error;
}

static int one_create(struct client *c, char path[PATH_BYTES])
{
    int error = lh_create(c->cluster, path, NULL, TIMEOUT_MS, NULL);

    /* An earlier try was carried out, and its answer was lost. */
    return error == LH_ERR_ALREADY_EXISTS ? LH_OK : error;
}

static int open_and_append(struct client *c, const char *path)
{
    struct lh_appender *a;
    int error = lh_appender_open(c->cluster, path, NULL, TIMEOUT_MS, &a);

    if (error != LH_OK)
        return error;
    error = lh_append(a, record, sizeof record, TIMEOUT_MS, NULL);
    int closed = lh_appender_close(a, TIMEOUT_MS);
    return error != LH_OK ? error : closed;
}

static int one_open(struct client *c, char path[PATH_BYTES])
{
    (void)path;
    return open_and_append(c, c->options->path);
}

static int one_first(struct client *c, char path[PATH_BYTES])
{
    int error = one_create(c, path);

    return error == LH_OK ? open_and_append(c, path) : error;
}

static int one_list(struct client *c, char path[PATH_BYTES])
{
    struct lh_file_list list;

    (void)path;
    int error = lh_list(c->cluster, c->options->path, NULL, 100, TIMEOUT_MS, &list);
    if (error == LH_OK)
        lh_file_list_deinit(&list);
    return error;
}

static int one_put(struct client *c, char path[PATH_BYTES])
{
    (void)path;
    return lh_put(c->cluster, c->name, record, sizeof record, NULL, TIMEOUT_MS, NULL);
}

static int need_session(struct client *c)
{
    return c->session != NULL ? LH_OK : lh_session_open(c->cluster, NULL, TIMEOUT_MS, &c->session);
}

static int one_lock(struct client *c, char path[PATH_BYTES])
{
    struct lh_lock lock;

    (void)path;
    int error = need_session(c);
    if (error == LH_OK)
        error = lh_acquire(c->session, c->name, NULL, TIMEOUT_MS, &lock);
    return error == LH_OK ? lh_release(&lock) : error;
}

static int one_cached(struct client *c, char path[PATH_BYTES])
{
    const struct lh_value *value;
    int error = need_session(c);

    if (error == LH_OK)
        error = one_put(c, path);
    if (error == LH_OK)
        error = lh_get(c->session, c->name, TIMEOUT_MS, &value);
    if (error == LH_OK)
        lh_value_free(value);
    return error;
}

/* ---- Clients. */

/* Until it is carried out. */
static void call(struct client *c)
{
    char path[PATH_BYTES];
    double began = now_s();
    int error;

    snprintf(path, sizeof path, "%s-%u-%" PRIu64, c->options->path, c->number, c->files++);
    pthread_mutex_lock(&c->lock);
    c->since = began;
    pthread_mutex_unlock(&c->lock);
    while ((error = c->options->call(c, path)) != LH_OK && !atomic_load(&over)) {
        fprintf(stderr, "calls_bench: %s: %s\n", lh_error_name(error), lh_last_error());
        pthread_mutex_lock(&c->lock);
        c->failed++;
        pthread_mutex_unlock(&c->lock);
        usleep(10000);
    }
    pthread_mutex_lock(&c->lock);
    if (now_s() - c->since > c->longest)
        c->longest = now_s() - c->since;
    c->since = 0;
    c->calls++;
    pthread_mutex_unlock(&c->lock);
}

static void *run(void *arg)
{
    struct client *c = arg;

    while (!atomic_load(&over)) {
        call(c);
        if (c->options->pause_ms > 0)
            usleep(c->options->pause_ms * 1000);
    }
    if (c->appender != NULL)
        (void)lh_appender_close(c->appender, TIMEOUT_MS);
    lh_session_close(c->session, 0);
    return NULL;
}

static void begin(struct client *clients, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct client *c = &clients[i];
        pthread_mutex_lock(&c->lock);
        if (c->since > 0)
            c->since = now_s();
        c->longest = 0;
        c->calls = c->failed = 0;
        pthread_mutex_unlock(&c->lock);
    }
}

static void end(struct client *clients, unsigned count, double began)
{
    double longest = 0, now = now_s();
    uint64_t calls = 0, failed = 0;

    for (unsigned i = 0; i < count; i++) {
        struct client *c = &clients[i];
        pthread_mutex_lock(&c->lock);
        if (c->longest > longest)
            longest = c->longest;
        if (c->since > 0 && now - c->since > longest)
            longest = now - c->since;
        calls += c->calls;
        failed += c->failed;
        pthread_mutex_unlock(&c->lock);
    }
    printf("{\"worst_ms\": %.3f, \"calls\": %" PRIu64 ", \"failed\": %" PRIu64
           ", \"seconds\": %.3f}\n",
        longest * 1e3, calls, failed, now - began);
    fflush(stdout);
}

static bool parse(int argc, char **argv, struct options *o)
{
    static const struct {
        const char *name;
        int (*call)(struct client *c, char path[PATH_BYTES]);
    } modes[] = {
        {"append", one_append}, {"create", one_create}, {"open", one_open}, {"first", one_first},
        {"list", one_list}, {"put", one_put}, {"lock", one_lock}, {"cached", one_cached}};

    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--master") == 0)
            o->master = value;
        else if (strcmp(argv[i], "--path") == 0)
            o->path = value;
        else if (strcmp(argv[i], "--clients") == 0)
            o->clients = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--pause") == 0)
            o->pause_ms = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--mode") != 0)
            return false;
        for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++)
            if (strcmp(argv[i], "--mode") == 0 && strcmp(value, modes[m].name) == 0)
                o->call = modes[m].call;
    }
    return argc % 2 == 1 && o->master != NULL && o->path != NULL && o->call != NULL &&
           strlen(o->path) < PATH_BYTES - 40 && o->clients > 0 && o->clients <= CLIENTS_MAX &&
           o->pause_ms <= 1000;
}

int main(int argc, char **argv)
{
    struct options o = {.clients = 1};
    struct lh_cluster *cluster;
    char line[64];
    double began = now_s();

    if (!parse(argc, argv, &o)) {
        fputs("usage: calls_bench --master HOST:PORT,... --mode "
              "append|create|open|first|list|put|lock|cached --path PATH [--clients N] "
              "[--pause MS]\n",
            stderr);
        return 64;
    }
    if (lh_cluster_open(o.master, NULL, &cluster) != LH_OK) {
        fprintf(stderr, "calls_bench: %s\n", lh_last_error());
        return 1;
    }
    struct client *clients = calloc(o.clients, sizeof *clients);
    for (unsigned i = 0; i < o.clients; i++) {
        clients[i] = (struct client){.options = &o, .cluster = cluster, .number = i};
        (void)snprintf(clients[i].name, sizeof clients[i].name, "%s-%u", o.path, i);
        pthread_mutex_init(&clients[i].lock, NULL);
        pthread_create(&clients[i].thread, NULL, run, &clients[i]);
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strcmp(line, "begin\n") == 0) {
            began = now_s();
            begin(clients, o.clients);
        } else if (strcmp(line, "end\n") == 0) {
            end(clients, o.clients, began);
        }
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < o.clients; i++)
        pthread_join(clients[i].thread, NULL);
    lh_cluster_close(cluster);
    free(clients);
    return 0;
}
