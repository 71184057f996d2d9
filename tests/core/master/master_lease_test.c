/* Stories about what a holder says of its leases and what the master makes of it: registrations
 * that show a lease or do not (SES-1, SES-5, SES-5a, LEASE-7), beliefs that are compared in
 * heartbeats (LEASE-8), and what becomes of a recall (LEASE-5). */
#include "tests/core/master/master_story.h"

#include "lease/promises.h"
#include "lease/sum.h"

/* Registers again within its incarnation, over a new stream, and shows the chunk at that version
 * (0: nothing). How many leases go on. */
static size_t come_back(struct server *s, uint64_t chunk, uint64_t version)
{
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;

    held.chunk = chunk;
    held.version = version;
    if (s->link != 0)
        world_break_link(&w, s->link);
    s->link = 0;
    s->registration++;
    w.hold_commits = true;
    server_register_with(&w, s, NULL, 0, &held, version != 0);
    w.hold_commits = false;
    world_commit_all(&w);
    const Leasehold__SessionReply *r =
        world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_REGISTERED);
    assert_non_null(r);
    assert_int_equal(r->registered->error, LEASEHOLD__ERROR_CODE__OK);
    s->session = r->registered->session;
    s->last_stamp = r->registered->stamp;
    return r->registered->n_continued;
}

/* A heartbeat with that sum. Does the answer ask for all leases? */
static bool asked_after(struct server *s, uint64_t count, uint64_t hash)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Heartbeat h = LEASEHOLD__HEARTBEAT__INIT;
    Leasehold__LeaseSum sum = LEASEHOLD__LEASE_SUM__INIT;

    world_drop_lines(&w);
    sum.count = count;
    sum.hash = hash;
    h.session = s->session;
    h.stamp = w.now.ns;
    h.last_stamp = s->last_stamp;
    h.free_bytes = s->free_bytes;
    h.leases = &sum;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT;
    request.heartbeat = &h;
    server_send(&w, s, &request);
    const Leasehold__SessionReply *r =
        world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT);
    assert_non_null(r);
    return r->heartbeat->show_leases;
}

/* Shows the chunk at that version; 0: no lease at all. */
static void show(struct server *s, uint64_t chunk, uint64_t version)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ShownLeases shown = LEASEHOLD__SHOWN_LEASES__INIT;
    Leasehold__ChunkVersion lease = LEASEHOLD__CHUNK_VERSION__INIT, *list = &lease;

    lease.chunk = chunk;
    lease.version = version;
    shown.session = s->session;
    shown.n_leases = version != 0;
    shown.leases = &list;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SHOWN;
    request.shown = &shown;
    server_send(&w, s, &request);
}

static const Leasehold__RecallLease *recalled(struct server *s)
{
    const Leasehold__SessionReply *r =
        world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_RECALL);

    return r == NULL ? NULL : r->recall;
}

static uint64_t recall(uint64_t chunk, bool only_release)
{
    Leasehold__RecallRequest r = LEASEHOLD__RECALL_REQUEST__INIT;

    r.chunk = chunk;
    r.wait_ms = 5000;
    r.only_release = only_release;
    return world_call(&w, LH_METHOD_RECALL, &r);
}

static struct server *somebody_else(const struct server *s)
{
    return s == a ? b : a;
}

/* ---- Registrations. */

static void what_a_registration_does_not_show_is_free(void **state)
{
    struct server *primary = NULL, *next = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    assert_int_equal(come_back(primary, chunk, 0), 0);
    assert_string_equal(state_of(chunk), "FREE");
    open_tail("/f", 1000);
    assert_int_equal(obey(&next), chunk);
    assert_ptr_not_equal(next, primary); /* it has not shown yet that it hears us (SES-4) */
}

static void what_it_shows_goes_on_however_often(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(come_back(primary, chunk, 1), 1);
        assert_string_equal(state_of(chunk), "HELD");
    }
}

static void a_grant_that_it_does_not_know_is_sent_again(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_member_failed(&w, primary, chunk, 1, somebody_else(primary)->id);
    assert_int_equal(server_grant(&w, primary)->version, 2);
    /* Version 2 was on its way when the stream broke; it acts on 1 until it hears. */
    assert_int_equal(come_back(primary, chunk, 1), 0);
    const Leasehold__Grant *grant = server_grant(&w, primary);
    assert_non_null(grant);
    assert_int_equal(grant->version, 2);
    assert_true(grant->session == primary->session);
    server_confirm(&w, primary, chunk, 2, LH_OK);
    assert_string_equal(state_of(chunk), "HELD");
}

static void one_that_tells_no_process_number_frees_nothing(void **state)
{
    struct server *primary = NULL;

    (void)state;
    for (size_t i = 0; i < SERVERS; i++)
        servers[i].nameless = true;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    come_back(primary, chunk, 0);
    come_back(primary, chunk, 0);
    assert_string_equal(state_of(chunk), "HELD");
    /* Nor does one that tells one afterwards: who was granted the lease told none. */
    primary->nameless = false;
    come_back(primary, chunk, 0);
    come_back(primary, chunk, 0);
    assert_string_equal(state_of(chunk), "HELD");
    heartbeats(11000);
    assert_string_not_equal(state_of(chunk), "HELD");
}

/* Somebody has started a copy of the data directory, or an empty one under the old name. */
static void another_process_with_its_incarnation_frees_nothing(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    primary->process = 4711;
    come_back(primary, chunk, 0);
    come_back(primary, chunk, 0);
    assert_string_equal(state_of(chunk), "HELD");
    assert_int_equal(come_back(primary, chunk, 1), 0); /* nor may it take it over */
    server_release(&w, primary, chunk, 1);
    assert_string_equal(state_of(chunk), "HELD");
    crash();
    come_back(primary, chunk, 0); /* and a restarted master knows */
    assert_string_equal(state_of(chunk), "WAITING");
    world_advance(&w, 9000);
    assert_string_equal(state_of(chunk), "WAITING");
    world_advance(&w, 1001);
    assert_string_equal(state_of(chunk), "FREE");
}

/* SES-1: the network has kept it back. */
static void an_older_registration_changes_nothing(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    assert_int_equal(come_back(primary, chunk, 1), 1);
    struct server late = *primary;
    late.link = 0;
    assert_false(server_register(&w, &late)); /* the same again, and it shows nothing */
    late.registration--;
    late.link = 0;
    assert_false(server_register(&w, &late));
    late.incarnation--;
    late.registration += 10;
    late.link = 0;
    assert_false(server_register(&w, &late));
    assert_string_equal(state_of(chunk), "HELD");
    assert_true(server_heartbeat(&w, primary)); /* its session goes on, over its own stream */
    assert_string_equal(state_of(chunk), "HELD");
}

/* ---- After a restart of the master (LEASE-7). */

static void a_holder_that_comes_back_without_its_lease_frees_it(void **state)
{
    struct server *primary = NULL, *next = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    crash();
    assert_string_equal(state_of(chunk), "WAITING");
    come_back(somebody_else(primary), chunk, 0); /* not its to free */
    assert_string_equal(state_of(chunk), "WAITING");
    come_back(primary, chunk, 0);
    assert_string_equal(state_of(chunk), "FREE");
    assert_true(server_heartbeat(&w, primary));
    open_tail("/f", 1000);
    assert_int_equal(obey(&next), chunk);
    heartbeats(11000);
    assert_string_equal(state_of(chunk), "HELD"); /* the wait's end takes nothing from anybody */
}

static void a_holder_that_shows_an_older_version_is_granted_the_newest_again(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_member_failed(&w, primary, chunk, 1, somebody_else(primary)->id);
    crash();
    assert_int_equal(come_back(primary, chunk, 1), 0);
    const Leasehold__Grant *grant = server_grant(&w, primary);
    assert_non_null(grant);
    assert_int_equal(grant->version, 2);
    server_confirm(&w, primary, chunk, 2, LH_OK);
    assert_string_equal(state_of(chunk), "HELD");
    heartbeats(11000);
    assert_string_equal(state_of(chunk), "HELD");
}

static void a_lease_that_went_on_after_a_restart_is_freed_if_it_is_not_shown_later(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    crash();
    assert_int_equal(come_back(primary, chunk, 1), 1);
    come_back(primary, chunk, 0);
    assert_string_equal(state_of(chunk), "FREE");
}

/* LEASE-9: of a dead holder's chunk, which was heard last 3 s before the first of three starts. */
static void a_chunk_is_free_when_its_holders_promise_is_over(void **state)
{
    struct lh_promises *memory = calloc(1, lh_promises_size(16));
    struct server *primary = NULL;

    (void)state;
    lh_promises_open(memory, 16, "boot 1");
    w.config.promises = memory;
    crash();
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    world_advance(&w, 3000);
    for (unsigned i = 0; i < 3; i++) {
        crash();
        come_back(somebody_else(primary), chunk, 0);
        world_advance(&w, 2000);
        assert_string_equal(state_of(chunk), "WAITING");
    }
    world_advance(&w, 1000);
    assert_string_equal(state_of(chunk), "WAITING");
    world_advance(&w, 1);
    assert_string_equal(state_of(chunk), "FREE");
    free(memory);
    w.config.promises = NULL;
}

/* The copy of the store that it starts from may name the wrong holder, or none. */
static void a_restored_master_grants_nothing_before_its_wait_ends(void **state)
{
    struct server *primary = NULL, *next = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_release(&w, primary, chunk, 1);
    w.config.restored = true;
    crash();
    come_back(a, chunk, 0);
    come_back(b, chunk, 0);
    come_back(c, chunk, 0);
    heartbeats(6000);
    open_tail("/f", 9000);
    assert_int_equal(obey(&next), 0);
    heartbeats(6000);
    assert_int_equal(obey(&next), chunk);
}

/* ---- Heartbeats (LEASE-8). */

static void the_same_belief_is_not_asked_about(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    assert_false(asked_after(a, 0, 0));
    uint64_t chunk = file_with_primary("/f", &primary);
    assert_false(asked_after(primary, 1, lh_lease_hash(chunk, 1)));
    assert_false(asked_after(somebody_else(primary), 0, 0));
    server_member_failed(&w, primary, chunk, 1, somebody_else(primary)->id);
    assert_false(asked_after(primary, 0, 0)); /* version 2 is being adopted */
    server_confirm(&w, primary, chunk, 2, LH_OK);
    assert_false(asked_after(primary, 1, lh_lease_hash(chunk, 2)));
    come_back(primary, chunk, 2);
    assert_false(asked_after(primary, 1, lh_lease_hash(chunk, 2)));
    server_release(&w, primary, chunk, 2);
    assert_false(asked_after(primary, 0, 0));
    assert_true(server_heartbeat(&w, primary)); /* one of before sends no sum */
}

static void a_lease_that_its_holder_does_not_show_is_over(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    assert_true(asked_after(primary, 0, 0));
    show(primary, chunk, 0);
    assert_string_equal(state_of(chunk), "FREE");
    assert_false(asked_after(primary, 0, 0));
}

static void a_grant_that_is_on_its_way_is_not_freed_by_what_is_shown(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    server_member_failed(&w, primary, chunk, 1, somebody_else(primary)->id);
    show(primary, chunk, 0); /* it left before version 2 arrived there */
    assert_string_equal(state_of(chunk), "GRANTING");
    show(primary, chunk, 1);
    assert_string_equal(state_of(chunk), "GRANTING");
    assert_null(recalled(primary));
}

static void a_lease_that_the_master_does_not_know_of_is_recalled(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    struct server *other = somebody_else(primary);
    assert_true(asked_after(other, 1, lh_lease_hash(chunk, 1)));
    show(other, chunk, 1);
    const Leasehold__RecallLease *r = recalled(other);
    assert_non_null(r);
    assert_true(r->chunk == chunk && r->version == 1 && r->session == other->session);
    assert_string_equal(state_of(chunk), "HELD"); /* by another: that is not its business */
    show(other, chunk + 100, 9);                  /* of a chunk that was removed, say */
    assert_int_equal(recalled(other)->version, 9);
}

static void what_is_shown_in_an_old_session_counts_for_nothing(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    primary->session--;
    show(primary, chunk, 0);
    primary->session++;
    assert_string_equal(state_of(chunk), "HELD");
}

/* ---- What becomes of a recall (LEASE-5). */

static void a_recall_is_answered_by_whatever_shows_that_the_lease_is_over(void **state)
{
    (void)state;
    three_up();
    for (unsigned how = 0; how < 4; how++) {
        static const char *const paths[] = {"/0", "/1", "/2", "/3"};
        struct server *primary = NULL;
        uint64_t chunk = file_with_primary(paths[how], &primary);
        uint64_t call = recall(chunk, true);
        assert_non_null(recalled(primary));
        assert_string_equal(state_of(chunk), "RECALLING");
        assert_null(world_reply(&w, call));
        if (how == 0)
            server_release(&w, primary, chunk, 1);
        else if (how == 1)
            show(primary, chunk, 0);
        else if (how == 2)
            come_back(primary, chunk, 0);
        else
            come_with(primary, NULL, 0);
        const Leasehold__RecallReply *reply = world_reply(&w, call);
        assert_non_null(reply);
        assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
        assert_string_equal(reply->old_primary, primary->id);
        assert_string_equal(state_of(chunk), "FREE");
        assert_true(server_heartbeat(&w, primary));
    }
}

static void a_recalled_lease_goes_on_being_recalled_in_the_next_session(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    uint64_t call = recall(chunk, true);
    assert_non_null(recalled(primary));
    assert_int_equal(come_back(primary, chunk, 1), 1);
    assert_string_equal(state_of(chunk), "RECALLING");
    assert_int_equal(recalled(primary)->version, 1);
    server_release(&w, primary, chunk, 1);
    assert_int_equal(
        ((const Leasehold__RecallReply *)world_reply(&w, call))->error, LEASEHOLD__ERROR_CODE__OK);
}

/* ---- After an intent to seal (FAIL-2a). */

static void after_an_intent_a_lease_is_neither_extended_nor_continued(void **state)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;
    Leasehold__OpenTailRequest lost = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;
    struct server *primary = NULL;
    bool extended = true;

    (void)state;
    three_up();
    up(d);
    r.path = lost.path = "/f";
    r.on_primary_loss = LEASEHOLD__ON_PRIMARY_LOSS__ROLL;
    world_reply(&w, world_call(&w, LH_METHOD_CREATE, &r));
    open_tail("/f", 1000);
    uint64_t chunk = obey(&primary);
    world_advance(&w, 100);
    lost.failed_chunk = chunk;
    lost.failed_version = 1;
    lost.wait_ms = 9000;
    world_call(&w, LH_METHOD_OPEN_TAIL, &lost);
    world_advance(&w, 400); /* it was asked whether it lives, and did not answer */
    assert_string_equal(state_of(chunk), "EXPIRING");
    assert_true(server_heartbeat_active(&w, primary, chunk, 1, &extended));
    assert_false(extended);
    /* The holder's belief is not asked about: the fence will end it. */
    assert_false(asked_after(primary, 1, lh_lease_hash(chunk, 1)));
    assert_int_equal(come_back(primary, chunk, 1), 0);
    assert_string_equal(state_of(chunk), "EXPIRING");
    assert_null(server_grant(&w, primary));
    /* Once it has heard that, it gives it up; or shows it no more. */
    assert_int_equal(come_back(primary, chunk, 0), 0);
    assert_string_equal(state_of(chunk), "FREE");
    assert_null(server_grant(&w, primary)); /* and nobody can have it any more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(what_a_registration_does_not_show_is_free),
        STORY(what_it_shows_goes_on_however_often),
        STORY(a_grant_that_it_does_not_know_is_sent_again),
        STORY(one_that_tells_no_process_number_frees_nothing),
        STORY(another_process_with_its_incarnation_frees_nothing),
        STORY(an_older_registration_changes_nothing),
        STORY(a_holder_that_comes_back_without_its_lease_frees_it),
        STORY(a_holder_that_shows_an_older_version_is_granted_the_newest_again),
        STORY(a_lease_that_went_on_after_a_restart_is_freed_if_it_is_not_shown_later),
        STORY(a_chunk_is_free_when_its_holders_promise_is_over),
        STORY(a_restored_master_grants_nothing_before_its_wait_ends),
        STORY(the_same_belief_is_not_asked_about),
        STORY(a_lease_that_its_holder_does_not_show_is_over),
        STORY(a_grant_that_is_on_its_way_is_not_freed_by_what_is_shown),
        STORY(a_lease_that_the_master_does_not_know_of_is_recalled),
        STORY(what_is_shown_in_an_old_session_counts_for_nothing),
        STORY(a_recall_is_answered_by_whatever_shows_that_the_lease_is_over),
        STORY(a_recalled_lease_goes_on_being_recalled_in_the_next_session),
        STORY(after_an_intent_a_lease_is_neither_extended_nor_continued),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
