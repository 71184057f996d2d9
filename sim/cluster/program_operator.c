/* An operator: cancels locks (NL-4), lists names and sessions, sets policies (NL-5, VAL-5). */
#include "sim/cluster/program_internal.h"

#include <stdio.h>

struct asking {
    union {
        ProtobufCMessage base;
        Leasehold__CancelRequest cancel;
        Leasehold__ListNamesRequest names;
        Leasehold__ListSessionsRequest sessions;
        Leasehold__ListPoliciesRequest policies;
        Leasehold__SetPolicyRequest set;
    } u;
    Leasehold__Policy policy;
    char name[LH_SIM_PATH_MAX + 32];
};

static void cancel(struct lh_sim_program *p, struct asking *a)
{
    leasehold__cancel_request__init(&a->u.cancel);
    a->u.cancel.name = a->name;
    a->u.cancel.wait_ms = lh_prng_below(&p->random, 2) * lh_prng_below(&p->random, 3000);
    (void)lh_sim_p_ask(p, LH_METHOD_CANCEL, &a->u.base, lh_sim_p_answered);
}

/* A whole name, or what is under a prefix that ends in "/" (VAL-5). */
static void set_broadcast(struct lh_sim_program *p, struct asking *a)
{
    leasehold__set_policy_request__init(&a->u.set);
    leasehold__policy__init(&a->policy);
    a->u.set.policy = &a->policy;
    (void)snprintf(a->name, sizeof a->name, "%s", p->spec.path);
    a->policy.prefix = a->name;
    a->policy.broadcast = true;
    (void)lh_sim_p_ask(p, LH_METHOD_SET_POLICY, &a->u.base, lh_sim_p_answered);
}

/* Of all names, of those of the program, or of one of them. */
static void set_policy(struct lh_sim_program *p, struct asking *a)
{
    struct lh_prng *r = &p->random;

    leasehold__set_policy_request__init(&a->u.set);
    leasehold__policy__init(&a->policy);
    a->u.set.policy = &a->policy;
    if (lh_prng_chance(r, 30))
        (void)snprintf(a->name, sizeof a->name, "/");
    else if (lh_prng_chance(r, 30))
        (void)snprintf(a->name, sizeof a->name, "%s", p->spec.path);
    a->policy.prefix = a->name;
    a->u.set.remove = lh_prng_chance(r, 30);
    a->policy.no_recall = lh_prng_chance(r, 30);
    a->policy.share_percent = lh_prng_chance(r, 50) ? 0 : (uint32_t)lh_prng_below(r, 300);
    a->policy.term_min_ms = lh_prng_chance(r, 50) ? 0 : 1 + lh_prng_below(r, 1000);
    a->policy.term_max_ms = a->policy.term_min_ms == 0 || lh_prng_chance(r, 50)
                                ? 0
                                : a->policy.term_min_ms + lh_prng_below(r, 20000);
    a->policy.no_lease = lh_prng_chance(r, 15);
    a->policy.broadcast = !a->policy.no_lease && lh_prng_chance(r, 30);
    (void)lh_sim_p_ask(p, LH_METHOD_SET_POLICY, &a->u.base, lh_sim_p_answered);
}

static void list(struct lh_sim_program *p, struct asking *a)
{
    switch (lh_prng_below(&p->random, 4)) {
    case 0:
        leasehold__list_names_request__init(&a->u.names);
        a->u.names.prefix = p->spec.path;
        a->u.names.limit = (uint32_t)lh_prng_below(&p->random, 4);
        (void)lh_sim_p_ask(p, LH_METHOD_LIST_NAMES, &a->u.base, lh_sim_p_answered);
        break;
    case 1:
        leasehold__list_names_request__init(&a->u.names);
        a->u.names.prefix = a->name;
        a->u.names.exact = a->u.names.explain = true;
        (void)lh_sim_p_ask(p, LH_METHOD_LIST_NAMES, &a->u.base, lh_sim_p_answered);
        break;
    case 2:
        leasehold__list_sessions_request__init(&a->u.sessions);
        (void)lh_sim_p_ask(p, LH_METHOD_LIST_SESSIONS, &a->u.base, lh_sim_p_answered);
        break;
    default:
        leasehold__list_policies_request__init(&a->u.policies);
        (void)lh_sim_p_ask(p, LH_METHOD_LIST_POLICIES, &a->u.base, lh_sim_p_answered);
        break;
    }
}

static void go_on(struct lh_sim_program *p)
{
    if (p->status.pending >= p->spec.window)
        return;
    struct asking *a = lh_alloc(sizeof *a);
    if (p->spec.broadcast) {
        set_broadcast(p, a);
        return;
    }
    lh_sim_p_name(p, lh_prng_below(&p->random, p->spec.names), a->name);
    uint64_t of_ten = p->spec.names == 1 ? 0 : lh_prng_below(&p->random, 10);
    if (of_ten < 5)
        cancel(p, a);
    else if (of_ten < 7)
        set_policy(p, a);
    else
        list(p, a);
}

const struct program_kind lh_sim_operator = {.go_on = go_on};
