/* Stories about a member that joins a replica set (REC-4), as its primary sees it. Each is told
 * under several orders of events, for synced and for buffered files. */
#include "tests/core/chunkserver/chunkserver_story.h"

#include <stdlib.h>
#include <string.h>

static struct conn *append_to(
    struct world *w, int node, uint64_t version, uint64_t from, uint64_t to)
{
    struct conn *c = appender(w, node, version, WRITER, from);

    settle(w);
    assert_true(c->opened);
    for (uint64_t s = from; s <= to; s++) {
        append(c, s, 100);
        settle(w);
    }
    return c;
}

/* Replicas at A, B and C; A and B have `count` batches, stored at version 1, C has none. */
static void given_an_empty_third(struct world *w, uint64_t count)
{
    master_create(w, ABC);
    settle(w);
    master_grant(w, A, 1, AB, 2);
    settle(w);
    struct conn *c = append_to(w, A, 1, 1, count);
    assert_int_equal(position(c, count), (count - 1) * BATCH);
    heard_clear(w);
}

STORY(a_member_that_joins_is_brought_up_and_every_commit_needs_it)
{
    given_an_empty_third(w, 3);
    w->joining = 1u << C;
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.version, 2);
    assert_int_equal(node_status(w, C).length, 3 * BATCH);
    struct conn *c = append_to(w, A, 2, 4, 4);
    assert_true(answered(c, 4));

    w->stalled[C][A] = true;
    append(c, 5, 100);
    settle(w);
    assert_false(answered(c, 5));
    w->stalled[C][A] = false;
    settle(w);
    assert_true(answered(c, 5));
    check_logs(w, ABC);
}

STORY(a_joining_member_does_not_count_for_min_replicas_until_it_has_joined)
{
    given_an_empty_third(w, 2);
    node_kill(w, B, false);
    settle(w);
    w->joining = 1u << C;
    master_grant(w, A, 2, 1u << A | 1u << C, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.version, 2); /* it gates ordering, not recovery */
    struct conn *c = append_to(w, A, 2, 3, 3);
    assert_int_equal(c->error, LH_ERR_UNAVAILABLE);
    assert_int_equal(node_status(w, A).length, 2 * BATCH);

    /* The master heard of the recovery, and says so in the same version's grant. */
    w->joining = 0;
    master_grant(w, A, 2, 1u << A | 1u << C, 2);
    settle(w);
    assert_int_equal(heard(w, A)->recovered.n, 1);
    c = append_to(w, A, 2, 3, 3);
    assert_int_equal(position(c, 3), 2 * BATCH);
    check_logs(w, 1u << A | 1u << C);

    /* A grant that was under way before does not take it back. */
    w->joining = 1u << C;
    master_grant(w, A, 2, 1u << A | 1u << C, 2);
    settle(w);
    append(c, 4, 100);
    settle(w);
    assert_true(answered(c, 4));
}

/* Batch 3 was ordered by A and is nowhere but at C; A is gone. */
static void given_a_longer_third(struct world *w)
{
    master_create(w, ABC);
    settle(w);
    master_grant(w, A, 1, ABC, 2);
    settle(w);
    struct conn *c = append_to(w, A, 1, 1, 2);
    w->stalled[A][B] = true;
    append(c, 3, 100);
    settle(w);
    assert_false(answered(c, 3));
    assert_int_equal(node_status(w, C).length, 3 * BATCH);
    node_kill(w, A, false);
    settle(w); /* what A sent to B stays on its way for good */
    assert_int_equal(node_status(w, B).length, 2 * BATCH);
    heard_clear(w);
}

STORY(a_joining_member_is_never_the_longest)
{
    given_a_longer_third(w);
    w->joining = 1u << C;
    master_grant(w, B, 2, BC, 1);
    settle(w);
    assert_int_equal(node_status(w, B).length, 2 * BATCH); /* nothing was fetched from it */
    assert_int_equal(heard(w, B)->recovered.n, 0);
    assert_int_equal(heard(w, B)->failed.members, 1u << C);
    assert_false(node_status(w, C).lost);

    /* Without it the chunk goes on. */
    w->joining = 0;
    master_grant(w, B, 3, 1u << B, 1);
    settle(w);
    struct conn *c = append_to(w, B, 3, 3, 3);
    assert_int_equal(position(c, 3), 2 * BATCH);
}

STORY(a_full_member_with_the_same_log_is_the_longest)
{
    given_a_longer_third(w);
    master_grant(w, B, 2, BC, 1);
    settle(w);
    assert_int_equal(heard(w, B)->recovered.length, 3 * BATCH);
}

STORY(a_joining_member_vouches_for_nothing)
{
    if (w->synced)
        return;
    given_an_empty_third(w, 2);
    w->joining = 1u << C;
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    node_kill(w, A, true);
    node_kill(w, B, true);
    settle(w);
    node_start(w, A);
    node_start(w, B);
    settle(w);

    /* C is verified, and has everything; but it is not for it to say so (REC-2a). */
    w->acked_count = 0;
    master_grant(w, A, 3, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, A)->loss.n, 1);
}

STORY(a_joining_member_that_fails_is_reported_when_all_others_are_unverified)
{
    if (w->synced)
        return;
    given_an_empty_third(w, 2);
    node_kill(w, A, true);
    node_kill(w, B, true);
    node_kill(w, C, false);
    settle(w);
    node_start(w, A);
    settle(w);
    w->acked_count = 0;
    w->joining = 1u << C;
    master_grant(w, A, 2, ABC, 1);
    pass(w, 3000);
    /* B may have what nobody else has; C cannot. Who of them is left out, the master decides. */
    assert_int_equal(heard(w, A)->failed.members, 1u << B | 1u << C);
    assert_true(heard(w, A)->failed.unsure);
    assert_int_equal(heard(w, A)->recovered.n, 0);
}

STORY(a_joining_member_cannot_become_the_primary)
{
    given_an_empty_third(w, 1);
    w->joining = 1u << C;
    master_grant(w, C, 2, ABC, 2);
    settle(w);
    assert_int_equal(heard(w, C)->confirm.error, LH_ERR_INVALID_ARGUMENT);
    assert_false(node_status(w, C).primary);
}

STORY(recovered_is_told_again_in_each_session)
{
    given_an_empty_third(w, 1);
    for (unsigned i = 1; i <= 2; i++) {
        break_wire(w, w->nodes[A].session_wire);
        pass(w, 200);
        assert_int_equal(heard(w, A)->recovered.n, i);
        assert_int_equal(heard(w, A)->recovered.version, 1);
        assert_int_equal(heard(w, A)->recovered.length, BATCH);
    }

    /* Not while it is going on. */
    w->stalled[B][A] = true;
    master_grant(w, A, 2, AB, 2);
    settle(w);
    break_wire(w, w->nodes[A].session_wire);
    pass(w, 200);
    assert_int_equal(heard(w, A)->recovered.n, 2);
    w->stalled[B][A] = false;
    pass(w, 200);
    assert_int_equal(heard(w, A)->recovered.n, 3);
    assert_int_equal(heard(w, A)->recovered.version, 2);
}

/* ------------------------------------------------------------------------------------------------
 * What a change of versions costs. */

static size_t syncs_under_way(struct world *w)
{
    size_t n = 0;

    for (size_t i = 0; i < w->op_count; i++)
        n += w->ops[i].op == LH_DISK_SYNC && w->ops[i].file == CHUNK;
    return n;
}

STORY(while_no_machine_goes_down_a_change_of_versions_waits_for_one_sync)
{
    given_an_empty_third(w, 3);
    pass(w, 100);
    master_grant(w, A, 2, AB, 2);
    w->nodes[A].disk_stalled = w->nodes[B].disk_stalled = true;
    unsigned syncs = 0;
    for (unsigned i = 0; i < 100 && heard(w, A)->recovered.n == 0; i++) {
        settle(w);
        syncs += syncs_under_way(w) > 0;
        for (size_t j = w->op_count; j-- > 0;)
            disk_complete(w, j);
        settle(w);
    }
    assert_int_equal(heard(w, A)->recovered.version, 2);
    assert_int_equal(syncs, 1);
    w->nodes[A].disk_stalled = w->nodes[B].disk_stalled = false;
    settle(w);

    /* Whatever of it was on the disk, the machines come back with a header and all their bytes. */
    w->torn = true;
    node_kill(w, A, true);
    node_kill(w, B, true);
    settle(w);
    node_start(w, A);
    node_start(w, B);
    settle(w);
    assert_false(node_status(w, A).lost || node_status(w, B).lost);
    assert_int_equal(node_status(w, A).version, 2);
    assert_int_equal(node_status(w, B).length, 3 * BATCH);
}

STORY(headers_survive_any_loss_of_power)
{
    given_an_empty_third(w, 1);
    w->torn = true;
    uint64_t stored = 1;
    for (uint64_t version = 2; version < 20; version += 2) {
        master_grant(w, A, version, AB, 2);
        settle(w);
        stored++;
        struct conn *c = append_to(w, A, version, stored, stored);
        assert_int_equal(position(c, stored), (stored - 1) * BATCH);

        /* The power goes in the middle of the next change, wherever that is. */
        w->nodes[B].disk_stalled = true;
        master_grant(w, A, version + 1, AB, 2);
        settle(w);
        for (uint64_t i = lh_prng_below(&w->prng, 5); i-- > 0;) {
            for (size_t j = w->op_count; j-- > 0;)
                if (w->ops[j].node == B)
                    disk_complete(w, j);
            settle(w);
        }
        node_kill(w, B, w->synced);
        w->nodes[B].disk_stalled = false;
        settle(w);
        node_start(w, B);
        settle(w);
        assert_false(node_status(w, B).lost);
        assert_true(node_status(w, B).version >= version);
        assert_true(node_status(w, B).length >= stored * BATCH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_that_joins_is_brought_up_and_every_commit_needs_it),
        cmocka_unit_test(a_joining_member_does_not_count_for_min_replicas_until_it_has_joined),
        cmocka_unit_test(a_joining_member_is_never_the_longest),
        cmocka_unit_test(a_full_member_with_the_same_log_is_the_longest),
        cmocka_unit_test(a_joining_member_vouches_for_nothing),
        cmocka_unit_test(a_joining_member_that_fails_is_reported_when_all_others_are_unverified),
        cmocka_unit_test(a_joining_member_cannot_become_the_primary),
        cmocka_unit_test(recovered_is_told_again_in_each_session),
        cmocka_unit_test(while_no_machine_goes_down_a_change_of_versions_waits_for_one_sync),
        cmocka_unit_test(headers_survive_any_loss_of_power),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
