/* Stories about the master: what it says to whom, in which order, and what it waits for. */
#include "tests/core/master/master_world.h"

#include "lease/term.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define T_SESSION_MS 10000u
#define HEARTBEAT_MS 3300u

static struct world w;
static struct server a, b, c, d;

static int set_up(void **state)
{
    (void)state;
    world_open(&w);
    a = (struct server){.id = "a", .incarnation = 1, .registration = 1};
    b = (struct server){.id = "b", .incarnation = 1, .registration = 1};
    c = (struct server){.id = "c", .incarnation = 1, .registration = 1};
    d = (struct server){.id = "d", .incarnation = 1, .registration = 1};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static struct server *by_id(const char *id)
{
    return id[0] == 'a' ? &a : id[0] == 'b' ? &b : id[0] == 'c' ? &c : &d;
}

static void three_servers(void)
{
    assert_true(server_register(&w, &a));
    assert_true(server_register(&w, &b));
    assert_true(server_register(&w, &c));
    assert_true(server_heartbeat(&w, &a));
    assert_true(server_heartbeat(&w, &b));
    assert_true(server_heartbeat(&w, &c));
}

static const Leasehold__CreateReply *create(const char *path)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.on_primary_loss = LEASEHOLD__ON_PRIMARY_LOSS__WAIT; /* the other: master_roll_test.c */
    return world_reply(&w, world_call(&w, LH_METHOD_CREATE, &r));
}

static uint64_t open_tail(const char *path, uint64_t wait_ms)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.wait_ms = wait_ms;
    return world_call(&w, LH_METHOD_OPEN_TAIL, &r);
}

static uint64_t open_tail_after(const char *path, uint64_t full_chunk, uint64_t wait_ms)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.full_chunk = full_chunk;
    r.wait_ms = wait_ms;
    return world_call(&w, LH_METHOD_OPEN_TAIL, &r);
}

/* Every server that is asked to creates its replica. */
static unsigned create_replicas(uint64_t *chunk)
{
    struct server *all[] = {&a, &b, &c, &d};
    unsigned count = 0;

    for (size_t i = 0; i < 4; i++) {
        const Leasehold__SessionReply *r;
        if (all[i]->link == 0)
            continue;
        while ((r = world_next(&w, all[i]->link, LEASEHOLD__SESSION_REPLY__BODY_CREATE)) != NULL) {
            *chunk = r->create->chunk;
            server_created(&w, all[i], *chunk, LH_OK);
            count++;
        }
    }
    return count;
}

/* Who of all was sent a grant that was not looked at yet? */
static struct server *granted(const Leasehold__Grant **grant)
{
    struct server *all[] = {&a, &b, &c, &d};

    for (size_t i = 0; i < 4; i++)
        if (all[i]->link != 0 && (*grant = server_grant(&w, all[i])) != NULL)
            return all[i];
    return NULL;
}

/* A file whose first chunk has a confirmed primary; returns it. */
static struct server *file_with_primary(const char *path, uint64_t *chunk)
{
    const Leasehold__Grant *grant = NULL;

    assert_non_null(create(path));
    uint64_t call = open_tail(path, 1000);
    assert_int_equal(create_replicas(chunk), 3);
    struct server *primary = granted(&grant);
    assert_non_null(primary);
    assert_int_equal(grant->version, 1);
    server_confirm(&w, primary, *chunk, 1, LH_OK);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_non_null(reply);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_string_equal(reply->primary->server_id, primary->id);
    return primary;
}

static void heartbeats(uint64_t ms, struct server *silent)
{
    struct server *all[] = {&a, &b, &c, &d};

    for (uint64_t done = 0; done < ms; done += HEARTBEAT_MS) {
        world_advance(&w, HEARTBEAT_MS);
        for (size_t i = 0; i < 4; i++)
            if (all[i]->link != 0 && all[i] != silent && all[i]->session != 0)
                assert_true(server_heartbeat(&w, all[i]));
    }
}

static const Leasehold__Lease *lease_of(uint64_t chunk)
{
    Leasehold__ListLeasesRequest r = LEASEHOLD__LIST_LEASES_REQUEST__INIT;

    r.all = true;
    r.after_chunk = chunk - 1;
    r.limit = 1;
    const Leasehold__ListLeasesReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_LEASES, &r));
    assert_int_equal(reply->n_leases, 1);
    assert_int_equal(reply->leases[0]->chunk, chunk);
    return reply->leases[0];
}

/* ---- Sessions. */

static void a_session_is_renewed_and_runs_out(void **state)
{
    (void)state;
    assert_true(server_register(&w, &a));
    heartbeats(30000, NULL);
    world_advance(&w, T_SESSION_MS);
    assert_true(server_heartbeat(&w, &a)); /* the grantor's term is 1 ms longer */
    world_advance(&w, T_SESSION_MS + 1);
    assert_false(server_heartbeat(&w, &a)); /* never renewed once it is over (SES-3) */
    a.registration++;
    assert_true(server_register(&w, &a));
}

static void a_registration_is_durable_before_it_is_answered(void **state)
{
    (void)state;
    w.hold_commits = true;
    assert_false(server_register(&w, &a));
    assert_int_equal(w.commit_count, 1);
    world_commit(&w);
    assert_non_null(world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_REGISTERED));
}

static void a_late_registration_is_refused(void **state)
{
    (void)state;
    a.incarnation = 5;
    a.registration = 2;
    assert_true(server_register(&w, &a));
    struct server late = {.id = "a", .incarnation = 5, .registration = 2};
    assert_false(server_register(&w, &late)); /* repeated */
    late = (struct server){.id = "a", .incarnation = 4, .registration = 9};
    assert_false(server_register(&w, &late)); /* an old incarnation */
    world_crash(&w);
    late.link = 0;
    assert_false(server_register(&w, &late)); /* remembered across a restart */
    assert_true(server_heartbeat(&w, &a) == false);
    a.registration = 3;
    a.link = 0;
    assert_true(server_register(&w, &a));
}

static void a_foreign_server_is_refused(void **state)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register r = LEASEHOLD__REGISTER__INIT;

    (void)state;
    r.server_id = "a";
    r.address = "a:1";
    r.incarnation = 1;
    r.cluster_id = "some-other-cluster";
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    request.register_ = &r;
    uint64_t link = world_open_link(&w, LH_METHOD_SESSION);
    world_message(&w, link, &request);
    const Leasehold__SessionReply *reply =
        world_next(&w, link, LEASEHOLD__SESSION_REPLY__BODY_REGISTERED);
    assert_int_equal(reply->registered->error, LEASEHOLD__ERROR_CODE__WRONG_IDENTITY);

    r.cluster_id = "";
    r.master_term_seen = 99; /* our store must be an old copy */
    link = world_open_link(&w, LH_METHOD_SESSION);
    world_message(&w, link, &request);
    reply = world_next(&w, link, LEASEHOLD__SESSION_REPLY__BODY_REGISTERED);
    assert_int_equal(reply->registered->error, LEASEHOLD__ERROR_CODE__STALE_MASTER);
}

static void the_answer_carries_the_holders_term(void **state)
{
    (void)state;
    a.link = world_open_link(&w, LH_METHOD_SESSION);
    w.hold_commits = true;
    server_register(&w, &a);
    world_commit_all(&w);
    const Leasehold__SessionReply *reply =
        world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_REGISTERED);
    assert_int_equal(
        reply->registered->term_ns, lh_term_for_holder(lh_seconds(10), LH_DRIFT_PPM_DEFAULT).ns);
    assert_int_equal(reply->registered->heartbeat_ns, lh_seconds(10).ns / 3);
    assert_int_equal(reply->registered->master_term, 1);
}

/* ---- Grants. */

static void a_grant_is_durable_before_it_is_sent(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    assert_non_null(create("/f"));
    w.hold_commits = true;
    open_tail("/f", 1000);
    assert_int_equal(create_replicas(&chunk), 0); /* nobody creates what is not durable */
    world_commit(&w);
    assert_int_equal(create_replicas(&chunk), 3);
    assert_null(granted(&grant));
    assert_int_equal(w.commit_count, 1);
    world_commit(&w);
    struct server *primary = granted(&grant);
    assert_non_null(primary);
    assert_int_equal(grant->version, 1);
    assert_int_equal(grant->n_members, 3);
    assert_int_equal(grant->session, primary->session);
    assert_int_equal(grant->term_ns, lh_term_for_holder(lh_seconds(60), LH_DRIFT_PPM_DEFAULT).ns);
}

static void a_grant_is_sent_again_until_it_is_confirmed(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    create("/f");
    uint64_t call = open_tail("/f", 9000);
    create_replicas(&chunk);
    struct server *primary = granted(&grant);
    uint64_t stamp = grant->stamp;
    heartbeats(HEARTBEAT_MS, NULL);
    assert_ptr_equal(granted(&grant), primary);
    assert_int_equal(grant->version, 1);
    assert_true(grant->stamp > stamp); /* it counts from the newest heartbeat */
    assert_null(world_reply(&w, call));
    server_confirm(&w, primary, chunk, 1, LH_OK);
    server_confirm(&w, primary, chunk, 1, LH_OK); /* repeated */
    assert_non_null(world_reply(&w, call));
    heartbeats(HEARTBEAT_MS, NULL);
    assert_null(granted(&grant));
}

static void a_refused_grant_goes_to_another_member(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    create("/f");
    open_tail("/f", 9000);
    create_replicas(&chunk);
    struct server *first = granted(&grant);
    server_confirm(&w, first, chunk, 1, LH_ERR_NO_REPLICA);
    struct server *second = granted(&grant);
    assert_non_null(second);
    assert_ptr_not_equal(second, first);
    assert_int_equal(grant->version, 2);
}

static void who_refused_for_its_disks_sake_is_asked_again(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    server_release(&w, primary, chunk, 1);
    open_tail("/f", 10000);
    /* One after the other has a disk that stalls; none has lost its replica. */
    for (uint64_t version = 2; version < 8; version++) {
        struct server *s = granted(&grant);
        if (s != NULL)
            server_confirm(&w, s, chunk, grant->version, LH_ERR_IO);
        heartbeats(HEARTBEAT_MS, NULL);
    }
    open_tail("/f", 10000);
    heartbeats(HEARTBEAT_MS, NULL);
    assert_non_null(granted(&grant));
}

static void a_server_that_hears_nothing_gets_no_lease(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    struct server *deaf = primary == &a ? &b : &a;
    struct server *other = primary == &c ? &b : &c;
    if (other == deaf)
        other = &c;
    world_advance(&w, 1000);
    uint64_t heard = deaf->last_stamp;
    for (int i = 0; i < 4; i++) { /* its heartbeats arrive, our answers do not (SES-4) */
        world_advance(&w, HEARTBEAT_MS);
        server_heartbeat(&w, primary);
        server_heartbeat(&w, other);
        deaf->last_stamp = heard;
        server_heartbeat(&w, deaf);
    }
    server_release(&w, primary, chunk, 1);
    open_tail("/f", 1000);
    assert_ptr_equal(granted(&grant), other);
}

static void nobody_else_is_granted_before_the_lease_has_run_out(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    struct lh_instant last = w.now;
    world_break_link(&w, primary->link);
    primary->link = 0;
    uint64_t call = open_tail("/f", 2000);
    world_advance(&w, 2000);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_non_null(reply);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    assert_in_range(reply->lease_left_ms, 7900, 8001);
    assert_true(reply->retry_after_ms > 0);
    assert_null(reply->primary);
    while (true) {
        struct server *next;
        open_tail("/f", 1);
        next = granted(&grant);
        if (next != NULL) {
            assert_ptr_not_equal(next, primary);
            break;
        }
        world_advance(&w, 50);
        if ((w.now.ns / 1000000u) % 3000 < 50)
            heartbeats(1, primary);
    }
    /* LEASE-2 and TIME-4: not before the session's term and 1 ms have passed. */
    assert_false(lh_instant_before(w.now, lh_instant_add(last, lh_milliseconds(T_SESSION_MS + 1))));
    assert_int_equal(grant->version, 2);
}

static void active_leases_are_extended_and_idle_ones_run_out(void **state)
{
    uint64_t chunk = 0;
    bool extended = false;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    for (int i = 0; i < 30; i++) { /* 99 s */
        world_advance(&w, HEARTBEAT_MS);
        assert_true(server_heartbeat(&w, &a));
        assert_true(server_heartbeat(&w, &b));
        assert_true(server_heartbeat(&w, &c));
        assert_true(server_heartbeat_active(&w, primary, chunk, 1, &extended));
        assert_true(extended);
    }
    assert_string_equal(lease_of(chunk)->state, "HELD");
    assert_true(server_heartbeat_active(&w, primary, chunk, 2, &extended));
    assert_false(extended); /* another version than the one held */
    heartbeats(62000, NULL);
    assert_string_equal(lease_of(chunk)->state, "FREE");
}

static void the_same_session_gets_a_new_version_without_a_member(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    struct server *failed = primary == &a ? &b : &a;
    struct server *other = primary != &c ? &c : &b;
    if (other == failed)
        other = &b;
    server_member_failed(&w, other, chunk, 1, failed->id); /* not the primary's word */
    assert_null(granted(&grant));
    server_member_failed(&w, primary, chunk, 1, failed->id);
    assert_ptr_equal(granted(&grant), primary);
    assert_int_equal(grant->version, 2);
    assert_int_equal(grant->n_members, 2);
    server_member_failed(&w, primary, chunk, 1, other->id); /* late: not the newest version */
    assert_null(granted(&grant));
    server_confirm(&w, primary, chunk, 2, LH_OK);
    server_member_failed(&w, primary, chunk, 2, other->id); /* one would be left of two */
    assert_ptr_equal(granted(&grant), primary); /* told again where its members are today */
    assert_int_equal(grant->version, 2);
    assert_int_equal(lease_of(chunk)->version, 2);
}

/* REC-2a, FAIL-3: the member that fails may be the only one to have every acknowledged record. */
static void a_member_that_may_be_the_only_one_is_not_left_out(void **state)
{
    const Leasehold__Grant *grant;
    uint64_t chunk;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    struct server *failed = primary == &a ? &b : &a;
    server_is_unsure(&w, primary, chunk, 1, failed->id);
    assert_ptr_equal(granted(&grant), primary); /* told again where its members are today */
    assert_int_equal(grant->version, 1);
    assert_int_equal(grant->n_members, 3);
    /* It is back, and has nothing: there is nothing to wait for. */
    world_break_link(&w, failed->link);
    failed->incarnation++;
    assert_true(server_register(&w, failed));
    world_advance(&w, 10);
    server_is_unsure(&w, primary, chunk, 1, failed->id);
    assert_ptr_equal(granted(&grant), primary);
    assert_int_equal(grant->version, 2);
    assert_int_equal(grant->n_members, 2);
}

/* ---- Giving up. */

static uint64_t recall(uint64_t chunk, uint64_t wait_ms, bool only_release)
{
    Leasehold__RecallRequest r = LEASEHOLD__RECALL_REQUEST__INIT;

    r.chunk = chunk;
    r.wait_ms = wait_ms;
    r.only_release = only_release;
    return world_call(&w, LH_METHOD_RECALL, &r);
}

static void a_recall_moves_the_primary(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;
    bool extended;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    uint64_t call = recall(chunk, 5000, false);
    assert_non_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_RECALL));
    heartbeats(HEARTBEAT_MS, NULL); /* sent again until answered */
    assert_non_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_RECALL));
    server_heartbeat_active(&w, primary, chunk, 1, &extended);
    assert_false(extended); /* no extension while recalling */
    server_release(&w, primary, chunk, 1);
    struct server *next = granted(&grant);
    assert_non_null(next);
    assert_ptr_not_equal(next, primary);
    assert_null(world_reply(&w, call));
    server_confirm(&w, next, chunk, 2, LH_OK);
    const Leasehold__RecallReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_string_equal(reply->old_primary, primary->id);
    assert_string_equal(reply->new_primary, next->id);
    assert_int_equal(reply->version, 2);
}

static void a_busy_chunk_that_was_recalled_goes_to_another_member_in_one_commit(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;
    Leasehold__ChunkVersion active = LEASEHOLD__CHUNK_VERSION__INIT;
    Leasehold__ChunkVersion *pointer = &active;
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Heartbeat beat = LEASEHOLD__HEARTBEAT__INIT;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    active.chunk = chunk;
    active.version = 1;
    active.appends = 17;
    beat.session = primary->session;
    beat.stamp = w.now.ns;
    beat.last_stamp = primary->last_stamp;
    beat.n_active = 1;
    beat.active = &pointer;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT;
    request.heartbeat = &beat;
    server_send(&w, primary, &request);
    uint64_t call = recall(chunk, 1, false);
    world_advance(&w, 1); /* nobody waits any more */
    assert_non_null(world_reply(&w, call));
    w.hold_commits = true;
    server_release(&w, primary, chunk, 1);
    assert_int_equal(w.commit_count, 1);
    world_commit(&w);
    struct server *next = granted(&grant);
    assert_non_null(next);
    assert_ptr_not_equal(next, primary);
    assert_int_equal(grant->version, 2);
    /* Who only wants it released gets it released. */
    w.hold_commits = false;
    world_commit_all(&w);
    server_confirm(&w, next, chunk, 2, LH_OK);
    active.version = 2;
    beat.session = next->session;
    beat.last_stamp = next->last_stamp;
    server_send(&w, next, &request);
    recall(chunk, 5000, true);
    server_release(&w, next, chunk, 2);
    assert_null(granted(&grant));
    assert_string_equal(lease_of(chunk)->state, "FREE");
}

static void a_recall_without_an_answer_waits_for_the_term(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    uint64_t call = recall(chunk, 5000, false);
    heartbeats(6000, NULL);
    const Leasehold__RecallReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    assert_in_range(reply->lease_left_ms, 1, 10001); /* unless its session is renewed again */
    assert_string_equal(lease_of(chunk)->state, "RECALLING");
    assert_null(granted(&grant));
    heartbeats(60000, NULL); /* it never answers, it only lives */
    open_tail("/f", 1000);
    assert_non_null(granted(&grant));
    assert_int_equal(grant->version, 2);
    (void)primary;
}

static void a_recall_carries_over_to_a_new_version(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    uint64_t call = recall(chunk, 5000, true);
    world_drop_lines(&w);
    server_member_failed(&w, primary, chunk, 1, primary == &a ? "b" : "a");
    assert_ptr_equal(granted(&grant), primary);
    const Leasehold__SessionReply *r =
        world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_RECALL);
    assert_non_null(r);
    assert_int_equal(r->recall->version, 2);
    server_release(&w, primary, chunk, 1); /* of the old version: says nothing */
    assert_null(world_reply(&w, call));
    server_release(&w, primary, chunk, 2);
    const Leasehold__RecallReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_string_equal(lease_of(chunk)->state, "FREE");
}

static void a_seal_is_durable_before_members_record_it_and_the_next_chunk_exists(void **state)
{
    uint64_t chunk = 0, next = 0;
    const Leasehold__Grant *grant;
    const Leasehold__SessionReply *r;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    uint64_t call = open_tail_after("/f", chunk, 5000);
    assert_null(world_reply(&w, call)); /* full: its seal is on the way */
    w.hold_commits = true;
    server_seal(&w, primary, chunk, 1, 777);
    assert_null(world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
    assert_int_equal(w.commit_count, 1);
    world_commit(&w);
    r = world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL);
    assert_int_equal(r->record_seal->length, 777);
    assert_non_null(world_next(&w, b.link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
    assert_non_null(world_next(&w, c.link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
    w.hold_commits = false;
    world_commit_all(&w);
    assert_int_equal(create_replicas(&next), 3);
    assert_int_not_equal(next, chunk);
    struct server *second = granted(&grant);
    server_confirm(&w, second, next, 1, LH_OK);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->chunk->chunk, next);
    assert_int_equal(reply->chunk->start, 777);
    assert_int_equal(reply->settled->chunk, chunk);
    assert_int_equal(reply->settled->length, 777);
    assert_int_equal(reply->settled->version, 1);
    world_drop_lines(&w);
    server_seal(&w, primary, chunk, 1, 777); /* repeated: told again */
    assert_non_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
    server_seal(&w, primary, chunk, 1, 800); /* a seal fixes the length for ever */
    r = world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL);
    assert_int_equal(r->record_seal->length, 777);
}

/* A file whose second chunk has a confirmed primary. A spare is being created. */
static struct server *file_with_second_chunk(uint64_t *tail)
{
    uint64_t first = 0;
    const Leasehold__Grant *grant;
    struct server *primary = file_with_primary("/f", &first);

    server_seal(&w, primary, first, 1, 777);
    open_tail_after("/f", first, 5000);
    assert_int_equal(create_replicas(tail), 3);
    primary = granted(&grant);
    assert_int_equal(grant->chunk, *tail);
    server_confirm(&w, primary, *tail, 1, LH_OK);
    return primary;
}

/* Its spare is there. */
static struct server *file_that_grows(uint64_t *tail, uint64_t *preallocated)
{
    struct server *primary = file_with_second_chunk(tail);

    assert_int_equal(create_replicas(preallocated), 3); /* ahead of its need */
    assert_true(*preallocated > *tail);
    return primary;
}

static void a_growing_files_next_chunk_comes_with_the_seal(void **state)
{
    uint64_t tail = 0, preallocated = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_that_grows(&tail, &preallocated);
    w.hold_commits = true;
    server_seal(&w, primary, tail, 1, 1000);
    assert_null(granted(&grant)); /* LEASE-1 */
    assert_int_equal(w.commit_count, 1);
    world_commit(&w);
    assert_non_null(world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
    struct server *next = granted(&grant);
    assert_non_null(next);
    assert_int_equal(grant->chunk, preallocated);
    w.hold_commits = false;
    world_commit_all(&w);
    server_confirm(&w, next, preallocated, 1, LH_OK);
    const Leasehold__OpenTailReply *reply = world_reply(&w, open_tail("/f", 1000));
    assert_int_equal(reply->chunk->chunk, preallocated);
    assert_int_equal(reply->chunk->start, 1777);
}

static void a_crash_before_the_seals_commit_leaves_neither_seal_nor_next_chunk(void **state)
{
    uint64_t tail = 0, preallocated = 0;

    (void)state;
    three_servers();
    struct server *primary = file_that_grows(&tail, &preallocated);
    w.hold_commits = true;
    server_seal(&w, primary, tail, 1, 1000);
    world_crash(&w);
    w.hold_commits = false;
    world_commit_all(&w);
    assert_string_equal(lease_of(tail)->state, "WAITING");
    /* The spare belongs to nobody now: its replicas go, as they never held a byte. */
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;
    report.chunk = preallocated;
    report.version = 1;
    a.registration++;
    assert_true(server_register_with(&w, &a, &report, 1, NULL, 0));
    const Leasehold__SessionReply *r =
        world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE);
    assert_non_null(r);
    assert_int_equal(r->remove->chunk, preallocated);
    assert_int_equal(r->remove->version, 0); /* only if it never held a byte */
}

static void an_idle_files_spare_is_given_back(void **state)
{
    uint64_t tail = 0, preallocated = 0;

    (void)state;
    three_servers();
    file_that_grows(&tail, &preallocated);
    heartbeats(70000, NULL); /* nobody appends: the lease is left to run out */
    assert_string_equal(lease_of(tail)->state, "FREE");
    const Leasehold__SessionReply *r =
        world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE);
    assert_non_null(r);
    assert_int_equal(r->remove->chunk, preallocated);
}

/* The chunk that the server is asked to create its replica of; 0: it is not. */
static uint64_t asked_to_create(struct server *s)
{
    const Leasehold__SessionReply *r =
        world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_CREATE);

    return r == NULL ? 0 : r->create->chunk;
}

static const Leasehold__RemoveReplica *told_to_remove(struct server *s)
{
    const Leasehold__SessionReply *r =
        world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE);

    return r == NULL ? NULL : r->remove;
}

static void a_spare_that_is_given_back_before_it_is_there_goes_once_it_is(void **state)
{
    uint64_t tail = 0;

    (void)state;
    three_servers();
    file_with_second_chunk(&tail);
    uint64_t preallocated = asked_to_create(&a);
    assert_int_not_equal(preallocated, 0);
    world_advance(&w, 3000);
    assert_int_equal(told_to_remove(&a)->chunk, preallocated); /* which has nothing to remove yet */
    server_created(&w, &a, preallocated, LH_ERR_DISK_FULL);
    assert_null(told_to_remove(&a));
    server_created(&w, &a, preallocated, LH_OK);
    const Leasehold__RemoveReplica *remove = told_to_remove(&a);
    assert_non_null(remove);
    assert_int_equal(remove->chunk, preallocated);
    assert_int_equal(remove->version, 0);
}

static void a_full_chunks_spare_is_next_as_soon_as_it_is_there(void **state)
{
    uint64_t tail = 0, late = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_second_chunk(&tail);
    uint64_t preallocated = asked_to_create(&a);
    assert_int_equal(asked_to_create(&b), preallocated);
    server_created(&w, &a, preallocated, LH_OK);
    server_created(&w, &b, preallocated, LH_OK);
    w.hold_commits = true;
    server_seal(&w, primary, tail, 1, 1000);
    uint64_t call = open_tail_after("/f", tail, 5000);
    assert_int_equal(create_replicas(&late), 1); /* it was asked for before, at c */
    assert_int_equal(late, preallocated);
    assert_null(granted(&grant)); /* SEAL-1 */
    w.hold_commits = false;
    world_commit_all(&w);
    assert_null(told_to_remove(&a));
    assert_int_equal(asked_to_create(&a), 0); /* and nothing else is made */
    struct server *next = granted(&grant);
    assert_non_null(next);
    assert_int_equal(grant->chunk, preallocated);
    assert_int_equal(grant->version, 1);
    assert_int_equal(grant->n_members, 3);
    server_confirm(&w, next, preallocated, 1, LH_OK);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->chunk->chunk, preallocated);
    assert_int_equal(reply->chunk->start, 1777);
}

/* The next master knows of the chunk, and not that its replicas were a spare's. */
static void a_restarted_master_goes_on_with_the_spare_that_became_the_next_chunk(void **state)
{
    uint64_t tail = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_second_chunk(&tail);
    uint64_t preallocated = asked_to_create(&a);
    server_created(&w, &a, preallocated, LH_OK);
    server_seal(&w, primary, tail, 1, 1000);
    world_crash(&w);
    world_commit_all(&w);
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;
    report.chunk = preallocated;
    report.version = 1;
    a.registration++;
    assert_true(server_register_with(&w, &a, &report, 1, NULL, 0));
    assert_null(told_to_remove(&a));
    b.registration++;
    c.registration++;
    assert_true(server_register(&w, &b));
    assert_true(server_register(&w, &c));
    assert_true(server_heartbeat(&w, &a));
    assert_true(server_heartbeat(&w, &b));
    assert_true(server_heartbeat(&w, &c));
    open_tail("/f", 5000);
    uint64_t next = 0;
    assert_int_equal(create_replicas(&next), 3);
    assert_int_equal(next, preallocated);
    assert_non_null(granted(&grant));
    assert_int_equal(grant->chunk, preallocated);
    assert_int_equal(grant->version, 1);
}

static void a_seal_of_an_old_version_is_ignored(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    server_release(&w, primary, chunk, 1);
    open_tail("/f", 1000);
    assert_non_null(granted(&grant));
    server_seal(&w, primary, chunk, 1, 5);
    assert_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
    assert_string_equal(lease_of(chunk)->state, "GRANTING");
}

/* The one whose seal it was has it no more, and nobody has. */
static void a_seal_of_an_old_version_is_ignored_while_nobody_holds_the_chunk(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    server_release(&w, primary, chunk, 1);
    open_tail("/f", 1000);
    struct server *next = granted(&grant);
    server_confirm(&w, next, chunk, 2, LH_OK);
    server_release(&w, next, chunk, 2);
    assert_string_equal(lease_of(chunk)->state, "FREE");
    server_seal(&w, primary, chunk, 1, 5);
    assert_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
}

static void a_seal_that_another_member_reports_is_ignored(void **state)
{
    uint64_t chunk = 0;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    struct server *other = primary == &a ? &b : &a;
    server_seal(&w, other, chunk, 1, 5);
    assert_null(world_next(&w, other->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
    assert_string_equal(lease_of(chunk)->state, "HELD");
}

/* It says so of a seal that it has from elsewhere, so it may lack what this one covers. */
static void a_seal_recorded_at_another_version_is_none(void **state)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__SealRecorded recorded = LEASEHOLD__SEAL_RECORDED__INIT;
    struct server *members[] = {&a, &b, &c};
    uint64_t chunk = 0;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    server_seal(&w, primary, chunk, 1, 100);
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED;
    request.seal_recorded = &recorded;
    recorded.chunk = chunk;
    for (size_t i = 0; i < 3; i++) {
        recorded.session = members[i]->session;
        recorded.version = members[i] == primary ? 1 : 2;
        server_send(&w, members[i], &request);
    }
    world_advance(&w, 1000);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(
            world_next(&w, members[i]->link, LEASEHOLD__SESSION_REPLY__BODY_COPY) != NULL,
            members[i] != primary);
}

/* ---- Registering again. */

static void a_lease_goes_on_in_a_new_session_of_the_same_process(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    world_break_link(&w, primary->link);
    primary->registration++;
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;
    held.chunk = chunk;
    held.version = 1;
    w.hold_commits = true;
    server_register_with(&w, primary, NULL, 0, &held, 1);
    world_commit_all(&w);
    const Leasehold__SessionReply *r =
        world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_REGISTERED);
    assert_int_equal(r->registered->n_continued, 1);
    assert_int_equal(r->registered->continued[0]->chunk, chunk);
    assert_int_equal(r->registered->continued[0]->version, 1);
    assert_null(granted(&grant)); /* and no new version */
    assert_string_equal(lease_of(chunk)->state, "HELD");
    assert_true(lease_of(chunk)->session_live);
}

static void a_grant_that_was_lost_with_its_stream_is_sent_in_the_new_session(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    create("/f");
    open_tail("/f", 9000);
    create_replicas(&chunk);
    struct server *primary = granted(&grant);
    world_break_link(&w, primary->link);
    primary->registration++;
    assert_true(server_register(&w, primary));
    assert_ptr_equal(granted(&grant), primary);
    assert_int_equal(grant->version, 1);
    assert_int_equal(grant->session, primary->session);
}

static void a_higher_incarnation_frees_its_leases_at_once(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;
    report.chunk = chunk;
    report.version = 1;
    primary->incarnation++;
    primary->registration = 1;
    assert_true(server_register_with(&w, primary, &report, 1, NULL, 0));
    assert_string_equal(lease_of(chunk)->state, "FREE");
    open_tail("/f", 1000);
    assert_non_null(granted(&grant));
    assert_int_equal(grant->version, 2);
}

static void on_another_machine_it_frees_nothing(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    primary->incarnation++;
    primary->machine = "another-machine";
    assert_true(server_register(&w, primary));
    assert_string_equal(lease_of(chunk)->state, "HELD");
    open_tail("/f", 1000);
    assert_null(granted(&grant));
}

static void what_names_an_old_session_counts_for_nothing(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    struct server old = *primary;
    primary->registration++;
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;
    held.chunk = chunk;
    held.version = 1;
    assert_true(server_register_with(&w, primary, NULL, 0, &held, 1));
    server_release(&w, &old, chunk, 1); /* delayed */
    assert_string_equal(lease_of(chunk)->state, "HELD");
    assert_false(server_heartbeat(&w, &old));
    assert_null(granted(&grant));
}

/* ---- Restart of the master. */

static void after_a_restart_a_holder_that_comes_back_goes_on(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    world_crash(&w);
    assert_string_equal(lease_of(chunk)->state, "WAITING");
    a.registration = b.registration = c.registration = 2;
    a.link = b.link = c.link = 0;
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;
    held.chunk = chunk;
    held.version = 1;
    world_advance(&w, 3000);
    uint64_t call = open_tail("/f", 5000);
    w.hold_commits = true;
    server_register_with(&w, primary, NULL, 0, &held, 1);
    w.hold_commits = false;
    world_commit_all(&w);
    const Leasehold__SessionReply *r =
        world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_REGISTERED);
    assert_int_equal(r->registered->n_continued, 1);
    assert_int_equal(r->registered->master_term, 2);
    primary->session = r->registered->session;
    primary->last_stamp = r->registered->stamp;
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_non_null(reply);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->chunk->version, 1);
    heartbeats(15000, NULL);
    assert_string_equal(lease_of(chunk)->state, "HELD");
    assert_null(granted(&grant));
}

static void after_a_restart_a_holder_that_does_not_is_waited_for(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    world_crash(&w);
    struct lh_instant start = w.now;
    struct server *others[] = {&a, &b, &c};
    for (size_t i = 0; i < 3; i++) {
        others[i]->link = 0;
        others[i]->session = 0;
        others[i]->registration = 2;
        if (others[i] != primary)
            assert_true(server_register(&w, others[i]));
    }
    uint64_t call = open_tail("/f", 1000);
    heartbeats(3300, primary);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    assert_in_range(reply->lease_left_ms, 8900, 9100);
    open_tail("/f", 10000);
    while (granted(&grant) == NULL)
        heartbeats(1, primary);
    assert_false(
        lh_instant_before(w.now, lh_instant_add(start, lh_milliseconds(T_SESSION_MS + 1))));
    assert_int_equal(grant->version, 2);
    assert_true(lh_instant_before(w.now, lh_instant_add(start, lh_seconds(14))));
}

static void a_chunk_that_no_grant_names_need_not_wait_after_a_restart(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    server_release(&w, primary, chunk, 1);
    world_crash(&w);
    a.registration = b.registration = c.registration = 2;
    a.link = b.link = c.link = 0;
    three_servers();
    open_tail("/f", 1000);
    assert_non_null(granted(&grant));
    assert_int_equal(grant->version, 2); /* INV-3: beyond what any former master gave */
}

static void a_shorter_session_term_counts_only_after_the_longer_one_ran_out(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    w.config.session_term = lh_seconds(1);
    world_crash(&w);
    struct lh_instant start = w.now;
    assert_int_equal(lease_of(chunk)->left_ms, T_SESSION_MS + 1);
    world_advance(&w, 5000);
    world_crash(&w); /* the longest term is still the old one */
    start = w.now;
    assert_int_equal(lease_of(chunk)->left_ms, T_SESSION_MS + 1);
    world_advance(&w, T_SESSION_MS + 2);
    assert_string_equal(lease_of(chunk)->state, "FREE");
    (void)start;
    (void)primary;
    (void)grant;
    /* Now it is forgotten: a grant of today's is waited for no longer than today's term. */
    a.registration = b.registration = c.registration = 2;
    a.link = b.link = c.link = 0;
    three_servers();
    open_tail("/f", 100);
    assert_non_null(granted(&grant));
    world_crash(&w);
    assert_int_equal(lease_of(chunk)->left_ms, 1001);
}

static void a_continued_lease_is_held_until_the_wait_ends(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    w.config.session_term = lh_seconds(1); /* the new session is shorter than the wait */
    world_crash(&w);
    struct lh_instant start = w.now;
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;
    held.chunk = chunk;
    held.version = 1;
    primary->link = 0;
    primary->registration++;
    assert_true(server_register_with(&w, primary, NULL, 0, &held, 1));
    world_advance(&w, 5000); /* it never heard of it: its old term runs on */
    assert_string_equal(lease_of(chunk)->state, "WAITING");
    struct server *other = primary == &a ? &b : &a;
    other->link = 0;
    other->registration++;
    assert_true(server_register(&w, other));
    server_heartbeat(&w, other);
    open_tail("/f", 100);
    assert_null(granted(&grant));
    world_advance(&w, 5002);
    assert_string_equal(lease_of(chunk)->state, "FREE");
    assert_true(lh_instant_before(start, w.now));
}

static void a_creation_under_way_is_taken_up_after_a_restart(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    create("/f");
    open_tail("/f", 1000);
    const Leasehold__SessionReply *r =
        world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_CREATE);
    server_created(&w, &a, r->create->chunk, LH_OK);
    world_crash(&w);
    a.registration = b.registration = c.registration = 2;
    a.link = b.link = c.link = 0;
    three_servers();
    uint64_t call = open_tail("/f", 1000);
    assert_int_equal(create_replicas(&chunk), 3);
    struct server *primary = granted(&grant);
    assert_int_equal(grant->version, 1);
    server_confirm(&w, primary, chunk, 1, LH_OK);
    assert_non_null(world_reply(&w, call));
}

/* The machines lost power before the empty replicas' headers were on the platter: what is left in
 * their directories is of no use, and is made again. */
static void a_replica_that_is_made_anew_is_lost_no_more(void **state)
{
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    create("/f");
    open_tail("/f", 1000);
    report.chunk = world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_CREATE)->create->chunk;
    report.lost = true;
    world_crash(&w);
    struct server *all[] = {&a, &b, &c};
    for (size_t i = 0; i < 3; i++) {
        all[i]->registration = 2;
        all[i]->link = 0;
        assert_true(server_register_with(&w, all[i], &report, 1, NULL, 0));
        server_heartbeat(&w, all[i]);
    }
    uint64_t call = open_tail("/f", 1000);
    assert_int_equal(create_replicas(&chunk), 3);
    struct server *primary = granted(&grant);
    assert_non_null(primary);
    server_confirm(&w, primary, chunk, 1, LH_OK);
    assert_non_null(world_reply(&w, call));
}

/* ---- Placement. */

static void replicas_go_to_distinct_domains(void **state)
{
    uint64_t chunk = 0;

    (void)state;
    a.domain = b.domain = "rack1";
    c.domain = "rack2";
    d.domain = "rack3";
    three_servers();
    assert_true(server_register(&w, &d));
    create("/f");
    open_tail("/f", 1000);
    assert_int_equal(create_replicas(&chunk), 3);
    const Leasehold__Lease *lease = lease_of(chunk);
    assert_int_equal(lease->members, 3);
    assert_null(world_next(&w, b.link, LEASEHOLD__SESSION_REPLY__BODY_CREATE));
    world_drop_lines(&w);
    /* a or b, but not both */
    Leasehold__LocateRequest r = LEASEHOLD__LOCATE_REQUEST__INIT;
    r.path = "/f";
    const Leasehold__LocateReply *located = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    unsigned rack1 = 0;
    for (size_t i = 0; i < located->chunks[0]->n_members; i++)
        rack1 += by_id(located->chunks[0]->members[i]->server_id)->domain[4] == '1';
    assert_int_equal(rack1, 1);
}

static void full_servers_get_no_replicas(void **state)
{
    uint64_t chunk = 0;

    (void)state;
    a.free_bytes = 1000; /* less than a chunk */
    three_servers();
    assert_true(server_register(&w, &d));
    create("/f");
    open_tail("/f", 1000);
    assert_null(world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_CREATE));
    assert_int_equal(create_replicas(&chunk), 3);
}

/* Most files stay small: a new one takes little until its servers say what it did. */
static void many_files_are_created_where_few_whole_chunks_have_room(void **state)
{
    (void)state;
    w.config.chunk_size = 64u << 20;
    w.config.place_likely_bytes = 1u << 20;
    world_crash(&w);
    a.free_bytes = b.free_bytes = c.free_bytes = 200u << 20;
    three_servers();
    for (unsigned i = 0; i < 100; i++) {
        uint64_t chunk = 0;
        char path[16];
        snprintf(path, sizeof path, "/f%u", i);
        create(path);
        open_tail(path, 1000);
        assert_int_equal(create_replicas(&chunk), 3);
    }
    /* They say that these have grown: a whole chunk has no room left. */
    a.free_bytes = b.free_bytes = c.free_bytes = 60u << 20;
    assert_true(server_heartbeat(&w, &a) && server_heartbeat(&w, &b) && server_heartbeat(&w, &c));
    uint64_t chunk = 0;
    create("/full");
    uint64_t call = open_tail("/full", 1000);
    assert_int_equal(create_replicas(&chunk), 0);
    world_advance(&w, 1000);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__NOT_ENOUGH_SERVERS);
    assert_non_null(strstr(reply->error_text, "3 are alive, 3 of them without that room"));
}

/* A file whose chunks fill up takes a whole one each time. */
static void a_file_that_fills_its_chunks_is_expected_to_go_on(void **state)
{
    uint64_t chunk = 0;

    (void)state;
    w.config.chunk_size = 64u << 20;
    w.config.place_likely_bytes = 1u << 20;
    world_crash(&w);
    a.free_bytes = b.free_bytes = c.free_bytes = 200u << 20;
    three_servers();
    create("/f");
    open_tail("/f", 1000);
    assert_int_equal(create_replicas(&chunk), 3);
    struct server *primary = by_id(lease_of(chunk)->primary);
    server_confirm(&w, primary, chunk, 1, LH_OK);
    server_seal(&w, primary, chunk, 1, 64u << 20);
    open_tail("/f", 1000);
    assert_int_equal(create_replicas(&chunk), 3);
    /* 1 and 64 of 200 MiB are gone: one more whole chunk has room, and no third. */
    for (unsigned i = 0; i < 100; i++) {
        char path[16];
        snprintf(path, sizeof path, "/f%u", i);
        create(path);
        open_tail(path, 1000);
        assert_int_equal(create_replicas(&chunk), i < 72 ? 3 : 0);
    }
}

static void a_server_that_does_not_create_is_replaced(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    create("/f");
    uint64_t call = open_tail("/f", 10000);
    chunk = world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_CREATE)->create->chunk;
    world_drop_lines(&w);
    assert_true(server_register(&w, &d));
    server_created(&w, &a, chunk, LH_OK);
    server_created(&w, &b, chunk, LH_OK);
    world_advance(&w, 3000);
    assert_non_null(world_next(&w, d.link, LEASEHOLD__SESSION_REPLY__BODY_CREATE));
    server_created(&w, &c, chunk, LH_OK); /* too late */
    const Leasehold__SessionReply *r =
        world_next(&w, c.link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE);
    assert_non_null(r);
    assert_int_equal(r->remove->version, 0);
    server_created(&w, &d, chunk, LH_OK);
    struct server *primary = granted(&grant);
    server_confirm(&w, primary, chunk, 1, LH_OK);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->chunk->n_members, 3);
}

static void too_few_servers_are_named_as_the_reason(void **state)
{
    uint64_t chunk = 0;

    (void)state;
    assert_true(server_register(&w, &a));
    create("/f");
    uint64_t call = open_tail("/f", 1000);
    world_advance(&w, 1000);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__NOT_ENOUGH_SERVERS);
    /* A second one is enough for min_replicas, but the third gets a moment to come. */
    call = open_tail("/f", 9000);
    assert_true(server_register(&w, &b));
    assert_int_equal(create_replicas(&chunk), 0);
    world_advance(&w, 3000);
    assert_int_equal(create_replicas(&chunk), 2);
}

static void a_lost_server_does_not_hold_up_every_chunk(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    struct server *lost = primary == &a ? &b : &a;
    world_break_link(&w, lost->link);
    lost->link = 0;
    lost->session = 0;
    heartbeats(20000, lost);
    for (int i = 0; i < 3; i++) {
        open_tail("/f", 1000);
        primary = granted(&grant);
        if (primary != NULL) {
            chunk = grant->chunk;
            server_confirm(&w, primary, chunk, grant->version, LH_OK);
        } else {
            primary = by_id(lease_of(chunk)->primary);
        }
        server_seal(&w, primary, chunk, lease_of(chunk)->version, 100);
        open_tail("/f", 1000);
        assert_int_equal(create_replicas(&chunk), 2); /* at once, with those who are there */
    }
}

/* ---- Names. */

static void bad_paths_are_named(void **state)
{
    static const struct {
        const char *path;
        const char *part;
    } bad[] = {{"", "begin with"}, {"x", "begin with"}, {"/", "part 1"}, {"/a//b", "part 2"},
        {"/a/", "part 2"}, {"/./a", "\".\""}, {"/a/..", "\"..\""}, {"/a\n", "control"},
        {"/a\x7f", "control"}, {"/a\xc2\x85", "control"}, {"/\xff", "UTF-8"},
        {"/\xc0\xaf", "UTF-8"}, {"/\xed\xa0\x80", "UTF-8"}, {"/\xe2\x82", "UTF-8"}};
    char longest[LH_PATH_BYTES_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const Leasehold__CreateReply *reply = create(bad[i].path);
        assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
        if (strstr(reply->error_text, bad[i].part) == NULL)
            fail_msg("\"%s\" does not name %s", reply->error_text, bad[i].part);
    }
    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    longest[LH_PATH_BYTES_MAX + 1] = 0;
    assert_int_equal(create(longest)->error, LEASEHOLD__ERROR_CODE__TOO_LARGE);
    longest[LH_PATH_BYTES_MAX] = 0;
    assert_int_equal(create(longest)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(create("/\xe2\x82\xac/...")->error, LEASEHOLD__ERROR_CODE__OK);
}

static void names_are_durable_before_anybody_hears_of_them(void **state)
{
    Leasehold__StatRequest r = LEASEHOLD__STAT_REQUEST__INIT;

    (void)state;
    w.hold_commits = true;
    assert_null(create("/f"));
    assert_null(create("/f")); /* that it exists already is not durable yet either */
    r.path = "/f";
    uint64_t stat = world_call(&w, LH_METHOD_STAT, &r);
    assert_null(world_reply(&w, stat));
    world_commit(&w);
    const Leasehold__StatReply *reply = world_reply(&w, stat);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->info->replication, 3);
    assert_int_equal(create("/f")->error, LEASEHOLD__ERROR_CODE__ALREADY_EXISTS);
}

static const Leasehold__ListReply *list(const char *prefix, const char *after, uint32_t limit)
{
    Leasehold__ListRequest r = LEASEHOLD__LIST_REQUEST__INIT;

    r.prefix = (char *)(uintptr_t)prefix;
    r.after = (char *)(uintptr_t)after;
    r.limit = limit;
    return world_reply(&w, world_call(&w, LH_METHOD_LIST, &r));
}

static void files_are_listed_in_pages(void **state)
{
    char path[32];

    (void)state;
    for (unsigned i = 0; i < 25; i++) {
        snprintf(path, sizeof path, "/logs/%02u", (i * 7) % 25);
        create(path);
    }
    create("/a");
    create("/logs");
    create("/logsx");
    char after[32] = "";
    unsigned seen = 0;
    bool more = true;
    while (more) {
        const Leasehold__ListReply *page = list("/logs/", after, 10);
        for (size_t i = 0; i < page->n_files; i++, seen++) {
            snprintf(path, sizeof path, "/logs/%02u", seen);
            assert_string_equal(page->files[i]->path, path);
            snprintf(after, sizeof after, "%s", path);
        }
        more = page->more;
    }
    assert_int_equal(seen, 25);
    assert_int_equal(list("", "", 0)->n_files, 28);
    assert_int_equal(list("/logs", "/logs", 0)->n_files, 26);
    assert_int_equal(list("/none", "", 0)->n_files, 0);
    assert_int_equal(list("/logs/", "/z", 0)->n_files, 0);
    assert_int_equal(list("/logs/", "/a", 0)->n_files, 25);
}

/* Paths have up to a KB: a page of 10,000 would be more than a message. */
static void a_page_of_files_is_bounded_in_bytes(void **state)
{
    char path[200] = "/", after[200] = "";
    unsigned seen = 0, pages = 0;
    bool more = true;

    (void)state;
    w.config.list_bytes = 1000;
    world_crash(&w);
    memset(path + 1, 'x', 150);
    for (unsigned i = 0; i < 12; i++) {
        snprintf(path + 151, sizeof path - 151, "%02u", i);
        create(path);
    }
    for (; more; pages++) {
        const Leasehold__ListReply *page = list("", after, 0);
        assert_in_range(page->n_files, 1, 6);
        assert_true(leasehold__list_reply__get_packed_size(page) <= 1000);
        for (size_t i = 0; i < page->n_files; i++, seen++)
            snprintf(after, sizeof after, "%s", page->files[i]->path);
        more = page->more;
    }
    assert_int_equal(seen, 12);
    assert_true(pages > 1);
    /* An item that is larger than a page is one. */
    w.config.list_bytes = 1;
    world_crash(&w);
    assert_int_equal(list("", "", 0)->n_files, 1);
    assert_true(list("", "", 0)->more);
}

static void a_file_is_renamed(void **state)
{
    Leasehold__RenameRequest r = LEASEHOLD__RENAME_REQUEST__INIT;
    const Leasehold__RenameReply *reply;

    (void)state;
    create("/a");
    create("/b");
    r.from = "/a";
    r.to = "/b";
    reply = world_reply(&w, world_call(&w, LH_METHOD_RENAME, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__ALREADY_EXISTS);
    r.to = "/c";
    reply = world_reply(&w, world_call(&w, LH_METHOD_RENAME, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    reply = world_reply(&w, world_call(&w, LH_METHOD_RENAME, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    world_crash(&w);
    const Leasehold__ListReply *all = list("", "", 0);
    assert_int_equal(all->n_files, 2);
    assert_string_equal(all->files[0]->path, "/b");
    assert_string_equal(all->files[1]->path, "/c");
}

static uint64_t remove_file(const char *path)
{
    Leasehold__RemoveRequest r = LEASEHOLD__REMOVE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.now = true;
    return world_call(&w, LH_METHOD_REMOVE, &r);
}

static void a_removed_files_replicas_go(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__SessionReply *r;

    (void)state;
    three_servers();
    file_with_primary("/f", &chunk);
    world_break_link(&w, c.link);
    uint64_t waits = open_tail_after("/f", chunk, 5000);
    w.hold_commits = true;
    uint64_t call = remove_file("/f");
    assert_null(world_reply(&w, call));
    assert_null(world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE));
    w.hold_commits = false;
    world_commit_all(&w);
    const Leasehold__RemoveReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    const Leasehold__OpenTailReply *tail = world_reply(&w, waits);
    assert_int_equal(tail->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    r = world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE);
    assert_int_equal(r->remove->version, 1);
    assert_non_null(world_next(&w, b.link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE));
    /* One that was away hears of it when it comes back, also from the next master. */
    world_crash(&w);
    c.registration = 2;
    c.link = 0;
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;
    report.chunk = chunk;
    report.version = 1;
    assert_true(server_register_with(&w, &c, &report, 1, NULL, 0));
    world_advance(&w, 1);
    r = world_next(&w, c.link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE);
    assert_non_null(r);
    assert_int_equal(r->remove->chunk, chunk);
    assert_null(world_next(&w, c.link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE));
}

static void a_remove_overtakes_a_grant_under_way(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    create("/f");
    open_tail("/f", 1000);
    w.hold_commits = true;
    create_replicas(&chunk); /* now the first grant is being made durable */
    assert_int_equal(w.commit_count, 1);
    uint64_t call = remove_file("/f");
    world_commit(&w);
    assert_null(granted(&grant)); /* durable, but the file is gone: never sent */
    world_commit(&w);
    assert_non_null(world_reply(&w, call));
    assert_int_equal(
        world_next(&w, a.link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE)->remove->version, 1);
}

static void a_session_that_ends_while_its_grant_is_persisting_gets_none(void **state)
{
    uint64_t chunk = 0;
    const Leasehold__Grant *grant;

    (void)state;
    three_servers();
    create("/f");
    open_tail("/f", 10000);
    w.hold_commits = true;
    create_replicas(&chunk);
    world_advance(&w, 6600);
    server_heartbeat(&w, &b);
    server_heartbeat(&w, &c);
    world_advance(&w, 3500); /* a's session is over, its grant (if it was a's) is not durable */
    w.hold_commits = false;
    world_commit_all(&w);
    struct server *primary = granted(&grant);
    if (primary != NULL)
        assert_ptr_not_equal(primary, &a);
}

static void a_replica_that_missed_its_seal_is_told(void **state)
{
    uint64_t chunk = 0;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    struct server *away = primary == &a ? &b : &a;
    world_break_link(&w, away->link);
    server_seal(&w, primary, chunk, 1, 100);
    away->link = 0;
    away->registration++;
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;
    report.chunk = chunk;
    report.version = 1;
    assert_true(server_register_with(&w, away, &report, 1, NULL, 0));
    world_advance(&w, 1);
    const Leasehold__SessionReply *r =
        world_next(&w, away->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL);
    assert_non_null(r);
    assert_int_equal(r->record_seal->length, 100);
}

static void a_file_is_located(void **state)
{
    uint64_t chunk = 0, next = 0;
    const Leasehold__Grant *grant;
    Leasehold__LocateRequest r = LEASEHOLD__LOCATE_REQUEST__INIT;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    server_seal(&w, primary, chunk, 1, 1000);
    open_tail("/f", 1000);
    r.path = "/f";
    const Leasehold__LocateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    assert_int_equal(reply->n_chunks, 1); /* the next one is still being created */
    assert_int_equal(reply->info->chunks, 1);
    create_replicas(&next);
    primary = granted(&grant);
    server_confirm(&w, primary, next, 1, LH_OK);
    reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    assert_int_equal(reply->n_chunks, 2);
    assert_int_equal(reply->info->sealed_length, 1000);
    assert_string_equal(reply->chunks[1]->primary, primary->id);
    r.limit = 1;
    reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    assert_true(reply->more);
    r.offset = 999;
    reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    assert_int_equal(reply->chunks[0]->chunk, chunk);
    r.offset = 1000;
    reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    assert_int_equal(reply->chunks[0]->chunk, next);
    assert_false(reply->more);
}

/* ---- Limits and ends. */

static void waiters_are_limited(void **state)
{
    (void)state;
    world_close(&w);
    world_open(&w);
    w.config.waiters_file_max = 3;
    world_crash(&w);
    create("/f");
    for (int i = 0; i < 3; i++)
        assert_null(world_reply(&w, open_tail("/f", 1000)));
    uint64_t call = open_tail("/f", 1000);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__NO_MEMORY);
}

static void a_caller_that_failed_is_not_sent_back_at_once(void **state)
{
    uint64_t chunk = 0;
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    (void)state;
    three_servers();
    struct server *primary = file_with_primary("/f", &chunk);
    world_advance(&w, 1000);
    r.path = "/f";
    r.failed_chunk = chunk;
    r.failed_version = 1;
    r.wait_ms = 5000;
    uint64_t call = world_call(&w, LH_METHOD_OPEN_TAIL, &r);
    assert_null(world_reply(&w, call));
    world_advance(&w, 100);
    server_heartbeat(&w, primary); /* it lives: the caller's own line was bad (INV-9) */
    assert_non_null(world_reply(&w, call));
    world_advance(&w, 100);
    call = world_call(&w, LH_METHOD_OPEN_TAIL, &r);
    world_advance(&w, 500);
    assert_non_null(world_reply(&w, call));
}

/* Nothing is claimed, nobody is left waiting, and leases run on: the store is tried again. */
static void without_room_for_a_commit_callers_are_refused_and_leases_run_on(void **state)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;
    Leasehold__StatRequest s = LEASEHOLD__STAT_REQUEST__INIT;

    (void)state;
    three_servers();
    assert_non_null(create("/before"));
    w.hold_commits = true;
    r.path = s.path = (char *)(uintptr_t) "/f";
    uint64_t waits = world_call(&w, LH_METHOD_CREATE, &r);
    assert_null(world_reply(&w, waits));
    world_commit_waits(&w);
    assert_int_equal(world_end(&w, waits), LH_ERR_UNAVAILABLE);
    uint64_t next = world_call(&w, LH_METHOD_STAT, &s);
    assert_null(world_reply(&w, next)); /* it is in memory, and not to be told of */
    assert_int_equal(world_end(&w, next), LH_ERR_UNAVAILABLE);
    world_commit_waits(&w); /* said again */
    assert_true(server_heartbeat(&w, &a));
    assert_false(w.stopped);
    world_commit_all(&w);
    w.hold_commits = false;
    const Leasehold__StatReply *stat = world_reply(&w, world_call(&w, LH_METHOD_STAT, &s));
    assert_non_null(stat);
    assert_int_equal(stat->error, LEASEHOLD__ERROR_CODE__OK);
    assert_non_null(create("/after"));
}

static void a_failed_commit_stops_the_master(void **state)
{
    (void)state;
    w.hold_commits = true;
    assert_null(create("/f"));
    world_commit_fails(&w, LH_ERR_DISK_FULL);
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_ERR_DISK_FULL);
    assert_null(create("/g"));
}

static void a_clean_stop_answers_everybody_and_waits_for_commits(void **state)
{
    (void)state;
    three_servers();
    create("/f");
    world_break_link(&w, a.link);
    world_break_link(&w, b.link);
    uint64_t call = open_tail("/f", 5000);
    w.hold_commits = true;
    create("/g");
    world_stop(&w);
    assert_false(w.stopped);
    world_commit_all(&w);
    assert_true(w.stopped);
    assert_int_equal(w.stop_error, LH_OK);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_non_null(reply);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__SHUTTING_DOWN);
}

static void a_store_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    create("/f");
    struct lh_master *running = w.m;
    for (size_t i = 0; i < w.store_count; i++) {
        uint8_t keep = w.store[i].value[0];
        w.store[i].value[0] = 0x07; /* no such wire type */
        assert_int_equal(world_load(&w), LH_ERR_CORRUPT);
        assert_true(strlen(w.load_text) > 20);
        assert_non_null(strstr(w.load_text, "its hash does not fit"));
        lh_master_destroy(w.m);
        world_seal(&w.store[i]); /* as a master with a bug would have written it */
        assert_int_equal(world_load(&w), LH_ERR_CORRUPT);
        lh_master_destroy(w.m);
        w.store[i].value[0] = keep;
        world_seal(&w.store[i]);
    }
    for (size_t i = 0; i < w.store_count; i++) {
        if (w.store[i].key[0] != 'M')
            continue;
        assert_int_equal(w.store[i].value[0], 0x08); /* field 1, the format */
        w.store[i].value[1] = LH_MASTER_FORMAT + 1;
        world_seal(&w.store[i]);
        assert_int_equal(world_load(&w), LH_ERR_WRONG_FORMAT);
        lh_master_destroy(w.m);
    }
    w.m = running;
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_session_is_renewed_and_runs_out),
        STORY(a_registration_is_durable_before_it_is_answered),
        STORY(a_late_registration_is_refused),
        STORY(a_foreign_server_is_refused),
        STORY(the_answer_carries_the_holders_term),
        STORY(a_grant_is_durable_before_it_is_sent),
        STORY(a_grant_is_sent_again_until_it_is_confirmed),
        STORY(a_refused_grant_goes_to_another_member),
        STORY(who_refused_for_its_disks_sake_is_asked_again),
        STORY(a_server_that_hears_nothing_gets_no_lease),
        STORY(nobody_else_is_granted_before_the_lease_has_run_out),
        STORY(active_leases_are_extended_and_idle_ones_run_out),
        STORY(the_same_session_gets_a_new_version_without_a_member),
        STORY(a_member_that_may_be_the_only_one_is_not_left_out),
        STORY(a_recall_moves_the_primary),
        STORY(a_busy_chunk_that_was_recalled_goes_to_another_member_in_one_commit),
        STORY(a_recall_without_an_answer_waits_for_the_term),
        STORY(a_recall_carries_over_to_a_new_version),
        STORY(a_seal_is_durable_before_members_record_it_and_the_next_chunk_exists),
        STORY(a_growing_files_next_chunk_comes_with_the_seal),
        STORY(a_crash_before_the_seals_commit_leaves_neither_seal_nor_next_chunk),
        STORY(an_idle_files_spare_is_given_back),
        STORY(a_spare_that_is_given_back_before_it_is_there_goes_once_it_is),
        STORY(a_full_chunks_spare_is_next_as_soon_as_it_is_there),
        STORY(a_restarted_master_goes_on_with_the_spare_that_became_the_next_chunk),
        STORY(a_seal_of_an_old_version_is_ignored),
        STORY(a_seal_of_an_old_version_is_ignored_while_nobody_holds_the_chunk),
        STORY(a_seal_that_another_member_reports_is_ignored),
        STORY(a_seal_recorded_at_another_version_is_none),
        STORY(a_lease_goes_on_in_a_new_session_of_the_same_process),
        STORY(a_grant_that_was_lost_with_its_stream_is_sent_in_the_new_session),
        STORY(a_higher_incarnation_frees_its_leases_at_once),
        STORY(on_another_machine_it_frees_nothing),
        STORY(what_names_an_old_session_counts_for_nothing),
        STORY(after_a_restart_a_holder_that_comes_back_goes_on),
        STORY(after_a_restart_a_holder_that_does_not_is_waited_for),
        STORY(a_chunk_that_no_grant_names_need_not_wait_after_a_restart),
        STORY(a_shorter_session_term_counts_only_after_the_longer_one_ran_out),
        STORY(a_continued_lease_is_held_until_the_wait_ends),
        STORY(a_creation_under_way_is_taken_up_after_a_restart),
        STORY(a_replica_that_is_made_anew_is_lost_no_more),
        STORY(replicas_go_to_distinct_domains),
        STORY(full_servers_get_no_replicas),
        STORY(many_files_are_created_where_few_whole_chunks_have_room),
        STORY(a_file_that_fills_its_chunks_is_expected_to_go_on),
        STORY(a_server_that_does_not_create_is_replaced),
        STORY(too_few_servers_are_named_as_the_reason),
        STORY(a_lost_server_does_not_hold_up_every_chunk),
        STORY(bad_paths_are_named),
        STORY(names_are_durable_before_anybody_hears_of_them),
        STORY(files_are_listed_in_pages),
        STORY(a_page_of_files_is_bounded_in_bytes),
        STORY(a_file_is_renamed),
        STORY(a_removed_files_replicas_go),
        STORY(a_remove_overtakes_a_grant_under_way),
        STORY(a_session_that_ends_while_its_grant_is_persisting_gets_none),
        STORY(a_replica_that_missed_its_seal_is_told),
        STORY(a_file_is_located),
        STORY(waiters_are_limited),
        STORY(a_caller_that_failed_is_not_sent_back_at_once),
        STORY(without_room_for_a_commit_callers_are_refused_and_leases_run_on),
        STORY(a_failed_commit_stops_the_master),
        STORY(a_clean_stop_answers_everybody_and_waits_for_commits),
        STORY(a_store_that_makes_no_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
