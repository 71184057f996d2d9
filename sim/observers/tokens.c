/* INV-14 where the store became an older copy, and nothing else is known any more: what a master
 * gives is above all that any master gave before (SES-9, NL-2a). Who joins those who share a lock
 * gets their token, so with shared locks nothing is said. */
#include "sim/observers/tokens.h"

#include "sim/observers/internal.h"

#include <inttypes.h>

struct tokens {
    const struct lh_sim_node *giver; /* the last one, ... */
    uint64_t incarnation;
    uint64_t highest; /* ... what it gave, ... */
    uint64_t before;  /* ... and what all before it did */
    bool shared;
};

void lh_ob_tokens_init(struct lh_sim_observers *o)
{
    o->tokens = lh_alloc(sizeof *o->tokens);
}

void lh_ob_tokens_deinit(struct lh_sim_observers *o)
{
    free(o->tokens);
}

void lh_ob_tokens_takes(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    const Leasehold__LeaseSessionRequest *m = (const Leasehold__LeaseSessionRequest *)s->message;

    if (a->part != PART_MASTER || s->method != LH_METHOD_LEASE_SESSION || m == NULL ||
        m->body_case != LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS)
        return;
    for (size_t i = 0; i < m->ops->n_ops; i++)
        if (m->ops->ops[i]->op_case == LEASEHOLD__LEASE_OP__OP_ACQUIRE &&
            m->ops->ops[i]->acquire->mode == LEASEHOLD__LOCK_MODE__SHARED)
            o->tokens->shared = true;
}

static void given(struct lh_sim_observers *o, const struct actor *a, uint64_t token)
{
    struct tokens *t = o->tokens;
    uint64_t incarnation = lh_sim_incarnation(a->node);

    if (t->giver != a->node || t->incarnation != incarnation) {
        t->before = t->highest > t->before ? t->highest : t->before;
        t->giver = a->node;
        t->incarnation = incarnation;
        t->highest = 0;
    }
    if (token <= t->before && o->restored && !t->shared && lh_sim_failure(o->sim) == NULL)
        lh_sim_fail(o->sim, "INV-14", 0,
            "%s gives token %" PRIu64 ", and %" PRIu64
            " was given before the store became an older copy",
            a->name, token, t->before);
    t->highest = token > t->highest ? token : t->highest;
}

void lh_ob_tokens_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s)
{
    const Leasehold__LeaseSessionReply *m = (const Leasehold__LeaseSessionReply *)s->message;

    if (s->method != LH_METHOD_LEASE_SESSION || s->effect->kind != LH_FX_SEND || m == NULL ||
        m->body_case != LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS)
        return;
    for (size_t i = 0; i < m->answers->n_answers; i++)
        if (m->answers->answers[i]->answer_case == LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED)
            given(o, a, m->answers->answers[i]->granted->token);
}
