/* The public library's sessions, locks and values, with its threads and real sockets, against
 * one server that plays an active master, in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"
#include "runtime/loop.h"

#include "client/library/leasehold_leases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINKS   8u
#define WAIT_MS 10000u

/* ---- The server: one lock, one value. ---- */

struct server {
    struct lh_loop *loop;
    char address[32];
    uint64_t links[LINKS];                  /* sessions' streams */
    uint64_t stamp[LINKS];                  /* heard last on them */
    uint64_t token, holder, holder_request; /* of the lock: a link, and its request */
    struct {
        uint64_t link, id;
    } waiting[LINKS];
    size_t waiting_count;
    char name[64];

    char value[64];
    uint64_t revision;
    bool cached[LINKS]; /* by link: it has the value */
    uint64_t changing;  /* the link of the change that waits; 0: none */
    char changed[64];
    _Atomic unsigned reads;
    bool forgetful; /* knows no session any more */
};

enum command { FORGET = 1, DEMAND };

static size_t place_of(const struct server *s, uint64_t link)
{
    size_t i = 0;

    while (i < LINKS && s->links[i] != link)
        i++;
    return i;
}

static void say(struct lh_effects *fx, uint64_t link, Leasehold__LeaseSessionReply *m)
{
    lh_fx_send(fx, link, &m->base, NULL);
}

static void say_answer(
    struct lh_effects *fx, uint64_t link, Leasehold__LeaseAnswer__AnswerCase kind, void *body)
{
    Leasehold__LeaseSessionReply m = LEASEHOLD__LEASE_SESSION_REPLY__INIT;
    Leasehold__LeaseAnswers list = LEASEHOLD__LEASE_ANSWERS__INIT;
    Leasehold__LeaseAnswer a = LEASEHOLD__LEASE_ANSWER__INIT, *answers[] = {&a};

    a.answer_case = kind;
    a.granted = body;
    list.answers = answers;
    list.n_answers = 1;
    m.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS;
    m.answers = &list;
    say(fx, link, &m);
}

static void grant(struct server *s, struct lh_effects *fx)
{
    Leasehold__Granted m = LEASEHOLD__GRANTED__INIT;

    if (s->holder != 0 || s->waiting_count == 0)
        return;
    s->holder = s->waiting[0].link;
    m.id = s->waiting[0].id;
    m.token = ++s->token;
    s->waiting_count--;
    memmove(&s->waiting[0], &s->waiting[1], s->waiting_count * sizeof s->waiting[0]);
    say_answer(fx, s->holder, LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED, &m);
}

static void demand(struct server *s, struct lh_effects *fx, bool cancel)
{
    Leasehold__Demand m = LEASEHOLD__DEMAND__INIT;

    if (s->holder == 0)
        return;
    m.name = s->name;
    m.token = s->token;
    m.cancel = cancel;
    m.waiting = s->waiting_count;
    m.why = (char *)(uintptr_t)(cancel ? "an operator" : "another program");
    say_answer(fx, s->holder, LEASEHOLD__LEASE_ANSWER__ANSWER_DEMAND, &m);
}

static void acquire(
    struct server *s, struct lh_effects *fx, uint64_t link, const Leasehold__Acquire *q)
{
    Leasehold__Refused refused = LEASEHOLD__REFUSED__INIT;

    if (q->no_wait && (s->holder != 0 || s->waiting_count > 0)) {
        refused.id = q->id;
        refused.error = LEASEHOLD__ERROR_CODE__LEASE_HELD;
        refused.text = (char *)(uintptr_t) "it is held";
        say_answer(fx, link, LEASEHOLD__LEASE_ANSWER__ANSWER_REFUSED, &refused);
        return;
    }
    snprintf(s->name, sizeof s->name, "%s", q->name);
    s->waiting[s->waiting_count].link = link;
    s->waiting[s->waiting_count++].id = q->id;
    grant(s, fx);
    if (s->waiting_count > 0)
        demand(s, fx, false);
}

static void withdraw(struct server *s, uint64_t link, uint64_t id)
{
    for (size_t i = 0; i < s->waiting_count; i++)
        if (s->waiting[i].link == link && s->waiting[i].id == id) {
            s->waiting[i] = s->waiting[--s->waiting_count];
            return;
        }
}

static void read_value(
    struct server *s, struct lh_effects *fx, uint64_t link, const Leasehold__ReadValue *q)
{
    Leasehold__ValueRead m = LEASEHOLD__VALUE_READ__INIT;
    size_t at = place_of(s, link);

    s->reads++;
    m.id = q->id;
    m.revision = s->revision;
    if (s->revision == 0)
        m.error = LEASEHOLD__ERROR_CODE__NOT_FOUND;
    m.value.data = (uint8_t *)s->value;
    m.value.len = strlen(s->value);
    m.changing = s->changing;
    m.leased = s->changing == 0;
    m.stamp = s->stamp[at];
    m.term_ns = s->changing == 0 ? UINT64_C(60000000000) : 0;
    if (m.leased)
        s->cached[at] = true;
    say_answer(fx, link, LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE, &m);
}

/* When nobody serves it any more. */
static void commit(struct server *s, struct lh_effects *fx)
{
    Leasehold__ChangeReply m = LEASEHOLD__CHANGE_REPLY__INIT;

    for (size_t i = 0; i < LINKS; i++)
        if (s->cached[i])
            return;
    if (s->changing == 0)
        return;
    snprintf(s->value, sizeof s->value, "%s", s->changed);
    m.revision = ++s->revision;
    lh_fx_reply(fx, s->changing, &m.base, NULL);
    s->changing = 0;
}

static void change(
    struct server *s, struct lh_effects *fx, uint64_t link, const Leasehold__ChangeRequest *q)
{
    Leasehold__Drop drop = LEASEHOLD__DROP__INIT;

    snprintf(s->changed, sizeof s->changed, "%.*s", (int)q->value.len, (char *)q->value.data);
    s->changing = link;
    drop.name = q->name;
    drop.change = link;
    for (size_t i = 0; i < LINKS; i++)
        if (s->cached[i])
            say_answer(fx, s->links[i], LEASEHOLD__LEASE_ANSWER__ANSWER_DROP, &drop);
    commit(s, fx);
}

static void operation(
    struct server *s, struct lh_effects *fx, uint64_t link, const Leasehold__LeaseOp *op)
{
    switch (op->op_case) {
    case LEASEHOLD__LEASE_OP__OP_ACQUIRE:
        acquire(s, fx, link, op->acquire);
        break;
    case LEASEHOLD__LEASE_OP__OP_RELEASE:
        if (s->holder == link && s->token == op->release->token)
            s->holder = 0;
        grant(s, fx);
        break;
    case LEASEHOLD__LEASE_OP__OP_WITHDRAW:
        withdraw(s, link, op->withdraw->id);
        break;
    case LEASEHOLD__LEASE_OP__OP_READ:
        read_value(s, fx, link, op->read);
        break;
    case LEASEHOLD__LEASE_OP__OP_DROPPED:
        s->cached[place_of(s, link)] = false;
        commit(s, fx);
        break;
    default:
        break;
    }
}

static void session_message(struct server *s, struct lh_input *in, struct lh_effects *fx)
{
    const Leasehold__LeaseSessionRequest *q = in->message;
    Leasehold__LeaseSessionReply m = LEASEHOLD__LEASE_SESSION_REPLY__INIT;
    Leasehold__Greeting greeting = LEASEHOLD__GREETING__INIT;
    Leasehold__Shown shown = LEASEHOLD__SHOWN__INIT;
    Leasehold__BeatReply beat = LEASEHOLD__BEAT_REPLY__INIT;
    size_t at = place_of(s, in->link);

    if (s->forgetful) {
        lh_fx_close(fx, in->link, LH_ERR_UNKNOWN_SESSION, "it is over");
        return;
    }
    switch (q->body_case) {
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH:
        s->links[place_of(s, 0)] = in->link;
        greeting.reign = 1;
        greeting.term_ms = 10000;
        greeting.beat_ns = UINT64_C(20000000);
        m.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING;
        m.greeting = &greeting;
        say(fx, in->link, &m);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW:
        shown.stamp = s->stamp[at] = q->show->stamp;
        shown.term_ns = UINT64_C(9800000000);
        m.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN;
        m.shown = &shown;
        say(fx, in->link, &m);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT:
        beat.stamp = s->stamp[at] = q->beat->stamp;
        beat.term_ns = UINT64_C(9800000000);
        m.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT;
        m.beat = &beat;
        say(fx, in->link, &m);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS:
        for (size_t i = 0; i < q->ops->n_ops; i++)
            operation(s, fx, in->link, q->ops->ops[i]);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE:
        s->links[at] = 0;
        s->cached[at] = false;
        if (s->holder == in->link)
            s->holder = 0;
        grant(s, fx);
        commit(s, fx);
        lh_fx_close(fx, in->link, LH_OK, NULL);
        break;
    default:
        break;
    }
}

/* A lock that is held, and then is not. */
static void watch_locks(uint64_t link, struct lh_effects *fx)
{
    static uint8_t session[16] = {0xab};
    Leasehold__WatchReply m = LEASEHOLD__WATCH_REPLY__INIT;
    Leasehold__LockHolder h = LEASEHOLD__LOCK_HOLDER__INIT, gone = h;
    Leasehold__LockEvent a = LEASEHOLD__LOCK_EVENT__INIT, b = a, *events[] = {&a, &b};

    m.reset = true;
    h.session = gone.session = (ProtobufCBinaryData){.data = session, .len = sizeof session};
    h.label = "backup";
    h.token = 7;
    h.info = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t) "4711", .len = 4};
    a.name = b.name = (char *)(uintptr_t) "/l";
    a.holder = &h;
    b.kind = LEASEHOLD__LOCK_EVENT_KIND__LOCK_ENDED;
    b.holder = &gone;
    m.locks = events;
    m.n_locks = 2;
    lh_fx_send(fx, link, &m.base, NULL);
}

static void watch_message(const struct lh_input *in, struct lh_effects *fx)
{
    const Leasehold__WatchRequest *q = in->message;
    Leasehold__WatchReply m = LEASEHOLD__WATCH_REPLY__INIT;
    Leasehold__WatchEvent a = LEASEHOLD__WATCH_EVENT__INIT, b = a, *events[] = {&a, &b};

    if (q->locks) {
        watch_locks(in->link, fx);
        return;
    }
    m.reset = q->from == 0;
    a.name = (char *)(uintptr_t) "/v";
    a.revision = 4;
    a.value.data = (uint8_t *)(uintptr_t) "four";
    a.value.len = 4;
    b.name = a.name;
    b.revision = 5;
    b.removed = true;
    m.events = events;
    m.n_events = 2;
    m.next = 6;
    lh_fx_send(fx, in->link, &m.base, NULL);
}

static void server_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct server *s = self;

    if (in->kind == LH_IN_CALL && in->call == (void *)FORGET) {
        s->forgetful = true;
    } else if (in->kind == LH_IN_CALL) {
        demand(s, fx, true);
    } else if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_LEASE_SESSION) {
        session_message(s, in, fx);
    } else if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_CHANGE) {
        change(s, fx, in->link, in->message);
    } else if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_WATCH) {
        watch_message(in, fx);
    }
}

static struct lh_instant server_deadline(const void *self)
{
    (void)self;
    return LH_INSTANT_NEVER;
}

/* ---- A program with two sessions. ---- */

struct fixture {
    struct server server;
    struct lh_cluster *cluster;
    struct lh_session *a, *b;
    pthread_mutex_t mutex;
    pthread_cond_t heard;
    /* What was heard. */
    unsigned lost, recalls, cancels, granted;
    int error, state;
    struct lh_lock lock;
};

static void note_state(void *arg, struct lh_session *session, enum lh_session_state state)
{
    struct fixture *f = arg;

    (void)session;
    pthread_mutex_lock(&f->mutex);
    f->state = (int)state;
    pthread_cond_signal(&f->heard);
    pthread_mutex_unlock(&f->mutex);
}

static void note_lost(void *arg, const struct lh_lock *lock)
{
    struct fixture *f = arg;

    assert_int_equal(lh_lock_left_ms(lock), 0);
    pthread_mutex_lock(&f->mutex);
    f->lost++;
    pthread_cond_signal(&f->heard);
    pthread_mutex_unlock(&f->mutex);
}

static void note_granted(void *arg, int error, const struct lh_lock *lock)
{
    struct fixture *f = arg;

    pthread_mutex_lock(&f->mutex);
    f->granted++;
    f->error = error;
    if (lock != NULL)
        f->lock = *lock;
    pthread_cond_signal(&f->heard);
    pthread_mutex_unlock(&f->mutex);
}

static void await(struct fixture *f, const unsigned *count, unsigned wanted)
{
    pthread_mutex_lock(&f->mutex);
    while (*count < wanted)
        pthread_cond_wait(&f->heard, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
}

static int setup(void **state)
{
    struct fixture *f = lh_alloc(sizeof *f);
    struct server *s = &f->server;
    char why[256];
    struct lh_session_options options = {.on_state = note_state, .on_state_arg = f};
    struct lh_loop_config config = {
        .core = {.self = s, .step = server_step, .deadline = server_deadline},
        .name = "test",
        .listen = "127.0.0.1:0",
    };

    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->heard, NULL);
    assert_int_equal(lh_loop_create(&config, &s->loop, why, sizeof why), LH_OK);
    snprintf(s->address, sizeof s->address, "127.0.0.1:%d", lh_loop_port(s->loop));
    lh_loop_start(s->loop);
    assert_int_equal(lh_cluster_open(s->address, NULL, &f->cluster), LH_OK);
    assert_int_equal(lh_session_open(f->cluster, &options, WAIT_MS, &f->a), LH_OK);
    assert_int_equal(lh_session_open(f->cluster, NULL, WAIT_MS, &f->b), LH_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    lh_session_close(f->a, WAIT_MS);
    lh_session_close(f->b, WAIT_MS);
    lh_cluster_close(f->cluster);
    lh_loop_destroy(f->server.loop);
    pthread_mutex_destroy(&f->mutex);
    pthread_cond_destroy(&f->heard);
    free(f);
    return 0;
}

/* ---- Locks. */

static void a_lock_is_held_until_it_is_released(void **state)
{
    struct fixture *f = *state;
    struct lh_lock a, b;

    assert_int_equal(strlen(lh_session_id(f->a)), 32);
    assert_string_not_equal(lh_session_id(f->a), lh_session_id(f->b));
    assert_in_range(lh_session_left_ms(f->a), 1, 9800);
    assert_int_equal(lh_acquire(f->a, "/l", NULL, WAIT_MS, &a), LH_OK);
    assert_int_equal(a.token, 1);
    assert_in_range(lh_lock_left_ms(&a), 1, 9800);
    assert_int_equal(lh_acquire(f->b, "/l", NULL, 0, &b), LH_ERR_LEASE_HELD);
    assert_string_equal(lh_last_error(), "it is held");
    assert_int_equal(lh_acquire(f->a, "/l", NULL, 0, &b), LH_ERR_ALREADY_EXISTS);
    assert_int_equal(lh_acquire(f->b, "/l", NULL, 20, &b), LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(lh_release(&a), LH_OK);
    assert_int_equal(lh_lock_left_ms(&a), 0);
    assert_int_equal(lh_release(&a), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_acquire(f->b, "/l", NULL, WAIT_MS, &b), LH_OK);
    assert_true(b.token > a.token);
}

static void a_request_without_waiting_is_answered_later(void **state)
{
    struct fixture *f = *state;
    struct lh_lock a;
    char name[] = "/l";
    struct lh_lock_options options = {.info = name, .info_size = 2};

    assert_int_equal(lh_acquire(f->a, name, NULL, WAIT_MS, &a), LH_OK);
    assert_int_equal(lh_acquire_async(f->b, name, &options, WAIT_MS, note_granted, f), LH_OK);
    memset(name, 'x', 2); /* it was copied */
    assert_int_equal(lh_release(&a), LH_OK);
    await(f, &f->granted, 1);
    assert_int_equal(f->error, LH_OK);
    assert_in_range(lh_lock_left_ms(&f->lock), 1, 9800);
}

/* Closing waits for the callback. */
static void closing_ends_requests_that_wait(void **state)
{
    struct fixture *f = *state;
    struct lh_lock a;

    assert_int_equal(lh_acquire(f->a, "/l", NULL, WAIT_MS, &a), LH_OK);
    assert_int_equal(lh_acquire_async(f->b, "/l", NULL, LH_NO_TIMEOUT, note_granted, f), LH_OK);
    lh_session_close(f->b, WAIT_MS);
    f->b = NULL;
    assert_int_equal(f->granted, 1);
    assert_int_equal(f->error, LH_ERR_CANCELLED);
}

static void release_when_recalled(
    void *arg, const struct lh_lock *lock, bool cancelled, const char *why)
{
    struct fixture *f = arg;
    struct lh_lock mine = *lock;

    assert_false(cancelled);
    assert_string_equal(why, "another program");
    assert_int_equal(lh_release(&mine), LH_OK);
    pthread_mutex_lock(&f->mutex);
    f->recalls++;
    pthread_cond_signal(&f->heard);
    pthread_mutex_unlock(&f->mutex);
}

static void a_recalled_lock_is_released_in_the_callback(void **state)
{
    struct fixture *f = *state;
    struct lh_lock_options options = {
        .on_recall = release_when_recalled, .on_lost = note_lost, .arg = f};
    struct lh_lock a, b;

    assert_int_equal(lh_acquire(f->a, "/l", &options, WAIT_MS, &a), LH_OK);
    assert_int_equal(lh_acquire(f->b, "/l", NULL, WAIT_MS, &b), LH_OK);
    await(f, &f->recalls, 1);
    assert_int_equal(f->lost, 0);
    assert_int_equal(lh_lock_left_ms(&a), 0);
}

static void yield_when_cancelled(
    void *arg, const struct lh_lock *lock, bool cancelled, const char *why)
{
    struct fixture *f = arg;
    struct lh_lock mine = *lock;

    assert_true(cancelled);
    assert_string_equal(why, "an operator");
    assert_int_equal(lh_lock_yield(&mine, 5), LH_OK);
    assert_in_range(lh_lock_left_ms(&mine), 0, 5);
    pthread_mutex_lock(&f->mutex);
    f->cancels++;
    pthread_mutex_unlock(&f->mutex);
}

static void a_cancelled_lock_is_lost_in_time(void **state)
{
    struct fixture *f = *state;
    struct lh_lock_options options = {
        .on_recall = yield_when_cancelled, .on_lost = note_lost, .arg = f};
    struct lh_lock a, b;

    assert_int_equal(lh_acquire(f->a, "/l", &options, WAIT_MS, &a), LH_OK);
    assert_true(lh_loop_call(f->server.loop, (void *)DEMAND));
    await(f, &f->lost, 1);
    assert_int_equal(f->cancels, 1);
    assert_int_equal(lh_release(&a), LH_ERR_NOT_LEASED);
    assert_int_equal(lh_acquire(f->b, "/l", NULL, WAIT_MS, &b), LH_OK);
}

static void a_lost_session_loses_its_locks_once(void **state)
{
    struct fixture *f = *state;
    struct lh_lock_options options = {.on_lost = note_lost, .arg = f};
    struct lh_lock a;
    const struct lh_value *value;

    assert_int_equal(lh_acquire(f->a, "/l", &options, WAIT_MS, &a), LH_OK);
    assert_true(lh_loop_call(f->server.loop, (void *)FORGET));
    pthread_mutex_lock(&f->mutex);
    while (f->state != LH_SESSION_LOST)
        pthread_cond_wait(&f->heard, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
    assert_int_equal(f->lost, 1);
    assert_int_equal(lh_lock_left_ms(&a), 0);
    assert_int_equal(lh_session_left_ms(f->a), 0);
    assert_int_equal(lh_acquire(f->a, "/m", NULL, WAIT_MS, &a), LH_ERR_CLOSED);
    assert_int_equal(lh_get(f->a, "/v", WAIT_MS, &value), LH_ERR_CLOSED);
}

/* After a fork() it is the parent's alone. */
static void a_child_has_no_session(void **state)
{
    struct fixture *f = *state;
    const struct lh_value *value;
    struct lh_lock a, other;
    int status;

    assert_int_equal(lh_acquire(f->a, "/l", NULL, WAIT_MS, &a), LH_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool good = lh_lock_left_ms(&a) == 0 && lh_session_left_ms(f->a) == 0 &&
                    lh_acquire(f->a, "/m", NULL, WAIT_MS, &other) == LH_ERR_CLOSED &&
                    lh_get(f->a, "/v", WAIT_MS, &value) == LH_ERR_CLOSED &&
                    lh_release(&a) == LH_ERR_CLOSED;
        lh_session_close(f->a, WAIT_MS);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_in_range(lh_lock_left_ms(&a), 1, 9800);
    assert_int_equal(lh_release(&a), LH_OK);
}

/* ---- Values. */

static void a_value_is_asked_for_once(void **state)
{
    struct fixture *f = *state;
    const struct lh_value *value;
    uint64_t revision;

    assert_int_equal(lh_get(f->a, "/v", WAIT_MS, &value), LH_ERR_NOT_FOUND);
    assert_int_equal(lh_get(f->a, "/v", WAIT_MS, &value), LH_ERR_NOT_FOUND);
    assert_int_equal(f->server.reads, 1);
    assert_int_equal(lh_put(f->cluster, "/v", "one", 3, NULL, WAIT_MS, &revision), LH_OK);
    assert_int_equal(revision, 1);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(lh_get(f->a, "/v", WAIT_MS, &value), LH_OK);
        assert_string_equal(value->data, "one");
        assert_int_equal(value->size, 3);
        assert_int_equal(value->revision, 1);
        lh_value_free(value);
    }
    assert_int_equal(f->server.reads, 2);
}

struct reader {
    pthread_t thread;
    struct fixture *f;
    struct lh_session *session;
};

static _Atomic uint64_t put_last;
static atomic_bool over;

static void *read_on(void *arg)
{
    struct reader *r = arg;
    const struct lh_value *value;

    while (!over) {
        uint64_t least = put_last;
        int error = lh_get(r->session, "/v", WAIT_MS, &value);
        if (error != LH_OK)
            return (void *)(uintptr_t) "a read failed";
        uint64_t revision = value->revision;
        lh_value_free(value);
        if (revision < least)
            return (void *)(uintptr_t) "it was replaced before the read began";
    }
    return NULL;
}

/* INV-15 */
static void no_thread_reads_what_was_replaced(void **state)
{
    struct fixture *f = *state;
    struct reader readers[] = {{.session = f->a}, {.session = f->a}, {.session = f->b}};
    uint64_t revision;
    void *fault;

    over = false;
    assert_int_equal(lh_put(f->cluster, "/v", "x", 1, NULL, WAIT_MS, &revision), LH_OK);
    put_last = revision;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(lh_put(f->cluster, "/v", "x", 1, NULL, WAIT_MS, &revision), LH_OK);
        put_last = revision;
    }
    over = true;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(readers[i].thread, &fault), 0);
        if (fault != NULL)
            fail_msg("%s", (const char *)fault);
    }
}

static void a_watch_gives_one_change_after_another(void **state)
{
    struct fixture *f = *state;
    struct lh_watch *watch;
    struct lh_watch_event e;

    assert_int_equal(lh_watch_open(f->cluster, "/", 0, WAIT_MS, &watch), LH_OK);
    assert_int_equal(lh_watch_next(watch, WAIT_MS, &e), LH_OK);
    assert_int_equal(e.kind, LH_WATCH_RESET);
    assert_int_equal(lh_watch_next(watch, WAIT_MS, &e), LH_OK);
    assert_int_equal(e.kind, LH_WATCH_CHANGED);
    assert_string_equal(e.name, "/v");
    assert_int_equal(e.revision, 4);
    assert_int_equal(e.size, 4);
    assert_memory_equal(e.data, "four", 4);
    assert_int_equal(lh_watch_next(watch, WAIT_MS, &e), LH_OK);
    assert_int_equal(e.kind, LH_WATCH_REMOVED);
    assert_int_equal(e.revision, 5);
    assert_int_equal(lh_watch_next(watch, 10, &e), LH_ERR_DEADLINE_EXCEEDED);
    lh_watch_close(watch);
}

static void a_watch_of_locks_names_their_holders(void **state)
{
    struct fixture *f = *state;
    struct lh_watch *watch;
    struct lh_watch_event e;

    assert_int_equal(lh_watch_locks_open(f->cluster, "/", WAIT_MS, &watch), LH_OK);
    assert_int_equal(lh_watch_next(watch, WAIT_MS, &e), LH_OK);
    assert_int_equal(e.kind, LH_WATCH_RESET);
    assert_null(e.holder);
    assert_int_equal(lh_watch_next(watch, WAIT_MS, &e), LH_OK);
    assert_int_equal(e.kind, LH_WATCH_LOCK_GRANTED);
    assert_string_equal(e.name, "/l");
    assert_string_equal(e.holder->session, "ab000000000000000000000000000000");
    assert_string_equal(e.holder->label, "backup");
    assert_int_equal(e.holder->token, 7);
    assert_false(e.holder->shared);
    assert_int_equal(e.holder->info_size, 4);
    assert_memory_equal(e.holder->info, "4711", 4);
    assert_int_equal(lh_watch_next(watch, WAIT_MS, &e), LH_OK);
    assert_int_equal(e.kind, LH_WATCH_LOCK_ENDED);
    assert_int_equal(e.holder->token, 0);
    assert_int_equal(lh_watch_next(watch, 10, &e), LH_ERR_DEADLINE_EXCEEDED);
    lh_watch_close(watch);
    assert_int_equal(lh_watch_locks_open(f->cluster, NULL, 0, &watch), LH_ERR_INVALID_ARGUMENT);
}

static void wrong_arguments_are_named(void **state)
{
    struct fixture *f = *state;
    struct lh_session_options options = {.term_ms = 60001};
    struct lh_session *session;
    struct lh_lock lock;
    char large[LH_VALUE_BYTES_MAX + 1] = {0};

    assert_int_equal(lh_session_open(f->cluster, &options, 10, &session), LH_ERR_INVALID_ARGUMENT);
    assert_int_equal(lh_acquire(f->a, NULL, NULL, 10, &lock), LH_ERR_INVALID_ARGUMENT);
    assert_string_equal(lh_last_error(), "name is NULL");
    assert_int_equal(lh_acquire(f->a, "", NULL, 10, &lock), LH_ERR_INVALID_ARGUMENT);
    assert_int_equal(
        lh_put(f->cluster, "/v", large, sizeof large, NULL, 10, NULL), LH_ERR_TOO_LARGE);
    lh_session_close(NULL, 0);
    lh_value_free(NULL);
    lh_watch_close(NULL);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        STORY(a_lock_is_held_until_it_is_released),
        STORY(a_request_without_waiting_is_answered_later),
        STORY(closing_ends_requests_that_wait),
        STORY(a_recalled_lock_is_released_in_the_callback),
        STORY(a_cancelled_lock_is_lost_in_time),
        STORY(a_lost_session_loses_its_locks_once),
        STORY(a_child_has_no_session),
        STORY(a_value_is_asked_for_once),
        STORY(no_thread_reads_what_was_replaced),
        STORY(a_watch_gives_one_change_after_another),
        STORY(a_watch_of_locks_names_their_holders),
        STORY(wrong_arguments_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
