/* Stories about disks that refuse changes or syncs, and about rot at every member (REC-6 to REC-9,
 * FAIL-5): what a replica has is not given up for what its disk cannot do. */
#include "tests/core/chunkserver/chunkserver_story.h"

#include <stdlib.h>
#include <string.h>

static const Leasehold__ReadReply *read_at(struct world *w, int node, uint64_t offset)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    q.version = 1;
    q.offset = offset;
    q.max_bytes = BATCH;
    struct conn *r = reader(w, node, q);
    settle(w);
    return read_reply(r);
}

static int read_error(struct world *w, int node, uint64_t offset)
{
    return -(int)read_at(w, node, offset)->error;
}

static void rot(struct world *w, int node, uint64_t offset)
{
    struct file *f = node_file(w, node, CHUNK);

    f->cache[LH_LOG_START + offset] ^= 1;
    if (LH_LOG_START + offset < f->durable_size)
        f->durable[LH_LOG_START + offset] ^= 1;
}

/* Every server's disk refuses changes, which the primary has met. */
static struct conn *given_read_only_disks(struct world *w, uint64_t batches)
{
    struct conn *c = given_a_written_chunk(w, batches);

    pass(w, 20); /* all know what is committed */
    for (int i = A; i <= C; i++)
        w->nodes[i].read_only = true;
    append(c, batches + 1, 100);
    settle(w);
    assert_false(answered(c, batches + 1));
    return c;
}

STORY(what_a_server_has_is_read_while_its_disk_refuses_changes)
{
    (void)given_read_only_disks(w, 3);
    for (int i = A; i <= C; i++) {
        assert_false(node_status(w, i).lost);
        assert_int_equal(node_status(w, i).length, 3 * BATCH);
        assert_int_equal(read_error(w, i, 2 * BATCH), LH_OK);
        assert_int_equal(heard(w, i)->lost.n, 0);
    }
    for (int i = A; i <= C; i++)
        w->nodes[i].read_only = false;
    pass(w, 10000);
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.length, 3 * BATCH);
    struct conn *c = appender(w, A, 2, WRITER, 4);
    settle(w);
    append(c, 4, 100);
    settle(w);
    assert_int_equal(position(c, 4), 3 * BATCH);
    check_logs(w, ABC);
}

/* INV-1, TIME-5: it has given its lease up while the bytes were read. */
STORY(a_read_that_asked_for_the_primary_is_none_of_one_that_cannot_write)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;
    struct conn *c = given_a_written_chunk(w, 3);

    pass(w, 20);
    w->nodes[A].reads_stalled = w->nodes[A].read_only = true;
    q.require_primary = true;
    struct conn *r = reader(w, A, q);
    settle(w);
    append(c, 4, 100);
    settle(w);
    w->nodes[A].reads_stalled = false;
    settle(w);
    assert_false(answered(c, 4));
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__NOT_PRIMARY);
}

STORY(a_primary_whose_disk_refuses_changes_gives_its_word_and_others_are_not_fenced)
{
    (void)given_read_only_disks(w, 3);
    uint64_t checksum = node_status(w, A).checksum;
    for (int i = A; i <= C; i++)
        master_fence(w, i, 2);
    settle(w);
    assert_int_equal(heard(w, A)->fenced.error, LH_OK);
    assert_true(heard(w, A)->fenced.primary && !heard(w, A)->fenced.unverified);
    assert_int_equal(heard(w, A)->fenced.length, 3 * BATCH);
    assert_int_equal(heard(w, A)->fenced.checksum, checksum);
    assert_int_equal(heard(w, B)->fenced.error, LH_ERR_IO);
    assert_int_equal(heard(w, C)->fenced.error, LH_ERR_IO);

    /* Asked again it says the same; and one that was started since knows nothing. */
    master_fence(w, A, 2);
    settle(w);
    assert_true(heard(w, A)->fenced.n == 2 && heard(w, A)->fenced.primary);
    w->nodes[A].read_only = false;
    restart(w, A, false);
    heard_clear(w);
    master_fence(w, A, 2);
    settle(w);
    assert_int_equal(heard(w, A)->fenced.error, LH_OK);
    assert_false(heard(w, A)->fenced.primary);
    assert_int_equal(node_status(w, A).version, 2);
}

STORY(a_seal_that_cannot_be_recorded_is_kept_by_a_log_that_adds_up)
{
    (void)given_read_only_disks(w, 3);
    uint64_t checksum = node_status(w, A).checksum;
    for (int i = A; i <= C; i++)
        master_fence(w, i, 2);
    settle(w);
    for (int i = A; i <= C; i++)
        master_record_seal(w, i, 2, 3 * BATCH, checksum);
    settle(w);
    for (int i = A; i <= C; i++) {
        assert_int_equal(heard(w, i)->recorded.error, LH_ERR_IO);
        assert_true(heard(w, i)->recorded.kept);
        assert_int_equal(read_error(w, i, 0), LH_OK);
        assert_true(read_at(w, i, 0)->sealed);
        struct conn *s = settler(w, i, 2, WRITER);
        settle(w);
        assert_true(settle_reply(s)->known && settle_reply(s)->last_sequence == 3);
    }

    /* A server that starts again is told again. */
    restart(w, B, false);
    assert_false(w->nodes[B].registered->register_->replicas[0]->sealed);
    master_record_seal(w, B, 2, 3 * BATCH, checksum);
    settle(w);
    assert_true(heard(w, B)->recorded.kept);

    /* It is recorded as soon as the disk takes it. */
    for (int i = A; i <= C; i++)
        w->nodes[i].read_only = false;
    pass(w, 11000);
    for (int i = A; i <= C; i++) {
        assert_int_equal(heard(w, i)->recorded.error, LH_OK);
        assert_int_equal(heard(w, i)->recorded.version, 2);
        restart(w, i, true);
        assert_true(node_status(w, i).sealed && node_status(w, i).version == 2);
    }
    check_logs(w, ABC);
}

static uint64_t version_in_slot(struct world *w, int node, size_t slot)
{
    uint64_t version;

    memcpy(&version, node_file(w, node, CHUNK)->cache + slot * (LH_LOG_START / 2) + 32,
        sizeof version);
    return version;
}

/* A sync behind a header that was refused covers nothing of it. */
STORY(the_header_that_is_on_the_disk_is_not_written_over)
{
    (void)given_a_written_chunk(w, 2);
    master_fence(w, B, 5);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_OK);
    node_fail_disk(w, B, LH_DISK_WRITE, 0, LH_ERR_IO);
    master_fence(w, B, 6);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_ERR_IO);
    pass(w, 1000);
    master_fence(w, B, 7);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_OK);
    assert_int_equal(version_in_slot(w, B, 0) + version_in_slot(w, B, 1), 5 + 7);
}

/* What lies behind the seal goes with the header that says so, whenever the disk takes it. */
STORY(a_seal_that_is_recorded_late_cuts_what_lies_behind_it)
{
    struct conn *c = given_a_written_chunk(w, 3);
    uint64_t checksum = node_status(w, C).checksum;

    append(c, 4, 100);
    settle(w);
    master_fence(w, C, 2);
    settle(w);
    assert_int_equal(node_file(w, C, CHUNK)->size, LH_LOG_START + 4 * BATCH);
    w->nodes[C].read_only = true;
    master_record_seal(w, C, 2, 3 * BATCH, checksum);
    settle(w);
    assert_true(heard(w, C)->recorded.kept);
    w->nodes[C].read_only = false;
    pass(w, 11000);
    assert_int_equal(heard(w, C)->recorded.error, LH_OK);
    assert_int_equal(node_file(w, C, CHUNK)->size, LH_LOG_START + 3 * BATCH);
}

STORY(another_log_than_the_seals_is_not_kept_for_it)
{
    (void)given_read_only_disks(w, 3);
    uint64_t checksum = node_status(w, A).checksum;
    master_fence(w, B, 2);
    master_record_seal(w, B, 2, 3 * BATCH, checksum ^ 1);
    settle(w);
    assert_true(heard(w, B)->recorded.error != LH_OK && !heard(w, B)->recorded.kept);
    master_record_seal(w, B, 2, 4 * BATCH, checksum);
    settle(w);
    assert_true(heard(w, B)->recorded.error != LH_OK && !heard(w, B)->recorded.kept);
}

STORY(a_version_that_was_refused_is_not_the_replicas)
{
    (void)given_a_written_chunk(w, 2);
    w->nodes[B].read_only = true;
    master_fence(w, B, 5);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_ERR_IO);
    assert_int_equal(node_status(w, B).version, 1);
    w->nodes[B].read_only = false;
    pass(w, 1000);
    restart(w, B, false);
    assert_int_equal(w->nodes[B].registered->register_->replicas[0]->version, 1);
    master_fence(w, B, 5);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_OK);
    restart(w, B, true);
    assert_int_equal(node_status(w, B).version, 5);
}

STORY(syncs_that_fail_at_every_member_lose_nothing)
{
    struct conn *c = given_a_written_chunk(w, 3);

    pass(w, 20);
    for (int i = A; i <= C; i++)
        w->nodes[i].sync_bad = true;
    append(c, 4, 100);
    pass(w, 3000); /* a buffered log is synced now and then */
    for (int i = A; i <= C; i++)
        w->nodes[i].sync_bad = false;
    pass(w, 11000);
    for (int i = A; i <= C; i++) {
        assert_false(node_status(w, i).lost);
        assert_int_equal(heard(w, i)->lost.n, 0);
        assert_true(node_status(w, i).length >= 3 * BATCH);
    }
    master_grant(w, B, 2, ABC, 2);
    settle(w);
    assert_true(heard(w, B)->recovered.n > 0 && heard(w, B)->recovered.length >= 3 * BATCH);
    for (int i = A; i <= C; i++)
        restart(w, i, true);
    check_logs(w, ABC);
}

/* KEEP-3: the order stands, whatever becomes of the sync that was under way; else the replica would
 * be neither shown nor removed until its server starts again. */
STORY(a_sync_that_fails_while_its_replica_is_to_go_does_not_keep_it)
{
    if (!w->synced)
        return;
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    w->nodes[B].disk_stalled = true;
    append(c, 3, 100);
    settle(w);
    for (size_t i = 0; i < w->op_count; i++)
        if (w->ops[i].node == B && w->ops[i].op == LH_DISK_WRITE)
            disk_complete(w, i);
    settle(w); /* its sync is under way */
    master_remove(w, B, 1);
    settle(w);
    node_fail_disk(w, B, LH_DISK_SYNC, 0, LH_ERR_DISK_FULL);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_int_equal(heard(w, B)->removed.n, 1);
    assert_int_equal(heard(w, B)->removed.error, LH_OK);
    assert_null(node_file(w, B, CHUNK));
}

/* B, which was given a copy, leads. */
static void assert_that_b_can_lead(struct world *w)
{
    w->joining = 1u << B;
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.version, 2);
    w->joining = 0;
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    master_fence(w, A, 3);
    master_grant(w, B, 3, ABC, 2);
    pass(w, 3000);
    assert_int_equal(heard(w, B)->recovered.version, 3);
    struct conn *d = appender(w, B, 3, WRITER + 1, 1);
    settle(w);
    append(d, 1, 100);
    pass(w, 3000);
    assert_true(answered(d, 1));
}

static void given_a_copy_at_b(struct world *w)
{
    master_copy(w, B, 1, false, 0, 0, AC);
    settle(w);
    pass(w, 1000);
    assert_false(node_status(w, B).lost);
}

/* FAIL-5: the doubt is about the file whose sync has failed, and goes with it. */
STORY(a_copy_in_place_of_a_file_that_could_not_be_removed_is_not_in_doubt)
{
    if (!w->synced)
        return;
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    w->nodes[B].disk_stalled = true;
    append(c, 3, 100);
    settle(w);
    for (size_t i = 0; i < w->op_count; i++)
        if (w->ops[i].node == B && w->ops[i].op == LH_DISK_WRITE)
            disk_complete(w, i);
    settle(w); /* its sync is under way */
    master_remove(w, B, 1);
    settle(w);
    node_fail_disk(w, B, LH_DISK_SYNC, 0, LH_ERR_IO);
    for (size_t i = 0; i < w->op_count; i++)
        if (w->ops[i].node == B && w->ops[i].op == LH_DISK_SYNC)
            disk_complete(w, i);
    settle(w);
    node_fail_disk(w, B, LH_DISK_REMOVE, 0, LH_ERR_IO);
    w->nodes[B].disk_stalled = false;
    settle(w);
    assert_int_equal(heard(w, B)->removed.error, LH_ERR_IO);
    given_a_copy_at_b(w);
    assert_that_b_can_lead(w);
}

/* FAIL-5: a file system that turned read-only may have said of its last sync that it succeeded. */
STORY(a_later_process_does_not_know_where_a_log_in_doubt_ended)
{
    hang_up(given_a_written_chunk(w, 3));
    settle(w);
    node_kill(w, A, false); /* nobody confirms equality */
    node_kill(w, B, false);
    settle(w);
    node_fail_disk(w, B, LH_DISK_READ, 0, LH_ERR_UNSYNCED);
    node_start(w, B);
    settle(w);
    pass(w, 11000); /* the log is rewritten */
    assert_int_equal(node_status(w, B).length, 3 * BATCH);
    master_fence(w, B, 2);
    master_fence(w, C, 2);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_OK);
    assert_true(heard(w, B)->fenced.truncated);
    assert_false(heard(w, C)->fenced.truncated);
}

/* ------------------------------------------------------------------------------------------------
 * Rot. */

STORY(a_copy_in_place_of_a_file_in_doubt_that_has_rotted_is_not_in_doubt)
{
    if (!w->synced)
        return;
    struct conn *c = given_a_written_chunk(w, 3);
    rot(w, B, BATCH);
    node_fail_disk(w, B, LH_DISK_SYNC, 0, LH_ERR_IO);
    append(c, 4, 100);
    settle(w);
    pass(w, 11000);
    assert_true(node_status(w, B).lost);
    given_a_copy_at_b(w);
    assert_that_b_can_lead(w);
}

static uint64_t given_a_sealed_chunk(struct world *w, uint64_t batches)
{
    hang_up(given_a_written_chunk(w, batches));
    settle(w);
    uint64_t checksum = node_status(w, A).checksum;
    for (int i = A; i <= C; i++)
        master_record_seal(w, i, 1, batches * BATCH, checksum);
    settle(w);
    return checksum;
}

/* A reader that came past the batch before meets it: a reader's offset alone condemns nothing. */
static void find_rot(struct world *w, int node, uint64_t batch)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    q.version = 1;
    q.offset = batch == 0 ? 0 : (batch - 1) * BATCH;
    q.max_bytes = 2 * BATCH;
    struct conn *r = reader(w, node, q);
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__CORRUPT);
    assert_int_equal(heard(w, node)->lost.n, 1);
}

/* At each member another batch has rotted, and a reader has met it. */
static uint64_t given_rot_everywhere(struct world *w)
{
    uint64_t checksum = given_a_sealed_chunk(w, 6);

    for (int i = A; i <= C; i++) {
        rot(w, i, (uint64_t)(2 * (i - A)) * BATCH + 50);
        find_rot(w, i, (uint64_t)(2 * (i - A)));
    }
    return checksum;
}

STORY(the_whole_batches_of_a_damaged_replica_are_read)
{
    (void)given_rot_everywhere(w);
    for (int again = 0; again < 2; again++) {
        for (uint64_t batch = 0; batch < 6; batch++)
            for (int i = A; i <= C; i++)
                assert_int_equal(read_error(w, i, batch * BATCH),
                    batch == (uint64_t)(2 * (i - A)) ? LH_ERR_CORRUPT : LH_OK);
        for (int i = A; i <= C; i++)
            restart(w, i, false);
        for (int i = A; i <= C; i++) {
            const Leasehold__ReplicaReport *r = w->nodes[i].registered->register_->replicas[0];
            assert_true(r->lost && r->kept);
        }
    }
}

/* What a member answers who is asked to go on behind `offset`. */
static const Leasehold__ReadReply *behind(struct world *w, int node, uint64_t offset)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    q.version = 1;
    q.offset = offset;
    q.max_bytes = BATCH;
    q.resync = true;
    struct conn *r = reader(w, node, q);
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__OK);
    return read_reply(r);
}

STORY(behind_damage_the_next_whole_batch_is_named_and_read)
{
    (void)given_a_sealed_chunk(w, 6);
    rot(w, A, BATCH + 50);
    rot(w, B, BATCH + 5); /* its header */
    rot(w, B, 2 * BATCH + 50);
    rot(w, C, 5 * BATCH + 50);
    for (int again = 0; again < 2; again++) {
        const Leasehold__ReadReply *a = behind(w, A, BATCH);
        assert_int_equal(a->offset, 2 * BATCH);
        assert_int_equal(a->n_damaged, 1);
        assert_int_equal(a->damaged[0]->offset, BATCH);
        assert_int_equal(a->damaged[0]->size, BATCH);
        assert_int_equal(a->damaged[0]->sequence, 2);
        a = behind(w, B, BATCH);
        assert_int_equal(a->offset, 3 * BATCH);
        assert_int_equal(a->n_damaged, 0);
        a = behind(w, C, 5 * BATCH);
        assert_int_equal(a->offset, 6 * BATCH); /* there is none */
        assert_true(a->sealed);
        /* Nothing is passed that is whole. */
        assert_int_equal(behind(w, C, BATCH)->offset, BATCH);
        for (int i = A; i <= C; i++)
            assert_true(again > 0 || !node_status(w, i).lost);
        if (again == 0) {
            find_rot(w, A, 1);
            find_rot(w, B, 1);
            find_rot(w, C, 5);
        }
    }
}

/* Its process starts again, finds what is damaged, and is fenced at version 2. */
static void fence_damaged(struct world *w, int node)
{
    restart(w, node, false);
    pass(w, 60000);
    assert_true(node_status(w, node).lost);
    heard_clear(w);
    master_fence(w, node, 2);
    settle(w);
    assert_true(heard(w, node)->fenced.n == 1 && heard(w, node)->fenced.error == LH_OK);
    assert_true(heard(w, node)->fenced.damaged);
}

STORY(a_damaged_log_says_how_far_it_went)
{
    (void)given_a_written_chunk(w, 6);
    uint64_t checksum = node_status(w, B).checksum;
    pass(w, 20);
    rot(w, A, BATCH + 50);
    rot(w, B, BATCH + 5); /* its header */
    rot(w, B, 3 * BATCH + 50);
    rot(w, C, 5 * BATCH + 50); /* the last one: nobody can say more than what lies before it */
    for (int i = A; i <= C; i++) {
        bool last = i == C;
        fence_damaged(w, i);
        assert_int_equal(heard(w, i)->fenced.length, (last ? 5 : 6) * BATCH);
        assert_true((heard(w, i)->fenced.checksum == checksum) == !last);
        assert_int_equal(node_status(w, i).version, 2);
    }
    /* The seal is recorded by all of them, and what is whole of each is read up to it. */
    for (int i = A; i <= C; i++)
        master_record_seal(w, i, 2, 6 * BATCH, checksum);
    settle(w);
    for (int i = A; i <= C; i++) {
        assert_int_equal(heard(w, i)->recorded.error, LH_OK);
        assert_true(node_status(w, i).lost);
    }
    assert_int_equal(read_error(w, A, 5 * BATCH), LH_OK);
    assert_int_equal(read_error(w, B, 5 * BATCH), LH_OK);
    assert_int_equal(read_error(w, C, 5 * BATCH), LH_ERR_CORRUPT);
}

STORY(a_log_with_an_unreadable_sector_says_how_far_it_went)
{
    w->bounds.read_least_bytes = 16;
    for (int i = A; i <= C; i++)
        restart(w, i, false); /* with these bounds */
    (void)given_a_written_chunk(w, 6);
    uint64_t checksum = node_status(w, B).checksum;
    pass(w, 20);
    w->nodes[B].bad_byte = LH_LOG_START + BATCH + 50;
    fence_damaged(w, B);
    assert_int_equal(heard(w, B)->fenced.length, 6 * BATCH);
    assert_true(heard(w, B)->fenced.checksum == checksum);
}

STORY(a_version_that_a_damaged_log_could_not_write_down_is_not_its_own)
{
    (void)given_a_written_chunk(w, 6);
    pass(w, 20);
    rot(w, B, BATCH + 50);
    restart(w, B, false);
    assert_true(node_status(w, B).lost);
    heard_clear(w);
    node_fail_disk(w, B, LH_DISK_WRITE, 0, LH_ERR_IO);
    master_fence(w, B, 2);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_ERR_IO);
    assert_int_equal(node_status(w, B).version, 1);
    heard_clear(w);
    master_fence(w, B, 2);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_OK);

    /* A sync that fails says that nothing is known of what the disk has. */
    node_fail_disk(w, B, LH_DISK_SYNC, 0, LH_ERR_IO);
    master_fence(w, B, 3);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_ERR_IO);
    assert_int_equal(node_status(w, B).version, 2);
    master_fence(w, B, 3);
    settle(w);
    assert_int_equal(heard(w, B)->fenced.error, LH_ERR_CORRUPT);
    restart(w, B, true);
    assert_int_equal(node_status(w, B).version, 2);
}

STORY(what_lies_around_an_unreadable_sector_is_read)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    w->bounds.read_least_bytes = 16;
    for (int i = A; i <= C; i++)
        restart(w, i, false); /* with these bounds */
    (void)given_a_sealed_chunk(w, 6);
    rot(w, A, 4 * BATCH + 50);
    find_rot(w, A, 4);
    w->nodes[A].bad_byte = LH_LOG_START + BATCH + 50;

    q.version = 1;
    q.max_bytes = 3 * BATCH;
    struct conn *r = reader(w, A, q);
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__OK); /* the first batch */

    /* Nothing is passed for one refusal: the disk is asked again, after pauses. */
    q.offset = BATCH;
    q.resync = true;
    r = reader(w, A, q);
    settle(w);
    w->nodes[A].bad_byte = 0;
    pass(w, 5000);
    assert_int_equal(read_reply(r)->offset, BATCH);
    w->nodes[A].bad_byte = LH_LOG_START + BATCH + 50;
    r = reader(w, A, q);
    pass(w, 5000);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(read_reply(r)->offset, 2 * BATCH);
    /* A disk that reads nothing is no damage: nothing is passed. */
    w->nodes[A].unreadable = true;
    r = reader(w, A, q);
    pass(w, 5000);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__IO);
    w->nodes[A].unreadable = false;
    w->nodes[A].bad_byte = LH_LOG_START + 5 * BATCH + 50;
    q.offset = 4 * BATCH;
    r = reader(w, A, q);
    pass(w, 5000);
    assert_int_equal(read_reply(r)->offset, 6 * BATCH);
}

STORY(a_batch_that_is_whole_anywhere_is_copied)
{
    uint64_t checksum = given_rot_everywhere(w);

    master_copy(w, D, 1, true, 6 * BATCH, checksum, ABC);
    pass(w, 2000);
    assert_true(heard(w, D)->copied.n == 1 && heard(w, D)->copied.error == LH_OK);
    assert_true(node_status(w, D).sealed && !node_status(w, D).copying);
    check_logs(w, 1u << D);

    /* And one after another those that are damaged become whole again. */
    for (int i = A; i <= C; i++) {
        heard_clear(w);
        master_copy(w, i, 1, true, 6 * BATCH, checksum, ABC & ~(1u << i));
        pass(w, 2000);
        assert_true(heard(w, i)->copied.n == 1 && heard(w, i)->copied.error == LH_OK);
        assert_false(node_status(w, i).lost);
        restart(w, i, true);
        assert_false(w->nodes[i].registered->register_->replicas[0]->lost);
    }
    check_logs(w, ABCD);
}

/* What is damaged is its last bytes, which say what lies before the next batch. */
STORY(a_batch_behind_a_damaged_trailer_is_copied)
{
    uint64_t checksum = given_a_sealed_chunk(w, 3);

    rot(w, A, BATCH - 4);
    rot(w, B, BATCH + 50);
    find_rot(w, A, 0);
    find_rot(w, B, 1);
    master_copy(w, D, 1, true, 3 * BATCH, checksum, AB);
    pass(w, 2000);
    assert_true(heard(w, D)->copied.n == 1 && heard(w, D)->copied.error == LH_OK);
    check_logs(w, 1u << D);
}

STORY(a_damaged_file_stays_until_what_replaces_it_adds_up)
{
    uint64_t checksum = given_rot_everywhere(w);

    w->stalled[B][A] = w->stalled[C][A] = true;
    master_copy(w, A, 1, true, 6 * BATCH, checksum, BC);
    settle(w);
    w->stalled[B][A] = false;
    pass(w, 50);
    /* B lacks a batch, and C does not answer: so far it is no better. */
    assert_int_equal(heard(w, A)->copied.n, 0);
    for (int again = 0; again < 2; again++) {
        restart(w, A, again > 0);
        assert_true(node_status(w, A).lost);
        assert_int_equal(read_error(w, A, 5 * BATCH), LH_OK);
        assert_int_equal(read_error(w, A, 0), LH_ERR_CORRUPT);
    }
    w->stalled[C][A] = false;
    heard_clear(w);
    master_copy(w, A, 1, true, 6 * BATCH, checksum, BC);
    pass(w, 2000);
    assert_true(heard(w, A)->copied.n == 1 && heard(w, A)->copied.error == LH_OK);
    check_logs(w, 1u << A);
}

STORY(a_copy_that_comes_to_nothing_leaves_the_damaged_file)
{
    uint64_t checksum = given_rot_everywhere(w);

    rot(w, B, 50); /* now nobody but C has the first batch */
    master_copy(w, A, 1, true, 6 * BATCH, checksum, 1u << B);
    pass(w, 60000);
    assert_true(heard(w, A)->copied.n > 0 && heard(w, A)->copied.error != LH_OK);
    assert_true(node_status(w, A).lost);
    assert_int_equal(read_error(w, A, 5 * BATCH), LH_OK);
}

/* A copy to A's damaged replica has begun, and the disk goes on with nothing of it. */
static uint64_t given_a_copy_that_hangs(struct world *w, uint64_t done)
{
    uint64_t checksum = given_rot_everywhere(w);

    w->nodes[A].disk_stalled = true;
    heard_clear(w);
    master_copy(w, A, 1, true, 6 * BATCH, checksum, BC);
    for (uint64_t i = 0;; i++) {
        settle(w);
        pass(w, 20);
        if (i == done)
            break;
        for (size_t op = 0; op < w->op_count; op++)
            if (w->ops[op].node == A) {
                disk_complete(w, op);
                break;
            }
    }
    return checksum;
}

static void a_removal_while_a_new_file_is_made_is_carried_out(void **state)
{
    (void)state;
    for (uint64_t done = 0; done < 6; done++) {
        struct world *w = world_create(done, done % 2 == 0);
        (void)given_a_copy_that_hangs(w, done);
        master_remove(w, A, 1);
        settle(w);
        w->nodes[A].disk_stalled = false;
        settle(w);
        assert_int_equal(heard(w, A)->removed.n, 1);
        assert_int_equal(heard(w, A)->removed.error, LH_OK);
        assert_null(node_file(w, A, CHUNK));
        assert_null(node_file(w, A, CHUNK | LH_NEW_FILE));
        world_destroy(w);
    }
}

static void a_damaged_file_comes_back_whenever_its_copy_ends(void **state)
{
    (void)state;
    for (uint64_t done = 0; done < 9; done++) {
        struct world *w = world_create(done, true);
        (void)given_a_copy_that_hangs(w, done);
        break_wire(w, w->nodes[A].session_wire);
        pass(w, 60000);
        heard_clear(w);
        w->nodes[A].disk_stalled = false;
        pass(w, 60000);
        assert_true(node_status(w, A).lost);
        assert_int_equal(read_error(w, A, 5 * BATCH), LH_OK);
        /* The master was told that it is being copied. */
        assert_true(heard(w, A)->lost.n > 0 && heard(w, A)->lost.kept);
        world_destroy(w);
    }
}

/* What is there stays for as long, and who drains the server must not take it for nothing. */
static void a_registration_during_a_copy_tells_of_the_damaged_file(void **state)
{
    (void)state;
    for (uint64_t done = 1; done < 7; done++) {
        struct world *w = world_create(done, true);
        (void)given_a_copy_that_hangs(w, done);
        unsigned before = w->nodes[A].registrations;
        break_wire(w, w->nodes[A].session_wire);
        pass(w, 12000);
        assert_true(w->nodes[A].registrations > before);
        const Leasehold__Register *m = w->nodes[A].registered->register_;
        assert_int_equal(m->n_replicas, 1);
        assert_true(m->replicas[0]->kept);
        world_destroy(w);
    }
}

/* Three machines have one array, which cannot be read for a second. */
STORY(an_array_that_is_not_read_for_a_while_condemns_nothing)
{
    (void)given_a_written_chunk(w, 3);
    pass(w, 20);
    for (int i = A; i <= C; i++)
        w->nodes[i].unreadable = true;
    for (int i = A; i <= C; i++)
        assert_int_equal(read_error(w, i, BATCH), LH_ERR_IO);
    pass(w, 1000);
    for (int i = A; i <= C; i++)
        w->nodes[i].unreadable = false;
    pass(w, 10000);
    for (int i = A; i <= C; i++) {
        assert_false(node_status(w, i).lost);
        assert_int_equal(heard(w, i)->lost.n, 0);
    }

    /* So it is for those that start meanwhile. */
    for (int i = A; i <= C; i++) {
        w->nodes[i].unreadable = true;
        restart(w, i, false);
    }
    pass(w, 1000);
    for (int i = A; i <= C; i++)
        w->nodes[i].unreadable = false;
    pass(w, 10000);
    for (int i = A; i <= C; i++) {
        assert_false(node_status(w, i).lost);
        assert_int_equal(node_status(w, i).length, 3 * BATCH);
        assert_false(w->nodes[i].registered->register_->replicas[0]->lost);
    }
    check_logs(w, ABC);
}

STORY(what_can_neither_be_written_nor_read_is_not_called_damaged)
{
    (void)given_read_only_disks(w, 3);
    for (int i = A; i <= C; i++)
        w->nodes[i].unreadable = true;
    for (int i = A; i <= C; i++)
        assert_int_equal(read_error(w, i, BATCH), LH_ERR_IO);
}

STORY(a_seal_that_cannot_be_compared_now_is_compared_later)
{
    struct conn *c = given_a_written_chunk(w, 3);
    uint64_t checksum = node_status(w, C).checksum;

    append(c, 4, 100);
    settle(w);
    heard_clear(w);
    node_fail_disk(w, C, LH_DISK_READ, 0, LH_ERR_IO);
    master_record_seal(w, C, 2, 3 * BATCH, checksum);
    settle(w);
    assert_false(node_status(w, C).lost);
    assert_int_equal(heard(w, C)->recorded.n, 0);
    master_record_seal(w, C, 2, 3 * BATCH, checksum);
    settle(w);
    assert_int_equal(heard(w, C)->recorded.error, LH_OK);
    assert_int_equal(node_status(w, C).length, 3 * BATCH);
}

STORY(one_refused_read_says_nothing_of_a_replica)
{
    (void)given_a_sealed_chunk(w, 3);
    node_fail_disk(w, A, LH_DISK_READ, 0, LH_ERR_IO);
    assert_int_equal(read_error(w, A, 0), LH_ERR_IO);
    assert_false(node_status(w, A).lost);
    assert_int_equal(read_error(w, A, 0), LH_OK);
}

STORY(refused_reads_at_a_start_say_nothing_of_a_replica)
{
    (void)given_a_sealed_chunk(w, 3);
    for (int i = A; i <= C; i++) {
        node_kill(w, i, false);
        settle(w);
        node_fail_disk(w, i, LH_DISK_READ, 0, LH_ERR_IO);
        node_start(w, i);
        settle(w);
        pass(w, 500);
        assert_false(w->nodes[i].registered->register_->replicas[0]->lost);
        assert_int_equal(read_error(w, i, 0), LH_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_server_has_is_read_while_its_disk_refuses_changes),
        cmocka_unit_test(a_read_that_asked_for_the_primary_is_none_of_one_that_cannot_write),
        cmocka_unit_test(
            a_primary_whose_disk_refuses_changes_gives_its_word_and_others_are_not_fenced),
        cmocka_unit_test(a_seal_that_cannot_be_recorded_is_kept_by_a_log_that_adds_up),
        cmocka_unit_test(the_header_that_is_on_the_disk_is_not_written_over),
        cmocka_unit_test(a_seal_that_is_recorded_late_cuts_what_lies_behind_it),
        cmocka_unit_test(another_log_than_the_seals_is_not_kept_for_it),
        cmocka_unit_test(a_version_that_was_refused_is_not_the_replicas),
        cmocka_unit_test(syncs_that_fail_at_every_member_lose_nothing),
        cmocka_unit_test(a_sync_that_fails_while_its_replica_is_to_go_does_not_keep_it),
        cmocka_unit_test(a_copy_in_place_of_a_file_that_could_not_be_removed_is_not_in_doubt),
        cmocka_unit_test(a_later_process_does_not_know_where_a_log_in_doubt_ended),
        cmocka_unit_test(a_copy_in_place_of_a_file_in_doubt_that_has_rotted_is_not_in_doubt),
        cmocka_unit_test(the_whole_batches_of_a_damaged_replica_are_read),
        cmocka_unit_test(behind_damage_the_next_whole_batch_is_named_and_read),
        cmocka_unit_test(a_damaged_log_says_how_far_it_went),
        cmocka_unit_test(a_log_with_an_unreadable_sector_says_how_far_it_went),
        cmocka_unit_test(a_version_that_a_damaged_log_could_not_write_down_is_not_its_own),
        cmocka_unit_test(what_lies_around_an_unreadable_sector_is_read),
        cmocka_unit_test(a_batch_that_is_whole_anywhere_is_copied),
        cmocka_unit_test(a_batch_behind_a_damaged_trailer_is_copied),
        cmocka_unit_test(a_damaged_file_stays_until_what_replaces_it_adds_up),
        cmocka_unit_test(a_copy_that_comes_to_nothing_leaves_the_damaged_file),
        cmocka_unit_test(a_removal_while_a_new_file_is_made_is_carried_out),
        cmocka_unit_test(a_damaged_file_comes_back_whenever_its_copy_ends),
        cmocka_unit_test(a_registration_during_a_copy_tells_of_the_damaged_file),
        cmocka_unit_test(an_array_that_is_not_read_for_a_while_condemns_nothing),
        cmocka_unit_test(what_can_neither_be_written_nor_read_is_not_called_damaged),
        cmocka_unit_test(a_seal_that_cannot_be_compared_now_is_compared_later),
        cmocka_unit_test(one_refused_read_says_nothing_of_a_replica),
        cmocka_unit_test(refused_reads_at_a_start_say_nothing_of_a_replica),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
