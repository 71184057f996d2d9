/* Stories of leases, with the real master, chunkservers and client: who may act, until when, and
 * what happens when a holder is slow, gone, or believes wrongly. The observers watch INV-1 to INV-3
 * in all of them. */
#include "sim/world/network.h"
#include "tests/scenario/scenario.h"

static void a_first_append_brings_a_lease(void **state)
{
    struct lh_sim_cluster *c = cluster(1, 3);

    (void)state;
    assert_int_equal(lh_sim_create_file(c, FILE_PATH, NULL), LH_OK);
    assert_null(lh_sim_open_primary(c, FILE_PATH)); /* nobody asked yet */
    struct lh_sim_writer *w = lh_sim_writer_open(c, 1, FILE_PATH, LONG);
    assert_non_null(w);
    assert_int_equal(lh_sim_append(w, 1, 100, lh_seconds(1)), LH_OK);
    struct lh_sim_node *primary = primary_of(c);
    assert_string_equal(tail_of(c).holder, lh_sim_name(primary));
    assert_int_equal(tail_of(c).version, 1);
    all_is_well(c, w);
}

static void heartbeats_keep_a_busy_lease(void **state)
{
    struct lh_sim_cluster *c = cluster(2, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *primary = primary_of(c);

    (void)state;
    for (int i = 0; i < 60; i++) { /* several chunk terms */
        assert_int_equal(lh_sim_append(w, 1, 100, lh_seconds(1)), LH_OK);
        run_for(c, lh_milliseconds(500));
        assert_ptr_equal(lh_sim_primary(c, tail_of(c).chunk), primary);
    }
    assert_int_equal(tail_of(c).version, 1); /* INV-9: never lost without cause */
    all_is_well(c, w);
}

static void an_idle_lease_runs_out_and_comes_back_with_a_new_version(void **state)
{
    struct lh_sim_cluster *c = cluster(3, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);

    (void)state;
    assert_non_null(primary_of(c));
    run_for(c, lh_duration_add(lh_duration_add(CHUNK_TERM, CHUNK_TERM), SESSION_TERM));
    assert_null(lh_sim_primary(c, tail_of(c).chunk));
    assert_int_equal(lh_sim_append(w, 1, 100, lh_seconds(2)), LH_OK);
    assert_true(tail_of(c).version > 1);
    all_is_well(c, w);
}

static void a_recalled_lease_is_given_up_at_once(void **state)
{
    struct lh_sim_cluster *c = cluster(4, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *first = primary_of(c);
    uint64_t began = now_ms(c);

    (void)state;
    assert_int_equal(lh_sim_recall(c, FILE_PATH, false, lh_seconds(5)), LH_OK);
    assert_true(now_ms(c) - began < 1000); /* not by running out */
    assert_ptr_not_equal(primary_of(c), first);
    assert_int_equal(lh_sim_append(w, 1, 100, lh_seconds(2)), LH_OK);
    all_is_well(c, w);
}

static void a_recall_while_appends_are_under_way_loses_none(void **state)
{
    (void)state;
    for (uint64_t seed = 10; seed < 20; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 10; i++)
                lh_sim_append_begin(w, 2, 500);
            run_for(c, lh_nanoseconds(300000 * (seed - 9)));
            (void)lh_sim_recall(c, FILE_PATH, false, lh_seconds(5));
        }
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

static void a_recall_without_an_answer_waits_for_the_lease_to_run_out(void **state)
{
    struct lh_sim_cluster *c = cluster(5, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *first = primary_of(c);
    uint64_t version = tail_of(c).version;

    (void)state;
    lh_sim_isolate(first, lh_sim_master(c));
    uint64_t began = now_ms(c);
    assert_int_not_equal(lh_sim_recall(c, FILE_PATH, false, lh_seconds(1)), LH_OK);
    assert_int_equal(tail_of(c).version, version); /* LEASE-2: no other holder yet */
    lh_sim_append_begin(w, 1, 100);
    assert_non_null(lh_sim_wait_primary(c, FILE_PATH, LONG));
    HOLDS(c, lh_sim_flush(w, LONG));
    (void)lh_sim_recall(c, FILE_PATH, false, LONG);
    assert_ptr_not_equal(primary_of(c), first);
    assert_true(now_ms(c) - began > 1000);
    lh_sim_rejoin(first, lh_sim_master(c));
    all_is_well(c, w);
}

static void a_released_lease_is_free_at_once(void **state)
{
    struct lh_sim_cluster *c = cluster(6, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *first = primary_of(c);

    (void)state;
    lh_sim_stop(first); /* a clean shutdown */
    uint64_t began = now_ms(c);
    assert_int_equal(lh_sim_append(w, 1, 100, LONG), LH_OK);
    assert_true(now_ms(c) - began < 2000);
    assert_false(lh_sim_is_up(first));
    assert_int_equal(lh_sim_stopped_with(first), LH_OK);
    lh_sim_start(first);
    run_for(c, lh_seconds(1));
    all_is_well(c, w);
}

static void a_dead_primary_is_replaced_when_its_lease_has_run_out_and_not_before(void **state)
{
    struct lh_sim_cluster *c = cluster(7, 3);
    struct lh_sim_writer *w = file_with_writer(c, true);
    struct lh_sim_node *first = primary_of(c);
    uint64_t version = tail_of(c).version;

    (void)state;
    lh_sim_power_loss(first); /* and nobody restarts it */
    lh_sim_append_begin(w, 1, 100);
    run_for(c, lh_milliseconds(1500)); /* within the session's term */
    assert_int_equal(tail_of(c).version, version);
    HOLDS(c, lh_sim_flush(w, LONG));
    assert_ptr_not_equal(primary_of(c), first);
    assert_true(tail_of(c).version > version);
    lh_sim_start(first);
    run_for(c, lh_seconds(2));
    HOLDS(c, lh_sim_check_replicas(c, FILE_PATH, false));
    HOLDS(c, lh_sim_check_file(c, 1, FILE_PATH, LONG));
    the_end(c);
}

/* SES-5: the lock on the data directory proves that the old process is dead. */
static void a_restarted_primary_frees_its_leases_at_once(void **state)
{
    struct lh_sim_cluster *c = cluster(8, 3);
    struct lh_sim_writer *w = file_with_writer(c, true);
    struct lh_sim_node *first = primary_of(c);

    (void)state;
    lh_sim_crash(first);
    lh_sim_start(first);
    uint64_t began = now_ms(c);
    assert_int_equal(lh_sim_append(w, 1, 100, LONG), LH_OK);
    assert_true(now_ms(c) - began < 1500); /* less than any term */
    all_is_well(c, w);
}

/* The holder's clock at one edge of rho and the master's at the other; in the middle of the story
 * they change sides (TIME-3, TIME-4). */
static void clocks_at_both_edges_never_make_two_primaries(void **state)
{
    (void)state;
    for (uint64_t seed = 30; seed < 38; seed++) {
        struct lh_sim_cluster_config config = short_terms(seed);
        config.servers = config.master.replication = 5; /* each round costs a member */
        struct lh_sim_cluster *c = cluster_of(&config);
        int sign = seed % 2 == 0 ? 1 : -1;
        struct lh_sim_writer *w = file_with_writer(c, false);
        for (int round = 0; round < 3; round++, sign = -sign) {
            lh_sim_set_rate(lh_sim_master(c), sign * RHO_PPM);
            for (size_t i = 1; i <= 5; i++)
                lh_sim_set_rate(lh_sim_server(c, i), -sign * RHO_PPM);
            struct lh_sim_node *primary = primary_of(c);
            lh_sim_isolate(primary, NULL); /* it goes on believing for as long as it may */
            lh_sim_append_begin(w, 1, 100);
            HOLDS(c, lh_sim_flush(w, LONG));
            assert_ptr_not_equal(lh_sim_primary(c, tail_of(c).chunk), primary);
            lh_sim_rejoin(primary, NULL);
            run_for(c, lh_seconds(5));
        }
        all_is_well(c, w);
    }
}

/* The edges are where it breaks: a clock well outside rho is seen by the observers (INV-7 says that
 * nothing else may break then). */
static void a_clock_outside_rho_is_seen_and_loses_nothing(void **state)
{
    size_t seen = 0;

    (void)state;
    for (uint64_t seed = 40; seed < 44; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, false);
        struct lh_sim_node *primary = primary_of(c);
        lh_sim_set_rate(primary, -700000); /* its term lasts three times as long */
        lh_sim_isolate(primary, lh_sim_master(c));
        lh_sim_isolate(primary, lh_sim_client(c, 1));
        lh_sim_append_begin(w, 1, 100);
        (void)lh_sim_flush(w, LONG);
        const char *failure = lh_sim_failure(lh_sim_world(c));
        if (failure != NULL) {
            assert_true(strstr(failure, "INV-1") != NULL || strstr(failure, "INV-2") != NULL);
            seen++;
        }
        the_end(c);
    }
    assert_int_equal(seen, 4);
}

/* INV-7, the other half: a primary whose clock has nearly stopped goes on acting for a client that
 * sees nobody else, while another one has taken over. The versions keep them apart (FENCE-1). */
static void two_primaries_beyond_rho_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 44; seed < 50; seed++) {
        struct lh_sim_cluster_config config = short_terms(seed);
        config.clients = 2;
        config.clocks_beyond_rho = true;
        struct lh_sim_cluster *c = cluster_of(&config);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        struct lh_sim_writer *other = lh_sim_writer_open(c, 2, FILE_PATH, LONG);
        struct lh_sim_node *first = primary_of(c);
        uint64_t chunk = tail_of(c).chunk;
        assert_non_null(other);
        assert_int_equal(lh_sim_append(other, 1, 100, LONG), LH_OK);
        lh_sim_set_rate(first, -990000);
        lh_sim_isolate(first, lh_sim_master(c));
        lh_sim_isolate(first, lh_sim_client(c, 1));
        lh_sim_isolate(lh_sim_client(c, 2), lh_sim_master(c));
        for (int i = 0; i < 30; i++) {
            lh_sim_append_begin(w, 1, 200);
            lh_sim_append_begin(other, 1, 300);
            run_for(c, lh_milliseconds(300));
        }
        HOLDS(c, lh_sim_flush(w, LONG));
        assert_true(tail_of(c).version > 1 || tail_of(c).chunk != chunk);
        lh_sim_set_rate(first, 0);
        lh_sim_rejoin(first, NULL);
        lh_sim_rejoin(lh_sim_client(c, 2), NULL);
        HOLDS(c, lh_sim_flush(other, LONG));
        all_is_well(c, w);
    }
}

static void delayed_heartbeats_count_from_when_they_were_sent(void **state)
{
    struct lh_sim_cluster *c = cluster(50, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *primary = primary_of(c);

    (void)state;
    /* Answers come back when most of the term is over; then the link is cut for good. */
    lh_sim_slow(lh_sim_master(c), primary, lh_milliseconds(2000));
    lh_sim_slow(primary, lh_sim_master(c), lh_milliseconds(500));
    for (int i = 0; i < 20; i++) {
        lh_sim_append_begin(w, 1, 100);
        run_for(c, lh_milliseconds(500));
    }
    lh_sim_cut(primary, lh_sim_master(c));
    lh_sim_append_begin(w, 1, 100);
    HOLDS(c, lh_sim_flush(w, LONG));
    run_for(c, lh_seconds(10));
    lh_sim_heal(primary, lh_sim_master(c));
    lh_sim_slow(lh_sim_master(c), primary, lh_nanoseconds(0));
    lh_sim_slow(primary, lh_sim_master(c), lh_nanoseconds(0));
    run_for(c, lh_seconds(10));
    all_is_well(c, w);
}

/* LEASE-6: a grant that arrives when its version was released already is ignored. */
static void a_delayed_grant_revives_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 60; seed < 66; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, false);
        struct lh_sim_node *first = primary_of(c);
        /* The master resends nothing for a while, and what it sends comes late. */
        lh_sim_slow(lh_sim_master(c), first, lh_milliseconds(200 * (seed - 59)));
        (void)lh_sim_recall(c, FILE_PATH, true, lh_seconds(3));
        lh_sim_append_begin(w, 1, 100);
        (void)lh_sim_recall(c, FILE_PATH, false, lh_seconds(3));
        HOLDS(c, lh_sim_flush(w, LONG));
        run_for(c, lh_seconds(5));
        lh_sim_slow(lh_sim_master(c), first, lh_nanoseconds(0));
        all_is_well(c, w);
    }
}

/* SES-4: heartbeats arrive, answers do not: that is no health. */
static void a_server_that_gets_no_answers_is_given_nothing(void **state)
{
    struct lh_sim_cluster *c = cluster(70, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *first = primary_of(c);

    (void)state;
    lh_sim_cut(lh_sim_master(c), first);
    lh_sim_append_begin(w, 1, 100);
    HOLDS(c, lh_sim_flush(w, LONG));
    run_for(c, lh_duration_add(CHUNK_TERM, SESSION_TERM));
    assert_int_equal(lh_sim_append(w, 1, 100, LONG), LH_OK);
    assert_ptr_not_equal(primary_of(c), first);
    lh_sim_heal(lh_sim_master(c), first);
    run_for(c, lh_seconds(5));
    all_is_well(c, w);
}

/* TIME-5: it wakes up believing what it believed, looks at its clock, and does nothing. */
static void a_primary_that_slept_past_its_term_orders_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 80; seed < 90; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        struct lh_sim_node *first = primary_of(c);
        struct lh_sim_chunk chunk = tail_of(c);

        /* Some appends are on their way to it when it falls asleep, on odd seeds within a step. */
        for (int i = 0; i < 5; i++)
            lh_sim_append_begin(w, 1, 300);
        if (seed % 2 == 0)
            lh_sim_pause(first);
        else
            lh_sim_pause_in_step(first);
        run_for(c, lh_seconds(1));
        lh_sim_append_begin(w, 1, 300);
        HOLDS(c, lh_sim_flush(w, LONG)); /* somebody else took over */
        assert_true(tail_of(c).version > chunk.version || tail_of(c).chunk != chunk.chunk);
        run_for(c, lh_duration_add(CHUNK_TERM, CHUNK_TERM));
        lh_sim_resume(first);
        run_for(c, lh_milliseconds(20));
        HOLDS(c, lh_sim_primary(c, chunk.chunk) != first || tail_of(c).version > chunk.version);
        run_for(c, lh_seconds(3));
        HOLDS(c, lh_sim_check_replicas(c, FILE_PATH, false));
        HOLDS(c, lh_sim_check_file(c, 1, FILE_PATH, LONG));
        the_end(c);
    }
}

/* The lease says who should act, the version makes sure (FENCE-1): a client that still talks to the
 * old primary is not acknowledged by it, however sure that one is of itself. */
static void a_stale_primary_is_fenced(void **state)
{
    struct lh_sim_cluster_config config = short_terms(91);
    config.clients = 2;
    struct lh_sim_cluster *c = cluster_of(&config);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_writer *other = lh_sim_writer_open(c, 2, FILE_PATH, LONG);
    struct lh_sim_node *first = primary_of(c);

    (void)state;
    assert_non_null(other);
    assert_int_equal(lh_sim_append(other, 1, 100, LONG), LH_OK);
    /* The second client sees nobody but the old primary; that one sees no master. */
    lh_sim_isolate(first, lh_sim_master(c));
    lh_sim_isolate(lh_sim_client(c, 2), lh_sim_master(c));
    lh_sim_isolate(first, lh_sim_client(c, 1));
    for (int i = 0; i < 40; i++) {
        lh_sim_append_begin(w, 1, 100);
        lh_sim_append_begin(other, 1, 100);
        run_for(c, lh_milliseconds(500));
    }
    HOLDS(c, lh_sim_flush(w, LONG));
    lh_sim_rejoin(first, NULL);
    lh_sim_rejoin(lh_sim_client(c, 2), NULL);
    HOLDS(c, lh_sim_flush(other, LONG));
    run_for(c, lh_seconds(5));
    HOLDS(c, lh_sim_check_replicas(c, FILE_PATH, false));
    HOLDS(c, lh_sim_check_file(c, 1, FILE_PATH, LONG));
    the_end(c);
}

/* SES-1: what the former process sent comes after what the new one sent. */
static void an_old_incarnations_late_registration_is_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 500; seed < 510; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, false);
        struct lh_sim_node *first = primary_of(c);

        lh_sim_slow(first, lh_sim_master(c), lh_seconds(1));
        lh_sim_break(first, lh_sim_master(c));
        run_for(c, lh_milliseconds(500)); /* it registers again; that is on its way */
        lh_sim_crash(first);
        lh_sim_slow(first, lh_sim_master(c), lh_nanoseconds(0));
        lh_sim_start(first);
        for (int i = 0; i < 30; i++) {
            assert_int_equal(lh_sim_append(w, 1, 100, LONG), LH_OK);
            run_for(c, lh_milliseconds(100));
        }
        assert_true(lh_chunkserver_in_session(lh_sim_core(first), lh_sim_clock(first)));
        all_is_well(c, w);
    }
}

/* LEASE-3: a member less is a new version for the same holder, at once. */
static void losing_a_secondary_keeps_the_primary(void **state)
{
    struct lh_sim_cluster *c = cluster(93, 4);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *primary = primary_of(c);
    struct lh_sim_chunk chunk = tail_of(c);

    (void)state;
    lh_sim_power_loss(secondary_of(c));
    uint64_t began = now_ms(c);
    assert_int_equal(lh_sim_append(w, 1, 100, LONG), LH_OK);
    assert_true(now_ms(c) - began < 5000);
    assert_ptr_equal(primary_of(c), primary);
    assert_int_equal(tail_of(c).chunk, chunk.chunk);
    assert_true(tail_of(c).version > chunk.version);
    assert_int_equal(tail_of(c).member_count, 2);
    all_is_well(c, w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_append_brings_a_lease),
        cmocka_unit_test(heartbeats_keep_a_busy_lease),
        cmocka_unit_test(an_idle_lease_runs_out_and_comes_back_with_a_new_version),
        cmocka_unit_test(a_recalled_lease_is_given_up_at_once),
        cmocka_unit_test(a_recall_while_appends_are_under_way_loses_none),
        cmocka_unit_test(a_recall_without_an_answer_waits_for_the_lease_to_run_out),
        cmocka_unit_test(a_released_lease_is_free_at_once),
        cmocka_unit_test(a_dead_primary_is_replaced_when_its_lease_has_run_out_and_not_before),
        cmocka_unit_test(a_restarted_primary_frees_its_leases_at_once),
        cmocka_unit_test(clocks_at_both_edges_never_make_two_primaries),
        cmocka_unit_test(a_clock_outside_rho_is_seen_and_loses_nothing),
        cmocka_unit_test(two_primaries_beyond_rho_lose_nothing),
        cmocka_unit_test(delayed_heartbeats_count_from_when_they_were_sent),
        cmocka_unit_test(a_delayed_grant_revives_nothing),
        cmocka_unit_test(a_server_that_gets_no_answers_is_given_nothing),
        cmocka_unit_test(a_primary_that_slept_past_its_term_orders_nothing),
        cmocka_unit_test(a_stale_primary_is_fenced),
        cmocka_unit_test(an_old_incarnations_late_registration_is_refused),
        cmocka_unit_test(losing_a_secondary_keeps_the_primary),
    };
    return RUN_STORIES(tests);
}
