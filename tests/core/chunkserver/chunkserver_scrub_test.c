/* Stories about the scrub (FAIL-4): rot is found before anybody reads it, slowly, and a server that
 * is started often comes to an end too. */
#include "tests/core/chunkserver/chunkserver_story.h"

#include "chunkserver/log/header.h"

#include <stdlib.h>
#include <string.h>

#define HOUR_S 3600u

static struct lh_chunkserver_stats stats(struct world *w, int node)
{
    struct lh_chunkserver_stats s;

    lh_chunkserver_stats(w->nodes[node].cs, &s);
    return s;
}

/* A file with `batches` batches of 1000 bytes of two writers in turn; sealed or not. */
static void given_a_log(struct world *w, int node, uint64_t chunk, unsigned batches, bool sealed)
{
    struct lh_chunk_header h = {
        .generation = 1,
        .version = 1,
        .chunk_size = CHUNK_SIZE,
        .sealed = sealed,
        .sealed_checksum = lh_log_seed(chunk),
    };
    size_t size = LH_LOG_START;
    uint8_t *bytes = calloc(1, LH_LOG_START + CHUNK_SIZE);

    for (unsigned i = 0; i < batches; i++) {
        struct lh_buf batch = make_batch(WRITER + i % 2, 1 + i / 2, 1, 1000);
        batch = chained(&batch, &h.sealed_checksum);
        assert_true(size + batch.size <= LH_LOG_START + CHUNK_SIZE);
        assert_true(lh_buf_read(&batch, 0, bytes + size, batch.size));
        size += batch.size;
        lh_buf_clear(&batch);
    }
    h.sealed_length = h.committed = size - LH_LOG_START;
    struct lh_buf slot = lh_chunk_header_encode(chunk, &h);
    assert_true(lh_buf_read(&slot, 0, bytes + lh_chunk_header_offset(&h), slot.size));
    lh_buf_clear(&slot);
    node_put_file(w, node, chunk, bytes, size);
    free(bytes);
}

/* A world in which server A scrubs once an hour, at most at this rate. */
static struct world *given_a_world(uint64_t rate)
{
    struct world *w = world_create(1, true);

    w->scrub_period = lh_seconds(HOUR_S);
    w->scrub_rate = rate;
    node_kill(w, A, false);
    settle(w);
    return w;
}

static void pass_seconds(struct world *w, uint64_t s)
{
    pass(w, s * 1000);
}

static void flip(struct world *w, int node, uint64_t chunk, size_t at)
{
    struct file *f = node_file(w, node, chunk);

    f->cache[LH_LOG_START + at] ^= 16;
}

static bool lost(struct world *w, int node, uint64_t chunk)
{
    struct lh_replica_status s;

    assert_true(lh_chunkserver_replica(w->nodes[node].cs, chunk, &s));
    return s.lost;
}

static void one_flipped_bit_in_a_sealed_log_is_found(void **state)
{
    (void)state;
    for (size_t at = 0; at < 3 * 1044; at += 311) {
        struct world *w = given_a_world(0);
        for (uint64_t chunk = 1; chunk <= 3; chunk++)
            given_a_log(w, A, chunk, 3, true);
        flip(w, A, 2, at);
        node_start(w, A);
        settle(w);
        assert_false(lost(w, A, 2));
        heard_clear(w);
        pass_seconds(w, 10);
        assert_true(lost(w, A, 2) && !lost(w, A, 1) && !lost(w, A, 3));
        assert_int_equal(w->nodes[A].heard.lost.n, 1);
        assert_int_equal(w->nodes[A].heard.lost.error, LH_ERR_CORRUPT);
        assert_int_equal(stats(w, A).scrub_found, 1);

        /* For good. */
        restart(w, A, false);
        assert_true(lost(w, A, 2));
        world_destroy(w);
    }
}

static void one_flipped_bit_in_an_open_log_is_found(void **state)
{
    (void)state;
    for (size_t at = 0; at < 3 * 1044; at += 311) {
        struct world *w = given_a_world(0);
        given_a_log(w, A, 5, 3, false);
        node_start(w, A);
        settle(w);
        flip(w, A, 5, at);
        heard_clear(w);
        pass_seconds(w, 10);
        assert_true(lost(w, A, 5));
        assert_int_equal(w->nodes[A].heard.lost.error, LH_ERR_CORRUPT);
        world_destroy(w);
    }
}

static void a_log_that_grows_is_read_as_far_as_it_is_committed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct world *w = world_create(seed, seed % 2 == 0);
        w->scrub_period = lh_seconds(10);
        restart(w, A, false);
        restart(w, B, false);
        master_create(w, AB);
        settle(w);
        master_grant(w, A, 1, AB, 2);
        settle(w);
        struct conn *c = appender(w, A, 1, WRITER, 1);
        settle(w);
        for (uint64_t s = 1; s <= 200; s++) {
            append(c, s, 200);
            pass(w, 1 + s * 37 % 400);
        }
        settle(w);
        assert_true(answered(c, 200));
        assert_true(stats(w, A).scrub_passes >= 2 && stats(w, B).scrub_passes >= 2);
        assert_true(stats(w, A).scrub_read > 0 && stats(w, B).scrub_read > 0);
        assert_int_equal(stats(w, A).scrub_found + stats(w, B).scrub_found, 0);
        check_logs(w, AB);

        /* And what was acknowledged lately is no exception. */
        flip(w, B, CHUNK, 150 * 244 + 50);
        pass_seconds(w, 25);
        assert_true(node_status(w, B).lost && !node_status(w, A).lost);
        world_destroy(w);
    }
}

static void a_log_that_was_empty_when_the_pass_began_is_read_in_time(void **state)
{
    struct world *w = world_create(1, true);

    (void)state;
    w->scrub_period = lh_seconds(10);
    w->bounds.scrub_bytes = 1000;
    w->bounds.scrub_least_bytes = 100;
    master_create(w, AB);
    settle(w);
    restart(w, B, false);
    master_grant(w, A, 1, AB, 2);
    settle(w);
    struct conn *c = appender(w, A, 1, WRITER, 1);
    settle(w);
    for (uint64_t s = 1; s <= 12; s++)
        append(c, s, 3956);
    settle(w);
    assert_true(answered(c, 12));

    /* At the pace of what was held when the server started, its end would be read in 8 minutes. */
    flip(w, B, CHUNK, 11 * 4000 + 50);
    pass_seconds(w, 25);
    assert_true(node_status(w, B).lost);
    world_destroy(w);
}

static void a_file_that_was_cut_is_found(void **state)
{
    (void)state;
    for (unsigned sealed = 0; sealed < 2; sealed++) {
        struct world *w = given_a_world(0);
        given_a_log(w, A, 5, 3, sealed == 1);
        node_start(w, A);
        settle(w);
        struct file *f = node_file(w, A, 5);
        f->size -= 1044; /* at a batch's end */
        pass_seconds(w, 10);
        assert_true(lost(w, A, 5));
        world_destroy(w);
    }
}

static void a_batch_in_the_wrong_place_is_found_by_the_running_checksum(void **state)
{
    (void)state;
    for (unsigned sealed = 0; sealed < 2; sealed++) {
        struct world *w = given_a_world(0);
        given_a_log(w, A, 5, 4, sealed == 1);
        node_start(w, A);
        settle(w);
        struct file *f = node_file(w, A, 5);
        memcpy(f->cache + LH_LOG_START, f->cache + LH_LOG_START + 1044, 1044);
        pass_seconds(w, 10);
        assert_true(lost(w, A, 5));
        world_destroy(w);
    }
}

static void a_disk_that_cannot_read_loses_the_replica(void **state)
{
    (void)state;
    struct world *w = given_a_world(0);
    given_a_log(w, A, CHUNK, 3, true);
    node_start(w, A);
    settle(w);
    heard_clear(w);
    w->nodes[A].unreadable = true; /* once says nothing */
    pass_seconds(w, 20);
    assert_true(lost(w, A, CHUNK));
    assert_int_equal(w->nodes[A].heard.lost.error, LH_ERR_IO);
    world_destroy(w);
}

static void a_pass_keeps_its_rate_and_is_made_once_in_the_period(void **state)
{
    (void)state;
    /* 4 logs of about 62 KB at 8 KiB a second take half a minute. */
    struct world *w = given_a_world(8u << 10);
    uint64_t held = 0;
    for (uint64_t chunk = 1; chunk <= 4; chunk++) {
        given_a_log(w, A, chunk, 60, true);
        held += UINT64_C(60) * 1044;
    }
    node_start(w, A);
    settle(w);
    assert_int_equal(stats(w, A).scrub_rate, 8u << 10);
    for (uint64_t s = 0; s < 60; s++) {
        uint64_t before = stats(w, A).scrub_read;
        pass_seconds(w, 1);
        /* One piece may be larger than what a second pays for; it is paid for later. */
        assert_true(stats(w, A).scrub_read - before <= CHUNK_SIZE);
        assert_true(stats(w, A).scrub_read <= (s + 2) * 8192 + CHUNK_SIZE);
    }
    assert_int_equal(stats(w, A).scrub_read, held);
    assert_int_equal(stats(w, A).scrub_passes, 0);
    pass_seconds(w, HOUR_S - 60 - 100);
    assert_int_equal(stats(w, A).scrub_read, held); /* once */
    pass_seconds(w, 300);
    assert_int_equal(stats(w, A).scrub_read, 2 * held);
    assert_int_equal(stats(w, A).scrub_passes, 1);
    world_destroy(w);
}

static void much_that_is_held_is_read_faster(void **state)
{
    (void)state;
    /* What must be read in ten seconds goes faster than the least rate, and not above the most. */
    for (uint64_t most = 32u << 10; most <= 1u << 20; most <<= 5) {
        struct world *w = given_a_world(most);
        w->scrub_period = lh_seconds(1);
        for (uint64_t chunk = 1; chunk <= 4; chunk++)
            given_a_log(w, A, chunk, 60, true);
        node_start(w, A);
        settle(w);
        uint64_t needed = UINT64_C(4) * 60 * 1044;
        assert_int_equal(stats(w, A).scrub_rate, needed < most ? needed : most);
        world_destroy(w);
    }
}

static void a_restart_goes_on_where_it_was(void **state)
{
    (void)state;
    for (unsigned clean = 0; clean < 2; clean++) {
        struct world *w = given_a_world(1u << 10); /* a log takes a minute */
        for (uint64_t chunk = 1; chunk <= 7; chunk++)
            given_a_log(w, A, chunk, 60, true);
        node_start(w, A);
        settle(w);
        for (unsigned s = 0; stats(w, A).scrub_chunk < 6; s++) {
            pass_seconds(w, 1);
            assert_true(s < 10000);
        }
        if (clean == 1) {
            node_input(w, A, (struct lh_input){.kind = LH_IN_STOP});
            settle(w);
            assert_true(w->nodes[A].stopped);
        } else {
            pass_seconds(w, 30); /* it is kept every five minutes */
        }
        restart(w, A, false);
        uint64_t resumed = stats(w, A).scrub_chunk;
        assert_int_equal(resumed, clean == 1 ? 6 : 5);
        flip(w, A, 1, 100);
        flip(w, A, 7, 100);
        pass_seconds(w, 3 * 70);
        assert_true(lost(w, A, 7) && !lost(w, A, 1)); /* that is the next pass's */
        assert_int_equal(stats(w, A).scrub_passes, 0);
        pass_seconds(w, HOUR_S);
        assert_true(lost(w, A, 1));
        world_destroy(w);
    }
}

static void a_pass_that_was_interrupted_counts_its_age(void **state)
{
    (void)state;
    struct world *w = given_a_world(0);
    given_a_log(w, A, 1, 10, true);
    node_start(w, A);
    pass_seconds(w, HOUR_S / 2);
    node_input(w, A, (struct lh_input){.kind = LH_IN_STOP});
    settle(w);
    restart(w, A, false);
    assert_int_equal(stats(w, A).scrub_chunk, 1);
    pass_seconds(w, HOUR_S / 2 - 100);
    assert_int_equal(stats(w, A).scrub_read, 0);
    pass_seconds(w, 200);
    assert_int_equal(stats(w, A).scrub_read, 10 * 1044);
    world_destroy(w);
}

static void what_is_no_position_begins_the_pass_anew(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "-", "x 1", "1", "-1 -1",
        "99999999999999999999 99999999999999999999", "18446744073709551615 5"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct world *w = given_a_world(0);
        given_a_log(w, A, 1, 10, true);
        (void)strcpy(w->nodes[A].scrub, texts[i]);
        node_start(w, A);
        pass_seconds(w, 2 * HOUR_S); /* whatever it said, within a period it is read */
        assert_true(stats(w, A).scrub_read >= 10 * 1044);
        world_destroy(w);
    }
}

static void a_period_of_forever_is_off(void **state)
{
    (void)state;
    struct world *w = given_a_world(0);
    w->scrub_period = LH_DURATION_FOREVER;
    given_a_log(w, A, 1, 10, true);
    flip(w, A, 1, 50);
    node_start(w, A);
    pass_seconds(w, UINT64_C(20) * 24 * HOUR_S / 100);
    assert_int_equal(stats(w, A).scrub_read, 0);
    assert_int_equal(stats(w, A).scrub_rate, 0);
    assert_false(lost(w, A, 1));
    assert_string_equal(w->nodes[A].scrub, "");
    world_destroy(w);
}

/* Its file goes, or is made a copy, while a piece of it is being read. */
static void what_is_removed_or_copied_to_meanwhile_is_left_alone(void **state)
{
    (void)state;
    for (unsigned copied = 0; copied < 2; copied++) {
        struct world *w = given_a_world(0);
        given_a_log(w, A, CHUNK, 10, false);
        given_a_log(w, A, CHUNK + 1, 10, true);
        node_start(w, A);
        settle(w);
        w->nodes[A].disk_stalled = true;
        pass_seconds(w, 2);
        if (copied == 1)
            master_copy(w, A, 2, true, 5000, 1, 1u << B); /* it cannot add up */
        else
            master_remove(w, A, 1);
        settle(w);
        w->nodes[A].disk_stalled = false;
        pass_seconds(w, 20);
        assert_int_equal(stats(w, A).scrub_found, 0);
        assert_int_equal(stats(w, A).scrub_chunk, CHUNK + 1);
        assert_true(copied == 1 || node_file(w, A, CHUNK) == NULL);
        world_destroy(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_flipped_bit_in_a_sealed_log_is_found),
        cmocka_unit_test(one_flipped_bit_in_an_open_log_is_found),
        cmocka_unit_test(a_log_that_grows_is_read_as_far_as_it_is_committed),
        cmocka_unit_test(a_log_that_was_empty_when_the_pass_began_is_read_in_time),
        cmocka_unit_test(a_file_that_was_cut_is_found),
        cmocka_unit_test(a_batch_in_the_wrong_place_is_found_by_the_running_checksum),
        cmocka_unit_test(a_disk_that_cannot_read_loses_the_replica),
        cmocka_unit_test(a_pass_keeps_its_rate_and_is_made_once_in_the_period),
        cmocka_unit_test(much_that_is_held_is_read_faster),
        cmocka_unit_test(a_restart_goes_on_where_it_was),
        cmocka_unit_test(a_pass_that_was_interrupted_counts_its_age),
        cmocka_unit_test(what_is_no_position_begins_the_pass_anew),
        cmocka_unit_test(a_period_of_forever_is_off),
        cmocka_unit_test(what_is_removed_or_copied_to_meanwhile_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
