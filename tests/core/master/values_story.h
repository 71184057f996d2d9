/* Values, for stories on a master_world: changes, reads, watchers. */
#pragma once

#include "tests/core/master/master_story.h"

static inline ProtobufCBinaryData text_bytes(const char *text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
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

static inline void refused(uint64_t link, Leasehold__ErrorCode error)
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

struct program {
    uint8_t id[16];
    uint64_t link, stream; /* `stream`: how many it had */
    uint64_t term_ms;      /* 0: the master's default */
};

/* The next message of the kind on the program's stream that was not taken yet; NULL: none. */
static inline const Leasehold__LeaseSessionReply *program_next(
    const struct program *p, Leasehold__LeaseSessionReply__BodyCase body)
{
    for (size_t i = 0; i < w.line_count; i++) {
        struct line *line = &w.lines[i];
        const Leasehold__LeaseSessionReply *reply = (const void *)line->message;
        if (line->link != p->link || line->taken || reply == NULL || reply->body_case != body)
            continue;
        line->taken = true;
        return reply;
    }
    return NULL;
}

static inline void program_send(const struct program *p, Leasehold__LeaseSessionRequest *request)
{
    world_message(&w, p->link, request);
    world_sent(&w, p->link);
}

/* A new stream; false: it was not greeted. */
static inline bool program_attach(struct program *p)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach attach = LEASEHOLD__ATTACH__INIT;

    attach.session = (ProtobufCBinaryData){.data = p->id, .len = sizeof p->id};
    attach.opens = p->stream == 0;
    attach.stream = ++p->stream;
    attach.term_ms = p->term_ms;
    attach.host = attach.process = attach.label = (char *)(uintptr_t) "test";
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    request.attach = &attach;
    p->link = world_open_link(&w, LH_METHOD_LEASE_SESSION);
    program_send(p, &request);
    return program_next(p, LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING) != NULL;
}

static inline const Leasehold__Shown *program_show(struct program *p, Leasehold__Show *show)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;

    show->stamp = w.now.ns;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW;
    request.show = show;
    program_send(p, &request);
    const Leasehold__LeaseSessionReply *reply =
        program_next(p, LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN);
    return reply == NULL ? NULL : reply->shown;
}

/* Attaches and shows that value, unless `name` is NULL. */
static inline const Leasehold__Shown *program_back(
    struct program *p, const char *name, uint64_t revision)
{
    Leasehold__Show show = LEASEHOLD__SHOW__INIT;
    Leasehold__ShownValue value = LEASEHOLD__SHOWN_VALUE__INIT, *values[] = {&value};

    value.name = (char *)(uintptr_t)name;
    value.revision = revision;
    show.n_values = name != NULL;
    show.values = values;
    assert_true(program_attach(p));
    return program_show(p, &show);
}

static inline void program_up(struct program *p, char id)
{
    *p = (struct program){.term_ms = p->term_ms};
    memset(p->id, id, sizeof p->id);
    assert_non_null(program_back(p, NULL, 0));
}

static inline const Leasehold__BeatReply *program_beat(struct program *p)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Beat beat = LEASEHOLD__BEAT__INIT;

    beat.stamp = w.now.ns;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT;
    request.beat = &beat;
    program_send(p, &request);
    const Leasehold__LeaseSessionReply *reply =
        program_next(p, LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT);
    return reply == NULL ? NULL : reply->beat;
}

static inline void program_close(struct program *p)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__CloseSession close = LEASEHOLD__CLOSE_SESSION__INIT;

    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE;
    request.close = &close;
    world_message(&w, p->link, &request);
    world_advance(&w, 1);
}

static inline void program_operate(const struct program *p, Leasehold__LeaseOp *op)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__LeaseOps ops = LEASEHOLD__LEASE_OPS__INIT;

    ops.n_ops = 1;
    ops.ops = &op;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS;
    request.ops = &ops;
    program_send(p, &request);
}

/* The next answer of the kind that was not asked for before; NULL: none. Each message with answers
 * of a test has one. */
static inline const Leasehold__LeaseAnswer *program_answer(
    const struct program *p, Leasehold__LeaseAnswer__AnswerCase kind)
{
    for (size_t i = 0; i < w.line_count; i++) {
        struct line *line = &w.lines[i];
        const Leasehold__LeaseSessionReply *reply = (const void *)line->message;
        if (line->link != p->link || line->taken || reply == NULL ||
            reply->body_case != LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS)
            continue;
        assert_int_equal(reply->answers->n_answers, 1);
        if (reply->answers->answers[0]->answer_case != kind)
            continue;
        line->taken = true;
        return reply->answers->answers[0];
    }
    return NULL;
}

/* ---- What they do with values. */

/* `has`: the revision of the bytes that it has. */
static inline void ask_value(
    const struct program *p, uint64_t id, const char *name, uint64_t has, bool lease)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__ReadValue read = LEASEHOLD__READ_VALUE__INIT;

    read.id = id;
    read.name = (char *)(uintptr_t)name;
    read.revision = has;
    read.lease = lease;
    op.op_case = LEASEHOLD__LEASE_OP__OP_READ;
    op.read = &read;
    program_operate(p, &op);
}

static inline const Leasehold__ValueRead *value_read(const struct program *p)
{
    const Leasehold__LeaseAnswer *a = program_answer(p, LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE);

    return a == NULL ? NULL : a->value;
}

static inline const Leasehold__ValueRead *read_value(const struct program *p, const char *name)
{
    ask_value(p, 1, name, 0, true);
    return value_read(p);
}

/* It reads the value and has it cached from then on; its revision. */
static inline uint64_t cache_value(const struct program *p, const char *name)
{
    const Leasehold__ValueRead *read = read_value(p, name);

    assert_non_null(read);
    assert_true(read->leased && read->term_ns > 0);
    return read->revision;
}

/* It was told to drop the value; the number of the change. 0: it was not. */
static inline uint64_t told_to_drop(const struct program *p, const char *name)
{
    const Leasehold__LeaseAnswer *a = program_answer(p, LEASEHOLD__LEASE_ANSWER__ANSWER_DROP);

    if (a == NULL)
        return 0;
    assert_string_equal(a->drop->name, name);
    return a->drop->change;
}

static inline void has_dropped(const struct program *p, const char *name, uint64_t change)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__Dropped dropped = LEASEHOLD__DROPPED__INIT;

    dropped.name = (char *)(uintptr_t)name;
    dropped.change = change;
    op.op_case = LEASEHOLD__LEASE_OP__OP_DROPPED;
    op.dropped = &dropped;
    program_operate(p, &op);
}

static inline void subscribe(const struct program *p, const char *prefix)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__Broadcast b = LEASEHOLD__BROADCAST__INIT;

    b.prefix = (char *)(uintptr_t)prefix;
    op.op_case = LEASEHOLD__LEASE_OP__OP_BROADCAST;
    op.broadcast = &b;
    program_operate(p, &op);
}

/* ---- Locks: the token. */

static inline uint64_t lock(const struct program *p, const char *name)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__Acquire acquire = LEASEHOLD__ACQUIRE__INIT;

    acquire.id = 1;
    acquire.name = (char *)(uintptr_t)name;
    op.op_case = LEASEHOLD__LEASE_OP__OP_ACQUIRE;
    op.acquire = &acquire;
    program_operate(p, &op);
    const Leasehold__LeaseAnswer *a = program_answer(p, LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED);
    assert_non_null(a);
    return a->granted->token;
}

static inline void unlock(const struct program *p, const char *name, uint64_t token)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__ReleaseLock release = LEASEHOLD__RELEASE_LOCK__INIT;

    release.name = (char *)(uintptr_t)name;
    release.token = token;
    op.op_case = LEASEHOLD__LEASE_OP__OP_RELEASE;
    op.release = &release;
    program_operate(p, &op);
}
