/* What leases for programs cost, through the public C API alone: one load, whose figures are one
 * line of JSON. bench/leases runs it; peer_locks_bench.c is the same for other servers.
 *
 *   locks_bench --master HOST:PORT,... --load LOAD [OPTION]...
 *
 *   pairs      each session acquires and releases locks of its own, `window` of them at a time; one
 *              session with a window of 1 by the calls that wait
 *   reads      a cached value is read, by one thread
 *   handover   `sessions` wait for one lock; its holder releases it, and waits again. A time begins
 *              with the release and ends in the callback of the next one
 *   change     `sessions` cache a value that is changed; a time is that of the change
 *   fill       `locks` are acquired, as many in each session, and kept until the standard input
 *              ends
 *   death      all sessions hold a lock each; one more waits for the first one's, which is
 *              released. A time ends in the callback of the one that waits
 *
 * The last two print a line "ready" when all sessions are open, or wait, and begin with the line
 * "go" of the standard input. */
#include "bench/options.h" /* before leasehold.h, whose macros would meet base/error.h's enum */
#include "bench/samples.h"

#include "client/library/leasehold_leases.h"

#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS   120000u
#define CLUSTERS_MAX 256u
#define HELPERS      32u /* threads that do the same for many sessions */
#define NAME_BYTES   64
#define VALUE_BYTES  100u

enum load_kind { PAIRS, READS, HANDOVER, CHANGE, FILL, DEATH };

struct options {
    const char *master;
    int load;
    uint64_t sessions, clusters, window, locks, rounds, term_ms;
    struct lh_duration time;
};

static struct options o;
static struct lh_cluster *clusters[CLUSTERS_MAX];
static struct lh_session **sessions;
static char prefix[NAME_BYTES / 2]; /* of names: each process has its own */
static uint64_t begun_ns, until_ns;
static atomic_uint_fast64_t count;
static sem_t ended;
static struct lh_bench_samples acquires, both, times;

static _Noreturn void fail(const char *what, int error)
{
    fprintf(stderr, "locks_bench: %s: %s: %s\n", what, lh_error_name(error), lh_last_error());
    _exit(1);
}

static void name_of(char name[NAME_BYTES], const char *kind, uint64_t i)
{
    snprintf(name, NAME_BYTES, "%s/%s/%012" PRIu64, prefix, kind, i);
}

static void await(sem_t *s)
{
    while (sem_wait(s) != 0)
        ;
}

static void start_clock(void)
{
    begun_ns = lh_bench_now_ns();
    until_ns = begun_ns + (uint64_t)o.time.ns;
}

static void await_go(void)
{
    char line[16];

    puts("ready");
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL)
        exit(1);
    start_clock();
}

/* ---- The same for each session, by some threads at once. */

struct helper {
    pthread_t thread;
    uint64_t first;
    void (*each)(uint64_t session);
};

static void *help(void *arg)
{
    const struct helper *h = arg;

    for (uint64_t i = h->first; i < o.sessions; i += HELPERS)
        h->each(i);
    return NULL;
}

static void for_each_session(void (*each)(uint64_t session))
{
    struct helper helpers[HELPERS];

    for (uint64_t i = 0; i < HELPERS; i++) {
        helpers[i] = (struct helper){.first = i, .each = each};
        pthread_create(&helpers[i].thread, NULL, help, &helpers[i]);
    }
    for (uint64_t i = 0; i < HELPERS; i++)
        pthread_join(helpers[i].thread, NULL);
}

static void open_session(uint64_t i)
{
    struct lh_session_options options = {.term_ms = o.term_ms, .label = "locks_bench"};
    int error = lh_session_open(clusters[i % o.clusters], &options, TIMEOUT_MS, &sessions[i]);

    if (error != LH_OK)
        fail("opening a session", error);
}

/* ---- pairs */

struct chain {
    struct lh_session *session;
    char name[NAME_BYTES];
};

static void chain_acquired(void *arg, int error, const struct lh_lock *lock);

static void chain_acquire(struct chain *c)
{
    int error = lh_acquire_async(c->session, c->name, NULL, LH_NO_TIMEOUT, chain_acquired, c);

    if (error != LH_OK)
        fail("acquiring", error);
}

static void chain_acquired(void *arg, int error, const struct lh_lock *lock)
{
    struct chain *c = arg;
    struct lh_lock mine;

    if (error != LH_OK)
        fail("acquiring", error);
    mine = *lock;
    error = lh_release(&mine);
    if (error != LH_OK)
        fail("releasing", error);
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    if (lh_bench_now_ns() < until_ns)
        chain_acquire(c);
    else
        sem_post(&ended);
}

static void pairs_in_chains(void)
{
    uint64_t n = o.sessions * o.window;
    struct chain *chains = calloc(n, sizeof *chains);

    start_clock();
    for (uint64_t i = 0; i < n; i++) {
        chains[i].session = sessions[i % o.sessions];
        name_of(chains[i].name, "pair", i);
        chain_acquire(&chains[i]);
    }
    for (uint64_t i = 0; i < n; i++)
        await(&ended);
    free(chains);
}

static void pairs(void)
{
    char name[NAME_BYTES];
    struct lh_lock lock;

    if (o.sessions * o.window > 1) {
        pairs_in_chains();
        return;
    }
    name_of(name, "pair", 0);
    start_clock();
    for (uint64_t began = begun_ns; began < until_ns; began = lh_bench_now_ns(), count++) {
        int error = lh_acquire(sessions[0], name, NULL, TIMEOUT_MS, &lock);
        if (error != LH_OK)
            fail("acquiring", error);
        lh_bench_sample(&acquires, began);
        error = lh_release(&lock);
        if (error != LH_OK)
            fail("releasing", error);
        lh_bench_sample(&both, began);
    }
}

/* ---- values */

static char value_name[NAME_BYTES];

static void put_value(void)
{
    char value[VALUE_BYTES];
    int error;

    memset(value, 'x', sizeof value);
    error = lh_put(clusters[0], value_name, value, sizeof value, NULL, TIMEOUT_MS, NULL);
    if (error != LH_OK)
        fail("putting a value", error);
}

static void get_value(uint64_t i)
{
    const struct lh_value *value;
    int error = lh_get(sessions[i], value_name, TIMEOUT_MS, &value);

    if (error != LH_OK)
        fail("reading a value", error);
    lh_value_free(value);
}

static void reads(void)
{
    name_of(value_name, "value", 0);
    put_value();
    get_value(0);
    start_clock();
    while (lh_bench_now_ns() < until_ns)
        for (unsigned i = 0; i < 1000; i++, count++)
            get_value(0);
}

static void change(void)
{
    name_of(value_name, "value", 0);
    put_value();
    for (count = 0; count < o.rounds; count++) {
        for_each_session(get_value);
        uint64_t began = lh_bench_now_ns();
        put_value();
        lh_bench_sample(&times, began);
    }
}

/* ---- handover */

static struct {
    char name[NAME_BYTES];
    uint64_t released_ns, holder;
    struct lh_lock lock;
    sem_t granted;
} handing;

static void handed(void *arg, int error, const struct lh_lock *lock)
{
    if (handing.released_ns != 0)
        lh_bench_sample(&times, handing.released_ns);
    if (error != LH_OK)
        fail("waiting", error);
    handing.holder = (uint64_t)((struct lh_session **)arg - sessions);
    handing.lock = *lock;
    sem_post(&handing.granted);
}

static void wait_in_line(uint64_t i)
{
    int error =
        lh_acquire_async(sessions[i], handing.name, NULL, LH_NO_TIMEOUT, handed, &sessions[i]);

    if (error != LH_OK)
        fail("waiting", error);
}

/* Until the master knows that so many wait. */
static void await_line(uint64_t waiting)
{
    for (uint64_t now = 0; now < waiting;) {
        struct lh_name_list list;
        int error = lh_names(clusters[0], handing.name, NULL, 1, TIMEOUT_MS, &list);
        if (error != LH_OK)
            fail("listing names", error);
        now = list.count == 1 ? list.names[0].waiting : 0;
        lh_name_list_deinit(&list);
    }
}

static void handover(void)
{
    name_of(handing.name, "line", 0);
    sem_init(&handing.granted, 0, 0);
    for (uint64_t i = 0; i < o.sessions; i++)
        wait_in_line(i);
    await(&handing.granted);
    for (count = 0; count < o.rounds; count++) {
        uint64_t former = handing.holder;
        await_line(o.sessions - 1);
        handing.released_ns = lh_bench_now_ns();
        int error = lh_release(&handing.lock);
        if (error != LH_OK)
            fail("releasing", error);
        await(&handing.granted);
        wait_in_line(former);
    }
}

/* ---- fill */

static sem_t places;

static void filled(void *arg, int error, const struct lh_lock *lock)
{
    (void)arg;
    (void)lock;
    if (error != LH_OK)
        fail("acquiring", error);
    if (++count == o.locks)
        sem_post(&ended);
    sem_post(&places);
}

static void fill(void)
{
    uint64_t each = (o.locks + o.sessions - 1) / o.sessions; /* what a session asks for goes
    together */
    char name[NAME_BYTES];

    await_go();
    sem_init(&places, 0, (unsigned)o.window);
    for (uint64_t i = 0; i < o.locks; i++) {
        name_of(name, "fill", i);
        await(&places);
        int error = lh_acquire_async(sessions[i / each], name, NULL, LH_NO_TIMEOUT, filled, NULL);
        if (error != LH_OK)
            fail("acquiring", error);
    }
    if (o.locks > 0)
        await(&ended);
}

/* ---- death */

static struct lh_lock first_lock;

static void hold_one(uint64_t i)
{
    char name[NAME_BYTES];
    struct lh_lock lock;

    name_of(name, "held", i);
    int error = lh_acquire(sessions[i], name, NULL, TIMEOUT_MS, &lock);
    if (error != LH_OK)
        fail("acquiring", error);
    if (i == 0)
        first_lock = lock;
}

static void after_death(void)
{
    struct lh_session_options options = {.term_ms = o.term_ms, .label = "locks_bench"};
    struct lh_session *waiter;

    for_each_session(hold_one);
    int error = lh_session_open(clusters[0], &options, TIMEOUT_MS, &waiter);
    if (error != LH_OK)
        fail("opening a session", error);
    sessions = realloc(sessions, (o.sessions + 1) * sizeof(struct lh_session *));
    sessions[o.sessions] = waiter;
    name_of(handing.name, "held", 0);
    sem_init(&handing.granted, 0, 0);
    wait_in_line(o.sessions);
    await_line(1);
    await_go();
    handing.released_ns = lh_bench_now_ns();
    error = lh_release(&first_lock);
    if (error != LH_OK)
        fail("releasing", error);
    await(&handing.granted);
    count = 1;
}

static const char *const load_names[] = {
    "pairs", "reads", "handover", "change", "fill", "death", NULL};

static const struct lh_flag table[] = {
    {LH_FLAG("master", STRING, &o.master, "127.0.0.1:7400"), .help = "addresses of the masters"},
    {LH_FLAG("load", ENUM, &o.load, "pairs"), .choices = load_names,
        .help = "see this file's head"},
    {LH_FLAG("sessions", UINT, &o.sessions, "1"), .min = 1, .max = 100000, .help = "how many"},
    {LH_FLAG("clusters", UINT, &o.clusters, "1"), .min = 1, .max = CLUSTERS_MAX,
        .help = "connections that the sessions share"},
    {LH_FLAG("window", UINT, &o.window, "1"), .min = 1, .max = 65536,
        .help = "requests under way at once, of a session; in fill, of all"},
    {LH_FLAG("locks", UINT, &o.locks, "100000"), .help = "of fill"},
    {LH_FLAG("rounds", UINT, &o.rounds, "100"), .min = 1, .help = "of handover and change"},
    {LH_FLAG("time", DURATION, &o.time, "2s"), .help = "of pairs and reads"},
    {LH_FLAG("term-ms", UINT, &o.term_ms, "0"), .help = "of sessions; 0: the default"},
};

int main(int argc, char **argv)
{
    static const struct lh_flags flags = {
        .command = "locks_bench",
        .usage = "[OPTION]...",
        .summary = "Measures leases for programs.",
        LH_FLAG_ROWS(table),
    };
    static void (*const LOADS[])(void) = {pairs, reads, handover, change, fill, after_death};
    char end[16];

    lh_bench_options(&flags, argc, argv);
    snprintf(prefix, sizeof prefix, "/bench/%ld", (long)getpid());
    sem_init(&ended, 0, 0);
    if (o.load == HANDOVER)
        o.sessions++; /* and the first holder */
    sessions = calloc(o.sessions, sizeof(struct lh_session *));
    for (uint64_t i = 0; i < o.clusters; i++) {
        int error = lh_cluster_open(o.master, NULL, &clusters[i]);
        if (error != LH_OK)
            fail(o.master, error);
    }
    start_clock();
    for_each_session(open_session);
    double opening_s = (double)(lh_bench_now_ns() - begun_ns) / 1e9;
    LOADS[o.load]();
    double seconds = (double)(lh_bench_now_ns() - begun_ns) / 1e9;
    printf("{");
    lh_bench_print_samples("acquire", &acquires);
    lh_bench_print_samples("pair", &both);
    lh_bench_print_samples("time", &times);
    printf("\"opening_s\": %.3f, \"count\": %" PRIu64 ", \"seconds\": %.3f}\n", opening_s,
        (uint64_t)count, seconds);
    fflush(stdout);
    while (o.load == FILL && fgets(end, sizeof end, stdin) != NULL)
        ;
    _exit(0); /* sessions end by themselves; ten thousand of them would take long to close */
}
