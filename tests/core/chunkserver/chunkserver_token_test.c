/* Stories about a primary whose grant names a fence (TOK-2): it takes appends with that token only.
 * Each is told under several orders of events, for synced and for buffered files. */
#include "base/probe.h"
#include "tests/core/chunkserver/chunkserver_story.h"

#define NONE 0u

/* A lane at A, at that version, of a new writer with that token. */
static struct conn *opens(struct world *w, int node, uint64_t version, uint64_t token)
{
    static uint64_t writers = 5000;

    w->token = token;
    struct conn *c = appender(w, node, version, ++writers, 1);
    settle(w);
    return c;
}

static bool refused(const struct conn *c, int error)
{
    return !c->opened && c->error == error;
}

/* A chunk whose primary is A at version 1 under that fence. */
static void given_a_fenced_chunk(struct world *w, uint64_t fence)
{
    w->fence = fence;
    given_a_chunk(w, ABC);
}

STORY(a_lane_needs_the_token_of_its_version)
{
    given_a_fenced_chunk(w, 5);
    assert_true(refused(opens(w, A, 1, NONE), LH_ERR_STALE_TOKEN));
    assert_true(refused(opens(w, A, 1, 4), LH_ERR_STALE_TOKEN));
    /* A higher one was sent to a later version, of which this server has not heard. */
    assert_true(refused(opens(w, A, 1, 6), LH_ERR_NOT_PRIMARY));
    assert_true(opens(w, A, 1, 5)->opened);
    assert_true(opens(w, A, 1, 5)->opened);
}

STORY(without_a_fence_a_lane_has_no_token)
{
    given_a_fenced_chunk(w, NONE);
    assert_true(refused(opens(w, A, 1, 5), LH_ERR_NOT_PRIMARY));
    assert_true(opens(w, A, 1, NONE)->opened);
}

STORY(an_older_version_says_so_and_nothing_of_tokens)
{
    given_a_fenced_chunk(w, 5);
    w->fence = 6;
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    assert_true(refused(opens(w, A, 1, 5), LH_ERR_STALE_VERSION));
    assert_true(refused(opens(w, A, 1, 6), LH_ERR_STALE_VERSION));
    assert_true(refused(opens(w, A, 2, 5), LH_ERR_STALE_TOKEN));
    assert_true(opens(w, A, 2, 6)->opened);
}

STORY(a_lane_has_one_token)
{
    given_a_fenced_chunk(w, 5);
    struct conn *c = opens(w, A, 1, 5);
    w->token = NONE;
    join_stream(c, 77, 1);
    settle(w);
    assert_true(c->closed);
    assert_int_equal(c->error, LH_ERR_INVALID_ARGUMENT);
}

STORY(who_is_admitted_waits_for_the_recovery_and_who_is_not_does_not)
{
    given_a_fenced_chunk(w, 5);
    struct conn *before = opens(w, A, 1, 5);
    append(before, 1, 100);
    settle(w);
    (void)position(before, 1);
    w->stalled[A][C] = true;
    append(before, 2, 100); /* ordered, and not committed */
    settle(w);
    assert_false(answered(before, 2));

    w->fence = 6;
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    assert_int_equal(before->error, LH_ERR_STALE_VERSION);
    struct conn *after = opens(w, A, 2, 6);
    assert_true(!after->opened && after->error == LH_OK);
    assert_true(refused(opens(w, A, 2, 5), LH_ERR_STALE_TOKEN));

    w->stalled[A][C] = false;
    settle(w);
    assert_true(after->opened);
    assert_false(answered(before, 2));
    /* What the former owner had sent is there, and committed, when the next one is admitted. */
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;
    q.chunk = CHUNK;
    q.max_bytes = 1 << 20;
    q.require_primary = true;
    struct conn *r = reader(w, A, q);
    settle(w);
    assert_int_equal(read_reply(r)->committed, 2 * BATCH);
    append(after, 1, 100);
    settle(w);
    assert_int_equal(position(after, 1), 2 * BATCH);
    check_logs(w, ABC);
}

/* Clocks are of no help: A never hears that its lease is over. */
STORY(a_primary_that_was_left_behind_acknowledges_nothing_any_more)
{
    given_a_fenced_chunk(w, 5);
    struct conn *before = opens(w, A, 1, 5);
    append(before, 1, 100);
    settle(w);
    (void)position(before, 1);

    w->fence = 6;
    master_grant(w, B, 2, ABC, 2);
    w->stalled[B][A] = true; /* A does not even hear of the version */
    settle(w);
    assert_false(node_status(w, B).open);
    append(before, 2, 100);
    settle(w);
    assert_false(answered(before, 2));
    struct conn *after = opens(w, B, 2, 6);
    assert_false(after->opened);

    w->stalled[B][A] = false;
    settle(w);
    assert_true(after->opened);
    assert_false(answered(before, 2));
    append(after, 1, 100);
    settle(w);
    assert_true(position(after, 1) >= BATCH);
    assert_true(refused(opens(w, B, 2, 5), LH_ERR_STALE_TOKEN));
    check_logs(w, ABC);
}

STORY(planted_a_lane_without_a_token_is_admitted)
{
    assert_true(lh_plant("lane-without-token-admitted", true));
    given_a_fenced_chunk(w, 5);
    assert_true(opens(w, A, 1, NONE)->opened);
    assert_true(refused(opens(w, A, 1, 4), LH_ERR_STALE_TOKEN));
    lh_plant_none();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_needs_the_token_of_its_version),
        cmocka_unit_test(without_a_fence_a_lane_has_no_token),
        cmocka_unit_test(an_older_version_says_so_and_nothing_of_tokens),
        cmocka_unit_test(a_lane_has_one_token),
        cmocka_unit_test(who_is_admitted_waits_for_the_recovery_and_who_is_not_does_not),
        cmocka_unit_test(a_primary_that_was_left_behind_acknowledges_nothing_any_more),
        cmocka_unit_test(planted_a_lane_without_a_token_is_admitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
