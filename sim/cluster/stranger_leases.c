/* Strangers with a session of leases (PS), as a program that its authors have not thought through:
 * its heartbeats come in time, and it hears nothing. It acquires locks, and neither gives them back
 * nor notices that they are cut (NL-4); it caches values, and says not at all, or of an earlier
 * change, that it has dropped one (VAL-2). What it believes is its own affair; others are not to
 * wait for it longer than for a program that is silent. */
#include "sim/cluster/stranger_internal.h"

#define LEAST_TERM_MS 500u

static void say(struct lh_sim_stranger *x, const Leasehold__LeaseSessionRequest *m)
{
    lh_fx_send(x->fx, x->holder.link, &m->base, NULL);
}

/* Some name that programs of the run use, as they make them. NULL: none does. */
static const char *some_name(struct lh_sim_stranger *x, char name[LH_SIM_PATH_MAX + 32])
{
    const struct lh_sim_program *p = NULL, *found = NULL;
    uint64_t count = 0;

    while ((p = lh_sim_program_next(x->cluster, p)) != NULL)
        if (lh_sim_program_spec(p)->kind >= LH_SIM_LOCKER && below(x, ++count) == 0)
            found = p;
    if (found == NULL)
        return NULL;
    lh_sim_p_name(found, below(x, lh_sim_program_spec(found)->names), name);
    return name;
}

bool lh_sim_x_may_lease(const struct lh_sim_stranger *x)
{
    const struct lh_sim_program *p = NULL;

    while ((p = lh_sim_program_next(x->cluster, p)) != NULL)
        if (lh_sim_program_spec(p)->kind >= LH_SIM_LOCKER)
            return true;
    return false;
}

static void attach(struct lh_sim_stranger *x)
{
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach a = LEASEHOLD__ATTACH__INIT;
    struct stranger_holder *l = &x->holder;
    char name[] = "stranger";

    *l = (struct stranger_holder){.link = ++x->links, .last_id = l->last_id};
    for (size_t i = 0; i < sizeof l->id; i++)
        l->id[i] = (uint8_t)lh_prng_next(&x->random);
    lh_fx_open(x->fx, l->link, LH_METHOD_LEASE_SESSION, lh_sim_name(lh_sim_master(x->cluster)),
        LH_DURATION_FOREVER);
    a.session.data = l->id;
    a.session.len = sizeof l->id;
    a.stream = 1;
    a.opens = true;
    a.term_ms = LEAST_TERM_MS + below(x, 2000);
    a.host = a.process = a.label = name;
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    m.attach = &a;
    say(x, &m);
}

static void beat(struct lh_sim_stranger *x, struct lh_instant now)
{
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Beat b = LEASEHOLD__BEAT__INIT;

    b.stamp = now.ns;
    b.last_stamp = x->holder.answered;
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT;
    m.beat = &b;
    say(x, &m);
    x->holder.beat_at = lh_instant_add(now, x->holder.every);
}

static void show(struct lh_sim_stranger *x, struct lh_instant now)
{
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Show s = LEASEHOLD__SHOW__INIT;

    if (below(x, 3) == 0) {
        LH_MARK("stranger-beats-before-it-shows");
        beat(x, now);
    }
    s.stamp = now.ns;
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW;
    m.show = &s;
    say(x, &m);
}

static void operate(struct lh_sim_stranger *x, Leasehold__LeaseOp *op)
{
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__LeaseOps ops = LEASEHOLD__LEASE_OPS__INIT;

    ops.ops = &op;
    ops.n_ops = 1;
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS;
    m.ops = &ops;
    say(x, &m);
}

static void acquire(struct lh_sim_stranger *x, char *name)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__Acquire a = LEASEHOLD__ACQUIRE__INIT;

    LH_MARK("stranger-never-gives-a-lock-back");
    a.id = ++x->holder.last_id;
    a.name = name;
    a.mode = below(x, 2) == 0 ? LEASEHOLD__LOCK_MODE__SHARED : LEASEHOLD__LOCK_MODE__EXCLUSIVE;
    a.recallable = true;
    op.op_case = LEASEHOLD__LEASE_OP__OP_ACQUIRE;
    op.acquire = &a;
    operate(x, &op);
}

static void cache(struct lh_sim_stranger *x, char *name)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__ReadValue r = LEASEHOLD__READ_VALUE__INIT;

    r.id = ++x->holder.last_id;
    r.name = name;
    r.lease = true;
    op.op_case = LEASEHOLD__LEASE_OP__OP_READ;
    op.read = &r;
    operate(x, &op);
}

static void drop(struct lh_sim_stranger *x, const Leasehold__Drop *m)
{
    Leasehold__LeaseOp op = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__Dropped d = LEASEHOLD__DROPPED__INIT;

    LH_MARK("stranger-does-not-confirm");
    if (below(x, 3) == 0 && x->holder.change != 0) {
        d.name = m->name;
        d.change = x->holder.change;
        op.op_case = LEASEHOLD__LEASE_OP__OP_DROPPED;
        op.dropped = &d;
        operate(x, &op);
    }
    x->holder.change = m->change;
}

void lh_sim_x_use_leases(struct lh_sim_stranger *x)
{
    char name[LH_SIM_PATH_MAX + 32];

    if (x->holder.link == 0)
        attach(x);
    else if (x->holder.shown && some_name(x, name) != NULL && below(x, 4) == 0)
        acquire(x, name);
    else if (x->holder.shown && some_name(x, name) != NULL)
        cache(x, name);
}

void lh_sim_x_hears_of_leases(struct lh_sim_stranger *x, const struct lh_input *in)
{
    const Leasehold__LeaseSessionReply *m = in->message;

    switch (m->body_case) {
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING:
        x->holder.every = lh_nanoseconds(m->greeting->term_ms * 1000000 / 3);
        show(x, in->now);
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN:
        x->holder.shown = true;
        x->holder.answered = m->shown->stamp;
        x->holder.beat_at = lh_instant_add(in->now, x->holder.every);
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT:
        x->holder.answered = m->beat->stamp;
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS:
        for (size_t i = 0; i < m->answers->n_answers; i++)
            if (m->answers->answers[i]->answer_case == LEASEHOLD__LEASE_ANSWER__ANSWER_DROP)
                drop(x, m->answers->answers[i]->drop);
        break;
    default:
        break;
    }
}

void lh_sim_x_beats(struct lh_sim_stranger *x, struct lh_instant now)
{
    if (x->holder.shown && lh_instant_reached(now, x->holder.beat_at))
        beat(x, now);
}
