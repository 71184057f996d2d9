/* Stories about the grantor table: who may have what, and from when. */
#include "base/error.h"
#include "base/prng.h"
#include "lease/grantor.h"
#include "lease/term.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SESSION_TERM lh_seconds(10)
#define LEASE_TERM   lh_seconds(60)

/* The grantor's end of a term counted from `s` seconds (TIME-4: a millisecond is added). */
#define END_NS(s) (UINT64_C(1000000000) * (s) + UINT64_C(1000000))

static struct lh_instant at_s(uint64_t s)
{
    return (struct lh_instant){s * UINT64_C(1000000000)};
}

struct fixture {
    struct lh_grantor *g;
    lh_session_id a, b, c; /* opened at second 0 for SESSION_TERM; the context is the field */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->g = lh_grantor_create(0);
    f->a = lh_grantor_session_open(f->g, at_s(0), SESSION_TERM, &f->a);
    f->b = lh_grantor_session_open(f->g, at_s(0), SESSION_TERM, &f->b);
    f->c = lh_grantor_session_open(f->g, at_s(0), SESSION_TERM, &f->c);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    lh_grantor_check(f->g);
    lh_grantor_destroy(f->g);
    free(f);
    return 0;
}

static int grant(struct fixture *f, uint64_t key, uint64_t version, lh_session_id s, uint64_t now_s)
{
    return lh_grantor_grant(
        f->g, key, version, LH_LEASE_EXCLUSIVE, s, at_s(now_s), at_s(now_s), LEASE_TERM);
}

static int share(struct fixture *f, uint64_t key, uint64_t version, lh_session_id s, uint64_t now_s)
{
    return lh_grantor_grant(
        f->g, key, version, LH_LEASE_SHARED, s, at_s(now_s), at_s(now_s), LEASE_TERM);
}

static int extend(
    struct fixture *f, uint64_t key, uint64_t version, lh_session_id s, uint64_t now_s)
{
    return lh_grantor_extend(f->g, key, version, s, at_s(now_s), at_s(now_s), LEASE_TERM);
}

static void renew(struct fixture *f, lh_session_id s, uint64_t now_s)
{
    assert_int_equal(lh_grantor_session_renew(f->g, s, at_s(now_s), SESSION_TERM), LH_OK);
}

static struct lh_lease_info found(struct fixture *f, uint64_t key, uint64_t now_s)
{
    struct lh_lease_info info;
    assert_true(lh_grantor_find(f->g, key, at_s(now_s), &info));
    return info;
}

static bool is_free(struct fixture *f, uint64_t key, uint64_t now_s)
{
    struct lh_lease_info info;
    return !lh_grantor_find(f->g, key, at_s(now_s), &info);
}

static void an_exclusive_lease_keeps_others_out_until_its_last_nanosecond(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(
        lh_grantor_grant(f->g, 7, 1, LH_LEASE_EXCLUSIVE, f->a, at_s(1), at_s(0), lh_seconds(5)),
        LH_OK);
    assert_int_equal(found(f, 7, 1).end.ns, END_NS(5));
    assert_int_equal(found(f, 7, 1).session, f->a);
    assert_int_equal(lh_grantor_free_at(f->g, 7, at_s(1)).ns, END_NS(5));

    struct lh_instant last = {END_NS(5) - 1}, over = {END_NS(5)};
    assert_int_equal(lh_grantor_grant(f->g, 7, 2, LH_LEASE_EXCLUSIVE, f->b, last, last, LEASE_TERM),
        LH_ERR_LEASE_HELD);
    assert_int_equal(
        lh_grantor_grant(f->g, 7, 2, LH_LEASE_EXCLUSIVE, f->b, over, over, LEASE_TERM), LH_OK);
    assert_int_equal(lh_grantor_lease_count(f->g), 1);
}

static void a_lease_ends_with_its_session_and_lives_with_its_renewals(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(grant(f, 7, 1, f->a, 0), LH_OK);
    assert_int_equal(found(f, 7, 0).end.ns, END_NS(10));
    renew(f, f->a, 8);
    assert_int_equal(found(f, 7, 8).end.ns, END_NS(18));
    assert_int_equal(lh_grantor_session_end_of(f->g, f->a).ns, END_NS(18));
    for (uint64_t s = 16; s <= 56; s += 8)
        renew(f, f->a, s);
    assert_int_equal(found(f, 7, 56).end.ns, END_NS(60)); /* now its own end comes first */
    assert_true(is_free(f, 7, 61));
}

static void a_session_that_has_ended_is_never_renewed(void **state)
{
    struct fixture *f = *state;
    struct lh_instant end = {END_NS(10)};
    assert_int_equal(
        lh_grantor_session_renew(f->g, f->a, end, SESSION_TERM), LH_ERR_UNKNOWN_SESSION);
    assert_int_equal(
        lh_grantor_session_renew(f->g, 0, at_s(0), SESSION_TERM), LH_ERR_UNKNOWN_SESSION);
    assert_int_equal(
        lh_grantor_session_renew(f->g, f->a ^ (UINT64_C(1) << 40), at_s(0), SESSION_TERM),
        LH_ERR_UNKNOWN_SESSION);

    /* Not by an older reading either, once somebody else has profited from its end. */
    renew(f, f->b, 5);
    assert_int_equal(grant(f, 7, 1, f->a, 5), LH_OK);
    assert_int_equal(grant(f, 7, 2, f->b, 11), LH_OK);
    assert_int_equal(
        lh_grantor_session_renew(f->g, f->a, at_s(9), SESSION_TERM), LH_ERR_UNKNOWN_SESSION);
    assert_false(lh_grantor_session_live(f->g, f->a, at_s(9)));
    assert_int_equal(grant(f, 8, 1, f->a, 11), LH_ERR_UNKNOWN_SESSION);
}

static void an_older_request_never_shortens_a_session_or_a_lease(void **state)
{
    struct fixture *f = *state;
    renew(f, f->a, 5);
    assert_int_equal(lh_grantor_session_renew(f->g, f->a, at_s(2), lh_seconds(1)), LH_OK);
    assert_int_equal(lh_grantor_session_end_of(f->g, f->a).ns, END_NS(15));
    assert_int_equal(
        lh_grantor_grant(f->g, 7, 1, LH_LEASE_EXCLUSIVE, f->a, at_s(5), at_s(5), lh_seconds(6)),
        LH_OK);
    assert_int_equal(lh_grantor_extend(f->g, 7, 1, f->a, at_s(6), at_s(1), lh_seconds(1)), LH_OK);
    assert_int_equal(
        lh_grantor_grant(f->g, 7, 2, LH_LEASE_EXCLUSIVE, f->a, at_s(6), at_s(1), lh_seconds(1)),
        LH_OK);
    assert_int_equal(found(f, 7, 6).end.ns, END_NS(11));
    assert_int_equal(found(f, 7, 6).version, 2);
}

static void closing_a_session_frees_nothing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(grant(f, 7, 1, f->a, 0), LH_OK);
    lh_grantor_session_close(f->g, f->a);
    assert_false(lh_grantor_session_live(f->g, f->a, at_s(1)));
    assert_int_equal(
        lh_grantor_session_renew(f->g, f->a, at_s(1), SESSION_TERM), LH_ERR_UNKNOWN_SESSION);
    assert_int_equal(extend(f, 7, 1, f->a, 1), LH_ERR_NOT_LEASED);
    assert_int_equal(grant(f, 8, 1, f->a, 1), LH_ERR_UNKNOWN_SESSION);
    assert_int_equal(grant(f, 7, 2, f->b, 1), LH_ERR_LEASE_HELD);
    /* What it holds it may still give back. */
    assert_int_equal(lh_grantor_release(f->g, 7, 1, f->a), LH_OK);
    assert_int_equal(grant(f, 7, 2, f->b, 1), LH_OK);
}

static void count_freed(void *arg, const struct lh_lease_info *lease)
{
    uint64_t *keys = arg;
    *keys = *keys * 10 + lease->key;
}

static void ending_a_session_frees_all_it_held_at_once(void **state)
{
    struct fixture *f = *state;
    uint64_t freed = 0;
    assert_int_equal(grant(f, 3, 1, f->a, 0), LH_OK);
    assert_int_equal(share(f, 1, 1, f->a, 0), LH_OK);
    assert_int_equal(share(f, 1, 1, f->b, 0), LH_OK);
    lh_grantor_session_end(f->g, f->a, count_freed, &freed);
    assert_int_equal(freed, 31);
    assert_int_equal(lh_grantor_session_count(f->g), 2);
    assert_int_equal(lh_grantor_lease_count(f->g), 1);
    assert_int_equal(grant(f, 3, 2, f->b, 0), LH_OK);
    lh_grantor_session_end(f->g, f->a, count_freed, &freed); /* no such session: nothing happens */
    assert_int_equal(freed, 31);
}

static void a_session_id_is_not_used_again(void **state)
{
    struct fixture *f = *state;
    lh_grantor_session_end(f->g, f->a, NULL, NULL);
    lh_session_id next = lh_grantor_session_open(f->g, at_s(0), SESSION_TERM, NULL);
    assert_true(next != f->a && next != f->b && next != f->c && next != 0);
    assert_false(lh_grantor_session_live(f->g, f->a, at_s(0)));
    assert_int_equal(lh_grantor_session_end_of(f->g, f->a).ns, 0);
}

static void versions_never_fall(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(grant(f, 7, 5, f->a, 0), LH_OK);
    assert_int_equal(grant(f, 7, 4, f->a, 0), LH_ERR_STALE_VERSION);
    assert_int_equal(grant(f, 7, 5, f->a, 1), LH_OK);
    assert_int_equal(grant(f, 7, 6, f->a, 1), LH_OK);
    assert_int_equal(extend(f, 7, 5, f->a, 1), LH_ERR_STALE_VERSION);
    assert_int_equal(lh_grantor_release(f->g, 7, 5, f->a), LH_ERR_STALE_VERSION);
    assert_int_equal(found(f, 7, 1).version, 6);
    /* Run out, but still in the table. */
    renew(f, f->b, 9);
    assert_int_equal(grant(f, 7, 5, f->b, 12), LH_ERR_STALE_VERSION);
    assert_int_equal(grant(f, 7, 6, f->b, 12), LH_OK);
}

static void only_the_holder_extends_and_releases(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(extend(f, 7, 1, f->a, 0), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_grantor_release(f->g, 7, 1, f->a), LH_ERR_NOT_LEASED);
    assert_int_equal(grant(f, 7, 1, f->a, 0), LH_OK);
    assert_int_equal(extend(f, 7, 1, f->b, 0), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_grantor_release(f->g, 7, 1, f->b), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_grantor_release(f->g, 7, 1, f->a), LH_OK);
    assert_true(is_free(f, 7, 0));
    assert_int_equal(lh_grantor_free_at(f->g, 7, at_s(3)).ns, at_s(3).ns);
    assert_int_equal(lh_grantor_release(f->g, 7, 1, f->a), LH_ERR_NOT_LEASED);
}

static void what_ran_out_is_not_extended(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(
        lh_grantor_grant(f->g, 7, 1, LH_LEASE_EXCLUSIVE, f->a, at_s(0), at_s(0), lh_seconds(2)),
        LH_OK);
    assert_int_equal(extend(f, 7, 1, f->a, 3), LH_ERR_NOT_LEASED);
    assert_int_equal(grant(f, 7, 1, f->a, 3), LH_OK); /* but may be granted again */
    assert_int_equal(extend(f, 7, 1, f->a, 4), LH_OK);
}

static void a_recalled_lease_runs_out_or_is_released(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(lh_grantor_recall(f->g, 7), LH_ERR_NOT_LEASED);
    assert_int_equal(grant(f, 7, 1, f->a, 0), LH_OK);
    assert_int_equal(lh_grantor_recall(f->g, 7), LH_OK);
    assert_true(found(f, 7, 0).recalling);
    assert_int_equal(extend(f, 7, 1, f->a, 1), LH_ERR_LEASE_HELD);
    assert_int_equal(grant(f, 7, 2, f->a, 1), LH_OK); /* LEASE-5: carries over to a new version */
    assert_true(found(f, 7, 1).recalling);
    assert_int_equal(grant(f, 7, 3, f->b, 1), LH_ERR_LEASE_HELD);
    assert_int_equal(lh_grantor_release(f->g, 7, 2, f->a), LH_OK);
    assert_int_equal(grant(f, 7, 3, f->b, 1), LH_OK);
    assert_false(found(f, 7, 1).recalling);
}

static void shared_leases_stand_beside_each_other(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(share(f, 7, 1, f->b, 0), LH_OK);
    assert_int_equal(share(f, 7, 1, f->a, 1), LH_OK);
    renew(f, f->a, 5);
    assert_int_equal(found(f, 7, 5).session, f->b); /* holds it longest */
    assert_int_equal(found(f, 7, 5).mode, LH_LEASE_SHARED);
    assert_int_equal(lh_grantor_free_at(f->g, 7, at_s(5)).ns, END_NS(15));
    assert_int_equal(lh_grantor_lease_count(f->g), 2);
    assert_int_equal(grant(f, 7, 2, f->c, 5), LH_ERR_LEASE_HELD);
    assert_int_equal(grant(f, 7, 2, f->a, 5), LH_ERR_LEASE_HELD);

    /* One version for all. */
    assert_int_equal(share(f, 7, 3, f->c, 5), LH_OK);
    assert_int_equal(found(f, 7, 5).version, 3);
    assert_int_equal(extend(f, 7, 1, f->a, 5), LH_ERR_STALE_VERSION);
    assert_int_equal(extend(f, 7, 3, f->a, 5), LH_OK);
    assert_int_equal(share(f, 7, 2, f->a, 5), LH_ERR_STALE_VERSION);

    /* The last one left may become the only one. */
    assert_int_equal(lh_grantor_release(f->g, 7, 3, f->b), LH_OK);
    assert_int_equal(lh_grantor_release(f->g, 7, 3, f->c), LH_OK);
    assert_int_equal(grant(f, 7, 4, f->a, 5), LH_OK);
    assert_int_equal(found(f, 7, 5).mode, LH_LEASE_EXCLUSIVE);
    assert_int_equal(share(f, 7, 4, f->b, 5), LH_ERR_LEASE_HELD);
}

static void an_exclusive_holder_that_asks_to_share_stays_alone_until_it_releases(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(grant(f, 7, 1, f->a, 0), LH_OK);
    assert_int_equal(share(f, 7, 2, f->a, 0), LH_OK);
    assert_int_equal(found(f, 7, 0).mode, LH_LEASE_EXCLUSIVE);
    assert_int_equal(share(f, 7, 2, f->b, 0), LH_ERR_LEASE_HELD);
}

static void nobody_joins_a_shared_lease_that_is_being_recalled(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(share(f, 7, 1, f->a, 0), LH_OK);
    assert_int_equal(lh_grantor_recall(f->g, 7), LH_OK);
    assert_int_equal(share(f, 7, 1, f->b, 0), LH_ERR_LEASE_HELD);
    assert_int_equal(share(f, 7, 1, f->a, 0), LH_OK);
    assert_true(found(f, 7, 0).recalling);
    renew(f, f->b, 9);
    assert_int_equal(share(f, 7, 1, f->b, 12), LH_OK); /* all others ran out */
    assert_false(found(f, 7, 12).recalling);
}

static void a_holder_that_registers_anew_goes_on_in_its_new_session(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(grant(f, 7, 4, f->a, 0), LH_OK);
    assert_int_equal(lh_grantor_recall(f->g, 7), LH_OK);
    renew(f, f->a, 5);
    lh_grantor_session_close(f->g, f->a);
    lh_session_id next = lh_grantor_session_open(f->g, at_s(6), lh_seconds(1), NULL);

    assert_int_equal(lh_grantor_continue(f->g, 7, 3, f->a, next, at_s(6), at_s(6), LEASE_TERM),
        LH_ERR_STALE_VERSION);
    assert_int_equal(lh_grantor_continue(f->g, 7, 4, f->b, next, at_s(6), at_s(6), LEASE_TERM),
        LH_ERR_NOT_LEASED);
    assert_int_equal(lh_grantor_continue(f->g, 8, 4, f->a, next, at_s(6), at_s(6), LEASE_TERM),
        LH_ERR_NOT_LEASED);
    assert_int_equal(lh_grantor_continue(f->g, 7, 4, f->a, f->a, at_s(6), at_s(6), LEASE_TERM),
        LH_ERR_UNKNOWN_SESSION);
    assert_int_equal(
        lh_grantor_continue(f->g, 7, 4, f->a, next, at_s(6), at_s(6), LEASE_TERM), LH_OK);

    /* The holder may act on the old session until 15 s if it never hears of the new one. */
    assert_int_equal(found(f, 7, 6).session, next);
    assert_int_equal(found(f, 7, 6).end.ns, END_NS(15));
    assert_true(found(f, 7, 6).recalling);
    assert_int_equal(lh_grantor_release(f->g, 7, 4, f->a), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_grantor_release(f->g, 7, 4, next), LH_OK);
}

static void an_ended_session_is_reported_before_its_leases(void **state)
{
    struct fixture *f = *state;
    struct lh_expired x;
    renew(f, f->b, 5);
    renew(f, f->c, 5);
    assert_int_equal(grant(f, 7, 1, f->a, 0), LH_OK);
    assert_int_equal(grant(f, 8, 2, f->a, 0), LH_OK);
    assert_int_equal(grant(f, 9, 3, f->b, 5), LH_OK);
    struct lh_instant end = {END_NS(10)};
    assert_false(lh_grantor_expire(f->g, (struct lh_instant){end.ns - 1}, &x));

    assert_true(lh_grantor_expire(f->g, end, &x));
    assert_true(x.is_session && x.session == f->a && x.context == &f->a);
    assert_int_equal(lh_grantor_session_count(f->g), 2);
    assert_int_equal(lh_grantor_session_end_of(f->g, f->a).ns, 0);
    assert_int_equal(lh_grantor_deadline(f->g).ns, end.ns); /* there is more */
    assert_true(lh_grantor_expire(f->g, end, &x));
    assert_true(!x.is_session && x.lease.key == 7 && x.lease.session == f->a);
    assert_int_equal(x.lease.end.ns, end.ns);
    assert_true(lh_grantor_expire(f->g, end, &x));
    assert_true(!x.is_session && x.lease.key == 8 && x.lease.version == 2);
    assert_false(lh_grantor_expire(f->g, end, &x));
    assert_int_equal(lh_grantor_lease_count(f->g), 1);
}

/* A driver that sleeps until the deadline sees each end at its very nanosecond,
 * after a few looks. */
static void sleeping_until_the_deadline_meets_every_end(void **state)
{
    struct fixture *f = *state;
    struct lh_expired x = {0};
    uint64_t ends[] = {END_NS(1), END_NS(2), END_NS(7)};
    for (uint64_t key = 0; key < 3; key++)
        assert_int_equal(lh_grantor_grant(f->g, key, 1, LH_LEASE_EXCLUSIVE, f->a, at_s(0), at_s(0),
                             (struct lh_duration){ends[key] - 1000000}),
            LH_OK);
    assert_int_equal(lh_grantor_extend(f->g, 0, 1, f->a, at_s(0), at_s(0), lh_seconds(3)), LH_OK);
    ends[0] = END_NS(3);
    uint64_t order[] = {1, 0, 2};
    int looks = 0;
    for (int i = 0; i < 3; i++) {
        struct lh_instant now;
        do {
            now = lh_grantor_deadline(f->g);
            assert_true(++looks < 40);
        } while (!lh_grantor_expire(f->g, now, &x));
        assert_int_equal(x.lease.key, order[i]);
        assert_int_equal(now.ns, ends[order[i]]);
    }
}

static void nothing_held_means_nothing_to_wait_for(void **state)
{
    (void)state;
    struct lh_grantor *g = lh_grantor_create(0);
    struct lh_expired x;
    assert_int_equal(lh_grantor_deadline(g).ns, LH_INSTANT_NEVER.ns);
    assert_false(lh_grantor_expire(g, at_s(1), &x));
    lh_session_id s = lh_grantor_session_open(g, at_s(1), LH_DURATION_FOREVER, NULL);
    assert_int_equal(lh_grantor_session_end_of(g, s).ns, LH_INSTANT_NEVER.ns);
    assert_int_equal(
        lh_grantor_grant(g, 1, 1, LH_LEASE_EXCLUSIVE, s, at_s(2), at_s(2), LH_DURATION_FOREVER),
        LH_OK);
    assert_false(lh_grantor_expire(g, at_s(1000000000), &x));
    assert_true(lh_grantor_deadline(g).ns > at_s(1000000000).ns);
    lh_grantor_destroy(g);
    lh_grantor_destroy(NULL);
}

static void a_heartbeat_extends_many_and_answers_for_each(void **state)
{
    struct fixture *f = *state;
    struct lh_lease_name names[100];
    int results[100];
    for (uint64_t i = 0; i < 100; i++) {
        names[i] = (struct lh_lease_name){.key = i, .version = i % 10 == 3 ? 8 : 9};
        if (i % 10 != 5)
            assert_int_equal(lh_grantor_grant(f->g, i, 9, LH_LEASE_EXCLUSIVE,
                                 i % 10 == 7 ? f->b : f->a, at_s(0), at_s(0), lh_seconds(1)),
                LH_OK);
    }
    lh_grantor_extend_many(f->g, f->a, at_s(1), at_s(1), lh_seconds(5), names, 100, results);
    for (uint64_t i = 0; i < 100; i++) {
        int expected = i % 10 == 3   ? LH_ERR_STALE_VERSION
                       : i % 10 == 5 ? LH_ERR_NOT_LEASED
                       : i % 10 == 7 ? LH_ERR_NOT_LEASED
                                     : LH_OK;
        assert_int_equal(results[i], expected);
        assert_int_equal(is_free(f, i, 5), expected != LH_OK);
    }
}

static void the_leases_of_a_session_can_be_listed(void **state)
{
    struct fixture *f = *state;
    uint64_t cursor = 0;
    struct lh_lease_info info;
    assert_false(lh_grantor_session_next(f->g, f->a, &cursor, &info));
    for (uint64_t key = 10; key < 13; key++)
        assert_int_equal(grant(f, key, key, f->a, 0), LH_OK);
    cursor = 0;
    for (uint64_t key = 10; key < 13; key++) {
        assert_true(lh_grantor_session_next(f->g, f->a, &cursor, &info));
        assert_int_equal(info.key, key);
    }
    assert_false(lh_grantor_session_next(f->g, f->a, &cursor, &info));
    assert_false(lh_grantor_session_next(f->g, f->a, &cursor, &info));
}

/* Renewed leases are filed under their old ends. However many come up for a look at once, one call
 * does a bounded part, and the deadline says that there is more. */
static void a_call_does_not_pay_for_all_renewals_at_once(void **state)
{
    (void)state;
    const uint64_t leases = 20000;
    struct lh_grantor *g = lh_grantor_create(0);
    struct lh_expired x;
    lh_session_id s = lh_grantor_session_open(g, at_s(0), lh_seconds(1000), NULL);
    for (uint64_t key = 0; key < leases; key++) {
        assert_int_equal(
            lh_grantor_grant(g, key, 1, LH_LEASE_EXCLUSIVE, s, at_s(0), at_s(0), lh_seconds(10)),
            LH_OK);
        assert_int_equal(lh_grantor_extend(g, key, 1, s, at_s(0), at_s(0), lh_seconds(100)), LH_OK);
    }
    int calls = 0;
    while (!lh_instant_before(at_s(50), lh_grantor_deadline(g))) {
        assert_false(lh_grantor_expire(g, at_s(50), &x));
        calls++;
    }
    assert_in_range(calls, 10, 100);
    lh_grantor_check(g);
    lh_grantor_destroy(g);
}

static void a_cut_lease_ends_where_its_session_would_have(void **state)
{
    struct fixture *f = *state;
    struct lh_lease_info info;

    assert_int_equal(lh_grantor_grant(f->g, 1, 1, LH_LEASE_EXCLUSIVE, f->a, at_s(0), at_s(0),
                         LH_DURATION_FOREVER),
        LH_OK);
    assert_int_equal(lh_grantor_grant(f->g, 2, 1, LH_LEASE_EXCLUSIVE, f->a, at_s(0), at_s(0),
                         LH_DURATION_FOREVER),
        LH_OK);
    assert_int_equal(lh_grantor_cut(f->g, 1, f->b, at_s(1), LH_INSTANT_NEVER), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_grantor_cut(f->g, 1, f->a, at_s(1), LH_INSTANT_NEVER), LH_OK);
    renew(f, f->a, 5);
    assert_false(is_free(f, 1, 10));
    assert_true(lh_grantor_find(f->g, 2, at_s(11), &info));
    assert_false(lh_grantor_find(f->g, 1, at_s(11), &info));
    /* Cut again it only ends earlier, and never before now. */
    assert_int_equal(lh_grantor_cut(f->g, 2, f->a, at_s(11), at_s(3)), LH_OK);
    assert_true(is_free(f, 2, 11));
}

static void a_session_that_is_stopped_is_reported_with_its_leases(void **state)
{
    struct fixture *f = *state;
    struct lh_expired x;

    assert_int_equal(grant(f, 1, 1, f->a, 0), LH_OK);
    assert_int_equal(grant(f, 2, 1, f->b, 0), LH_OK);
    lh_grantor_session_stop(f->g, f->a, at_s(3));
    assert_false(lh_grantor_session_live(f->g, f->a, at_s(3)));
    assert_true(lh_grantor_deadline(f->g).ns <= at_s(3).ns);
    assert_true(lh_grantor_expire(f->g, at_s(3), &x));
    assert_true(x.is_session && x.session == f->a);
    assert_true(lh_grantor_expire(f->g, at_s(3), &x));
    assert_true(!x.is_session && x.lease.key == 1);
    assert_false(lh_grantor_expire(f->g, at_s(3), &x));
}

static void what_ended_is_collected_before_it_is_replaced(void **state)
{
    struct fixture *f = *state;
    struct lh_lease_info info;

    assert_int_equal(share(f, 1, 1, f->a, 0), LH_OK);
    assert_int_equal(share(f, 1, 1, f->b, 0), LH_OK);
    renew(f, f->b, 5);
    assert_false(lh_grantor_collect(f->g, 1, 0, at_s(5), &info));
    assert_true(lh_grantor_collect(f->g, 1, 0, at_s(11), &info));
    assert_int_equal(info.session, f->a);
    assert_false(lh_grantor_collect(f->g, 1, 0, at_s(11), &info));
    assert_int_equal(lh_grantor_lease_count(f->g), 1);
}

/* Many share a key, and each is to be told once; some leave, and sessions are renewed,
 * meanwhile. */
static void all_who_share_a_key_are_cut_one_after_the_other(void **state)
{
    struct fixture *f = *state;
    struct lh_lease_info info;

    assert_false(lh_grantor_cut_next(f->g, 1, at_s(0), &info));
    assert_int_equal(share(f, 1, 1, f->a, 0), LH_OK);
    assert_int_equal(share(f, 1, 1, f->b, 0), LH_OK);
    assert_int_equal(share(f, 1, 1, f->c, 0), LH_OK);
    assert_true(lh_grantor_cut_next(f->g, 1, at_s(1), &info));
    assert_int_equal(info.session, f->a);
    assert_int_equal(info.end.ns, END_NS(10));
    assert_int_equal(lh_grantor_release(f->g, 1, 1, f->b), LH_OK);
    assert_true(lh_grantor_cut_next(f->g, 1, at_s(1), &info));
    assert_int_equal(info.session, f->c);
    assert_false(lh_grantor_cut_next(f->g, 1, at_s(1), &info));

    renew(f, f->a, 5);
    renew(f, f->c, 5);
    assert_int_equal(lh_grantor_free_at(f->g, 1, at_s(5)).ns, END_NS(10));
    assert_false(lh_grantor_find(f->g, 1, at_s(11), &info));
    struct lh_expired what;
    unsigned ended = 0;
    while (lh_grantor_expire(f->g, at_s(11), &what))
        ended += !what.is_session;
    assert_int_equal(ended, 2);
    assert_int_equal(share(f, 1, 1, f->a, 11), LH_OK);
    assert_true(lh_grantor_cut_next(f->g, 1, at_s(11), &info));
}

static void an_exclusive_lease_costs_at_most_64_bytes(void **state)
{
    (void)state;
    const uint64_t leases = 1000000;
    for (int with_hint = 0; with_hint < 2; with_hint++) {
        struct lh_prng r = {42};
        struct lh_grantor *g = lh_grantor_create(with_hint ? leases : 0);
        lh_session_id s = lh_grantor_session_open(g, at_s(0), lh_seconds(1000), NULL);
        for (uint64_t i = 0; i < leases; i++)
            assert_int_equal(lh_grantor_grant(g, lh_prng_next(&r), 1, LH_LEASE_EXCLUSIVE, s,
                                 at_s(0), at_s(0), lh_seconds(60)),
                LH_OK);
        assert_int_equal(lh_grantor_lease_count(g), leases);
        assert_true(lh_grantor_memory(g) <= 64 * leases);
        lh_grantor_check(g);
        lh_grantor_destroy(g);
    }
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        STORY(a_cut_lease_ends_where_its_session_would_have),
        STORY(a_session_that_is_stopped_is_reported_with_its_leases),
        STORY(what_ended_is_collected_before_it_is_replaced),
        STORY(all_who_share_a_key_are_cut_one_after_the_other),
        STORY(an_exclusive_lease_keeps_others_out_until_its_last_nanosecond),
        STORY(a_lease_ends_with_its_session_and_lives_with_its_renewals),
        STORY(a_session_that_has_ended_is_never_renewed),
        STORY(an_older_request_never_shortens_a_session_or_a_lease),
        STORY(closing_a_session_frees_nothing),
        STORY(ending_a_session_frees_all_it_held_at_once),
        STORY(a_session_id_is_not_used_again),
        STORY(versions_never_fall),
        STORY(only_the_holder_extends_and_releases),
        STORY(what_ran_out_is_not_extended),
        STORY(a_recalled_lease_runs_out_or_is_released),
        STORY(shared_leases_stand_beside_each_other),
        STORY(an_exclusive_holder_that_asks_to_share_stays_alone_until_it_releases),
        STORY(nobody_joins_a_shared_lease_that_is_being_recalled),
        STORY(a_holder_that_registers_anew_goes_on_in_its_new_session),
        STORY(an_ended_session_is_reported_before_its_leases),
        STORY(sleeping_until_the_deadline_meets_every_end),
        cmocka_unit_test(nothing_held_means_nothing_to_wait_for),
        STORY(a_heartbeat_extends_many_and_answers_for_each),
        STORY(the_leases_of_a_session_can_be_listed),
        cmocka_unit_test(a_call_does_not_pay_for_all_renewals_at_once),
        cmocka_unit_test(an_exclusive_lease_costs_at_most_64_bytes),
    };
    return cmocka_run_group_tests_name("lease_grantor", tests, NULL, NULL);
}
