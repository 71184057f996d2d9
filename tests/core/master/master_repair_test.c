/* Stories of repair at the master: who is copied to whom, when, and who is a member when (REC-4,
 * KEEP-1, KEEP-2). The servers of this file do what they are told, but for copies: each story says
 * itself how those end. */
#include "tests/core/master/master_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEARTBEAT_MS 3300u
#define GRACE_MS     300000u
#define SERVERS      6u
#define CHUNKS       32u

static struct world w;
static struct server servers[SERVERS];
static const char *const names[SERVERS] = {"a", "b", "c", "d", "e", "f"};
static struct server *const a = &servers[0], *const b = &servers[1], *const c = &servers[2],
                            *const d = &servers[3], *const e = &servers[4];

/* What lies on each server. */
struct replica {
    bool there, sealed, lost, copying;
    uint64_t version;
};
static struct replica disks[SERVERS][CHUNKS];
static bool silent[SERVERS]; /* sends nothing */
static bool deaf_to_seals;   /* RecordSeal is not answered */
static struct {
    struct server *server; /* whom the newest grant went to */
    uint64_t version;
    char members[128]; /* "a b +d": d is joining */
} grants[CHUNKS];

/* A CopyReplica that was heard. */
struct order {
    struct server *target;
    uint64_t chunk, version, length, checksum;
    bool sealed;
    char sources[64];
};
static struct order orders[256];
static size_t order_count;

static int set_up(void **state)
{
    (void)state;
    world_open(&w);
    memset(disks, 0, sizeof disks);
    memset(silent, 0, sizeof silent);
    memset(grants, 0, sizeof grants);
    order_count = 0;
    deaf_to_seals = false;
    for (unsigned i = 0; i < SERVERS; i++)
        servers[i] = (struct server){.id = names[i], .incarnation = 1};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static unsigned index_of(const struct server *s)
{
    return (unsigned)(s - servers);
}

static struct replica *replica(const struct server *s, uint64_t chunk)
{
    assert_true(chunk < CHUNKS);
    return &disks[index_of(s)][chunk];
}

static void add(char *text, size_t size, const char *word)
{
    size_t used = strlen(text);

    snprintf(text + used, size - used, "%s%s", used == 0 ? "" : " ", word);
}

/* ---- What servers do by themselves. */

static void send_seal_recorded(struct server *s, uint64_t chunk, uint64_t version, int error)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__SealRecorded m = LEASEHOLD__SEAL_RECORDED__INIT;

    m.session = s->session;
    m.chunk = chunk;
    m.version = version;
    m.error = (Leasehold__ErrorCode)-error;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED;
    request.seal_recorded = &m;
    server_send(&w, s, &request);
}

static void send_removed(struct server *s, uint64_t chunk)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaRemoved m = LEASEHOLD__REPLICA_REMOVED__INIT;

    m.session = s->session;
    m.chunk = chunk;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REMOVED;
    request.removed = &m;
    server_send(&w, s, &request);
}

static void hear_grant(struct server *s, const Leasehold__Grant *grant)
{
    uint64_t chunk = grant->chunk;

    replica(s, chunk)->version = grant->version;
    grants[chunk].server = s;
    grants[chunk].version = grant->version;
    grants[chunk].members[0] = 0;
    for (size_t i = 0; i < grant->n_members; i++) {
        char word[64];
        snprintf(word, sizeof word, "%s%s", grant->members[i]->joining ? "+" : "",
            grant->members[i]->server_id);
        add(grants[chunk].members, sizeof grants[chunk].members, word);
    }
    server_confirm(&w, s, chunk, grant->version, LH_OK);
}

static void hear_copy(struct server *s, const Leasehold__CopyReplica *copy)
{
    assert_true(order_count < sizeof orders / sizeof *orders);
    struct order *o = &orders[order_count++];
    *o = (struct order){.target = s,
        .chunk = copy->chunk,
        .version = copy->version,
        .length = copy->length,
        .checksum = copy->checksum,
        .sealed = copy->sealed};
    for (size_t i = 0; i < copy->n_sources; i++)
        add(o->sources, sizeof o->sources, copy->sources[i]->server_id);
    struct replica *r = replica(s, copy->chunk);
    if (!r->there)
        *r = (struct replica){.there = true};
    r->copying = true;
}

static bool hear_one(struct server *s)
{
    const Leasehold__SessionReply *r;

    if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_CREATE)) != NULL) {
        *replica(s, r->create->chunk) =
            (struct replica){.there = true, .version = r->create->version};
        server_created(&w, s, r->create->chunk, LH_OK);
    } else if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_GRANT)) != NULL) {
        hear_grant(s, r->grant);
    } else if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL)) != NULL) {
        struct replica *mine = replica(s, r->record_seal->chunk);
        if (deaf_to_seals || !mine->there || mine->lost)
            return true;
        mine->sealed = true;
        mine->version = r->record_seal->version;
        send_seal_recorded(s, r->record_seal->chunk, r->record_seal->version, LH_OK);
    } else if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE)) != NULL) {
        replica(s, r->remove->chunk)->there = false;
        send_removed(s, r->remove->chunk);
    } else if ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_COPY)) != NULL) {
        hear_copy(s, r->copy);
    } else {
        return false;
    }
    return true;
}

static void serve(void)
{
    for (bool more = true; more;) {
        more = false;
        for (unsigned i = 0; i < SERVERS; i++)
            while (servers[i].link != 0 && !silent[i] && hear_one(&servers[i]))
                more = true;
        world_advance(&w, 0);
    }
}

/* ---- What stories have them do. */

static void come_back(struct server *s)
{
    Leasehold__ReplicaReport reports[CHUNKS];
    Leasehold__ChunkVersion held[CHUNKS];
    size_t count = 0, held_count = 0;

    for (uint64_t i = 0; i < CHUNKS; i++) {
        const struct replica *r = replica(s, i);
        if (!r->there)
            continue;
        leasehold__replica_report__init(&reports[count]);
        reports[count].chunk = i;
        reports[count].version = r->version;
        reports[count].sealed = r->sealed;
        reports[count].lost = r->lost;
        reports[count++].copying = r->copying;
        if (grants[i].server == s && !r->sealed) {
            leasehold__chunk_version__init(&held[held_count]);
            held[held_count].chunk = i;
            held[held_count++].version = grants[i].version;
        }
    }
    silent[index_of(s)] = false;
    s->registration++;
    assert_true(server_register_with(&w, s, reports, count, held, held_count));
    assert_true(server_heartbeat(&w, s));
    serve();
}

/* As another process. */
static void restart(struct server *s)
{
    for (uint64_t i = 0; i < CHUNKS; i++)
        if (grants[i].server == s)
            grants[i].server = NULL;
    s->incarnation++;
    s->registration = 0;
    come_back(s);
}

static void start(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        come_back(&servers[i]);
}

static void be_silent(struct server *s)
{
    silent[index_of(s)] = true;
    world_break_link(&w, s->link);
    s->link = 0;
}

static void heartbeats(void)
{
    for (unsigned i = 0; i < SERVERS; i++)
        if (servers[i].link != 0 && !silent[i])
            assert_true(server_heartbeat(&w, &servers[i]));
    serve();
}

/* Time passes; everybody who is not silent shows that it lives, and extends its leases. */
static void pass(uint64_t ms)
{
    for (uint64_t step; ms > 0; ms -= step) {
        step = ms < HEARTBEAT_MS ? ms : HEARTBEAT_MS;
        world_advance(&w, step);
        heartbeats();
        world_forget_lines(&w);
    }
}

static void keep_lease(uint64_t chunk, uint64_t ms)
{
    for (uint64_t done = 0; done < ms; done += 1000) {
        world_advance(&w, 1000);
        heartbeats();
        assert_true(
            server_heartbeat_active(&w, grants[chunk].server, chunk, grants[chunk].version, NULL));
        serve();
        world_forget_lines(&w);
    }
}

static void restart_master(void)
{
    world_crash(&w);
    for (unsigned i = 0; i < SERVERS; i++)
        servers[i].link = 0;
}

static struct order *newest_order(void)
{
    assert_true(order_count > 0);
    return &orders[order_count - 1];
}

static void copied(const struct order *o, int error)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaCopied m = LEASEHOLD__REPLICA_COPIED__INIT;

    m.session = o->target->session;
    m.chunk = o->chunk;
    m.version = o->version;
    m.error = (Leasehold__ErrorCode)-error;
    m.sealed = o->sealed && error == LH_OK;
    m.length = m.copied_bytes = o->length;
    if (error == LH_OK && o->sealed)
        *replica(o->target, o->chunk) =
            (struct replica){.there = true, .sealed = true, .version = o->version};
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_COPIED;
    request.copied = &m;
    server_send(&w, o->target, &request);
    serve();
}

static void recovered(uint64_t chunk, uint64_t version)
{
    server_recovered(&w, grants[chunk].server, chunk, version);
    serve();
}

static void lose_as(struct server *s, uint64_t chunk, bool kept)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__ReplicaLost m = LEASEHOLD__REPLICA_LOST__INIT;

    replica(s, chunk)->lost = true;
    m.session = s->session;
    m.chunk = chunk;
    m.version = replica(s, chunk)->version;
    m.error = LEASEHOLD__ERROR_CODE__CORRUPT;
    m.kept = kept;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_LOST;
    request.lost = &m;
    server_send(&w, s, &request);
    serve();
}

static void lose(struct server *s, uint64_t chunk)
{
    lose_as(s, chunk, false);
}

static void report_failed(uint64_t chunk, const struct server *member)
{
    server_member_failed(&w, grants[chunk].server, chunk, grants[chunk].version, member->id);
    serve();
}

static void has_room(struct server *s, bool yes)
{
    s->free_bytes = yes ? 1u << 30 : 1000;
    assert_true(server_heartbeat(&w, s));
    serve();
}

static void create(const char *path, uint32_t replication)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.replication = replication;
    const Leasehold__CreateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_CREATE, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
}

/* Opens the file's tail; its chunk. */
static uint64_t open_tail(const char *path)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.wait_ms = 9000;
    uint64_t call = world_call(&w, LH_METHOD_OPEN_TAIL, &r);
    serve();
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_non_null(reply);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    return reply->chunk->chunk;
}

static uint64_t open_chunk(const char *path)
{
    create(path, 3);
    uint64_t chunk = open_tail(path);
    recovered(chunk, 1);
    return chunk;
}

static void seal(uint64_t chunk)
{
    server_seal(&w, grants[chunk].server, chunk, grants[chunk].version, 5000);
    serve();
}

static uint64_t sealed_chunk(const char *path)
{
    uint64_t chunk = open_chunk(path);

    seal(chunk);
    return chunk;
}

/* The members as readers see them, in the order of the alphabet: "a b +d". */
static const char *members(const char *path)
{
    static char text[128];
    Leasehold__LocateRequest r = LEASEHOLD__LOCATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    const Leasehold__LocateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    text[0] = 0;
    for (unsigned s = 0; s < SERVERS; s++)
        for (size_t i = 0; i < reply->chunks[0]->n_members; i++) {
            char word[64];
            const Leasehold__Member *m = reply->chunks[0]->members[i];
            snprintf(word, sizeof word, "%s%s", m->joining ? "+" : "", m->server_id);
            if (strcmp(m->server_id, names[s]) == 0)
                add(text, sizeof text, word);
        }
    return text;
}

static const Leasehold__RepairInfo *repair(void)
{
    Leasehold__ListServersRequest r = LEASEHOLD__LIST_SERVERS_REQUEST__INIT;
    const Leasehold__ListServersReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_SERVERS, &r));

    return reply->repair;
}

/* ---- Sealed chunks. */

static void what_a_dead_server_had_is_copied_after_the_grace_period(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = sealed_chunk("/f");
    come_back(d);
    be_silent(c);
    pass(GRACE_MS);
    assert_int_equal(order_count, 0);
    assert_int_equal(repair()->chunks_degraded, 1);
    pass(20000); /* its session took 10 s to end */
    assert_int_equal(order_count, 1);
    assert_ptr_equal(orders[0].target, d);
    assert_true(orders[0].sealed);
    assert_int_equal(orders[0].length, 5000);
    assert_int_equal(orders[0].checksum, 5000 * 31);
    assert_string_equal(orders[0].sources, "a b");
    assert_string_equal(members("/f"), "a b c"); /* nobody goes before somebody has come */
    assert_int_equal(repair()->copies_running, 1);
    copied(&orders[0], LH_OK);
    assert_string_equal(members("/f"), "a b d");
    assert_int_equal(repair()->chunks_degraded, 0);
    assert_int_equal(repair()->copies_done, 1);
    assert_int_equal(repair()->copies_running, 0);

    come_back(c); /* what it has is of no use any more */
    pass(20000);
    assert_false(replica(c, chunk)->there);
    assert_true(replica(d, chunk)->there);
    assert_int_equal(order_count, 1);
}

/* REC-8: three disks that cannot be written have every byte. */
static void what_cannot_be_written_is_copied_from(void **state)
{
    (void)state;
    start(3);
    sealed_chunk("/f");
    for (unsigned i = 3; i < SERVERS; i++)
        come_back(&servers[i]);
    a->read_only = b->read_only = c->read_only = true;
    pass(GRACE_MS - 20000);
    assert_int_equal(order_count, 0);
    assert_int_equal(repair()->chunks_unreadable, 0);
    assert_string_equal(members("/f"), "a b c");
    restart(a); /* such a server starts; and it has the same time as the others */
    pass(40000);
    assert_int_equal(repair()->chunks_unreadable, 0);
    assert_int_equal(strlen(newest_order()->sources), strlen("a b c"));
    for (size_t i = 0; i < order_count && i < 3; i++)
        copied(&orders[i], LH_OK);
    assert_string_equal(members("/f"), "d e f");
    assert_int_equal(repair()->chunks_degraded, 0);
}

static void a_disk_that_does_not_answer_is_no_source(void **state)
{
    (void)state;
    start(3);
    sealed_chunk("/f");
    come_back(d);
    a->failing = b->failing = c->failing = true;
    pass(GRACE_MS + 20000);
    assert_int_equal(order_count, 0);
    assert_int_equal(repair()->chunks_unreadable, 1);
    b->failing = false;
    b->read_only = true;
    pass(20000);
    assert_int_equal(order_count, 1);
    assert_string_equal(newest_order()->sources, "b");
    assert_int_equal(repair()->chunks_unreadable, 0);
}

static void a_new_member_is_durable_before_the_old_one_goes(void **state)
{
    (void)state;
    start(3);
    sealed_chunk("/f");
    come_back(d);
    be_silent(c);
    pass(GRACE_MS + 20000);
    w.hold_commits = true;
    copied(newest_order(), LH_OK);
    assert_int_equal(w.commit_count, 1); /* d is in; c is still */
    restart_master();
    w.hold_commits = false;
    assert_string_equal(members("/f"), "a b c");
    for (unsigned i = 0; i < 4; i++)
        if (i != 2)
            come_back(&servers[i]);
    pass(GRACE_MS + 20000);
    /* d told that it has a sealed replica, so the copy begins, and ends, there. */
    assert_ptr_equal(newest_order()->target, d);
    copied(newest_order(), LH_OK);
    assert_string_equal(members("/f"), "a b d");
}

static void who_is_back_within_the_grace_period_costs_nothing(void **state)
{
    (void)state;
    start(3);
    sealed_chunk("/f");
    come_back(d);
    be_silent(c);
    pass(GRACE_MS - 60000);
    come_back(c);
    pass(GRACE_MS);
    assert_int_equal(order_count, 0);
    assert_int_equal(repair()->chunks_degraded, 0);
    assert_string_equal(members("/f"), "a b c");
}

static void copies_that_are_not_needed_any_more_are_cancelled(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = sealed_chunk("/f");
    come_back(d);
    be_silent(c);
    pass(GRACE_MS + 20000);
    assert_int_equal(order_count, 1);
    come_back(c);
    assert_int_equal(repair()->copies_running, 0);
    assert_string_equal(members("/f"), "a b c");
    pass(20000);
    assert_false(replica(d, chunk)->there);
    copied(&orders[0], LH_OK); /* too late */
    assert_string_equal(members("/f"), "a b c");
}

static void the_most_endangered_chunk_is_copied_first(void **state)
{
    (void)state;
    w.config.repair_streams = 1;
    restart_master();
    start(5);
    has_room(b, false);
    has_room(d, false);
    uint64_t less = sealed_chunk("/less"); /* on a, c, e */
    has_room(b, true);
    has_room(e, false);
    uint64_t more = sealed_chunk("/more"); /* on a, b, c */
    assert_string_equal(members("/less"), "a c e");
    assert_string_equal(members("/more"), "a b c");
    has_room(a, false);
    has_room(b, false);
    has_room(c, false);
    has_room(d, true);
    be_silent(a);
    be_silent(b);
    pass(GRACE_MS + 20000);
    assert_int_equal(order_count, 1); /* d takes one at a time */
    assert_true(more > less);
    assert_int_equal(orders[0].chunk, more);
    assert_string_equal(orders[0].sources, "c");
    assert_int_equal(repair()->chunks_endangered, 1);
    assert_int_equal(repair()->chunks_degraded, 2);
    assert_int_equal(repair()->bytes_left, 5000 + 5000 + 5000); /* one copy runs, two wait */
    copied(&orders[0], LH_OK);
    assert_int_equal(repair()->chunks_endangered, 0);
    assert_int_equal(order_count, 2);
    assert_int_equal(orders[1].chunk, less);
    assert_string_equal(orders[1].sources, "c e");
}

/* REC-9: what can still be read of damaged replicas makes none of them whole. */
static void a_chunk_with_damaged_replicas_is_not_called_whole(void **state)
{
    (void)state;
    w.config.repair_streams = 0;
    restart_master();
    start(3);
    uint64_t chunk = sealed_chunk("/f");
    lose_as(a, chunk, true);
    assert_int_equal(repair()->chunks_degraded, 1);
    assert_int_equal(repair()->chunks_endangered, 0);
    lose_as(b, chunk, true);
    assert_int_equal(repair()->chunks_endangered, 1);
    lose_as(c, chunk, true);
    assert_int_equal(repair()->chunks_unreadable, 1); /* without a good replica */
}

static void a_server_gets_so_many_copies_at_a_time(void **state)
{
    char path[8];

    (void)state;
    start(3);
    for (unsigned i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "/%u", i);
        sealed_chunk(path);
    }
    come_back(d);
    be_silent(c);
    pass(GRACE_MS + 20000);
    assert_int_equal(order_count, 2);
    assert_int_equal(repair()->copies_running, 2);
    assert_int_equal(repair()->copies_waiting, 4);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(order_count, i + 2 < 6 ? i + 2 : 6);
        copied(&orders[i], LH_OK);
    }
    assert_int_equal(repair()->chunks_degraded, 0);
    assert_int_equal(repair()->copies_waiting, 0);
}

static void who_comes_back_without_its_replicas_gets_them_again(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = sealed_chunk("/f");
    memset(disks[2], 0, sizeof disks[2]); /* its disk was replaced */
    restart(c);
    assert_int_equal(order_count, 1); /* at once: nothing will bring them back */
    assert_ptr_equal(orders[0].target, c);
    assert_string_equal(orders[0].sources, "a b");
    assert_int_equal(repair()->chunks_degraded, 1);
    copied(&orders[0], LH_OK);
    assert_int_equal(repair()->chunks_degraded, 0);
    assert_string_equal(members("/f"), "a b c");
    pass(120000);
    assert_int_equal(order_count, 1);
    assert_true(replica(c, chunk)->there);
}

/* And nothing is copied. */
static uint64_t given_a_lost_replica(void)
{
    w.config.repair_streams = 0;
    restart_master();
    start(3);
    uint64_t chunk = sealed_chunk("/f");
    lose(c, chunk);
    assert_int_equal(repair()->chunks_degraded, 1);
    return chunk;
}

static void a_lost_replica_stays_lost_until_it_is_copied(void **state)
{
    (void)state;
    uint64_t chunk = given_a_lost_replica();
    replica(c, chunk)->lost = false; /* a restart makes it look well */
    restart(c);
    assert_int_equal(repair()->chunks_degraded, 1);
    w.config.repair_streams = 2;
    restart_master();
    start(3);
    assert_int_equal(repair()->chunks_degraded, 1);
    assert_int_equal(order_count, 1);
    assert_ptr_equal(orders[0].target, c);
    copied(&orders[0], LH_OK);
    assert_int_equal(repair()->chunks_degraded, 0);
    restart_master();
    start(3);
    assert_int_equal(repair()->chunks_degraded, 0);
    assert_int_equal(order_count, 1);
}

/* FAIL-5: not by a word that nobody has asked for. */
static void a_lost_replica_is_made_good_by_no_late_word(void **state)
{
    (void)state;
    uint64_t chunk = given_a_lost_replica();
    struct order unasked = {.target = c, .chunk = chunk, .version = 1, .sealed = true};
    copied(&unasked, LH_OK);
    assert_int_equal(repair()->chunks_degraded, 1);
}

static void nothing_is_copied_from_who_missed_the_seal(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    deaf_to_seals = true;
    struct server *primary = grants[chunk].server;
    seal(chunk);
    for (unsigned i = 0; i < 3; i++)
        send_seal_recorded(
            &servers[i], chunk, 1, &servers[i] == primary ? LH_OK : LH_ERR_UNAVAILABLE);
    serve();
    assert_int_equal(order_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_ptr_not_equal(orders[i].target, primary);
        assert_string_equal(orders[i].sources, primary->id);
    }
    copied(&orders[0], LH_OK);
    copied(&orders[1], LH_OK);
    assert_int_equal(repair()->chunks_degraded, 0);
}

static void the_seal_is_told_again_to_who_did_not_answer(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    deaf_to_seals = true;
    seal(chunk);
    assert_false(replica(a, chunk)->sealed || replica(b, chunk)->sealed);
    deaf_to_seals = false;
    pass(70000);
    assert_true(
        replica(a, chunk)->sealed && replica(b, chunk)->sealed && replica(c, chunk)->sealed);
}

static void a_copy_that_fails_goes_elsewhere(void **state)
{
    (void)state;
    start(3);
    sealed_chunk("/f");
    come_back(d);
    come_back(e);
    be_silent(c);
    pass(GRACE_MS + 20000);
    assert_int_equal(order_count, 1);
    struct server *first = orders[0].target;
    copied(&orders[0], LH_ERR_UNAVAILABLE);
    assert_int_equal(order_count, 1); /* not at once */
    pass(10000);
    assert_int_equal(order_count, 2);
    assert_ptr_not_equal(orders[1].target, first);
    pass(40000); /* it says nothing */
    assert_int_equal(order_count, 3);
    assert_ptr_equal(orders[2].target, first);
    copied(&orders[2], LH_OK);
    assert_int_equal(repair()->chunks_degraded, 0);
}

static void copies_of_a_removed_file_end(void **state)
{
    Leasehold__RemoveRequest r = LEASEHOLD__REMOVE_REQUEST__INIT;

    (void)state;
    start(3);
    uint64_t chunk = sealed_chunk("/f");
    come_back(d);
    be_silent(c);
    pass(GRACE_MS + 20000);
    assert_int_equal(order_count, 1);
    assert_true(replica(d, chunk)->there);
    r.path = "/f";
    r.now = true;
    world_call(&w, LH_METHOD_REMOVE, &r);
    serve();
    assert_false(replica(d, chunk)->there);
    assert_int_equal(repair()->copies_running, 0);
    assert_int_equal(repair()->chunks_degraded, 0);
    copied(&orders[0], LH_OK);
    pass(20000);
}

static void a_restarted_master_begins_the_copies_anew(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = sealed_chunk("/f");
    come_back(d);
    come_back(e);
    be_silent(c);
    pass(GRACE_MS + 20000);
    assert_int_equal(order_count, 1);
    struct server *first = orders[0].target;
    restart_master();
    for (unsigned i = 0; i < 5; i++)
        if (i != 2)
            come_back(&servers[i]);
    pass(10000);
    assert_int_equal(order_count, 1); /* c has its time to come back to this master too */
    pass(GRACE_MS);
    assert_int_equal(order_count, 2);
    assert_ptr_equal(orders[1].target, first); /* where a part of it is already */
    copied(&orders[1], LH_OK);
    assert_int_equal(repair()->chunks_degraded, 0);
    assert_true(replica(first, chunk)->there);
}

static void without_a_good_replica_nothing_is_dropped(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = sealed_chunk("/f");
    come_back(d);
    come_back(e);
    lose(a, chunk);
    lose(b, chunk);
    order_count = 0;
    be_silent(c);
    pass(GRACE_MS + 60000);
    assert_int_equal(repair()->chunks_unreadable, 1);
    assert_string_equal(members("/f"), "a b c");
    come_back(c);
    pass(10000);
    assert_true(order_count >= 2);
    for (size_t i = 0; i < order_count; i++)
        assert_string_equal(orders[i].sources, "c");
}

/* ---- Open chunks. */

static void a_server_joins_an_open_chunk_through_its_primary(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    struct server *primary = grants[chunk].server;
    struct server *failed = primary == a ? b : a;
    come_back(d);
    be_silent(failed);
    report_failed(chunk, failed);
    assert_int_equal(grants[chunk].version, 2);
    recovered(chunk, 2);
    assert_int_equal(order_count, 0); /* it may be back at once */
    keep_lease(chunk, 12000);
    assert_int_equal(order_count, 1);
    assert_ptr_equal(orders[0].target, d);
    assert_false(orders[0].sealed);
    assert_int_equal(strlen(orders[0].sources), 3);
    assert_ptr_equal(strchr(orders[0].sources, primary->id[0]), &orders[0].sources[2]);
    copied(&orders[0], LH_OK);
    assert_int_equal(grants[chunk].version, 3);
    assert_non_null(strstr(grants[chunk].members, "+d"));
    assert_non_null(strstr(members("/f"), "+d"));
    recovered(chunk, 2); /* of the version before */
    assert_non_null(strstr(members("/f"), "+d"));
    recovered(chunk, 3);
    assert_null(strstr(members("/f"), "+d"));
    assert_non_null(strstr(members("/f"), "d"));
    assert_int_equal(grants[chunk].version, 3); /* the same, sent again */
    assert_null(strstr(grants[chunk].members, "+d"));
    assert_int_equal(repair()->chunks_degraded, 0);
    keep_lease(chunk, 20000);
    assert_int_equal(order_count, 1);
    assert_int_equal(grants[chunk].version, 3);
}

/* The new version would wait for it, and so would whoever appends. */
static void nobody_joins_while_a_members_stream_is_broken(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    struct server *primary = grants[chunk].server;
    struct server *failed = primary == a ? b : a, *other = primary == c ? b : c;
    if (other == failed)
        other = a;
    come_back(d);
    be_silent(failed);
    report_failed(chunk, failed);
    recovered(chunk, 2);
    keep_lease(chunk, 12000);
    assert_int_equal(order_count, 1);
    be_silent(other);
    copied(&orders[0], LH_OK);
    assert_int_equal(grants[chunk].version, 2);
    come_back(other);
    assert_int_equal(grants[chunk].version, 3);
    assert_non_null(strstr(grants[chunk].members, "+d"));
}

static void whose_session_is_over_keeps_nobody_from_joining(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    come_back(d);
    struct server *failed = grants[chunk].server == a ? b : a;
    struct server *other = grants[chunk].server == c ? (failed == a ? b : a) : c;
    be_silent(failed);
    report_failed(chunk, failed);
    recovered(chunk, 2);
    keep_lease(chunk, 12000);
    be_silent(other);
    copied(&orders[0], LH_OK);
    assert_int_equal(grants[chunk].version, 2);
    keep_lease(chunk, 15000);
    assert_int_equal(grants[chunk].version, 3);
    assert_non_null(strstr(grants[chunk].members, "+d"));
}

/* A file whose chunk is on a, b and (joining) d; c failed. Returns its chunk. */
static uint64_t chunk_with_joining_member(void)
{
    start(3);
    uint64_t chunk = open_chunk("/f");
    come_back(d);
    struct server *failed = grants[chunk].server == c ? b : c;
    be_silent(failed);
    report_failed(chunk, failed);
    keep_lease(chunk, 12000);
    copied(newest_order(), LH_OK);
    assert_non_null(strstr(grants[chunk].members, "+d"));
    return chunk;
}

/* Registering again it calls its copy incomplete; that the next primary found it equal counts. */
static void a_member_that_is_found_equal_has_its_replica(void **state)
{
    (void)state;
    uint64_t chunk = chunk_with_joining_member();
    come_back(d);
    server_release(&w, grants[chunk].server, chunk, grants[chunk].version);
    pass(1000);
    open_tail("/f");
    serve();
    recovered(chunk, grants[chunk].version);
    assert_null(strstr(members("/f"), "+d"));
    assert_non_null(strstr(members("/f"), "d"));
    assert_int_equal(repair()->chunks_degraded, 0);
}

/* It registers again, and calls its copy incomplete, between the grant and the report of its
 * recovery: what it confirmed may have been before. A full member that its session has not shown
 * would be taken for one that has lost its replica, and left out even if all others lack bytes. */
static void a_joining_member_that_has_registered_since_confirms_again(void **state)
{
    (void)state;
    uint64_t chunk = chunk_with_joining_member();
    uint64_t version = grants[chunk].version;
    come_back(d);
    pass(10);
    recovered(chunk, version);
    assert_non_null(strstr(members("/f"), "+d"));
    assert_int_equal(grants[chunk].version, version + 1);
    assert_non_null(strstr(grants[chunk].members, "+d"));
    recovered(chunk, version + 1);
    assert_null(strstr(members("/f"), "+d"));
    assert_int_equal(repair()->chunks_degraded, 0);
    report_failed(chunk, d);
    assert_int_equal(grants[chunk].version, version + 2);
}

static void who_joins_becomes_full_durably_before_it_counts(void **state)
{
    (void)state;
    uint64_t chunk = chunk_with_joining_member();
    w.hold_commits = true;
    recovered(chunk, grants[chunk].version);
    assert_non_null(strstr(grants[chunk].members, "+d")); /* not told yet */
    restart_master();
    w.hold_commits = false;
    assert_non_null(strstr(members("/f"), "+d"));
    struct server *primary = grants[chunk].server;
    replica(d, chunk)->copying = false; /* equality was confirmed, and is durable there */
    grants[chunk].members[0] = 0;
    come_back(primary);
    for (unsigned i = 0; i < 4; i++)
        if (&servers[i] != primary && !silent[i])
            come_back(&servers[i]);
    recovered(chunk, grants[chunk].version); /* told in each session */
    assert_null(strstr(members("/f"), "+d"));
    assert_null(strstr(grants[chunk].members, "+d"));
    assert_non_null(strstr(grants[chunk].members, "d"));
}

static void a_primary_that_missed_it_hears_again_who_is_full(void **state)
{
    (void)state;
    uint64_t chunk = chunk_with_joining_member();
    struct server *primary = grants[chunk].server;
    recovered(chunk, grants[chunk].version);
    restart_master();
    snprintf(grants[chunk].members, sizeof grants[chunk].members, "lost");
    come_back(primary);
    recovered(chunk, grants[chunk].version);
    assert_null(strstr(grants[chunk].members, "+d"));
    assert_non_null(strstr(grants[chunk].members, "d"));
}

static void a_joining_member_that_fails_is_left_out(void **state)
{
    (void)state;
    uint64_t chunk = chunk_with_joining_member();
    uint64_t version = grants[chunk].version;
    report_failed(chunk, d);
    assert_int_equal(grants[chunk].version, version + 1);
    assert_null(strchr(grants[chunk].members, 'd'));
    assert_int_equal(strlen(members("/f")), 3);
}

static void a_joining_member_does_not_count_towards_the_smallest_set(void **state)
{
    (void)state;
    uint64_t chunk = chunk_with_joining_member();
    uint64_t version = grants[chunk].version;
    struct server *primary = grants[chunk].server, *other = NULL;
    for (unsigned i = 0; i < 3; i++)
        if (&servers[i] != primary && !silent[i])
            other = &servers[i];
    report_failed(chunk, other); /* the primary and d would be left: one full member */
    assert_int_equal(grants[chunk].version, version);
    assert_non_null(strstr(members("/f"), other->id));
}

static void a_joining_member_is_never_granted(void **state)
{
    (void)state;
    uint64_t chunk = chunk_with_joining_member();
    struct server *primary = grants[chunk].server, *other = NULL;
    for (unsigned i = 0; i < 3; i++)
        if (&servers[i] != primary && !silent[i])
            other = &servers[i];
    be_silent(other);
    pass(20000);
    grants[chunk].server = NULL;
    server_release(&w, primary, chunk, grants[chunk].version);
    be_silent(primary);
    pass(100000);
    assert_null(grants[chunk].server); /* d alone is there */
}

static void members_that_are_of_no_use_do_not_block_the_repair(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    struct server *primary = grants[chunk].server;
    struct server *others[2];
    for (unsigned i = 0, n = 0; i < 3; i++)
        if (&servers[i] != primary)
            others[n++] = &servers[i];
    for (unsigned i = 0; i < 2; i++) { /* their disks were replaced */
        memset(disks[index_of(others[i])], 0, sizeof disks[0]);
        restart(others[i]);
    }
    report_failed(chunk, others[0]);
    assert_int_equal(grants[chunk].version, 2);
    report_failed(chunk, others[1]); /* only one is left of at least two: it takes no appends now */
    assert_int_equal(grants[chunk].version, 3);
    assert_string_equal(members("/f"), primary->id);
    recovered(chunk, 3);
    keep_lease(chunk, 12000);
    for (uint64_t version = 3; version < 5; version++) {
        assert_int_equal(strlen(newest_order()->sources), version == 3 ? 1 : 3);
        copied(newest_order(), LH_OK);
        assert_int_equal(grants[chunk].version, version + 1);
        recovered(chunk, version + 1);
        keep_lease(chunk, 12000);
    }
    assert_int_equal(strlen(members("/f")), 5);
    assert_int_equal(repair()->chunks_degraded, 0);
}

static void an_idle_tail_is_granted_so_that_its_members_are_looked_after(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    come_back(d);
    server_release(&w, grants[chunk].server, chunk, 1);
    grants[chunk].server = NULL;
    be_silent(c);
    pass(GRACE_MS);
    assert_null(grants[chunk].server); /* it may come back */
    pass(30000);
    assert_non_null(grants[chunk].server);
    assert_int_equal(grants[chunk].version, 2);
    report_failed(chunk, c);
    recovered(chunk, 3);
    keep_lease(chunk, 12000);
    assert_ptr_equal(newest_order()->target, d);
    copied(newest_order(), LH_OK);
    recovered(chunk, 4);
    assert_int_equal(repair()->chunks_degraded, 0);
    assert_non_null(strstr(grants[chunk].members, "d"));
    assert_null(strstr(grants[chunk].members, "c"));
}

/* KEEP-5: for as long as it can be restored. */
static void the_tail_of_a_file_in_the_trash_is_looked_after(void **state)
{
    Leasehold__RemoveRequest r = LEASEHOLD__REMOVE_REQUEST__INIT;

    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    come_back(d);
    r.path = (char *)(uintptr_t) "/f";
    const Leasehold__RemoveReply *reply = world_reply(&w, world_call(&w, LH_METHOD_REMOVE, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    server_release(&w, grants[chunk].server, chunk, 1);
    grants[chunk].server = NULL;
    be_silent(c);
    pass(GRACE_MS + 30000);
    assert_non_null(grants[chunk].server);
    report_failed(chunk, c);
    recovered(chunk, 3);
    keep_lease(chunk, 12000);
    assert_ptr_equal(newest_order()->target, d);
    copied(newest_order(), LH_OK);
    recovered(chunk, 4);
    assert_int_equal(repair()->chunks_degraded, 0);
}

static void an_idle_tail_is_left_alone_if_nobody_could_join(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    server_release(&w, grants[chunk].server, chunk, 1);
    grants[chunk].server = NULL;
    be_silent(c);
    pass(2 * GRACE_MS);
    assert_null(grants[chunk].server);
    assert_string_equal(members("/f"), "a b c");
}

static void who_was_left_out_for_a_moment_joins_first(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    struct server *failed = grants[chunk].server == c ? b : c;
    come_back(d);
    come_back(e);
    be_silent(failed);
    report_failed(chunk, failed);
    recovered(chunk, 2);
    come_back(failed);
    keep_lease(chunk, 12000);
    assert_int_equal(order_count, 1);
    assert_ptr_equal(orders[0].target, failed);
}

static void a_copy_that_was_to_join_goes_on_when_the_chunk_is_sealed(void **state)
{
    (void)state;
    start(3);
    uint64_t chunk = open_chunk("/f");
    struct server *failed = grants[chunk].server == c ? b : c;
    come_back(d);
    be_silent(failed);
    report_failed(chunk, failed);
    keep_lease(chunk, 12000);
    assert_int_equal(order_count, 1);
    seal(chunk);
    assert_int_equal(order_count, 2);
    assert_ptr_equal(orders[1].target, d);
    assert_true(orders[1].sealed);
    copied(&orders[0], LH_OK); /* it had caught up before it heard of that */
    assert_int_equal(strlen(members("/f")), 3);
    copied(&orders[1], LH_OK);
    assert_int_equal(strlen(members("/f")), 5);
    assert_int_equal(repair()->chunks_degraded, 0);
}

static void a_seal_while_somebody_joins_leaves_it_to_be_refreshed(void **state)
{
    (void)state;
    uint64_t chunk = chunk_with_joining_member();
    deaf_to_seals = true;
    seal(chunk);
    assert_null(strstr(members("/f"), "+"));
    assert_int_equal(repair()->chunks_degraded, 1);
    for (unsigned i = 0; i < 4; i++)
        if (!silent[i])
            send_seal_recorded(&servers[i], chunk, grants[chunk].version,
                &servers[i] == d ? LH_ERR_UNAVAILABLE : LH_OK);
    serve();
    assert_ptr_equal(newest_order()->target, d);
    assert_true(newest_order()->sealed);
    assert_null(strchr(newest_order()->sources, 'd'));
    copied(newest_order(), LH_OK);
    assert_int_equal(repair()->chunks_degraded, 0);
}

static void a_spare_whose_server_registered_anew_is_not_missing(void **state)
{
    (void)state;
    start(3);
    sealed_chunk("/f");
    uint64_t second = open_tail("/f");
    seal(second);
    uint64_t third = open_tail("/f"); /* the file is of the growing kind now: it has a spare */
    assert_true(replica(b, third + 1)->there);
    come_back(b);
    seal(third);
    assert_int_equal(open_tail("/f"), third + 1);
    pass(70000);
    assert_int_equal(repair()->chunks_degraded, 0);
    assert_int_equal(order_count, 0);
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(what_a_dead_server_had_is_copied_after_the_grace_period),
        STORY(what_cannot_be_written_is_copied_from),
        STORY(a_disk_that_does_not_answer_is_no_source),
        STORY(a_new_member_is_durable_before_the_old_one_goes),
        STORY(who_is_back_within_the_grace_period_costs_nothing),
        STORY(copies_that_are_not_needed_any_more_are_cancelled),
        STORY(a_chunk_with_damaged_replicas_is_not_called_whole),
        STORY(the_most_endangered_chunk_is_copied_first),
        STORY(a_server_gets_so_many_copies_at_a_time),
        STORY(who_comes_back_without_its_replicas_gets_them_again),
        STORY(a_lost_replica_stays_lost_until_it_is_copied),
        STORY(a_lost_replica_is_made_good_by_no_late_word),
        STORY(nothing_is_copied_from_who_missed_the_seal),
        STORY(the_seal_is_told_again_to_who_did_not_answer),
        STORY(a_copy_that_fails_goes_elsewhere),
        STORY(copies_of_a_removed_file_end),
        STORY(a_restarted_master_begins_the_copies_anew),
        STORY(without_a_good_replica_nothing_is_dropped),
        STORY(a_server_joins_an_open_chunk_through_its_primary),
        STORY(a_member_that_is_found_equal_has_its_replica),
        STORY(nobody_joins_while_a_members_stream_is_broken),
        STORY(whose_session_is_over_keeps_nobody_from_joining),
        STORY(who_joins_becomes_full_durably_before_it_counts),
        STORY(a_primary_that_missed_it_hears_again_who_is_full),
        STORY(a_joining_member_that_has_registered_since_confirms_again),
        STORY(a_joining_member_that_fails_is_left_out),
        STORY(a_joining_member_does_not_count_towards_the_smallest_set),
        STORY(a_joining_member_is_never_granted),
        STORY(members_that_are_of_no_use_do_not_block_the_repair),
        STORY(an_idle_tail_is_granted_so_that_its_members_are_looked_after),
        STORY(the_tail_of_a_file_in_the_trash_is_looked_after),
        STORY(an_idle_tail_is_left_alone_if_nobody_could_join),
        STORY(who_was_left_out_for_a_moment_joins_first),
        STORY(a_copy_that_was_to_join_goes_on_when_the_chunk_is_sealed),
        STORY(a_seal_while_somebody_joins_leaves_it_to_be_refreshed),
        STORY(a_spare_whose_server_registered_anew_is_not_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
