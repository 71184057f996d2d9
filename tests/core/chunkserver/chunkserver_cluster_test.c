/* Stories of two clusters of which one has got an address of the other (SES-10). Chunk and version
 * agree: nothing but the cluster's name says that the two do not belong together. Each is told
 * under several orders of events. */
#include "tests/core/chunkserver/chunkserver_story.h"

/* The call has ended as if nobody were there, and nothing was answered. */
static void assert_refused(const struct conn *c)
{
    assert_true(c->closed);
    assert_int_equal(c->closed_error, LH_ERR_UNAVAILABLE);
    assert_int_equal(c->count, 0);
}

/* What is at that node's address from now on: a server of another cluster with the same name, and
 * with chunks of the same numbers. */
static void given_another_clusters_server(struct world *w, int node)
{
    w->nodes[node].cluster = "another";
    restart(w, node, false);
    w->nodes[node].session = ++w->sessions; /* the master still has the address */
    heard_clear(w);
}

static struct conn *given_an_adoption(struct world *w, int node, uint64_t version)
{
    struct conn *c = feeder(w, node);
    Leasehold__ReplicatePart adopt = LEASEHOLD__REPLICATE_PART__INIT;

    adopt.kind = LEASEHOLD__REPLICATE_KIND__ADOPT;
    adopt.version = version;
    feed(c, adopt, NULL);
    settle(w);
    return c;
}

static struct conn *given_a_read(struct world *w, int node, Leasehold__ReadMode mode)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;

    q.mode = mode;
    q.version = 1;
    q.max_bytes = 1000;
    struct conn *c = reader(w, node, q);
    settle(w);
    return c;
}

/* ---- Who is called. */

STORY(an_appender_of_another_cluster_is_refused)
{
    given_a_written_chunk(w, 1);
    w->names = "another";
    struct conn *c = appender(w, A, 1, WRITER + 1, 1);
    append_bytes(c, make_batch(WRITER + 1, 1, 1, 100));
    settle(w);
    assert_refused(c);
    assert_int_equal(node_status(w, A).length, BATCH);

    w->names = "cluster";
    c = appender(w, A, 1, WRITER + 1, 1);
    settle(w);
    assert_true(c->opened);
}

/* It did not know it when it began. */
STORY(a_stream_that_names_another_cluster_later_ends)
{
    struct conn *c = given_a_written_chunk(w, 1);

    w->names = "another";
    append(c, 2, 100);
    settle(w);
    assert_true(c->closed && c->closed_error == LH_ERR_UNAVAILABLE);
    assert_int_equal(node_status(w, A).length, BATCH);
    assert_true(node_status(w, A).open);
}

/* What was said when it began counts from the moment on at which the server has a cluster. */
STORY(a_stream_from_before_the_server_had_a_cluster_ends)
{
    node_kill(w, D, false);
    w->gone[MASTER] = true;
    node_start(w, D);
    settle(w);
    w->names = "another";
    struct conn *c = given_an_adoption(w, D, 1);
    assert_int_equal(feed_reply(c, 0)->error, -LH_ERR_NO_REPLICA);

    w->gone[MASTER] = false;
    pass(w, 1000);
    master_create(w, 1u << D);
    settle(w);
    assert_int_equal(heard(w, D)->created.n, 1);
    w->names = NULL;
    Leasehold__ReplicatePart adopt = LEASEHOLD__REPLICATE_PART__INIT;
    adopt.kind = LEASEHOLD__REPLICATE_KIND__ADOPT;
    adopt.version = 9;
    feed(c, adopt, NULL);
    settle(w);
    assert_true(c->closed && c->closed_error == LH_ERR_UNAVAILABLE);
    assert_int_equal(node_status(w, D).version, 0);
}

STORY(who_says_no_cluster_is_served_as_before)
{
    struct conn *c = given_a_written_chunk(w, 1); /* of an older release */

    assert_true(position(c, 1) == 0);
    assert_int_equal(read_reply(given_a_read(w, B, LEASEHOLD__READ_MODE__CLIENT))->error, LH_OK);
    c = given_an_adoption(w, B, 2);
    assert_int_equal(feed_reply(c, 0)->error, LH_OK);
    assert_int_equal(node_status(w, B).version, 2);
}

STORY(a_read_of_another_cluster_is_not_answered)
{
    static const Leasehold__ReadMode modes[] = {
        LEASEHOLD__READ_MODE__CLIENT, LEASEHOLD__READ_MODE__RECOVERY, LEASEHOLD__READ_MODE__COPY};

    given_a_written_chunk(w, 1);
    for (size_t i = 0; i < 3; i++) {
        w->names = "another";
        assert_refused(given_a_read(w, B, modes[i]));
        w->names = "cluster";
        assert_int_equal(read_reply(given_a_read(w, B, modes[i]))->error, LH_OK);
    }
}

STORY(a_writer_of_another_cluster_is_not_settled)
{
    given_a_written_chunk(w, 1);
    master_recall(w, A, 1);
    settle(w);
    master_record_seal(w, B, 1, BATCH, node_status(w, A).checksum);
    settle(w);
    w->names = "another";
    struct conn *c = settler(w, B, 1, WRITER);
    settle(w);
    assert_refused(c);
    w->names = "cluster";
    c = settler(w, B, 1, WRITER);
    settle(w);
    assert_true(settle_reply(c)->known);
}

STORY(a_primary_of_another_cluster_is_not_followed)
{
    struct conn *c = given_a_written_chunk(w, 1);

    w->names = "another";
    assert_refused(given_an_adoption(w, B, 9));
    assert_int_equal(node_status(w, B).version, 1);
    w->names = NULL;
    append(c, 2, 100);
    settle(w);
    assert_int_equal(position(c, 2), BATCH);
    check_logs(w, ABC);
}

/* ---- Who calls. */

/* It is reported as one that does not answer, and the chunk goes on without it. */
STORY(a_primary_does_not_lead_another_clusters_server)
{
    given_a_written_chunk(w, 1);
    given_another_clusters_server(w, C);
    master_grant(w, A, 2, ABC, 2);
    pass(w, 1100);
    assert_int_equal(node_status(w, C).version, 1);
    assert_int_equal(heard(w, A)->recovered.n, 0);
    assert_int_equal(heard(w, A)->failed.members, 1u << C);
    assert_int_equal(node_status(w, B).version, 2);

    master_grant(w, A, 3, AB, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.version, 3);
    w->members = AB;
    struct conn *c = appender(w, A, 3, WRITER, 2);
    settle(w);
    append(c, 2, 100);
    settle(w);
    assert_int_equal(position(c, 2), BATCH);
    assert_int_equal(node_status(w, C).length, BATCH);
}

/* The next source is asked. */
STORY(nothing_is_copied_from_another_clusters_server)
{
    given_a_written_chunk(w, 2);
    uint64_t checksum = node_status(w, A).checksum;
    master_recall(w, A, 1);
    settle(w);
    for (int i = A; i <= C; i++)
        master_record_seal(w, i, 1, 2 * BATCH, checksum);
    settle(w);
    given_another_clusters_server(w, C);
    master_copy(w, D, 1, true, 2 * BATCH, checksum, 1u << C);
    pass(w, 1000);
    assert_int_equal(heard(w, D)->copied.n, 0);
    assert_int_equal(node_status(w, D).length, 0);

    master_copy(w, D, 1, true, 2 * BATCH, checksum, BC);
    pass(w, 1000);
    assert_int_equal(heard(w, D)->copied.n, 1);
    assert_int_equal(heard(w, D)->copied.error, LH_OK);
    check_logs(w, ABD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_appender_of_another_cluster_is_refused),
        cmocka_unit_test(a_stream_that_names_another_cluster_later_ends),
        cmocka_unit_test(a_stream_from_before_the_server_had_a_cluster_ends),
        cmocka_unit_test(who_says_no_cluster_is_served_as_before),
        cmocka_unit_test(a_read_of_another_cluster_is_not_answered),
        cmocka_unit_test(a_writer_of_another_cluster_is_not_settled),
        cmocka_unit_test(a_primary_of_another_cluster_is_not_followed),
        cmocka_unit_test(a_primary_does_not_lead_another_clusters_server),
        cmocka_unit_test(nothing_is_copied_from_another_clusters_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
