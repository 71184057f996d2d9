/* How fast the grantor table is with ten million leases, and what one of them costs in memory.
 *
 *   bazel run -c opt //bench:lease_bench [-- LEASES [SESSIONS]]
 *
 * Keys come in random order, so that every operation has the cache misses of a real table. One
 * thread. */
#include "base/assert.h"
#include "base/prng.h"
#include "lease/grantor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct bench {
    struct lh_grantor *g;
    lh_session_id *session;
    uint64_t leases;
    uint64_t sessions;
    uint64_t bits; /* of a permutation of the leases: 2^bits >= leases, even */
    struct lh_instant now;
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The i-th of all leases in an order of `round`'s own: a four-step Feistel network, walked until it
 * falls into range. No array of ten million numbers that would itself take up the caches. */
static uint64_t shuffled(const struct bench *b, uint64_t i, uint64_t round)
{
    uint64_t half = b->bits / 2;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half;
        uint64_t right = i & mask;
        for (uint64_t step = 0; step < 4; step++) {
            uint64_t mixed = left ^ ((right + round * 4 + step + 1) * 0x9e3779b97f4a7c15u >> 32);
            left = right;
            right = mixed & mask;
        }
        i = left << half | right;
    } while (i >= b->leases);
    return i;
}

static lh_session_id session_of(const struct bench *b, uint64_t lease)
{
    return b->session[lease % b->sessions];
}

static void report(const char *what, uint64_t count, double took)
{
    printf("%-30s %12" PRIu64 " in %6.2f s  %8.2f M/s\n", what, count, took,
        (double)count / took * 1e-6);
    fflush(stdout);
}

static void grant_all(struct bench *b, uint64_t round, const char *what)
{
    double start = seconds();
    for (uint64_t i = 0; i < b->leases; i++) {
        uint64_t lease = shuffled(b, i, round);
        b->now.ns += 100;
        int error = lh_grantor_grant(b->g, lease, round, LH_LEASE_EXCLUSIVE, session_of(b, lease),
            b->now, b->now, lh_seconds(60));
        LH_ASSERT(error == LH_OK);
    }
    report(what, b->leases, seconds() - start);
}

static void extend_all(struct bench *b, uint64_t round)
{
    double start = seconds();
    for (uint64_t i = 0; i < b->leases; i++) {
        uint64_t lease = shuffled(b, i, round + 100);
        b->now.ns += 100;
        int error = lh_grantor_extend(
            b->g, lease, round, session_of(b, lease), b->now, b->now, lh_seconds(60));
        LH_ASSERT(error == LH_OK);
    }
    report("lease renewals, one by one", b->leases, seconds() - start);
}

/* As heartbeats list them: each server's leases together. */
static void extend_all_by_heartbeat(struct bench *b, uint64_t round)
{
    struct lh_lease_name list[256];
    int results[256];
    const uint64_t limit = sizeof list / sizeof *list;
    uint64_t per_session = b->leases / b->sessions;
    double start = seconds();
    for (uint64_t s = 0; s < b->sessions; s++) {
        for (uint64_t i = 0; i < per_session; i += limit) {
            uint64_t n = per_session - i < limit ? per_session - i : limit;
            b->now.ns += 100 * n;
            for (uint64_t j = 0; j < n; j++)
                list[j] = (struct lh_lease_name){(i + j) * b->sessions + s, round};
            lh_grantor_extend_many(
                b->g, b->session[s], b->now, b->now, lh_seconds(60), list, n, results);
            for (uint64_t j = 0; j < n; j++)
                LH_ASSERT(results[j] == LH_OK);
        }
    }
    report("lease renewals, heartbeats", per_session * b->sessions, seconds() - start);
}

static void renew_sessions(struct bench *b)
{
    const uint64_t renewals = 10000000;
    double start = seconds();
    for (uint64_t i = 0; i < renewals; i++) {
        int error =
            lh_grantor_session_renew(b->g, b->session[i % b->sessions], b->now, lh_seconds(3600));
        LH_ASSERT(error == LH_OK);
    }
    report("session renewals", renewals, seconds() - start);
}

static void release_all(struct bench *b, uint64_t round)
{
    double start = seconds();
    for (uint64_t i = 0; i < b->leases; i++) {
        uint64_t lease = shuffled(b, i, round + 200);
        int error = lh_grantor_release(b->g, lease, round, session_of(b, lease));
        LH_ASSERT(error == LH_OK);
    }
    report("releases", b->leases, seconds() - start);
}

/* Steps through time, as an event loop would, until `count` leases have expired. */
static void expire_all(struct bench *b, const char *what)
{
    struct lh_expired expired;
    uint64_t count = 0;
    double start = seconds();
    while (count < b->leases) {
        struct lh_instant next = lh_instant_add(b->now, lh_milliseconds(1));
        b->now = lh_instant_max(next, lh_grantor_deadline(b->g));
        while (!lh_instant_before(b->now, lh_grantor_deadline(b->g)))
            while (lh_grantor_expire(b->g, b->now, &expired))
                count += !expired.is_session;
    }
    report(what, count, seconds() - start);
}

static void print_memory(const struct bench *b)
{
    printf("%-30s %38.2f\n", "bytes a lease",
        (double)lh_grantor_memory(b->g) / (double)lh_grantor_lease_count(b->g));
}

static void open_table(struct bench *b, size_t hint)
{
    b->now = (struct lh_instant){0};
    b->g = lh_grantor_create(hint);
    for (uint64_t i = 0; i < b->sessions; i++)
        b->session[i] = lh_grantor_session_open(b->g, b->now, lh_seconds(3600), NULL);
}

int main(int argc, char **argv)
{
    struct bench b = {.leases = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000,
        .sessions = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000};
    if (b.leases == 0 || b.sessions == 0) {
        fprintf(stderr, "usage: lease_bench [LEASES [SESSIONS]]\n");
        return 2;
    }
    while (UINT64_C(1) << b.bits < b.leases)
        b.bits += 2;
    b.session = calloc(b.sessions, sizeof *b.session);
    LH_ASSERT(b.session != NULL);

    open_table(&b, b.leases);
    printf("%" PRIu64 " exclusive leases in %" PRIu64 " sessions, room made beforehand\n", b.leases,
        b.sessions);
    grant_all(&b, 1, "grants");
    print_memory(&b);
    lh_grantor_destroy(b.g);

    open_table(&b, 0);
    printf("the same, growing from nothing\n");
    grant_all(&b, 1, "grants");
    print_memory(&b);
    extend_all(&b, 1);
    extend_all_by_heartbeat(&b, 1);
    renew_sessions(&b);
    release_all(&b, 1);
    grant_all(&b, 2, "grants again");
    extend_all(&b, 2);
    expire_all(&b, "expiries");
    lh_grantor_destroy(b.g);
    free(b.session);
    return 0;
}
