/* Four chunkservers and some calls, for stories on a master_world. */
#pragma once

#include "tests/core/master/master_world.h"

#include "proto/stored.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEARTBEAT_MS 3300u
#define SERVERS      4u

static struct world w;
static struct server servers[SERVERS];
static struct server *const a = &servers[0], *const b = &servers[1], *const c = &servers[2],
                            *const d = &servers[3];

static inline int set_up(void **state)
{
    static const char *const names[SERVERS] = {"a", "b", "c", "d"};

    (void)state;
    world_open(&w);
    for (size_t i = 0; i < SERVERS; i++)
        servers[i] = (struct server){.id = names[i], .incarnation = 1, .registration = 1};
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* As the store has it: an open chunk on the first three servers. It stays until the next call. */
static inline LeaseholdStored__Chunk stored_chunk(uint64_t file, uint64_t index, uint64_t id)
{
    static LeaseholdStored__Member members[SERVERS], *pointers[SERVERS];
    LeaseholdStored__Chunk record = LEASEHOLD_STORED__CHUNK__INIT;

    for (size_t i = 0; i < SERVERS; i++) {
        leasehold_stored__member__init(&members[i]);
        members[i].server_id = (char *)(uintptr_t)servers[i].id;
        pointers[i] = &members[i];
    }
    record.chunk = id;
    record.file = file;
    record.index = index;
    record.start = index * 1000;
    record.version = 2;
    record.n_members = 3;
    record.members = pointers;
    record.created = true;
    return record;
}

static inline bool is_up(const struct server *s)
{
    return s->link != 0 && s->session != 0;
}

static inline void up(struct server *s)
{
    assert_true(server_register(&w, s));
    assert_true(server_heartbeat(&w, s));
}

static inline void three_up(void)
{
    up(a);
    up(b);
    up(c);
}

static inline void heartbeats(uint64_t ms)
{
    for (uint64_t done = 0; done < ms; done += HEARTBEAT_MS) {
        world_advance(&w, HEARTBEAT_MS);
        for (size_t i = 0; i < SERVERS; i++)
            if (is_up(&servers[i]))
                assert_true(server_heartbeat(&w, &servers[i]));
    }
}

static inline void down(struct server *s)
{
    world_break_link(&w, s->link);
    s->link = s->session = 0;
}

/* The master dies and is started again; nobody has registered with it yet. */
static inline void crash(void)
{
    for (size_t i = 0; i < SERVERS; i++)
        servers[i].link = servers[i].session = 0;
    world_crash(&w);
}

static inline Leasehold__ReplicaReport report_of(uint64_t chunk, uint64_t version, bool sealed)
{
    Leasehold__ReplicaReport r = LEASEHOLD__REPLICA_REPORT__INIT;

    r.chunk = chunk;
    r.version = version;
    r.sealed = sealed;
    return r;
}

/* A new process on the same machine, with these replicas. */
static inline void come_with(
    struct server *s, const Leasehold__ReplicaReport *reports, size_t count)
{
    if (s->link != 0)
        world_break_link(&w, s->link);
    s->link = 0;
    s->incarnation++;
    assert_true(server_register_with(&w, s, reports, count, NULL, 0));
    assert_true(server_heartbeat(&w, s));
}

static inline void make_file(const char *path)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    const Leasehold__CreateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_CREATE, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
}

static inline uint64_t open_tail(const char *path, uint64_t wait_ms)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.wait_ms = wait_ms;
    return world_call(&w, LH_METHOD_OPEN_TAIL, &r);
}

/* Everybody does what it is asked: creates replicas, confirms grants, records seals. The chunk that
 * was granted last, 0 if none was; `*primary` its holder. */
static inline uint64_t obey(struct server **primary)
{
    uint64_t chunk = 0;
    const Leasehold__SessionReply *r;

    for (size_t i = 0; i < SERVERS; i++)
        while (is_up(&servers[i]) &&
               (r = world_next(&w, servers[i].link, LEASEHOLD__SESSION_REPLY__BODY_CREATE)) != NULL)
            server_created(&w, &servers[i], r->create->chunk, LH_OK);
    for (size_t i = 0; i < SERVERS; i++) {
        struct server *s = &servers[i];
        while (is_up(s) &&
               (r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_GRANT)) != NULL) {
            chunk = r->grant->chunk;
            *primary = s;
            server_confirm(&w, s, chunk, r->grant->version, LH_OK);
        }
    }
    for (size_t i = 0; i < SERVERS; i++) {
        struct server *s = &servers[i];
        while (is_up(s) &&
               (r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_RECORD_SEAL)) != NULL) {
            Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
            Leasehold__SealRecorded recorded = LEASEHOLD__SEAL_RECORDED__INIT;
            recorded.session = s->session;
            recorded.chunk = r->record_seal->chunk;
            recorded.version = r->record_seal->version;
            request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_SEAL_RECORDED;
            request.seal_recorded = &recorded;
            server_send(&w, s, &request);
        }
    }
    return chunk;
}

/* A file whose tail has a primary; the tail. */
static inline uint64_t file_with_primary(const char *path, struct server **primary)
{
    make_file(path);
    open_tail(path, 1000);
    uint64_t chunk = obey(primary);
    assert_int_not_equal(chunk, 0);
    return chunk;
}

/* A file with one chunk, which is sealed at 1000 bytes at version 1; the chunk. */
static inline uint64_t sealed_file(const char *path)
{
    struct server *primary = NULL;
    uint64_t chunk = file_with_primary(path, &primary);

    server_seal(&w, primary, chunk, 1, 1000);
    obey(&primary);
    return chunk;
}

/* The state of the chunk's lease. */
static inline const char *state_of(uint64_t chunk)
{
    Leasehold__ListLeasesRequest r = LEASEHOLD__LIST_LEASES_REQUEST__INIT;

    r.all = true;
    r.after_chunk = chunk - 1;
    r.limit = 1;
    const Leasehold__ListLeasesReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_LEASES, &r));
    assert_int_equal(reply->n_leases, 1);
    return reply->leases[0]->state;
}

static inline const Leasehold__RemoveReply *remove_file(const char *path, uint64_t file, bool now)
{
    Leasehold__RemoveRequest r = LEASEHOLD__REMOVE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.file = file;
    r.now = now;
    return world_reply(&w, world_call(&w, LH_METHOD_REMOVE, &r));
}

static inline const Leasehold__GarbageReply *garbage(bool resume)
{
    Leasehold__GarbageRequest r = LEASEHOLD__GARBAGE_REQUEST__INIT;

    r.resume = resume;
    return world_reply(&w, world_call(&w, LH_METHOD_GARBAGE, &r));
}

/* The next removal that the server was sent; NULL: none. */
static inline const Leasehold__RemoveReplica *told_to_remove(struct server *s)
{
    const Leasehold__SessionReply *r =
        world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_REMOVE);

    return r == NULL ? NULL : r->remove;
}

static inline const Leasehold__ExplainReply *explain(const char *path, uint64_t chunk)
{
    Leasehold__ExplainRequest r = LEASEHOLD__EXPLAIN_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.chunk = chunk;
    return world_reply(&w, world_call(&w, LH_METHOD_EXPLAIN, &r));
}

/* Does one of the sentences say that? */
static inline bool says(const Leasehold__ExplainReply *reply, const char *what)
{
    for (size_t i = 0; i < reply->n_sentences; i++)
        if (strstr(reply->sentences[i], what) != NULL)
            return true;
    for (size_t i = 0; i < reply->n_sentences; i++)
        print_message("not \"%s\": %s\n", what, reply->sentences[i]);
    return false;
}
