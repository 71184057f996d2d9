/* Stories about a file that goes on in its next chunk when a primary is lost (FAIL-2a), as the
 * chunkservers see it. Each is told under several orders of events, for synced and for buffered
 * files. */
#include "tests/core/chunkserver/chunkserver_story.h"

#include <stdlib.h>
#include <string.h>

/* What C is sent by A waits, so that one batch is on A's and B's disks alone. */
static void given_a_batch_without_c(struct world *w, struct conn *c, uint64_t sequence)
{
    w->stalled[A][C] = true;
    append(c, sequence, 100);
    settle(w);
    assert_false(answered(c, sequence));
    assert_int_equal(node_status(w, B).length, sequence * BATCH);
    assert_int_equal(node_status(w, C).length, (sequence - 1) * BATCH);
}

STORY(an_inquiry_is_answered_by_a_heartbeat_at_once)
{
    master_inquire(w, A);
    heard_clear(w);
    settle(w);
    assert_int_equal(heard(w, A)->heartbeat.n, 1);

    /* The next one is due a whole interval later. */
    pass(w, SESSION_TERM_MS / 3 - 1);
    assert_int_equal(heard(w, A)->heartbeat.n, 1);
    pass(w, 1);
    assert_int_equal(heard(w, A)->heartbeat.n, 2);

    /* A master of another session has no say. */
    w->nodes[A].session++;
    master_inquire(w, A);
    w->nodes[A].session--;
    settle(w);
    assert_int_equal(heard(w, A)->heartbeat.n, 2);
}

STORY(a_fenced_member_reports_its_log_and_stops_the_primary)
{
    struct conn *c = given_a_written_chunk(w, 2);
    given_a_batch_without_c(w, c, 3);
    master_fence(w, B, 2);
    master_fence(w, C, 2);
    settle(w);
    assert_true(heard(w, B)->fenced.n == 1 && heard(w, B)->fenced.error == LH_OK);
    assert_int_equal(heard(w, B)->fenced.version, 2);
    assert_int_equal(heard(w, B)->fenced.length, 3 * BATCH);
    assert_true(heard(w, B)->fenced.checksum == node_status(w, B).checksum);
    assert_true(heard(w, B)->fenced.committed <= 2 * BATCH);
    assert_false(heard(w, B)->fenced.unverified);
    assert_int_equal(heard(w, C)->fenced.length, 2 * BATCH);
    assert_int_equal(node_status(w, C).version, 2);

    /* A hears of it with what B answers: it tells its clients, and gives its version back. */
    assert_false(node_status(w, A).primary);
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_int_equal(c->error, LH_ERR_STALE_VERSION);

    /* What was on its way to C comes too late. */
    w->stalled[A][C] = false;
    pass(w, 1000);
    assert_false(answered(c, 3));
    assert_int_equal(node_status(w, C).length, 2 * BATCH);
}

STORY(a_fence_is_answered_when_it_is_durable)
{
    struct conn *c = given_a_written_chunk(w, 1);
    w->nodes[B].disk_stalled = true;
    append(c, 2, 100);
    settle(w);
    master_fence(w, B, 2);
    settle(w);
    master_fence(w, B, 2); /* asked again meanwhile: one answer is enough */
    settle(w);
    assert_int_equal(heard(w, B)->fenced.n, 0);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_int_equal(heard(w, B)->fenced.n, 1);
    assert_int_equal(heard(w, B)->fenced.length, 2 * BATCH); /* what it had accepted before */

    /* Asked again after it: answered again. Only then would a crash undo nothing. */
    master_fence(w, B, 2);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.n, 2);
    node_kill(w, B, true);
    node_start(w, B);
    settle(w);
    assert_int_equal(node_status(w, B).version, 2);
    assert_int_equal(node_status(w, B).length, 2 * BATCH);

    /* The machine of a buffered file went down: it says so (REC-2a). */
    master_fence(w, B, 2);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.n, 3);
    assert_true(heard(w, B)->fenced.unverified == !w->synced);
    assert_int_equal(heard(w, B)->fenced.length, 2 * BATCH);
}

STORY(a_fence_of_an_earlier_session_is_answered_in_the_present_one)
{
    (void)given_a_written_chunk(w, 1);
    w->nodes[B].disk_stalled = true;
    master_fence(w, B, 2);
    settle(w);
    break_wire(w, w->nodes[B].session_wire);
    pass(w, 200);
    master_fence(w, B, 2);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.n, 0);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_int_equal(heard(w, B)->fenced.n, 1);
}

STORY(a_fence_ends_with_its_replica)
{
    struct conn *c = given_a_written_chunk(w, 1);
    w->nodes[B].disk_stalled = true;
    append(c, 2, 100);
    settle(w);
    master_fence(w, B, 2);
    settle(w);
    master_remove(w, B, 2);
    settle(w);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_true(heard(w, B)->fenced.n == 0 || heard(w, B)->fenced.error != LH_OK);
}

STORY(a_fenced_primary_ends_and_reports_too)
{
    struct conn *c = given_a_written_chunk(w, 1);
    w->stalled[A][B] = w->stalled[A][C] = true;
    append(c, 2, 100);
    settle(w);
    master_fence(w, A, 2);
    settle(w);
    assert_int_equal(c->error, LH_ERR_STALE_VERSION);
    assert_false(answered(c, 2));
    assert_int_equal(heard(w, A)->release.version, 1);
    /* What it has committed, and not what it has ordered: only that was acknowledged. */
    assert_true(heard(w, A)->fenced.primary);
    assert_int_equal(heard(w, A)->fenced.length, BATCH);
    master_fence(w, B, 2);
    settle(w);
    assert_false(heard(w, B)->fenced.primary);
    assert_int_equal(heard(w, B)->fenced.length, BATCH);
    assert_int_equal(heard(w, B)->fenced.checksum, heard(w, A)->fenced.checksum);
    assert_false(node_status(w, A).primary);

    /* A grant of what it was fenced from is refused (FENCE-1). */
    master_grant(w, A, 1, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, A)->confirm.error, LH_ERR_STALE_VERSION);
}

STORY(what_cannot_be_fenced_says_why)
{
    (void)given_a_written_chunk(w, 1);
    master_fence(w, D, 2); /* it has no replica */
    master_fence(w, B, 3);
    settle(w);
    assert_int_equal(heard(w, D)->fenced.error, LH_ERR_NO_REPLICA);
    assert_int_equal(heard(w, B)->fenced.error, LH_OK);
    master_fence(w, B, 2);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_ERR_STALE_VERSION);
    assert_int_equal(heard(w, B)->fenced.version, 3);

    /* Nor can one whose disk refuses the version: it says so, and is fenced once that is over. */
    node_fail_disk(w, C, LH_DISK_SYNC, 0, LH_ERR_IO);
    master_fence(w, C, 2);
    settle(w);
    assert_int_equal(heard(w, C)->fenced.error, LH_ERR_IO);
    master_fence(w, C, 2);
    settle(w);
    assert_int_equal(heard(w, C)->fenced.error, LH_OK);
    assert_int_equal(heard(w, C)->fenced.length, BATCH);
}

/* Fenced at version 2, with one batch more at B than at C, and sealed at C's length. */
static struct conn *given_a_rolled_chunk(struct world *w)
{
    struct conn *c = given_a_written_chunk(w, 2);
    given_a_batch_without_c(w, c, 3);
    master_fence(w, B, 2);
    master_fence(w, C, 2);
    settle(w);
    return c;
}

static void seal_as_c(struct world *w, int node)
{
    master_record_seal(w, node, 2, 2 * BATCH, heard(w, C)->fenced.checksum);
}

STORY(settling_waits_for_the_seal_and_is_answered_before_the_disk)
{
    (void)given_a_rolled_chunk(w);
    struct conn *b = settler(w, B, 2, WRITER), *c = settler(w, C, 2, WRITER);
    struct conn *early = settler(w, A, 2, WRITER); /* nobody has told A yet */
    pass(w, 499);
    assert_int_equal(b->count + c->count, 0);
    assert_int_equal(settle_reply(early)->error, LEASEHOLD__ERROR_CODE__RECOVERING);
    w->nodes[B].disk_stalled = w->nodes[C].disk_stalled = true;
    seal_as_c(w, B);
    seal_as_c(w, C);
    settle(w);
    assert_int_equal(heard(w, B)->recorded.n + heard(w, C)->recorded.n, 0);
    for (int i = 0; i < 2; i++) {
        const Leasehold__SettleReply *m = settle_reply(i == 0 ? b : c);
        assert_int_equal(m->error, LEASEHOLD__ERROR_CODE__OK);
        assert_true(m->known && m->first_sequence == 1 && m->last_sequence == 2);
        assert_int_equal(m->n_last, 2);
        assert_int_equal(m->last[1]->offset, BATCH);
    }
    w->nodes[B].disk_stalled = w->nodes[C].disk_stalled = false;
    settle(w);
    assert_int_equal(heard(w, B)->recorded.n, 1);
    assert_int_equal(heard(w, B)->recorded.error, LH_OK);
    w->acked_count = 2;
    check_logs(w, BC);

    /* It never changes. */
    node_kill(w, B, true);
    node_start(w, B);
    settle(w);
    b = settler(w, B, 2, WRITER);
    settle(w);
    assert_true(settle_reply(b)->known && settle_reply(b)->last_sequence == 2);
}

STORY(settling_does_not_wait_for_ever)
{
    (void)given_a_rolled_chunk(w);
    struct conn *b = settler(w, B, 2, WRITER);
    struct conn *gone = settler(w, B, 2, WRITER);
    struct conn *old = settler(w, B, 1, WRITER); /* there will be no such seal */
    settle(w);
    hang_up(gone);
    assert_int_equal(settle_reply(old)->error, LEASEHOLD__ERROR_CODE__STALE_VERSION);
    pass(w, 499);
    assert_int_equal(b->count, 0);
    pass(w, 1);
    assert_int_equal(settle_reply(b)->error, LEASEHOLD__ERROR_CODE__RECOVERING);
}

STORY(a_writer_with_more_cut_than_is_remembered_is_read_back)
{
    struct conn *c = given_a_written_chunk(w, 3);
    w->stalled[A][C] = true;
    for (uint64_t s = 4; s <= 3 + LH_WRITER_WINDOW; s++)
        append(c, s, 100);
    /* One more writer has all that it ever stored behind the seal. */
    join_stream(c, WRITER + 1, 1);
    settle(w);
    append_bytes(c, make_batch(WRITER + 1, 1, 1, 100));
    settle(w);
    master_fence(w, B, 2);
    master_fence(w, C, 2);
    settle(w);
    assert_int_equal(heard(w, C)->fenced.length, 3 * BATCH);
    assert_int_equal(heard(w, B)->fenced.length, (4 + LH_WRITER_WINDOW) * BATCH);
    struct conn *b = settler(w, B, 2, WRITER), *other = settler(w, B, 2, WRITER + 1);
    master_record_seal(w, B, 2, 3 * BATCH, heard(w, C)->fenced.checksum);
    settle(w);
    assert_true(settle_reply(b)->known && settle_reply(b)->last_sequence == 3);
    assert_int_equal(settle_reply(b)->n_last, 3);
    assert_true(settle_reply(other)->error == LEASEHOLD__ERROR_CODE__OK);
    assert_false(settle_reply(other)->known);
}

STORY(a_seal_above_a_members_log_leaves_what_it_has)
{
    struct conn *c = given_a_written_chunk(w, 2);
    given_a_batch_without_c(w, c, 3);
    master_fence(w, B, 2);
    master_fence(w, C, 2);
    settle(w);
    for (int i = 1; i <= 2; i++) { /* told again, it answers again */
        master_record_seal(w, C, 2, 3 * BATCH, heard(w, B)->fenced.checksum);
        settle(w);
        assert_int_equal(heard(w, C)->recorded.n, (unsigned)i);
        assert_int_equal(heard(w, C)->recorded.error, LH_ERR_UNAVAILABLE);
    }
    assert_false(node_status(w, C).lost);
    assert_false(node_status(w, C).sealed);
    assert_int_equal(heard(w, C)->lost.n, 0);

    /* So does one of another log: no replica is lost for another's word (REC-2). */
    heard_clear(w);
    master_record_seal(w, B, 2, 3 * BATCH, node_status(w, B).checksum + 1);
    settle(w);
    assert_int_equal(heard(w, B)->recorded.error, LH_ERR_UNAVAILABLE);
    assert_false(node_status(w, B).lost || node_status(w, B).sealed);
}

/* B missed the fence and has more than the seal covers, and nobody else is left. The checksum of
 * the first `sealed` batches. */
static uint64_t given_more_than_the_seal(struct world *w, uint64_t sealed, uint64_t more)
{
    struct conn *c = given_a_written_chunk(w, sealed);
    uint64_t checksum = node_status(w, B).checksum;

    append_without_c(w, c, sealed + 1, sealed + more);
    assert_int_equal(node_status(w, B).length, (sealed + more) * BATCH);
    node_kill(w, A, false);
    node_kill(w, C, false);
    settle(w);
    heard_clear(w);
    return checksum;
}

/* REC-5: it needs no source for what it has. */
STORY(who_missed_the_fence_and_has_more_than_the_seal_keeps_what_that_covers)
{
    uint64_t checksum = given_more_than_the_seal(w, 3, 2);

    master_record_seal(w, B, 2, 3 * BATCH, checksum);
    master_record_seal(w, B, 2, 3 * BATCH, checksum);
    settle(w);
    assert_true(node_status(w, B).sealed);
    assert_int_equal(node_status(w, B).length, 3 * BATCH);
    assert_int_equal(heard(w, B)->recorded.error, LH_OK);
    assert_int_equal(heard(w, B)->recorded.version, 2);
    struct conn *b = settler(w, B, 2, WRITER);
    settle(w);
    assert_true(settle_reply(b)->known && settle_reply(b)->last_sequence == 3);
    check_logs(w, 1u << B);
}

STORY(also_if_it_covers_nothing)
{
    uint64_t checksum = given_more_than_the_seal(w, 0, 1);

    master_record_seal(w, B, 2, 0, checksum);
    settle(w);
    assert_true(node_status(w, B).sealed);
    assert_int_equal(node_status(w, B).length, 0);
}

/* It ends after so many operations of its disk, and the master tells the seal again. */
static bool sealed_after_a_crash(struct world *w, unsigned operations)
{
    uint64_t checksum = given_more_than_the_seal(w, 3, 2);

    w->nodes[B].disk_stalled = true;
    master_record_seal(w, B, 2, 3 * BATCH, checksum);
    settle(w);
    for (unsigned i = 0; i < operations; i++) {
        size_t n = 0;
        while (n < w->op_count && !(w->ops[n].node == B && w->ops[n].file == CHUNK))
            n++;
        if (n == w->op_count)
            return true; /* nothing is left to do */
        disk_complete(w, n);
        settle(w);
    }
    node_kill(w, B, w->synced);
    w->nodes[B].disk_stalled = false;
    node_start(w, B);
    settle(w);
    master_record_seal(w, B, 2, 3 * BATCH, checksum);
    settle(w);
    assert_true(node_status(w, B).sealed);
    assert_int_equal(node_status(w, B).length, 3 * BATCH);
    return false;
}

static void whatever_interrupts_it(void **state)
{
    unsigned operations = 0;
    bool done = false;

    (void)state;
    for (; !done; operations++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct world *w = world_create(seed, seed % 2 == 0);
            done = sealed_after_a_crash(w, operations);
            world_destroy(w);
        }
    assert_in_range(operations, 4, 20); /* it compares, cuts, and writes and syncs the header */
}

/* What waits for the disk is answered to the session that asks now. */
STORY(also_when_it_is_told_again_in_the_next_session)
{
    uint64_t checksum = given_more_than_the_seal(w, 3, 2);

    w->nodes[B].disk_stalled = true;
    master_record_seal(w, B, 2, 3 * BATCH, checksum);
    settle(w);
    unsigned registrations = w->nodes[B].registrations;
    break_wire(w, w->nodes[B].session_wire);
    pass(w, 1000);
    assert_true(w->nodes[B].registrations > registrations);
    master_record_seal(w, B, 2, 3 * BATCH, checksum);
    settle(w);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_true(node_status(w, B).sealed);
    assert_int_equal(heard(w, B)->recorded.n, 1);
    assert_int_equal(heard(w, B)->recorded.error, LH_OK);
}

STORY(also_beside_a_disk_that_gets_full)
{
    struct conn *c = given_a_written_chunk(w, 3);
    uint64_t checksum = node_status(w, B).checksum;

    w->nodes[B].disk_stalled = true;
    append_without_c(w, c, 4, 5);
    node_kill(w, A, false);
    settle(w);
    master_record_seal(w, B, 2, 3 * BATCH, checksum); /* waits until those two are written */
    settle(w);
    node_fail_disk(w, B, LH_DISK_WRITE, 0, LH_ERR_DISK_FULL);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_false(node_status(w, B).lost);
    master_record_seal(w, B, 2, 3 * BATCH, checksum);
    settle(w);
    assert_true(node_status(w, B).sealed);
}

/* Then it may be of another history. Nothing of it is given up before a source has answered. */
STORY(unless_what_it_covers_does_not_add_up)
{
    uint64_t checksum = given_more_than_the_seal(w, 3, 0);

    for (uint64_t length = 1; length < 3 * BATCH; length += BATCH / 4) {
        heard_clear(w);
        master_record_seal(w, B, 2, length, checksum);
        settle(w);
        assert_int_equal(heard(w, B)->recorded.error, LH_ERR_UNAVAILABLE);
        assert_false(node_status(w, B).sealed || node_status(w, B).lost);
        assert_int_equal(node_status(w, B).length, 3 * BATCH);
        assert_int_equal(node_status(w, B).version, 1);
    }
}

STORY(a_fence_after_the_seal_is_ignored)
{
    (void)given_a_rolled_chunk(w);
    seal_as_c(w, B);
    settle(w);
    unsigned n = heard(w, B)->fenced.n;
    master_fence(w, B, 2);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.n, n);
    assert_true(node_status(w, B).sealed);
}

STORY(a_removal_is_answered)
{
    (void)given_a_written_chunk(w, 1);
    master_fence(w, C, 2);
    settle(w);
    master_remove(w, D, 1);
    master_remove(w, B, 1);
    master_remove(w, C, 1);
    settle(w);
    assert_true(heard(w, B)->removed.n == 1 && heard(w, B)->removed.error == LH_OK);
    assert_true(heard(w, D)->removed.n == 1 && heard(w, D)->removed.error == LH_OK);
    assert_int_equal(heard(w, C)->removed.error, LH_ERR_STALE_VERSION); /* FENCE-2 */
    assert_null(node_file(w, B, CHUNK));
    assert_non_null(node_file(w, C, CHUNK));
}

/* ------------------------------------------------------------------------------------------------
 * Signs of life. */

STORY(a_primary_that_waits_says_that_it_lives)
{
    struct conn *c = given_a_written_chunk(w, 1);
    struct conn *idle = appender(w, A, 1, WRITER + 1, 1);
    settle(w);
    assert_int_equal(c->alive_ms, 200);
    pass(w, 5000);
    assert_int_equal(c->alive + idle->alive, 0); /* nothing is owed */

    w->stalled[C][A] = true;
    append(c, 2, 100);
    for (unsigned i = 1; i <= 4; i++) {
        pass(w, 200);
        assert_true(c->alive >= i);
    }
    assert_true(c->alive <= 8);
    w->stalled[C][A] = false;
    pass(w, 1);
    assert_true(answered(c, 2));
    unsigned alive = c->alive;
    pass(w, 5000);
    assert_int_equal(c->alive, alive);
    assert_int_equal(idle->alive, 0);
}

STORY(a_recovery_that_takes_long_shows_life)
{
    struct conn *c = given_a_written_chunk(w, 1);
    w->stalled[B][A] = true;
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    assert_int_equal(c->error, LH_ERR_STALE_VERSION);
    c = appender(w, A, 2, WRITER, 2);
    pass(w, 600);
    assert_true(!c->opened && c->alive >= 3);
    w->stalled[B][A] = false;
    pass(w, 100);
    assert_true(c->opened);
}

STORY(a_busy_stream_needs_no_signs)
{
    struct conn *c = given_a_written_chunk(w, 1);
    w->stalled[C][A] = true;
    append(c, 2, 100);
    for (uint64_t s = 3; s <= 40; s++) {
        /* One is always under way, and one is answered every 50 ms. */
        append(c, s, 100);
        w->stalled[C][A] = false;
        settle(w);
        w->stalled[C][A] = true;
        pass(w, 50);
    }
    assert_int_equal(c->alive, 0);
    w->stalled[C][A] = false;
    settle(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_inquiry_is_answered_by_a_heartbeat_at_once),
        cmocka_unit_test(a_fenced_member_reports_its_log_and_stops_the_primary),
        cmocka_unit_test(a_fence_is_answered_when_it_is_durable),
        cmocka_unit_test(a_fence_of_an_earlier_session_is_answered_in_the_present_one),
        cmocka_unit_test(a_fence_ends_with_its_replica),
        cmocka_unit_test(a_fenced_primary_ends_and_reports_too),
        cmocka_unit_test(what_cannot_be_fenced_says_why),
        cmocka_unit_test(settling_waits_for_the_seal_and_is_answered_before_the_disk),
        cmocka_unit_test(settling_does_not_wait_for_ever),
        cmocka_unit_test(a_writer_with_more_cut_than_is_remembered_is_read_back),
        cmocka_unit_test(a_seal_above_a_members_log_leaves_what_it_has),
        cmocka_unit_test(who_missed_the_fence_and_has_more_than_the_seal_keeps_what_that_covers),
        cmocka_unit_test(also_if_it_covers_nothing),
        cmocka_unit_test(whatever_interrupts_it),
        cmocka_unit_test(also_when_it_is_told_again_in_the_next_session),
        cmocka_unit_test(also_beside_a_disk_that_gets_full),
        cmocka_unit_test(unless_what_it_covers_does_not_add_up),
        cmocka_unit_test(a_fence_after_the_seal_is_ignored),
        cmocka_unit_test(a_removal_is_answered),
        cmocka_unit_test(a_primary_that_waits_says_that_it_lives),
        cmocka_unit_test(a_recovery_that_takes_long_shows_life),
        cmocka_unit_test(a_busy_stream_needs_no_signs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
