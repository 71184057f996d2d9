/* A client's core with sessions of its program; the test plays the masters (PS, NL, VAL). */
#pragma once

#include "client/core/leases.h"
#include "tests/core/client/client_world.h"

#define TERM_MS 9000u
#define BEAT_MS 3000u

/* What is said on a session's stream. */
struct stage {
    struct world *w;
    struct lh_client_session *session;
    struct lh_session_open_call open;
    struct lh_session_event_call event;
    uint64_t link;  /* of the present stream */
    uint64_t stamp; /* sent last */
    uint64_t reign;
};

static inline const Leasehold__LeaseSessionRequest *expect_request_on(
    struct world *w, uint64_t link, Leasehold__LeaseSessionRequest__BodyCase body)
{
    const Leasehold__LeaseSessionRequest *m = expect_send(w, link);

    assert_int_equal(m->body_case, body);
    return m;
}

static inline const Leasehold__Attach *expect_attach(struct stage *s, const char *address)
{
    s->link = expect_open(s->w, LH_METHOD_LEASE_SESSION, address);
    return expect_request_on(s->w, s->link, LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH)->attach;
}

static inline const Leasehold__Show *expect_show(struct stage *s)
{
    const Leasehold__Show *m =
        expect_request_on(s->w, s->link, LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW)->show;

    s->stamp = m->stamp;
    return m;
}

static inline const Leasehold__Beat *expect_beat(struct stage *s)
{
    const Leasehold__Beat *m =
        expect_request_on(s->w, s->link, LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT)->beat;

    s->stamp = m->stamp;
    return m;
}

/* A message of operations: so many. */
static inline const Leasehold__LeaseOps *expect_ops(struct stage *s, size_t count)
{
    const Leasehold__LeaseOps *m =
        expect_request_on(s->w, s->link, LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS)->ops;

    assert_int_equal(m->n_ops, count);
    return m;
}

static inline const Leasehold__LeaseOp *expect_op(struct stage *s, Leasehold__LeaseOp__OpCase kind)
{
    const Leasehold__LeaseOp *op = expect_ops(s, 1)->ops[0];

    assert_int_equal(op->op_case, kind);
    return op;
}

static inline void say_reply(struct stage *s, Leasehold__LeaseSessionReply *m)
{
    say(s->w, s->link, m);
}

static inline void say_greeting(struct stage *s, uint64_t reign)
{
    Leasehold__LeaseSessionReply m = LEASEHOLD__LEASE_SESSION_REPLY__INIT;
    Leasehold__Greeting g = LEASEHOLD__GREETING__INIT;

    s->reign = reign;
    g.reign = reign;
    g.term_ms = TERM_MS;
    g.beat_ns = BEAT_MS * UINT64_C(1000000);
    m.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING;
    m.greeting = &g;
    say_reply(s, &m);
}

static inline Leasehold__Shown shown_reply(const struct stage *s)
{
    Leasehold__Shown m = LEASEHOLD__SHOWN__INIT;

    m.stamp = s->stamp;
    m.term_ns = TERM_MS * UINT64_C(1000000);
    return m;
}

static inline void say_shown_with(struct stage *s, Leasehold__Shown shown)
{
    Leasehold__LeaseSessionReply m = LEASEHOLD__LEASE_SESSION_REPLY__INIT;

    m.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN;
    m.shown = &shown;
    say_reply(s, &m);
}

static inline void say_shown(struct stage *s)
{
    say_shown_with(s, shown_reply(s));
}

static inline void say_beat_with(struct stage *s, Leasehold__BeatReply beat)
{
    Leasehold__LeaseSessionReply m = LEASEHOLD__LEASE_SESSION_REPLY__INIT;

    m.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT;
    m.beat = &beat;
    say_reply(s, &m);
}

static inline void say_beat(struct stage *s, uint64_t stamp)
{
    Leasehold__BeatReply beat = LEASEHOLD__BEAT_REPLY__INIT;

    beat.stamp = stamp;
    beat.term_ns = TERM_MS * UINT64_C(1000000);
    say_beat_with(s, beat);
}

static inline void say_answers(struct stage *s, Leasehold__LeaseAnswer **answers, size_t count)
{
    Leasehold__LeaseSessionReply m = LEASEHOLD__LEASE_SESSION_REPLY__INIT;
    Leasehold__LeaseAnswers list = LEASEHOLD__LEASE_ANSWERS__INIT;

    list.answers = answers;
    list.n_answers = count;
    m.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS;
    m.answers = &list;
    say_reply(s, &m);
}

static inline void say_one(struct stage *s, Leasehold__LeaseAnswer answer)
{
    Leasehold__LeaseAnswer *list[] = {&answer};

    say_answers(s, list, 1);
}

static inline Leasehold__LeaseAnswer answer_of(Leasehold__LeaseAnswer__AnswerCase kind, void *body)
{
    Leasehold__LeaseAnswer a = LEASEHOLD__LEASE_ANSWER__INIT;

    a.answer_case = kind;
    a.granted = body;
    return a;
}

static inline void say_granted(struct stage *s, uint64_t id, uint64_t token)
{
    Leasehold__Granted m = LEASEHOLD__GRANTED__INIT;

    m.id = id;
    m.token = token;
    say_one(s, answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED, &m));
}

static inline void say_queued(struct stage *s, uint64_t id, uint64_t queued)
{
    Leasehold__Queued m = LEASEHOLD__QUEUED__INIT;

    m.id = id;
    m.queued = queued;
    say_one(s, answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_QUEUED, &m));
}

static inline void say_demand(
    struct stage *s, const char *name, uint64_t token, bool cancel, const char *why)
{
    Leasehold__Demand m = LEASEHOLD__DEMAND__INIT;

    m.name = (char *)(uintptr_t)name;
    m.token = token;
    m.cancel = cancel;
    m.waiting = cancel ? 0 : 1;
    m.why = (char *)(uintptr_t)why;
    say_one(s, answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_DEMAND, &m));
}

/* ---- Of the program. */

/* A session is asked for, and attached at the first master. */
static inline void open_session(struct stage *s, struct world *w)
{
    *s = (struct stage){.w = w,
        .open = {.call.kind = LH_CALL_SESSION_OPEN,
            .host = "h1",
            .process = "4711 backup",
            .label = "backup",
            .deadline = in_ms(w, 20000)}};
    ask(w, &s->open);
}

static inline void attached_and_shown(struct stage *s, const char *address, uint64_t reign)
{
    expect_attach(s, address);
    say_greeting(s, reign);
    expect_show(s);
    say_shown(s);
}

/* A session that is open. Its link is up, at m1. */
static inline void given_session_with(
    struct stage *s, struct world *w, struct lh_client_config config)
{
    world_init_with(w, config);
    open_session(s, w);
    attached_and_shown(s, "m1:1", 3);
    expect_complete(w, &s->open, LH_OK);
    s->session = s->open.session;
    assert_non_null(s->session);
    expect_quiet(w);
}

static inline void given_session(struct stage *s, struct world *w)
{
    given_session_with(s, w, (struct lh_client_config){0});
}

static inline void await_event(struct stage *s)
{
    s->event =
        (struct lh_session_event_call){.call.kind = LH_CALL_SESSION_EVENT, .session = s->session};
    ask(s->w, &s->event);
}

static inline void expect_event(struct stage *s, enum lh_client_event_kind kind, uint64_t lock)
{
    expect_complete(s->w, &s->event, LH_OK);
    assert_int_equal(s->event.event, kind);
    assert_int_equal(s->event.lock, lock);
}

static inline uint64_t session_left_ms(const struct stage *s)
{
    return lh_client_session_left(s->session, s->w->now).ns / 1000000;
}

static inline uint64_t lock_left_ms(const struct stage *s, uint64_t lock)
{
    return lh_client_lock_left(s->session, lock, s->w->now).ns / 1000000;
}

static inline struct lh_acquire_call acquire_call(const struct stage *s, const char *name)
{
    return (struct lh_acquire_call){.call.kind = LH_CALL_ACQUIRE,
        .session = s->session,
        .name = name,
        .deadline = in_ms(s->w, 600000)};
}

/* The request is sent; its id. */
static inline uint64_t expect_acquire(struct stage *s, const char *name)
{
    const Leasehold__Acquire *m = expect_op(s, LEASEHOLD__LEASE_OP__OP_ACQUIRE)->acquire;

    assert_string_equal(m->name, name);
    return m->id;
}

/* A lock of that name is held; its id. */
static inline uint64_t given_lock(
    struct stage *s, const char *name, uint64_t token, bool recallable)
{
    struct lh_acquire_call call = acquire_call(s, name);

    call.recallable = recallable;
    ask(s->w, &call);
    say_granted(s, expect_acquire(s, name), token);
    expect_complete(s->w, &call, LH_OK);
    assert_int_equal(call.token, token);
    assert_true(lock_left_ms(s, call.lock) > 0);
    return call.lock;
}

static inline void release(struct stage *s, uint64_t lock, int error)
{
    struct lh_release_call call = {
        .call.kind = LH_CALL_RELEASE, .session = s->session, .lock = lock};

    ask(s->w, &call);
    struct event *e = &s->w->events[s->w->taken];
    assert_int_equal(e->kind, LH_FX_COMPLETE);
    expect_complete(s->w, &call, error);
    assert_int_equal(lock_left_ms(s, lock), 0);
}
