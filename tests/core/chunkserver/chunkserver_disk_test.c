/* Stories about a machine that runs out of something, and about what logs take of its disk. */
#include "tests/core/chunkserver/chunkserver_story.h"

static struct conn *read_at(struct world *w, int node)
{
    return reader(w, node, (Leasehold__ReadRequest)LEASEHOLD__READ_REQUEST__INIT);
}

/* ------------------------------------------------------------------------------------------------
 * Shortages. */

static void a_write_or_sync_that_meets_a_shortage_is_asked_again(void **state)
{
    static const enum lh_disk_op ops[] = {LH_DISK_WRITE, LH_DISK_SYNC};

    (void)state;
    for (int node = A; node <= B; node++) {
        for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
            struct world *w = world_create(1, true);
            given_a_chunk(w, ABC);
            struct conn *c = given_a_writer(w, A, 1, 2);
            node_fail_disk(w, node, ops[i], 0, LH_ERR_SHORTAGE);
            append(c, 3, 100);
            settle(w);
            assert_false(answered(c, 3));
            append(c, 4, 100);
            pass(w, 100);
            (void)position(c, 3);
            (void)position(c, 4);
            for (int n = A; n <= C; n++)
                assert_false(node_status(w, n).lost);
            assert_int_equal(heard(w, A)->failed.n, 0);
            check_logs(w, ABC);
            world_destroy(w);
        }
    }
}

/* FAIL-5: what was acknowledged outlives the machines, although a sync was not begun at once. */
static void a_sync_that_met_a_shortage_is_not_forgotten(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    for (int n = A; n <= C; n++)
        node_fail_disk(w, n, LH_DISK_SYNC, 0, LH_ERR_SHORTAGE);
    append(c, 3, 100);
    pass(w, 100);
    assert_true(answered(c, 3));
    for (int n = A; n <= C; n++)
        node_kill(w, n, true);
    for (int n = A; n <= C; n++)
        node_start(w, n);
    settle(w);
    for (int n = A; n <= C; n++)
        assert_int_equal(node_status(w, n).length, 3 * 144);
    world_destroy(w);
}

static void a_reader_is_sent_on_when_a_shortage_lasts(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 2);
    pass(w, 10);
    node_fail_disk(w, B, LH_DISK_READ, 0, LH_ERR_SHORTAGE);
    struct conn *short_one = read_at(w, B);
    pass(w, 100);
    assert_int_equal(read_reply(short_one)->error, LEASEHOLD__ERROR_CODE__OK);

    w->nodes[B].starved = true;
    struct conn *long_one = read_at(w, B), *impatient = read_at(w, B);
    pass(w, 20);
    hang_up(impatient);
    pass(w, 2000);
    assert_int_equal(read_reply(long_one)->error, LEASEHOLD__ERROR_CODE__SHORTAGE);
    assert_false(node_status(w, B).lost);
    w->nodes[B].starved = false;
    pass(w, 2000);
    struct conn *later = read_at(w, B);
    settle(w);
    assert_int_equal(read_reply(later)->error, LEASEHOLD__ERROR_CODE__OK);
    world_destroy(w);
}

/* SES-6: whoever can begin nothing says so, and is well again when it can. */
static void a_server_that_starves_gives_its_leases_up(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    w->nodes[A].starved = true;
    append(c, 3, 100);
    pass(w, 8000);
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_true(heard(w, A)->heartbeat.failing);
    assert_false(node_status(w, A).lost);
    w->nodes[A].starved = false;
    pass(w, 8000);
    assert_true(!heard(w, A)->heartbeat.failing);
    master_grant(w, A, 2, ABC, 2);
    pass(w, 2000);
    assert_true(node_status(w, A).open);
    check_logs(w, ABC);
    world_destroy(w);
}

/* FAIL-5a: what the process before wrote there could not be written, and it was set aside. */
static void a_probe_whose_file_is_gone_makes_a_new_one(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    pass(w, 1000);
    node_file(w, B, LH_PROBE_FILE)->id = 1000;
    for (int i = 0; i < 10 && !heard(w, B)->heartbeat.failing; i++)
        pass(w, 1000);
    assert_true(heard(w, B)->heartbeat.failing);
    for (int i = 0; i < 10 && heard(w, B)->heartbeat.failing; i++)
        pass(w, 1000);
    assert_false(heard(w, B)->heartbeat.failing);
    assert_non_null(node_file(w, B, LH_PROBE_FILE));
    world_destroy(w);
}

static void a_start_amid_a_shortage_loses_nothing(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 5);
    node_kill(w, B, false);
    w->nodes[B].starved = true;
    node_start(w, B);
    pass(w, 5000);
    assert_int_equal(w->nodes[B].registrations, 1);
    w->nodes[B].starved = false;
    pass(w, 3000);
    assert_int_equal(w->nodes[B].registrations, 2);
    assert_false(w->nodes[B].registered->register_->replicas[0]->lost);
    assert_int_equal(node_status(w, B).length, 5 * 144);
    world_destroy(w);
}

/* Files are read back a few at a time, and who asks for the last one meanwhile may believe what it
 * hears: a primary reports a member without a replica as failed. */
static void what_is_not_yet_read_back_is_not_called_missing(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 5);
    node_kill(w, B, false);
    node_put_file(w, B, CHUNK - 1, "another chunk's", 15);
    w->bounds.scan_files = 1;
    w->nodes[B].starved = true;
    node_start(w, B);
    struct conn *early = read_at(w, B);
    settle(w);
    assert_int_equal(read_reply(early)->error, LEASEHOLD__ERROR_CODE__RECOVERING);
    w->nodes[B].starved = false;
    pass(w, 3000);
    struct conn *later = read_at(w, B);
    settle(w);
    assert_int_equal(read_reply(later)->error, LEASEHOLD__ERROR_CODE__OK);
    world_destroy(w);
}

static void a_replica_is_created_when_a_shortage_is_over(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    w->nodes[A].starved = true;
    master_create(w, 1u << A);
    pass(w, 300);
    assert_int_equal(heard(w, A)->created.n, 0);
    w->nodes[A].starved = false;
    pass(w, 2000);
    assert_int_equal(heard(w, A)->created.n, 1);
    assert_int_equal(heard(w, A)->created.error, LH_OK);
    w->nodes[A].starved = true;
    master_remove(w, A, 0);
    pass(w, 300);
    assert_int_equal(heard(w, A)->removed.n, 0);
    w->nodes[A].starved = false;
    pass(w, 2000);
    assert_int_equal(heard(w, A)->removed.n, 1);
    world_destroy(w);
}

/* ------------------------------------------------------------------------------------------------
 * Room. */

static size_t reserved(struct world *w, int node)
{
    return node_file(w, node, CHUNK)->reserved;
}

/* A writer at A that is to have `bytes` acknowledged, in batches of 1000. */
static struct conn *given_a_log_of(struct world *w, uint64_t bytes)
{
    struct conn *c = appender(w, A, 1, WRITER, 1);

    settle(w);
    for (uint64_t s = 1; s <= bytes / 1000; s++) {
        append(c, s, 1000 - 44);
        settle(w);
        (void)position(c, s);
    }
    return c;
}

static void room_is_reserved_in_steps_and_given_back_at_rest(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    w->bounds.reserve_least_bytes = 4000;
    w->bounds.reserve_grown_bytes = 12000;
    w->bounds.reserve_most_bytes = 20000;
    for (int n = A; n <= C; n++) {
        node_kill(w, n, false);
        node_start(w, n);
    }
    settle(w);
    given_a_chunk(w, ABC);
    struct conn *c = given_a_log_of(w, 3000);
    assert_int_equal(reserved(w, B), 0);
    append(c, 4, 1000 - 44);
    settle(w);
    for (int n = A; n <= C; n++)
        assert_int_equal(reserved(w, n), LH_LOG_START + 8000);
    for (uint64_t s = 5; s <= 30; s++) {
        append(c, s, 1000 - 44);
        settle(w);
        size_t room = reserved(w, B) - LH_LOG_START;
        assert_true(room > s * 1000 && room <= s * 1000 + (s < 12 ? s * 1000 : 20000));
    }
    pass(w, 9000);
    assert_true(reserved(w, B) > 0);
    pass(w, 2000);
    for (int n = A; n <= C; n++)
        assert_int_equal(reserved(w, n), 0);
    /* It begins to grow again: not as fast as it did. */
    append(c, 31, 1000 - 44);
    settle(w);
    assert_int_equal(reserved(w, B), LH_LOG_START + 43000);
    check_logs(w, ABC);
    world_destroy(w);
}

static struct world *given_a_disk_that_is_full_for_a_reservation(void)
{
    struct world *w = world_create(1, true);

    w->bounds.reserve_least_bytes = 2000;
    node_kill(w, A, false);
    node_start(w, A);
    settle(w);
    given_a_chunk(w, ABC);
    node_fail_disk(w, A, LH_DISK_RESERVE, 0, LH_ERR_DISK_FULL);
    return w;
}

static void a_reservation_that_fails_is_no_full_disk(void **state)
{
    (void)state;
    struct world *w = given_a_disk_that_is_full_for_a_reservation();
    struct conn *c = given_a_log_of(w, 2000);
    assert_int_equal(reserved(w, A), 0);
    for (uint64_t s = 3; s <= 4; s++) {
        append(c, s, 1000 - 44);
        settle(w);
        (void)position(c, s);
    }
    assert_int_equal(reserved(w, A), LH_LOG_START + 8000); /* it was tried again further on */
    assert_int_equal(c->error, LH_OK);
    world_destroy(w);
}

/* A file system may give what it has before it says that it is full; others need it. */
static void what_a_reservation_that_failed_has_taken_is_given_back(void **state)
{
    (void)state;
    struct world *w = given_a_disk_that_is_full_for_a_reservation();
    w->nodes[A].disk_stalled = true;
    struct conn *c = appender(w, A, 1, WRITER, 1);
    settle(w);
    append(c, 1, 2500);
    settle(w);
    bool taken = false;
    for (size_t i = 0; i < w->op_count && !taken; i++) {
        if (w->ops[i].node != A || w->ops[i].op != LH_DISK_RESERVE)
            continue;
        disk_complete(w, i);
        taken = true;
    }
    assert_true(taken);
    assert_true(reserved(w, A) > LH_LOG_START + 2500);
    w->nodes[A].disk_stalled = false;
    settle(w);
    (void)position(c, 1);
    assert_int_equal(reserved(w, A), 0);
    world_destroy(w);
}

static void room_is_given_back_at_the_seal_and_at_a_start(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    w->bounds.reserve_least_bytes = 2000;
    for (int n = A; n <= C; n++) {
        node_kill(w, n, false);
        node_start(w, n);
    }
    settle(w);
    given_a_chunk(w, ABC);
    (void)given_a_log_of(w, 3000);
    assert_true(reserved(w, A) > 0 && reserved(w, B) > 0);
    node_kill(w, B, false);
    node_start(w, B);
    settle(w);
    assert_int_equal(reserved(w, B), 0);
    uint64_t sum = node_status(w, A).checksum;
    master_record_seal(w, C, 1, 3000, sum);
    settle(w);
    assert_true(node_status(w, C).sealed);
    assert_int_equal(reserved(w, C), 0);
    world_destroy(w);
}

/* What a growing log may still take is not offered to others; what rests takes what it has. */
static void room_is_promised_once(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    lh_chunkserver_set_space(w->nodes[A].cs, 10 * CHUNK_SIZE, 5 * CHUNK_SIZE);
    given_a_chunk(w, ABC);
    pass(w, 4000);
    assert_int_equal(heard(w, A)->heartbeat.bytes, 4 * CHUNK_SIZE);
    (void)given_a_log_of(w, 5000);
    pass(w, 4000);
    assert_int_equal(heard(w, A)->heartbeat.bytes, 4 * CHUNK_SIZE + 5000);
    pass(w, 15000);
    assert_int_equal(heard(w, A)->heartbeat.bytes, 5 * CHUNK_SIZE);
    world_destroy(w);
}

/* Of many new files, and of many that grow slowly, each takes little: no whole chunk is promised to
 * it, and the others find room (A chunk has sixteen times what a new log is expected to take.) */
static void what_is_promised_is_what_is_likely(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    w->bounds.reserve_least_bytes = CHUNK_SIZE / 16;
    w->bounds.reserve_grown_bytes = CHUNK_SIZE / 8;
    for (int n = A; n <= C; n++) {
        node_kill(w, n, false);
        node_start(w, n);
    }
    settle(w);
    lh_chunkserver_set_space(w->nodes[A].cs, 10 * CHUNK_SIZE, 5 * CHUNK_SIZE);
    given_a_chunk(w, ABC);
    pass(w, 4000);
    assert_int_equal(heard(w, A)->heartbeat.bytes, 5 * CHUNK_SIZE - CHUNK_SIZE / 16);

    /* As much again as it grew, but for what is reserved. */
    uint64_t length = CHUNK_SIZE / 2 / 1000 * 1000;
    struct conn *c = given_a_log_of(w, length);
    pass(w, 4000);
    uint64_t room = reserved(w, A) - LH_LOG_START;
    assert_true(room >= length);
    assert_int_equal(heard(w, A)->heartbeat.bytes, 5 * CHUNK_SIZE - (2 * length - room));

    /* It grows slowly from then on, and what it did before is forgotten. */
    for (uint64_t s = 1; s <= 12; s++) {
        append(c, length / 1000 + s, 44);
        settle(w);
        pass(w, 3000);
    }
    uint64_t end = node_status(w, A).length, has = reserved(w, A) - LH_LOG_START;
    uint64_t likely = end + CHUNK_SIZE / 16;
    assert_int_equal(
        heard(w, A)->heartbeat.bytes, 5 * CHUNK_SIZE - (likely > has ? likely - has : 0));
    assert_true(has < CHUNK_SIZE || likely <= has);
    world_destroy(w);
}

/* ------------------------------------------------------------------------------------------------
 * Memory. */

/* What a primary sends is bounded by what this server has not written, and by nobody else. */
static void a_secondary_that_cannot_write_holds_its_primary(void **state)
{
    (void)state;
    struct world *w = world_create(1, false);
    w->pending_bytes = 4000;
    node_kill(w, B, false);
    node_start(w, B);
    settle(w);
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    w->nodes[B].disk_stalled = true;
    for (uint64_t s = 3; s <= 12; s++) {
        append(c, s, 1000);
        settle(w);
    }
    assert_true(node_status(w, B).length < 8 * 1000);
    assert_true(node_status(w, A).length > 10 * 1000);
    w->nodes[B].disk_stalled = false;
    settle(w);
    for (uint64_t s = 3; s <= 12; s++)
        (void)position(c, s);
    check_logs(w, ABC);
    world_destroy(w);
}

/* That the rest of a message does not come while nobody reads is no fault of the peer's, however
 * long it lasts. */
static void a_message_on_a_held_stream_may_take_for_ever(void **state)
{
    (void)state;
    struct world *w = world_create(1, false);
    uint64_t link = 0;
    w->pending_bytes = 2000;
    node_kill(w, B, false);
    node_start(w, B);
    settle(w);
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    w->nodes[B].disk_stalled = true;
    for (uint64_t s = 3; s <= 12; s++) {
        append(c, s, 1000);
        settle(w);
    }
    for (size_t i = 0; i < w->wire_count; i++)
        if (w->wires[i]->method == LH_METHOD_REPLICATE && w->wires[i]->held[true])
            link = w->wires[i]->server_link;
    assert_true(link != 0);
    node_input(w, B,
        (struct lh_input){.kind = LH_IN_PROGRESS, .link = link, .method = LH_METHOD_REPLICATE});
    for (int hour = 0; hour < 2; hour++) {
        w->now = lh_instant_add(w->now, lh_seconds(3600));
        node_input(w, B, (struct lh_input){.kind = LH_IN_TIMER});
    }
    world_destroy(w);
}

/* The table of a sealed log goes when nobody asks any more, and is read back when somebody does. */
static void the_table_of_a_sealed_log_is_read_back_when_asked_for(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    master_record_seal(w, B, 1, 3 * 144, node_status(w, B).checksum);
    settle(w);
    for (int again = 0; again < 3; again++) {
        struct conn *c = settler(w, B, 1, WRITER);
        settle(w);
        const Leasehold__SettleReply *m = settle_reply(c);
        assert_int_equal(m->error, LEASEHOLD__ERROR_CODE__OK);
        assert_true(m->known && m->first_sequence == 1 && m->last_sequence == 3);
        assert_int_equal(m->n_last, 3);
        pass(w, again == 0 ? 1000 : 70000);
    }
    world_destroy(w);
}

/* ------------------------------------------------------------------------------------------------
 * Pauses. */

/* Nothing runs while this time passes. */
static void sleep_for(struct world *w, uint64_t ms)
{
    w->now = lh_instant_add(w->now, lh_milliseconds(ms));
}

static void a_pause_is_no_silence_of_the_members(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    w->stalled[B][A] = w->stalled[C][A] = true;
    append(c, 3, 100);
    settle(w);
    pass(w, 900);
    sleep_for(w, 3000);
    node_input(w, A, (struct lh_input){.kind = LH_IN_TIMER});
    assert_int_equal(heard(w, A)->failed.n, 0);
    w->stalled[B][A] = w->stalled[C][A] = false;
    settle(w);
    (void)position(c, 3);
    assert_int_equal(heard(w, A)->failed.n, 0);

    /* Once: who stays silent is reported, although we sleep again and again. */
    w->stalled[B][A] = true;
    append(c, 4, 100);
    settle(w);
    for (int i = 0; i < 5; i++) {
        sleep_for(w, 1500);
        pass(w, 10);
    }
    assert_true(heard(w, A)->failed.n > 0);
    world_destroy(w);
}

static void a_pause_is_no_silence_of_the_disk(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    pass(w, 2900);
    w->nodes[A].disk_stalled = true;
    append(c, 3, 100);
    settle(w);
    sleep_for(w, 4000);
    node_input(w, A, (struct lh_input){.kind = LH_IN_TIMER});
    settle(w);
    assert_false(heard(w, A)->heartbeat.failing);
    assert_int_equal(heard(w, A)->release.n, 0);
    pass(w, 8000); /* but it does hang */
    assert_true(heard(w, A)->heartbeat.failing);
    world_destroy(w);
}

/* For operators: what was ordered goes with the heartbeats, of the primary alone. */
static void a_primary_tells_what_it_ordered(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    pass(w, 4000);
    assert_true(heard(w, A)->ordered >= 300);
    assert_int_equal(heard(w, B)->ordered, 0);
    world_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_or_sync_that_meets_a_shortage_is_asked_again),
        cmocka_unit_test(a_sync_that_met_a_shortage_is_not_forgotten),
        cmocka_unit_test(a_reader_is_sent_on_when_a_shortage_lasts),
        cmocka_unit_test(a_server_that_starves_gives_its_leases_up),
        cmocka_unit_test(a_probe_whose_file_is_gone_makes_a_new_one),
        cmocka_unit_test(a_start_amid_a_shortage_loses_nothing),
        cmocka_unit_test(what_is_not_yet_read_back_is_not_called_missing),
        cmocka_unit_test(a_replica_is_created_when_a_shortage_is_over),
        cmocka_unit_test(room_is_reserved_in_steps_and_given_back_at_rest),
        cmocka_unit_test(a_reservation_that_fails_is_no_full_disk),
        cmocka_unit_test(what_a_reservation_that_failed_has_taken_is_given_back),
        cmocka_unit_test(room_is_given_back_at_the_seal_and_at_a_start),
        cmocka_unit_test(room_is_promised_once),
        cmocka_unit_test(what_is_promised_is_what_is_likely),
        cmocka_unit_test(a_secondary_that_cannot_write_holds_its_primary),
        cmocka_unit_test(a_message_on_a_held_stream_may_take_for_ever),
        cmocka_unit_test(the_table_of_a_sealed_log_is_read_back_when_asked_for),
        cmocka_unit_test(a_pause_is_no_silence_of_the_members),
        cmocka_unit_test(a_pause_is_no_silence_of_the_disk),
        cmocka_unit_test(a_primary_tells_what_it_ordered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
