/* Random schedules over the lease engine: a whole world of drifting clocks and bad links (INV-1,
 * INV-2, INV-3, INV-9), and the grantor table against a table that is too simple to be wrong.
 *
 * LH_SEED=n replays one seed, LH_RUNS=n makes more of them. */
#include "base/prng.h"
#include "lease/grantor.h"
#include "lease/term.h"
#include "tests/core/lease/lease_world.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint32_t drifts_ppm[] = {0, LH_DRIFT_PPM_DEFAULT, LH_DRIFT_PPM_MAX};
#define DRIFTS (sizeof drifts_ppm / sizeof *drifts_ppm)

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void seeds(uint64_t runs, uint64_t *first, uint64_t *end)
{
    *first = from_environment("LH_SEED", 1);
    *end = *first + (getenv("LH_SEED") != NULL ? 1 : from_environment("LH_RUNS", runs));
}

static void no_schedule_within_the_drift_bound_breaks_an_invariant(void **state)
{
    (void)state;
    struct lease_world_result all = {0};
    uint64_t seed, end;
    for (seeds(50, &seed, &end); seed < end; seed++) {
        for (size_t d = 0; d < DRIFTS; d++) {
            struct lease_world_result r = lease_world_run(seed, drifts_ppm[d], FAULT_NONE);
            if (r.violation != NULL)
                fail_msg("LH_SEED=%" PRIu64 " drift %u ppm, at %" PRIu64 " ns: %s", seed,
                    drifts_ppm[d], r.at_ns, r.violation);
            all.grants += r.grants;
            all.takeovers += r.takeovers;
            all.continued += r.continued;
            all.restarts += r.restarts;
            all.expiries += r.expiries;
            all.releases += r.releases;
            all.refused += r.refused;
        }
    }
    /* A world in which nothing happens breaks no invariant either. */
    assert_true(all.grants > 0 && all.takeovers > 0 && all.continued > 0 && all.restarts > 0);
    assert_true(all.expiries > 0 && all.releases > 0 && all.refused > 0);
}

static void every_rule_that_is_broken_on_purpose_is_noticed(void **state)
{
    (void)state;
    for (int fault = FAULT_NONE + 1; fault < FAULTS; fault++) {
        const char *violation = NULL;
        for (uint64_t seed = 1; seed <= 20 && violation == NULL; seed++)
            violation = lease_world_run(seed, LH_DRIFT_PPM_DEFAULT, (enum lease_world_fault)fault)
                            .violation;
        if (violation == NULL)
            fail_msg("fault %d passed twenty seeds", fault);
    }
}

static void the_same_seed_gives_the_same_run(void **state)
{
    (void)state;
    struct lease_world_result a = lease_world_run(7, LH_DRIFT_PPM_DEFAULT, FAULT_NONE);
    struct lease_world_result b = lease_world_run(7, LH_DRIFT_PPM_DEFAULT, FAULT_NONE);
    struct lease_world_result c = lease_world_run(8, LH_DRIFT_PPM_DEFAULT, FAULT_NONE);
    assert_true(a.trace == b.trace);
    assert_true(a.trace != c.trace);
}

/* The grantor table against arrays. Version of a key lives as long as a lease on it does. */

#define KEYS     6
#define SESSIONS 5
#define STEPS    3000

struct plain_lease {
    bool is_there, is_shared;
    uint64_t end, order;
};

struct plain_session {
    lh_session_id id; /* 0: none; leases that it left behind may still be there */
    bool is_closed;
    uint64_t end;
};

struct plain {
    struct plain_lease lease[KEYS][SESSIONS];
    struct plain_session session[SESSIONS];
    uint64_t version[KEYS];
    bool recalling[KEYS];
    uint64_t now, order;
};

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t plain_end(const struct plain *p, uint64_t key, uint64_t s)
{
    return min64(p->lease[key][s].end, p->session[s].end);
}

static bool plain_in_force(const struct plain *p, uint64_t key, uint64_t s)
{
    return p->lease[key][s].is_there && p->now < plain_end(p, key, s);
}

static bool plain_live(const struct plain *p, uint64_t s)
{
    return p->session[s].id != 0 && !p->session[s].is_closed && p->now < p->session[s].end;
}

static bool plain_any(const struct plain *p, uint64_t key)
{
    for (uint64_t s = 0; s < SESSIONS; s++)
        if (p->lease[key][s].is_there)
            return true;
    return false;
}

static void plain_drop(struct plain *p, uint64_t key, uint64_t s)
{
    p->lease[key][s].is_there = false;
    if (!plain_any(p, key))
        p->recalling[key] = false;
}

static int plain_grant(
    struct plain *p, uint64_t key, uint64_t version, bool is_shared, uint64_t s, uint64_t end)
{
    bool others = false, others_exclusive = false;
    if (!plain_live(p, s))
        return LH_ERR_UNKNOWN_SESSION;
    if (plain_any(p, key) && version < p->version[key])
        return LH_ERR_STALE_VERSION;
    for (uint64_t o = 0; o < SESSIONS; o++) {
        if (o == s || !plain_in_force(p, key, o))
            continue;
        others = true;
        others_exclusive |= !p->lease[key][o].is_shared;
    }
    bool own = plain_in_force(p, key, s);
    if (others && (!is_shared || others_exclusive || (p->recalling[key] && !own)))
        return LH_ERR_LEASE_HELD;
    bool was_exclusive = own && !p->lease[key][s].is_shared;
    bool becomes_shared = is_shared && !was_exclusive;
    for (uint64_t o = 0; o < SESSIONS; o++)
        if (o != s && p->lease[key][o].is_there && !(becomes_shared && p->lease[key][o].is_shared))
            p->lease[key][o].is_there = false;
    if (!own && !others)
        p->recalling[key] = false;
    p->lease[key][s] = (struct plain_lease){.is_there = true,
        .is_shared = becomes_shared,
        .end = own ? max64(end, p->lease[key][s].end) : end,
        .order = own ? p->lease[key][s].order : ++p->order};
    p->version[key] = version;
    return LH_OK;
}

static int plain_extend(struct plain *p, uint64_t key, uint64_t version, uint64_t s, uint64_t end)
{
    if (!plain_live(p, s) || !plain_in_force(p, key, s))
        return LH_ERR_NOT_LEASED;
    if (version != p->version[key])
        return LH_ERR_STALE_VERSION;
    if (p->recalling[key])
        return LH_ERR_LEASE_HELD;
    p->lease[key][s].end = max64(end, p->lease[key][s].end);
    return LH_OK;
}

static int plain_continue(
    struct plain *p, uint64_t key, uint64_t version, uint64_t from, uint64_t to, uint64_t end)
{
    if (!plain_live(p, to))
        return LH_ERR_UNKNOWN_SESSION;
    if (p->session[from].id == 0 || !plain_in_force(p, key, from))
        return LH_ERR_NOT_LEASED;
    if (version != p->version[key])
        return LH_ERR_STALE_VERSION;
    p->session[to].end = max64(p->session[to].end, plain_end(p, key, from));
    struct plain_lease moved = p->lease[key][from];
    moved.end = max64(moved.end, end);
    p->lease[key][from].is_there = false;
    if (p->lease[key][to].is_there) {
        moved.order = p->lease[key][to].order;
        moved.end = max64(moved.end, p->lease[key][to].end);
    }
    p->lease[key][to] = moved;
    return LH_OK;
}

static int plain_release(struct plain *p, uint64_t key, uint64_t version, uint64_t s)
{
    if (p->session[s].id == 0 || !p->lease[key][s].is_there)
        return LH_ERR_NOT_LEASED;
    if (version != p->version[key])
        return LH_ERR_STALE_VERSION;
    plain_drop(p, key, s);
    return LH_OK;
}

/* Takes out of the plain table what the real one reported as expired, which must be just that. */
static void plain_expire(struct plain *p, const struct lh_expired *x, const lh_session_id *last)
{
    if (x->is_session) {
        for (uint64_t s = 0; s < SESSIONS; s++) {
            if (p->session[s].id != x->session)
                continue;
            assert_true(p->now >= p->session[s].end);
            assert_ptr_equal(x->context, &p->session[s]);
            p->session[s].id = 0;
            return;
        }
        fail_msg("a session ended that was not there");
    }
    for (uint64_t s = 0; s < SESSIONS; s++) {
        const struct plain_lease *l = &p->lease[x->lease.key][s];
        if (last[s] != x->lease.session || !l->is_there)
            continue;
        assert_int_equal(x->lease.end.ns, plain_end(p, x->lease.key, s));
        assert_true(x->lease.end.ns <= p->now);
        assert_int_equal(x->lease.version, p->version[x->lease.key]);
        assert_int_equal(x->lease.mode == LH_LEASE_SHARED, l->is_shared);
        assert_int_equal(x->lease.recalling, p->recalling[x->lease.key]);
        plain_drop(p, x->lease.key, s);
        return;
    }
    fail_msg("a lease expired that was not there");
}

static void compare(const struct plain *p, const struct lh_grantor *g)
{
    size_t leases = 0, sessions = 0;
    struct lh_instant now = {p->now};
    for (uint64_t key = 0; key < KEYS; key++) {
        uint64_t longest = SESSIONS, free_at = p->now;
        for (uint64_t s = 0; s < SESSIONS; s++) {
            leases += p->lease[key][s].is_there;
            if (!plain_in_force(p, key, s))
                continue;
            free_at = max64(free_at, plain_end(p, key, s));
            if (longest == SESSIONS || p->lease[key][s].order < p->lease[key][longest].order)
                longest = s;
        }
        struct lh_lease_info info;
        assert_int_equal(lh_grantor_find(g, key, now, &info), longest != SESSIONS);
        assert_int_equal(lh_grantor_free_at(g, key, now).ns, free_at);
        if (longest == SESSIONS)
            continue;
        assert_int_equal(info.session, p->session[longest].id);
        assert_int_equal(info.version, p->version[key]);
        assert_int_equal(info.end.ns, plain_end(p, key, longest));
        assert_int_equal(info.recalling, p->recalling[key]);
        assert_int_equal(info.mode == LH_LEASE_SHARED, p->lease[key][longest].is_shared);
    }
    for (uint64_t s = 0; s < SESSIONS; s++) {
        uint64_t cursor = 0;
        size_t listed = 0, expected = 0;
        struct lh_lease_info info;
        if (p->session[s].id == 0)
            continue;
        sessions++;
        assert_int_equal(lh_grantor_session_live(g, p->session[s].id, now), plain_live(p, s));
        assert_int_equal(lh_grantor_session_end_of(g, p->session[s].id).ns, p->session[s].end);
        while (lh_grantor_session_next(g, p->session[s].id, &cursor, &info)) {
            assert_true(p->lease[info.key][s].is_there);
            listed++;
        }
        for (uint64_t key = 0; key < KEYS; key++)
            expected += p->lease[key][s].is_there;
        assert_int_equal(listed, expected);
    }
    assert_int_equal(lh_grantor_lease_count(g), leases);
    assert_int_equal(lh_grantor_session_count(g), sessions);
}

/* Until nothing is left to report; then the deadline lies ahead, and not behind any end. */
static void expire_everything(struct plain *p, struct lh_grantor *g, const lh_session_id *last)
{
    struct lh_expired x;
    while (lh_grantor_expire(g, (struct lh_instant){p->now}, &x))
        plain_expire(p, &x, last);
    uint64_t deadline = lh_grantor_deadline(g).ns;
    assert_true(deadline > p->now);
    for (uint64_t s = 0; s < SESSIONS; s++) {
        if (p->session[s].id != 0)
            assert_true(deadline <= p->session[s].end);
        for (uint64_t key = 0; key < KEYS; key++)
            if (p->lease[key][s].is_there)
                assert_true(deadline <= plain_end(p, key, s));
    }
}

/* Of a lease that ends by itself the end is the earliest of all that is known; a session that is
 * stopped ends now. */
static void plain_cut(struct plain *p, uint64_t key, uint64_t s, uint64_t at)
{
    p->lease[key][s].end = min64(plain_end(p, key, s), max64(p->now, at));
}

/* What has ended is taken out one by one, and what is in force never. */
static void collect_of_both(
    struct plain *p, struct lh_grantor *g, const lh_session_id *last, uint64_t key, uint64_t s)
{
    struct lh_expired x = {0};
    struct lh_instant now = {p->now};
    uint64_t longest = SESSIONS;

    while (lh_grantor_collect(g, key, last[s], now, &x.lease))
        plain_expire(p, &x, last);
    for (uint64_t o = 0; o < SESSIONS; o++)
        if (p->lease[key][o].is_there &&
            (longest == SESSIONS || p->lease[key][o].order < p->lease[key][longest].order))
            longest = o;
    assert_true(longest == SESSIONS || plain_in_force(p, key, longest));
    assert_true(p->session[s].id == 0 || !p->lease[key][s].is_there || plain_in_force(p, key, s));
}

static void step_of_both(
    struct lh_prng *r, struct plain *p, struct lh_grantor *g, lh_session_id *last)
{
    uint64_t key = lh_prng_below(r, KEYS), s = lh_prng_below(r, SESSIONS);
    uint64_t version = p->version[key] + lh_prng_below(r, 3) - (p->version[key] > 0);
    bool is_shared = lh_prng_below(r, 2) == 0;
    /* Terms from less than a clock's tick to days: every level of the wheel. */
    uint64_t term = lh_prng_next(r) >> (16 + lh_prng_below(r, 46));
    uint64_t received = p->now - min64(p->now, lh_prng_below(r, 1000));
    uint64_t end = received + term + 1000000;
    struct lh_instant now = {p->now}, received_at = {received};
    struct lh_duration d = {term};
    switch (lh_prng_below(r, 15)) {
    case 0: {
        bool left_behind = false;
        for (uint64_t k = 0; k < KEYS; k++)
            left_behind |= p->lease[k][s].is_there;
        if (p->session[s].id != 0 || left_behind)
            break;
        last[s] = lh_grantor_session_open(g, received_at, d, &p->session[s]);
        p->session[s] = (struct plain_session){.id = last[s], .end = end};
        break;
    }
    case 1: {
        bool live = plain_live(p, s);
        assert_int_equal(
            lh_grantor_session_renew(g, last[s], now, d), live ? LH_OK : LH_ERR_UNKNOWN_SESSION);
        if (live)
            p->session[s].end = max64(p->session[s].end, p->now + term + 1000000);
        break;
    }
    case 2:
        if (lh_prng_below(r, 4) == 0) {
            lh_grantor_session_close(g, last[s]);
            p->session[s].is_closed = true;
        }
        break;
    case 3:
        if (lh_prng_below(r, 4) == 0 && p->session[s].id != 0) {
            lh_grantor_session_end(g, last[s], NULL, NULL);
            p->session[s].id = 0;
            for (uint64_t k = 0; k < KEYS; k++)
                plain_drop(p, k, s);
        }
        break;
    case 4: {
        assert_int_equal(lh_grantor_extend(g, key, version, last[s], now, received_at, d),
            plain_extend(p, key, version, s, end));
        break;
    }
    case 5:
        assert_int_equal(
            lh_grantor_release(g, key, version, last[s]), plain_release(p, key, version, s));
        break;
    case 6: {
        struct lh_lease_info info;
        bool is_held = lh_grantor_find(g, key, now, &info);
        int error = lh_grantor_recall(g, key);
        /* Not told the time, it may still mark what has just ended. */
        assert_true(error == LH_OK || (error == LH_ERR_NOT_LEASED && !is_held));
        p->recalling[key] |= error == LH_OK;
        break;
    }
    case 7: {
        uint64_t to = (s + 1 + lh_prng_below(r, SESSIONS - 1)) % SESSIONS;
        assert_int_equal(
            lh_grantor_continue(g, key, version, last[s], last[to], now, received_at, d),
            plain_continue(p, key, version, s, to, end));
        break;
    }
    case 8: {
        bool held = p->session[s].id != 0 && plain_in_force(p, key, s);
        assert_int_equal(lh_grantor_cut(g, key, last[s], now, (struct lh_instant){end}),
            held ? LH_OK : LH_ERR_NOT_LEASED);
        if (held)
            plain_cut(p, key, s, end);
        break;
    }
    case 9:
        collect_of_both(p, g, last, key, s);
        break;
    case 10:
        if (lh_prng_below(r, 4) == 0) {
            lh_grantor_session_stop(g, last[s], now);
            if (p->session[s].id != 0)
                p->session[s].end = min64(p->session[s].end, p->now);
        }
        break;
    default:
        assert_int_equal(
            lh_grantor_grant(g, key, version, is_shared ? LH_LEASE_SHARED : LH_LEASE_EXCLUSIVE,
                last[s], now, received_at, d),
            plain_grant(p, key, version, is_shared, s, end));
    }
}

static void the_table_agrees_with_plain_arrays(void **state)
{
    (void)state;
    uint64_t seed, end;
    for (seeds(100, &seed, &end); seed < end; seed++) {
        print_message("%sLH_SEED=%" PRIu64, seed % 10 == 1 ? "\n" : " ", seed);
        struct lh_prng r = {seed};
        struct plain p = {.now = 1000000};
        lh_session_id last[SESSIONS] = {0};
        struct lh_grantor *g = lh_grantor_create(0);
        for (int i = 0; i < STEPS; i++) {
            step_of_both(&r, &p, g, last);
            /* What the caller names is what the table knows of the time. */
            struct lh_expired x;
            if (lh_prng_below(&r, 3) == 0)
                expire_everything(&p, g, last);
            else if (lh_grantor_expire(g, (struct lh_instant){p.now}, &x))
                plain_expire(&p, &x, last);
            compare(&p, g);
            lh_grantor_check(g);
            uint64_t deadline = lh_grantor_deadline(g).ns;
            if (lh_prng_below(&r, 3) == 0 && deadline > p.now && deadline < UINT64_MAX / 2)
                p.now = deadline;
            else
                p.now += lh_prng_next(&r) >> (20 + lh_prng_below(&r, 44));
        }
        lh_grantor_destroy(g);
    }
    print_message("\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_schedule_within_the_drift_bound_breaks_an_invariant),
        cmocka_unit_test(every_rule_that_is_broken_on_purpose_is_noticed),
        cmocka_unit_test(the_same_seed_gives_the_same_run),
        cmocka_unit_test(the_table_agrees_with_plain_arrays),
    };
    return cmocka_run_group_tests_name("lease_property", tests, NULL, NULL);
}
