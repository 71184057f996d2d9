/* What a disk refuses. No error of it is a verdict on a client's call: a table of every error,
 * every operation that such a call leads to, and the servers' roles. And who cannot write can be
 * read (REC-8), also after a start (SES-1b). */
#include "tests/core/chunkserver/chunkserver_story.h"

static const int errors[] = {
#define X(name, number, grpc, advice, text) -(number),
    LH_ERRORS(X)
#undef X
};

static const enum lh_disk_op ops[] = {
    LH_DISK_WRITE, LH_DISK_SYNC, LH_DISK_READ, LH_DISK_TRUNCATE, LH_DISK_RESERVE};

static bool is_verdict(int error)
{
    return error != LH_OK && lh_error_advice(error) == LH_GIVE_UP;
}

static void no_verdict(
    const struct conn *c, const char *who, int node, enum lh_disk_op op, int error)
{
    if (is_verdict(c->error) || is_verdict(c->closed_error))
        fail_msg("%s of %d, whose disk answers operation %d with %s: %s, %s", who, node, (int)op,
            lh_error_name(error), lh_error_name(c->error), lh_error_name(c->closed_error));
}

/* A reader goes on to the next member whatever it hears, but only of CORRUPT does it say that this
 * is what is wrong. */
static void no_verdict_on_a_read(const struct conn *c, int node, int error)
{
    int heard_error;

    if (c->count == 0)
        return;
    heard_error = -(int)read_reply(c)->error;
    if (is_verdict(heard_error) && heard_error != LH_ERR_CORRUPT)
        fail_msg("a reader of %d, whose disk answers with %s: %s", node, lh_error_name(error),
            lh_error_name(heard_error));
}

static void cell(int node, enum lh_disk_op op, int error, bool synced, unsigned after)
{
    struct world *w = world_create(1, synced);

    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    pass(w, 1000);
    node_fail_disk(w, node, op, after, error);
    struct conn *reads = reader(w, node, (Leasehold__ReadRequest)LEASEHOLD__READ_REQUEST__INIT);
    struct conn *other = appender(w, A, 1, WRITER + 1, 1);
    append(c, 3, 100);
    append(c, 4, 100);
    pass(w, 3000);
    append(other, 1, 100);
    pass(w, 3000);
    no_verdict(c, "an appender", node, op, error);
    no_verdict(other, "a second appender", node, op, error);
    no_verdict_on_a_read(reads, node, error);
    world_destroy(w);
}

static void no_error_of_a_disk_is_a_verdict_on_a_call(void **state)
{
    (void)state;
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++)
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
            for (int node = A; node <= B; node++)
                for (unsigned after = 0; after < 2; after++)
                    for (int synced = 0; synced < 2; synced++)
                        cell(node, ops[o], errors[e], synced != 0, after);
}

/* KEEP-3: the master's word removes the replica below an appender. What that means for the file the
 * master alone knows. */
static void a_replica_that_is_removed_is_no_verdict_on_an_append(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    struct conn *c = given_a_writer(w, A, 1, 2);
    master_remove(w, A, 1);
    append(c, 3, 100);
    pass(w, 1000);
    assert_false(is_verdict(c->error));
    assert_true(c->error != LH_OK || c->closed);
    world_destroy(w);
}

/* ------------------------------------------------------------------------------------------------
 * A disk that can be read and not written (REC-8). */

static struct conn *read_at(struct world *w, int node)
{
    return reader(w, node, (Leasehold__ReadRequest)LEASEHOLD__READ_REQUEST__INIT);
}

static void assert_reads(struct world *w, int node, size_t bytes)
{
    struct conn *c = read_at(w, node);

    pass(w, 1000);
    assert_int_equal(read_reply(c)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(c->payloads[0].size, bytes);
}

static void a_disk_that_refuses_to_write_is_read_only(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    pass(w, 1000);
    w->nodes[A].read_only = true;
    pass(w, 8000);
    assert_true(heard(w, A)->heartbeat.failing);
    assert_true(heard(w, A)->heartbeat.read_only);
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_false(node_status(w, A).lost);
    assert_reads(w, A, BATCH);

    w->nodes[A].unreadable = true;
    pass(w, 8000);
    assert_true(heard(w, A)->heartbeat.failing);
    assert_false(heard(w, A)->heartbeat.read_only);
    w->nodes[A].read_only = w->nodes[A].unreadable = false;
    pass(w, 8000);
    assert_false(heard(w, A)->heartbeat.failing);
    master_grant(w, A, 2, ABC, 2);
    pass(w, 2000);
    assert_true(node_status(w, A).open);
    world_destroy(w);
}

static void a_disk_that_hangs_is_not_read_only(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    pass(w, 1000);
    w->nodes[A].read_only = true;
    pass(w, 8000);
    assert_true(heard(w, A)->heartbeat.read_only);
    w->nodes[A].disk_stalled = true;
    pass(w, 8000);
    assert_true(heard(w, A)->heartbeat.failing);
    assert_false(heard(w, A)->heartbeat.read_only);
    world_destroy(w);
}

/* Its first registration says so already, has no number, and is repeated with the challenge. */
static void a_server_starts_on_a_disk_that_refuses_to_write(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    given_a_chunk(w, ABC);
    (void)given_a_writer(w, A, 1, 3);
    pass(w, 1000);
    uint64_t incarnation = w->nodes[B].incarnation;
    node_kill(w, A, false);
    node_kill(w, B, false);
    w->nodes[B].read_only = true;
    w->challenge = 55;
    node_start(w, B);
    pass(w, 1000);
    const Leasehold__Register *r = w->nodes[B].registered->register_;
    assert_int_equal(w->nodes[B].registrations, 2);
    assert_int_equal(r->challenge, 55);
    assert_int_equal(r->registration, 0);
    assert_int_equal(r->incarnation, incarnation);
    assert_true(r->read_only);
    assert_int_equal(r->n_replicas, 1);
    assert_false(r->replicas[0]->lost);
    assert_reads(w, B, 0); /* what is committed its primary would tell */
    assert_true(heard(w, B)->heartbeat.read_only);

    /* The disk can be written: the process goes on as any other, and its numbers still do not
     * count. */
    w->nodes[B].read_only = false;
    pass(w, 8000);
    assert_false(heard(w, B)->heartbeat.failing);
    w->challenge = 0;
    node_start(w, A);
    w->challenge = 55;
    pass(w, 1000);
    master_grant(w, B, 2, ABC, 2);
    pass(w, 2000);
    assert_true(node_status(w, B).open);
    break_wire(w, w->nodes[B].session_wire);
    pass(w, 3000);
    assert_int_equal(w->nodes[B].registered->register_->registration, 0);
    assert_false(w->nodes[B].registered->register_->read_only);
    world_destroy(w);
}

/* Two processes with one data directory would challenge each other for ever. */
static void a_challenge_is_answered_once_on_a_stream(void **state)
{
    (void)state;
    struct world *w = world_create(1, true);
    node_kill(w, B, false);
    w->challenge = 55;
    w->challenge_changes = true;
    node_start(w, B);
    pass(w, 1500);
    assert_in_range(w->refusals, 2, 30);
    world_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_error_of_a_disk_is_a_verdict_on_a_call),
        cmocka_unit_test(a_replica_that_is_removed_is_no_verdict_on_an_append),
        cmocka_unit_test(a_disk_that_refuses_to_write_is_read_only),
        cmocka_unit_test(a_disk_that_hangs_is_not_read_only),
        cmocka_unit_test(a_server_starts_on_a_disk_that_refuses_to_write),
        cmocka_unit_test(a_challenge_is_answered_once_on_a_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
