/* INV-16: a guard never admits a token after a higher one, with any clocks. And while rates are
 * within rho it never refuses one that holds the lock (INV-14). */
#include "sim/observers/leases.h"

#include "sim/cluster/guard.h"

#include <inttypes.h>

static void seen(void *arg, const struct lh_sim_act_guarded *act)
{
    struct lh_sim_observers *o = arg;

    if (failed(o))
        return;
    struct lname *n = lh_ob_lname(o, act->name);
    if (act->admitted && act->token < n->admitted)
        lh_sim_fail(o->sim, "INV-16", 0,
            "the guard of %s admits token %" PRIu64 " of %s after %" PRIu64, act->name, act->token,
            lh_sim_name(act->node), n->admitted);
    else if (!act->admitted && act->held)
        lh_ob_fail_unless_excused(o, "INV-14", 0, &o->seen_inv14,
            "the guard of %s refuses token %" PRIu64 " of %s, who holds it, after %" PRIu64,
            act->name, act->token, lh_sim_name(act->node), n->admitted);
    if (act->admitted)
        n->admitted = act->token;
}

void lh_ob_inv16_init(struct lh_sim_observers *o)
{
    lh_sim_guard_watch(o->cluster, seen, o);
}
