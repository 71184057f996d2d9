#include "sim/cluster/holder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A program's own patience with the end of its session. */
#define CLOSING lh_seconds(5)

/* Of a hundred: it does not wait whether a session that has expired goes on. */
#define GIVES_UP 20

void lh_sim_p_name(const struct lh_sim_program *p, uint64_t number, char to[LH_SIM_PATH_MAX + 32])
{
    if (p->spec.names <= 1)
        (void)snprintf(to, LH_SIM_PATH_MAX + 32, "%s", p->spec.path);
    else
        (void)snprintf(
            to, LH_SIM_PATH_MAX + 32, "%s-%u", p->spec.path, (unsigned)(number % p->spec.names));
}

/* ---- Events ---- */

static void next_event(struct lh_sim_program *p);

static void happened(struct request *r)
{
    struct lh_sim_program *p = r->program;
    struct holder *l = p->holder;

    if (r->error == LH_OK && r->u.event.session == l->session) {
        l->lost |= r->u.event.event == LH_CLIENT_LOST ||
                   (r->u.event.event == LH_CLIENT_EXPIRED && lh_prng_chance(&p->random, GIVES_UP));
        if (l->event != NULL)
            l->event(p, &r->u.event);
        if (!l->lost && !l->closing)
            next_event(p);
    }
    lh_sim_p_discard(r);
}

static void next_event(struct lh_sim_program *p)
{
    struct request *r = lh_sim_p_call(p, LH_CALL_SESSION_EVENT, happened);

    r->u.event.session = p->holder->session;
    lh_sim_call(p->node, &r->u);
}

/* ---- Opening and closing ---- */

static void opened(struct request *r)
{
    struct lh_sim_program *p = r->program;

    p->holder->opening = false;
    if (r->error == LH_OK) {
        p->holder->session = r->u.session_open.session;
        p->holder->lost = false;
        next_event(p);
    }
    lh_sim_p_discard(r);
}

static void begin(struct lh_sim_program *p)
{
    struct request *r = lh_sim_p_call(p, LH_CALL_SESSION_OPEN, opened);

    p->holder->opening = true;
    r->u.session_open.term_ms = p->spec.term.ns / 1000000;
    r->u.session_open.host = lh_sim_name(p->node);
    r->u.session_open.process = p->spec.name;
    r->u.session_open.label = p->spec.name;
    r->u.session_open.deadline = lh_sim_p_deadline(p);
    lh_sim_call(p->node, &r->u);
}

static void closed(struct request *r)
{
    struct lh_sim_program *p = r->program;

    p->holder->closing = false;
    lh_sim_p_end(r);
    lh_sim_request_done(p->cluster, r);
}

void lh_sim_p_session_close(struct lh_sim_program *p)
{
    struct holder *l = p->holder;

    if (l->session == NULL)
        return;
    struct request *r = lh_sim_p_begin(p, LH_CALL_SESSION_CLOSE, closed);
    r->u.session_close.session = l->session;
    r->u.session_close.deadline = lh_instant_add(lh_sim_clock(p->node), CLOSING);
    l->session = NULL;
    l->lost = false;
    l->closing = true;
    memset(l->holds, 0, sizeof l->holds);
    lh_sim_call(p->node, &r->u);
}

bool lh_sim_p_session(struct lh_sim_program *p)
{
    struct holder *l = p->holder;

    if (l->opening || l->closing)
        return false;
    if (l->session == NULL)
        begin(p);
    else if (l->lost)
        lh_sim_p_session_close(p);
    return l->session != NULL;
}

void lh_sim_p_session_forget(struct lh_sim_program *p)
{
    void (*event)(struct lh_sim_program *, const struct lh_session_event_call *) = p->holder->event;

    *p->holder = (struct holder){.event = event};
}

bool lh_sim_p_session_wind_up(struct lh_sim_program *p)
{
    struct holder *l = p->holder;

    if (l->session != NULL && !l->closing)
        lh_sim_p_session_close(p);
    return l->session == NULL && !l->opening && !l->closing;
}

void lh_sim_p_session_deinit(struct lh_sim_program *p)
{
    free(p->holder);
}

/* ---- Changes ---- */

struct changing *lh_sim_p_change(struct lh_sim_program *p, uint64_t number, bool remove)
{
    uint32_t size = (uint32_t)lh_prng_between(&p->random, p->spec.bytes_min, p->spec.bytes_max);
    struct changing *c = lh_alloc(sizeof *c + size);

    leasehold__change_request__init(&c->request);
    lh_sim_p_name(p, number, c->name);
    c->request.name = c->name;
    c->request.remove = remove;
    if (!remove) {
        lh_sim_fill_record(c->value, size, lh_mix64(p->spec.seed), p->status.begun);
        c->request.value.data = c->value;
        c->request.value.len = size;
    }
    return c;
}

/* ---- For conditions ---- */

static const struct holder *holder_of(const struct lh_sim_program *p)
{
    bool has = p->holder != NULL && lh_sim_p_lives(p) && p->holder->session != NULL;

    return has ? p->holder : NULL;
}

bool lh_sim_program_holds(const struct lh_sim_program *p, const char *name)
{
    const struct holder *l = holder_of(p);

    for (size_t i = 0; l != NULL && i < HOLDS_MAX; i++)
        if (l->holds[i].phase == HOLD_HELD && strcmp(l->holds[i].name, name) == 0 &&
            lh_client_lock_left(l->session, l->holds[i].lock, lh_sim_clock(p->node)).ns > 0)
            return true;
    return false;
}

uint64_t lh_sim_p_token(const struct lh_sim_program *locker, const char **name)
{
    const struct holder *l = holder_of(locker);

    for (size_t i = 0; l != NULL && i < HOLDS_MAX; i++) {
        const struct hold *h = &l->holds[i];
        if (h->phase != HOLD_HELD || h->shared ||
            lh_client_lock_left(l->session, h->lock, lh_sim_clock(locker->node)).ns == 0)
            continue;
        *name = h->name;
        return h->token;
    }
    return 0;
}

bool lh_sim_program_caches(const struct lh_sim_program *p, const char *name)
{
    const struct holder *l = holder_of(p);
    struct lh_client_value *value = NULL;

    if (l == NULL || !lh_client_cached(l->session, name, lh_sim_clock(p->node), &value))
        return false;
    if (value != NULL)
        lh_client_value_unref(value);
    return true;
}
