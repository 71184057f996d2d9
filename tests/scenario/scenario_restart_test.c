/* Stories of restarts: the master's (LEASE-7), the chunkservers' (FAIL-3), everybody's; and what
 * may not change with them. */
#include "sim/world/disk.h"
#include "sim/world/network.h"
#include "tests/scenario/scenario.h"

static void restart(struct lh_sim_node *node)
{
    lh_sim_crash(node);
    lh_sim_start(node);
}

/* LEASE-7: the holder shows what it holds and goes on at once, at the same version. */
static void a_restarted_master_lets_holders_go_on(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 11; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        struct lh_sim_node *primary = primary_of(c);
        struct lh_sim_chunk before = tail_of(c);
        run_for(c, lh_milliseconds(300 * seed));
        restart(lh_sim_master(c));
        for (int i = 0; i < 20; i++) {
            assert_int_equal(lh_sim_append(w, 1, 100, lh_seconds(1)), LH_OK);
            run_for(c, lh_milliseconds(300));
        }
        assert_ptr_equal(lh_sim_primary(c, before.chunk), primary);
        assert_int_equal(tail_of(c).version, before.version);
        all_is_well(c, w);
    }
}

/* Several masters: each is a node with a store of its own, and addressed by its name. */
static void a_master_that_nobody_asks_stands_by(void **state)
{
    struct lh_sim_cluster_config config = short_terms(19);
    (void)state;
    config.masters = 2;
    struct lh_sim_cluster *c = lh_sim_cluster_create(&config); /* observers know one master */
    struct lh_sim_node *second = lh_sim_master_at(c, 2);

    HOLDS(c, lh_sim_cluster_start(c, LONG));
    assert_int_equal(lh_sim_masters(c), 2);
    assert_string_equal(lh_sim_name(second), "m2");
    assert_ptr_equal(lh_sim_master(c), lh_sim_master_at(c, 1));
    assert_int_equal(lh_sim_create_file(c, FILE_PATH, NULL), LH_OK);
    struct lh_sim_writer *w = lh_sim_writer_open(c, 1, FILE_PATH, LONG);
    assert_non_null(w);
    restart(second);
    HOLDS(c, lh_sim_append(w, 1, 100, LONG) == LH_OK);
    assert_true(lh_sim_is_up(second));
    assert_int_equal(lh_sim_file_count(c), 1);
    assert_int_equal(lh_sim_store_count(second), 3); /* its own record, and its reigns */
    HOLDS(c, lh_sim_settle(c, w, LONG));
    lh_sim_cluster_destroy(c);
}

/* The master was away for longer than any term: nobody may act, and then somebody may again. */
static void a_master_that_was_away_for_long_starts_anew(void **state)
{
    struct lh_sim_cluster *c = cluster(20, 3);
    struct lh_sim_writer *w = file_with_writer(c, true);

    (void)state;
    lh_sim_crash(lh_sim_master(c));
    run_for(c, lh_duration_add(CHUNK_TERM, CHUNK_TERM));
    assert_null(lh_sim_primary(c, tail_of(c).chunk));
    lh_sim_append_begin(w, 1, 100);
    lh_sim_start(lh_sim_master(c));
    HOLDS(c, lh_sim_flush(w, LONG));
    all_is_well(c, w);
}

/* LEASE-7: a holder that does not come back is waited for, although nothing of its last renewal is
 * known. */
static void a_holder_that_does_not_come_back_is_waited_for(void **state)
{
    (void)state;
    for (uint64_t seed = 30; seed < 36; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, false);
        struct lh_sim_node *first = primary_of(c);
        uint64_t version = tail_of(c).version;
        run_for(c, lh_milliseconds(700));
        lh_sim_isolate(first, lh_sim_master(c)); /* but it still believes */
        uint64_t began = now_ms(c);
        restart(lh_sim_master(c));
        lh_sim_append_begin(w, 1, 100);
        while (tail_of(c).version == version && now_ms(c) - began < 30000)
            run_for(c, lh_milliseconds(50));
        assert_true(now_ms(c) - began >= 2900); /* the longest session term */
        lh_sim_append_begin(w, 1, 100);
        HOLDS(c, lh_sim_flush(w, LONG));
        lh_sim_rejoin(first, NULL);
        run_for(c, lh_seconds(5));
        all_is_well(c, w);
    }
}

/* A shorter setting does not shorten what the former master promised. */
static void a_shorter_term_after_a_restart_still_waits_for_the_longer_one(void **state)
{
    struct lh_sim_cluster *c = cluster(40, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *first = primary_of(c);
    uint64_t version = tail_of(c).version;

    (void)state;
    lh_sim_isolate(first, lh_sim_master(c));
    uint64_t began = now_ms(c);
    lh_sim_master_config(c)->session_term = lh_milliseconds(300);
    lh_sim_master_config(c)->chunk_term = lh_milliseconds(1000);
    restart(lh_sim_master(c));
    lh_sim_append_begin(w, 1, 100);
    while (tail_of(c).version == version && now_ms(c) - began < 30000)
        run_for(c, lh_milliseconds(50));
    assert_true(now_ms(c) - began >= 2900);
    HOLDS(c, lh_sim_flush(w, LONG));
    lh_sim_rejoin(first, NULL);
    run_for(c, lh_seconds(5));
    all_is_well(c, w);
}

static void terms_may_change_with_every_restart(void **state)
{
    static const uint64_t sessions_ms[] = {300, 5000, 1000, 10000, 200, 3000};

    (void)state;
    for (uint64_t seed = 50; seed < 54; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, true);
        for (size_t i = 0; i < 6; i++) {
            lh_sim_master_config(c)->session_term = lh_milliseconds(sessions_ms[i]);
            lh_sim_master_config(c)->chunk_term = lh_milliseconds(3 * sessions_ms[i]);
            restart(lh_sim_master(c));
            for (int n = 0; n < 5; n++)
                lh_sim_append_begin(w, 1, 2000);
            run_for(c, lh_milliseconds(seed * 40));
            if (i % 2 == 0)
                restart(lh_sim_server(c, 1 + i % 3));
        }
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

static void a_master_that_crashes_at_any_moment_forgets_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 60; seed < 90; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        /* Chunks fill up, so that it is always in the middle of something. */
        for (int i = 0; i < 40; i++)
            lh_sim_append_begin(w, 1, 6000);
        for (int i = 0; i < 6; i++) {
            run_for(c, lh_nanoseconds(lh_prng_below(lh_sim_random(lh_sim_world(c)), 12000000)));
            if (i % 2 == 0)
                lh_sim_power_loss(lh_sim_master(c));
            else
                lh_sim_crash(lh_sim_master(c));
            run_for(c, lh_milliseconds(1));
            lh_sim_start(lh_sim_master(c));
        }
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

static void chunkservers_that_crash_at_any_moment_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 130; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        for (int i = 0; i < 40; i++)
            lh_sim_append_begin(w, 1, 4000);
        for (int i = 0; i < 8; i++) {
            run_for(c, lh_nanoseconds(lh_prng_below(lh_sim_random(lh_sim_world(c)), 10000000)));
            restart(lh_sim_server(c, 1 + lh_prng_below(lh_sim_random(lh_sim_world(c)), 3)));
        }
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

/* A process crash of all at once keeps everything, synced or not: the kernel has it. */
static void everybody_crashes_and_nothing_is_lost(void **state)
{
    (void)state;
    for (uint64_t seed = 140; seed < 160; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        for (int i = 0; i < 30; i++)
            lh_sim_append_begin(w, 1, 3000);
        run_for(c, lh_nanoseconds(500000 * (seed - 139)));
        for (size_t i = 1; i <= 3; i++)
            lh_sim_crash(lh_sim_server(c, i));
        lh_sim_crash(lh_sim_master(c));
        run_for(c, lh_milliseconds(10));
        lh_sim_start(lh_sim_master(c));
        for (size_t i = 1; i <= 3; i++)
            lh_sim_start(lh_sim_server(c, i));
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

static void a_client_that_crashes_leaves_whole_batches(void **state)
{
    (void)state;
    for (uint64_t seed = 170; seed < 180; seed++) {
        struct lh_sim_cluster_config config = short_terms(seed);
        config.clients = 2;
        struct lh_sim_cluster *c = cluster_of(&config);
        struct lh_sim_writer *w = file_with_writer(c, false);
        struct lh_sim_writer *gone = lh_sim_writer_open(c, 2, FILE_PATH, LONG);
        assert_non_null(gone);
        for (int i = 0; i < 10; i++) {
            lh_sim_append_begin(w, 1, 500);
            lh_sim_append_begin(gone, 3, 500);
        }
        run_for(c, lh_nanoseconds(300000 * (seed - 169)));
        lh_sim_crash(lh_sim_client(c, 2));
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w); /* what is there of the one that is gone is in order, without a gap */
    }
}

/* A clean shutdown of everybody, and a start, over and over: nothing waits for a term. */
static void clean_restarts_are_quick_and_lose_nothing(void **state)
{
    struct lh_sim_cluster *c = cluster(190, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);

    (void)state;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 10; i++)
            lh_sim_append_begin(w, 1, 1000);
        run_for(c, lh_milliseconds(3));
        for (size_t i = 1; i <= 3; i++)
            lh_sim_stop(lh_sim_server(c, i));
        run_for(c, lh_seconds(4));
        for (size_t i = 1; i <= 3; i++) {
            assert_false(lh_sim_is_up(lh_sim_server(c, i)));
            assert_int_equal(lh_sim_stopped_with(lh_sim_server(c, i)), LH_OK);
        }
        lh_sim_stop(lh_sim_master(c));
        run_for(c, lh_seconds(1));
        assert_false(lh_sim_is_up(lh_sim_master(c)));
        HOLDS(c, lh_sim_cluster_start(c, LONG));
        uint64_t began = now_ms(c);
        HOLDS(c, lh_sim_flush(w, LONG));
        assert_true(now_ms(c) - began < 2900);
    }
    all_is_well(c, w);
}

/* The master's store fails: it stops rather than promise what is not durable. */
static void a_master_whose_store_fails_stops(void **state)
{
    struct lh_sim_cluster *c = cluster(200, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);

    (void)state;
    lh_sim_store_fail(lh_sim_master(c), LH_ERR_IO);
    (void)lh_sim_create_file(c, "/other", NULL);
    assert_false(lh_sim_is_up(lh_sim_master(c)));
    assert_int_equal(lh_sim_stopped_with(lh_sim_master(c)), LH_ERR_IO);
    lh_sim_start(lh_sim_master(c));
    run_for(c, lh_seconds(4));
    assert_int_equal(lh_sim_append(w, 1, 100, LONG), LH_OK);
    all_is_well(c, w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restarted_master_lets_holders_go_on),
        cmocka_unit_test(a_master_that_nobody_asks_stands_by),
        cmocka_unit_test(a_master_that_was_away_for_long_starts_anew),
        cmocka_unit_test(a_holder_that_does_not_come_back_is_waited_for),
        cmocka_unit_test(a_shorter_term_after_a_restart_still_waits_for_the_longer_one),
        cmocka_unit_test(terms_may_change_with_every_restart),
        cmocka_unit_test(a_master_that_crashes_at_any_moment_forgets_nothing),
        cmocka_unit_test(chunkservers_that_crash_at_any_moment_lose_nothing),
        cmocka_unit_test(everybody_crashes_and_nothing_is_lost),
        cmocka_unit_test(a_client_that_crashes_leaves_whole_batches),
        cmocka_unit_test(clean_restarts_are_quick_and_lose_nothing),
        cmocka_unit_test(a_master_whose_store_fails_stops),
    };
    return RUN_STORIES(tests);
}
