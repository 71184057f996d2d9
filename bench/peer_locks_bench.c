/* What locks cost at Leasehold's peers, and by its own service without the library (peer_locks.h):
 * one load, whose figures are one line of JSON. bench/leases runs it; locks_bench.c is the same for
 * Leasehold.
 *
 *   peer_locks_bench --peer etcd|redis|zookeeper|leasehold --address HOST:PORT --load LOAD
 *   [OPTION]...
 *
 *   pairs      each client acquires and releases keys of its own, `window` of them at a time
 *   reads      each client reads one key, `window` reads at a time
 *   handover   `clients` wait for one lock in a line; its holder releases it, and waits again. A
 *              time begins with the release and ends when the next one knows that it may go on
 *   change     `clients` watch a key that is written; a time ends when all of them have heard of it
 *   fill       `keys` keys are acquired and kept until the standard input ends */
#include "base/alloc.h"
#include "bench/options.h"
#include "bench/peer_locks.h"
#include "bench/samples.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum load_kind { PAIRS, READS, HANDOVER, CHANGE, FILL };

struct options {
    struct lh_bench_options peer;
    int peer_kind, load;
    uint64_t window, keys, rounds;
    struct lh_duration time;
};

struct load {
    struct lh_bench_load base;
    const struct options *o;
    uint64_t first; /* key: each process has its own */
    uint64_t begun_ns, until_ns, since_ns, count;
    uint64_t in_flight, next, set_up;
    struct lh_bench_samples acquires, pairs, times;
    /* HANDOVER: the holder, its key (of those that wait in a line), and what was heard of this
    round. */
    uint32_t holder;
    uint64_t held, heard;
};

void lh_bench_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("peer_locks_bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static bool goes_on(const struct load *l)
{
    return lh_bench_now_ns() < l->until_ns;
}

static void start_clock(struct load *l)
{
    l->begun_ns = lh_bench_now_ns();
    l->until_ns = l->begun_ns + (uint64_t)l->o->time.ns;
}

/* ---- pairs */

static void pairs_begin(struct lh_bench_load *load, struct lh_bench_peer *p)
{
    struct load *l = (struct load *)load;

    start_clock(l);
    l->since_ns = l->begun_ns;
    for (uint32_t i = 0; i < l->o->peer.clients * l->o->window; i++) {
        p->request(p, i % (uint32_t)l->o->peer.clients, LH_BENCH_ACQUIRE, l->first + i);
        l->in_flight++;
    }
}

static void pairs_done(struct lh_bench_load *load, struct lh_bench_peer *p, uint32_t client,
    enum lh_bench_op op, uint64_t key, bool ok)
{
    struct load *l = (struct load *)load;
    bool single = l->o->peer.clients * l->o->window == 1;

    if (!ok)
        lh_bench_fail("the key %" PRIu64 " is somebody else's", key);
    if (op == LH_BENCH_ACQUIRE) {
        if (single)
            lh_bench_sample(&l->acquires, l->since_ns);
        p->request(p, client, LH_BENCH_RELEASE, key);
        return;
    }
    l->count++;
    if (single)
        lh_bench_sample(&l->pairs, l->since_ns);
    if (goes_on(l)) {
        l->since_ns = lh_bench_now_ns();
        p->request(p, client, LH_BENCH_ACQUIRE, key);
    } else if (--l->in_flight == 0) {
        p->over(p);
    }
}

/* ---- reads */

static void reads_begin(struct lh_bench_load *load, struct lh_bench_peer *p)
{
    struct load *l = (struct load *)load;

    p->request(p, 0, LH_BENCH_ACQUIRE, l->first);
}

static void reads_done(struct lh_bench_load *load, struct lh_bench_peer *p, uint32_t client,
    enum lh_bench_op op, uint64_t key, bool ok)
{
    struct load *l = (struct load *)load;

    (void)key;
    (void)ok;
    if (op == LH_BENCH_ACQUIRE) {
        p->request(p, 0, LH_BENCH_WRITE, l->first);
    } else if (op == LH_BENCH_WRITE) {
        start_clock(l);
        for (uint32_t i = 0; i < l->o->peer.clients * l->o->window; i++) {
            p->request(p, i % (uint32_t)l->o->peer.clients, LH_BENCH_READ, l->first);
            l->in_flight++;
        }
    } else if (l->count++, goes_on(l)) {
        p->request(p, client, LH_BENCH_READ, l->first);
    } else if (--l->in_flight == 0) {
        p->over(p);
    }
}

/* ---- handover. In a line each client has a key of its own and watches the one before it, as the
 * recipes of etcd and ZooKeeper have it. Where a lock is claimed all watch the same key, and all
 * try. */

static void handover_release(struct load *l, struct lh_bench_peer *p)
{
    l->heard = 0;
    if (l->count == l->o->rounds) {
        p->over(p);
        return;
    }
    l->since_ns = lh_bench_now_ns();
    p->request(p, l->holder, LH_BENCH_RELEASE, l->first + l->held);
}

static void handover_begin(struct lh_bench_load *load, struct lh_bench_peer *p)
{
    struct load *l = (struct load *)load;

    if (!p->claims)
        p->request(p, 0, LH_BENCH_ACQUIRE, l->first + l->next++);
    else
        for (uint32_t i = 0; i < l->o->peer.clients; i++)
            p->request(p, i, LH_BENCH_WATCH, l->first);
}

static void claim_done(
    struct load *l, struct lh_bench_peer *p, uint32_t client, enum lh_bench_op op, bool ok)
{
    uint32_t clients = (uint32_t)l->o->peer.clients;

    if (op == LH_BENCH_WATCH && ++l->set_up == clients)
        p->request(p, 0, LH_BENCH_ACQUIRE, l->first);
    if (op == LH_BENCH_NOTED && client != l->holder)
        p->request(p, client, LH_BENCH_ACQUIRE, l->first);
    if (op == LH_BENCH_ACQUIRE && ok) {
        l->next = client;
        if (l->since_ns != 0)
            lh_bench_sample(&l->times, l->since_ns);
    }
    l->heard += op == LH_BENCH_NOTED || op == LH_BENCH_ACQUIRE;
    /* All have heard of it, the holder too, and all others have tried. */
    if (l->since_ns == 0 ? l->heard == 1 : l->heard == 2 * clients - 1) {
        l->count += l->since_ns != 0;
        l->holder = (uint32_t)l->next;
        handover_release(l, p);
    }
}

/* A client that has a key waits for the one before it; the first holds the lock. */
static void line_done(
    struct load *l, struct lh_bench_peer *p, uint32_t client, enum lh_bench_op op, uint64_t key)
{
    uint32_t clients = (uint32_t)l->o->peer.clients;

    if (op == LH_BENCH_ACQUIRE && key > l->first) {
        p->request(p, client, LH_BENCH_WATCH, key - 1);
    } else if (op == LH_BENCH_ACQUIRE || op == LH_BENCH_WATCH) {
        if (l->next < clients) {
            p->request(p, (uint32_t)l->next, LH_BENCH_ACQUIRE, l->first + l->next);
            l->next++;
        } else {
            handover_release(l, p);
        }
    } else {
        l->heard |= op == LH_BENCH_RELEASE ? 1 : 2;
        if (op == LH_BENCH_NOTED)
            lh_bench_sample(&l->times, l->since_ns);
        if (l->heard != 3)
            return;
        uint32_t former = l->holder;
        l->count++;
        l->heard = 0;
        l->holder = (uint32_t)(++l->held % clients);
        p->request(p, former, LH_BENCH_ACQUIRE, l->first + l->next++);
    }
}

static void handover_done(struct lh_bench_load *load, struct lh_bench_peer *p, uint32_t client,
    enum lh_bench_op op, uint64_t key, bool ok)
{
    struct load *l = (struct load *)load;

    if (p->claims)
        claim_done(l, p, client, op, ok);
    else
        line_done(l, p, client, op, key);
}

/* ---- change */

static void change_begin(struct lh_bench_load *load, struct lh_bench_peer *p)
{
    struct load *l = (struct load *)load;

    p->request(p, 0, LH_BENCH_ACQUIRE, l->first);
}

static void watch_all(struct load *l, struct lh_bench_peer *p)
{
    l->set_up = 0;
    for (uint32_t i = 0; i < l->o->peer.clients; i++)
        p->request(p, i, LH_BENCH_WATCH, l->first);
}

static void change_done(struct lh_bench_load *load, struct lh_bench_peer *p, uint32_t client,
    enum lh_bench_op op, uint64_t key, bool ok)
{
    struct load *l = (struct load *)load;
    uint64_t clients = l->o->peer.clients;
    bool write = false;

    (void)client;
    (void)key;
    (void)ok;
    if (op == LH_BENCH_ACQUIRE)
        watch_all(l, p);
    else if (op == LH_BENCH_WATCH)
        write = ++l->set_up == clients;
    else if (++l->heard == clients + 1) { /* and the answer of the write */
        lh_bench_sample(&l->times, l->since_ns);
        if (++l->count == l->o->rounds)
            p->over(p);
        else if (p->watch_stays)
            write = true;
        else
            watch_all(l, p);
    }
    if (write) {
        l->heard = 0;
        l->since_ns = lh_bench_now_ns();
        p->request(p, 0, LH_BENCH_WRITE, l->first);
    }
}

/* ---- fill */

/* One client after the other: what a client asks for at once goes together. */
static void fill_more(struct load *l, struct lh_bench_peer *p)
{
    uint64_t each = (l->o->keys + l->o->peer.clients - 1) / l->o->peer.clients;

    p->request(p, (uint32_t)(l->next / each), LH_BENCH_ACQUIRE, l->first + l->next);
    l->next++;
}

static void fill_begin(struct lh_bench_load *load, struct lh_bench_peer *p)
{
    struct load *l = (struct load *)load;

    start_clock(l);
    while (l->next < l->o->keys && l->next < l->o->window)
        fill_more(l, p);
}

static void fill_done(struct lh_bench_load *load, struct lh_bench_peer *p, uint32_t client,
    enum lh_bench_op op, uint64_t key, bool ok)
{
    struct load *l = (struct load *)load;

    (void)client;
    (void)op;
    if (!ok)
        lh_bench_fail("the key %" PRIu64 " is somebody else's", key);
    if (++l->count == l->o->keys)
        p->over(p);
    else if (l->next < l->o->keys)
        fill_more(l, p);
}

static void report(struct load *l)
{
    double seconds = (double)(lh_bench_now_ns() - l->begun_ns) / 1e9;
    char end[8];

    printf("{");
    lh_bench_print_samples("acquire", &l->acquires);
    lh_bench_print_samples("pair", &l->pairs);
    lh_bench_print_samples("time", &l->times);
    printf("\"count\": %" PRIu64 ", \"seconds\": %.3f}\n", l->count, seconds);
    fflush(stdout);
    while (l->o->load == FILL && fgets(end, sizeof end, stdin) != NULL)
        ;
}

static struct options o;

static const char *const peers[] = {"etcd", "redis", "zookeeper", "leasehold", NULL};
static const char *const load_names[] = {"pairs", "reads", "handover", "change", "fill", NULL};

static const struct lh_flag table[] = {
    {LH_FLAG("peer", ENUM, &o.peer_kind, "etcd"), .choices = peers, .help = "whose server it is"},
    {LH_FLAG("address", STRING, &o.peer.address, "127.0.0.1:2379"), .help = "where it listens"},
    {LH_FLAG("load", ENUM, &o.load, "pairs"), .choices = load_names,
        .help = "see this file's head"},
    {LH_FLAG("clients", UINT, &o.peer.clients, "1"), .min = 1, .max = 20000, .help = "how many"},
    {LH_FLAG("window", UINT, &o.window, "1"), .min = 1, .max = 4096,
        .help = "requests of a client under way at once"},
    {LH_FLAG("keys", UINT, &o.keys, "100000"), .min = 1, .help = "of fill"},
    {LH_FLAG("rounds", UINT, &o.rounds, "100"), .min = 1, .help = "of handover and change"},
    {LH_FLAG("time", DURATION, &o.time, "2s"), .help = "of pairs and reads"},
    {LH_FLAG("lease", UINT, &o.peer.lease, "0"), .help = "etcd's, that keys are put with"},
};

int main(int argc, char **argv)
{
    static const struct lh_flags flags = {
        .command = "peer_locks_bench",
        .usage = "[OPTION]...",
        .summary = "Measures locks of etcd, Redis or ZooKeeper.",
        LH_FLAG_ROWS(table),
    };
    static const struct lh_bench_load LOADS[] = {
        [PAIRS] = {pairs_begin, pairs_done},
        [READS] = {reads_begin, reads_done},
        [HANDOVER] = {handover_begin, handover_done},
        [CHANGE] = {change_begin, change_done},
        [FILL] = {fill_begin, fill_done},
    };
    static struct lh_bench_peer *(*const PEERS[])(const struct lh_bench_options *) = {
        lh_bench_etcd, lh_bench_redis, lh_bench_zookeeper, lh_bench_leasehold};

    lh_bench_options(&flags, argc, argv);
    o.peer.sparing = o.load == CHANGE;
    o.peer.notify = o.load == HANDOVER || o.load == CHANGE;
    if (o.load == HANDOVER)
        o.peer.clients++; /* and the first holder */
    struct load l = {
        .base = LOADS[o.load], .o = &o, .first = (uint64_t)getpid() % 100000 * 10000000};
    struct lh_bench_peer *p = PEERS[o.peer_kind](&o.peer);
    start_clock(&l);
    p->run(p, &l.base);
    report(&l);
    _exit(0); /* connections end with the process */
}
