/* Programs with sessions, for stories on a master_world: each is a link that the test speaks on. */
#pragma once

#include "tests/core/master/master_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct world w;

struct prog {
    uint8_t id[16];
    uint64_t link, stream, term_ms, request;
    bool lookups;                   /* it may look up files */
    uint64_t reign_seen, name_seen; /* of its last greeting (SES-9) */
};

static struct prog one, two, three;

/* What is shown next; `shows()` forgets it. */
static Leasehold__ShownLock shown_locks[64];
static Leasehold__Acquire shown_requests[64];
static Leasehold__ShownValue shown_values[64];
static char *shown_broadcasts[64];
static size_t shown_lock_count, shown_request_count, shown_value_count, shown_broadcast_count;

static inline struct prog prog_of(uint8_t number)
{
    struct prog p = {.term_ms = 10000};

    memset(p.id, number, sizeof p.id);
    return p;
}

static inline int set_up(void **state)
{
    (void)state;
    one = prog_of(1);
    two = prog_of(2);
    three = prog_of(3);
    world_open(&w);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static inline void prog_send(struct prog *p, Leasehold__LeaseSessionRequest *request)
{
    world_message(&w, p->link, request);
}

/* The next message of that kind that was not taken yet; NULL: none. */
static inline const Leasehold__LeaseSessionReply *prog_next(
    struct prog *p, Leasehold__LeaseSessionReply__BodyCase body)
{
    for (size_t i = 0; i < w.line_count; i++) {
        struct line *l = &w.lines[i];
        if (l->link != p->link || l->taken || l->message == NULL)
            continue;
        const Leasehold__LeaseSessionReply *reply = (const void *)l->message;
        if (reply->body_case != body)
            continue;
        l->taken = true;
        return reply;
    }
    return NULL;
}

/* The next answer of that kind; others before it are lost. NULL: none. */
static inline const Leasehold__LeaseAnswer *prog_answer(
    struct prog *p, Leasehold__LeaseAnswer__AnswerCase kind)
{
    for (size_t i = 0; i < w.line_count; i++) {
        struct line *l = &w.lines[i];
        if (l->link != p->link || l->taken || l->message == NULL)
            continue;
        Leasehold__LeaseSessionReply *reply = (void *)l->message;
        if (reply->body_case != LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS)
            continue;
        for (size_t k = 0; k < reply->answers->n_answers; k++) {
            Leasehold__LeaseAnswer *answer = reply->answers->answers[k];
            if (answer->answer_case != kind || answer->base.unknown_fields != NULL)
                continue;
            answer->base.unknown_fields = malloc(1); /* a mark: it was taken */
            return answer;
        }
    }
    return NULL;
}

#define ANSWER(p, KIND, field)                                                                     \
    (__extension__({                                                                               \
        const Leasehold__LeaseAnswer *answer_ =                                                    \
            prog_answer(p, LEASEHOLD__LEASE_ANSWER__ANSWER_##KIND);                                \
        answer_ == NULL ? NULL : answer_->field;                                                   \
    }))

static inline const Leasehold__Granted *granted(struct prog *p)
{
    return ANSWER(p, GRANTED, granted);
}
static inline const Leasehold__Queued *queued(struct prog *p)
{
    return ANSWER(p, QUEUED, queued);
}
static inline const Leasehold__Refused *refused(struct prog *p)
{
    return ANSWER(p, REFUSED, refused);
}
static inline const Leasehold__Demand *demand(struct prog *p)
{
    return ANSWER(p, DEMAND, demand);
}

/* Opens a stream and says Attach. The greeting; NULL: there is none. */
static inline const Leasehold__Greeting *attach(struct prog *p, bool opens)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach a = LEASEHOLD__ATTACH__INIT;

    p->link = world_open_link(&w, LH_METHOD_LEASE_SESSION);
    a.session = (ProtobufCBinaryData){.data = p->id, .len = sizeof p->id};
    a.opens = opens;
    a.stream = ++p->stream;
    a.term_ms = p->term_ms;
    a.host = "db1";
    a.process = "4711 backup";
    a.label = "backup";
    a.lookups = p->lookups;
    a.reign_seen = p->reign_seen;
    a.reign_name_seen = p->name_seen;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    request.attach = &a;
    prog_send(p, &request);
    const Leasehold__LeaseSessionReply *reply =
        prog_next(p, LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING);
    if (reply == NULL)
        return NULL;
    p->reign_seen = reply->greeting->reign;
    p->name_seen = reply->greeting->reign_name;
    return reply->greeting;
}

static inline void shows_lock(const char *name, uint64_t token, bool shared)
{
    Leasehold__ShownLock *lock = &shown_locks[shown_lock_count++];

    leasehold__shown_lock__init(lock);
    lock->name = (char *)(uintptr_t)name;
    lock->token = token;
    lock->mode = shared ? LEASEHOLD__LOCK_MODE__SHARED : LEASEHOLD__LOCK_MODE__EXCLUSIVE;
}

static inline void shows_request(const char *name, uint64_t id, uint64_t number, bool shared)
{
    Leasehold__Acquire *a = &shown_requests[shown_request_count++];

    leasehold__acquire__init(a);
    a->name = (char *)(uintptr_t)name;
    a->id = id;
    a->queued = number;
    a->mode = shared ? LEASEHOLD__LOCK_MODE__SHARED : LEASEHOLD__LOCK_MODE__EXCLUSIVE;
}

static inline void shows_value(const char *name, uint64_t revision)
{
    Leasehold__ShownValue *value = &shown_values[shown_value_count++];

    leasehold__shown_value__init(value);
    value->name = (char *)(uintptr_t)name;
    value->revision = revision;
}

static inline void shows_broadcast(const char *prefix)
{
    shown_broadcasts[shown_broadcast_count++] = (char *)(uintptr_t)prefix;
}

/* Sends what is to be shown; NULL: no answer. */
static inline const Leasehold__Shown *show_piece(struct prog *p, bool more)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Show show = LEASEHOLD__SHOW__INIT;
    Leasehold__ShownLock *locks[64];
    Leasehold__Acquire *requests[64];
    Leasehold__ShownValue *values[64];

    for (size_t i = 0; i < shown_value_count; i++)
        values[i] = &shown_values[i];
    for (size_t i = 0; i < shown_lock_count; i++)
        locks[i] = &shown_locks[i];
    for (size_t i = 0; i < shown_request_count; i++)
        requests[i] = &shown_requests[i];
    show.stamp = w.now.ns;
    show.n_locks = shown_lock_count;
    show.locks = locks;
    show.n_waiting = shown_request_count;
    show.waiting = requests;
    show.n_values = shown_value_count;
    show.values = values;
    show.n_broadcasts = shown_broadcast_count;
    show.broadcasts = shown_broadcasts;
    show.more = more;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW;
    request.show = &show;
    prog_send(p, &request);
    shown_lock_count = shown_request_count = shown_value_count = shown_broadcast_count = 0;
    const Leasehold__LeaseSessionReply *reply =
        prog_next(p, LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN);
    return reply == NULL ? NULL : reply->shown;
}

static inline const Leasehold__Shown *shows(struct prog *p)
{
    return show_piece(p, false);
}

/* A new session that is back. */
static inline void comes(struct prog *p)
{
    assert_non_null(attach(p, true));
    assert_non_null(shows(p));
}

/* True: it was answered without an error. */
static inline bool beat(struct prog *p)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Beat b = LEASEHOLD__BEAT__INIT;
    static uint64_t last[256];

    b.stamp = w.now.ns;
    b.last_stamp = last[p->id[0]];
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT;
    request.beat = &b;
    prog_send(p, &request);
    const Leasehold__LeaseSessionReply *reply =
        prog_next(p, LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT);
    if (reply == NULL || reply->beat->error != LEASEHOLD__ERROR_CODE__OK)
        return false;
    last[p->id[0]] = b.stamp;
    return true;
}

static inline void operate(struct prog *p, Leasehold__LeaseOp **ops, size_t count)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__LeaseOps all = LEASEHOLD__LEASE_OPS__INIT;

    all.n_ops = count;
    all.ops = ops;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS;
    request.ops = &all;
    prog_send(p, &request);
}

static inline void operate_one(struct prog *p, Leasehold__LeaseOp *op)
{
    operate(p, &op, 1);
}

static inline Leasehold__Acquire acquire_of(struct prog *p, const char *name, bool shared)
{
    Leasehold__Acquire a = LEASEHOLD__ACQUIRE__INIT;

    a.id = ++p->request;
    a.name = (char *)(uintptr_t)name;
    a.mode = shared ? LEASEHOLD__LOCK_MODE__SHARED : LEASEHOLD__LOCK_MODE__EXCLUSIVE;
    return a;
}

/* Returns the request's id. */
static inline uint64_t asks_with(struct prog *p, Leasehold__Acquire *a)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;

    op.op_case = LEASEHOLD__LEASE_OP__OP_ACQUIRE;
    op.acquire = a;
    operate_one(p, &op);
    return a->id;
}

static inline uint64_t asks(struct prog *p, const char *name, bool shared)
{
    Leasehold__Acquire a = acquire_of(p, name, shared);

    return asks_with(p, &a);
}

/* It is granted at once; its token. */
static inline uint64_t locks(struct prog *p, const char *name, bool shared)
{
    uint64_t id = asks(p, name, shared);
    const Leasehold__Granted *g = granted(p);

    assert_non_null(g);
    assert_int_equal(g->id, id);
    return g->token;
}

static inline void releases(struct prog *p, const char *name, uint64_t token)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__ReleaseLock r = LEASEHOLD__RELEASE_LOCK__INIT;

    r.name = (char *)(uintptr_t)name;
    r.token = token;
    op.op_case = LEASEHOLD__LEASE_OP__OP_RELEASE;
    op.release = &r;
    operate_one(p, &op);
}

static inline void withdraws(struct prog *p, uint64_t id)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__Withdraw r = LEASEHOLD__WITHDRAW__INIT;

    r.id = id;
    op.op_case = LEASEHOLD__LEASE_OP__OP_WITHDRAW;
    op.withdraw = &r;
    operate_one(p, &op);
}

static inline void yields(struct prog *p, const char *name, uint64_t token, uint64_t in_ms)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__Yield y = LEASEHOLD__YIELD__INIT;

    y.name = (char *)(uintptr_t)name;
    y.token = token;
    y.in_ms = in_ms;
    y.refuse = in_ms == UINT64_MAX;
    op.op_case = LEASEHOLD__LEASE_OP__OP_YIELD;
    op.yield = &y;
    operate_one(p, &op);
}

static inline void closes(struct prog *p)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__CloseSession close = LEASEHOLD__CLOSE_SESSION__INIT;

    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE;
    request.close = &close;
    prog_send(p, &request);
    world_advance(&w, 0);
}

static inline uint64_t cancels(const char *name, uint64_t token, uint64_t wait_ms)
{
    Leasehold__CancelRequest r = LEASEHOLD__CANCEL_REQUEST__INIT;

    r.name = (char *)(uintptr_t)name;
    r.token = token;
    r.wait_ms = wait_ms;
    r.why = "it has to go";
    return world_call(&w, LH_METHOD_CANCEL, &r);
}

static inline const Leasehold__NameInfo *look_at(const char *name)
{
    Leasehold__ListNamesRequest r = LEASEHOLD__LIST_NAMES_REQUEST__INIT;

    r.prefix = (char *)(uintptr_t)name;
    r.exact = r.explain = true;
    const Leasehold__ListNamesReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_NAMES, &r));
    return reply->n_names == 0 ? NULL : reply->names[0];
}
