/* Stories of two masters, of which one acts: a chunkserver finds it, follows it, and its leases go
 * on (HA-10, LEASE-7). Each is told under several orders of events. */
#include "tests/core/chunkserver/chunkserver_story.h"

#include <string.h>

#define HEARTBEAT_MS (SESSION_TERM_MS / 3)

/* Servers that were started with so many addresses. */
static void given_masters(struct world *w, unsigned known)
{
    w->masters = known;
    for (int i = 0; i < NODES; i++) {
        node_kill(w, i, false);
        node_start(w, i);
    }
    settle(w);
    heard_clear(w);
}

/* The active one does not exist any more; nobody acts yet. */
static void when_the_active_one_dies(struct world *w)
{
    int dead = w->active;

    w->other_term = w->master_term;
    w->active = dead == MASTER ? STANDBY : MASTER;
    w->gone[dead] = true;
    w->gone[w->active] = false;
    for (int i = 0; i < NODES; i++)
        break_wire(w, w->nodes[i].session_wire);
}

/* It freezes, or its machine loses its power: no connection ends. */
static void when_the_active_one_freezes(struct world *w)
{
    int frozen = w->active;

    w->other_term = w->master_term;
    w->active = frozen == MASTER ? STANDBY : MASTER;
    w->master_term++;
    for (int i = 0; i < NODES; i++)
        w->stalled[frozen][i] = w->stalled[i][frozen] = true;
}

static void assert_registered_at(struct world *w, int master)
{
    for (int i = 0; i < NODES; i++) {
        assert_non_null(w->nodes[i].session_wire);
        assert_int_equal(w->nodes[i].session_wire->server, master);
        assert_non_null(w->nodes[i].registered);
        assert_true(w->nodes[i].session == 0 || !w->nodes[i].session_wire->client_gone);
    }
}

/* No server has a session, all run, and say why. */
static void assert_trouble(struct world *w, const char *text)
{
    char why[1024];

    for (int i = 0; i < NODES; i++) {
        assert_false(w->nodes[i].stopped);
        assert_false(lh_chunkserver_ready(w->nodes[i].cs, w->now, why, sizeof why));
        if (strstr(why, text) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", why, text);
    }
}

/* The lease of A is continued by whoever acts, and appends go on. */
static void assert_goes_on(struct world *w, struct conn *c, uint64_t next)
{
    assert_int_equal(w->nodes[A].registered->register_->n_held, 1);
    assert_true(w->nodes[A].registered->register_->master_term_seen >= 1);
    assert_int_equal(w->nodes[B].registered->register_->n_replicas, 1);
    assert_true(node_status(w, A).open);
    append(c, next, 100);
    settle(w);
    assert_int_equal(position(c, next), (next - 1) * BATCH);
    assert_false(c->closed);
    check_logs(w, ABC);
}

STORY(a_standby_leads_to_the_active_one)
{
    w->active = STANDBY;
    given_masters(w, 2);
    assert_registered_at(w, STANDBY);
    given_a_chunk(w, ABC);
}

/* One that nobody configured. */
STORY(the_only_address_that_is_not_active_leads_to_the_active_one)
{
    w->active = STANDBY;
    given_masters(w, 1);
    pass(w, 1000);
    assert_registered_at(w, STANDBY);
    given_a_chunk(w, ABC);
}

STORY(when_the_active_one_dies_the_next_one_is_found_and_leases_go_on)
{
    given_masters(w, 2);
    struct conn *c = given_a_written_chunk(w, 2);
    when_the_active_one_dies(w);
    w->gone[STANDBY] = true; /* nor can the other one be reached now */
    pass(w, 2000);
    assert_null(w->nodes[A].session_wire);
    assert_true(node_status(w, A).open);
    append(c, 3, 100);
    settle(w);
    assert_int_equal(position(c, 3), 2 * BATCH);

    w->gone[STANDBY] = false;
    w->master_term++;
    pass(w, 501); /* the longest pause */
    assert_registered_at(w, STANDBY);
    assert_goes_on(w, c, 4);
}

STORY(a_broken_stream_is_opened_again_at_a_master_that_still_acts)
{
    given_masters(w, 2);
    struct conn *c = given_a_written_chunk(w, 1);
    unsigned before = w->nodes[A].registrations;
    for (int i = 0; i < NODES; i++)
        break_wire(w, w->nodes[i].session_wire);
    pass(w, 100);
    assert_registered_at(w, MASTER);
    assert_int_equal(w->nodes[A].registrations, before + 1);
    assert_goes_on(w, c, 2);
}

/* It answers again, from a copy of its store or before it has heard of the reigns since. */
STORY(an_old_master_with_a_lower_reign_is_not_believed)
{
    w->master_term = 2;
    given_masters(w, 2);
    struct conn *c = given_a_written_chunk(w, 1);
    unsigned before = w->nodes[A].registrations;
    when_the_active_one_dies(w);
    w->gone[STANDBY] = true;
    w->gone[MASTER] = false;
    w->other_acts = true;
    w->other_term = 1;
    pass(w, 2000);
    assert_int_equal(w->nodes[A].registrations, before);
    assert_null(w->nodes[A].session_wire);
    w->gone[STANDBY] = false;
    w->master_term = 3;
    pass(w, 501);
    assert_registered_at(w, STANDBY);
    assert_int_equal(w->nodes[A].registrations, before + 1);
    assert_goes_on(w, c, 2);
}

/* SES-7: it acts, and answers; it orders nothing, and the next one is found. */
STORY(a_master_with_a_term_far_above_is_not_obeyed)
{
    given_masters(w, 2);
    struct conn *c = given_a_written_chunk(w, 1);
    when_the_active_one_dies(w);
    w->other_acts = false;
    w->master_term = 1 + (UINT64_C(1) << 22);
    pass(w, 2000);
    assert_int_equal(w->nodes[A].session, 0);
    w->master_term = 2;
    pass(w, 1500);
    assert_registered_at(w, STANDBY);
    assert_goes_on(w, c, 2);
}

static void is_of_another_cluster_for_a_while(struct world *w, unsigned known)
{
    given_masters(w, known);
    struct conn *c = given_a_written_chunk(w, 1);

    w->cluster = "other";
    for (int i = 0; i < NODES; i++)
        break_wire(w, w->nodes[i].session_wire);
    pass(w, 2000);
    assert_int_equal(w->nodes[A].session, 0);
    assert_false(w->nodes[A].stopped);
    w->cluster = NULL;
    pass(w, 1500);
    assert_registered_at(w, MASTER);
    assert_goes_on(w, c, 2);
}

STORY(a_master_of_another_cluster_is_not_obeyed)
{
    is_of_another_cluster_for_a_while(w, 2);
}

/* No answer ends a server. */
STORY(the_only_master_is_of_another_cluster_and_is_asked_on)
{
    is_of_another_cluster_for_a_while(w, 1);
}

/* SES-10: one of two masters comes back with a misspelt prefix, in a higher reign; then the active
 * one dies. */
STORY(what_a_foreign_master_says_counts_for_nothing)
{
    given_masters(w, 2);
    struct conn *c = given_a_written_chunk(w, 1);
    w->elsewhere = "another";
    w->other_acts = true;
    w->other_term = 9;
    w->gone[MASTER] = true;
    for (int i = 0; i < NODES; i++)
        break_wire(w, w->nodes[i].session_wire);
    unsigned before = w->nodes[A].registrations;
    pass(w, 3000);
    assert_int_equal(w->nodes[A].registrations, before);
    assert_trouble(w, "is of cluster another, and this is of cluster cluster");
    w->gone[MASTER] = false;
    w->master_term++;
    pass(w, 501);
    assert_registered_at(w, MASTER);
    assert_goes_on(w, c, 2);
}

/* SES-10: a server that belongs to none. */
STORY(of_two_clusters_a_new_server_joins_neither)
{
    w->elsewhere = "another";
    w->other_acts = true;
    w->other_term = 9;
    unsigned before = w->nodes[A].registrations;
    given_masters(w, 2);
    pass(w, 2000);
    assert_int_equal(w->nodes[A].registrations, before);
    assert_trouble(w, "neither is chosen");
    w->elsewhere = NULL;
    w->other_acts = false;
    pass(w, 501);
    assert_registered_at(w, MASTER);
    given_a_chunk(w, ABC);
}

STORY(a_silent_master_is_left_for_one_with_a_higher_reign)
{
    given_masters(w, 2);
    struct conn *c = given_a_written_chunk(w, 2);
    when_the_active_one_freezes(w);
    pass(w, HEARTBEAT_MS + 500 + 1);
    assert_registered_at(w, STANDBY);
    assert_goes_on(w, c, 3);

    /* What the old one says when it wakes up finds nobody. */
    for (int i = 0; i < NODES; i++)
        w->stalled[MASTER][i] = w->stalled[i][MASTER] = false;
    pass(w, 2 * HEARTBEAT_MS);
    assert_registered_at(w, STANDBY);
    assert_goes_on(w, c, 4);
}

/* The other one stands by, and may become active later. The stream stays until then. */
STORY(a_silent_master_is_kept_while_no_other_acts)
{
    given_masters(w, 2);
    struct conn *c = given_a_written_chunk(w, 2);
    unsigned before = w->nodes[A].registrations;
    w->other_term = w->master_term;
    for (int i = 0; i < NODES; i++)
        w->stalled[MASTER][i] = w->stalled[i][MASTER] = true;
    pass(w, HEARTBEAT_MS + 1500);
    assert_true(w->asked >= 2 * NODES);
    assert_false(w->nodes[A].session_wire->client_gone);
    for (int i = 0; i < NODES; i++)
        w->stalled[MASTER][i] = w->stalled[i][MASTER] = false;
    settle(w);
    pass(w, 600); /* rounds that had begun */
    unsigned asked = w->asked;
    pass(w, 2 * HEARTBEAT_MS);
    assert_int_equal(w->asked, asked);
    assert_int_equal(w->nodes[A].registrations, before);
    append(c, 3, 100);
    settle(w);
    assert_int_equal(position(c, 3), 2 * BATCH);
}

STORY(a_list_that_was_learned_survives_the_first_masters_death)
{
    w->lists = true;
    given_masters(w, 1);
    struct conn *c = given_a_written_chunk(w, 2);
    when_the_active_one_dies(w);
    w->master_term++;
    pass(w, 600);
    assert_registered_at(w, STANDBY);
    assert_goes_on(w, c, 3);

    /* And back: what was configured is never forgotten. */
    when_the_active_one_dies(w);
    w->master_term++;
    pass(w, 600);
    assert_registered_at(w, MASTER);
    assert_goes_on(w, c, 4);
}

/* With one master everything is as it was. */
STORY(a_single_master_is_not_asked_who_acts)
{
    given_masters(w, 1);
    (void)given_a_written_chunk(w, 1);
    w->stalled[MASTER][A] = true;
    pass(w, 2 * HEARTBEAT_MS); /* silence, */
    w->stalled[MASTER][A] = false;
    settle(w);
    w->gone[MASTER] = true; /* and its death */
    break_wire(w, w->nodes[A].session_wire);
    pass(w, 3000);
    w->gone[MASTER] = false;
    pass(w, 600);
    assert_registered_at(w, MASTER);
    assert_int_equal(w->asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_standby_leads_to_the_active_one),
        cmocka_unit_test(the_only_address_that_is_not_active_leads_to_the_active_one),
        cmocka_unit_test(when_the_active_one_dies_the_next_one_is_found_and_leases_go_on),
        cmocka_unit_test(a_broken_stream_is_opened_again_at_a_master_that_still_acts),
        cmocka_unit_test(an_old_master_with_a_lower_reign_is_not_believed),
        cmocka_unit_test(a_master_with_a_term_far_above_is_not_obeyed),
        cmocka_unit_test(a_master_of_another_cluster_is_not_obeyed),
        cmocka_unit_test(the_only_master_is_of_another_cluster_and_is_asked_on),
        cmocka_unit_test(what_a_foreign_master_says_counts_for_nothing),
        cmocka_unit_test(of_two_clusters_a_new_server_joins_neither),
        cmocka_unit_test(a_silent_master_is_left_for_one_with_a_higher_reign),
        cmocka_unit_test(a_silent_master_is_kept_while_no_other_acts),
        cmocka_unit_test(a_list_that_was_learned_survives_the_first_masters_death),
        cmocka_unit_test(a_single_master_is_not_asked_who_acts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
