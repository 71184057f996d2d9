/* Stories of appends: exactly once, in order, through seals, lost members, broken links, full and
 * failing disks. What was acknowledged is compared with what a reader gets and with every replica's
 * bytes. */
#include "sim/world/disk.h"
#include "sim/world/network.h"
#include "tests/scenario/scenario.h"

static void many_batches_are_acknowledged_in_order(void **state)
{
    struct lh_sim_cluster *c = cluster(1, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_append *appends[200];

    (void)state;
    for (size_t i = 0; i < 200; i++)
        appends[i] = lh_sim_append_begin(w, 1 + (uint32_t)(i % 5), 20);
    HOLDS(c, lh_sim_flush(w, LONG));
    for (size_t i = 1; i < 200; i++) {
        assert_true(appends[i]->offset > appends[i - 1]->offset);
        assert_true(appends[i]->done_ns >= appends[i - 1]->done_ns);
    }
    all_is_well(c, w);
}

static void records_of_every_length_fit(void **state)
{
    static const uint32_t lengths[] = {0, 1, 7, 8, 4095, 4096, 16000, 16340};
    struct lh_sim_cluster *c = cluster(2, 3);
    struct lh_sim_writer *w = file_with_writer(c, true);

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        assert_int_equal(lh_sim_append(w, 1, lengths[i], LONG), LH_OK);
    all_is_well(c, w);
}

static void a_full_chunk_is_sealed_and_the_next_one_goes_on(void **state)
{
    (void)state;
    for (uint64_t seed = 10; seed < 16; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        for (int i = 0; i < 60; i++)
            lh_sim_append_begin(w, 1, 5000);
        HOLDS(c, lh_sim_flush(w, LONG));
        assert_true(lh_sim_chunk_count(c, FILE_PATH) >= 4);
        all_is_well(c, w);
    }
}

static void several_writers_share_a_file(void **state)
{
    (void)state;
    for (uint64_t seed = 20; seed < 24; seed++) {
        struct lh_sim_cluster_config config = short_terms(seed);
        config.clients = 3;
        struct lh_sim_cluster *c = cluster_of(&config);
        struct lh_sim_writer *w[3] = {file_with_writer(c, false)};
        w[1] = lh_sim_writer_open(c, 2, FILE_PATH, LONG);
        w[2] = lh_sim_writer_open(c, 3, FILE_PATH, LONG);
        for (int i = 0; i < 150; i++) {
            lh_sim_append_begin(w[i % 3], 1, 1500);
            run_for(c, lh_nanoseconds(200000));
        }
        for (size_t i = 0; i < 3; i++)
            HOLDS(c, lh_sim_flush(w[i], LONG));
        all_is_well(c, w[0]);
    }
}

/* FAIL-1: nothing acknowledged is affected; what was unanswered is answered after
 * recovery, once. */
static void a_secondary_lost_in_mid_stream_costs_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 30; seed < 42; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 4);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        struct lh_sim_node *secondary = secondary_of(c);
        for (int i = 0; i < 30; i++)
            lh_sim_append_begin(w, 1, 700);
        run_for(c, lh_nanoseconds(150000 * (seed - 29)));
        if (seed % 3 == 0)
            lh_sim_power_loss(secondary);
        else if (seed % 3 == 1)
            lh_sim_crash(secondary);
        else
            lh_sim_isolate(secondary, NULL);
        HOLDS(c, lh_sim_flush(w, LONG));
        lh_sim_rejoin(secondary, NULL);
        lh_sim_start(secondary);
        run_for(c, lh_seconds(3));
        all_is_well(c, w);
    }
}

/* APP-2: one that is missing bytes names its length and gets the rest. */
static void a_secondary_that_comes_back_soon_catches_up(void **state)
{
    (void)state;
    for (uint64_t seed = 50; seed < 58; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, true);
        struct lh_sim_node *secondary = secondary_of(c);
        for (int i = 0; i < 20; i++)
            lh_sim_append_begin(w, 1, 700);
        run_for(c, lh_milliseconds(seed - 49));
        lh_sim_crash(secondary);
        lh_sim_start(secondary); /* at once: nobody was left out */
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

static void links_that_break_repeat_nothing_and_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 60; seed < 76; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        for (int round = 0; round < 8; round++) {
            for (int i = 0; i < 8; i++)
                lh_sim_append_begin(w, 1, 900);
            run_for(c, lh_nanoseconds(100000 * lh_prng_below(lh_sim_random(lh_sim_world(c)), 20)));
            struct lh_sim_node *primary = lh_sim_open_primary(c, FILE_PATH);
            if (primary == NULL)
                continue;
            if (round % 2 == 0)
                lh_sim_break(primary, lh_sim_client(c, 1));
            else
                lh_sim_break(primary, secondary_of(c));
        }
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

/* APP-5a: the primary seals and the answer is lost; what was under way is settled at the sealed
 * chunk before it goes to the next one. */
static void a_retry_lands_on_the_next_chunk_once(void **state)
{
    size_t rolled = 0;

    (void)state;
    for (uint64_t seed = 80; seed < 110; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        /* Fill the chunk nearly. */
        for (int i = 0; i < 7; i++)
            assert_int_equal(lh_sim_append(w, 1, 8000, LONG), LH_OK);
        uint64_t chunk = tail_of(c).chunk;
        for (int i = 0; i < 6; i++)
            lh_sim_append_begin(w, 1, 3000);
        run_for(c, lh_nanoseconds(100000 * (seed - 79)));
        struct lh_sim_node *primary = lh_sim_primary(c, chunk);
        if (primary != NULL)
            lh_sim_break(primary, lh_sim_client(c, 1));
        HOLDS(c, lh_sim_flush(w, LONG));
        rolled += tail_of(c).chunk != chunk;
        all_is_well(c, w);
    }
    assert_true(rolled > 20);
}

/* APP-5: the primary has it and the others do not. The client's link breaks, it sends the batch
 * again; that is a repeat, and no reason to say that it is stored. */
static void a_repeat_is_answered_when_it_is_committed_and_not_before(void **state)
{
    struct lh_sim_cluster *c = cluster(77, 3);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *primary = primary_of(c);

    (void)state;
    for (size_t i = 1; i <= 3; i++)
        if (lh_sim_server(c, i) != primary)
            lh_sim_isolate(primary, lh_sim_server(c, i));
    struct lh_sim_append *a = lh_sim_append_begin(w, 1, 100);
    run_for(c, lh_milliseconds(50));
    lh_sim_break(primary, lh_sim_client(c, 1));
    run_for(c, lh_milliseconds(800)); /* it is sent again, and no member is given up yet */
    assert_true(replica_at(primary, tail_of(c).chunk).length > a->bytes * 2);
    assert_true(a->done_ns == UINT64_MAX);
    lh_sim_rejoin(primary, NULL);
    HOLDS(c, lh_sim_flush(w, LONG));
    all_is_well(c, w);
}

/* FAIL-2 with repeats: the primary dies with batches ordered, not answered; the next one has them
 * or not, and the client asks again. */
static void a_primary_lost_in_mid_stream_repeats_nothing_and_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 110; seed < 130; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        struct lh_sim_node *primary = primary_of(c);
        for (int i = 0; i < 20; i++)
            lh_sim_append_begin(w, 2, 600);
        run_for(c, lh_nanoseconds(200000 * (seed - 109)));
        if (seed % 4 < 2)
            lh_sim_crash(primary);
        else
            lh_sim_power_loss(primary);
        run_for(c, lh_milliseconds(seed % 5 * 400));
        lh_sim_start(primary);
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

/* FAIL-3: a write was torn when the power went; the log is cut at the tear and made whole. */
static void a_torn_tail_is_cut_and_made_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 140; seed < 160; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, seed % 2 == 0);
        struct lh_sim_node *node = seed % 3 == 0 ? primary_of(c) : secondary_of(c);
        for (int i = 0; i < 16; i++)
            lh_sim_append_begin(w, 1, 2000);
        run_for(c, lh_nanoseconds(100000 * (seed - 139)));
        lh_sim_power_loss(node);
        lh_sim_start(node);
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

/* A `synced` file has lost nothing of what it acknowledged when a whole rack loses power. */
static void power_loss_of_all_loses_nothing_synced(void **state)
{
    (void)state;
    for (uint64_t seed = 160; seed < 190; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, true);
        for (int i = 0; i < 40; i++)
            lh_sim_append_begin(w, 1, 3000);
        run_for(c, lh_nanoseconds(400000 * (seed - 159)));
        for (size_t i = 1; i <= 3; i++)
            lh_sim_power_loss(lh_sim_server(c, i));
        if (seed % 2 == 0)
            lh_sim_power_loss(lh_sim_master(c));
        run_for(c, lh_milliseconds(100));
        for (size_t i = 0; i < lh_sim_node_count(lh_sim_world(c)); i++)
            lh_sim_start(lh_sim_node(lh_sim_world(c), i));
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

/* REC-2a: in a `buffered` file one machine may lose what it had; the others have it, and it knows
 * that it is unverified. */
static void power_loss_of_one_loses_nothing_buffered(void **state)
{
    (void)state;
    for (uint64_t seed = 190; seed < 206; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, false);
        struct lh_sim_node *node = seed % 2 == 0 ? primary_of(c) : secondary_of(c);
        for (int i = 0; i < 10; i++)
            assert_int_equal(lh_sim_append(w, 1, 1500, LONG), LH_OK);
        lh_sim_power_loss(node);
        run_for(c, lh_milliseconds(50));
        lh_sim_start(node);
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
}

/* REC-2a: two of three machines went down and may have lost acknowledged bytes; the third did not.
 * It is waited for: the two could go on without it by their number, and must not. */
static void unverified_members_wait_for_the_one_that_is_not(void **state)
{
    size_t lost_bytes = 0;

    (void)state;
    for (uint64_t seed = 400; seed < 416; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, false);
        for (int i = 0; i < 10; i++)
            assert_int_equal(lh_sim_append(w, 1, 1500, LONG), LH_OK);
        struct lh_sim_chunk chunk = tail_of(c);
        struct lh_sim_node *sure = seed % 2 == 0 ? primary_of(c) : secondary_of(c);
        uint64_t length = replica_at(sure, chunk.chunk).length;
        lh_sim_isolate(sure, NULL);
        for (size_t i = 1; i <= 3; i++)
            if (lh_sim_server(c, i) != sure)
                lh_sim_power_loss(lh_sim_server(c, i));
        run_for(c, lh_milliseconds(50));
        for (size_t i = 1; i <= 3; i++)
            lh_sim_start(lh_sim_server(c, i));
        struct lh_sim_append *a = lh_sim_append_begin(w, 1, 100);
        run_for(c, lh_duration_add(CHUNK_TERM, CHUNK_TERM));
        assert_true(a->done_ns == UINT64_MAX);
        for (size_t i = 1; i <= 3; i++)
            lost_bytes += replica_at(lh_sim_server(c, i), chunk.chunk).length < length;
        lh_sim_rejoin(sure, NULL);
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
    assert_true(lost_bytes > 4); /* or the story would show nothing */
}

/* A seal says what the replica holds: it must not get to the disk before the bytes do, or a machine
 * that loses power in between comes back believing that it has them. */
static void a_seal_gets_to_the_disk_after_its_bytes(void **state)
{
    size_t unsealed = 0;

    (void)state;
    for (uint64_t seed = 420; seed < 480; seed++) {
        struct lh_sim_cluster_config config = short_terms(seed);
        config.replicas_may_be_lost =
            true; /* what is shorter than its seal needs to be copied again */
        config.server.repair_rate = 65536; /* or it is sealed before it is looked at */
        struct lh_sim_cluster *c = cluster_of(&config);
        struct lh_sim_writer *w = file_with_writer(c, false);
        struct lh_sim_chunk chunk = tail_of(c);
        struct lh_sim_node *node = lh_sim_server(c, 1 + seed % 3);
        for (int i = 0; i < 16; i++)
            lh_sim_append_begin(w, 1, 5000);
        while (!chunk.sealed) {
            run_for(c, lh_nanoseconds(100000));
            assert_true(lh_sim_chunk(c, chunk.chunk, &chunk));
        }
        run_for(c, lh_nanoseconds(100000 * (seed - 420) / 2));
        lh_sim_power_loss(node);
        lh_sim_start(node);
        run_for(c, lh_milliseconds(20));
        unsealed += !replica_at(node, chunk.chunk).sealed;
        HOLDS(c, lh_sim_check_replicas(c, FILE_PATH, false));
        HOLDS(c, lh_sim_flush(w, LONG));
        all_is_well(c, w);
    }
    assert_true(unsealed > 5);
}

static void a_full_disk_sends_appends_elsewhere_or_waits(void **state)
{
    struct lh_sim_cluster *c = cluster(210, 4);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *full = secondary_of(c);

    (void)state;
    lh_sim_disk_capacity(full, lh_sim_disk_used(full) + 100); /* no room for another chunk */
    for (int i = 0; i < 60; i++)
        lh_sim_append_begin(w, 1, 4000);
    HOLDS(c, lh_sim_flush(w, LONG));
    assert_true(lh_sim_chunk_count(c, FILE_PATH) >= 3);
    for (size_t m = 0; m < tail_of(c).member_count; m++)
        assert_string_not_equal(tail_of(c).members[m].server, lh_sim_name(full));
    all_is_well(c, w);
}

static void a_disk_that_fills_up_under_a_primary_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 220; seed < 226; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 4);
        struct lh_sim_writer *w = file_with_writer(c, false);
        struct lh_sim_node *full = seed % 2 == 0 ? primary_of(c) : secondary_of(c);
        lh_sim_disk_fail(full, LH_DISK_WRITE, LH_ERR_DISK_FULL, 2);
        for (int i = 0; i < 10; i++)
            lh_sim_append_begin(w, 1, 1000);
        HOLDS(c, lh_sim_flush(w, LONG));
        HOLDS(c, lh_sim_check_replicas(c, FILE_PATH, false));
        HOLDS(c, lh_sim_check_file(c, 1, FILE_PATH, LONG));
        the_end(c);
    }
}

/* FAIL-5: the replica is of no use any more; after a restart its file is not there by its name. */
static void a_failed_fsync_costs_the_replica_and_no_record(void **state)
{
    struct lh_replica_status status;

    (void)state;
    for (uint64_t seed = 230; seed < 240; seed++) {
        struct lh_sim_cluster_config config = short_terms(seed);
        config.servers = 4;
        config.master.repair_streams = 0; /* the lost replica stays, to be looked at */
        struct lh_sim_cluster *c = cluster_of(&config);
        struct lh_sim_writer *w = file_with_writer(c, true);
        struct lh_sim_node *node = seed % 2 == 0 ? primary_of(c) : secondary_of(c);
        struct lh_sim_chunk chunk = tail_of(c);
        lh_sim_disk_fail(node, LH_DISK_SYNC, LH_ERR_IO, 1);
        for (int i = 0; i < 6; i++)
            lh_sim_append_begin(w, 1, 1000);
        HOLDS(c, lh_sim_flush(w, LONG));
        run_for(c, lh_seconds(2));
        if (!replica_at(node, chunk.chunk).lost) {
            /* The sync that failed was of the probe file or came too late for this chunk. */
            the_end(c);
            continue;
        }
        lh_sim_crash(node);
        lh_sim_start(node);
        run_for(c, lh_seconds(2));
        assert_false(lh_chunkserver_replica(lh_sim_core(node), chunk.chunk, &status));
        assert_int_equal(lh_sim_append(w, 1, 100, LONG), LH_OK);
        HOLDS(c, lh_sim_check_replicas(c, FILE_PATH, false));
        HOLDS(c, lh_sim_check_file(c, 1, FILE_PATH, LONG));
        the_end(c);
    }
}

/* SES-6: it must not look alive. */
static void a_stalled_disk_gives_its_leases_up(void **state)
{
    struct lh_sim_cluster *c = cluster(250, 4);
    struct lh_sim_writer *w = file_with_writer(c, false);
    struct lh_sim_node *stalled = primary_of(c);
    uint64_t began = now_ms(c);

    (void)state;
    lh_sim_disk_stall(stalled, true);
    lh_sim_append_begin(w, 1, 100);
    HOLDS(c, lh_sim_flush(w, LONG));
    assert_ptr_not_equal(primary_of(c), stalled);
    assert_true(now_ms(c) - began < 20000);
    lh_sim_disk_stall(stalled, false);
    run_for(c, lh_seconds(5));
    HOLDS(c, lh_sim_check_replicas(c, FILE_PATH, false));
    HOLDS(c, lh_sim_check_file(c, 1, FILE_PATH, LONG));
    the_end(c);
}

/* FAIL-4: never served; another member has the bytes. */
static void a_reader_gets_around_a_rotten_replica(void **state)
{
    (void)state;
    for (uint64_t seed = 260; seed < 266; seed++) {
        struct lh_sim_cluster *c = cluster(seed, 3);
        struct lh_sim_writer *w = file_with_writer(c, true);
        for (int i = 0; i < 30; i++)
            lh_sim_append_begin(w, 1, 3000);
        HOLDS(c, lh_sim_flush(w, LONG));
        /* The first chunk is sealed by now. */
        lh_sim_file_rot(lh_sim_server(c, 1 + seed % 3), 1, LH_LOG_START + 5000, 4);
        HOLDS(c, lh_sim_check_file(c, 1, FILE_PATH, LONG));
        the_end(c);
    }
}

static void the_same_seed_tells_the_same_story(void **state)
{
    uint64_t hashes[3];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct lh_sim_cluster *c = cluster(i == 2 ? 301 : 300, 3);
        struct lh_sim_writer *w = file_with_writer(c, true);
        for (int n = 0; n < 40; n++)
            lh_sim_append_begin(w, 1, 3000);
        run_for(c, lh_milliseconds(10));
        lh_sim_power_loss(primary_of(c));
        HOLDS(c, lh_sim_flush(w, LONG));
        hashes[i] = lh_sim_hash(lh_sim_world(c));
        the_end(c);
    }
    assert_true(hashes[0] == hashes[1]);
    assert_true(hashes[0] != hashes[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_batches_are_acknowledged_in_order),
        cmocka_unit_test(records_of_every_length_fit),
        cmocka_unit_test(a_full_chunk_is_sealed_and_the_next_one_goes_on),
        cmocka_unit_test(several_writers_share_a_file),
        cmocka_unit_test(a_secondary_lost_in_mid_stream_costs_nothing),
        cmocka_unit_test(a_secondary_that_comes_back_soon_catches_up),
        cmocka_unit_test(links_that_break_repeat_nothing_and_lose_nothing),
        cmocka_unit_test(a_retry_lands_on_the_next_chunk_once),
        cmocka_unit_test(a_repeat_is_answered_when_it_is_committed_and_not_before),
        cmocka_unit_test(a_primary_lost_in_mid_stream_repeats_nothing_and_loses_nothing),
        cmocka_unit_test(a_torn_tail_is_cut_and_made_whole),
        cmocka_unit_test(power_loss_of_all_loses_nothing_synced),
        cmocka_unit_test(power_loss_of_one_loses_nothing_buffered),
        cmocka_unit_test(unverified_members_wait_for_the_one_that_is_not),
        cmocka_unit_test(a_seal_gets_to_the_disk_after_its_bytes),
        cmocka_unit_test(a_full_disk_sends_appends_elsewhere_or_waits),
        cmocka_unit_test(a_disk_that_fills_up_under_a_primary_loses_nothing),
        cmocka_unit_test(a_failed_fsync_costs_the_replica_and_no_record),
        cmocka_unit_test(a_stalled_disk_gives_its_leases_up),
        cmocka_unit_test(a_reader_gets_around_a_rotten_replica),
        cmocka_unit_test(the_same_seed_tells_the_same_story),
    };
    return RUN_STORIES(tests);
}
