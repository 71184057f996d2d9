/* Values, for stories on a master_world: changes, reads, watchers. */
#pragma once

#include "tests/core/master/master_programs.h"

static inline ProtobufCBinaryData text_bytes(const char *text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
}

static inline void crash(void)
{
    world_crash(&w);
}

/* A put; `value` NULL: a deletion. */
static inline Leasehold__ChangeRequest change_to(const char *name, const char *value)
{
    Leasehold__ChangeRequest r = LEASEHOLD__CHANGE_REQUEST__INIT;

    r.name = (char *)(uintptr_t)name;
    r.remove = value == NULL;
    if (value != NULL)
        r.value = text_bytes(value);
    return r;
}

static inline uint64_t begin_change(const Leasehold__ChangeRequest *r)
{
    return world_call(&w, LH_METHOD_CHANGE, r);
}

static inline uint64_t begin_put(const char *name, const char *value)
{
    Leasehold__ChangeRequest r = change_to(name, value);

    return begin_change(&r);
}

static inline const Leasehold__ChangeReply *change_reply(uint64_t link)
{
    return world_reply(&w, link);
}

/* The change is through; its revision. */
static inline uint64_t changed(uint64_t link)
{
    const Leasehold__ChangeReply *reply = change_reply(link);

    assert_non_null(reply);
    if (reply->error != LEASEHOLD__ERROR_CODE__OK)
        print_message("%s\n", reply->error_text);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    return reply->revision;
}

static inline uint64_t put_value(const char *name, const char *value)
{
    Leasehold__ChangeRequest r = change_to(name, value);

    return changed(begin_change(&r));
}

static inline void change_refused(uint64_t link, Leasehold__ErrorCode error)
{
    const Leasehold__ChangeReply *reply = change_reply(link);

    assert_non_null(reply);
    assert_int_equal(reply->error, error);
}

static inline const Leasehold__GetReply *get_value(const char *name)
{
    Leasehold__GetRequest r = LEASEHOLD__GET_REQUEST__INIT;

    r.name = (char *)(uintptr_t)name;
    return world_reply(&w, world_call(&w, LH_METHOD_GET, &r));
}

static inline bool is_text(const ProtobufCBinaryData *bytes, const char *text)
{
    return bytes->len == strlen(text) && memcmp(bytes->data, text, bytes->len) == 0;
}

/* `value` NULL: there is none. */
static inline void value_is(const char *name, const char *value)
{
    const Leasehold__GetReply *reply = get_value(name);

    assert_non_null(reply);
    assert_int_equal(reply->error == LEASEHOLD__ERROR_CODE__NOT_FOUND, value == NULL);
    if (value != NULL)
        assert_true(is_text(&reply->value->value, value));
}

static inline Leasehold__CallId call_id(uint64_t number, bool repeated)
{
    Leasehold__CallId id = LEASEHOLD__CALL_ID__INIT;

    id.client = 4711;
    id.number = number;
    id.repeated = repeated;
    return id;
}

/* ---- Watching. */

static inline uint64_t watch(const char *prefix, uint64_t from)
{
    Leasehold__WatchRequest r = LEASEHOLD__WATCH_REQUEST__INIT;
    uint64_t link = world_open_link(&w, LH_METHOD_WATCH);

    r.prefix = (char *)(uintptr_t)prefix;
    r.from = from;
    world_message(&w, link, &r);
    return link;
}

/* The next reply that was not taken yet; NULL: none. */
static inline const Leasehold__WatchReply *watched(uint64_t link)
{
    for (size_t i = 0; i < w.line_count; i++) {
        struct line *line = &w.lines[i];
        if (line->link != link || line->taken || line->message == NULL)
            continue;
        line->taken = true;
        return (const Leasehold__WatchReply *)line->message;
    }
    return NULL;
}

static inline void is_event(
    const Leasehold__WatchReply *r, size_t i, const char *name, const char *value)
{
    assert_true(r != NULL && i < r->n_events);
    assert_string_equal(r->events[i]->name, name);
    assert_int_equal(r->events[i]->removed, value == NULL);
    if (value != NULL)
        assert_true(is_text(&r->events[i]->value, value));
}

/* ---- Policies. */

static inline Leasehold__Policy policy_for(const char *prefix)
{
    Leasehold__Policy p = LEASEHOLD__POLICY__INIT;

    p.prefix = (char *)(uintptr_t)prefix;
    return p;
}

static inline Leasehold__ErrorCode set_policy(Leasehold__Policy *policy, bool remove)
{
    Leasehold__SetPolicyRequest r = LEASEHOLD__SET_POLICY_REQUEST__INIT;

    r.policy = policy;
    r.remove = remove;
    const Leasehold__SetPolicyReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_SET_POLICY, &r));
    return reply->error;
}

/* ---- Programs with sessions. */

/* It attaches again and shows that value, unless `name` is NULL. */
static inline const Leasehold__Shown *comes_back(
    struct prog *p, const char *name, uint64_t revision)
{
    assert_non_null(attach(p, false));
    if (name != NULL)
        shows_value(name, revision);
    return shows(p);
}

/* The answer to its heartbeat; NULL: there is none. */
static inline const Leasehold__BeatReply *heartbeat(struct prog *p)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Beat b = LEASEHOLD__BEAT__INIT;

    b.stamp = w.now.ns;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT;
    request.beat = &b;
    prog_send(p, &request);
    const Leasehold__LeaseSessionReply *reply =
        prog_next(p, LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT);
    return reply == NULL ? NULL : reply->beat;
}

/* ---- What they do with values. */

/* `has`: the revision of the bytes that it has. */
static inline void ask_value(
    struct prog *p, uint64_t id, const char *name, uint64_t has, bool lease)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__ReadValue read = LEASEHOLD__READ_VALUE__INIT;

    read.id = id;
    read.name = (char *)(uintptr_t)name;
    read.revision = has;
    read.lease = lease;
    op.op_case = LEASEHOLD__LEASE_OP__OP_READ;
    op.read = &read;
    operate_one(p, &op);
}

static inline const Leasehold__ValueRead *value_read(struct prog *p)
{
    const Leasehold__LeaseAnswer *a = prog_answer(p, LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE);

    return a == NULL ? NULL : a->value;
}

static inline const Leasehold__ValueRead *read_value(struct prog *p, const char *name)
{
    ask_value(p, 1, name, 0, true);
    return value_read(p);
}

/* It reads the value and has it cached from then on; its revision. */
static inline uint64_t cache_value(struct prog *p, const char *name)
{
    const Leasehold__ValueRead *read = read_value(p, name);

    assert_non_null(read);
    assert_true(read->leased && read->term_ns > 0);
    return read->revision;
}

/* It was told to drop the value; the number of the change. 0: it was not. */
static inline uint64_t told_to_drop(struct prog *p, const char *name)
{
    const Leasehold__LeaseAnswer *a = prog_answer(p, LEASEHOLD__LEASE_ANSWER__ANSWER_DROP);

    if (a == NULL)
        return 0;
    assert_string_equal(a->drop->name, name);
    return a->drop->change;
}

static inline void has_dropped(struct prog *p, const char *name, uint64_t change)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__Dropped dropped = LEASEHOLD__DROPPED__INIT;

    dropped.name = (char *)(uintptr_t)name;
    dropped.change = change;
    op.op_case = LEASEHOLD__LEASE_OP__OP_DROPPED;
    op.dropped = &dropped;
    operate_one(p, &op);
}

static inline void subscribe(struct prog *p, const char *prefix)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__Broadcast b = LEASEHOLD__BROADCAST__INIT;

    b.prefix = (char *)(uintptr_t)prefix;
    op.op_case = LEASEHOLD__LEASE_OP__OP_BROADCAST;
    op.broadcast = &b;
    operate_one(p, &op);
}
