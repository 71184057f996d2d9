/* Stories about the holder's table, and about how long a term is on either side (TIME-4). */
#include "base/error.h"
#include "lease/holder.h"
#include "lease/term.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SESSION_TERM lh_seconds(10)
#define LEASE_TERM   lh_seconds(60)

static struct lh_instant at_s(uint64_t s)
{
    return (struct lh_instant){s * UINT64_C(1000000000)};
}

static int setup(void **state)
{
    struct lh_holder *h = lh_holder_create();
    lh_holder_session_begin(h, 1, at_s(0), SESSION_TERM);
    *state = h;
    return 0;
}

static int teardown(void **state)
{
    lh_holder_check(*state);
    lh_holder_destroy(*state);
    return 0;
}

static int grant(
    struct lh_holder *h, uint64_t session, uint64_t key, uint64_t version, uint64_t sent_s)
{
    return lh_holder_grant(h, session, key, version, at_s(sent_s), LEASE_TERM);
}

static void the_holder_stops_before_the_grantor_at_both_edges_of_drift(void **state)
{
    (void)state;
    const uint32_t drifts_ppm[] = {0, 1, LH_DRIFT_PPM_DEFAULT, LH_DRIFT_PPM_MAX};
    const uint64_t terms_ns[] = {0, 1, 200000000, 10000000000, 60000000000, UINT64_C(1) << 55};
    for (size_t d = 0; d < 4; d++) {
        for (size_t t = 0; t < 6; t++) {
            /* The request takes no time at all; holder's clock slow, grantor's fast. */
            struct lh_duration term = {terms_ns[t]};
            uint64_t holder =
                lh_term_holder_end(at_s(0), lh_term_for_holder(term, drifts_ppm[d])).ns;
            uint64_t grantor = lh_term_grantor_end(at_s(0), term).ns;
            unsigned __int128 holder_true =
                (unsigned __int128)holder * 1000000 / (1000000 - drifts_ppm[d]);
            unsigned __int128 grantor_true =
                (unsigned __int128)grantor * 1000000 / (1000000 + drifts_ppm[d]);
            assert_true(holder_true < grantor_true);
        }
    }
    assert_int_equal(lh_term_for_holder(lh_seconds(101), 10000).ns, UINT64_C(99000000000));
}

static void terms_saturate(void **state)
{
    (void)state;
    assert_int_equal(lh_term_grantor_end(at_s(1), LH_DURATION_FOREVER).ns, UINT64_MAX);
    assert_int_equal(
        lh_term_grantor_end((struct lh_instant){UINT64_MAX - 5}, lh_nanoseconds(1)).ns, UINT64_MAX);
    assert_int_equal(
        lh_term_holder_end((struct lh_instant){UINT64_MAX - 5}, lh_nanoseconds(9)).ns, UINT64_MAX);
    assert_true(
        lh_term_for_holder(LH_DURATION_FOREVER, LH_DRIFT_PPM_MAX).ns < UINT64_MAX / 3 * 2 + 2);
    assert_int_equal(lh_term_for_holder(LH_DURATION_FOREVER, 0).ns, UINT64_MAX);
    /* What a holder names, the grantor waits for: the one is the other's inverse. */
    assert_int_equal(lh_term_for_grantor(lh_seconds(99), 10000).ns, UINT64_C(101000000000));
    assert_int_equal(lh_term_for_grantor(LH_DURATION_FOREVER, 0).ns, UINT64_MAX);
    assert_int_equal(lh_term_for_grantor(LH_DURATION_FOREVER, 1).ns, UINT64_MAX);
    for (uint64_t ns = 1; ns < UINT64_MAX / 8; ns = ns * 7 / 2 + 1) {
        struct lh_duration wait = lh_term_for_grantor(lh_nanoseconds(ns), LH_DRIFT_PPM_MAX);
        assert_true(lh_term_for_holder(wait, LH_DRIFT_PPM_MAX).ns >= ns);
        assert_true(lh_term_for_holder(lh_nanoseconds(wait.ns - 1), LH_DRIFT_PPM_MAX).ns < ns);
    }
}

static void a_lease_is_usable_while_it_and_the_session_run(void **state)
{
    struct lh_holder *h = *state;
    assert_int_equal(grant(h, 1, 7, 3, 0), LH_OK);
    assert_true(lh_holder_may_act(h, 7, 3, at_s(0)));
    assert_false(lh_holder_may_act(h, 7, 2, at_s(0)));
    assert_false(lh_holder_may_act(h, 8, 3, at_s(0)));
    assert_true(lh_holder_may_act(h, 7, 3, (struct lh_instant){at_s(10).ns - 1}));
    assert_false(lh_holder_may_act(h, 7, 3, at_s(10)));
    assert_int_equal(lh_holder_end_of(h, 7).ns, at_s(10).ns);
    assert_int_equal(lh_holder_end_of(h, 8).ns, 0);
    for (uint64_t s = 5; s <= 55; s += 5)
        assert_int_equal(lh_holder_session_renew(h, 1, at_s(s), SESSION_TERM), LH_OK);
    assert_true(lh_holder_may_act(h, 7, 3, at_s(59)));
    assert_false(lh_holder_may_act(h, 7, 3, at_s(60)));
    assert_int_equal(lh_holder_version(h, 7), 3); /* run out, but not released */
    assert_int_equal(lh_holder_extend(h, 1, 7, 3, at_s(55), LEASE_TERM), LH_OK);
    assert_true(lh_holder_may_act(h, 7, 3, at_s(60)));
}

static void answers_of_another_session_count_for_nothing(void **state)
{
    struct lh_holder *h = *state;
    assert_int_equal(grant(h, 2, 7, 3, 0), LH_ERR_UNKNOWN_SESSION);
    assert_int_equal(lh_holder_session_renew(h, 2, at_s(5), SESSION_TERM), LH_ERR_UNKNOWN_SESSION);
    assert_int_equal(grant(h, 1, 7, 3, 0), LH_OK);
    assert_int_equal(lh_holder_extend(h, 2, 7, 3, at_s(5), LEASE_TERM), LH_ERR_UNKNOWN_SESSION);
    assert_int_equal(lh_holder_continue(h, 2, 7, 3, at_s(5), LEASE_TERM), LH_ERR_UNKNOWN_SESSION);
    assert_int_equal(lh_holder_session_end_of(h).ns, at_s(10).ns);
    lh_holder_session_end(h);
    assert_int_equal(lh_holder_session(h), 0);
    assert_false(lh_holder_session_live(h, at_s(0)));
    assert_int_equal(grant(h, 0, 7, 4, 0), LH_ERR_UNKNOWN_SESSION);
    assert_int_equal(lh_holder_session_renew(h, 0, at_s(5), SESSION_TERM), LH_ERR_UNKNOWN_SESSION);
}

static void an_older_answer_never_shortens(void **state)
{
    struct lh_holder *h = *state;
    assert_int_equal(lh_holder_session_renew(h, 1, at_s(8), SESSION_TERM), LH_OK);
    assert_int_equal(lh_holder_session_renew(h, 1, at_s(4), SESSION_TERM), LH_OK);
    assert_int_equal(lh_holder_session_end_of(h).ns, at_s(18).ns);
    assert_int_equal(lh_holder_grant(h, 1, 7, 3, at_s(8), lh_seconds(5)), LH_OK);
    assert_int_equal(lh_holder_grant(h, 1, 7, 3, at_s(4), lh_seconds(5)), LH_OK);
    assert_int_equal(lh_holder_extend(h, 1, 7, 3, at_s(2), lh_seconds(5)), LH_OK);
    assert_int_equal(lh_holder_grant(h, 1, 7, 4, at_s(1), lh_seconds(5)), LH_OK);
    assert_int_equal(lh_holder_end_of(h, 7).ns, at_s(13).ns);
}

static void grants_that_arrive_out_of_order_do_not_turn_a_version_back(void **state)
{
    struct lh_holder *h = *state;
    assert_int_equal(grant(h, 1, 7, 5, 1), LH_OK);
    assert_int_equal(grant(h, 1, 7, 4, 0), LH_ERR_STALE_VERSION);
    assert_int_equal(grant(h, 1, 8, 0, 0), LH_ERR_STALE_VERSION);
    assert_int_equal(lh_holder_extend(h, 1, 7, 4, at_s(1), LEASE_TERM), LH_ERR_STALE_VERSION);
    assert_int_equal(lh_holder_extend(h, 1, 9, 4, at_s(1), LEASE_TERM), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_holder_version(h, 7), 5);
    assert_int_equal(lh_holder_count(h), 1);
}

static void a_released_version_does_not_come_back(void **state)
{
    struct lh_holder *h = *state;
    assert_int_equal(grant(h, 1, 7, 5, 0), LH_OK);
    lh_holder_release(h, 7, 5);
    assert_false(lh_holder_may_act(h, 7, 5, at_s(0)));
    assert_int_equal(lh_holder_version(h, 7), 0);
    assert_int_equal(grant(h, 1, 7, 5, 0), LH_ERR_STALE_VERSION);
    assert_int_equal(lh_holder_extend(h, 1, 7, 5, at_s(0), LEASE_TERM), LH_ERR_NOT_LEASED);

    /* Nor in a later session; and a version that was released before its grant came. */
    lh_holder_release(h, 8, 2);
    lh_holder_session_begin(h, 2, at_s(1), SESSION_TERM);
    lh_holder_session_settle(h, NULL, NULL);
    assert_int_equal(grant(h, 2, 7, 5, 1), LH_ERR_STALE_VERSION);
    assert_int_equal(grant(h, 2, 8, 2, 1), LH_ERR_STALE_VERSION);
    assert_int_equal(grant(h, 2, 7, 6, 1), LH_OK);
    lh_holder_release(h, 7, 5); /* late: the newer one stays */
    assert_true(lh_holder_may_act(h, 7, 6, at_s(1)));

    lh_holder_forget(h, 7);
    lh_holder_forget(h, 8);
    lh_holder_forget(h, 9);
    assert_int_equal(lh_holder_count(h), 0);
    assert_int_equal(grant(h, 2, 8, 1, 1), LH_OK);
}

static void note_lost(void *arg, uint64_t key, uint64_t version)
{
    uint64_t *lost = arg;
    *lost = *lost * 100 + key * 10 + version;
}

static void after_a_restart_of_the_grantor_only_what_is_continued_is_kept(void **state)
{
    struct lh_holder *h = *state;
    uint64_t lost = 0;
    for (uint64_t key = 1; key <= 4; key++)
        assert_int_equal(grant(h, 1, key, 5, 0), LH_OK);
    lh_holder_release(h, 4, 5);
    lh_holder_session_begin(h, 2, at_s(3), SESSION_TERM);
    assert_int_equal(lh_holder_count(h), 0);
    assert_false(lh_holder_may_act(h, 1, 5, at_s(3)));

    /* The new term replaces the old one, even by a shorter one. */
    assert_int_equal(lh_holder_continue(h, 2, 2, 5, at_s(3), lh_seconds(4)), LH_OK);
    assert_int_equal(lh_holder_end_of(h, 2).ns, at_s(7).ns);
    assert_int_equal(lh_holder_continue(h, 2, 1, 4, at_s(3), LEASE_TERM), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_holder_continue(h, 2, 4, 5, at_s(3), LEASE_TERM), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_holder_continue(h, 2, 9, 5, at_s(3), LEASE_TERM), LH_ERR_NOT_LEASED);
    /* The answer comes twice, and an extension in between. */
    assert_int_equal(lh_holder_extend(h, 2, 2, 5, at_s(4), lh_seconds(5)), LH_OK);
    assert_int_equal(lh_holder_continue(h, 2, 2, 5, at_s(3), lh_seconds(4)), LH_OK);
    assert_int_equal(lh_holder_end_of(h, 2).ns, at_s(9).ns);

    lh_holder_session_settle(h, note_lost, &lost);
    assert_int_equal(lost, 1535);
    assert_int_equal(lh_holder_continue(h, 2, 1, 5, at_s(3), LEASE_TERM), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_holder_count(h), 1);
}

static void what_is_held_is_listed_in_the_order_of_its_coming(void **state)
{
    struct lh_holder *h = *state;
    uint64_t cursor = 0, key, version;
    struct lh_instant end;
    assert_false(lh_holder_next(h, &cursor, &key, &version, &end));
    assert_int_equal(grant(h, 1, 9, 1, 0), LH_OK);
    assert_int_equal(grant(h, 1, 4, 2, 0), LH_OK);
    assert_int_equal(grant(h, 1, 6, 3, 0), LH_OK);
    lh_holder_release(h, 4, 2);
    lh_holder_session_end(h); /* cannot be used, but can be shown to the next grantor */
    cursor = 0;
    assert_true(lh_holder_next(h, &cursor, &key, &version, &end));
    assert_true(key == 9 && version == 1 && end.ns == 0);
    assert_true(lh_holder_next(h, &cursor, &key, &version, &end));
    assert_true(key == 6 && version == 3);
    assert_false(lh_holder_next(h, &cursor, &key, &version, &end));
    assert_false(lh_holder_next(h, &cursor, &key, &version, &end));
    assert_false(lh_holder_may_act(h, 9, 1, at_s(0)));
}

static void many_leases_come_and_go(void **state)
{
    struct lh_holder *h = *state;
    for (uint64_t key = 0; key < 50000; key++)
        assert_int_equal(grant(h, 1, key, key + 1, 0), LH_OK);
    lh_holder_check(h);
    for (uint64_t key = 0; key < 50000; key += 2)
        lh_holder_forget(h, key);
    for (uint64_t key = 0; key < 50000; key++)
        assert_int_equal(lh_holder_may_act(h, key, key + 1, at_s(1)), key % 2 == 1);
    assert_int_equal(lh_holder_count(h), 25000);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_holder_stops_before_the_grantor_at_both_edges_of_drift),
        cmocka_unit_test(terms_saturate),
        STORY(a_lease_is_usable_while_it_and_the_session_run),
        STORY(answers_of_another_session_count_for_nothing),
        STORY(an_older_answer_never_shortens),
        STORY(grants_that_arrive_out_of_order_do_not_turn_a_version_back),
        STORY(a_released_version_does_not_come_back),
        STORY(after_a_restart_of_the_grantor_only_what_is_continued_is_kept),
        STORY(what_is_held_is_listed_in_the_order_of_its_coming),
        STORY(many_leases_come_and_go),
    };
    return cmocka_run_group_tests_name("lease_holder", tests, NULL, NULL);
}
