/* Locks: asked for, held, released, recalled, cut (NL-1 to NL-4). What is released is not held
 * here any more at once; the master hears of it with the next message, or by what is shown next. */
#include "client/core/names/locks.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static struct lh_client_lock *by_id(const struct lh_client_session *s, uint64_t id)
{
    struct lh_client_lock *l;

    HASH_FIND(of_id, s->names->by_id, &id, sizeof id, l);
    return l;
}

struct lh_client_lock *lh_client_lock_named(const struct lh_client_session *s, const char *name)
{
    struct lh_client_lock *l;

    HASH_FIND(of_name, s->names->by_name, name, strlen(name), l);
    return l;
}

static struct lh_client_lock *held_by_name(
    const struct lh_client_session *s, const char *name, uint64_t token)
{
    struct lh_client_lock *l = lh_client_lock_named(s, name);

    return l != NULL && lh_client_lock_is_held(l) && l->token == token ? l : NULL;
}

static struct lh_client_lock *held_by_id(const struct lh_client_session *s, uint64_t id)
{
    struct lh_client_lock *l = by_id(s, id);

    return l != NULL && lh_client_lock_is_held(l) ? l : NULL;
}

static void free_lock(struct lh_client_lock *l)
{
    struct lh_client_session *s = l->session;
    struct lh_client_host *c = s->client;

    lh_client_guard(c);
    HASH_DELETE(of_name, s->names->by_name, l);
    HASH_DELETE(of_id, s->names->by_id, l);
    lh_client_unguard(c);
    lh_timer_unset(&c->timers, &l->timer);
    if (l->op != NULL)
        lh_client_op_drop(s, l->op);
    free(l->info);
    free(l);
}

struct lh_duration lh_client_lock_left(
    const struct lh_client_session *s, uint64_t lock, struct lh_instant now)
{
    const struct lh_client_lock *l = held_by_id(s, lock);

    if (l == NULL)
        return lh_nanoseconds(0);
    if (LH_PLANTED("lock-believed-after-session"))
        return lh_instant_until(now, l->end);
    return lh_instant_until(now, lh_instant_min(l->end, s->valid_until));
}

/* ---- Operations. */

static char *put_string(struct lh_client_op *op, const char *text)
{
    strcpy(op->bytes, text);
    return op->bytes;
}

void lh_client_release_send(struct lh_client_session *s, const char *name, uint64_t token)
{
    struct lh_client_op *op =
        lh_client_op_add(s, LEASEHOLD__LEASE_OP__OP_RELEASE, strlen(name) + 1, NULL);

    if (op == NULL)
        return;
    op->body.release.name = put_string(op, name);
    op->body.release.token = token;
}

void lh_client_acquire_message(Leasehold__Acquire *m, const struct lh_client_lock *l)
{
    leasehold__acquire__init(m);
    m->id = l->id;
    m->name = (char *)(uintptr_t)l->name;
    m->mode = l->shared ? LEASEHOLD__LOCK_MODE__SHARED : LEASEHOLD__LOCK_MODE__EXCLUSIVE;
    m->slots = l->slots;
    m->no_wait = l->no_wait;
    m->info.data = l->info;
    m->info.len = l->info_size;
    m->recallable = l->recallable;
    m->queued = l->queued;
}

/* The message refers to the lock, which drops it when it goes. While an earlier request for the
 * name may have been granted it is held back: the master would refuse it. */
void lh_client_acquire_send(struct lh_client_lock *l)
{
    struct lh_client_session *s = l->session;

    if (lh_client_is_withdrawn(s, l->name)) {
        LH_MARK("acquire-behind-withdrawal");
        lh_client_session_want_beat(s);
        return;
    }
    struct lh_client_op *op = lh_client_op_add(s, LEASEHOLD__LEASE_OP__OP_ACQUIRE, 0, &l->op);
    if (op == NULL)
        return;
    l->asked_on = s->stream;
    op->size += strlen(l->name) + l->info_size;
    lh_client_acquire_message(&op->body.acquire, l);
}

/* ---- Requests. */

static void end_request(struct lh_client_lock *l, int error, const char *text)
{
    struct lh_acquire_call *call = l->call;
    struct lh_client_host *c = l->session->client;

    free_lock(l);
    lh_client_complete(c, &call->call, error, text);
}

/* ---- The end of a lock. */

static void lose(struct lh_client_lock *l, const char *why)
{
    struct lh_client_session *s = l->session;
    uint64_t id = l->id;

    free_lock(l);
    lh_client_event_add(s, LH_CLIENT_LOCK_LOST, id, 0, why);
}

static void cut_end(struct lh_client_lock *l)
{
    LH_MARK("cut-lock-ends");
    lh_client_release_send(l->session, l->name, l->token);
    lose(l, "it was cut, and its time is over");
}

static void timer_fires(void *core, struct lh_timer *timer)
{
    struct lh_client_lock *l = LH_OWNER(timer, struct lh_client_lock, timer);

    (void)core;
    if (lh_client_lock_is_held(l)) {
        if (!lh_client_session_expires(l->session))
            cut_end(l);
        return;
    }
    LH_MARK("lock-request-withdrawn");
    lh_client_withdraw(l);
    end_request(l, LH_ERR_DEADLINE_EXCEEDED, "the lock was not granted in time");
}

void lh_client_locks_cut_end(struct lh_client_session *s)
{
    struct lh_client_lock *l, *after;

    HASH_ITER(of_name, s->names->by_name, l, after)
        if (lh_client_lock_is_held(l) && lh_instant_reached(s->client->now, l->end))
            cut_end(l);
}

/* No renewal covers it from now on: it ends at `end`, or earlier if it was to. */
static void cut(struct lh_client_lock *l, struct lh_instant end)
{
    struct lh_client_host *c = l->session->client;

    if (LH_PLANTED("cut-lock-renewed-at-holder"))
        return;
    lh_client_guard(c);
    l->end = lh_instant_min(l->end, end);
    lh_client_unguard(c);
    lh_timer_set(&c->timers, &l->timer, l->end);
}

/* ---- Calls. */

static const char *fault_of(const struct lh_acquire_call *call)
{
    size_t length = call->name == NULL ? 0 : strnlen(call->name, LH_CLIENT_NAME_BYTES_MAX + 1);

    if (length == 0 || length > LH_CLIENT_NAME_BYTES_MAX)
        return "a lock's name has 1 to 1024 bytes";
    if (call->info_size > LH_CLIENT_INFO_BYTES_MAX)
        return "a lock's info has at most 256 bytes";
    return NULL;
}

static struct lh_client_lock *add_lock(struct lh_acquire_call *call)
{
    struct lh_client_session *s = call->session;
    size_t length = strlen(call->name);
    struct lh_client_lock *l = lh_alloc(sizeof *l + length + 1);

    memcpy(l->name, call->name, length);
    l->session = s;
    l->id = ++s->names->last_id;
    l->end = LH_INSTANT_NEVER;
    l->shared = call->shared;
    l->no_wait = call->no_wait;
    l->recallable = call->recallable;
    l->slots = call->slots;
    l->info = lh_alloc(call->info_size + 1);
    l->info_size = call->info_size;
    if (call->info_size > 0)
        memcpy(l->info, call->info, call->info_size);
    l->call = call;
    l->timer.fire = timer_fires;
    lh_client_guard(s->client);
    HASH_ADD(of_name, s->names->by_name, name, length, l);
    HASH_ADD(of_id, s->names->by_id, id, sizeof l->id, l);
    lh_client_unguard(s->client);
    return l;
}

void lh_client_acquire(struct lh_acquire_call *call)
{
    struct lh_client_session *s = call->session;
    struct lh_client_host *c = s->client;
    const char *fault = fault_of(call);

    call->lock = call->token = 0;
    if (lh_client_session_refuses(s, &call->call))
        return;
    if (fault != NULL) {
        lh_client_complete(c, &call->call, LH_ERR_INVALID_ARGUMENT, fault);
    } else if (lh_client_lock_named(s, call->name) != NULL) {
        lh_client_complete(c, &call->call, LH_ERR_ALREADY_EXISTS,
            "this session holds the lock already, or waits for it");
    } else if (HASH_CNT(of_id, s->names->by_id) >= c->config.session_locks) {
        lh_client_complete(
            c, &call->call, LH_ERR_NO_MEMORY, "this session has too many locks and requests");
    } else {
        struct lh_client_lock *l = add_lock(call);
        lh_timer_set(&c->timers, &l->timer, call->deadline);
        lh_client_acquire_send(l);
    }
}

void lh_client_acquire_withdraw(struct lh_withdraw_call *call)
{
    struct lh_client_session *s = call->session;
    struct lh_client_lock *l = lh_client_lock_named(s, call->name);

    if (l == NULL || lh_client_lock_is_held(l) || l->call->tag != call->tag) {
        lh_client_complete(
            s->client, &call->call, LH_ERR_NOT_FOUND, "no such request of this session waits");
        return;
    }
    LH_MARK("lock-request-cancelled");
    lh_client_withdraw(l);
    end_request(l, LH_ERR_CANCELLED, "the request was withdrawn");
    lh_client_complete(s->client, &call->call, LH_OK, NULL);
}

static const char not_held[] = "the lock is not held any more";

void lh_client_release(struct lh_release_call *call)
{
    struct lh_client_session *s = call->session;
    struct lh_client_lock *l = held_by_id(s, call->lock);

    if (l == NULL || lh_client_session_expires(s)) {
        lh_client_complete(s->client, &call->call, LH_ERR_NOT_LEASED, not_held);
        return;
    }
    lh_client_release_send(s, l->name, l->token);
    lh_client_events_drop(s, l->id);
    free_lock(l);
    lh_client_complete(s->client, &call->call, LH_OK, NULL);
}

void lh_client_yield(struct lh_yield_call *call)
{
    struct lh_client_session *s = call->session;
    struct lh_client_host *c = s->client;
    struct lh_client_lock *l = held_by_id(s, call->lock);
    bool keeps = call->in.ns == UINT64_MAX;

    if (l == NULL || lh_client_session_expires(s)) {
        lh_client_complete(c, &call->call, LH_ERR_NOT_LEASED, not_held);
        return;
    }
    struct lh_client_op *op =
        lh_client_op_add(s, LEASEHOLD__LEASE_OP__OP_YIELD, strlen(l->name) + 1, NULL);
    if (op != NULL) {
        op->body.yield.name = put_string(op, l->name);
        op->body.yield.token = l->token;
        op->body.yield.refuse = keeps;
        op->body.yield.in_ms = keeps ? 0 : lh_duration_ms(call->in);
    }
    if (!keeps)
        cut(l, lh_instant_min(lh_instant_add(c->now, call->in), s->valid_until));
    lh_client_complete(c, &call->call, LH_OK, NULL);
}

/* ---- What the master says. */

void lh_client_granted(struct lh_client_session *s, const Leasehold__Granted *m)
{
    struct lh_client_lock *l = by_id(s, m->id);
    struct lh_client_host *c = s->client;

    if (m->token == 0)
        return;
    if (l == NULL) {
        lh_client_granted_late(s, m);
        return;
    }
    if (lh_client_lock_is_held(l))
        return;
    lh_client_guard(c);
    l->token = m->token;
    lh_client_unguard(c);
    lh_timer_unset(&c->timers, &l->timer);
    l->call->lock = l->id;
    l->call->token = l->token;
    lh_client_complete(c, &l->call->call, LH_OK, NULL);
    l->call = NULL;
}

void lh_client_queued(struct lh_client_session *s, const Leasehold__Queued *m)
{
    struct lh_client_lock *l = by_id(s, m->id);

    if (l != NULL && !lh_client_lock_is_held(l))
        l->queued = m->queued;
}

bool lh_client_lock_refused(struct lh_client_session *s, const Leasehold__Refused *m)
{
    struct lh_client_lock *l = by_id(s, m->id);
    int error = lh_error_from_wire(m->error);

    if (l == NULL)
        return false;
    if (!lh_client_lock_is_held(l))
        end_request(l, error == LH_OK ? LH_ERR_UNAVAILABLE : error, m->text);
    return true;
}

void lh_client_demanded(struct lh_client_session *s, const Leasehold__Demand *m)
{
    struct lh_client_lock *l = held_by_name(s, m->name, m->token);

    if (l == NULL)
        return; /* it is on its way back */
    if (!m->cancel) {
        if (l->recallable)
            lh_client_event_add(s, LH_CLIENT_RECALLED, l->id, m->waiting, m->why);
        return;
    }
    bool known = l->end.ns != UINT64_MAX;
    cut(l, s->valid_until);
    if (!known)
        lh_client_event_add(s, LH_CLIENT_CUT, l->id, 0, m->why);
}

/* By that name, on this stream: the program may have released it since, and asked again. */
static struct lh_client_lock *shown_by_name(const struct lh_client_session *s, const char *name)
{
    struct lh_client_lock *l = lh_client_lock_named(s, name);

    return l != NULL && lh_client_lock_is_held(l) && l->shown_on == s->stream ? l : NULL;
}

void lh_client_locks_shown(
    struct lh_client_session *s, const Leasehold__Shown *m, struct lh_instant until)
{
    for (size_t i = 0; i < m->n_lost; i++) {
        struct lh_client_lock *l = shown_by_name(s, m->lost[i]);
        if (l != NULL)
            lose(l, "it does not go on at the present master");
    }
    for (size_t i = 0; i < m->n_cut; i++) {
        struct lh_client_lock *l = shown_by_name(s, m->cut[i]);
        if (l == NULL || l->end.ns != UINT64_MAX)
            continue;
        /* The demand was lost with its stream. When it was made, no more had been promised. */
        LH_MARK("cut-learned-by-showing");
        cut(l, until);
        lh_client_event_add(s, LH_CLIENT_CUT, l->id, 0, "it was cancelled");
    }
}

void lh_client_locks_up(struct lh_client_session *s)
{
    struct lh_client_lock *l, *after;

    HASH_ITER(of_name, s->names->by_name, l, after)
        if (!lh_client_lock_is_held(l) && l->asked_on != s->stream)
            lh_client_acquire_send(l);
}

/* ---- The end of all. */

void lh_client_locks_lost(struct lh_client_session *s, const char *why)
{
    struct lh_client_lock *l, *after;

    HASH_ITER(of_name, s->names->by_name, l, after)
        if (lh_client_lock_is_held(l))
            lose(l, why);
}

void lh_client_locks_end(struct lh_client_session *s, bool complete, int error, const char *text)
{
    struct lh_client_lock *l, *after;

    HASH_ITER(of_name, s->names->by_name, l, after)
        if (complete)
            end_request(l, error, text);
        else
            free_lock(l);
    lh_client_withdrawn_clear(s);
}

void lh_client_locks_check(const struct lh_client_session *s)
{
    const struct lh_client_lock *l, *after;
    size_t count = 0;

    HASH_ITER(of_name, s->names->by_name, l, after) {
        bool held = lh_client_lock_is_held(l);
        LH_ASSERT(l->session == s && by_id(s, l->id) == l && l->id <= s->names->last_id);
        LH_ASSERT(held == (l->call == NULL));
        LH_ASSERT(!held || l->op == NULL);
        LH_ASSERT(!held || (l->end.ns != UINT64_MAX) == lh_timer_is_set(&l->timer));
        count++;
    }
    LH_ASSERT(count == HASH_CNT(of_id, s->names->by_id));
    LH_ASSERT(count <= s->client->config.session_locks);
}
