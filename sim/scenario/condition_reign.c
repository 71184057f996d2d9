/* Conditions about masters that share an etcd. */
#include "sim/scenario/condition.h"

#include <inttypes.h>

/* By its own clock. */
static bool is_active(const struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    struct lh_reign_state state;

    return lh_sim_reign_of(c, node, &state) && state.phase == LH_REIGN_ACTING &&
           lh_instant_before(lh_sim_clock(node), state.confirmed_until);
}

static bool none_is_active(struct lh_sim_cluster *c)
{
    for (size_t i = 1; i <= lh_sim_masters(c); i++)
        if (is_active(c, lh_sim_master_at(c, i)))
            return false;
    return true;
}

static bool is_master(struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    for (size_t i = 1; i <= lh_sim_masters(c); i++)
        if (lh_sim_master_at(c, i) == node)
            return true;
    return false;
}

bool lh_sim_reign_holds(
    const struct lh_sim_condition *k, struct lh_sim_cluster *c, const struct lh_sim_node *node)
{
    uint64_t reign, number;

    lh_sim_shared_head(c, &reign, &number);
    switch (k->kind) {
    case LH_SIM_IF_REIGN:
        return reign == k->number;
    case LH_SIM_IF_REIGN_ABOVE:
        return reign > k->number;
    case LH_SIM_IF_NONE_ACTIVE:
        return none_is_active(c);
    case LH_SIM_IF_ACTIVE:
        return node != NULL && is_master(c, node) && is_active(c, node);
    default:
        return node == NULL || !is_master(c, node) || !is_active(c, node);
    }
}

void lh_sim_reign_actual(struct lh_sim_cluster *c, struct lh_sim_text *t)
{
    const struct lh_sim_node *last = lh_sim_master(c);
    uint64_t reign, number;

    if (lh_sim_shared_etcd(c) == NULL)
        return;
    lh_sim_shared_head(c, &reign, &number);
    lh_sim_text_add(t, "the reign is %" PRIu64 ", and %s is %s", reign, lh_sim_name(last),
        is_active(c, last) ? "active" : "not active");
}
