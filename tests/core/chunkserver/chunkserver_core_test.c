/* Stories about the chunkserver's core: what it acknowledges stays, exactly once and in its place.
 * Each is told under several orders of events, for synced and for buffered files. */
#include "tests/core/chunkserver/chunkserver_story.h"

#include <stdlib.h>
#include <string.h>

/* Four large batches from `sequence` on: behind 288 bytes, no further one of that size fits. */
static void fill_up(struct conn *c, uint64_t sequence)
{
    for (uint64_t s = sequence; s < sequence + 4; s++)
        append(c, s, 16000);
}

/* ------------------------------------------------------------------------------------------------
 * Appending. */

STORY(a_batch_is_acknowledged_when_every_member_has_it)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    assert_int_equal(position(c, 1), 0);

    w->stalled[C][A] = true; /* C's answers do not come */
    append(c, 2, 100);
    settle(w);
    assert_false(answered(c, 2));
    w->stalled[C][A] = false;
    settle(w);
    assert_int_equal(position(c, 2), 144);
    check_logs(w, ABC);
}

STORY(a_slow_disk_of_a_member_delays_the_answer)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    w->nodes[B].disk_stalled = true;
    append(c, 2, 100);
    settle(w);
    assert_false(answered(c, 2));
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_true(answered(c, 2));
    check_logs(w, ABC);
}

STORY(many_batches_of_many_writers_are_under_way_at_once)
{
    struct conn *c[5];

    given_a_chunk(w, ABC);
    for (uint64_t i = 0; i < 5; i++)
        c[i] = appender(w, A, 1, WRITER + i, 1);
    settle(w);
    for (uint64_t s = 1; s <= 16; s++)
        for (uint64_t i = 0; i < 5; i++)
            append(c[i], s, (uint32_t)(10 + 7 * i));
    settle(w);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(c[i]->stored_count, 16);
        for (uint64_t s = 2; s <= 16; s++)
            assert_true(position(c[i], s) > position(c[i], s - 1));
    }
    check_logs(w, ABC);
}

STORY(a_repeat_is_answered_with_its_first_position)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 3);
    append(c, 2, 100);
    settle(w);
    assert_int_equal(c->stored_count, 4);
    assert_int_equal(c->stored[3].sequence, 2);
    assert_int_equal(c->stored[3].offset, position(c, 2));

    /* Also over another stream while the first attempt is under way,
     * and only once it is committed. */
    w->stalled[B][A] = true;
    append(c, 4, 100);
    settle(w);
    hang_up(c);
    settle(w);
    struct conn *again = appender(w, A, 1, WRITER, 4);
    settle(w);
    append(again, 4, 100);
    settle(w);
    assert_false(answered(again, 4));
    w->stalled[B][A] = false;
    settle(w);
    assert_int_equal(position(again, 4), 3 * 144);
    assert_int_equal(node_status(w, A).length, 4 * 144);
    check_logs(w, ABC);
}

STORY(a_gap_is_never_stored)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    append(c, 4, 100);
    settle(w);
    assert_int_equal(c->error, LH_ERR_OUT_OF_SEQUENCE);
    assert_false(c->closed); /* the writer is refused; its stream may have others */
    assert_int_equal(node_status(w, A).length, 2 * 144);

    /* Nor is an opening that would leave one. */
    struct conn *late = appender(w, A, 1, WRITER, 4);
    settle(w);
    assert_int_equal(late->error, LH_ERR_OUT_OF_SEQUENCE);
    assert_false(late->opened);

    /* Nor other bytes under a number that is taken. */
    struct conn *other = appender(w, A, 1, WRITER, 3);
    settle(w);
    append(other, 2, 99);
    settle(w);
    assert_int_equal(other->error, LH_ERR_OUT_OF_SEQUENCE);
    assert_int_equal(node_status(w, A).length, 2 * 144);
}

STORY(writers_share_a_stream_and_fail_alone)
{
    given_a_chunk(w, ABC);
    struct conn *c = appender(w, A, 1, WRITER, 1);
    join_stream(c, WRITER + 1, 1);
    join_stream(c, WRITER + 2, 7);
    settle(w);
    /* One message with a batch of each; the third leaves a gap. */
    struct lh_buf all = make_batch(WRITER, 1, 1, 100);
    struct lh_buf second = make_batch(WRITER + 1, 1, 1, 100);
    struct lh_buf gap = make_batch(WRITER + 2, 8, 1, 100);
    struct lh_buf last = make_batch(WRITER, 2, 1, 100);
    lh_buf_append(&all, &second, 0, second.size);
    lh_buf_append(&all, &gap, 0, gap.size);
    lh_buf_append(&all, &last, 0, last.size);
    lh_buf_clear(&second);
    lh_buf_clear(&gap);
    lh_buf_clear(&last);
    append_bytes(c, all);
    settle(w);
    assert_false(c->closed);
    assert_int_equal(c->error, LH_ERR_OUT_OF_SEQUENCE);
    assert_int_equal(c->stored_count, 3);
    assert_int_equal(c->stored[0].writer, WRITER);
    assert_int_equal(c->stored[1].writer, WRITER + 1);
    assert_int_equal(c->stored[2].writer, WRITER);
    assert_int_equal(c->stored[2].sequence, 2);

    /* What the refused one had under way is ignored; opened again it goes on. */
    append_bytes(c, make_batch(WRITER + 2, 7, 1, 100));
    settle(w);
    assert_int_equal(c->stored_count, 3);
    join_stream(c, WRITER + 2, 7);
    settle(w);
    append_bytes(c, make_batch(WRITER + 2, 7, 1, 100));
    settle(w);
    assert_int_equal(c->stored_count, 4);
    assert_int_equal(c->stored[3].writer, WRITER + 2);
    check_logs(w, ABC);
}

STORY(a_malformed_batch_is_refused_with_a_text_and_nothing_is_stored)
{
    given_a_chunk(w, ABC);
    for (int kind = 0; kind < 4; kind++) {
        struct conn *c = appender(w, A, 1, WRITER + (uint64_t)kind, 1);
        settle(w);
        struct lh_buf good = make_batch(c->writer, 1, 2, 50);
        struct lh_buf bad = {0};
        uint8_t bytes[256];
        size_t size = good.size;
        int expected = LH_ERR_MALFORMED;
        assert_true(lh_buf_read(&good, 0, bytes, size));
        if (kind == 0) { /* a rotten byte */
            bytes[40] ^= 1;
            expected = LH_ERR_CORRUPT;
        } else if (kind == 1) { /* nothing at all */
            size = 0;
        }
        if (kind == 2) { /* of another writer */
            bad = make_batch(c->writer + 1000, 1, 1, 50);
        } else if (kind == 3) { /* too large, and it does not seal the chunk */
            bad = make_batch(c->writer, 1, 1, CHUNK_SIZE / 2 + 1);
            expected = LH_ERR_TOO_LARGE;
        } else {
            bad = lh_buf_copy(bytes, size);
        }
        lh_buf_clear(&good);
        append_bytes(c, bad);
        settle(w);
        assert_int_equal(c->error, expected);
        assert_true(c->closed && c->closed_error == LH_OK && strlen(c->text) > 0);
    }
    assert_true(node_status(w, A).open);
    assert_int_equal(node_status(w, A).length, 0);
}

STORY(streams_that_break_the_rules_are_ended)
{
    given_a_chunk(w, ABC);
    struct conn *nobody = appender(w, A, 1, 0, 1);
    struct conn *old = appender(w, A, 0, WRITER, 1);
    struct conn *elsewhere = appender(w, B, 1, WRITER, 1);
    struct conn *hasty = appender(w, A, 1, WRITER, 1);
    settle(w);
    assert_int_equal(nobody->error, LH_ERR_INVALID_ARGUMENT);
    assert_int_equal(old->error, LH_ERR_STALE_VERSION);
    assert_int_equal(elsewhere->error, LH_ERR_NOT_PRIMARY);

    w->stalled[B][A] = true;
    for (uint64_t s = 1; s <= LH_WRITER_WINDOW + 1; s++)
        append(hasty, s, 10);
    settle(w);
    assert_int_equal(hasty->error, LH_ERR_OUT_OF_SEQUENCE);
    w->stalled[B][A] = false;
    settle(w);
    assert_int_equal(node_status(w, A).committed, node_status(w, A).length);
    check_logs(w, ABC);
}

/* ------------------------------------------------------------------------------------------------
 * Seals. */

STORY(a_full_chunk_is_sealed_and_settled)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    fill_up(c, 3);
    append(c, 7, 16000);
    settle(w);
    assert_true(answered(c, 6) && !answered(c, 7));
    assert_int_equal(c->error, LH_ERR_CHUNK_FULL);
    assert_int_equal(heard(w, A)->seal.version, 1);
    uint64_t length = heard(w, A)->seal.length;
    assert_int_equal(length, 2 * 144 + 4 * 16044);

    /* Until the master confirms it the report is sent again and the chunk is nobody's. */
    unsigned n = heard(w, A)->seal.n;
    pass(w, SESSION_TERM_MS / 3 + 1);
    assert_true(heard(w, A)->seal.n > n);
    struct conn *full = appender(w, A, 1, WRITER, 7);
    struct conn *early = settler(w, A, 1, WRITER);
    settle(w);
    assert_int_equal(full->error, LH_ERR_NOT_PRIMARY);
    assert_int_equal(early->count, 0); /* it waits for the seal, for a while */
    pass(w, 500);
    assert_int_equal(settle_reply(early)->error, LEASEHOLD__ERROR_CODE__RECOVERING);

    uint64_t checksum = node_status(w, A).checksum;
    for (int i = A; i <= C; i++)
        master_record_seal(w, i, 1, length, checksum);
    settle(w);
    for (int i = A; i <= C; i++) {
        assert_int_equal(heard(w, i)->recorded.n, 1);
        assert_true(node_status(w, i).sealed);
    }
    n = heard(w, A)->seal.n;
    pass(w, SESSION_TERM_MS);
    assert_int_equal(heard(w, A)->seal.n, n); /* no more */

    /* The very end is there, and nothing more will come. */
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;
    q.offset = length;
    q.wait_ms = 1000;
    struct conn *end = reader(w, C, q);
    struct conn *refused = appender(w, A, 1, WRITER, 7);
    struct conn *wrong = settler(w, B, 2, WRITER);
    struct conn *found = settler(w, B, 1, WRITER);
    struct conn *unknown = settler(w, C, 1, WRITER + 1);
    settle(w);
    assert_true(read_reply(end)->sealed && read_reply(end)->committed == length);
    assert_int_equal(refused->error, LH_ERR_CHUNK_FULL);
    assert_int_equal(settle_reply(wrong)->error, LEASEHOLD__ERROR_CODE__STALE_VERSION);
    assert_true(settle_reply(found)->known && settle_reply(found)->last_sequence == 6);
    assert_int_equal(settle_reply(found)->last[5]->offset, position(c, 6));
    assert_false(settle_reply(unknown)->known);

    /* A restart changes none of it. */
    node_kill(w, B, true);
    node_start(w, B);
    settle(w);
    found = settler(w, B, 1, WRITER);
    settle(w);
    assert_true(settle_reply(found)->known && settle_reply(found)->last_sequence == 6);
    assert_int_equal(settle_reply(found)->last[0]->offset, position(c, 1));
    check_logs(w, ABC);
}

/* KEEP-4: a master with an older copy of its store takes on what its members have sealed. */
STORY(a_seal_is_recorded_at_the_version_at_which_it_is_taken_on)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    fill_up(c, 3);
    append(c, 7, 16000);
    settle(w);
    uint64_t length = heard(w, A)->seal.length, checksum = node_status(w, A).checksum;
    for (int i = A; i <= C; i++)
        master_record_seal(w, i, 1, length, checksum);
    settle(w);

    /* Not another one, whatever its version. */
    master_record_seal(w, B, 5, length, checksum + 1);
    master_record_seal(w, B, 5, length - 144, checksum);
    settle(w);
    assert_int_equal(heard(w, B)->recorded.version, 1);

    master_record_seal(w, B, 3, length, checksum);
    settle(w);
    assert_int_equal(heard(w, B)->recorded.version, 3);
    assert_int_equal(heard(w, B)->recorded.error, LH_OK);
    node_kill(w, B, true);
    node_start(w, B);
    settle(w);
    struct conn *former = settler(w, B, 1, WRITER), *found = settler(w, B, 3, WRITER);
    settle(w);
    assert_int_equal(settle_reply(former)->error, LEASEHOLD__ERROR_CODE__STALE_VERSION);
    assert_true(settle_reply(found)->known && settle_reply(found)->last_sequence == 6);
    check_logs(w, ABC);
}

STORY(a_seal_waits_for_a_member_that_is_coming_back)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    /* C loses power; in a buffered file it lacks bytes when it is back. */
    node_kill(w, C, true);
    settle(w);
    node_start(w, C);
    w->stalled[A][C] = true;
    fill_up(c, 3);
    append(c, 7, 16000);
    settle(w);
    pass(w, 100);
    w->stalled[A][C] = false;
    pass(w, 500);
    assert_int_equal(c->error, LH_ERR_CHUNK_FULL);
    uint64_t length = heard(w, A)->seal.length;
    assert_true(length > 0);
    uint64_t checksum = node_status(w, A).checksum;
    for (int i = A; i <= C; i++)
        master_record_seal(w, i, 1, length, checksum);
    settle(w);
    for (int i = A; i <= C; i++)
        assert_true(node_status(w, i).sealed && !node_status(w, i).lost);
    check_logs(w, ABC);
}

STORY(a_seal_with_nothing_under_way_waits_for_a_member_too)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    fill_up(c, 3);
    settle(w);
    assert_true(answered(c, 6));
    node_kill(w, C, true);
    settle(w);
    append(c, 7, 16000); /* does not fit; nothing is uncommitted */
    settle(w);
    node_start(w, C);
    pass(w, 600);
    assert_int_equal(c->error, LH_ERR_CHUNK_FULL);
    uint64_t length = heard(w, A)->seal.length;
    uint64_t checksum = node_status(w, A).checksum;
    for (int i = A; i <= C; i++)
        master_record_seal(w, i, 1, length, checksum);
    settle(w);
    for (int i = A; i <= C; i++)
        assert_true(node_status(w, i).sealed && !node_status(w, i).lost);
    check_logs(w, ABC);
}

STORY(a_seal_that_waits_gives_up_a_member_that_stays_away)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    fill_up(c, 3);
    settle(w);
    node_kill(w, C, true);
    settle(w);
    append(c, 7, 16000);
    pass(w, 2500);
    assert_int_equal(heard(w, A)->failed.members, 1u << C);
    assert_int_equal(heard(w, A)->seal.n, 0);
    master_grant(w, A, 2, AB, 2);
    pass(w, 10);
    c = appender(w, A, 2, WRITER, 7);
    settle(w);
    append(c, 7, 16000);
    settle(w);
    assert_int_equal(c->error, LH_ERR_CHUNK_FULL);
    assert_int_equal(heard(w, A)->seal.version, 2);
}

STORY(a_seal_arrives_while_a_member_is_adopting_again)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 3);
    (void)c;
    uint64_t length = node_status(w, A).length, checksum = node_status(w, A).checksum;
    /* Another stream of the same version begins at C; its disk takes its time. */
    w->nodes[C].disk_stalled = true;
    struct conn *f = feeder(w, C);
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;
    q.version = 1;
    feed(f, q, NULL);
    settle(w);
    master_record_seal(w, C, 1, length, checksum);
    settle(w);
    w->nodes[C].disk_stalled = false;
    settle(w);
    assert_true(node_status(w, C).sealed);
    assert_int_equal(heard(w, C)->recorded.n, 1);
}

STORY(a_report_of_a_seal_is_forgotten_when_the_version_rises)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    fill_up(c, 3);
    append(c, 7, 16000);
    settle(w);
    assert_int_equal(heard(w, A)->seal.version, 1);
    /* The master had written another version before the report came. */
    master_grant(w, A, 2, AB, 2);
    settle(w);
    heard_clear(w);
    pass(w, SESSION_TERM_MS / 2);
    assert_int_equal(heard(w, A)->seal.n, 0);
    master_recall(w, A, 2);
    settle(w);
    master_recall(w, A, 2); /* resent: answered again */
    settle(w);
    assert_int_equal(heard(w, A)->release.n, 2);
    assert_int_equal(heard(w, A)->release.version, 2);
}

/* ------------------------------------------------------------------------------------------------
 * Failures of members, recovery. */

STORY(a_lost_secondary_is_reported_and_the_chunk_goes_on_without_it)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 3);
    node_kill(w, C, false);
    settle(w);
    append(c, 4, 100);
    settle(w);
    assert_false(answered(c, 4));
    assert_int_equal(heard(w, A)->failed.n, 0);
    pass(w, 1500);
    assert_true(heard(w, A)->failed.n >= 1);
    assert_int_equal(heard(w, A)->failed.version, 1);
    assert_int_equal(heard(w, A)->failed.members, 1u << C);

    master_grant(w, A, 2, AB, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.version, 2);
    assert_int_equal(c->error, LH_ERR_STALE_VERSION);
    c = appender(w, A, 2, WRITER, 4);
    settle(w);
    append(c, 4, 100);
    append(c, 5, 100);
    settle(w);
    assert_int_equal(position(c, 4), 3 * 144); /* where it was put at version 1, once */
    assert_int_equal(position(c, 5), 4 * 144);
    check_logs(w, AB);
}

STORY(who_is_reported_with_whether_appends_wait)
{
    given_a_chunk(w, ABC);
    node_kill(w, C, false);
    master_grant(w, A, 2, ABC, 2);
    pass(w, 1500);
    assert_int_equal(heard(w, A)->failed.members, 1u << C);
    assert_false(heard(w, A)->failed.appends_wait);
    struct conn *c = appender(w, A, 2, WRITER, 1);
    pass(w, 1500);
    assert_false(c->opened);
    assert_true(heard(w, A)->failed.appends_wait);
}

STORY(a_member_that_only_blinked_is_not_reported)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 3);
    pass(w, 5000); /* silence while nothing is asked is no failure */
    node_kill(w, C, false);
    settle(w);
    append(c, 4, 100);
    settle(w);
    node_start(w, C);
    pass(w, 900);
    assert_true(answered(c, 4));
    assert_int_equal(heard(w, A)->failed.n, 0);
    check_logs(w, ABC);
}

STORY(a_member_that_was_copied_to_is_not_taken_for_silent_later)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 3);
    /* C goes away, misses a batch and comes back. */
    node_kill(w, C, true);
    settle(w);
    append(c, 4, 100);
    settle(w);
    node_start(w, C);
    pass(w, 900);
    assert_true(answered(c, 4));
    /* Long after that, the next batch. */
    pass(w, 20000);
    append(c, 5, 100);
    settle(w);
    assert_true(answered(c, 5));
    pass(w, 2000);
    assert_int_equal(heard(w, A)->failed.n, 0);
    check_logs(w, ABC);
}

STORY(a_member_gets_its_whole_time_although_the_primarys_own_disk_is_slow)
{
    master_create(w, ABC);
    settle(w);
    w->nodes[A].disk_stalled = true;
    master_grant(w, A, 1, ABC, 2);
    pass(w, 950);
    w->stalled[A][C] = true;
    w->nodes[A].disk_stalled = false;
    pass(w, 500);
    assert_int_equal(heard(w, A)->failed.n, 0);
    w->stalled[A][C] = false;
    pass(w, 300);
    assert_true(node_status(w, A).open);
}

STORY(the_longest_log_is_fetched_and_nothing_acknowledged_is_lost)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 3);
    /* Batches 4 to 6 get to B but not to C, and are never answered. */
    w->stalled[A][C] = true;
    append(c, 4, 9000);
    append(c, 5, 9000);
    append(c, 6, 100);
    settle(w);
    assert_false(answered(c, 4));
    node_kill(w, A, false);
    w->stalled[A][C] = false;
    settle(w);
    uint64_t longest = node_status(w, B).length;
    assert_int_equal(longest, 3 * 144 + 2 * 9044 + 144);

    /* C becomes primary and gets from B what it lacks. */
    heard_clear(w);
    master_grant(w, C, 2, 1u << B | 1u << C, 2);
    settle(w);
    assert_int_equal(heard(w, C)->recovered.length, longest);
    c = appender(w, C, 2, WRITER, 4);
    settle(w);
    append(c, 4, 9000);
    append(c, 5, 9000);
    append(c, 6, 100);
    append(c, 7, 100);
    settle(w);
    assert_int_equal(position(c, 4), 3 * 144);
    assert_int_equal(position(c, 7), longest);
    check_logs(w, 1u << B | 1u << C);
}

STORY(what_the_primary_fetched_is_passed_on_to_members_that_lack_it)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 3);
    /* Batch 4 gets to nobody but A; then B is to be the primary, with A and C as members. */
    w->stalled[A][B] = w->stalled[A][C] = true;
    append(c, 4, 9000);
    settle(w);
    w->stalled[A][B] = w->stalled[A][C] = false;
    for (size_t i = 0; i < w->wire_count; i++)
        if (w->wires[i]->client == A && w->wires[i]->method == LH_METHOD_REPLICATE)
            w->wires[i]->held[true] = true; /* what A sent stays under way */
    heard_clear(w);
    master_grant(w, B, 2, ABC, 2);
    pass(w, 200);
    assert_int_equal(c->error, LH_ERR_STALE_VERSION);
    assert_int_equal(heard(w, B)->recovered.n, 1);
    assert_int_equal(heard(w, B)->recovered.length, 3 * 144 + 9044);
    check_logs(w, ABC);
}

STORY(a_stale_primary_is_fenced)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    struct conn *other = appender(w, A, 1, WRITER + 1, 1);
    settle(w);
    /* B is made primary behind A's back (clocks outside their bounds, INV-7). */
    w->members = 1u << B | 1u << C;
    master_grant(w, B, 2, 1u << B | 1u << C, 2);
    settle(w);
    assert_true(node_status(w, B).open);
    append(c, 3, 100);
    append(other, 1, 100);
    pass(w, 600);
    assert_false(answered(c, 3));
    assert_true(c->closed && other->closed);
    assert_true(lh_error_advice(c->error) != LH_GIVE_UP);
    assert_false(node_status(w, A).primary);
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_int_equal(node_status(w, B).length, 2 * 144);

    struct conn *d = appender(w, B, 2, WRITER, 3);
    settle(w);
    append(d, 3, 100);
    settle(w);
    assert_int_equal(position(d, 3), 2 * 144);
    check_logs(w, 1u << B | 1u << C);
}

STORY(a_version_that_is_being_adopted_fences_at_once_and_covers_what_came_before)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    w->nodes[B].disk_stalled = true;
    append(c, 2, 100);
    settle(w); /* accepted by B, not written */
    struct conn *f = feeder(w, B);
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;
    q.version = 2;
    feed(f, q, NULL);
    settle(w);
    append(c, 3, 100); /* too late for version 1 */
    settle(w);
    assert_int_equal(f->count, 0);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_int_equal(feed_reply(f, 0)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(feed_reply(f, 0)->length, 2 * 144);
    assert_false(answered(c, 3));
    const struct file *file = node_file(w, B, CHUNK);
    assert_true(file->durable_size >= LH_LOG_START + 2 * 144);
    /* The version survives, whatever happens. */
    node_kill(w, B, true);
    node_start(w, B);
    settle(w);
    assert_int_equal(node_status(w, B).version, 2);
    assert_int_equal(node_status(w, B).length, 2 * 144);
}

/* Whoever could have it adopted would leave the chunk without a next version. */
STORY(a_version_far_above_is_not_adopted)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    static const uint64_t far[] = {UINT64_MAX, (UINT64_C(1) << 32) + 1};
    for (size_t i = 0; i < 2; i++) {
        struct conn *f = feeder(w, B);
        Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;
        q.version = far[i];
        feed(f, q, NULL);
        settle(w);
        assert_int_equal(feed_reply(f, 0)->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    }
    assert_int_equal(node_status(w, B).version, 1);
    append(c, 2, 100);
    settle(w);
    assert_true(answered(c, 2));
}

STORY(too_few_members_take_no_appends)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    (void)c;
    master_grant(w, A, 2, 1u << A, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.version, 2);
    c = appender(w, A, 2, WRITER, 3);
    settle(w);
    append(c, 3, 100);
    settle(w);
    assert_int_equal(c->error, LH_ERR_UNAVAILABLE);
    assert_int_equal(node_status(w, A).length, 2 * 144);
}

STORY(a_member_whose_address_becomes_known_later_is_found)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 2);
    node_kill(w, B, false);
    node_kill(w, C, false);
    settle(w);
    master_grant(w, A, 2, ABC, 2); /* B and C have no address now */
    pass(w, 3000);
    assert_false(node_status(w, A).open);
    node_start(w, B);
    node_start(w, C);
    settle(w);
    master_grant(w, A, 2, ABC, 2); /* resent */
    pass(w, 600);
    assert_true(node_status(w, A).open);
    check_logs(w, ABC);
}

/* ------------------------------------------------------------------------------------------------
 * Unverified replicas (REC-2a). */

/* Everything that was acknowledged got to B alone among those who did not lose power. */
STORY(a_unverified_member_is_not_trusted_with_the_end_of_a_buffered_log)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    node_kill(w, A, true);
    node_kill(w, C, true);
    settle(w);
    node_start(w, A);
    node_start(w, C);
    settle(w);
    assert_true(node_status(w, A).unverified == !w->synced);
    assert_true(node_status(w, A).length == (w->synced ? 3 * 144 : 0));
    assert_false(node_status(w, B).unverified);

    w->stalled[B][C] = w->stalled[C][B] = true;
    w->master_continues = false;
    heard_clear(w);
    master_grant(w, C, 2, ABC, 2);
    pass(w, 3000);
    assert_true((heard(w, C)->failed.members & 1u << B) != 0);
    /* B may be the only one to have it all: it is waited for. */
    assert_int_equal(heard(w, C)->failed.unsure, !w->synced);
    assert_false(node_status(w, C).open);
    w->stalled[B][C] = w->stalled[C][B] = false;
    pass(w, 1000);
    assert_int_equal(heard(w, C)->recovered.version, 2);
    assert_int_equal(heard(w, C)->recovered.length, 3 * 144);
    assert_int_equal(heard(w, C)->loss.n, 0);
    assert_false(node_status(w, C).unverified);
    check_logs(w, ABC);
}

/* A change of versions waits until all of the log is on the disk, and with it the writers. */
STORY(a_buffered_log_gets_to_the_disk_now_and_then)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    for (uint64_t s = 2; s <= 4; s++)
        append(c, s, 16000);
    pass(w, 1000);
    append(c, 5, 100);
    settle(w);
    append(c, 6, 100); /* when the sync has begun */
    settle(w);
    node_kill(w, B, true);
    node_start(w, B);
    settle(w);
    assert_true(node_status(w, B).length >= 3 * 16000);
    assert_true(node_status(w, B).unverified == !w->synced);
}

STORY(when_all_are_unverified_the_longest_goes_on_and_the_loss_is_told)
{
    if (w->synced)
        return;
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    for (int i = A; i <= C; i++)
        node_kill(w, i, true);
    settle(w);
    for (int i = A; i <= C; i++)
        node_start(w, i);
    settle(w);
    w->acked_count = 0; /* a rack lost power: this is what buffered means */
    heard_clear(w);
    w->stalled[B][A] = true;
    master_grant(w, A, 2, ABC, 2);
    pass(w, 3000);
    assert_true(heard(w, A)->failed.unsure); /* all are waited for */
    assert_false(node_status(w, A).open);
    assert_int_equal(heard(w, A)->loss.n, 0);
    w->stalled[B][A] = false;
    pass(w, 1000);
    assert_int_equal(heard(w, A)->loss.n, 1);
    assert_int_equal(heard(w, A)->recovered.version, 2);
    check_logs(w, ABC);
}

/* Nothing answers a report of this kind: it is told again in the next session unless a later
 * heartbeat of the same one was answered. */
STORY(a_possible_loss_that_the_master_did_not_hear_of_is_told_again)
{
    if (w->synced)
        return;
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    for (int i = A; i <= C; i++)
        node_kill(w, i, true);
    settle(w);
    for (int i = A; i <= C; i++)
        node_start(w, i);
    settle(w);
    w->acked_count = 0; /* a rack lost power: this is what buffered means */
    heard_clear(w);
    w->stalled[B][A] = true;
    master_grant(w, A, 2, ABC, 2);
    pass(w, 100);
    w->stalled[B][A] = false;
    w->stalled[A][MASTER] = true;
    pass(w, 1000); /* it is reported, and the report is lost with the connection */
    break_wire(w, w->nodes[A].session_wire);
    w->stalled[A][MASTER] = false;
    assert_int_equal(heard(w, A)->loss.n, 0);
    pass(w, 1000);
    assert_int_equal(heard(w, A)->loss.n, 1);
    assert_int_equal(heard(w, A)->loss.version, 2);
    pass(w, 5000); /* a heartbeat was answered since */
    break_wire(w, w->nodes[A].session_wire);
    pass(w, 1000);
    assert_int_equal(heard(w, A)->loss.n, 1);
}

STORY(a_process_that_dies_alone_leaves_nothing_unverified)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    for (int i = A; i <= C; i++)
        node_kill(w, i, false);
    settle(w);
    for (int i = A; i <= C; i++)
        node_start(w, i);
    settle(w);
    for (int i = A; i <= C; i++)
        assert_false(node_status(w, i).unverified);
    heard_clear(w);
    master_grant(w, B, 2, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, B)->recovered.length, 3 * 144);
    assert_int_equal(heard(w, B)->loss.n, 0);
    check_logs(w, ABC);
}

/* ------------------------------------------------------------------------------------------------
 * Disks. */

STORY(a_torn_tail_is_cut_and_does_not_come_back)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    node_kill(w, B, false);
    settle(w);
    w->nodes[B].boot++; /* the machine went down, and of what it wrote last only some is there */
    /* Half a batch, and behind it a whole one that must not come back to life. */
    struct file *f = node_file(w, B, CHUNK);
    struct lh_buf whole = make_batch(WRITER, 4, 1, 100);
    struct lh_buf remnant = make_batch(WRITER + 7, 1, 1, 100);
    f->cache = realloc(f->cache, f->size + 400);
    assert_true(lh_buf_read(&whole, 0, f->cache + f->size, 144));
    f->cache[f->size + 50] ^= 1;
    assert_true(lh_buf_read(&remnant, 0, f->cache + f->size + 144, 144));
    f->size += 288;
    lh_buf_clear(&whole);
    lh_buf_clear(&remnant);
    size_t good = LH_LOG_START + 3 * 144;
    node_start(w, B);
    settle(w);
    assert_int_equal(f->size, good);
    assert_int_equal(f->durable_size, good);
    assert_int_equal(node_status(w, B).length, 3 * 144);
    pass(w, 700);
    struct conn *c = appender(w, A, 1, WRITER, 4);
    settle(w);
    append(c, 4, 60);
    settle(w);
    assert_int_equal(position(c, 4), 3 * 144);
    check_logs(w, ABC);
}

/* `node`'s file ends within a batch; its server starts again and cuts it. */
static void given_a_cut(struct world *w, int node, size_t at)
{
    node_kill(w, node, false);
    settle(w);
    node_file(w, node, CHUNK)->size = LH_LOG_START + at;
    node_start(w, node);
    settle(w);
    assert_int_equal(node_status(w, node).length, at / 144 * 144);
}

/* FAIL-3: while the machine is up only a last batch without its end can be a torn tail. */
STORY(damage_under_the_same_boot_is_rot)
{
    static const struct {
        size_t at;
        bool boot, lost;
    } cases[] = {{50, false, true}, {200, false, true}, {2 * 144 + 143, false, true},
        {2 * 144 + 8, false, true}, {200, true, false}, {2 * 144 + 143, true, false}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *v = world_create(1, w->synced);
        given_a_chunk(v, ABC);
        (void)given_a_writer(v, A, 1, 3);
        node_kill(v, B, false);
        settle(v);
        node_file(v, B, CHUNK)->cache[LH_LOG_START + cases[i].at] ^= 0x80;
        v->nodes[B].boot += cases[i].boot;
        node_start(v, B);
        settle(v);
        assert_int_equal(node_status(v, B).lost, cases[i].lost);
        if (!cases[i].lost)
            assert_int_equal(node_status(v, B).length, cases[i].at / 144 * 144);
        world_destroy(v);
    }
}

/* FAIL-3: it may have been longer, and the others know. */
STORY(a_log_that_was_cut_alone_does_not_suffice)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    given_a_cut(w, A, 200);
    w->stalled[A][B] = w->stalled[A][C] = true;
    w->stalled[B][A] = w->stalled[C][A] = true;
    w->master_continues = false;
    heard_clear(w);
    master_grant(w, A, 2, ABC, 2);
    pass(w, 3000);
    assert_int_equal(heard(w, A)->failed.members, 1u << B | 1u << C);
    assert_true(heard(w, A)->failed.unsure);
    w->stalled[A][C] = w->stalled[C][A] = false;
    heard_clear(w);
    pass(w, 3000);
    assert_int_equal(heard(w, A)->failed.members, 1u << B); /* C was never cut */
    assert_false(heard(w, A)->failed.unsure);
    w->stalled[A][B] = w->stalled[B][A] = false;
    pass(w, 1000);
    assert_int_equal(heard(w, A)->recovered.length, 3 * 144);
    assert_int_equal(heard(w, A)->loss.n, 0);
    check_logs(w, ABC);
}

/* Rot is not everywhere, and whatever was torn was never acknowledged. */
STORY(of_two_logs_that_were_cut_the_longer_suffices)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    given_a_cut(w, A, 50);
    given_a_cut(w, C, 350);
    w->stalled[A][B] = w->stalled[B][A] = true;
    w->acked_count = 2; /* what the third was about */
    w->master_continues = false;
    heard_clear(w);
    master_grant(w, A, 2, ABC, 2);
    pass(w, 3000);
    assert_int_equal(heard(w, A)->failed.members, 1u << B);
    assert_false(heard(w, A)->failed.unsure);
    master_grant(w, A, 3, AC, 2);
    pass(w, 1000);
    assert_int_equal(heard(w, A)->recovered.version, 3);
    assert_int_equal(heard(w, A)->recovered.length, 2 * 144);
}

/* A write that belonged elsewhere: sound in itself, and at home in another log, or at another place
 * in this one. Its server finds it by itself, at the start. */
STORY(a_batch_that_belongs_elsewhere_is_found_at_the_start)
{
    for (uint64_t chunk = CHUNK; chunk <= CHUNK + 1; chunk++) {
        struct world *v = world_create(1, w->synced);
        struct lh_buf foreign = make_batch(WRITER + 7, 1, 1, 100);
        uint64_t checksum = lh_log_seed(chunk);

        foreign = chained(&foreign, &checksum);
        given_a_chunk(v, ABC);
        (void)given_a_writer(v, A, 1, 3);
        node_kill(v, B, false);
        settle(v);
        size_t at = chunk == CHUNK ? 288 : 0;
        uint8_t *log = node_file(v, B, CHUNK)->cache + LH_LOG_START;
        assert_true(lh_buf_read(&foreign, 0, log + at, foreign.size));
        lh_buf_clear(&foreign);
        heard_clear(v);
        node_start(v, B);
        settle(v);
        assert_true(node_status(v, B).lost);
        assert_false(node_status(v, A).lost || node_status(v, C).lost);
        v->master_continues = false;
        master_grant(v, C, 2, AC, 2);
        pass(v, 1000);
        assert_int_equal(heard(v, C)->recovered.length, 3 * 144);
        check_logs(v, AC);
        world_destroy(v);
    }
}

STORY(a_primary_whose_own_log_has_rotted_blames_no_member)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    given_a_cut(w, B, 200);
    node_file(w, A, CHUNK)->cache[LH_LOG_START + 144 + 60] ^= 1;
    heard_clear(w);
    pass(w, 1000);
    assert_true(node_status(w, A).lost);
    assert_int_equal(heard(w, A)->lost.n, 1);
    assert_int_equal(heard(w, A)->failed.members & 1u << B, 0);
}

/* SEAL-1: the process died between writing the header that says so and its sync; the machine may
 * follow. */
STORY(a_seal_that_is_found_at_a_start_is_on_the_disk_before_it_is_told)
{
    uint8_t unsealed[LH_LOG_START];

    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    memcpy(unsealed, node_file(w, B, CHUNK)->durable, sizeof unsealed);
    struct lh_replica_status s = node_status(w, B);
    master_record_seal(w, B, 1, s.length, s.checksum);
    settle(w);
    assert_true(node_status(w, B).sealed);
    memcpy(node_file(w, B, CHUNK)->durable, unsealed, sizeof unsealed);
    node_kill(w, B, false);
    settle(w);
    node_start(w, B);
    settle(w);
    assert_true(w->nodes[B].registered->register_->replicas[0]->sealed);
    node_kill(w, B, true);
    settle(w);
    node_start(w, B);
    settle(w);
    assert_true(w->nodes[B].registered->register_->replicas[0]->sealed);
}

/* The master's metadata is an older copy. What it says goes, and is complained of. */
STORY(a_seal_below_what_was_acknowledged_is_recorded)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 1);
    uint64_t length = node_status(w, A).length, checksum = node_status(w, A).checksum;
    struct conn *c = appender(w, A, 1, WRITER, 2);
    settle(w);
    append(c, 2, 100);
    settle(w);
    assert_int_equal(node_status(w, A).committed, 2 * length);
    w->acked_count = 1;
    master_record_seal(w, A, 1, length, checksum);
    pass(w, 100);
    assert_true(node_status(w, A).sealed);
    assert_int_equal(node_status(w, A).committed, length);
    node_kill(w, A, false);
    settle(w);
    node_start(w, A);
    settle(w);
    assert_int_equal(node_status(w, A).committed, length);
}

/* It is there, in whatever state; a chunk that can be made there again must not stumble over it. */
STORY(a_file_that_cannot_be_removed_is_not_forgotten)
{
    master_create(w, 1u << A);
    settle(w);
    node_fail_disk(w, A, LH_DISK_REMOVE, 0, LH_ERR_IO);
    master_remove(w, A, 0);
    settle(w);
    assert_int_equal(heard(w, A)->removed.error, LH_ERR_IO);
    assert_true(node_status(w, A).lost);
    heard_clear(w);
    master_create(w, 1u << A);
    settle(w);
    assert_int_equal(heard(w, A)->created.n, 1);
    assert_int_equal(heard(w, A)->created.error, LH_OK);
    assert_false(node_status(w, A).lost);
}

/* Found by a fuzzer: what had been written to it counted, and was not there. */
STORY(what_is_made_in_its_place_is_empty)
{
    (void)given_a_written_chunk(w, 3);
    node_fail_disk(w, B, LH_DISK_REMOVE, 0, LH_ERR_IO);
    master_remove(w, B, 1);
    settle(w);
    assert_int_equal(heard(w, B)->removed.error, LH_ERR_IO);
    heard_clear(w);
    master_create(w, 1u << B);
    settle(w);
    assert_int_equal(heard(w, B)->created.error, LH_OK);
    assert_int_equal(node_status(w, B).length, 0);
    assert_int_equal(node_status(w, B).committed, 0);
}

STORY(a_replica_whose_tail_cannot_be_cut_does_not_keep_its_server_away)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    node_kill(w, B, false);
    settle(w);
    struct file *f = node_file(w, B, CHUNK);
    f->cache = realloc(f->cache, f->size + 10);
    memset(f->cache + f->size, 0xff, 10);
    f->size += 10;
    node_fail_disk(w, B, LH_DISK_TRUNCATE, 0, LH_ERR_IO);
    unsigned before = w->nodes[B].registrations;
    node_start(w, B);
    settle(w);
    assert_int_equal(w->nodes[B].registrations, before + 1);
    assert_false(w->nodes[B].registered->register_->replicas[0]->lost);
    pass(w, 300); /* it is cut once the disk lets it */
    assert_false(node_status(w, B).lost);
    assert_int_equal(node_status(w, B).length, 3 * 144);
    assert_int_equal(node_file(w, B, CHUNK)->size, LH_LOG_START + 3 * 144);
}

STORY(rot_below_the_confirmed_length_loses_the_replica)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    master_grant(w, A, 2, ABC, 2); /* equality is confirmed at 432 bytes */
    settle(w);
    node_kill(w, B, false);
    settle(w);
    node_file(w, B, CHUNK)->cache[LH_LOG_START + 200] ^= 1;
    node_start(w, B);
    settle(w);
    assert_true(node_status(w, B).lost);
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;
    struct conn *r = reader(w, B, q);
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__OK); /* it is whole (REC-9) */
    q.offset = 144;
    r = reader(w, B, q);
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__CORRUPT);
}

/* A reader meets a bit that has turned over in the first batch. */
static void find_rot(struct world *w, int node)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    q.mode = LEASEHOLD__READ_MODE__RECOVERY; /* also what is not known to be committed */
    q.version = node_status(w, node).version;
    node_file(w, node, CHUNK)->cache[LH_LOG_START + 50] ^= 1;
    struct conn *r = reader(w, node, q);
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__CORRUPT);
}

STORY(a_replica_that_is_lost_while_its_server_registers_is_reported)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 2);
    node_kill(w, B, false);
    settle(w);
    w->stalled[MASTER][B] = true; /* its registration is answered late */
    node_start(w, B);
    settle(w);
    assert_false(w->nodes[B].registered->register_->replicas[0]->lost);
    find_rot(w, B);
    assert_true(node_status(w, B).lost);
    assert_int_equal(heard(w, B)->lost.n, 0);
    w->stalled[MASTER][B] = false;
    settle(w);
    assert_int_equal(heard(w, B)->lost.n, 1);
    assert_int_equal(w->nodes[B].registrations, 2);

    /* Once is enough, and the next registration says so by itself. */
    break_wire(w, w->nodes[B].session_wire);
    pass(w, 200);
    assert_int_equal(w->nodes[B].registrations, 3);
    assert_true(w->nodes[B].registered->register_->replicas[0]->lost);
    assert_int_equal(heard(w, B)->lost.n, 1);
}

STORY(a_failed_sync_has_the_log_rewritten)
{
    if (!w->synced)
        return;
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    node_fail_disk(w, B, LH_DISK_SYNC, 0, LH_ERR_IO);
    append(c, 3, 100);
    settle(w);
    assert_false(answered(c, 3));
    assert_int_equal(heard(w, A)->failed.members, 1u << B);
    assert_int_equal(heard(w, B)->lost.n, 0);
    assert_false(node_status(w, B).lost);
    assert_int_equal(node_status(w, B).length, 3 * 144); /* it could be read, and is on the disk */
    pass(w, 100);
    assert_int_equal(position(c, 3), 2 * 144); /* the primary has tried again */
    node_kill(w, B, true);
    node_start(w, B);
    settle(w);
    assert_false(w->nodes[B].registered->register_->replicas[0]->lost);
    assert_int_equal(node_status(w, B).length, 3 * 144);

    master_grant(w, A, 2, ABC, 2);
    settle(w);
    c = appender(w, A, 2, WRITER, 4);
    settle(w);
    append(c, 4, 100);
    settle(w);
    assert_int_equal(position(c, 4), 3 * 144);
    check_logs(w, ABC);
}

STORY(a_primary_whose_write_fails_gives_the_lease_up)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    node_fail_disk(w, A, LH_DISK_WRITE, 0, LH_ERR_IO);
    append(c, 3, 100);
    settle(w);
    assert_true(c->closed && !answered(c, 3));
    assert_true(!node_status(w, A).lost && !node_status(w, A).primary);
    assert_int_equal(heard(w, A)->release.version, 1);
    heard_clear(w);
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    assert_true(heard(w, A)->confirm.n == 1 && heard(w, A)->confirm.error == LH_OK);
    check_logs(w, ABC);
}

STORY(a_full_disk_cuts_back_to_what_was_written)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    node_fail_disk(w, A, LH_DISK_WRITE, 0, LH_ERR_DISK_FULL);
    append(c, 3, 100);
    settle(w);
    assert_int_equal(c->error, LH_ERR_DISK_FULL);
    assert_false(answered(c, 3));
    assert_int_equal(heard(w, A)->release.version, 1);
    struct lh_replica_status s = node_status(w, A);
    assert_true(!s.lost && !s.primary && s.length == 2 * 144);
    /* Its members may have the batch: it is found and goes on from there. */
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.length, node_status(w, B).length);
    c = appender(w, A, 2, WRITER, 3);
    settle(w);
    append(c, 3, 100);
    settle(w);
    assert_int_equal(position(c, 3), 2 * 144);
    check_logs(w, ABC);
}

STORY(a_sync_that_fails_while_the_log_is_cut_back_is_not_forgotten)
{
    if (!w->synced)
        return;
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    /* One batch's sync hangs, the next one's write finds the disk full, then the sync fails. */
    node_fail_disk(w, B, LH_DISK_WRITE, 1, LH_ERR_DISK_FULL);
    w->nodes[B].disk_stalled = true;
    append(c, 3, 100);
    settle(w);
    append(c, 4, 100);
    settle(w);
    /* Completes exactly the operations wanted, in that order. */
    for (int step = 0; step < 2; step++) {
        for (size_t i = 0; i < w->op_count; i++)
            if (w->ops[i].node == B && w->ops[i].op == LH_DISK_WRITE)
                disk_complete(w, i);
        settle(w);
    }
    node_fail_disk(w, B, LH_DISK_SYNC, 0, LH_ERR_IO);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_false(node_status(w, B).lost);
    assert_int_equal(node_status(w, B).length, 3 * 144);
    node_kill(w, B, true); /* it is in another file, which was synced */
    node_start(w, B);
    settle(w);
    assert_int_equal(node_status(w, B).length, 3 * 144);
}

STORY(a_lost_replica_does_not_come_back_with_the_cut_that_was_under_way)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    pass(w, 10); /* B knows what is committed */
    /* A reader's read and the cut back after a full disk are under way together; it finds rot,
     * which the log that is read back has, too. */
    node_fail_disk(w, B, LH_DISK_WRITE, 0, LH_ERR_DISK_FULL);
    w->nodes[B].disk_stalled = true;
    struct conn *r = reader(w, B, (Leasehold__ReadRequest)LEASEHOLD__READ_REQUEST__INIT);
    settle(w);
    append(c, 3, 100);
    settle(w);
    for (size_t i = 0; i < w->op_count; i++)
        if (w->ops[i].node == B && w->ops[i].op == LH_DISK_WRITE)
            disk_complete(w, i);
    settle(w);
    node_file(w, B, CHUNK)->cache[LH_LOG_START + 50] ^= 1;
    for (size_t i = 0; i < w->op_count; i++)
        if (w->ops[i].node == B && w->ops[i].op == LH_DISK_READ)
            disk_complete(w, i);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__CORRUPT);
    assert_true(node_status(w, B).lost);
}

STORY(a_replica_that_cannot_be_created_is_answered_and_may_be_tried_again)
{
    node_fail_disk(w, A, LH_DISK_CREATE, 0, LH_ERR_DISK_FULL);
    master_create(w, 1u << A);
    settle(w);
    assert_int_equal(heard(w, A)->created.error, LH_ERR_DISK_FULL);
    master_create(w, 1u << A);
    settle(w);
    assert_int_equal(heard(w, A)->created.error, LH_OK);
    master_create(w, 1u << A); /* resent */
    settle(w);
    assert_int_equal(heard(w, A)->created.n, 3);
    assert_int_equal(heard(w, A)->created.error, LH_OK);

    node_fail_disk(w, B, LH_DISK_WRITE, 0, LH_ERR_DISK_FULL);
    master_create(w, 1u << B);
    settle(w);
    assert_int_equal(heard(w, B)->created.error, LH_ERR_DISK_FULL);
    master_create(w, 1u << B);
    settle(w);
    assert_int_equal(heard(w, B)->created.error, LH_OK);
}

STORY(a_grant_of_a_replica_that_is_not_there_yet_is_refused)
{
    w->nodes[A].disk_stalled = true;
    master_create(w, 1u << A);
    settle(w);
    node_fail_disk(w, A, LH_DISK_CREATE, 0, LH_ERR_DISK_FULL);
    master_grant(w, A, 1, 1u << A, 1);
    settle(w);
    w->nodes[A].disk_stalled = false;
    settle(w);
    assert_int_equal(heard(w, A)->confirm.n, 1);
    assert_int_equal(heard(w, A)->confirm.error, LH_ERR_NO_REPLICA);
    assert_int_equal(heard(w, A)->created.error, LH_ERR_DISK_FULL);
}

/* ------------------------------------------------------------------------------------------------
 * Leases and sessions. */

STORY(a_recalled_lease_is_given_up_when_what_is_under_way_is_answered)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    w->stalled[B][A] = true;
    append(c, 2, 100);
    settle(w);
    master_recall(w, A, 1);
    settle(w);
    assert_int_equal(heard(w, A)->release.n, 0);
    append(c, 3, 100); /* not ordered any more */
    settle(w);
    w->stalled[B][A] = false;
    settle(w);
    assert_true(answered(c, 2) && !answered(c, 3));
    assert_int_equal(c->error, LH_ERR_NOT_PRIMARY);
    assert_int_equal(heard(w, A)->release.version, 1);
    /* LEASE-6: that version is never acted on again. */
    master_grant(w, A, 1, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, A)->confirm.error, LH_ERR_STALE_VERSION);
    assert_false(node_status(w, A).primary);
    check_logs(w, ABC);
}

STORY(a_recalled_lease_is_given_up_even_if_nothing_moves)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    w->stalled[B][A] = true;
    append(c, 2, 100);
    settle(w);
    master_recall(w, A, 1);
    pass(w, 2100);
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_false(answered(c, 2));
    assert_true(c->closed);
}

STORY(a_recall_during_recovery_is_answered_at_once)
{
    given_a_chunk(w, ABC);
    w->stalled[B][A] = true;
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    struct conn *c = appender(w, A, 2, WRITER, 1);
    settle(w);
    assert_false(c->opened || c->closed);
    master_recall(w, A, 2);
    settle(w);
    assert_int_equal(heard(w, A)->release.version, 2);
    assert_int_equal(c->error, LH_ERR_NOT_PRIMARY);
}

STORY(a_clean_stop_answers_what_is_under_way_and_releases)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    w->stalled[B][A] = true;
    append(c, 2, 100);
    settle(w);
    node_input(w, A, (struct lh_input){.kind = LH_IN_STOP});
    settle(w);
    assert_false(w->nodes[A].stopped);
    w->stalled[B][A] = false;
    settle(w);
    assert_true(answered(c, 2));
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_true(w->nodes[A].stopped);
    assert_int_equal(w->nodes[A].stopped_error, LH_OK);
}

STORY(a_stop_ends_in_time_although_nobody_answers)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    w->stalled[B][A] = true;
    w->master_deaf = true;
    append(c, 2, 100);
    settle(w);
    node_input(w, A, (struct lh_input){.kind = LH_IN_STOP});
    pass(w, 2600);
    assert_true(w->nodes[A].stopped);
    assert_false(answered(c, 2));
}

STORY(a_primary_that_hears_nothing_stops_by_its_own_clock)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    uint64_t version;
    w->stalled[MASTER][A] = true;
    pass(w, SESSION_TERM_MS);
    assert_false(lh_chunkserver_may_act(w->nodes[A].cs, CHUNK, w->now, &version));
    assert_true(c->closed);
    assert_int_equal(c->error, LH_ERR_NOT_PRIMARY);
    assert_false(node_status(w, A).primary);
}

STORY(a_primary_goes_on_in_a_new_session_of_a_new_master)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    struct wire *l = w->nodes[A].session_wire;
    w->stalled[B][A] = true;
    append(c, 2, 100);
    settle(w);
    /* The master restarts. */
    w->master_term++;
    break_wire(w, l);
    pass(w, 600);
    assert_int_equal(w->nodes[A].registrations, 2);
    assert_int_equal(w->nodes[A].registered->register_->n_held, 1);
    w->stalled[B][A] = false;
    settle(w);
    assert_true(answered(c, 2));
    append(c, 3, 100);
    settle(w);
    assert_true(answered(c, 3));

    /* One that does not let it go on is obeyed. */
    w->master_continues = false;
    break_wire(w, w->nodes[A].session_wire);
    pass(w, 600);
    assert_int_equal(c->error, LH_ERR_NOT_PRIMARY);
    assert_false(node_status(w, A).primary);
    check_logs(w, ABC);
}

STORY(an_idle_lease_runs_out_and_one_in_use_does_not)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    for (uint64_t s = 2; s < 12; s++) {
        pass(w, CHUNK_TERM_MS / 4);
        append(c, s, 10);
        settle(w);
        assert_true(answered(c, s));
    }
    pass(w, 2 * CHUNK_TERM_MS);
    assert_false(node_status(w, A).primary);
    assert_int_equal(c->error, LH_ERR_NOT_PRIMARY);
}

STORY(a_server_whose_disk_stalls_gives_its_leases_up)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    w->nodes[A].disk_stalled = true;
    pass(w, 3 * SESSION_TERM_MS / 3 + 100);
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_true(c->closed);
    w->nodes[A].disk_stalled = false;
    pass(w, SESSION_TERM_MS);
    heard_clear(w);
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.version, 2);
}

/* A registration does not name it, and its next one may be days away. */
STORY(a_replica_that_is_created_while_its_server_registers_anew_is_told)
{
    settle(w);
    w->nodes[A].disk_stalled = true;
    master_create(w, 1u << A);
    settle(w);
    break_wire(w, w->nodes[A].session_wire);
    pass(w, 600);
    assert_int_equal(w->nodes[A].registrations, 2);
    heard_clear(w);
    w->nodes[A].disk_stalled = false;
    pass(w, 100);
    assert_int_equal(heard(w, A)->created.n, 1);
    assert_int_equal(heard(w, A)->created.error, LH_OK);
}

static void create_at(struct world *w, uint64_t version)
{
    Leasehold__SessionReply m = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__CreateReplica create = LEASEHOLD__CREATE_REPLICA__INIT;

    create.session = w->nodes[A].session;
    create.chunk = CHUNK;
    create.version = version;
    create.chunk_size = CHUNK_SIZE;
    create.master_term = w->master_term;
    m.body_case = LEASEHOLD__SESSION_REPLY__BODY_CREATE;
    m.create = &create;
    heard_clear(w);
    master_send(w, A, &m);
    settle(w);
    assert_int_equal(heard(w, A)->created.n, 1);
}

/* A restarted master does not know that a chunk's replicas were made ahead of it. */
STORY(a_replica_that_was_created_ahead_is_also_what_an_unused_chunk_needs)
{
    settle(w);
    create_at(w, 1);
    assert_int_equal(heard(w, A)->created.error, LH_OK);
    create_at(w, 0);
    assert_int_equal(heard(w, A)->created.error, LH_OK);
    master_grant(w, A, 1, 1u << A, 1);
    settle(w);
    create_at(w, 0);
    assert_int_equal(heard(w, A)->created.error, LH_ERR_ALREADY_EXISTS);
}

/* A master on an old copy of its metadata may take a chunk for a spare that nobody used. */
STORY(a_remove_of_what_was_created_in_vain_spares_what_holds_a_byte)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    for (int i = A; i <= C; i++)
        master_remove(w, i, 0);
    settle(w);
    append(c, 3, 100);
    settle(w);
    assert_true(answered(c, 3));
    check_logs(w, ABC);
}

STORY(a_removed_replica_is_gone_and_an_old_remove_is_ignored)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    master_remove(w, A, 1); /* FENCE-2 */
    settle(w);
    assert_true(node_status(w, A).open);
    c = appender(w, A, 2, WRITER, 3);
    settle(w);
    append(c, 3, 100);
    master_remove(w, A, 2);
    settle(w);
    struct lh_replica_status s;
    assert_false(lh_chunkserver_replica(w->nodes[A].cs, CHUNK, &s));
    assert_null(node_file(w, A, CHUNK));
    assert_true(c->closed);
}

/* ------------------------------------------------------------------------------------------------
 * Reading. */

STORY(a_reader_gets_whole_committed_batches)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 3);
    w->stalled[B][A] = true;
    append(c, 4, 100); /* not committed */
    settle(w);
    q.max_bytes = 300;
    q.require_primary = true;
    struct conn *r = reader(w, A, q);
    settle(w);
    assert_int_equal(r->payloads[0].size, 2 * 144);
    assert_true(read_reply(r)->primary && read_reply(r)->committed == 3 * 144);

    q.max_bytes = 1; /* at least one batch, however large */
    q.offset = 144;
    r = reader(w, A, q);
    settle(w);
    assert_int_equal(r->payloads[0].size, 144);

    q.max_bytes = UINT64_MAX;
    r = reader(w, A, q);
    settle(w);
    assert_int_equal(r->payloads[0].size, 2 * 144);

    q.offset = 137; /* no batch begins there; the replica is none the worse for it */
    r = reader(w, A, q);
    q.offset = UINT64_MAX - 5;
    struct conn *beyond = reader(w, A, q);
    settle(w);
    assert_true(read_reply(r)->error != LEASEHOLD__ERROR_CODE__OK);
    assert_true(read_reply(beyond)->error != LEASEHOLD__ERROR_CODE__OK);
    assert_true(node_status(w, A).open);

    q = (Leasehold__ReadRequest)LEASEHOLD__READ_REQUEST__INIT;
    q.require_primary = true;
    r = reader(w, B, q);
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__NOT_PRIMARY);
    w->stalled[B][A] = false;
    settle(w);
}

STORY(a_read_that_asked_for_the_primary_looks_at_the_clock_again)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 1);
    w->nodes[A].disk_stalled = true;
    w->stalled[MASTER][A] = true;
    q.require_primary = true;
    struct conn *r = reader(w, A, q);
    pass(w, SESSION_TERM_MS);
    w->nodes[A].disk_stalled = false;
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__NOT_PRIMARY);
}

STORY(a_reader_waits_at_the_end)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    q.offset = 144;
    q.wait_ms = 1000;
    struct conn *r = reader(w, A, q), *lagging = reader(w, C, q);
    settle(w);
    assert_false(r->closed);
    append(c, 2, 100);
    settle(w);
    assert_int_equal(r->payloads[0].size, 144);
    pass(w, 20); /* the committed length comes by itself */
    assert_int_equal(lagging->payloads[0].size, 144);
    assert_false(read_reply(lagging)->primary);

    q.offset = 288;
    r = reader(w, A, q);
    pass(w, 1001);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(r->payloads[0].size, 0);
}

STORY(secondaries_learn_what_a_recovery_has_committed_without_being_asked)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    w->stalled[B][A] = true;
    append(c, 2, 100);
    settle(w);
    w->stalled[B][A] = false;
    node_kill(w, A, false);
    settle(w);
    master_grant(w, B, 2, 1u << B | 1u << C, 2);
    pass(w, 20);
    assert_int_equal(node_status(w, C).committed, node_status(w, B).length);
}

STORY(a_reader_at_a_member_that_is_being_copied_to_sees_only_what_is_written)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 5);
    node_kill(w, C, true);
    settle(w);
    node_start(w, C);
    settle(w);
    q.wait_ms = 30000;
    q.max_bytes = 1u << 20;
    q.offset = node_status(w, C).length;
    if (!w->synced)
        assert_int_equal(q.offset, 0);
    struct conn *r = reader(w, C, q);
    pass(w, 1000);
    if (!w->synced) {
        assert_true(r->closed);
        assert_true(r->payloads[0].size > 0 && r->payloads[0].size % 144 == 0);
    }
    assert_false(node_status(w, C).lost);
    q.offset = 0;
    r = reader(w, C, q);
    settle(w);
    assert_int_equal(r->payloads[0].size, 5 * 144);
    check_logs(w, ABC);
}

/* ------------------------------------------------------------------------------------------------
 * A primary that misbehaves is refused and harms nobody. */

STORY(a_primary_that_does_not_wait_for_the_adoption_is_refused)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 2);
    for (int twice = 0; twice < 2; twice++) {
        Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;
        struct conn *f = feeder(w, B);
        w->nodes[B].disk_stalled = true;
        q.version = 2 + (uint64_t)twice; /* a version that the disk has to take */
        feed(f, q, NULL);
        if (twice)
            feed(f, q, NULL);
        settle(w);
        q.kind = LEASEHOLD__REPLICATE_KIND__APPEND;
        q.offset = 2 * 144;
        struct lh_buf batch = make_batch(WRITER, 3, 1, 100);
        feed(f, q, &batch);
        settle(w);
        w->nodes[B].disk_stalled = false;
        settle(w);
        assert_true(feed_reply(f, feed_replies(f) - 1)->error != LEASEHOLD__ERROR_CODE__OK);
        assert_int_equal(node_status(w, B).length, 2 * 144);
        hang_up(f);
    }
}

STORY(a_primary_that_says_nonsense_is_refused)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 2);
    for (int kind = 0; kind < 8; kind++) {
        Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;
        struct conn *f = feeder(w, B);
        uint64_t checksum = node_status(w, B).checksum;
        q.version = kind == 0 ? 0 : 1;
        feed(f, q, NULL);
        settle(w);
        q.kind = LEASEHOLD__REPLICATE_KIND__APPEND;
        q.offset = 2 * 144;
        struct lh_buf batch = make_batch(WRITER, 3, 1, 100);
        if (kind == 1) {
            q.offset = UINT64_MAX - 10;
        } else if (kind == 2) {
            q.version = 9; /* never adopted */
        } else if (kind == 3) {
            lh_buf_clear(&batch);
            batch = make_batch(WRITER, 9, 1, 100); /* a gap */
        } else if (kind == 4) {
            lh_buf_clear(&batch);
            char nonsense[LH_BATCH_HEADER_BYTES] = "nonsense";
            batch = lh_buf_copy(nonsense, sizeof nonsense);
        } else if (kind == 5) {
            q.kind = LEASEHOLD__REPLICATE_KIND__CONFIRM;
            q.length = UINT64_MAX;
        } else if (kind == 6) {
            q.version = 0; /* below */
        } else if (kind == 7) {
            checksum = lh_log_seed(CHUNK); /* of another place */
        }
        if (kind != 4)
            batch = chained(&batch, &checksum);
        feed(f, q, &batch);
        settle(w);
        assert_true(feed_reply(f, feed_replies(f) - 1)->error != LEASEHOLD__ERROR_CODE__OK);
        assert_int_equal(node_status(w, B).length, 2 * 144);
        assert_false(node_status(w, B).lost);
        /* Another one's message must not be answered there. */
        size_t answers = feed_replies(f);
        pass(w, 600);
        assert_int_equal(feed_replies(f), answers);
        assert_false(f->closed);
    }
    struct conn *c = appender(w, A, 1, WRITER, 3);
    settle(w);
    append(c, 3, 100);
    pass(w, 600);
    assert_true(answered(c, 3));
    check_logs(w, ABC);
}

/* ------------------------------------------------------------------------------------------------
 * So is a member that misbehaves. D is played. */

static void d_says(
    struct world *w, Leasehold__ReplicateKind kind, uint64_t length, uint64_t checksum)
{
    Leasehold__ReplicateAnswer m = LEASEHOLD__REPLICATE_ANSWER__INIT;

    m.kind = kind;
    m.version = 1;
    m.length = length;
    m.checksum = checksum;
    play_answer(w, m);
}

static void given_a_chunk_at_a_and_d(struct world *w)
{
    play(w, D);
    master_create(w, 1u << A);
    settle(w);
    master_grant(w, A, 1, 1u << A | 1u << D, 1);
    settle(w);
    w->members = 1u << A;
    assert_false(node_status(w, A).open);
}

STORY(a_member_whose_log_cannot_be_so_long_is_refused)
{
    given_a_chunk_at_a_and_d(w);
    d_says(w, LEASEHOLD__REPLICATE_KIND__ADOPT, UINT64_MAX, 1);
    assert_int_equal(heard(w, A)->failed.members, 1u << D);
    pass(w, 100);
    d_says(w, LEASEHOLD__REPLICATE_KIND__ADOPT, 0, 0);
    d_says(w, LEASEHOLD__REPLICATE_KIND__CONFIRM, 0, 0);
    assert_true(node_status(w, A).open);
}

static void d_reports(struct world *w, uint64_t length, uint64_t checksum, bool equal)
{
    Leasehold__ReplicateAnswer m = LEASEHOLD__REPLICATE_ANSWER__INIT;

    m.kind = LEASEHOLD__REPLICATE_KIND__ADOPT;
    m.version = 1;
    m.length = length;
    m.checksum = checksum;
    m.equal = equal;
    play_answer(w, m);
}

/* Its header has all that CONFIRM would write (REC-2). */
STORY(a_member_that_reports_its_equality_confirms_nothing)
{
    given_a_chunk_at_a_and_d(w);
    d_reports(w, 0, lh_log_seed(CHUNK), true);
    assert_true(node_status(w, A).open);
}

STORY(equality_is_that_of_the_longest_log)
{
    given_a_chunk_at_a_and_d(w);
    d_reports(w, 0, lh_log_seed(CHUNK) + 1, true);
    assert_false(node_status(w, A).open); /* it is to confirm, and finds that it is another one */
    d_says(w, LEASEHOLD__REPLICATE_KIND__CONFIRM, 0, 0);
    assert_true(node_status(w, A).open);
}

/* A replica that is new reports it, and so does one at whose end equality was confirmed. One that
 * has taken bytes since does not, and none of an older boot. */
STORY(a_log_is_reported_as_equal_where_its_header_says_so)
{
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;

    master_create(w, 1u << B);
    settle(w);
    q.version = 1;
    struct conn *primary = feeder(w, B);
    feed(primary, q, NULL);
    settle(w);
    assert_true(feed_reply(primary, 0)->equal);

    uint64_t checksum = lh_log_seed(CHUNK);
    struct lh_buf batch = make_batch(WRITER, 1, 1, 100);
    batch = chained(&batch, &checksum);
    q.kind = LEASEHOLD__REPLICATE_KIND__APPEND;
    feed(primary, q, &batch);
    settle(w);
    q.kind = LEASEHOLD__REPLICATE_KIND__ADOPT;
    q.version = 2;
    primary = feeder(w, B);
    feed(primary, q, NULL);
    settle(w);
    assert_int_equal(feed_reply(primary, 0)->length, 144);
    assert_false(feed_reply(primary, 0)->equal);
    q.kind = LEASEHOLD__REPLICATE_KIND__CONFIRM;
    q.length = 144;
    q.checksum = checksum;
    feed(primary, q, NULL);
    settle(w);

    q = (Leasehold__ReplicatePart)LEASEHOLD__REPLICATE_PART__INIT;
    q.version = 3;
    primary = feeder(w, B);
    feed(primary, q, NULL);
    settle(w);
    assert_true(feed_reply(primary, 0)->equal);
    restart(w, B, true); /* with its machine */
    primary = feeder(w, B);
    feed(primary, q, NULL);
    settle(w);
    assert_false(feed_reply(primary, 0)->equal);
}

STORY(a_member_whose_log_ends_within_a_batch_is_refused)
{
    given_a_chunk_at_a_and_d(w);
    d_says(w, LEASEHOLD__REPLICATE_KIND__ADOPT, 0, 0);
    d_says(w, LEASEHOLD__REPLICATE_KIND__CONFIRM, 0, 0);
    struct conn *c = appender(w, A, 1, WRITER, 1);
    settle(w);
    append(c, 1, 100);
    append(c, 2, 100);
    settle(w);
    break_wire(w, w->played_wire[LH_METHOD_REPLICATE]);
    pass(w, 100);
    d_says(w, LEASEHOLD__REPLICATE_KIND__ADOPT, 150, 1);
    assert_int_equal(heard(w, A)->failed.members, 1u << D);
    pass(w, 100);
    d_says(w, LEASEHOLD__REPLICATE_KIND__ADOPT, 144, 1);
    d_says(w, LEASEHOLD__REPLICATE_KIND__APPEND, 288, 0);
    assert_false(answered(c, 1)); /* not before it has confirmed that it is equal */
    d_says(w, LEASEHOLD__REPLICATE_KIND__CONFIRM, 288, 0);
    assert_true(answered(c, 2));
}

STORY(a_member_that_is_fetched_from_may_come_back_shorter)
{
    given_a_chunk_at_a_and_d(w);
    d_says(w, LEASEHOLD__REPLICATE_KIND__ADOPT, 288, 4711);
    struct wire *fetch = w->played_wire[LH_METHOD_READ];
    assert_non_null(fetch);
    Leasehold__ReadReply m = LEASEHOLD__READ_REPLY__INIT;
    uint64_t checksum = lh_log_seed(CHUNK);
    struct lh_buf batch = make_batch(WRITER, 1, 1, 100);
    batch = chained(&batch, &checksum);
    play_reply(w, LH_METHOD_READ, &m.base, &batch);
    settle(w);
    assert_true(w->played_wire[LH_METHOD_READ] != fetch); /* the next part */
    fetch = w->played_wire[LH_METHOD_READ];
    /* Its machine goes down: it comes back with nothing. */
    break_wire(w, w->played_wire[LH_METHOD_REPLICATE]);
    pass(w, 100);
    d_says(w, LEASEHOLD__REPLICATE_KIND__ADOPT, 0, 0);
    if (!fetch->client_gone) {
        batch = make_batch(WRITER, 2, 1, 100);
        batch = chained(&batch, &checksum);
        play_reply(w, LH_METHOD_READ, &m.base, &batch);
        settle(w);
    }
    assert_false(node_status(w, A).lost);
    assert_int_equal(node_status(w, A).length, 144);
    d_says(w, LEASEHOLD__REPLICATE_KIND__APPEND, 144, 0);
    d_says(w, LEASEHOLD__REPLICATE_KIND__CONFIRM, 144, 0);
    assert_true(node_status(w, A).open);
    assert_int_equal(heard(w, A)->recovered.length, 144);
}

/* D is slow to answer, and is asked again on the same stream. What it says to the first question is
 * no answer to the second one. */
STORY(an_answer_from_before_a_silence_counts_for_nothing)
{
    given_a_chunk_at_a_and_d(w);
    struct wire *stream = w->played_wire[LH_METHOD_REPLICATE];
    uint64_t first = w->played_feed;
    pass(w, 1500);
    assert_int_equal(heard(w, A)->failed.members, 1u << D);
    uint64_t second = w->played_feed;
    assert_ptr_equal(w->played_wire[LH_METHOD_REPLICATE], stream);
    assert_int_not_equal(first, second);

    w->played_feed = first;
    d_says(w, LEASEHOLD__REPLICATE_KIND__ADOPT, 0, 0);
    d_says(w, LEASEHOLD__REPLICATE_KIND__CONFIRM, 0, 0);
    assert_false(node_status(w, A).open);
    w->played_feed = second;
    d_says(w, LEASEHOLD__REPLICATE_KIND__CONFIRM, 0, 0);
    assert_false(node_status(w, A).open);
    d_says(w, LEASEHOLD__REPLICATE_KIND__ADOPT, 0, 0);
    d_says(w, LEASEHOLD__REPLICATE_KIND__CONFIRM, 0, 0);
    assert_true(node_status(w, A).open);

    struct conn *c = appender(w, A, 1, WRITER, 1);
    settle(w);
    append(c, 1, 100);
    settle(w);
    w->played_feed = first;
    d_says(w, LEASEHOLD__REPLICATE_KIND__APPEND, 144, 0);
    assert_false(answered(c, 1));
    w->played_feed = second;
    d_says(w, LEASEHOLD__REPLICATE_KIND__APPEND, 144, 0);
    assert_true(answered(c, 1));
}

/* A part of a batch in each message, and the batch is stored when it is whole. */
STORY(a_batch_that_comes_in_parts_is_stored_whole_or_not_at_all)
{
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;

    given_a_chunk(w, ABC);
    struct conn *c = feeder(w, B);
    q.version = 2;
    feed(c, q, NULL);
    settle(w);
    q.kind = LEASEHOLD__REPLICATE_KIND__APPEND;
    uint64_t checksum = lh_log_seed(CHUNK);
    struct lh_buf framed = make_batch(WRITER, 1, 1, 100), batch = chained(&framed, &checksum);
    while (q.offset < batch.size) {
        struct lh_buf some = {0};
        assert_int_equal(node_status(w, B).length, 0);
        lh_buf_append(&some, &batch, q.offset, 1);
        feed(c, q, &some);
        settle(w);
        q.offset++;
    }
    assert_int_equal(node_status(w, B).length, 144);
    assert_int_equal(feed_reply(c, feed_replies(c) - 1)->length, 144);

    /* The stream breaks within the next one: nothing of that is left. */
    struct lh_buf some = {0};
    lh_buf_append(&some, &batch, 0, 50);
    feed(c, q, &some);
    settle(w);
    hang_up(c);
    settle(w);
    c = feeder(w, B);
    feed(c, (Leasehold__ReplicatePart){.base = q.base, .version = 3}, NULL);
    settle(w);
    assert_int_equal(feed_reply(c, 0)->length, 144);
    lh_buf_clear(&batch);
    framed = make_batch(WRITER, 2, 1, 100);
    batch = chained(&framed, &checksum);
    q.version = 3;
    feed(c, q, &batch);
    settle(w);
    assert_int_equal(node_status(w, B).length, 288);
}

STORY(a_member_that_blinks_while_another_is_waited_for_gets_its_time)
{
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 2);
    node_kill(w, C, false);
    settle(w);
    master_grant(w, A, 2, ABC, 3);
    pass(w, 5000); /* C stays away; the master cannot do without it */
    assert_int_equal(heard(w, A)->failed.members, 1u << C);
    node_kill(w, B, false);
    settle(w);
    node_start(w, B);
    for (int i = 0; i < 20; i++) {
        pass(w, 100);
        assert_int_equal(heard(w, A)->failed.members, 1u << C);
    }
    node_start(w, C);
    settle(w);
    master_grant(w, A, 2, ABC, 3); /* C's address is known now */
    pass(w, 600);
    assert_true(node_status(w, A).open);
}

/* Somebody cuts a file under the server. */
STORY(a_file_that_is_shorter_than_its_log_loses_the_replica)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    pass(w, 10);
    node_file(w, B, CHUNK)->size = LH_LOG_START + 200;
    q.offset = 144;
    struct conn *r = reader(w, B, q);
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__CORRUPT);
    assert_true(node_status(w, B).lost);

    node_kill(w, C, true);
    settle(w);
    node_file(w, A, CHUNK)->size = LH_LOG_START;
    if (w->synced)
        return; /* C has it all */
    node_start(w, C);
    pass(w, 300);
    assert_true(node_status(w, A).lost);
}

/* ------------------------------------------------------------------------------------------------
 * Messages that come slowly, and streams that say no more. */

STORY(who_sends_a_large_message_hears_that_it_arrives)
{
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    pass(w, 1000);
    assert_int_equal(c->alive, 0);

    for (unsigned i = 1; i <= 10; i++) {
        driver_says(c, LH_IN_PROGRESS);
        pass(w, 200);
        assert_true(c->alive >= i && c->arriving >= i);
    }
    /* The link stands still: the primary still lives. */
    unsigned alive = c->alive;
    pass(w, 1000);
    assert_true(c->alive >= alive + 5);
    append(c, 2, 16000); /* the rest of it */
    settle(w);
    assert_true(answered(c, 2));
    alive = c->alive;
    pass(w, 1000);
    assert_int_equal(c->alive, alive);
}

STORY(a_message_that_is_never_whole_ends_its_stream)
{
    w->bounds.arrival_pause_ms = 2000;
    w->bounds.arrival_ms = 10000;
    node_kill(w, A, false);
    node_start(w, A);
    settle(w);
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    driver_says(c, LH_IN_PROGRESS);
    pass(w, 1900);
    assert_false(c->closed);
    pass(w, 200); /* nothing more comes */
    assert_true(c->closed);
    assert_int_equal(c->error, LH_ERR_DEADLINE_EXCEEDED);

    c = appender(w, A, 1, WRITER, 2);
    settle(w);
    for (int i = 0; i < 10; i++) {
        driver_says(c, LH_IN_PROGRESS);
        pass(w, 990);
        assert_false(c->closed);
    }
    driver_says(c, LH_IN_PROGRESS);
    pass(w, 200); /* something always comes */
    assert_true(c->closed);
    assert_int_equal(c->error, LH_ERR_DEADLINE_EXCEEDED);

    c = appender(w, A, 1, WRITER, 2);
    settle(w);
    driver_says(c, LH_IN_PROGRESS);
    append(c, 2, 100); /* whole in time: the next one has its own time */
    pass(w, 5000);
    assert_true(answered(c, 2) && !c->closed);
}

STORY(a_message_that_is_not_read_is_given_its_time)
{
    w->bounds.arrival_pause_ms = 100;
    w->bounds.arrival_ms = 1000;
    w->pending_bytes = 200;
    node_kill(w, A, false);
    node_start(w, A);
    settle(w);
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 1);
    w->stalled[C][A] = true;
    append(c, 2, 1000); /* too much is uncommitted: its stream is held */
    settle(w);
    assert_true(c->wire->held[true]);
    driver_says(c, LH_IN_PROGRESS);
    pass(w, 900);
    assert_false(c->closed);
    w->stalled[C][A] = false;
    settle(w);
    assert_true(answered(c, 2) && !c->closed && !c->wire->held[true]);
}

STORY(a_secondary_tells_its_primary_what_arrives)
{
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;

    given_a_chunk(w, ABC);
    struct conn *c = feeder(w, B);
    q.chunk = CHUNK;
    q.version = 2;
    q.kind = LEASEHOLD__REPLICATE_KIND__ADOPT;
    feed(c, q, NULL);
    settle(w);
    assert_int_equal(feed_replies(c), 1);
    q.kind = LEASEHOLD__REPLICATE_KIND__APPEND;
    struct lh_buf batch = make_batch(WRITER, 1, 1, 1000);
    for (unsigned i = 0; i < 10; i++) { /* more often than anybody wants to know */
        struct lh_buf some = {0};
        lh_buf_append(&some, &batch, q.offset, 10);
        feed(c, q, &some);
        q.offset += 10;
        pass(w, 50);
    }
    lh_buf_clear(&batch);
    settle(w);
    assert_in_range(feed_replies(c), 4, 7);
    const Leasehold__ReplicateAnswer *r = feed_reply(c, feed_replies(c) - 1);
    assert_int_equal(r->kind, LEASEHOLD__REPLICATE_KIND__APPEND);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(r->length, 0);
    size_t count = feed_replies(c);
    pass(w, 1000); /* nothing comes, nothing is said */
    assert_int_equal(feed_replies(c), count);
}

STORY(a_half_closed_stream_is_answered_and_closed)
{
    given_a_chunk(w, ABC);
    struct conn *idle = given_a_writer(w, A, 1, 1);
    driver_says(idle, LH_IN_HALF_CLOSED);
    settle(w);
    assert_true(idle->closed);
    assert_int_equal(idle->closed_error, LH_OK);

    struct conn *c = appender(w, A, 1, WRITER, 2);
    settle(w);
    w->stalled[C][A] = true;
    append(c, 2, 100);
    settle(w);
    driver_says(c, LH_IN_HALF_CLOSED);
    pass(w, 500);
    assert_false(c->closed);
    w->stalled[C][A] = false;
    settle(w);
    assert_true(answered(c, 2) && c->closed);
    assert_int_equal(c->closed_error, LH_OK);
    assert_int_equal(c->error, LH_OK);

    /* One that never said a word, and a primary's. */
    c = feeder(w, B);
    settle(w);
    driver_says(c, LH_IN_HALF_CLOSED);
    settle(w);
    assert_true(c->closed);
    assert_int_equal(c->closed_error, LH_OK);
}

int main(void)
{
    const struct CMUnitTest stories[] = {
        cmocka_unit_test(who_sends_a_large_message_hears_that_it_arrives),
        cmocka_unit_test(a_message_that_is_never_whole_ends_its_stream),
        cmocka_unit_test(a_message_that_is_not_read_is_given_its_time),
        cmocka_unit_test(a_secondary_tells_its_primary_what_arrives),
        cmocka_unit_test(a_half_closed_stream_is_answered_and_closed),
        cmocka_unit_test(a_batch_is_acknowledged_when_every_member_has_it),
        cmocka_unit_test(a_slow_disk_of_a_member_delays_the_answer),
        cmocka_unit_test(many_batches_of_many_writers_are_under_way_at_once),
        cmocka_unit_test(a_repeat_is_answered_with_its_first_position),
        cmocka_unit_test(a_gap_is_never_stored),
        cmocka_unit_test(writers_share_a_stream_and_fail_alone),
        cmocka_unit_test(a_malformed_batch_is_refused_with_a_text_and_nothing_is_stored),
        cmocka_unit_test(streams_that_break_the_rules_are_ended),
        cmocka_unit_test(a_full_chunk_is_sealed_and_settled),
        cmocka_unit_test(a_seal_is_recorded_at_the_version_at_which_it_is_taken_on),
        cmocka_unit_test(a_seal_waits_for_a_member_that_is_coming_back),
        cmocka_unit_test(a_seal_with_nothing_under_way_waits_for_a_member_too),
        cmocka_unit_test(a_seal_that_waits_gives_up_a_member_that_stays_away),
        cmocka_unit_test(a_seal_arrives_while_a_member_is_adopting_again),
        cmocka_unit_test(a_report_of_a_seal_is_forgotten_when_the_version_rises),
        cmocka_unit_test(a_lost_secondary_is_reported_and_the_chunk_goes_on_without_it),
        cmocka_unit_test(who_is_reported_with_whether_appends_wait),
        cmocka_unit_test(a_member_that_only_blinked_is_not_reported),
        cmocka_unit_test(a_member_that_was_copied_to_is_not_taken_for_silent_later),
        cmocka_unit_test(a_member_gets_its_whole_time_although_the_primarys_own_disk_is_slow),
        cmocka_unit_test(the_longest_log_is_fetched_and_nothing_acknowledged_is_lost),
        cmocka_unit_test(what_the_primary_fetched_is_passed_on_to_members_that_lack_it),
        cmocka_unit_test(a_stale_primary_is_fenced),
        cmocka_unit_test(
            a_version_that_is_being_adopted_fences_at_once_and_covers_what_came_before),
        cmocka_unit_test(a_version_far_above_is_not_adopted),
        cmocka_unit_test(too_few_members_take_no_appends),
        cmocka_unit_test(a_member_whose_address_becomes_known_later_is_found),
        cmocka_unit_test(a_unverified_member_is_not_trusted_with_the_end_of_a_buffered_log),
        cmocka_unit_test(a_buffered_log_gets_to_the_disk_now_and_then),
        cmocka_unit_test(when_all_are_unverified_the_longest_goes_on_and_the_loss_is_told),
        cmocka_unit_test(a_possible_loss_that_the_master_did_not_hear_of_is_told_again),
        cmocka_unit_test(a_process_that_dies_alone_leaves_nothing_unverified),
        cmocka_unit_test(a_torn_tail_is_cut_and_does_not_come_back),
        cmocka_unit_test(a_log_that_was_cut_alone_does_not_suffice),
        cmocka_unit_test(of_two_logs_that_were_cut_the_longer_suffices),
        cmocka_unit_test(a_batch_that_belongs_elsewhere_is_found_at_the_start),
        cmocka_unit_test(damage_under_the_same_boot_is_rot),
        cmocka_unit_test(a_primary_whose_own_log_has_rotted_blames_no_member),
        cmocka_unit_test(a_seal_below_what_was_acknowledged_is_recorded),
        cmocka_unit_test(a_seal_that_is_found_at_a_start_is_on_the_disk_before_it_is_told),
        cmocka_unit_test(a_file_that_cannot_be_removed_is_not_forgotten),
        cmocka_unit_test(what_is_made_in_its_place_is_empty),
        cmocka_unit_test(a_replica_whose_tail_cannot_be_cut_does_not_keep_its_server_away),
        cmocka_unit_test(rot_below_the_confirmed_length_loses_the_replica),
        cmocka_unit_test(a_replica_that_is_lost_while_its_server_registers_is_reported),
        cmocka_unit_test(a_failed_sync_has_the_log_rewritten),
        cmocka_unit_test(a_primary_whose_write_fails_gives_the_lease_up),
        cmocka_unit_test(a_full_disk_cuts_back_to_what_was_written),
        cmocka_unit_test(a_sync_that_fails_while_the_log_is_cut_back_is_not_forgotten),
        cmocka_unit_test(a_lost_replica_does_not_come_back_with_the_cut_that_was_under_way),
        cmocka_unit_test(a_replica_that_cannot_be_created_is_answered_and_may_be_tried_again),
        cmocka_unit_test(a_grant_of_a_replica_that_is_not_there_yet_is_refused),
        cmocka_unit_test(a_recalled_lease_is_given_up_when_what_is_under_way_is_answered),
        cmocka_unit_test(a_recalled_lease_is_given_up_even_if_nothing_moves),
        cmocka_unit_test(a_recall_during_recovery_is_answered_at_once),
        cmocka_unit_test(a_clean_stop_answers_what_is_under_way_and_releases),
        cmocka_unit_test(a_stop_ends_in_time_although_nobody_answers),
        cmocka_unit_test(a_primary_that_hears_nothing_stops_by_its_own_clock),
        cmocka_unit_test(a_primary_goes_on_in_a_new_session_of_a_new_master),
        cmocka_unit_test(an_idle_lease_runs_out_and_one_in_use_does_not),
        cmocka_unit_test(a_server_whose_disk_stalls_gives_its_leases_up),
        cmocka_unit_test(a_replica_that_is_created_while_its_server_registers_anew_is_told),
        cmocka_unit_test(a_replica_that_was_created_ahead_is_also_what_an_unused_chunk_needs),
        cmocka_unit_test(a_remove_of_what_was_created_in_vain_spares_what_holds_a_byte),
        cmocka_unit_test(a_removed_replica_is_gone_and_an_old_remove_is_ignored),
        cmocka_unit_test(a_reader_gets_whole_committed_batches),
        cmocka_unit_test(a_read_that_asked_for_the_primary_looks_at_the_clock_again),
        cmocka_unit_test(a_reader_waits_at_the_end),
        cmocka_unit_test(secondaries_learn_what_a_recovery_has_committed_without_being_asked),
        cmocka_unit_test(a_reader_at_a_member_that_is_being_copied_to_sees_only_what_is_written),
        cmocka_unit_test(a_primary_that_does_not_wait_for_the_adoption_is_refused),
        cmocka_unit_test(a_primary_that_says_nonsense_is_refused),
        cmocka_unit_test(a_member_whose_log_cannot_be_so_long_is_refused),
        cmocka_unit_test(a_member_that_reports_its_equality_confirms_nothing),
        cmocka_unit_test(equality_is_that_of_the_longest_log),
        cmocka_unit_test(a_log_is_reported_as_equal_where_its_header_says_so),
        cmocka_unit_test(a_member_whose_log_ends_within_a_batch_is_refused),
        cmocka_unit_test(a_member_that_is_fetched_from_may_come_back_shorter),
        cmocka_unit_test(an_answer_from_before_a_silence_counts_for_nothing),
        cmocka_unit_test(a_batch_that_comes_in_parts_is_stored_whole_or_not_at_all),
        cmocka_unit_test(a_member_that_blinks_while_another_is_waited_for_gets_its_time),
        cmocka_unit_test(a_file_that_is_shorter_than_its_log_loses_the_replica),
    };
    const char *only = getenv("LH_TEST_ONLY");
    if (only != NULL)
        cmocka_set_test_filter(only);
    return cmocka_run_group_tests(stories, NULL, NULL);
}
