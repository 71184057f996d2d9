/* How long a log stands still when an exclusive appender takes it over from an owner that is gone.
 * bench/leases kills or pauses the owner.
 *
 *   takeover_bench --master HOST:PORT,... --path PATH [--heir] [--term-ms MS]
 *
 * The owner acquires the lock of the log, opens an exclusive appender and appends records of 100
 * bytes one after the other; it prints "ready" when the first of them are stored, and never ends by
 * itself. The heir waits for the lock, prints "ready" when the master knows of it, and then takes
 * the log over. It prints how long that took from the moment that it was granted the lock: until
 * its appender is open, and until its first record is stored. */
#include "bench/options.h" /* before leasehold.h, whose macros would meet base/error.h's enum */
#include "bench/samples.h"

#include "client/library/leasehold_leases.h"

#include <inttypes.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS    120000u
#define RECORD_BYTES  100
#define FIRST_RECORDS 100

static struct {
    const char *master, *path;
    bool heir;
    uint64_t term_ms;
} o;

static const char record[RECORD_BYTES] = {'x'};

static struct {
    struct lh_lock lock;
    uint64_t at_ns;
    sem_t done;
} granted;

static _Noreturn void fail(const char *what, int error)
{
    fprintf(stderr, "takeover_bench: %s: %s: %s\n", what, lh_error_name(error), lh_last_error());
    _exit(1);
}

static void must(const char *what, int error)
{
    if (error != LH_OK)
        fail(what, error);
}

static void on_granted(void *arg, int error, const struct lh_lock *lock)
{
    (void)arg;
    granted.at_ns = lh_bench_now_ns();
    must("waiting for the lock", error);
    granted.lock = *lock;
    sem_post(&granted.done);
}

static void say_ready(void)
{
    puts("ready");
    fflush(stdout);
}

static void await_queued(struct lh_cluster *cluster)
{
    for (bool queued = false; !queued;) {
        struct lh_name_list list;
        must("listing names", lh_names(cluster, o.path, NULL, 1, TIMEOUT_MS, &list));
        queued = list.count == 1 && list.names[0].waiting > 0;
        lh_name_list_deinit(&list);
    }
}

static struct lh_appender *open_appender(struct lh_cluster *cluster)
{
    struct lh_appender_options options = {.lock_name = o.path, .token = granted.lock.token};
    struct lh_appender *a;

    must("opening an appender", lh_appender_open(cluster, o.path, &options, TIMEOUT_MS, &a));
    return a;
}

static void append(struct lh_appender *a)
{
    must("appending", lh_append(a, record, sizeof record, TIMEOUT_MS, NULL));
}

static _Noreturn void own(struct lh_cluster *cluster)
{
    struct lh_appender *a = open_appender(cluster);

    for (unsigned i = 0;; i++) {
        append(a);
        if (i == FIRST_RECORDS)
            say_ready();
    }
}

static void take_over(struct lh_cluster *cluster)
{
    struct lh_appender *a = open_appender(cluster);
    uint64_t opened_ns = lh_bench_now_ns();

    append(a);
    printf("{\"opened_ms\": %.3f, \"stored_ms\": %.3f}\n",
        (double)(opened_ns - granted.at_ns) / 1e6,
        (double)(lh_bench_now_ns() - granted.at_ns) / 1e6);
    fflush(stdout);
}

static const struct lh_flag table[] = {
    {LH_FLAG("master", STRING, &o.master, "127.0.0.1:7400"), .help = "addresses of the masters"},
    {LH_FLAG("path", STRING, &o.path, "/log"), .help = "of the log, and the name of its lock"},
    {LH_FLAG("heir", BOOL, &o.heir, "false"), .help = "take it over"},
    {LH_FLAG("term-ms", UINT, &o.term_ms, "0"), .help = "of the session; 0: the default"},
};

int main(int argc, char **argv)
{
    static const struct lh_flags flags = {
        .command = "takeover_bench",
        .usage = "[OPTION]...",
        .summary = "Measures how a log is taken over.",
        LH_FLAG_ROWS(table),
    };
    struct lh_session *session;
    struct lh_cluster *cluster;

    lh_bench_options(&flags, argc, argv);
    struct lh_session_options options = {.term_ms = o.term_ms, .label = o.heir ? "heir" : "owner"};
    sem_init(&granted.done, 0, 0);
    must(o.master, lh_cluster_open(o.master, NULL, &cluster));
    must("opening a session", lh_session_open(cluster, &options, TIMEOUT_MS, &session));
    must("acquiring", lh_acquire_async(session, o.path, NULL, LH_NO_TIMEOUT, on_granted, NULL));
    if (o.heir) {
        await_queued(cluster);
        say_ready();
    }
    while (sem_wait(&granted.done) != 0)
        ;
    if (!o.heir)
        own(cluster);
    take_over(cluster);
    _exit(0); /* the session ends with the process */
}
