/* Stories about what goes elsewhere although nothing is broken: drained and decommissioned servers,
 * replicas in one failure domain, servers that are fuller or busier than others. */
#include "master_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEARTBEAT_MS 3300u
#define SERVERS      5

static struct world w;
static struct server all[SERVERS];
static struct server *const a = &all[0], *const b = &all[1], *const c = &all[2], *const d = &all[3];

static int set_up(void **state)
{
    static const char *const names[SERVERS] = {"a", "b", "c", "d", "e"};

    (void)state;
    world_open(&w);
    w.config.chunk_term = lh_seconds(3600); /* leases do not run out in the midst of a story */
    world_crash(&w);
    for (size_t i = 0; i < SERVERS; i++)
        all[i] = (struct server){.id = names[i], .incarnation = 1, .registration = 1};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static bool is_up(const struct server *s)
{
    return s->link != 0 && s->session != 0;
}

static void up(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(server_register(&w, &all[i]));
        assert_true(server_heartbeat(&w, &all[i]));
    }
}

static void heartbeats(uint64_t ms)
{
    for (uint64_t done = 0; done < ms; done += HEARTBEAT_MS) {
        world_advance(&w, HEARTBEAT_MS);
        for (size_t i = 0; i < SERVERS; i++)
            if (is_up(&all[i]))
                assert_true(server_heartbeat(&w, &all[i]));
    }
}

static void down(struct server *s)
{
    world_break_link(&w, s->link);
    s->link = s->session = 0;
}

/* A new process on the same machine, which shows the replicas of chunks 1 to `count`. */
static void restart(struct server *s, size_t count, uint64_t version)
{
    Leasehold__ReplicaReport reports[64];

    for (size_t i = 0; i < count; i++) {
        leasehold__replica_report__init(&reports[i]);
        reports[i].chunk = i + 1;
        reports[i].version = version;
    }
    s->incarnation++;
    s->link = 0;
    assert_true(server_register_with(&w, s, reports, count, NULL, 0));
    assert_true(server_heartbeat(&w, s));
}

static const Leasehold__SetServerReply *set_server(const char *id, Leasehold__ServerAdmin admin)
{
    Leasehold__SetServerRequest r = LEASEHOLD__SET_SERVER_REQUEST__INIT;

    r.server_id = (char *)(uintptr_t)id;
    r.admin = admin;
    const Leasehold__SetServerReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_SET_SERVER, &r));
    assert_non_null(reply);
    return reply;
}

static void drain(const struct server *s)
{
    const Leasehold__SetServerReply *reply = set_server(s->id, LEASEHOLD__SERVER_ADMIN__DRAINING);

    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->server->admin, LEASEHOLD__SERVER_ADMIN__DRAINING);
}

/* As the master lists it; NULL: it does not. */
static const Leasehold__ServerInfo *info_of(const struct server *s)
{
    Leasehold__ListServersRequest r = LEASEHOLD__LIST_SERVERS_REQUEST__INIT;
    const Leasehold__ListServersReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_SERVERS, &r));

    for (size_t i = 0; i < reply->n_servers; i++)
        if (strcmp(reply->servers[i]->server_id, s->id) == 0)
            return reply->servers[i];
    return NULL;
}

static uint64_t open_tail(unsigned file)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;
    char path[16];

    snprintf(path, sizeof path, "/f%u", file);
    r.path = path;
    r.wait_ms = 1000;
    return world_call(&w, LH_METHOD_OPEN_TAIL, &r);
}

static void create_replicas(void)
{
    for (size_t i = 0; i < SERVERS; i++) {
        const Leasehold__SessionReply *r;
        while (is_up(&all[i]) &&
               (r = world_next(&w, all[i].link, LEASEHOLD__SESSION_REPLY__BODY_CREATE)) != NULL)
            server_created(&w, &all[i], r->create->chunk, LH_OK);
    }
}

/* Confirms what is granted; the last one's server. */
static struct server *confirm_grants(const Leasehold__Grant **last)
{
    struct server *to = NULL;

    for (size_t i = 0; i < SERVERS; i++) {
        const Leasehold__Grant *grant;
        while (is_up(&all[i]) && (grant = server_grant(&w, &all[i])) != NULL) {
            server_confirm(&w, &all[i], grant->chunk, grant->version, LH_OK);
            to = &all[i];
            *last = grant;
        }
    }
    return to;
}

/* The tail of that file has a primary. */
static struct server *primary_of(unsigned file, const Leasehold__Grant **grant)
{
    uint64_t call = open_tail(file);

    create_replicas();
    struct server *s = confirm_grants(grant);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_non_null(reply);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    for (size_t i = 0; s == NULL && i < SERVERS; i++)
        if (strcmp(all[i].id, reply->primary->server_id) == 0)
            s = &all[i];
    return s;
}

static void create(unsigned file, uint32_t replication)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;
    char path[16];

    snprintf(path, sizeof path, "/f%u", file);
    r.path = path;
    r.replication = replication;
    r.min_replicas = 1;
    const Leasehold__CreateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_CREATE, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
}

/* Files from 1 on, of one chunk each with the file's number, and with a primary each. */
static void files(unsigned count, uint32_t replication)
{
    const Leasehold__Grant *grant = NULL;

    for (unsigned i = 1; i <= count; i++) {
        create(i, replication);
        assert_non_null(primary_of(i, &grant));
        assert_int_equal(grant->chunk, i);
    }
}

static const Leasehold__RecallLease *recalled(struct server *s)
{
    const Leasehold__SessionReply *r =
        world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_RECALL);

    return r == NULL ? NULL : r->recall;
}

static bool granted_to(const Leasehold__Grant *grant, const struct server *s)
{
    for (size_t i = 0; i < grant->n_members; i++)
        if (strcmp(grant->members[i]->server_id, s->id) == 0)
            return true;
    return false;
}

/* ---- Draining. */

static void a_drain_recalls_primaries_a_few_at_a_time(void **state)
{
    const Leasehold__Grant *grant = NULL;
    const Leasehold__RecallLease *recall;
    const Leasehold__RecallLease *asked[4];
    size_t count = 0;

    (void)state;
    up(3);
    files(18, 3);
    assert_int_equal(info_of(a)->primaries, 6);
    drain(a);
    while ((recall = recalled(a)) != NULL) {
        assert_true(count < 4);
        asked[count++] = recall;
    }
    assert_int_equal(count, 4);
    /* One is given up, one more is asked for; and no lease comes back. */
    for (unsigned left = 6; left-- > 0;) {
        uint64_t chunk = asked[0]->chunk;
        server_release(&w, a, chunk, asked[0]->version);
        memmove(asked, asked + 1, --count * sizeof *asked);
        world_advance(&w, 1);
        while ((recall = recalled(a)) != NULL)
            asked[count++] = recall;
        assert_int_equal(count, left < 4 ? left : 4);
        assert_ptr_not_equal(primary_of((unsigned)chunk, &grant), a);
        assert_int_equal(grant->version, 2);
        assert_int_equal(info_of(a)->primaries, left);
    }
}

static void nothing_is_placed_on_a_drained_server(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    up(4);
    drain(a);
    assert_true(info_of(a)->safe_to_stop); /* there is nothing on it */
    for (unsigned i = 1; i <= 5; i++) {
        create(i, 3);
        assert_ptr_not_equal(primary_of(i, &grant), a);
        assert_int_equal(grant->n_members, 3);
        assert_false(granted_to(grant, a));
    }
    assert_true(info_of(a)->safe_to_stop);
    assert_int_equal(
        set_server("a", LEASEHOLD__SERVER_ADMIN__ACTIVE)->error, LEASEHOLD__ERROR_CODE__OK);
    assert_false(info_of(a)->safe_to_stop);
    create(6, 4);
    primary_of(6, &grant);
    assert_true(granted_to(grant, a));
}

static void a_lease_that_nobody_else_can_take_stays(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    up(3);
    files(1, 3);
    struct server *primary = primary_of(1, &grant);
    for (size_t i = 0; i < 3; i++)
        if (&all[i] != primary)
            down(&all[i]);
    drain(primary);
    heartbeats(6600);
    assert_null(recalled(primary)); /* KEEP-2: rather a primary that drains than none */
    assert_false(info_of(primary)->safe_to_stop);
    for (size_t i = 0; i < 3; i++)
        if (&all[i] != primary)
            restart(&all[i], 1, 1);
    world_advance(&w, 2000);
    assert_non_null(recalled(primary));
}

static void a_drain_is_durable_before_it_is_answered(void **state)
{
    Leasehold__SetServerRequest r = LEASEHOLD__SET_SERVER_REQUEST__INIT;

    (void)state;
    up(4);
    w.hold_commits = true;
    r.server_id = "a";
    r.admin = LEASEHOLD__SERVER_ADMIN__DRAINING;
    uint64_t call = world_call(&w, LH_METHOD_SET_SERVER, &r);
    assert_null(world_reply(&w, call));
    world_commit(&w);
    assert_non_null(world_reply(&w, call));
    w.hold_commits = false;

    const Leasehold__Grant *grant = NULL;
    world_crash(&w);
    for (size_t i = 0; i < 4; i++)
        restart(&all[i], 0, 0);
    assert_int_equal(info_of(a)->admin, LEASEHOLD__SERVER_ADMIN__DRAINING);
    create(1, 3);
    primary_of(1, &grant);
    assert_false(granted_to(grant, a));
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    up(1);
    assert_int_equal(set_server("x", LEASEHOLD__SERVER_ADMIN__DRAINING)->error,
        LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_int_equal(
        set_server("a", (Leasehold__ServerAdmin)7)->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    assert_int_equal(info_of(a)->admin, LEASEHOLD__SERVER_ADMIN__ACTIVE);
}

/* ---- Decommissioning. */

/* Tries to register, and is told why not. */
static void is_refused(struct server *s)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register r = LEASEHOLD__REGISTER__INIT;

    r.server_id = (char *)(uintptr_t)s->id;
    r.address = "a:1";
    r.incarnation = s->incarnation;
    r.registration = ++s->registration;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    request.register_ = &r;
    s->link = world_open_link(&w, LH_METHOD_SESSION);
    world_message(&w, s->link, &request);
    const Leasehold__SessionReply *reply =
        world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_REGISTERED);
    assert_non_null(reply);
    assert_int_equal(reply->registered->error, LEASEHOLD__ERROR_CODE__WRONG_IDENTITY);
    assert_non_null(strstr(reply->registered->error_text, "decommissioned"));
    assert_non_null(strstr(reply->registered->error_text, "leasehold undrain"));
    s->link = s->session = 0;
}

static void an_empty_server_is_forgotten_and_may_be_taken_back(void **state)
{
    (void)state;
    up(4);
    d->incarnation = 7;
    const Leasehold__SetServerReply *reply =
        set_server("d", LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_true(reply->server->safe_to_stop);
    assert_null(info_of(d));
    is_refused(d);
    world_crash(&w);
    d->link = 0;
    is_refused(d);
    assert_null(info_of(d));
    assert_int_equal(set_server("d", LEASEHOLD__SERVER_ADMIN__DRAINING)->error,
        LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_int_equal(
        set_server("d", LEASEHOLD__SERVER_ADMIN__ACTIVE)->error, LEASEHOLD__ERROR_CODE__OK);
    /* Also with a new disk: what the old one had counts for nothing any more. */
    d->incarnation = d->registration = 1;
    assert_true(server_register(&w, d));
    assert_int_equal(info_of(d)->admin, LEASEHOLD__SERVER_ADMIN__ACTIVE);
}

/* ---- Primaries. */

static size_t busiest_minus_least(size_t count)
{
    uint64_t most = 0, least = UINT64_MAX;

    for (size_t i = 0; i < count; i++) {
        uint64_t primaries = info_of(&all[i])->primaries;
        most = primaries > most ? primaries : most;
        least = primaries < least ? primaries : least;
    }
    return (size_t)(most - least);
}

/* Everybody gives up what is recalled, and its file is opened anew; how many leases that were. */
static unsigned follow_recalls(size_t count)
{
    const Leasehold__Grant *grant = NULL;
    const Leasehold__RecallLease *recall;
    uint64_t last = 0; /* a recall is sent again until it is answered */
    unsigned moved = 0;

    for (size_t i = 0; i < count; i++)
        while ((recall = recalled(&all[i])) != NULL) {
            if (recall->chunk == last)
                continue;
            last = recall->chunk;
            server_release(&w, &all[i], last, recall->version);
            assert_ptr_not_equal(primary_of((unsigned)last, &grant), &all[i]);
            moved++;
        }
    return moved;
}

/* a is primary of all files: the others were away when these were opened. */
static void all_on_a(unsigned count)
{
    const Leasehold__Grant *grant = NULL;

    up(3);
    files(count, 3);
    down(b);
    down(c);
    for (size_t i = 1; i < 3; i++) /* their leases go with their processes */
        restart(&all[i], count, 1);
    for (size_t i = 1; i < 3; i++)
        down(&all[i]);
    for (unsigned i = 1; i <= count; i++)
        assert_ptr_equal(primary_of(i, &grant), a);
    for (size_t i = 1; i < 3; i++)
        restart(&all[i], count, 2);
    assert_int_equal(info_of(a)->primaries, count);
}

static void primaries_move_one_by_one_until_the_load_is_even(void **state)
{
    unsigned moved = 0;

    (void)state;
    all_on_a(9);
    for (unsigned i = 0; i < 30 && busiest_minus_least(3) > 2; i++) {
        heartbeats(9900);
        unsigned now = follow_recalls(3);
        assert_in_range(now, 0, 1);
        moved += now;
    }
    assert_in_range(busiest_minus_least(3), 0, 2);
    assert_in_range(moved, 4, 6);
    heartbeats(120000);
    assert_int_equal(follow_recalls(3), 0); /* nothing goes to and fro */
}

static void no_primary_moves_where_that_is_switched_off(void **state)
{
    (void)state;
    w.config.balance = false;
    world_crash(&w);
    all_on_a(9);
    heartbeats(120000);
    assert_int_equal(follow_recalls(3), 0);
    assert_int_equal(info_of(a)->primaries, 9);
}

static void no_primary_moves_while_replicas_are_missing(void **state)
{
    (void)state;
    all_on_a(9);
    down(c);
    heartbeats(60000);
    assert_null(recalled(a));
    restart(c, 9, 2);
    heartbeats(30000);
    assert_non_null(recalled(a));
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(a_drain_recalls_primaries_a_few_at_a_time),
        STORY(nothing_is_placed_on_a_drained_server),
        STORY(a_lease_that_nobody_else_can_take_stays),
        STORY(a_drain_is_durable_before_it_is_answered),
        STORY(what_makes_no_sense_is_refused),
        STORY(an_empty_server_is_forgotten_and_may_be_taken_back),
        STORY(primaries_move_one_by_one_until_the_load_is_even),
        STORY(no_primary_moves_where_that_is_switched_off),
        STORY(no_primary_moves_while_replicas_are_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
