/* Stories about files that roll over (FAIL-2a): when, by whose word, at which length, and what
 * becomes of the old lease. */
#include "proto/stored.pb-c.h"
#include "tests/core/master/master_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define T_SESSION_MS 10000u
#define ROLL         LEASEHOLD__ON_PRIMARY_LOSS__ROLL
#define WAIT         LEASEHOLD__ON_PRIMARY_LOSS__WAIT

#define FENCE  LEASEHOLD__SESSION_REPLY__BODY_FENCE
#define CREATE LEASEHOLD__SESSION_REPLY__BODY_CREATE

static struct world w;
static struct server servers[4];
static struct server *primary, *second, *third; /* members of the file's chunk */
static uint64_t chunk;

static int set_up(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};

    (void)state;
    world_open(&w);
    w.config.lone_log_after = lh_seconds(1);
    world_crash(&w);
    for (size_t i = 0; i < 4; i++)
        servers[i] = (struct server){.id = names[i], .incarnation = 1, .registration = 1};
    chunk = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static void register_servers(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(server_register(&w, &servers[i]));
        assert_true(server_heartbeat(&w, &servers[i]));
    }
}

static void heartbeats(const struct server *silent)
{
    for (size_t i = 0; i < 4; i++)
        if (servers[i].link != 0 && &servers[i] != silent)
            server_heartbeat(&w, &servers[i]);
}

static const Leasehold__CreateReply *create(Leasehold__OnPrimaryLoss loss)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    r.path = "/f";
    r.on_primary_loss = loss;
    return world_reply(&w, world_call(&w, LH_METHOD_CREATE, &r));
}

static uint64_t open_tail(uint64_t failed_version, uint64_t wait_ms)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = "/f";
    r.failed_chunk = chunk;
    r.failed_version = failed_version;
    r.wait_ms = wait_ms;
    return world_call(&w, LH_METHOD_OPEN_TAIL, &r);
}

/* Every server that is asked to creates its replica, but for `unable`; how many. */
static unsigned create_replicas(uint64_t *id, const struct server *unable)
{
    unsigned count = 0;

    for (size_t i = 0; i < 4; i++) {
        const Leasehold__SessionReply *r;
        if (servers[i].link == 0 || &servers[i] == unable)
            continue;
        while ((r = world_next(&w, servers[i].link, CREATE)) != NULL) {
            *id = r->create->chunk;
            server_created(&w, &servers[i], *id, LH_OK);
            count++;
        }
    }
    return count;
}

static struct server *granted(const Leasehold__Grant **grant)
{
    for (size_t i = 0; i < 4; i++)
        if (servers[i].link != 0 && (*grant = server_grant(&w, &servers[i])) != NULL)
            return &servers[i];
    return NULL;
}

static struct server *by_id(const char *id)
{
    return &servers[id[0] - 'a'];
}

/* The grant's holder confirms it, and is the primary of this story, the others its members. */
static void confirm(struct server *s, const Leasehold__Grant *grant)
{
    chunk = grant->chunk;
    primary = s;
    second = third = NULL;
    for (size_t i = 0; i < grant->n_members; i++) {
        struct server *member = by_id(grant->members[i]->server_id);
        if (member == s)
            continue;
        *(second == NULL ? &second : &third) = member;
    }
    server_confirm(&w, s, grant->chunk, grant->version, LH_OK);
}

static void file_with_primary(Leasehold__OnPrimaryLoss loss)
{
    const Leasehold__Grant *grant = NULL;

    assert_int_equal(create(loss)->error, LEASEHOLD__ERROR_CODE__OK);
    uint64_t call = open_tail(0, 1000);
    assert_int_equal(create_replicas(&chunk, NULL), 3);
    struct server *s = granted(&grant);
    assert_non_null(s);
    confirm(s, grant);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    world_advance(&w, 100);
    heartbeats(NULL);
    world_advance(&w, 10);
    world_drop_lines(&w);
}

static void kill_server(struct server *s)
{
    world_break_link(&w, s->link);
    s->link = 0;
}

static const Leasehold__Fence *fence_of(struct server *s)
{
    const Leasehold__SessionReply *r = s->link == 0 ? NULL : world_next(&w, s->link, FENCE);

    return r == NULL ? NULL : r->fence;
}

static bool anybody_fenced(void)
{
    for (size_t i = 0; i < 4; i++)
        if (fence_of(&servers[i]) != NULL)
            return true;
    return false;
}

static void fenced(struct server *s, uint64_t length)
{
    server_fenced(&w, s, chunk, 2, LH_OK, length, 0, false);
}

/* The length that members were told to seal at; UINT64_MAX: none. */
static uint64_t sealed_at(struct server *s)
{
    const Leasehold__SessionReply *r =
        world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL);

    if (r == NULL)
        return UINT64_MAX;
    assert_int_equal(r->record_seal->chunk, chunk);
    assert_int_equal(r->record_seal->version, 2);
    assert_int_equal(r->record_seal->checksum, r->record_seal->length * 31);
    return r->record_seal->length;
}

static const Leasehold__Lease *lease_of(uint64_t id)
{
    Leasehold__ListLeasesRequest r = LEASEHOLD__LIST_LEASES_REQUEST__INIT;

    r.all = true;
    const Leasehold__ListLeasesReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_LEASES, &r));
    for (size_t i = 0; i < reply->n_leases; i++)
        if (reply->leases[i]->chunk == id)
            return reply->leases[i];
    return NULL;
}

/* The primary is dead, the intent durable, and everybody was asked what there is. */
static uint64_t rolling(void)
{
    file_with_primary(ROLL);
    kill_server(primary);
    return open_tail(1, 9000);
}

/* ---- The way it goes. */

static void a_killed_primary_costs_two_commits_and_one_round(void **state)
{
    const Leasehold__Grant *grant = NULL;
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    kill_server(primary);
    w.hold_commits = true;
    uint64_t call = open_tail(1, 9000);
    assert_int_equal(w.commit_count, 1);
    assert_false(anybody_fenced()); /* the intent is not durable */
    assert_int_equal(create_replicas(&next, NULL), 0);
    world_commit(&w);
    const Leasehold__Fence *fence = fence_of(second);
    assert_non_null(fence);
    assert_int_equal(fence->chunk, chunk);
    assert_int_equal(fence->version, 2);
    assert_non_null(fence_of(third));
    assert_int_equal(create_replicas(&next, NULL), 3); /* at once: nobody waits for anybody */
    assert_true(next > chunk);
    fenced(second, 100);
    assert_int_equal(w.commit_count, 0);
    fenced(third, 80);
    assert_int_equal(w.commit_count, 1);
    assert_int_equal(sealed_at(second), UINT64_MAX);
    assert_null(granted(&grant));
    world_commit(&w);                        /* the seal, the next chunk and its grant */
    assert_int_equal(sealed_at(second), 80); /* the shortest: nothing acknowledged is behind it */
    assert_int_equal(sealed_at(third), 80);
    struct server *heir = granted(&grant);
    assert_non_null(heir);
    assert_int_equal(grant->chunk, next);
    assert_int_equal(grant->version, 1);
    server_confirm(&w, heir, next, 1, LH_OK);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_non_null(reply);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->chunk->chunk, next);
    assert_int_equal(reply->chunk->start, 80);
    assert_string_equal(reply->primary->server_id, heir->id);
    assert_int_equal(reply->settled->chunk, chunk);
    assert_int_equal(reply->settled->version, 2);
    assert_int_equal(reply->settled->length, 80);
    assert_int_equal(reply->settled->n_members, 3);
    assert_string_equal(reply->settled->members[2]->server_id, primary->id); /* asked last */
}

static void the_old_lease_is_left_to_run_out(void **state)
{
    const Leasehold__Grant *grant = NULL;
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    assert_string_equal(lease_of(chunk)->state, "EXPIRING");
    assert_int_equal(lease_of(chunk)->version, 1);
    create_replicas(&next, NULL);
    fenced(second, 5);
    fenced(third, 5);
    assert_string_equal(lease_of(chunk)->state, "EXPIRING");
    assert_string_equal(lease_of(chunk)->primary, primary->id);
    assert_int_equal(lease_of(chunk)->version, 1);
    assert_true(lease_of(chunk)->left_ms > 9000);
    struct server *heir = granted(&grant);
    server_confirm(&w, heir, next, 1, LH_OK);
    for (unsigned i = 0; i < 4; i++) {
        world_advance(&w, T_SESSION_MS / 3);
        heartbeats(primary);
    }
    assert_null(lease_of(chunk)); /* sealed, and nobody's */
    assert_string_equal(lease_of(next)->state, "HELD");
}

/* Its file has a second chunk, and a third one is preallocated; which. */
static uint64_t given_a_spare(void)
{
    const Leasehold__Grant *grant = NULL;
    uint64_t preallocated = 0, second_chunk = 0;

    register_servers(3);
    file_with_primary(ROLL);
    server_seal(&w, primary, chunk, 1, 777);
    open_tail(0, 1000);
    assert_int_equal(create_replicas(&second_chunk, NULL), 3);
    struct server *s = granted(&grant);
    confirm(s, grant);
    assert_int_equal(create_replicas(&preallocated, NULL), 3); /* ahead of its need */
    return preallocated;
}

static void a_growing_files_spare_goes_on_without_the_suspect(void **state)
{
    const Leasehold__Grant *grant = NULL;
    uint64_t preallocated = given_a_spare(), other = 0;

    (void)state;
    kill_server(primary);
    open_tail(1, 5000);
    assert_int_equal(create_replicas(&other, NULL), 0); /* it is there already */
    fenced(second, 10);
    fenced(third, 10);
    assert_non_null(granted(&grant));
    assert_int_equal(grant->chunk, preallocated);
    assert_int_equal(grant->n_members, 2);
    for (size_t i = 0; i < 2; i++)
        assert_string_not_equal(grant->members[i]->server_id, primary->id);
}

static void who_was_left_out_of_the_spare_is_told_when_it_comes_back(void **state)
{
    uint64_t preallocated = given_a_spare();

    (void)state;
    kill_server(primary);
    open_tail(1, 5000); /* the spare goes on without it */
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;
    report.chunk = preallocated;
    report.version = 1;
    primary->registration++;
    assert_true(server_register_with(&w, primary, &report, 1, NULL, 0));
    world_advance(&w, 10);
    const Leasehold__SessionReply *r =
        world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE);
    assert_non_null(r);
    assert_int_equal(r->remove->chunk, preallocated);
    assert_int_equal(r->remove->version, 0); /* if it never held a byte */
}

static void who_waits_is_told_how_far_the_roll_is(void **state)
{
    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    kill_server(primary);
    uint64_t first = open_tail(1, 10);
    world_advance(&w, 10);
    const Leasehold__OpenTailReply *reply = world_reply(&w, first);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__UNAVAILABLE);
    assert_non_null(strstr(reply->error_text, "0 of 3 members have said how much they have"));
    fenced(second, 10);
    fenced(third, 10);
    uint64_t call = open_tail(1, 10);
    world_advance(&w, 10);
    reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__UNAVAILABLE);
    assert_non_null(strstr(reply->error_text, "at 10 bytes, and the next chunk is being created"));
}

/* ---- When it is due. */

static void a_primary_that_hangs_is_asked_first(void **state)
{
    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    open_tail(1, 9000);
    assert_non_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_INQUIRY));
    world_advance(&w, 299);
    assert_false(anybody_fenced());
    world_advance(&w, 1);
    assert_non_null(fence_of(second));
    assert_non_null(fence_of(third));
    assert_non_null(fence_of(primary)); /* it may wake up */
}

/* What it had said before is not lost with the version that it had then. */
static void a_primary_that_hangs_after_its_version_has_risen_is_lost_too(void **state)
{
    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    open_tail(1, 9000);
    assert_non_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_INQUIRY));
    server_member_failed(&w, primary, chunk, 1, third->id); /* it was on its way */
    world_advance(&w, 400);
    assert_true(anybody_fenced());
}

static void a_living_primary_keeps_its_lease_whatever_a_client_says(void **state)
{
    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t call = open_tail(1, 9000);
        unsigned inquiries = 0;
        world_advance(&w, 60); /* an inquiry may be put off by 50 ms */
        while (world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_INQUIRY) != NULL)
            inquiries++;
        assert_int_equal(inquiries, 1);
        assert_null(world_reply(&w, call));
        server_heartbeat(&w, primary);
        const Leasehold__OpenTailReply *reply = world_reply(&w, call);
        assert_non_null(reply);
        assert_string_equal(reply->primary->server_id, primary->id);
        assert_int_equal(reply->chunk->version, 1);
        world_advance(&w, 1);
    }
    world_advance(&w, 1000);
    assert_false(anybody_fenced());
    assert_string_equal(lease_of(chunk)->state, "HELD");
}

static void a_storm_of_reports_is_one_inquiry_and_one_roll(void **state)
{
    uint64_t calls[200], next = 0;
    const Leasehold__Grant *grant = NULL;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    for (size_t i = 0; i < 100; i++)
        calls[i] = open_tail(1, 9000);
    assert_non_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_INQUIRY));
    assert_null(world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_INQUIRY));
    kill_server(primary);
    for (size_t i = 100; i < 200; i++)
        calls[i] = open_tail(1, 9000);
    assert_non_null(fence_of(second));
    assert_null(fence_of(second));
    assert_int_equal(create_replicas(&next, NULL), 3);
    fenced(second, 1);
    fenced(third, 1);
    server_confirm(&w, granted(&grant), next, 1, LH_OK);
    for (size_t i = 0; i < 200; i++) {
        const Leasehold__OpenTailReply *reply = world_reply(&w, calls[i]);
        assert_non_null(reply);
        assert_int_equal(reply->chunk->chunk, next);
        assert_int_equal(reply->settled->chunk, chunk);
    }
    world_drop_lines(&w);
    /* One that comes late speaks of version 1 of the old chunk, not of the new one. */
    struct server *heir = by_id(lease_of(next)->primary);
    uint64_t late = open_tail(1, 9000);
    world_advance(&w, 60);
    server_heartbeat(&w, heir);
    const Leasehold__OpenTailReply *reply = world_reply(&w, late);
    assert_int_equal(reply->chunk->chunk, next);
    assert_int_equal(reply->settled->chunk, chunk);
    assert_false(anybody_fenced());
}

static void a_stream_that_breaks_while_callers_wait_is_enough(void **state)
{
    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    open_tail(1, 9000);
    world_advance(&w, 20);
    assert_false(anybody_fenced());
    kill_server(primary);
    assert_non_null(fence_of(second));
}

static void who_lost_nobody_gives_it_a_moment_to_come_back(void **state)
{
    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    kill_server(primary);
    open_tail(0, 9000); /* a new writer, which has not tried that primary */
    world_advance(&w, 299);
    assert_false(anybody_fenced());
    world_advance(&w, 1);
    assert_non_null(fence_of(second));
}

static void a_file_that_waits_does_not_roll_over(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    register_servers(4);
    file_with_primary(WAIT);
    kill_server(primary);
    uint64_t call = open_tail(1, 2000);
    world_advance(&w, 2000);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    assert_int_equal(reply->info->on_primary_loss, WAIT);
    assert_false(anybody_fenced());
    assert_null(granted(&grant));
}

static void a_file_that_does_not_say_does_as_configured(void **state)
{
    (void)state;
    assert_int_equal(
        create(LEASEHOLD__ON_PRIMARY_LOSS__AS_CONFIGURED)->info->on_primary_loss, ROLL);
    assert_int_equal(
        create((Leasehold__OnPrimaryLoss)3)->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    world_close(&w);
    world_open(&w);
    w.config.on_primary_loss = LH_LOSS_WAIT;
    world_crash(&w);
    assert_int_equal(
        create(LEASEHOLD__ON_PRIMARY_LOSS__AS_CONFIGURED)->info->on_primary_loss, WAIT);
}

static void too_few_servers_for_a_next_chunk_mean_waiting(void **state)
{
    (void)state;
    register_servers(3);
    file_with_primary(ROLL);
    kill_server(primary);
    kill_server(third);
    uint64_t call = open_tail(1, 1000);
    world_advance(&w, 1000);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    assert_false(anybody_fenced());
    open_tail(1, 5000);
    third->registration++;
    assert_true(server_register(&w, third));
    server_heartbeat(&w, third); /* now there are enough */
    assert_non_null(fence_of(second));
}

/* HA-11: there is no next chunk for now. The members still have room for the file's appends, which
 * a seal would end until an operator has made room in etcd. */
static void a_store_that_fills_up_means_waiting(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    lh_master_store_fills(w.m, "etcd's file is near its quota");
    kill_server(primary);
    open_tail(1, 60000);
    world_advance(&w, 1000);
    assert_false(anybody_fenced());
    for (int i = 0; i < 30 && granted(&grant) == NULL; i++) {
        heartbeats(NULL);
        world_advance(&w, 1000);
    }
    assert_non_null(grant);
    assert_int_equal(grant->chunk, chunk);
}

/* It does not know yet what was committed, and its log is one like any other. */
static void a_primary_that_recovers_is_a_log_like_others(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    server_member_failed(&w, primary, chunk, 1, third->id);
    assert_ptr_equal(granted(&grant), primary);
    server_confirm(&w, primary, chunk, 2, LH_OK);
    world_break_link(&w, second->link);
    server_member_failed(&w, primary, chunk, 2, second->id);
    world_drop_lines(&w);
    uint64_t next = 0;
    open_tail(2, 9000);
    assert_non_null(fence_of(primary));
    create_replicas(&next, NULL);
    server_fenced(&w, primary, chunk, 3, LH_OK, 50, 0, false);
    world_advance(&w, 999);
    assert_null(granted(&grant));
    world_advance(&w, 1);
    assert_non_null(granted(&grant));
    assert_int_equal(grant->chunk, next);
}

static void a_primary_with_too_few_members_is_no_use_either(void **state)
{
    const Leasehold__Grant *grant = NULL;
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    server_member_failed(&w, primary, chunk, 1, third->id);
    assert_ptr_equal(granted(&grant), primary);
    server_confirm(&w, primary, chunk, 2, LH_OK);
    server_recovered(&w, primary, chunk, 2);
    server_member_failed(&w, primary, chunk, 2, second->id);
    world_drop_lines(&w);
    open_tail(2, 5000); /* it took no appends */
    assert_int_equal(fence_of(primary)->version, 3);
    assert_true(create_replicas(&next, NULL) >= 2);
    server_fenced_as_primary(&w, primary, chunk, 3, 50);
    world_advance(&w, 250); /* the other may answer yet, but it is not waited for longer */
    struct server *heir = granted(&grant);
    assert_non_null(heir);
    assert_int_equal(grant->chunk, next);
    for (size_t i = 0; i < grant->n_members; i++)
        assert_string_not_equal(grant->members[i]->server_id, second->id);
}

static void appends_that_wait_for_too_few_members_are_cause_enough(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    server_member_failed(&w, primary, chunk, 1, third->id);
    assert_ptr_equal(granted(&grant), primary);
    server_confirm(&w, primary, chunk, 2, LH_OK);
    server_recovered(&w, primary, chunk, 2);
    server_member_failed(&w, primary, chunk, 2, second->id);
    assert_ptr_equal(granted(&grant), primary); /* nobody wants it: where its members are today */
    assert_false(anybody_fenced());
    server_waits_for_member(&w, primary, chunk, 2, second->id, true);
    assert_int_equal(fence_of(primary)->version, 3);
    assert_null(granted(&grant));
}

/* Who hangs has a session for a while yet. Nobody waits for replicas there. */
static void nothing_new_goes_to_who_is_missed_until_it_shows_life(void **state)
{
    const Leasehold__Grant *grant = NULL;
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    server_member_failed(&w, primary, chunk, 1, third->id);
    struct server *missed = third;
    assert_ptr_equal(granted(&grant), primary);
    confirm(primary, grant);
    server_seal(&w, primary, chunk, 2, 1000);
    open_tail(0, 1000);
    assert_null(world_next(&w, missed->link, CREATE));
    assert_int_equal(create_replicas(&next, NULL), 3);
    struct server *s = granted(&grant);
    assert_non_null(s);
    confirm(s, grant);

    struct server *other = second;
    world_drop_lines(&w);
    server_heartbeat(&w, missed);
    server_member_failed(&w, primary, chunk, 1, other->id);
    assert_ptr_equal(granted(&grant), primary);
    confirm(primary, grant);
    server_seal(&w, primary, chunk, 2, 1000);
    open_tail(0, 1000);
    assert_non_null(world_next(&w, missed->link, CREATE));
    assert_null(world_next(&w, other->link, CREATE));
}

static void nothing_new_goes_to_a_primary_that_hangs(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    struct server *hangs = primary;
    open_tail(1, 5000);
    heartbeats(hangs);
    world_advance(&w, 400);
    assert_int_equal(fence_of(second)->version, 2);
    create_replicas(&next, NULL);
    fenced(second, 100);
    fenced(third, 100);
    world_advance(&w, 300);
    const Leasehold__Grant *grant = NULL;
    struct server *s = granted(&grant);
    assert_non_null(s);
    confirm(s, grant);
    server_seal(&w, primary, chunk, 1, 1000);
    open_tail(0, 1000);
    assert_null(world_next(&w, hangs->link, CREATE));
    assert_true(create_replicas(&next, NULL) >= 3);
    assert_true(next > chunk);
}

/* ---- At which length. */

/* Of two members of three nothing is heard any more, and one log says where the chunk ends. Four
 * servers are left of those that there were; the caller has records to settle. */
static uint64_t lone(uint64_t *next)
{
    const Leasehold__Grant *grant = NULL;
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    register_servers(4);
    file_with_primary(ROLL);
    kill_server(primary);
    kill_server(third);
    r.path = "/f";
    r.failed_chunk = chunk;
    r.failed_version = 1;
    r.unsettled_chunk = chunk;
    r.wait_ms = 9000;
    uint64_t call = world_call(&w, LH_METHOD_OPEN_TAIL, &r);
    create_replicas(next, NULL);
    fenced(second, 100);
    world_advance(&w, 999);
    assert_int_equal(sealed_at(second), UINT64_MAX); /* others may answer yet */
    world_advance(&w, 1);
    assert_int_equal(sealed_at(second), 100);
    struct server *heir = granted(&grant);
    assert_non_null(heir);
    server_confirm(&w, heir, *next, 1, LH_OK);
    return call;
}

static void record_seal(struct server *s, int error)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__SealRecorded recorded = LEASEHOLD__SEAL_RECORDED__INIT;

    recorded.session = s->session;
    recorded.chunk = chunk;
    recorded.version = 2;
    recorded.error = (Leasehold__ErrorCode)-error;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED;
    request.seal_recorded = &recorded;
    server_send(&w, s, &request);
}

/* The server that was told to copy the chunk has done so. */
static void copied(struct server *s)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCopied done = LEASEHOLD__REPLICA_COPIED__INIT;

    done.session = s->session;
    done.chunk = chunk;
    done.version = 2;
    done.sealed = true;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_COPIED;
    request.copied = &done;
    server_send(&w, s, &request);
}

static const Leasehold__CopyReplica *told_to_copy(struct server *s)
{
    const Leasehold__SessionReply *r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_COPY);

    return r == NULL ? NULL : r->copy;
}

static const Leasehold__ChunkInfo *located(void)
{
    Leasehold__LocateRequest r = LEASEHOLD__LOCATE_REQUEST__INIT;

    r.path = "/f";
    const Leasehold__LocateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    return reply->chunks[0];
}

/* Everybody has what was acknowledged, so a single log says where the chunk ends, and the file goes
 * on. But what that log alone has is acknowledged to nobody before it is on two disks (APP-5a). */
static void a_lone_log_seals_and_is_copied_before_anybody_settles(void **state)
{
    uint64_t next = 0;

    (void)state;
    uint64_t call = lone(&next);
    const Leasehold__OpenTailReply *reply = world_reply(&w, open_tail(0, 100));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK); /* who has nothing to settle */
    assert_int_equal(reply->chunk->chunk, next);
    assert_null(world_reply(&w, call));
    record_seal(second, LH_OK);
    assert_null(world_reply(&w, call));
    assert_true(located()->unbacked);
    struct server *fourth = &servers[0];
    while (fourth == primary || fourth == second || fourth == third)
        fourth++;
    const Leasehold__CopyReplica *copy = told_to_copy(fourth); /* the others are away, not gone */
    assert_non_null(copy);
    assert_int_equal(copy->length, 100);
    assert_string_equal(copy->sources[0]->server_id, second->id);
    copied(fourth);
    reply = world_reply(&w, call);
    assert_non_null(reply);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->settled->chunk, chunk);
    assert_false(located()->unbacked);
}

static void who_waits_to_settle_is_told_whom_for(void **state)
{
    uint64_t next = 0;

    (void)state;
    uint64_t call = lone(&next);
    for (unsigned i = 0; i < 3; i++) {
        heartbeats(NULL);
        world_advance(&w, 2700);
    }
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__UNAVAILABLE);
    assert_null(reply->settled);
    assert_non_null(strstr(reply->error_text, "by the log of a single member"));
    assert_non_null(strstr(reply->error_text, third->id));
}

/* A member that was away for a moment has the rest of it: nobody needs a copy. */
static void a_member_that_comes_back_backs_the_seal_too(void **state)
{
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;
    uint64_t next = 0;

    (void)state;
    uint64_t call = lone(&next);
    record_seal(second, LH_OK);
    report.chunk = chunk;
    report.version = 1;
    report.length = 110;
    third->incarnation++;
    assert_true(server_register_with(&w, third, &report, 1, NULL, 0));
    server_heartbeat(&w, third);
    world_advance(&w, 1);
    assert_int_equal(sealed_at(third), 100);
    assert_null(world_reply(&w, call));
    record_seal(third, LH_OK);
    world_advance(&w, 1);
    assert_non_null(world_reply(&w, call));
}

/* How many logs there were is not written down: a master that has started since counts those that
 * have recorded the seal. */
/* Nobody could copy it any more: the others may have what was acknowledged. */
static void a_lone_log_whose_server_is_lost_seals_nothing(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    kill_server(third);
    create_replicas(&next, NULL);
    fenced(second, 100);
    kill_server(second);
    world_advance(&w, 8000);
    third->incarnation++;
    assert_true(server_register(&w, third));
    assert_non_null(fence_of(third));
    assert_int_equal(sealed_at(third), UINT64_MAX);
    fenced(third, 90);
    world_advance(&w, 4000); /* the next chunk was to be at the second, too */
    assert_int_equal(sealed_at(third), 90);
}

static void a_member_that_looks_alive_is_awaited(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    fenced(second, 100);
    for (unsigned i = 0; i < 9; i++) {
        world_advance(&w, 1000);
        heartbeats(NULL);
    }
    assert_int_equal(sealed_at(second), UINT64_MAX);
    world_advance(&w, 2000); /* but not for ever */
    assert_int_equal(sealed_at(second), 100);
}

/* KEEP-4: an old log seals nothing against a newer history. */
static void a_member_above_the_intent_has_everybody_fenced_anew(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    fenced(second, 100);
    server_fenced(&w, third, chunk, 9, LH_ERR_STALE_VERSION, 0, 0, false);
    const Leasehold__Fence *fence;
    uint64_t version = 0;
    while ((fence = fence_of(second)) != NULL)
        version = fence->version;
    assert_int_equal(version, 10); /* it has to answer again */
    assert_non_null(strstr(w.complaint, "version 9 of chunk"));
    server_fenced(&w, second, chunk, 10, LH_OK, 100, 0, false);
    for (unsigned i = 0; i < 6; i++) {
        world_advance(&w, 2000);
        heartbeats(NULL);
    }
    assert_null(world_next(&w, second->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
    server_fenced(&w, third, chunk, 10, LH_OK, 90, 0, false);
    assert_non_null(world_next(&w, second->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL));
}

static void a_restarted_master_lets_nobody_settle_too_early_either(void **state)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;
    uint64_t next = 0;

    (void)state;
    lone(&next);
    record_seal(second, LH_OK);
    struct server *fourth = &servers[0];
    while (fourth == primary || fourth == second || fourth == third)
        fourth++;
    for (size_t i = 0; i < 4; i++)
        servers[i].link = 0;
    world_crash(&w);
    report.chunk = chunk;
    report.version = 2;
    report.length = 100;
    report.sealed = true;
    second->incarnation++;
    fourth->incarnation++;
    assert_true(server_register_with(&w, second, &report, 1, NULL, 0));
    server_heartbeat(&w, second);
    assert_true(server_register(&w, fourth));
    server_heartbeat(&w, fourth);
    world_advance(&w, 1);
    assert_null(told_to_copy(fourth)); /* nobody waits, and the others may come back */
    assert_true(located()->unbacked);
    r.path = "/f";
    r.unsettled_chunk = chunk;
    r.wait_ms = 9000;
    uint64_t call = world_call(&w, LH_METHOD_OPEN_TAIL, &r);
    world_advance(&w, 1);
    assert_non_null(told_to_copy(fourth));
    assert_null(world_reply(&w, call));
    copied(fourth);
    assert_false(located()->unbacked);
}

static void the_primary_alone_knows_what_was_acknowledged(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    primary->incarnation++;
    assert_true(server_register(&w, primary));
    server_fenced_as_primary(&w, primary, chunk, 2, 70);
    world_advance(&w, 250);
    assert_int_equal(sealed_at(second), 70);
}

static void members_that_are_gone_are_not_waited_for(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    fenced(second, 100);
    world_break_link(&w, third->link);
    world_advance(&w, 1000);
    assert_int_equal(sealed_at(second), UINT64_MAX);
    for (int i = 0; i < 110; i++) { /* the grace period and a session */
        world_advance(&w, 3000);
        for (size_t n = 0; n < 4; n++)
            if (&servers[n] != primary && &servers[n] != third)
                assert_true(server_heartbeat(&w, &servers[n]));
    }
    assert_int_equal(sealed_at(second), 100);
}

static void who_does_not_answer_is_not_waited_for_long(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    server_fenced_as_primary(&w, second, chunk, 2, 100);
    world_advance(&w, 249);
    assert_int_equal(sealed_at(second), UINT64_MAX);
    assert_non_null(fence_of(third));
    assert_non_null(fence_of(third)); /* asked again */
    assert_non_null(fence_of(second));
    assert_null(fence_of(second)); /* it has answered */
    world_advance(&w, 1);
    assert_int_equal(sealed_at(second), 100);
    fenced(third, 70); /* too late: a seal fixes the length for ever */
    assert_int_equal(sealed_at(third), 100);
}

static void a_unverified_member_gives_no_length(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    server_fenced(&w, third, chunk, 2, LH_OK, 40, 40, true); /* its machine went down */
    world_advance(&w, 5000);
    assert_int_equal(sealed_at(third), UINT64_MAX);
    fenced(second, 100);
    world_advance(&w, 500);
    assert_int_equal(sealed_at(second), UINT64_MAX); /* a single one that counts */
    primary->incarnation++;
    assert_true(server_register(&w, primary));
    server_fenced(&w, primary, chunk, 2, LH_OK, 110, 40, false);
    assert_int_equal(sealed_at(second), 100);
}

/* FAIL-3: what was cut may have been rot in what was acknowledged. */
static void a_log_that_was_cut_gives_a_length_only_among_its_like(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    server_fenced_cut(&w, second, chunk, 2, 40);
    fenced(third, 90);
    assert_int_equal(sealed_at(second), 90);
}

/* What it lacks may lie on those that are away, however long. */
static void a_single_log_that_was_cut_gives_no_length(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    kill_server(third);
    create_replicas(&next, NULL);
    server_fenced_cut(&w, second, chunk, 2, 40);
    for (int i = 0; i < 110; i++) { /* the grace period and a session */
        world_advance(&w, 3000);
        heartbeats(NULL);
    }
    assert_int_equal(sealed_at(second), UINT64_MAX);
    third->incarnation++;
    assert_true(server_register(&w, third));
    assert_non_null(fence_of(third));
    fenced(third, 90);
    world_advance(&w, 500);
    assert_int_equal(sealed_at(second), 90);
}

static void decommission(const struct server *s)
{
    Leasehold__SetServerRequest r = LEASEHOLD__SET_SERVER_REQUEST__INIT;

    r.server_id = (char *)(uintptr_t)s->id;
    r.admin = LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING;
    const Leasehold__SetServerReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_SET_SERVER, &r));
    assert_non_null(reply);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
}

/* The operator's word that they are gone for good, and that they are indeed gone. */
static void who_is_given_up_is_not_waited_for(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    kill_server(third);
    create_replicas(&next, NULL);
    server_fenced_cut(&w, second, chunk, 2, 40);
    decommission(primary);
    decommission(third);
    world_advance(&w, 5000);
    heartbeats(NULL);
    assert_int_equal(sealed_at(second), UINT64_MAX); /* within the grace period */
    for (int i = 0; i < 110; i++) {
        world_advance(&w, 3000);
        heartbeats(NULL);
    }
    assert_int_equal(sealed_at(second), 40);
}

static void of_logs_that_were_all_cut_the_longest_counts(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    server_fenced_cut(&w, second, chunk, 2, 40);
    server_fenced_cut(&w, third, chunk, 2, 90);
    assert_int_equal(sealed_at(second), 90);
}

static void a_log_below_a_committed_length_gives_no_length(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    server_fenced(&w, third, chunk, 2, LH_OK, 90, 90, false);
    server_fenced(&w, second, chunk, 2, LH_OK, 120, 100, true); /* unverified, but it knows that */
    world_advance(&w, 5000);
    assert_int_equal(sealed_at(third), UINT64_MAX);
    /* The old primary comes back, and has it all. */
    primary->incarnation++;
    assert_true(server_register(&w, primary));
    assert_non_null(fence_of(primary));
    server_fenced(&w, primary, chunk, 2, LH_OK, 110, 100, false);
    assert_int_equal(sealed_at(third), 110);
}

static void if_all_are_unverified_all_are_heard_and_the_longest_counts(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    server_fenced(&w, second, chunk, 2, LH_OK, 10, 0, true);
    server_fenced(&w, third, chunk, 2, LH_OK, 20, 0, true);
    world_advance(&w, 9000);
    assert_int_equal(sealed_at(third), UINT64_MAX);
    primary->incarnation++;
    assert_true(server_register(&w, primary));
    server_fenced(&w, primary, chunk, 2, LH_OK, 15, 0, true);
    assert_int_equal(sealed_at(third), 20);
}

static void a_member_that_lost_its_replica_does_not_count(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    server_fenced(&w, third, chunk, 2, LH_ERR_RECOVERING, 0, 0, false); /* is asked again */
    assert_int_equal(sealed_at(second), UINT64_MAX);
    fenced(second, 100);
    assert_int_equal(sealed_at(second), UINT64_MAX);
    server_fenced(&w, third, chunk, 2, LH_ERR_CORRUPT, 0, 0, false);
    assert_int_equal(sealed_at(second), UINT64_MAX);
    primary->incarnation++;
    assert_true(server_register(&w, primary));
    fenced(primary, 110);
    assert_int_equal(sealed_at(second), 100);
}

/* Decided, and waiting for the next chunk, when a disk is lost. */
static void a_log_that_is_gone_names_no_seal(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    fenced(second, 50);
    fenced(third, 100);
    second->incarnation++;
    assert_true(server_register(&w, second)); /* without a replica */
    assert_true(server_heartbeat(&w, second));
    create_replicas(&next, NULL);
    assert_int_equal(sealed_at(third), UINT64_MAX);
    server_fenced(&w, second, chunk, 2, LH_ERR_NO_REPLICA, 0, 0, false);
    primary->incarnation++;
    assert_true(server_register(&w, primary));
    fenced(primary, 110);
    assert_int_equal(sealed_at(third), 100);
}

static void what_makes_no_sense_is_not_believed(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    server_fenced(&w, second, chunk, 1, LH_OK, 7, 0, false); /* another version */
    server_fenced(&w, second, chunk, 2, LH_OK, UINT64_MAX, 0, false);
    server_fenced(&w, second, chunk + 100, 2, LH_OK, 7, 0, false);
    struct server *stranger = NULL;
    for (size_t i = 0; i < 4; i++)
        if (&servers[i] != primary && &servers[i] != second && &servers[i] != third)
            stranger = &servers[i];
    server_fenced(&w, stranger, chunk, 2, LH_OK, 7, 0, false);
    fenced(third, 60);
    fenced(second, 50);
    assert_int_equal(sealed_at(second), 50);
}

/* ---- The next chunk's replicas. */

static void a_server_that_creates_nothing_does_not_hold_the_file_up(void **state)
{
    const Leasehold__Grant *grant = NULL;
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    assert_int_equal(create_replicas(&next, third), 2);
    fenced(second, 1);
    fenced(third, 1);
    assert_null(granted(&grant));
    world_advance(&w, 250);
    assert_non_null(granted(&grant));
    assert_int_equal(grant->chunk, next);
    assert_int_equal(grant->n_members, 2);
}

static void if_nobody_creates_anything_the_seal_comes_alone(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    register_servers(4);
    rolling();
    fenced(second, 1);
    fenced(third, 1);
    assert_int_equal(sealed_at(second), UINT64_MAX);
    for (unsigned i = 0; i < 3; i++) {
        world_advance(&w, 1000);
        heartbeats(NULL);
    }
    world_advance(&w, 300);
    assert_int_equal(sealed_at(second), 1);
    assert_null(granted(&grant));
    assert_non_null(lease_of(chunk));
}

static void a_server_that_cannot_create_is_left_out(void **state)
{
    const Leasehold__Grant *grant = NULL;
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    fenced(second, 1);
    fenced(third, 1);
    const Leasehold__SessionReply *r = world_next(&w, third->link, CREATE);
    server_created(&w, third, r->create->chunk, LH_ERR_DISK_FULL);
    assert_int_equal(create_replicas(&next, NULL), 2);
    assert_non_null(granted(&grant));
    assert_int_equal(grant->n_members, 2);
}

/* ---- Nothing is granted over the old lease. */

static void after_the_intent_the_lease_is_neither_extended_nor_continued_nor_renewed(void **state)
{
    const Leasehold__Grant *grant = NULL;
    bool extended = true;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    open_tail(1, 9000);
    world_advance(&w, 300); /* it hung ... */
    assert_non_null(fence_of(second));
    world_drop_lines(&w);
    server_heartbeat_active(&w, primary, chunk, 1, &extended); /* ... and wakes up */
    assert_false(extended);
    server_member_failed(&w, primary, chunk, 1, third->id);
    server_confirm(&w, primary, chunk, 2, LH_OK);
    server_recovered(&w, primary, chunk, 2);
    assert_null(granted(&grant));
    Leasehold__ChunkVersion held = LEASEHOLD__CHUNK_VERSION__INIT;
    held.chunk = chunk;
    held.version = 1;
    for (unsigned version = 1; version <= 2; version++) {
        held.version = version;
        primary->registration++;
        w.hold_commits = true;
        server_register_with(&w, primary, NULL, 0, &held, 1);
        world_commit_all(&w);
        w.hold_commits = false;
        const Leasehold__SessionReply *r =
            world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_REGISTERED);
        assert_int_equal(r->registered->n_continued, 0);
        primary->session = r->registered->session;
    }
    assert_string_equal(lease_of(chunk)->state, "EXPIRING");
    assert_int_equal(fence_of(primary)->version, 2); /* and it is told */
    server_seal(&w, primary, chunk, 2, 12345);       /* not its to say any more */
    assert_int_equal(sealed_at(second), UINT64_MAX);
}

static void the_old_holder_may_release(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    open_tail(1, 9000);
    world_advance(&w, 300);
    server_release(&w, primary, chunk, 2); /* was never granted */
    assert_string_equal(lease_of(chunk)->state, "EXPIRING");
    server_release(&w, primary, chunk, 1);
    assert_string_equal(lease_of(chunk)->state, "FREE");
    const Leasehold__Grant *grant = NULL;
    assert_null(granted(&grant)); /* free, and not to be had */
    create_replicas(&next, NULL);
    fenced(second, 9);
    fenced(third, 9);
    fenced(primary, 8); /* it lives after all, but was not waited for */
    assert_int_equal(sealed_at(second), 9);
}

static void a_release_after_the_seal_ends_the_lease(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    open_tail(1, 9000);
    world_advance(&w, 300);
    create_replicas(&next, NULL);
    fenced(second, 9);
    fenced(third, 9);
    assert_string_equal(lease_of(chunk)->state, "EXPIRING");
    unsigned commits = (unsigned)w.store_count;
    server_release(&w, primary, chunk, 1);
    assert_null(lease_of(chunk));
    assert_int_equal(w.store_count, commits);
}

static void a_removed_file_rolls_no_further(void **state)
{
    Leasehold__RemoveRequest r = LEASEHOLD__REMOVE_REQUEST__INIT;
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    uint64_t call = rolling();
    r.path = "/f";
    r.now = true;
    world_call(&w, LH_METHOD_REMOVE, &r);
    create_replicas(&next, NULL);
    fenced(second, 9);
    fenced(third, 9);
    assert_int_equal(sealed_at(second), UINT64_MAX);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    world_advance(&w, 5000);
}

/* What was appended to it is sealed; it does not go on. */
static void a_file_in_the_trash_gets_no_next_chunk(void **state)
{
    Leasehold__RemoveRequest r = LEASEHOLD__REMOVE_REQUEST__INIT;
    const Leasehold__Grant *grant = NULL;
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    server_member_failed(&w, primary, chunk, 1, third->id);
    assert_ptr_equal(granted(&grant), primary);
    server_confirm(&w, primary, chunk, 2, LH_OK);
    server_recovered(&w, primary, chunk, 2);
    r.path = "/f";
    world_call(&w, LH_METHOD_REMOVE, &r);
    world_drop_lines(&w);
    /* Before it heard of the recall. */
    server_waits_for_member(&w, primary, chunk, 2, second->id, true);
    assert_int_equal(fence_of(primary)->version, 3);
    assert_int_equal(create_replicas(&next, NULL), 0);
    server_fenced_as_primary(&w, primary, chunk, 3, 50);
    world_advance(&w, 250);
    assert_int_equal(create_replicas(&next, NULL), 0);
}

/* ---- A master that starts again. */

static void come_back(struct server *s, uint64_t version)
{
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;

    report.chunk = chunk;
    report.version = version;
    s->link = 0;
    s->registration++;
    assert_true(server_register_with(&w, s, &report, 1, NULL, 0));
    server_heartbeat(&w, s);
}

static void restart(void)
{
    world_crash(&w);
    w.hold_commits = false;
    for (size_t i = 0; i < 4; i++)
        servers[i].link = 0;
}

static void before_the_intent_is_durable_a_restart_knows_nothing_of_it(void **state)
{
    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    kill_server(primary);
    w.hold_commits = true;
    open_tail(1, 9000);
    restart();
    assert_string_equal(lease_of(chunk)->state, "WAITING");
    come_back(second, 1);
    come_back(third, 1);
    world_advance(&w, 1000);
    assert_false(anybody_fenced());
}

static void once_the_intent_is_durable_a_restart_goes_on_with_it(void **state)
{
    const Leasehold__Grant *grant = NULL;
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    restart();
    assert_string_equal(lease_of(chunk)->state, "EXPIRING");
    assert_int_equal(lease_of(chunk)->version, 1);
    come_back(second, 1);
    assert_int_equal(fence_of(second)->version, 2);
    fenced(second, 100);
    world_advance(&w, 1000);
    assert_int_equal(sealed_at(second), UINT64_MAX); /* others may be on their way */
    come_back(third, 1);
    fenced(third, 90);
    world_advance(&w, 2000); /* but not for ever */
    assert_int_equal(sealed_at(second), 90);
    uint64_t call = open_tail(1, 9000);
    for (unsigned i = 0; i < 3 && create_replicas(&next, NULL) == 0; i++) {
        world_advance(&w, 1000);
        heartbeats(NULL);
    }
    struct server *heir = granted(&grant);
    assert_non_null(heir);
    assert_int_equal(grant->chunk, next);
    server_confirm(&w, heir, next, 1, LH_OK);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->chunk->start, 90);
    assert_int_equal(reply->settled->chunk, chunk);
}

static void after_a_restart_all_answers_are_enough(void **state)
{
    (void)state;
    register_servers(4);
    rolling();
    restart();
    come_back(second, 2);
    come_back(third, 2);
    primary->incarnation++;
    primary->registration = 0;
    come_back(primary, 1);
    fenced(second, 100);
    fenced(third, 90);
    assert_int_equal(sealed_at(second), UINT64_MAX);
    fenced(primary, 95);
    assert_int_equal(sealed_at(second), 90);
}

static void once_the_seal_is_durable_a_restart_goes_on_behind_it(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    w.hold_commits = true;
    fenced(second, 100);
    fenced(third, 90);
    assert_int_equal(w.commit_count, 1);
    world_commit(&w);
    restart();
    assert_null(lease_of(chunk)); /* the store names no holder of a sealed chunk */
    assert_string_equal(lease_of(next)->state, "WAITING");
    come_back(second, 2); /* it missed the seal */
    world_advance(&w, 1);
    assert_int_equal(sealed_at(second), 90);
}

static void before_the_seal_is_durable_a_restart_decides_anew(void **state)
{
    uint64_t next = 0;

    (void)state;
    register_servers(4);
    rolling();
    create_replicas(&next, NULL);
    w.hold_commits = true;
    fenced(second, 100);
    fenced(third, 90);
    restart();
    assert_null(lease_of(next));
    come_back(second, 2);
    come_back(primary, 1);
    fenced(second, 100);
    fenced(primary, 110);
    world_advance(&w, 3000);
    assert_int_equal(sealed_at(second), 100); /* as good: nothing acknowledged is behind it */
}

/* Changes the stored record of the file's first chunk. */
static void rewrite(void (*change)(LeaseholdStored__Chunk *record))
{
    for (size_t i = 0; i < w.store_count; i++) {
        if (w.store[i].key[0] != 'k')
            continue;
        LeaseholdStored__Chunk *record =
            leasehold_stored__chunk__unpack(NULL, w.store[i].value_size, w.store[i].value);
        change(record);
        free(w.store[i].value);
        w.store[i].value_size = (uint32_t)leasehold_stored__chunk__get_packed_size(record);
        w.store[i].value = malloc(w.store[i].value_size + 1);
        leasehold_stored__chunk__pack(record, w.store[i].value);
        leasehold_stored__chunk__free_unpacked(record, NULL);
        world_as_written(&w);
        return;
    }
    fail();
}

static void let_third_join(LeaseholdStored__Chunk *record)
{
    for (size_t i = 0; i < record->n_members; i++)
        record->members[i]->joining = strcmp(record->members[i]->server_id, third->id) == 0;
}

static void a_joining_member_gives_no_length(void **state)
{
    (void)state;
    register_servers(4);
    rolling();
    rewrite(let_third_join);
    restart();
    come_back(second, 1);
    come_back(third, 1);
    assert_null(fence_of(third));
    fenced(third, 10);
    fenced(second, 100);
    assert_int_equal(sealed_at(second), UINT64_MAX);
    world_advance(&w, 3000);
    assert_int_equal(sealed_at(second), 100);
}

static void after_a_restart_a_primary_has_time_to_find_the_master(void **state)
{
    (void)state;
    register_servers(4);
    file_with_primary(ROLL);
    restart();
    come_back(second, 1);
    come_back(third, 1);
    for (size_t i = 0; i < 4; i++)
        if (servers[i].link == 0 && &servers[i] != primary)
            come_back(&servers[i], 1);
    open_tail(1, 9000);
    world_advance(&w, 900);
    assert_false(anybody_fenced());
    world_advance(&w, 100);
    assert_non_null(fence_of(second));
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_killed_primary_costs_two_commits_and_one_round),
        STORY(the_old_lease_is_left_to_run_out),
        STORY(a_growing_files_spare_goes_on_without_the_suspect),
        STORY(who_was_left_out_of_the_spare_is_told_when_it_comes_back),
        STORY(who_waits_is_told_how_far_the_roll_is),
        STORY(a_primary_that_hangs_is_asked_first),
        STORY(a_primary_that_hangs_after_its_version_has_risen_is_lost_too),
        STORY(a_living_primary_keeps_its_lease_whatever_a_client_says),
        STORY(a_storm_of_reports_is_one_inquiry_and_one_roll),
        STORY(a_stream_that_breaks_while_callers_wait_is_enough),
        STORY(who_lost_nobody_gives_it_a_moment_to_come_back),
        STORY(a_file_that_waits_does_not_roll_over),
        STORY(a_file_that_does_not_say_does_as_configured),
        STORY(too_few_servers_for_a_next_chunk_mean_waiting),
        STORY(a_store_that_fills_up_means_waiting),
        STORY(a_primary_that_recovers_is_a_log_like_others),
        STORY(a_primary_with_too_few_members_is_no_use_either),
        STORY(appends_that_wait_for_too_few_members_are_cause_enough),
        STORY(nothing_new_goes_to_who_is_missed_until_it_shows_life),
        STORY(nothing_new_goes_to_a_primary_that_hangs),
        STORY(a_lone_log_seals_and_is_copied_before_anybody_settles),
        STORY(who_waits_to_settle_is_told_whom_for),
        STORY(a_member_that_comes_back_backs_the_seal_too),
        STORY(a_lone_log_whose_server_is_lost_seals_nothing),
        STORY(a_member_that_looks_alive_is_awaited),
        STORY(a_member_above_the_intent_has_everybody_fenced_anew),
        STORY(a_restarted_master_lets_nobody_settle_too_early_either),
        STORY(the_primary_alone_knows_what_was_acknowledged),
        STORY(members_that_are_gone_are_not_waited_for),
        STORY(who_does_not_answer_is_not_waited_for_long),
        STORY(a_unverified_member_gives_no_length),
        STORY(a_log_that_was_cut_gives_a_length_only_among_its_like),
        STORY(a_single_log_that_was_cut_gives_no_length),
        STORY(who_is_given_up_is_not_waited_for),
        STORY(of_logs_that_were_all_cut_the_longest_counts),
        STORY(a_log_below_a_committed_length_gives_no_length),
        STORY(if_all_are_unverified_all_are_heard_and_the_longest_counts),
        STORY(a_member_that_lost_its_replica_does_not_count),
        STORY(a_log_that_is_gone_names_no_seal),
        STORY(what_makes_no_sense_is_not_believed),
        STORY(a_server_that_creates_nothing_does_not_hold_the_file_up),
        STORY(if_nobody_creates_anything_the_seal_comes_alone),
        STORY(a_server_that_cannot_create_is_left_out),
        STORY(after_the_intent_the_lease_is_neither_extended_nor_continued_nor_renewed),
        STORY(the_old_holder_may_release),
        STORY(a_release_after_the_seal_ends_the_lease),
        STORY(a_removed_file_rolls_no_further),
        STORY(a_file_in_the_trash_gets_no_next_chunk),
        STORY(before_the_intent_is_durable_a_restart_knows_nothing_of_it),
        STORY(once_the_intent_is_durable_a_restart_goes_on_with_it),
        STORY(after_a_restart_all_answers_are_enough),
        STORY(once_the_seal_is_durable_a_restart_goes_on_behind_it),
        STORY(before_the_seal_is_durable_a_restart_decides_anew),
        STORY(a_joining_member_gives_no_length),
        STORY(after_a_restart_a_primary_has_time_to_find_the_master),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
