/* A program that changes values, with and without conditions; some go with its session (VAL-4). */
#include "sim/cluster/holder.h"

#include "proto/codec.h"

#include <string.h>

/* Of a hundred changes. */
#define REMOVES     20
#define CONDITIONAL 40
#define FORCED      10
#define GETS        20 /* it only looks */

static uint64_t number_of(const struct lh_sim_program *p, const char *name)
{
    char other[LH_SIM_PATH_MAX + 32];

    for (uint64_t i = 0; i < p->spec.names; i++) {
        lh_sim_p_name(p, i, other);
        if (strcmp(other, name) == 0)
            return i;
    }
    return 0;
}

static void changed(struct request *r)
{
    struct lh_sim_program *p = r->program;
    const struct changing *c = r->memory;
    const Leasehold__ChangeReply *reply = (const Leasehold__ChangeReply *)r->u.master.reply;

    if (reply != NULL && p->holder != NULL)
        p->holder->revisions[number_of(p, c->name)] =
            c->request.remove && r->error == LH_OK ? 0 : reply->revision;
    lh_sim_p_answered(r);
}

static void change(struct lh_sim_program *p)
{
    uint64_t number = lh_prng_below(&p->random, p->spec.names);
    struct changing *c = lh_sim_p_change(p, number, lh_prng_chance(&p->random, REMOVES));
    bool attach = p->spec.attached && !c->request.remove && lh_prng_chance(&p->random, 70);

    if (lh_prng_chance(&p->random, CONDITIONAL)) {
        c->request.if_revision = true;
        c->request.revision = p->holder->revisions[number];
    }
    c->request.force = lh_prng_chance(&p->random, FORCED);
    if (lh_prng_chance(&p->random, 20))
        c->request.wait_ms = 1 + lh_prng_below(&p->random, 2000);
    if (attach && p->holder->session != NULL && !p->holder->lost) {
        memcpy(c->session, lh_client_session_id(p->holder->session), sizeof c->session);
        c->request.attach.data = c->session;
        c->request.attach.len = sizeof c->session;
    }
    (void)lh_sim_p_ask(p, LH_METHOD_CHANGE, &c->request.base, changed);
}

/* A question about one name. */
struct looking {
    Leasehold__GetRequest request;
    char name[LH_SIM_PATH_MAX + 32];
};

static void looked(struct request *r)
{
    struct lh_sim_program *p = r->program;
    const struct looking *l = r->memory;
    const Leasehold__GetReply *reply = (const Leasehold__GetReply *)r->u.master.reply;

    if (p->holder != NULL && reply != NULL)
        p->holder->revisions[number_of(p, l->name)] =
            r->error == LH_OK && reply->value != NULL ? reply->value->revision : 0;
    lh_sim_p_answered(r);
}

static void look(struct lh_sim_program *p)
{
    struct looking *l = lh_alloc(sizeof *l);

    leasehold__get_request__init(&l->request);
    lh_sim_p_name(p, lh_prng_below(&p->random, p->spec.names), l->name);
    l->request.name = l->name;
    (void)lh_sim_p_ask(p, LH_METHOD_GET, &l->request.base, looked);
}

static void go_on(struct lh_sim_program *p)
{
    if (p->holder == NULL)
        p->holder = lh_alloc(sizeof *p->holder);
    if (p->spec.attached && !lh_sim_p_session(p))
        return;
    if (p->spec.attached && p->spec.names > 1 && lh_prng_below(&p->random, 200) == 0)
        lh_sim_p_session_close(p);
    else if (p->status.pending >= p->spec.window)
        return;
    else if (lh_prng_chance(&p->random, GETS))
        look(p);
    else
        change(p);
}

static bool wind_up(struct lh_sim_program *p)
{
    return p->holder == NULL || (lh_sim_p_session_wind_up(p) && p->status.pending == 0);
}

static void forget(struct lh_sim_program *p)
{
    if (p->holder != NULL)
        lh_sim_p_session_forget(p);
}

const struct program_kind lh_sim_changer = {
    .go_on = go_on, .forget = forget, .wind_up = wind_up, .deinit = lh_sim_p_session_deinit};
