/* A log grows by whole batches, whatever one write takes: what is committed, sealed, read or told
 * to somebody never ends within one. */
#include "chunkserver/log/header.h"
#include "tests/core/chunkserver/chunkserver_story.h"

#include <stdlib.h>
#include <string.h>

#define MIB (1u << 20)

/* As chunkserver_world.c frames them: one record, and its headers. */
#define FRAME (LH_BATCH_FRAME_BYTES + LH_RECORD_HEADER_BYTES)

static struct world *given(bool synced)
{
    struct world *w = world_create(1, synced);

    w->chunk_size = LH_CHUNK_BYTES_DEFAULT;
    master_create(w, ABC);
    settle(w);
    master_grant(w, A, 1, ABC, 2);
    settle(w);
    return w;
}

static struct conn *given_appender(struct world *w)
{
    struct conn *c = appender(w, A, 1, WRITER, 1);

    settle(w);
    assert_true(c->opened);
    heard_clear(w);
    return c;
}

static void disks_stall(struct world *w, bool stalled)
{
    for (int i = 0; i < NODES; i++)
        w->nodes[i].disk_stalled = stalled;
}

static bool complete_one(struct world *w, int node, enum lh_disk_op op)
{
    for (size_t i = 0; i < w->op_count; i++)
        if (w->ops[i].node == node && w->ops[i].op == op && w->ops[i].file == CHUNK) {
            disk_complete(w, i);
            return true;
        }
    return false;
}

/* One write of the log gets to every disk; whatever is behind it is still on its way. */
static void one_write_each(struct world *w)
{
    for (int i = A; i <= C; i++)
        assert_true(complete_one(w, i, LH_DISK_WRITE));
    settle(w);
}

static void a_large_batch_goes_to_the_disk_whole(void **state)
{
    (void)state;
    struct world *w = given(false);
    struct conn *c = given_appender(w);

    disks_stall(w, true);
    append(c, 1, 10 * MIB);
    settle(w);
    one_write_each(w);
    assert_true(answered(c, 1));
    assert_int_equal(node_status(w, A).committed, 10 * MIB + FRAME);
    disks_stall(w, false);
    settle(w);
    world_destroy(w);
}

static void readers_that_wait_see_whole_batches(void **state)
{
    (void)state;
    struct world *w = given(false);
    struct conn *c = given_appender(w);
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    q.max_bytes = 8 * MIB;
    q.wait_ms = 30000;
    struct conn *at_primary = reader(w, A, q), *at_secondary = reader(w, B, q);
    settle(w);
    disks_stall(w, true);
    append(c, 1, 10 * MIB);
    settle(w);
    one_write_each(w);
    pass(w, 6); /* the secondaries hear of what is committed */
    for (int i = A; i <= C; i++)
        while (complete_one(w, i, LH_DISK_READ))
            ;
    disks_stall(w, false);
    settle(w);
    assert_int_equal(read_reply(at_primary)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(read_reply(at_secondary)->error, LEASEHOLD__ERROR_CODE__OK);
    for (int i = A; i <= C; i++)
        assert_false(node_status(w, i).lost);
    world_destroy(w);
}

static void a_repeat_is_answered_when_all_of_it_is_durable(void **state)
{
    (void)state;
    struct world *w = given(true);
    struct conn *c = given_appender(w);

    disks_stall(w, true);
    append(c, 1, 6 * MIB);
    append(c, 2, 6 * MIB);
    settle(w);
    one_write_each(w); /* the first alone */
    for (int i = A; i <= C; i++)
        complete_one(w, i, LH_DISK_SYNC);
    settle(w);
    assert_true(answered(c, 1));
    assert_false(answered(c, 2));
    hang_up(c);
    struct conn *again = appender(w, A, 1, WRITER, 1);
    settle(w);
    append(again, 1, 6 * MIB);
    append(again, 2, 6 * MIB);
    settle(w);
    assert_true(answered(again, 1));
    assert_false(answered(again, 2));
    disks_stall(w, false);
    settle(w);
    assert_true(answered(again, 2));
    world_destroy(w);
}

static void what_the_older_stream_repeats_late_takes_no_answer_from_the_newer(void **state)
{
    (void)state;
    struct world *w = given(true);
    struct conn *older = given_appender(w);

    disks_stall(w, true);
    append(older, 1, 100);
    settle(w);
    struct conn *newer = appender(w, A, 1, WRITER, 1);
    settle(w);
    append(newer, 1, 100);
    settle(w);
    append(older, 1, 100); /* it was on its way for long */
    settle(w);
    disks_stall(w, false);
    settle(w);
    assert_true(answered(newer, 1));
    assert_false(answered(older, 1));
    world_destroy(w);
}

/* Even if the newer one is gone: an answer says that all batches before this one are stored. */
static void no_batch_is_answered_without_those_before_it(void **state)
{
    (void)state;
    struct world *w = given(true);
    struct conn *older = given_appender(w), *newer = appender(w, A, 1, WRITER, 1);

    settle(w);
    disks_stall(w, true);
    append(newer, 1, 100);
    settle(w);
    hang_up(newer);
    settle(w);
    append(older, 1, 100);
    append(older, 2, 100);
    settle(w);
    assert_int_equal(older->error, LH_ERR_UNAVAILABLE);
    disks_stall(w, false);
    settle(w);
    assert_false(answered(older, 2));
    join_stream(older, WRITER, 1);
    append(older, 1, 100);
    append(older, 2, 100);
    settle(w);
    assert_true(answered(older, 1) && answered(older, 2));
    world_destroy(w);
}

/* FAIL-2a with a primary that lives: its word is what it has committed. */
static void a_roll_seals_between_batches(uint32_t size, uint64_t count)
{
    struct world *w = given(false);
    struct conn *c = given_appender(w);

    w->members = 0;
    disks_stall(w, true);
    for (uint64_t s = 1; s <= count; s++)
        append(c, s, size);
    settle(w);
    if (count > 1)
        one_write_each(w); /* the first one; the others have gathered behind it */
    one_write_each(w);
    w->stalled[A][B] = w->stalled[A][C] = true; /* nothing of theirs gets to A any more */
    master_fence(w, A, 2);
    settle(w);
    disks_stall(w, false);
    settle(w);
    uint64_t length = w->nodes[A].heard.fenced.length;
    assert_true(w->nodes[A].heard.fenced.primary);
    assert_int_equal(length % (size + FRAME), 0);
    master_fence(w, B, 2);
    master_fence(w, C, 2);
    settle(w);
    for (int i = A; i <= C; i++)
        master_record_seal(w, i, 2, length, w->nodes[A].heard.fenced.checksum);
    settle(w);
    for (int i = A; i <= C; i++) { /* what is on the disk adds up to the seal */
        node_kill(w, i, false);
        settle(w);
        node_start(w, i);
        settle(w);
        struct conn *t = settler(w, i, 2, WRITER);
        settle(w);
        assert_int_equal(settle_reply(t)->error, LEASEHOLD__ERROR_CODE__OK);
        assert_int_equal(settle_reply(t)->last_sequence, length / (size + FRAME));
        assert_false(node_status(w, i).lost);
    }
    world_destroy(w);
}

static void a_roll_does_not_cut_a_large_batch(void **state)
{
    (void)state;
    a_roll_seals_between_batches(10 * MIB, 1);
}

static void a_roll_does_not_cut_one_of_many_batches(void **state)
{
    (void)state;
    a_roll_seals_between_batches(MIB - FRAME + 100, 15);
}

static void d_says(struct world *w, Leasehold__ReplicateKind kind, uint64_t length)
{
    Leasehold__ReplicateAnswer m = LEASEHOLD__REPLICATE_ANSWER__INIT;

    m.kind = kind;
    m.version = 1;
    m.length = length;
    play_answer(w, m);
}

/* A member may be no process of ours, or an older one. D is played. */
static void what_a_member_confirms_commits_whole_batches(void **state)
{
    (void)state;
    struct world *w = world_create(1, false);

    play(w, D);
    master_create(w, 1u << A);
    settle(w);
    master_grant(w, A, 1, 1u << A | 1u << D, 1);
    settle(w);
    w->members = 1u << A;
    d_says(w, LEASEHOLD__REPLICATE_KIND__ADOPT, 0);
    d_says(w, LEASEHOLD__REPLICATE_KIND__CONFIRM, 0);
    struct conn *c = appender(w, A, 1, WRITER, 1);
    settle(w);
    append(c, 1, 1000);
    append(c, 2, 1000);
    settle(w);
    d_says(w, LEASEHOLD__REPLICATE_KIND__APPEND, 1000 + FRAME + 500);
    assert_true(answered(c, 1));
    assert_false(answered(c, 2));
    assert_int_equal(node_status(w, A).committed, 1000 + FRAME);
    world_destroy(w);
}

/* Headers that were written before logs grew by whole batches. */
static void a_header_that_ends_within_a_batch_costs_no_replica(void **state)
{
    (void)state;
    struct world *w = given(false);
    struct conn *c = given_appender(w);
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;
    struct lh_chunk_header h;

    append(c, 1, 1000);
    append(c, 2, 1000);
    settle(w);
    node_kill(w, B, false);
    settle(w);
    struct file *f = node_file(w, B, CHUNK);
    struct lh_buf slots = lh_buf_copy(f->cache, 2 * LH_SLOT_BYTES);
    assert_int_equal(lh_chunk_header_decode(&slots, CHUNK, &h), LH_OK);
    lh_buf_clear(&slots);
    h.committed = 1000 + FRAME + 500;
    h.generation++;
    struct lh_buf slot = lh_chunk_header_encode(CHUNK, &h);
    assert_true(lh_buf_read(&slot, 0, f->cache + lh_chunk_header_offset(&h), slot.size));
    lh_buf_clear(&slot);
    w->stalled[A][B] = true;
    node_start(w, B);
    settle(w);
    assert_int_equal(node_status(w, B).committed, 1000 + FRAME);
    q.max_bytes = MIB;
    struct conn *r = reader(w, B, q);
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_false(node_status(w, B).lost);
    world_destroy(w);
}

/* ---- Batches in parts ---- */

/* The bytes from `from` on, of CHUNK's lane. */
static void part_of(struct conn *c, const struct lh_buf *batch, size_t from, size_t size)
{
    Leasehold__AppendPart m = LEASEHOLD__APPEND_PART__INIT;
    struct lh_buf bytes = {0};

    lh_buf_append(&bytes, batch, from, size);
    m.lane = c->lane;
    m.bytes = size;
    append_parts(c, &m, 1, &bytes);
}

STORY(a_batch_may_come_in_parts)
{
    struct conn *c = given_a_written_chunk(w, 1);
    struct lh_buf batch = make_batch(WRITER, 2, 1, 5000);

    for (size_t at = 0; at < batch.size; at += 700) {
        assert_false(answered(c, 2));
        part_of(c, &batch, at, batch.size - at < 700 ? batch.size - at : 700);
        settle(w);
    }
    (void)position(c, 2);
    lh_buf_clear(&batch);
    check_logs(w, ABC);
}

#define OTHER (WRITER + 1)

/* The connection's second lane, to the same chunk. */
static struct conn *given_two_lanes(struct world *w)
{
    struct conn *c = given_a_written_chunk(w, 1);

    c->lane = 2;
    join_stream(c, OTHER, 1);
    settle(w);
    return c;
}

/* Each lane has its own end: what still comes on it is ignored, and so is its number. */
STORY(a_lane_that_ends_is_no_matter_of_the_others)
{
    struct conn *c = given_two_lanes(w);
    struct lh_buf batch = make_batch(OTHER, 1, 1, 5000);
    Leasehold__AppendPart end = LEASEHOLD__APPEND_PART__INIT;

    append_bytes(c, make_batch(12345, 1, 1, 100)); /* of no writer that was opened */
    settle(w);
    assert_true(c->closed && c->error == LH_ERR_MALFORMED);
    append_bytes(c, lh_buf_ref(&batch));
    join_stream(c, OTHER, 1);
    settle(w);
    c->lane = 1;
    append(c, 2, 100);
    settle(w);
    assert_int_equal(position(c, 2), BATCH);

    /* A client that leaves one within a batch takes nothing back that others sent. */
    c->lane = 3;
    join_stream(c, OTHER, 1);
    settle(w);
    part_of(c, &batch, 0, 700);
    end.lane = 3;
    end.end = true;
    append_parts(c, &end, 1, NULL);
    c->lane = 1;
    part_of(c, &batch, 700, 10);
    append_bytes(c, make_batch(WRITER, 3, 1, 100));
    settle(w);
    assert_false(answered(c, 3)); /* those ten bytes begin no batch */

    c = appender(w, A, 1, WRITER, 3);
    settle(w);
    append(c, 3, 100);
    settle(w);
    assert_int_equal(position(c, 3), 2 * BATCH);
    lh_buf_clear(&batch);
    check_logs(w, ABC);
}

STORY(one_batch_of_a_stream_may_be_incomplete)
{
    struct conn *c = given_two_lanes(w);
    struct lh_buf mine = make_batch(WRITER, 2, 1, 5000), other = make_batch(OTHER, 1, 1, 5000);

    c->lane = 1;
    part_of(c, &mine, 0, 700);
    c->lane = 2;
    part_of(c, &other, 0, other.size); /* a whole one may come between its parts */
    settle(w);
    assert_true(c->stored_count == 2 && c->stored[1].writer == OTHER);
    part_of(c, &other, 0, 700);
    settle(w);
    assert_true(c->closed && c->error == LH_ERR_MALFORMED);
    c->lane = 1;
    part_of(c, &mine, 700, mine.size - 700);
    settle(w);
    (void)position(c, 2);
    lh_buf_clear(&mine);
    lh_buf_clear(&other);
    check_logs(w, ABC);
}

/* That there is no room for parts is no verdict on anything: the client tries again. */
STORY(too_many_incomplete_batches_end_a_lane)
{
    w->bounds.arriving_bytes = 1000;
    node_kill(w, A, false);
    node_start(w, A);
    settle(w);
    struct conn *c = given_a_written_chunk(w, 1), *d = appender(w, A, 1, OTHER, 1);
    struct lh_buf mine = make_batch(WRITER, 2, 1, 5000), other = make_batch(OTHER, 1, 1, 5000);

    settle(w);
    part_of(c, &mine, 0, 700);
    settle(w);
    part_of(d, &other, 0, 700);
    settle(w);
    assert_true(d->closed && d->error == LH_ERR_NO_MEMORY);
    part_of(c, &mine, 700, mine.size - 700);
    settle(w);
    (void)position(c, 2);
    d = appender(w, A, 1, OTHER, 1);
    settle(w);
    part_of(d, &other, 0, 700);
    part_of(d, &other, 700, other.size - 700);
    settle(w);
    (void)position(d, 1);
    lh_buf_clear(&mine);
    lh_buf_clear(&other);
    check_logs(w, ABC);
}

STORY(a_batch_whose_rest_never_comes_ends_its_stream)
{
    w->bounds.arrival_pause_ms = 2000;
    w->bounds.arrival_ms = 5000;
    node_kill(w, A, false);
    node_start(w, A);
    settle(w);
    struct conn *c = given_a_written_chunk(w, 1);
    struct lh_buf batch = make_batch(WRITER, 2, 1, 5000);

    /* Another part has to come in time, ... */
    part_of(c, &batch, 0, 100);
    settle(w);
    unsigned arriving = c->arriving;
    pass(w, 1900);
    assert_true(!c->closed && c->arriving > arriving);
    pass(w, 200);
    assert_true(c->closed && c->error == LH_ERR_DEADLINE_EXCEEDED);

    /* ... and the last one too. */
    c = appender(w, A, 1, WRITER, 2);
    settle(w);
    for (size_t at = 0; at < 500; at += 100) {
        part_of(c, &batch, at, 100);
        settle(w);
        pass(w, 990);
        assert_false(c->closed);
    }
    pass(w, 200);
    assert_true(c->closed && c->error == LH_ERR_DEADLINE_EXCEEDED);

    /* Of a lane that has ended nothing is awaited. */
    c = appender(w, A, 1, WRITER, 2);
    settle(w);
    part_of(c, &batch, 0, 100);
    Leasehold__AppendPart end = LEASEHOLD__APPEND_PART__INIT;
    end.lane = 1;
    end.end = true;
    append_parts(c, &end, 1, NULL);
    pass(w, 6000);
    assert_false(c->closed);
    lh_buf_clear(&batch);
}

STORY(nothing_arrives_any_more_when_the_primary_has_given_up)
{
    struct conn *c = given_a_written_chunk(w, 1);
    struct lh_buf batch = make_batch(WRITER, 2, 1, 5000);

    part_of(c, &batch, 0, 100);
    settle(w);
    pass(w, 300);
    assert_true(c->arriving > 0);
    master_recall(w, A, 1);
    settle(w);
    assert_true(c->closed);
    unsigned arriving = c->arriving, alive = c->alive;
    pass(w, 2000);
    assert_true(c->arriving == arriving && c->alive == alive);
    lh_buf_clear(&batch);
}

/* What it ignores has no answer before the lane's end: until then its client waits. */
STORY(a_draining_primary_shows_life_to_all_that_wait_for_its_end)
{
    given_a_chunk(w, ABC);
    struct conn *one = given_a_writer(w, A, 1, 1), *two = appender(w, A, 1, OTHER, 1);

    settle(w);
    disks_stall(w, true);
    append(one, 2, 100);
    settle(w);
    master_recall(w, A, 1);
    settle(w);
    append(two, 1, 100);
    settle(w);
    unsigned alive = two->alive;
    for (int i = 0; i < 5; i++)
        pass(w, 200);
    assert_true(!two->closed && two->alive >= alive + 4);
    disks_stall(w, false);
    pass(w, 1500);
    assert_true(two->closed && two->error == LH_ERR_NOT_PRIMARY);
}

/* ---- Answers that a client does not read ---- */

/* Sends messages with these parts, of new lanes, until it is not read any more. */
static void until_it_is_held(struct world *w, struct conn *c, size_t count, uint64_t writer)
{
    uint64_t lane = c->lane;
    unsigned messages = 0;

    for (; !c->wire->held[true]; messages++) {
        Leasehold__AppendPart parts[8];
        for (size_t i = 0; i < count; i++) {
            leasehold__append_part__init(&parts[i]);
            parts[i].lane = lane + 1 + (writer == 0 ? i : 0);
        }
        lane = parts[count - 1].lane;
        parts[0].writer = writer;
        parts[0].first_sequence = writer == 0 ? 0 : 1;
        append_parts(c, parts, count, NULL);
        settle(w);
        assert_true(messages < 30);
    }
}

static struct conn *given_a_bound_of_answers(struct world *w)
{
    w->bounds.stream_answers = 10;
    node_kill(w, A, false);
    node_start(w, A);
    settle(w);
    return given_a_written_chunk(w, 1);
}

static void it_goes_on_once_it_reads(struct world *w, struct conn *c)
{
    w->unread = false;
    settle(w);
    assert_false(c->wire->held[true]);
    append(c, 2, 100);
    settle(w);
    (void)position(c, 2);
}

STORY(a_client_that_does_not_read_refusals_is_not_read)
{
    struct conn *c = given_a_bound_of_answers(w);

    w->unread = true;
    until_it_is_held(w, c, 8, 0); /* none of them names a writer */
    it_goes_on_once_it_reads(w, c);
}

STORY(nor_one_that_does_not_read_how_its_lanes_end)
{
    struct conn *c = given_a_bound_of_answers(w);

    w->unread = true;
    until_it_is_held(w, c, 2, OTHER); /* the second part says nothing and ends the lane */
    it_goes_on_once_it_reads(w, c);
}

STORY(nor_one_that_does_not_read_where_its_batches_are)
{
    struct conn *c = given_a_bound_of_answers(w);

    w->unread = true;
    for (unsigned i = 0; !c->wire->held[true]; i++) {
        append(c, 1, 100); /* again and again */
        settle(w);
        assert_true(i < 30);
    }
    it_goes_on_once_it_reads(w, c);
}

/* Of the second batch, which is stored everywhere, behind others that nobody reads. */
static struct conn *given_an_answer_that_waits(struct world *w)
{
    struct conn *c = given_a_bound_of_answers(w);

    w->unread = true;
    for (unsigned i = 0; i < 5; i++) {
        append(c, 1, 100);
        settle(w);
    }
    append(c, 2, 100);
    settle(w);
    assert_int_equal(node_status(w, A).committed, 2 * BATCH);
    return c;
}

static void it_is_not_sent(struct world *w, struct conn *c)
{
    w->unread = false;
    settle(w);
    assert_true(c->closed);
    assert_true(answered(c, 1));
    assert_false(answered(c, 2));
    assert_false(answered(c, 3));
}

/* FAIL-4, FAIL-5: who has lost its replica vouches for nothing in it, nor for what it had decided
 * on and not sent. The client asks the next primary. */
STORY(an_answer_that_has_not_left_is_not_sent_once_the_replica_is_lost)
{
    struct conn *c = given_an_answer_that_waits(w);

    append(c, 3, 100);
    node_file(w, A, CHUNK)->cache[LH_LOG_START + 50] ^= 1;
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;
    (void)reader(w, A, q); /* which meets the rot */
    settle(w);
    assert_true(node_status(w, A).lost);
    it_is_not_sent(w, c);
}

STORY(nor_once_a_sync_of_it_has_failed)
{
    if (!w->synced)
        return; /* nothing of it is synced while it is appended to */
    struct conn *c = given_an_answer_that_waits(w);

    node_fail_disk(w, A, LH_DISK_SYNC, 0, LH_ERR_IO);
    append(c, 3, 100);
    settle(w);
    it_is_not_sent(w, c);
}

STORY(a_batch_may_take_its_time_after_a_hold)
{
    w->bounds.arrival_pause_ms = 2000;
    w->bounds.arrival_ms = 5000;
    struct conn *c = given_a_bound_of_answers(w);
    struct lh_buf batch = make_batch(WRITER, 2, 1, 5000);

    part_of(c, &batch, 0, 100);
    w->unread = true;
    until_it_is_held(w, c, 8, 0);
    for (int i = 0; i < 8; i++)
        pass(w, 1000);
    w->unread = false;
    settle(w);
    part_of(c, &batch, 100, 100);
    settle(w);
    pass(w, 1500);
    assert_false(c->closed || c->error == LH_ERR_DEADLINE_EXCEEDED);
    part_of(c, &batch, 200, batch.size - 200);
    settle(w);
    (void)position(c, 2);
    lh_buf_clear(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_may_come_in_parts),
        cmocka_unit_test(a_lane_that_ends_is_no_matter_of_the_others),
        cmocka_unit_test(one_batch_of_a_stream_may_be_incomplete),
        cmocka_unit_test(too_many_incomplete_batches_end_a_lane),
        cmocka_unit_test(a_batch_whose_rest_never_comes_ends_its_stream),
        cmocka_unit_test(nothing_arrives_any_more_when_the_primary_has_given_up),
        cmocka_unit_test(a_draining_primary_shows_life_to_all_that_wait_for_its_end),
        cmocka_unit_test(a_client_that_does_not_read_refusals_is_not_read),
        cmocka_unit_test(nor_one_that_does_not_read_how_its_lanes_end),
        cmocka_unit_test(nor_one_that_does_not_read_where_its_batches_are),
        cmocka_unit_test(an_answer_that_has_not_left_is_not_sent_once_the_replica_is_lost),
        cmocka_unit_test(nor_once_a_sync_of_it_has_failed),
        cmocka_unit_test(a_batch_may_take_its_time_after_a_hold),
        cmocka_unit_test(a_large_batch_goes_to_the_disk_whole),
        cmocka_unit_test(readers_that_wait_see_whole_batches),
        cmocka_unit_test(a_repeat_is_answered_when_all_of_it_is_durable),
        cmocka_unit_test(what_the_older_stream_repeats_late_takes_no_answer_from_the_newer),
        cmocka_unit_test(no_batch_is_answered_without_those_before_it),
        cmocka_unit_test(a_roll_does_not_cut_a_large_batch),
        cmocka_unit_test(a_roll_does_not_cut_one_of_many_batches),
        cmocka_unit_test(what_a_member_confirms_commits_whole_batches),
        cmocka_unit_test(a_header_that_ends_within_a_batch_costs_no_replica),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
