/* INV-18: the request at the head of a free name's queue is granted; nobody waits for ever while
 * others come and go; a release reaches the next request at once.
 *
 * Queues are as the master's own answers tell them. What it does not tell (that a session is over)
 * is taken to be so only when that is certain: a waiter counts while its session's stream is the
 * newest, it has shown what it has, and the newest answer that it is known to have received is not
 * old (who may not hear a grant is passed over); a holder counts as long as it may. That the last
 * waiter is served when all is well is seen by the programs, which have to come to their end. */
#include "sim/observers/leases.h"

#include "sim/cluster/internal.h"
#include "utlist.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A master that has something to do does it within so many of its steps and so long. */
#define DUE_STEPS 256u
#define DUE_NS    UINT64_C(100000000)

static bool is_id(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, SESSION_ID) == 0;
}

/* ---- Queues ---- */

static struct lrequest *request_of(
    struct lh_sim_observers *o, const uint8_t *session, uint64_t id, bool make)
{
    struct lrequest key = {.key.id = id}, *r;

    memcpy(key.key.session, session, SESSION_ID);
    HASH_FIND(hh, o->leases->requests, &key.key, sizeof key.key, r);
    if (r != NULL || !make)
        return r;
    r = lh_alloc(sizeof *r);
    r->key = key.key;
    HASH_ADD(hh, o->leases->requests, key, sizeof r->key, r);
    return r;
}

static void leave(struct lname *n, const uint8_t *session, uint64_t request)
{
    struct lwaiter *w, *next;

    DL_FOREACH_SAFE(n->waiting, w, next)
        if (is_id(w->session, session) && (request == 0 || w->request == request)) {
            DL_DELETE(n->waiting, w);
            free(w);
        }
}

static void release(struct lname *n, const uint8_t *session, uint64_t token)
{
    struct lholder *h, *next;

    DL_FOREACH_SAFE(n->holders, h, next)
        if (is_id(h->session, session) && (token == 0 || h->token == token)) {
            DL_DELETE(n->holders, h);
            free(h);
        }
}

static void hold(struct lname *n, const uint8_t *session, uint64_t token)
{
    struct lholder *h;

    DL_FOREACH(n->holders, h)
        if (is_id(h->session, session) && h->token == token)
            return; /* as it was, also if it is cut */
    release(n, session, 0);
    h = lh_alloc(sizeof *h);
    memcpy(h->session, session, SESSION_ID);
    h->token = token;
    DL_APPEND(n->holders, h);
}

/* NL-4: it ends with the session as it is now, or before. */
static void cut(
    const struct lh_sim_observers *o, const struct lstream *t, struct lname *n, uint64_t token)
{
    struct lholder *h;

    DL_FOREACH(n->holders, h) {
        if (!is_id(h->session, t->session) || h->token != token || h->cut_until.ns != 0)
            continue;
        h->cut_until = lh_instant_add(lh_sim_clock(o->master->node),
            lh_nanoseconds(lh_ob_tenths(t->term, 12) + lh_seconds(1).ns));
        n->cut = true;
    }
}

static void wait_in(struct lrequest *r, uint64_t number)
{
    struct lwaiter *w = lh_alloc(sizeof *w);

    leave(r->name, r->key.session, r->key.id);
    memcpy(w->session, r->key.session, SESSION_ID);
    w->request = r->key.id;
    w->number = r->number = number;
    DL_APPEND(r->name->waiting, w);
}

static void session_over(struct lh_sim_observers *o, const uint8_t *session)
{
    struct lname *n, *next;

    HASH_ITER(hh, o->leases->names, n, next) {
        leave(n, session, 0);
        release(n, session, 0);
    }
}

static struct lwaiter *head_of(struct lh_sim_observers *o, const struct lname *n, bool certain)
{
    struct lwaiter *w, *first = NULL;

    DL_FOREACH(n->waiting, w)
        if ((first == NULL || w->number < first->number) && !lh_ob_lstream_over(o, w->session) &&
            (!certain || lh_ob_lstream_alive(o, w->session)))
            first = w;
    return first;
}

static bool is_free(struct lh_sim_observers *o, const struct lname *n)
{
    struct lholder *h;

    DL_FOREACH(n->holders, h)
        if (!lh_ob_lstream_over(o, h->session))
            return false;
    return true;
}

/* Sessions of former masters may still be away (PS-3). */
static bool may_wait(const struct lh_sim_observers *o)
{
    return lh_sim_now(o->sim) - o->leases->life_since <
           2 * o->leases->longest.ns + lh_seconds(3).ns;
}

/* Something was given back. */
static void next_is_due(struct lh_sim_observers *o, struct lname *n)
{
    struct lwaiter *w = head_of(o, n, false);

    if (w == NULL || n->due_at != 0 || !is_free(o, n) || may_wait(o) ||
        !lh_ob_lstream_alive(o, w->session))
        return;
    n->due_at = lh_sim_now(o->sim) + DUE_NS + o->cluster->config.world.timer_late.ns;
    n->due_steps = 0;
}

/* ---- What the program says ---- */

static void takes_show(struct lh_sim_observers *o, struct lstream *t, const Leasehold__Show *m)
{
    for (size_t i = 0; i < m->n_waiting; i++) {
        struct lrequest *r = request_of(o, t->session, m->waiting[i]->id, true);
        r->name = lh_ob_lname(o, m->waiting[i]->name);
        r->shared = m->waiting[i]->mode == LEASEHOLD__LOCK_MODE__SHARED;
        if (m->waiting[i]->queued == 0)
            continue;
        struct lwaiter *w = lh_alloc(sizeof *w);
        memcpy(w->session, t->session, SESSION_ID);
        w->request = m->waiting[i]->id;
        w->number = m->waiting[i]->queued;
        DL_APPEND(t->shown, w);
    }
    for (size_t i = 0; i < m->n_locks; i++) {
        struct shown_lock *k = lh_alloc(sizeof *k);
        k->name = lh_ob_lname(o, m->locks[i]->name);
        k->token = m->locks[i]->token;
        LL_PREPEND(t->shown_locks, k);
    }
    t->renewed = o->master->clock;
}

static void takes_op(struct lh_sim_observers *o, struct lstream *t, const Leasehold__LeaseOp *op)
{
    struct lrequest *r;

    switch (op->op_case) {
    case LEASEHOLD__LEASE_OP__OP_ACQUIRE:
        r = request_of(o, t->session, op->acquire->id, true);
        r->name = lh_ob_lname(o, op->acquire->name);
        r->shared = op->acquire->mode == LEASEHOLD__LOCK_MODE__SHARED;
        break;
    case LEASEHOLD__LEASE_OP__OP_RELEASE: {
        struct lname *n = lh_ob_lname(o, op->release->name);
        release(n, t->session, op->release->token);
        next_is_due(o, n);
        break;
    }
    case LEASEHOLD__LEASE_OP__OP_YIELD:
        if (!op->yield->refuse)
            cut(o, t, lh_ob_lname(o, op->yield->name), op->yield->token);
        break;
    case LEASEHOLD__LEASE_OP__OP_WITHDRAW:
        r = request_of(o, t->session, op->withdraw->id, false);
        if (r != NULL) {
            r->withdrawn = true; /* though that it waits is still to be said, in this step */
            leave(r->name, t->session, r->key.id);
            next_is_due(o, r->name);
        }
        break;
    default:
        break;
    }
}

static void attaches(struct lh_sim_observers *o, struct lstream *t, const Leasehold__Attach *m)
{
    if (m->session.len != SESSION_ID)
        return;
    lh_ob_lstream_attaches(o, t, m);
    if (t->over)
        return;
    /* Until it has shown what it has nobody can say what it waits for. */
    struct lname *n, *next_name;
    HASH_ITER(hh, o->leases->names, n, next_name)
        leave(n, t->session, 0);
}

void lh_ob_inv18_takes(
    struct lh_sim_observers *o, struct lstream *t, const Leasehold__LeaseSessionRequest *m)
{
    if (o->leases->life != o->master_life) {
        o->leases->life = o->master_life;
        o->leases->life_since = lh_sim_now(o->sim);
    }
    switch (m->body_case) {
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH:
        attaches(o, t, m->attach);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW:
        if (t->attached)
            takes_show(o, t, m->show);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT:
        if (t->back)
            t->renewed = o->master->clock;
        lh_ob_lstream_hears(t, m->beat->last_stamp);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS:
        for (size_t i = 0; t->back && !t->over && i < m->ops->n_ops; i++)
            takes_op(o, t, m->ops->ops[i]);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE:
        if (t->attached && !t->over)
            session_over(o, t->session);
        t->over = true;
        break;
    default:
        break;
    }
}

/* ---- What the master says ---- */

static bool is_lost(const Leasehold__Shown *m, const char *name)
{
    for (size_t i = 0; i < m->n_lost; i++)
        if (strcmp(m->lost[i], name) == 0)
            return true;
    return false;
}

static bool goes_on(const struct lstream *t, const Leasehold__Shown *m, const struct lname *n)
{
    const struct shown_lock *k;

    LL_FOREACH(t->shown_locks, k)
        if (k->name == n)
            return !is_lost(m, n->text);
    return false;
}

static void says_shown(struct lh_sim_observers *o, struct lstream *t, const Leasehold__Shown *m)
{
    struct lwaiter *w;
    struct shown_lock *k;
    struct lname *n, *next;

    HASH_ITER(hh, o->leases->names, n, next)
        if (!goes_on(t, m, n))
            release(n, t->session, 0);
    LL_FOREACH(t->shown_locks, k)
        if (!is_lost(m, k->name->text))
            hold(k->name, t->session, k->token);
    DL_FOREACH(t->shown, w) {
        struct lrequest *r = request_of(o, t->session, w->request, false);
        if (r != NULL)
            wait_in(r, w->number);
    }
    lh_ob_lstream_drop_shown(t);
    t->back = true;
}

static void says_granted(
    struct lh_sim_observers *o, const struct lstream *t, const Leasehold__Granted *m)
{
    const struct lrequest *r = request_of(o, t->session, m->id, false);
    struct lwaiter *w;

    if (r == NULL)
        return; /* before it was asked: inv14 says so when it is told */
    /* It may be withdrawn in this very step, behind the grant. */
    uint64_t number = r->number == 0 ? UINT64_MAX : r->number;
    leave(r->name, t->session, m->id);
    hold(r->name, t->session, m->token);
    r->name->due_at = 0;
    /* Who comes to the queue later in this step is not passed by. */
    DL_FOREACH(r->name->waiting, w)
        w->passed_by |= w->number < number;
    r->name->passed_by = true;
    lh_ob_inv14_granted(o, t->session, m->id, r->name, r->shared, m->token);
}

/* VAL-2: caches are told to drop the value; each has, or its lease ends with its session as it was
 * then. `change` counts from the first that is told. */
static void value_changes(struct lh_sim_observers *o, struct lname *n, uint64_t change)
{
    uint64_t now = lh_sim_now(o->sim);
    uint64_t longest = lh_ob_tenths(o->leases->longest, 12) + lh_seconds(2).ns +
                       16 * o->cluster->config.world.timer_late.ns;

    if (n->change != change) {
        n->change = change;
        n->changing_since = now;
    } else if (now - n->changing_since > longest && !may_wait(o) && !o->config.clocks_beyond_rho) {
        lh_sim_fail(o->sim, "INV-18", 0,
            "the value of %s changes since %" PRIu64 " ms, longer than any cache lease is (VAL-2)",
            n->text, n->changing_since / 1000000);
    }
}

static void says_answer(
    struct lh_sim_observers *o, const struct lstream *t, const Leasehold__LeaseAnswer *a)
{
    struct lname *n, *next;
    struct lrequest *r;

    switch (a->answer_case) {
    case LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED:
        says_granted(o, t, a->granted);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_QUEUED:
        r = request_of(o, t->session, a->queued->id, false);
        if (r != NULL && !r->withdrawn && !t->over)
            wait_in(r, a->queued->queued);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_REFUSED:
        r = a->refused->id == 0 ? NULL : request_of(o, t->session, a->refused->id, false);
        if (r != NULL)
            leave(r->name, t->session, a->refused->id);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_DEMAND:
        if (a->demand->cancel)
            cut(o, t, lh_ob_lname(o, a->demand->name), a->demand->token);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_DROP:
        value_changes(o, lh_ob_lname(o, a->drop->name), a->drop->change);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE:
        HASH_ITER(hh, o->leases->names, n, next)
            if (n->change != 0 && n->change == a->value->changing)
                value_changes(o, n, n->change);
        break;
    default:
        break;
    }
}

void lh_ob_inv18_says(
    struct lh_sim_observers *o, struct lstream *t, const Leasehold__LeaseSessionReply *m)
{
    switch (m->body_case) {
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING:
        t->term = lh_nanoseconds(m->greeting->term_ms * 1000000);
        if (t->term.ns > o->leases->longest.ns)
            o->leases->longest = t->term;
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN:
        says_shown(o, t, m->shown);
        lh_ob_lstream_answers(o, t, m->shown->stamp);
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT:
        if (m->beat->error != LEASEHOLD__ERROR_CODE__OK)
            session_over(o, t->session);
        else
            lh_ob_lstream_answers(o, t, m->beat->stamp);
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS:
        for (size_t i = 0; i < m->answers->n_answers && !failed(o); i++)
            says_answer(o, t, m->answers->answers[i]);
        break;
    default:
        break;
    }
}

/* ---- After a step of the master ---- */

/* Who does not listen has lost a lock that was cut all the same. */
static void end_cut(struct lh_sim_observers *o, struct lname *n)
{
    struct lh_instant now = lh_sim_clock(o->master->node);
    struct lholder *h, *next;

    n->cut = false;
    DL_FOREACH_SAFE(n->holders, h, next) {
        n->cut |= h->cut_until.ns != 0;
        if (h->cut_until.ns == 0 || lh_instant_before(now, h->cut_until))
            continue;
        DL_DELETE(n->holders, h);
        free(h);
        next_is_due(o, n);
    }
}

static void check_name(struct lh_sim_observers *o, struct lname *n)
{
    struct lwaiter *w;

    if (n->passed_by) {
        /* With what had waited in it: what a step took last is not what it decided by first. */
        bool mixed = lh_ob_is_mixed(o);
        w = head_of(o, n, true);
        if (w != NULL && w->passed_by && !mixed && !o->config.clocks_beyond_rho)
            lh_sim_fail(o->sim, "INV-18", 0,
                "a request for %s is granted, and %" PRIu64 ", which came before it, is not (NL-1)",
                n->text, w->number);
        DL_FOREACH(n->waiting, w)
            w->passed_by = false;
        n->passed_by = false;
    }
    if (n->due_at == 0)
        return;
    w = head_of(o, n, false);
    if (w == NULL || !is_free(o, n) || !lh_ob_lstream_alive(o, w->session))
        n->due_at = 0;
    else if (lh_sim_now(o->sim) > n->due_at && ++n->due_steps > DUE_STEPS &&
             !o->config.clocks_beyond_rho)
        lh_sim_fail(o->sim, "INV-18", 0,
            "%s is free since %" PRIu64 " ms, and request %" PRIu64 " still waits", n->text,
            n->due_at / 1000000, w->number);
}

void lh_ob_inv18_stepped(struct lh_sim_observers *o)
{
    struct lname *n, *next;

    HASH_ITER(hh, o->leases->names, n, next) {
        if (n->cut)
            end_cut(o, n);
        if (!failed(o) && (n->passed_by || n->due_at != 0))
            check_name(o, n);
    }
}

void lh_ob_inv18_forget(struct lh_sim_observers *o)
{
    struct lname *n, *next;
    struct lstream *t, *next_stream;
    struct lwaiter *w, *next_waiter;
    struct lholder *h, *next_holder;

    HASH_ITER(hh, o->leases->streams, t, next_stream)
        lh_ob_inv18_stream_gone(o, t);
    HASH_ITER(hh, o->leases->names, n, next) {
        DL_FOREACH_SAFE(n->waiting, w, next_waiter) {
            DL_DELETE(n->waiting, w);
            free(w);
        }
        DL_FOREACH_SAFE(n->holders, h, next_holder) {
            DL_DELETE(n->holders, h);
            free(h);
        }
        n->due_at = n->change = 0;
        n->passed_by = n->cut = false;
    }
}
