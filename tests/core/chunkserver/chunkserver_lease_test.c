/* Stories of a holder: every end of a lease is told, what it believes is shown, and nothing is done
 * without a lease (LEASE-6, LEASE-8, SES-5a, TIME-5, FENCE-1). Each is told under several orders of
 * events, for synced and for buffered files. */
#include "tests/core/chunkserver/chunkserver_story.h"

#include "lease/sum.h"

#include <stdlib.h>
#include <string.h>

/* Another primary's word: it adopts that version at the node. */
static struct conn *given_adopt(struct world *w, int node, uint64_t version)
{
    Leasehold__ReplicatePart q = LEASEHOLD__REPLICATE_PART__INIT;
    struct conn *f = feeder(w, node);

    q.version = version;
    feed(f, q, NULL);
    settle(w);
    return f;
}

/* The sum of a heartbeat sent now. */
static void assert_shown_in_heartbeat(struct world *w, int node, unsigned count, uint64_t version)
{
    unsigned before = heard(w, node)->heartbeat.n;

    master_inquire(w, node);
    settle(w);
    assert_true(heard(w, node)->heartbeat.n > before);
    assert_int_equal(heard(w, node)->leases, count);
    assert_true(heard(w, node)->leases_hash == (count == 0 ? 0 : lh_lease_hash(CHUNK, version)));
}

/* ------------------------------------------------------------------------------------------------
 * Every end is told. */

STORY(a_lease_that_runs_out_while_answers_are_late_is_given_back)
{
    struct conn *c = given_a_written_chunk(w, 1);
    w->stalled[MASTER][A] = true; /* the master stands still, and its stream is whole */
    pass(w, SESSION_TERM_MS - 50);
    assert_false(node_status(w, A).primary);
    assert_int_equal(w->nodes[A].registrations, 1);
    assert_int_equal(heard(w, A)->release.n, 1);
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_false(heard(w, A)->release.ran_out); /* not for idleness: another one may do better */
    assert_int_equal(c->error, LH_ERR_NOT_PRIMARY);

    /* LEASE-6: a copy of the grant that was under way, with a fresh term, brings nothing back. */
    w->stalled[MASTER][A] = false;
    settle(w);
    master_grant(w, A, 1, ABC, 2);
    settle(w);
    assert_false(node_status(w, A).primary);
    assert_int_equal(heard(w, A)->confirm.error, LH_ERR_STALE_VERSION);
    master_grant(w, A, 2, ABC, 2);
    pass(w, 600);
    assert_true(node_status(w, A).open);
}

STORY(an_idle_lease_that_runs_out_is_given_back_for_the_next_one)
{
    (void)given_a_written_chunk(w, 0);
    pass(w, CHUNK_TERM_MS);
    assert_false(node_status(w, A).primary);
    assert_int_equal(heard(w, A)->release.n, 1);
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_true(heard(w, A)->release.ran_out);
}

STORY(a_primary_that_adopts_a_higher_version_gives_its_own_back)
{
    struct conn *c = given_a_written_chunk(w, 1);
    struct conn *f = given_adopt(w, A, 5);
    assert_int_equal(feed_reply(f, 0)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(c->error, LH_ERR_STALE_VERSION);
    assert_false(node_status(w, A).primary);
    assert_int_equal(heard(w, A)->release.n, 1);
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_shown_in_heartbeat(w, A, 0, 0);
}

STORY(a_lease_that_is_not_continued_is_given_back_in_the_new_session)
{
    struct conn *c = given_a_written_chunk(w, 2);
    w->stalled[B][A] = true;
    append(c, 3, 100);
    settle(w);
    w->master_continues = false;
    break_wire(w, w->nodes[A].session_wire);
    pass(w, 600);
    assert_true(c->closed);
    assert_int_equal(heard(w, A)->release.n, 1);
    assert_int_equal(heard(w, A)->release.version, 1);

    /* The next version goes on where that one was. */
    w->stalled[B][A] = false;
    master_grant(w, A, 2, ABC, 2);
    pass(w, 600);
    assert_true(node_status(w, A).open);
    c = appender(w, A, 2, WRITER, 3);
    settle(w);
    append(c, 3, 100);
    append(c, 4, 100);
    settle(w);
    assert_int_equal(position(c, 3), 2 * BATCH);
    assert_int_equal(position(c, 4), 3 * BATCH);
    check_logs(w, ABC);
}

STORY(a_lease_that_ends_while_its_server_registers_is_given_back_with_the_answer)
{
    (void)given_a_written_chunk(w, 1);
    w->stalled[MASTER][A] = true;
    pass(w, SESSION_TERM_MS - 1000);
    w->stalled[MASTER][A] = false;
    break_wire(w, w->nodes[A].session_wire);
    settle(w);
    w->stalled[MASTER][A] = true;
    pass(w, 200); /* it has registered, and shown the lease */
    assert_int_equal(w->nodes[A].registrations, 2);
    assert_int_equal(w->nodes[A].registered->register_->n_held, 1);
    pass(w, 1000);
    assert_false(node_status(w, A).primary);
    assert_int_equal(heard(w, A)->release.n, 0); /* there is no session to say it in */
    w->stalled[MASTER][A] = false;
    settle(w);
    assert_int_equal(heard(w, A)->release.n, 1);
    assert_int_equal(heard(w, A)->release.version, 1);
    assert_false(node_status(w, A).primary);
    assert_shown_in_heartbeat(w, A, 0, 0);
}

STORY(a_refused_new_version_ends_the_old_one)
{
    struct conn *c = given_a_written_chunk(w, 1);
    master_grant(w, A, 2, 1u << B | 1u << C, 2); /* it names everybody but A */
    settle(w);
    assert_int_equal(heard(w, A)->confirm.error, LH_ERR_INVALID_ARGUMENT);
    assert_true(c->closed);
    assert_false(node_status(w, A).primary);
    assert_shown_in_heartbeat(w, A, 0, 0);
}

/* ------------------------------------------------------------------------------------------------
 * What is shown. */

STORY(a_heartbeat_carries_what_was_confirmed)
{
    master_create(w, ABC);
    settle(w);
    assert_shown_in_heartbeat(w, A, 0, 0);
    w->nodes[A].disk_stalled = true;
    master_grant(w, A, 1, ABC, 2);
    settle(w);
    assert_shown_in_heartbeat(w, A, 0, 0); /* the master has not heard of it either */
    w->nodes[A].disk_stalled = false;
    settle(w);
    assert_shown_in_heartbeat(w, A, 1, 1);
    master_grant(w, A, 2, ABC, 2);
    settle(w);
    assert_shown_in_heartbeat(w, A, 1, 2);
    master_recall(w, A, 2);
    settle(w);
    assert_shown_in_heartbeat(w, A, 0, 0);
}

STORY(who_is_asked_shows_all_also_what_is_not_confirmed)
{
    master_create(w, ABC);
    settle(w);
    w->nodes[A].disk_stalled = true;
    master_grant(w, A, 1, ABC, 2);
    settle(w);
    w->master_asks = true;
    master_inquire(w, A);
    settle(w);
    assert_int_equal(heard(w, A)->shown.n, 1);
    assert_int_equal(heard(w, A)->shown.version, 1);
    w->nodes[A].disk_stalled = false;
    settle(w);
    master_recall(w, A, 1);
    settle(w);
    w->master_asks = true;
    master_inquire(w, A);
    settle(w);
    assert_int_equal(heard(w, A)->shown.n, 2);
    assert_int_equal(heard(w, A)->shown.version, 0);
}

STORY(a_registration_shows_a_grant_that_is_still_being_adopted)
{
    master_create(w, ABC);
    settle(w);
    w->nodes[A].disk_stalled = true;
    master_grant(w, A, 1, ABC, 2);
    settle(w);
    break_wire(w, w->nodes[A].session_wire);
    pass(w, 200);
    assert_int_equal(w->nodes[A].registered->register_->n_held, 1);
    assert_int_equal(w->nodes[A].registered->register_->held[0]->version, 1);
    w->nodes[A].disk_stalled = false;
    pass(w, 600);
    assert_true(node_status(w, A).open);
}

STORY(a_grant_on_its_way_when_a_registration_goes_out_counts_for_nothing)
{
    master_create(w, ABC);
    settle(w);
    uint64_t session = w->nodes[A].session;
    break_wire(w, w->nodes[A].session_wire);
    pass(w, 200);
    assert_int_equal(w->nodes[A].registrations, 2);
    assert_int_equal(w->nodes[A].registered->register_->n_held, 0);
    uint64_t present = w->nodes[A].session;
    assert_int_not_equal(present, session);
    w->nodes[A].session = session;
    master_grant(w, A, 1, ABC, 2);
    w->nodes[A].session = present;
    settle(w);
    assert_false(node_status(w, A).primary);
    assert_int_equal(heard(w, A)->confirm.n, 0);
}

STORY(a_registration_does_not_show_what_has_run_out)
{
    (void)given_a_written_chunk(w, 1);
    w->master_deaf = true;
    break_wire(w, w->nodes[A].session_wire);
    pass(w, SESSION_TERM_MS);
    w->master_deaf = false;
    pass(w, 2600);
    assert_int_equal(w->nodes[A].registrations, 2);
    assert_int_equal(w->nodes[A].registered->register_->n_held, 0);
    assert_false(node_status(w, A).primary);
}

/* ------------------------------------------------------------------------------------------------
 * Nothing without a lease. */

STORY(an_append_that_comes_when_the_lease_has_run_out_is_not_ordered)
{
    struct conn *c = given_a_written_chunk(w, 1);
    /* The process stood still, and this append is the first thing that it sees (TIME-5). */
    w->stalled[MASTER][A] = w->stalled[A][MASTER] = true;
    w->now = lh_instant_add(w->now, lh_milliseconds(SESSION_TERM_MS));
    append(c, 2, 100);
    settle(w);
    assert_false(answered(c, 2));
    assert_int_equal(c->error, LH_ERR_NOT_PRIMARY);
    assert_int_equal(node_status(w, A).length, BATCH);
    assert_int_equal(node_status(w, B).length, BATCH);
}

STORY(a_reader_at_a_secondary_sees_nothing_uncommitted)
{
    Leasehold__ReadRequest q = LEASEHOLD__READ_REQUEST__INIT;
    struct conn *c = given_a_written_chunk(w, 2);
    pass(w, 100); /* B has heard that both are committed */
    w->stalled[C][A] = true;
    append(c, 3, 100);
    settle(w);
    assert_int_equal(node_status(w, B).length, 3 * BATCH);
    assert_int_equal(node_status(w, B).committed, 2 * BATCH);
    q.max_bytes = UINT64_MAX;
    struct conn *r = reader(w, B, q);
    settle(w);
    assert_int_equal(r->payloads[0].size, 2 * BATCH);
    assert_int_equal(read_reply(r)->committed, 2 * BATCH);
    q.offset = 2 * BATCH;
    q.wait_ms = 5000;
    struct conn *waits = reader(w, B, q);
    pass(w, 500);
    assert_int_equal(waits->count, 0);
    w->stalled[C][A] = false;
    pass(w, 100);
    assert_true(answered(c, 3));
    assert_int_equal(waits->payloads[0].size, BATCH);

    /* A recovery sees all, at exactly the version that it works at. */
    q = (Leasehold__ReadRequest)LEASEHOLD__READ_REQUEST__INIT;
    q.max_bytes = UINT64_MAX;
    q.mode = LEASEHOLD__READ_MODE__RECOVERY;
    q.version = 2;
    r = reader(w, B, q);
    settle(w);
    assert_int_equal(read_reply(r)->error, LEASEHOLD__ERROR_CODE__STALE_VERSION);
}

STORY(adopting_creates_nothing)
{
    (void)given_a_written_chunk(w, 1);
    /* D has no replica: neither a primary's word nor the master's makes one, however often. */
    for (uint64_t version = 2; version <= 3; version++) {
        struct conn *f = given_adopt(w, D, version);
        assert_int_equal(feed_reply(f, 0)->error, LEASEHOLD__ERROR_CODE__NO_REPLICA);
        master_fence(w, D, version);
        settle(w);
        assert_int_equal(heard(w, D)->fenced.n, version - 1);
        assert_int_equal(heard(w, D)->fenced.error, LH_ERR_NO_REPLICA);
        assert_null(node_file(w, D, CHUNK));
    }
    break_wire(w, w->nodes[D].session_wire);
    pass(w, 200);
    assert_int_equal(w->nodes[D].registered->register_->n_replicas, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_that_runs_out_while_answers_are_late_is_given_back),
        cmocka_unit_test(an_idle_lease_that_runs_out_is_given_back_for_the_next_one),
        cmocka_unit_test(a_primary_that_adopts_a_higher_version_gives_its_own_back),
        cmocka_unit_test(a_lease_that_is_not_continued_is_given_back_in_the_new_session),
        cmocka_unit_test(
            a_lease_that_ends_while_its_server_registers_is_given_back_with_the_answer),
        cmocka_unit_test(a_refused_new_version_ends_the_old_one),
        cmocka_unit_test(a_heartbeat_carries_what_was_confirmed),
        cmocka_unit_test(who_is_asked_shows_all_also_what_is_not_confirmed),
        cmocka_unit_test(a_registration_shows_a_grant_that_is_still_being_adopted),
        cmocka_unit_test(a_grant_on_its_way_when_a_registration_goes_out_counts_for_nothing),
        cmocka_unit_test(a_registration_does_not_show_what_has_run_out),
        cmocka_unit_test(an_append_that_comes_when_the_lease_has_run_out_is_not_ordered),
        cmocka_unit_test(a_reader_at_a_secondary_sees_nothing_uncommitted),
        cmocka_unit_test(adopting_creates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
