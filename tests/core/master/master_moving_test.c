/* Stories about what goes elsewhere although nothing is broken: drained and decommissioned servers,
 * replicas in one failure domain, servers that are fuller or busier than others. */
#include "tests/core/master/master_world.h"

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

static bool copying;          /* copies are made */
static unsigned copies;       /* asked for so far */
static struct server *copier; /* the last one that was asked for one */

static int set_up(void **state)
{
    static const char *const names[SERVERS] = {"a", "b", "c", "d", "e"};

    (void)state;
    world_open(&w);
    w.config.chunk_term = lh_seconds(3600); /* leases do not run out in the midst of a story */
    world_crash(&w);
    copying = true;
    copies = 0;
    copier = NULL;
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

/* ---- Servers that do as they are told. */

static void say_copied(struct server *s, const Leasehold__CopyReplica *copy)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCopied copied = LEASEHOLD__REPLICA_COPIED__INIT;

    copied.session = s->session;
    copied.chunk = copy->chunk;
    copied.version = copy->version;
    copied.sealed = copy->sealed;
    copied.length = copied.copied_bytes = copy->length;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_COPIED;
    request.copied = &copied;
    server_send(&w, s, &request);
}

static void say_sealed(struct server *s, const Leasehold__RecordSeal *seal)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__SealRecorded recorded = LEASEHOLD__SEAL_RECORDED__INIT;

    recorded.session = s->session;
    recorded.chunk = seal->chunk;
    recorded.version = seal->version;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED;
    request.seal_recorded = &recorded;
    server_send(&w, s, &request);
}

static void say_removed(struct server *s, const Leasehold__RemoveReplica *remove)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaRemoved removed = LEASEHOLD__REPLICA_REMOVED__INIT;

    removed.session = s->session;
    removed.chunk = remove->chunk;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REMOVED;
    request.removed = &removed;
    server_send(&w, s, &request);
}

/* Does what one message asks for; false: there is none. */
static bool obey(struct server *s)
{
    const Leasehold__SessionReply *r;

    if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_CREATE)) != NULL) {
        server_created(&w, s, r->create->chunk, LH_OK);
    } else if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_GRANT)) != NULL) {
        server_confirm(&w, s, r->grant->chunk, r->grant->version, LH_OK);
        server_recovered(&w, s, r->grant->chunk, r->grant->version);
    } else if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_RECALL)) != NULL) {
        server_release(&w, s, r->recall->chunk, r->recall->version);
    } else if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL)) != NULL) {
        say_sealed(s, r->record_seal);
    } else if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE)) != NULL) {
        say_removed(s, r->remove);
    } else if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_COPY)) != NULL) {
        copies++;
        copier = s;
        if (copying)
            say_copied(s, r->copy);
    } else {
        return false;
    }
    return true;
}

/* For that long, everybody does as told. */
static void obedience(uint64_t ms)
{
    for (uint64_t done = 0; done <= ms; done += 500) {
        bool more = true;
        while (more) {
            more = false;
            for (size_t i = 0; i < SERVERS; i++)
                while (is_up(&all[i]) && obey(&all[i]))
                    more = true;
        }
        world_advance(&w, 500);
        for (size_t i = 0; i < SERVERS; i++)
            if (is_up(&all[i]))
                assert_true(server_heartbeat(&w, &all[i]));
    }
}

/* Files 1 to `count`, whose only chunks are sealed at that length. */
static void sealed_files(unsigned count, uint32_t replication, uint64_t length)
{
    const Leasehold__Grant *grant = NULL;

    for (unsigned i = 1; i <= count; i++) {
        create(i, replication);
        struct server *primary = primary_of(i, &grant);
        server_seal(&w, primary, i, 1, length);
    }
    obedience(0);
}

/* Likewise, at the first three servers, and nothing is copied. */
static void given_sealed_files(unsigned count)
{
    w.config.repair_streams = 0;
    world_crash(&w);
    up(3);
    sealed_files(count, 3, 1000);
}

/* Of the only chunk of such a file. */
static Leasehold__ReplicaReport sealed_replica(uint64_t chunk)
{
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;

    report.chunk = chunk;
    report.version = 1;
    report.sealed = true;
    report.length = 1000;
    return report;
}

/* On a new stream: a session begins, and replicas are to follow (SES-1a). */
static void registers_and_shows_nothing_yet(struct server *s)
{
    s->link = s->piece = 0;
    s->more = s->leases_shown = true;
    assert_true(server_register_with(&w, s, NULL, 0, NULL, 0));
    assert_true(server_heartbeat(&w, s));
}

static const Leasehold__ChunkInfo *chunk_of(unsigned file)
{
    Leasehold__LocateRequest r = LEASEHOLD__LOCATE_REQUEST__INIT;
    char path[16];

    snprintf(path, sizeof path, "/f%u", file);
    r.path = path;
    const Leasehold__LocateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    assert_int_equal(reply->n_chunks, 1);
    return reply->chunks[0];
}

static bool lies_on(unsigned file, const struct server *s)
{
    const Leasehold__ChunkInfo *chunk = chunk_of(file);

    for (size_t i = 0; i < chunk->n_members; i++)
        if (strcmp(chunk->members[i]->server_id, s->id) == 0)
            return true;
    return false;
}

/* A new process on the same machine, which shows what it has of files 1 to `count`. */
static void restart(struct server *s, unsigned count)
{
    Leasehold__ReplicaReport reports[64];
    size_t shown = 0;

    for (unsigned i = 1; i <= count; i++) {
        const Leasehold__ChunkInfo *chunk = chunk_of(i);
        if (!lies_on(i, s))
            continue;
        leasehold__replica_report__init(&reports[shown]);
        reports[shown].chunk = chunk->chunk;
        reports[shown].version = chunk->version;
        reports[shown].length = chunk->length;
        reports[shown++].sealed = chunk->sealed;
    }
    s->incarnation++;
    s->link = 0;
    assert_true(server_register_with(&w, s, reports, shown, NULL, 0));
    assert_true(server_heartbeat(&w, s));
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
    /* Nor does the next one that is free, although nobody has fewer. */
    struct server *primary = primary_of(1, &grant);
    server_release(&w, primary, 1, 2);
    assert_ptr_not_equal(primary_of(1, &grant), a);
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

static const char *why_no_tail(unsigned file, Leasehold__ErrorCode error)
{
    uint64_t call = open_tail(file);

    world_advance(&w, 1000);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_non_null(reply);
    assert_int_equal(reply->error, error);
    return reply->error_text;
}

static void who_waits_for_a_file_is_told_of_drained_servers(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    up(2);
    files(1, 2);
    struct server *primary = primary_of(1, &grant);
    server_release(&w, primary, 1, 1);
    down(a);
    heartbeats(15000); /* its session ends */
    drain(a);
    down(b);
    assert_string_equal(why_no_tail(1, LEASEHOLD__ERROR_CODE__NOT_LEASED),
        "chunk 1 of \"/f1\": none of its 2 members can be primary now: 2 away; 1 of them on "
        "drained servers");
    restart(a, 0);
    create(2, 1);
    assert_string_equal(why_no_tail(2, LEASEHOLD__ERROR_CODE__NOT_ENOUGH_SERVERS),
        "\"/f2\" needs a new chunk on at least 1 chunkservers with room for 1048576 bytes; 2 are "
        "alive, 1 of them drained");
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
            restart(&all[i], 1);
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
        restart(&all[i], 0);
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

static void a_server_is_safe_to_stop_when_every_replica_has_a_replacement(void **state)
{
    (void)state;
    up(3);
    sealed_files(3, 3, 1000);
    assert_true(server_register(&w, d));
    assert_true(server_heartbeat(&w, d));
    copying = false;
    drain(a);
    assert_int_equal(info_of(a)->replicas_to_move, 3);
    obedience(5000);
    assert_ptr_equal(copier, d);
    assert_true(copies > 0);
    assert_false(info_of(a)->safe_to_stop);
    for (unsigned i = 1; i <= 3; i++)
        assert_true(lies_on(i, a)); /* KEEP-2 */
    copying = true;
    obedience(60000); /* a copy that makes no progress is asked for again */
    assert_true(info_of(a)->safe_to_stop);
    assert_int_equal(info_of(a)->replicas_to_move, 0);
    for (unsigned i = 1; i <= 3; i++) {
        assert_true(lies_on(i, d));
        assert_false(lies_on(i, a));
    }
    assert_int_equal(info_of(a)->admin, LEASEHOLD__SERVER_ADMIN__DRAINING);
}

static void lose(struct server *s, uint64_t chunk, bool kept)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaLost m = LEASEHOLD__REPLICA_LOST__INIT;

    m.session = s->session;
    m.chunk = chunk;
    m.version = 1;
    m.error = LEASEHOLD__ERROR_CODE__CORRUPT;
    m.kept = kept;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_LOST;
    request.lost = &m;
    server_send(&w, s, &request);
}

/* REC-10: nobody says "safe to stop" of a server that has the last replica of which anything can be
 * read. */
static void the_last_damaged_replica_is_needed(void **state)
{
    (void)state;
    given_sealed_files(1);
    for (size_t i = 0; i < 3; i++)
        lose(&all[i], 1, true);
    drain(a);
    obedience(5000);
    assert_false(info_of(a)->safe_to_stop);
    assert_int_equal(info_of(a)->replicas_to_move, 1);
}

/* Nor while it is being copied to, which leaves what is there where it is (REC-9). */
static void a_damaged_replica_that_is_copied_to_is_needed(void **state)
{
    Leasehold__ReplicaReport report = LEASEHOLD__REPLICA_REPORT__INIT;

    (void)state;
    given_sealed_files(1);
    for (size_t i = 0; i < 3; i++)
        lose(&all[i], 1, true);
    report.chunk = 1;
    report.version = 1;
    report.copying = report.kept = true;
    a->incarnation++;
    a->link = 0;
    assert_true(server_register_with(&w, a, &report, 1, NULL, 0));
    assert_true(server_heartbeat(&w, a));
    drain(a);
    obedience(5000);
    assert_false(info_of(a)->safe_to_stop);
}

/* SES-1a: nor before it has shown what it has of it: each member at it counts as away. */
static void a_damaged_replica_that_is_not_shown_yet_is_needed(void **state)
{
    (void)state;
    given_sealed_files(1);
    for (size_t i = 0; i < 3; i++)
        lose(&all[i], 1, true);
    drain(a);
    obedience(5000);
    assert_false(info_of(a)->safe_to_stop);
    a->incarnation++;
    registers_and_shows_nothing_yet(a);
    obedience(5000);
    assert_false(info_of(a)->safe_to_stop);
}

/* What is reported of a replica at once is newer than what a piece before it says (SES-1a). */
static void a_piece_that_is_looked_at_late_says_nothing_of_a_loss_behind_it(void **state)
{
    const Leasehold__ReplicaReport reports[] = {sealed_replica(1), sealed_replica(2)};

    (void)state;
    w.config.step_work = 1;
    given_sealed_files(2);
    for (size_t i = 1; i < 3; i++)
        lose(&all[i], 2, true);
    a->incarnation++;
    registers_and_shows_nothing_yet(a);
    a->piece = 1;
    a->more = false;
    server_register_with(&w, a, reports, 2, NULL, 0);
    lose(a, 2, true);
    drain(a);
    obedience(5000);
    assert_false(info_of(a)->safe_to_stop);
    assert_int_equal(info_of(a)->replicas_to_move, 2);
}

/* SES-1a, REC-10: the last replica is at no member, and its server has not shown it yet. */
static void a_server_that_has_not_shown_all_is_not_decommissioned(void **state)
{
    const Leasehold__ReplicaReport report = sealed_replica(1);

    (void)state;
    given_sealed_files(1);
    assert_true(server_register_with(&w, d, &report, 1, NULL, 0));
    assert_true(server_heartbeat(&w, d));
    for (size_t i = 0; i < 3; i++)
        lose(&all[i], 1, false);
    drain(d);
    obedience(5000);
    assert_false(info_of(d)->safe_to_stop);
    assert_int_equal(info_of(d)->replicas_to_move, 1);
    world_break_link(&w, d->link); /* and comes back at once, before its session is over */
    d->registration++;
    registers_and_shows_nothing_yet(d);
    obedience(5000);
    assert_false(info_of(d)->safe_to_stop);
}

static void the_last_replica_of_a_chunk_is_not_decommissioned_unseen(void **state)
{
    const Leasehold__ReplicaReport report = sealed_replica(1);

    (void)state;
    given_sealed_files(1);
    assert_true(server_register_with(&w, d, &report, 1, NULL, 0));
    assert_true(server_heartbeat(&w, d));
    for (size_t i = 0; i < 3; i++)
        lose(&all[i], 1, false);
    set_server("d", LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING);
    obedience(5000);
    assert_false(info_of(d)->safe_to_stop);
    assert_int_equal(info_of(d)->replicas_to_move, 1);
    world_break_link(&w, d->link); /* and comes back at once, before its session is over */
    d->registration++;
    registers_and_shows_nothing_yet(d);
    for (int k = 0; k < 50 && info_of(d) != NULL; k++) {
        world_advance(&w, 100);
        for (size_t n = 0; n < 4; n++)
            server_heartbeat(&w, &all[n]);
    }
    assert_non_null(info_of(d)); /* not forgotten */
}

/* KEEP-1: nobody is waited for for ever. */
static void pieces_that_do_not_end_keep_no_member_away_for_ever(void **state)
{
    (void)state;
    up(3);
    sealed_files(1, 3, 1000);
    assert_true(server_register(&w, d));
    assert_true(server_heartbeat(&w, d));
    a->incarnation++;
    registers_and_shows_nothing_yet(a);
    obedience(2000000); /* the grace is 300 s */
    assert_true(lies_on(1, d));
}

/* Of one that has nothing of it nothing is lost. */
static void a_replica_of_which_nothing_is_left_is_not_needed(void **state)
{
    (void)state;
    given_sealed_files(1);
    lose(a, 1, false);
    drain(a);
    obedience(5000);
    assert_true(info_of(a)->safe_to_stop);
}

/* Nobody can ask it, so it may have something after all. */
static void what_is_said_to_be_lost_at_a_server_that_is_away_is_needed(void **state)
{
    (void)state;
    given_sealed_files(1);
    lose(a, 1, false);
    down(a);
    obedience(60000);
    drain(a);
    obedience(5000);
    assert_false(info_of(a)->safe_to_stop);
    assert_int_equal(info_of(a)->replicas_to_move, 1);
}

/* A thousand servers' heartbeats each wait for a step. */
static void a_census_of_many_chunks_is_many_short_steps(void **state)
{
    (void)state;
    w.config.walk_share = 2;
    given_sealed_files(12);
    drain(a);
    assert_int_not_equal(info_of(a)->replicas_to_move, 12);
    world_advance(&w, 1);
    assert_int_equal(info_of(a)->replicas_to_move, 12);
}

static void the_primary_of_a_tail_moves_and_then_its_replica(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    up(3);
    files(1, 3);
    struct server *primary = primary_of(1, &grant);
    assert_true(server_register(&w, d));
    assert_true(server_heartbeat(&w, d));
    drain(primary);
    assert_false(info_of(primary)->safe_to_stop);
    obedience(10000);
    assert_true(info_of(primary)->safe_to_stop);
    assert_int_equal(info_of(primary)->primaries, 0);
    assert_true(lies_on(1, d));
    assert_false(lies_on(1, primary));
    assert_int_equal(chunk_of(1)->n_members, 3);
}

/* Nobody appends, so no primary would come by itself to let it go. */
static void a_drained_member_of_an_idle_tail_goes_once_it_is_one_too_many(void **state)
{
    const Leasehold__Grant *grant = NULL;
    struct server *leaving = NULL, *briefly_away = NULL;

    (void)state;
    up(3);
    files(1, 3);
    struct server *primary = primary_of(1, &grant);
    for (size_t i = 0; i < 3; i++)
        if (&all[i] != primary) {
            briefly_away = leaving;
            leaving = &all[i];
        }
    assert_true(server_register(&w, d));
    assert_true(server_heartbeat(&w, d));
    down(briefly_away);
    obedience(15000); /* its session ends */
    drain(leaving);
    obedience(3000);
    assert_int_equal(chunk_of(1)->n_members, 4); /* nobody goes while somebody is away */
    server_release(&w, primary, 1, chunk_of(1)->version);
    obedience(3000);
    assert_true(lies_on(1, leaving));
    restart(briefly_away, 1);
    obedience(30000);
    assert_false(lies_on(1, leaving));
    assert_int_equal(chunk_of(1)->n_members, 3);
    assert_true(info_of(leaving)->safe_to_stop);
    uint64_t version = chunk_of(1)->version;
    obedience(120000);
    assert_int_equal(chunk_of(1)->version, version);
}

static void a_drain_that_is_taken_back_moves_nothing_more(void **state)
{
    (void)state;
    up(3);
    sealed_files(3, 3, 1000);
    copying = false;
    assert_true(server_register(&w, d));
    assert_true(server_heartbeat(&w, d));
    drain(a);
    obedience(2000);
    assert_true(copies > 0);
    assert_int_equal(
        set_server("a", LEASEHOLD__SERVER_ADMIN__ACTIVE)->error, LEASEHOLD__ERROR_CODE__OK);
    world_drop_lines(&w);
    copies = 0;
    copying = true;
    obedience(120000);
    assert_int_equal(copies, 0);
    for (unsigned i = 1; i <= 3; i++)
        assert_true(lies_on(i, a));
}

static void a_drain_goes_on_under_the_next_master(void **state)
{
    (void)state;
    up(3);
    sealed_files(2, 3, 1000);
    drain(a);
    world_crash(&w);
    for (size_t i = 0; i < 3; i++)
        restart(&all[i], 2);
    d->link = 0;
    assert_true(server_register(&w, d));
    obedience(60000);
    assert_true(info_of(a)->safe_to_stop);
    assert_true(lies_on(1, d) && lies_on(2, d));
}

static void what_a_draining_server_that_dies_had_is_copied_at_once(void **state)
{
    (void)state;
    up(4);
    sealed_files(4, 3, 1000);
    copying = false;
    drain(a);
    assert_true(info_of(a)->replicas_to_move > 0);
    down(a);
    copying = true;
    obedience(50000); /* far less than the grace period */
    assert_true(info_of(a)->safe_to_stop);
    for (unsigned i = 1; i <= 4; i++) {
        assert_false(lies_on(i, a));
        assert_int_equal(chunk_of(i)->n_members, 3);
    }
}

static void more_than_the_cluster_can_spare_stays_needed(void **state)
{
    (void)state;
    up(4);
    sealed_files(4, 3, 1000);
    drain(a);
    obedience(30000);
    assert_true(info_of(a)->safe_to_stop);
    const Leasehold__SetServerReply *reply = set_server("b", LEASEHOLD__SERVER_ADMIN__DRAINING);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_non_null(strstr(reply->error_text, "2 chunkservers are left, and files ask for 3"));
    obedience(120000);
    assert_false(info_of(b)->safe_to_stop);
    assert_int_equal(info_of(b)->replicas_to_move, 4);
    assert_non_null(strstr(info_of(b)->obstacle, "2 chunkservers are left, and files ask for 3"));
    for (unsigned i = 1; i <= 4; i++)
        assert_int_equal(chunk_of(i)->n_members, 3); /* nothing fell below what it was */
    assert_true(server_register(&w, &all[4]));
    obedience(60000);
    assert_true(info_of(b)->safe_to_stop);
    assert_string_equal(info_of(b)->obstacle, "");
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

static void a_server_is_forgotten_once_all_that_it_had_is_elsewhere(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    up(4);
    sealed_files(4, 3, 1000);
    create(5, 3);
    primary_of(5, &grant);
    assert_int_equal(set_server("a", LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING)->error,
        LEASEHOLD__ERROR_CODE__OK);
    for (unsigned i = 0; i < 200 && info_of(a) != NULL; i++) {
        for (size_t j = 0; j < SERVERS; j++)
            while (is_up(&all[j]) && obey(&all[j]))
                continue;
        world_advance(&w, 500);
        for (size_t j = 1; j < 4; j++)
            assert_true(server_heartbeat(&w, &all[j]));
        server_heartbeat(&w, a); /* until it is sent away */
    }
    assert_null(info_of(a));
    for (unsigned i = 1; i <= 5; i++) {
        assert_false(lies_on(i, a));
        assert_int_equal(chunk_of(i)->n_members, 3);
    }
    a->incarnation++;
    is_refused(a);
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

/* Everybody gives up what is recalled, and its file is opened again; how many leases that were. */
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
        restart(&all[i], count);
    for (size_t i = 1; i < 3; i++)
        down(&all[i]);
    for (unsigned i = 1; i <= count; i++)
        assert_ptr_equal(primary_of(i, &grant), a);
    for (size_t i = 1; i < 3; i++)
        restart(&all[i], count);
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
    restart(c, 9);
    heartbeats(30000);
    assert_non_null(recalled(a));
}

/* ---- Space, and failure domains. */

static void replicas_move_from_the_fullest_server_until_it_is_within_the_band(void **state)
{
    (void)state;
    up(3);
    sealed_files(40, 2, 1u << 20);
    const uint64_t capacity = UINT64_C(1) << 30;
    a->free_bytes = capacity / 2;
    b->free_bytes = c->free_bytes = capacity - capacity / 4;
    assert_true(server_register(&w, d));
    unsigned before = 0, now = 0;
    for (unsigned i = 1; i <= 40; i++)
        before += lies_on(i, a);
    assert_true(before > 3);
    obedience(9000);
    assert_in_range(copies, 0, 2); /* gently */
    obedience(60000);
    for (unsigned i = 1; i <= 40; i++)
        now += lies_on(i, a);
    assert_true(now < before);
    assert_ptr_equal(copier, d); /* the emptiest */
    obedience(30000);
    /* What is left between them is less than the band. */
    a->free_bytes = capacity / 100 * 68;
    d->free_bytes = capacity - capacity / 4;
    obedience(30000);
    copies = 0;
    obedience(120000);
    assert_int_equal(copies, 0);
}

static void nothing_moves_for_space_while_a_replica_is_missing(void **state)
{
    (void)state;
    up(4);
    sealed_files(8, 2, 1u << 20);
    a->free_bytes = 1u << 28;
    down(d);
    obedience(120000);
    assert_int_equal(copies, 0);
    restart(d, 8);
    obedience(60000);
    assert_true(copies > 0);
}

static void a_shared_failure_domain_is_left_when_another_one_appears(void **state)
{
    (void)state;
    a->domain = b->domain = "rack-1";
    c->domain = "rack-2";
    up(3);
    sealed_files(2, 3, 1000);
    obedience(60000);
    assert_int_equal(copies, 0); /* there is nowhere to go */
    d->domain = "rack-3";
    assert_true(server_register(&w, d));
    obedience(60000);
    assert_int_equal(copies, 2);
    for (unsigned i = 1; i <= 2; i++) {
        assert_true(lies_on(i, d));
        assert_true(lies_on(i, c));
        assert_int_equal(chunk_of(i)->n_members, 3);
        assert_int_not_equal(lies_on(i, a), lies_on(i, b));
    }
    all[4].domain = "rack-4";
    assert_true(server_register(&w, &all[4]));
    obedience(60000);
    assert_int_equal(copies, 2); /* all is well as it is */
}

static void a_drained_replica_goes_to_the_domain_that_it_leaves(void **state)
{
    (void)state;
    a->domain = d->domain = "rack-1";
    b->domain = all[4].domain = "rack-2";
    c->domain = "rack-3";
    up(3);
    sealed_files(1, 3, 1000);
    d->free_bytes = UINT64_C(1) << 29; /* e has more room, but lies beside b */
    assert_true(server_register(&w, d));
    assert_true(server_register(&w, &all[4]));
    drain(a);
    obedience(10000);
    assert_true(info_of(a)->safe_to_stop);
    assert_true(lies_on(1, d));
    assert_int_equal(copies, 1); /* at once */
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(a_drain_recalls_primaries_a_few_at_a_time),
        STORY(nothing_is_placed_on_a_drained_server),
        STORY(who_waits_for_a_file_is_told_of_drained_servers),
        STORY(a_lease_that_nobody_else_can_take_stays),
        STORY(a_drain_is_durable_before_it_is_answered),
        STORY(what_makes_no_sense_is_refused),
        STORY(a_server_is_safe_to_stop_when_every_replica_has_a_replacement),
        STORY(the_last_damaged_replica_is_needed),
        STORY(what_is_said_to_be_lost_at_a_server_that_is_away_is_needed),
        STORY(a_census_of_many_chunks_is_many_short_steps),
        STORY(a_damaged_replica_that_is_copied_to_is_needed),
        STORY(a_server_that_has_not_shown_all_is_not_decommissioned),
        STORY(the_last_replica_of_a_chunk_is_not_decommissioned_unseen),
        STORY(pieces_that_do_not_end_keep_no_member_away_for_ever),
        STORY(a_piece_that_is_looked_at_late_says_nothing_of_a_loss_behind_it),
        STORY(a_damaged_replica_that_is_not_shown_yet_is_needed),
        STORY(a_replica_of_which_nothing_is_left_is_not_needed),
        STORY(the_primary_of_a_tail_moves_and_then_its_replica),
        STORY(a_drained_member_of_an_idle_tail_goes_once_it_is_one_too_many),
        STORY(a_drain_that_is_taken_back_moves_nothing_more),
        STORY(a_drain_goes_on_under_the_next_master),
        STORY(what_a_draining_server_that_dies_had_is_copied_at_once),
        STORY(more_than_the_cluster_can_spare_stays_needed),
        STORY(a_server_is_forgotten_once_all_that_it_had_is_elsewhere),
        STORY(an_empty_server_is_forgotten_and_may_be_taken_back),
        STORY(replicas_move_from_the_fullest_server_until_it_is_within_the_band),
        STORY(nothing_moves_for_space_while_a_replica_is_missing),
        STORY(a_shared_failure_domain_is_left_when_another_one_appears),
        STORY(a_drained_replica_goes_to_the_domain_that_it_leaves),
        STORY(primaries_move_one_by_one_until_the_load_is_even),
        STORY(no_primary_moves_where_that_is_switched_off),
        STORY(no_primary_moves_while_replicas_are_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
