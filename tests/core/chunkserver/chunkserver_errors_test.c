/* Whatever a disk answers: no client of the server takes it for a verdict on its call (A table of
 * every error, every operation that a client's call leads to, and the servers' roles). */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_error_of_a_disk_is_a_verdict_on_a_call),
        cmocka_unit_test(a_replica_that_is_removed_is_no_verdict_on_an_append),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
