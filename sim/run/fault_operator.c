/* What operators do meanwhile. */
#include "sim/run/fault.h"

#include <string.h>

/* An operator moves or releases leases. */
void lh_sim_fault_recall(struct lh_sim_nemesis *n)
{
    const char *path = lh_sim_some_path(n);

    if (path == NULL)
        return;
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 50) ? LH_SIM_ACT_RECALL : LH_SIM_ACT_RELEASE);
    (void)snprintf(a.path, sizeof a.path, "%s", path);
    a.client = 1 + (uint32_t)below(n, n->clients);
    lh_sim_perform(n, &a);
}

/* The master starts again with other terms, which count from its next start. */
void lh_sim_fault_settings(struct lh_sim_nemesis *n)
{
    const struct lh_master_config *now = lh_sim_master_config(n->cluster);
    uint64_t session = spread(n, n->mix.term_min.ns, n->mix.term.ns * (chance(n, 50) ? 2 : 6));
    uint64_t chunk = session + below(n, session * 4);
    struct lh_sim_action s = lh_sim_action_default(LH_SIM_ACT_SESSION_TERM);
    struct lh_sim_action c = lh_sim_action_default(LH_SIM_ACT_CHUNK_TERM);

    s.hold.ns = session;
    c.hold.ns = chunk;
    /* In between, too, a chunk's term is at least a session's. */
    if (session > now->chunk_term.ns) {
        lh_sim_perform(n, &c);
        lh_sim_perform(n, &s);
    } else {
        lh_sim_perform(n, &s);
        lh_sim_perform(n, &c);
    }
    lh_sim_act_on(n, LH_SIM_ACT_RESTART, master(), 0);
}

/* Those that the master empties, and those of which it may still hear that it should. */
static uint32_t count_draining(struct lh_sim_nemesis *n)
{
    uint32_t count = 0;

    for (size_t i = 1; i <= n->servers; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if (lh_sim_is_draining(n->cluster, i))
            n->draining |= bit;
        else if ((n->undrained & bit) != 0)
            n->draining &= ~bit;
        count += (n->draining & bit) != 0;
    }
    return count;
}

/* An operator has servers emptied, and changes his mind. */
void lh_sim_fault_drain(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_DRAIN);
    uint32_t draining = count_draining(n);

    a.client = 1 + (uint32_t)below(n, n->clients);
    a.who = server(1 + below(n, n->servers));
    if (lh_sim_now(n->sim) < n->drain_after)
        return;
    if (draining >= n->mix.drains) {
        if (draining == 0)
            return;
        while ((n->draining & UINT64_C(1) << a.who.number) == 0)
            a.who = server(1 + below(n, n->servers));
        a.kind = LH_SIM_ACT_UNDRAIN;
    } else if (chance(n, 25)) {
        a.kind = LH_SIM_ACT_DECOMMISSION;
    }
    uint64_t bit = UINT64_C(1) << a.who.number;
    if (!lh_sim_perform(n, &a))
        return;
    n->drain_after = lh_sim_now(n->sim) + UINT64_C(11000000000);
    n->draining |= bit;
    n->undrained = a.kind == LH_SIM_ACT_UNDRAIN ? n->undrained | bit : n->undrained & ~bit;
}

/* Files are removed and restored. */
void lh_sim_fault_trash(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_REMOVE);
    const char *path = lh_sim_some_path(n);

    a.client = 1 + (uint32_t)below(n, n->clients);
    if (n->removed[0] != '\0' && chance(n, 70)) {
        a.kind = LH_SIM_ACT_RESTORE;
        memcpy(a.path, n->removed, sizeof a.path);
        n->removed[0] = '\0';
    } else if (path != NULL) {
        (void)snprintf(a.path, sizeof a.path, "%s", path);
        a.now = chance(n, 10);
        memcpy(n->removed, a.path, sizeof n->removed);
    } else {
        return;
    }
    lh_sim_perform(n, &a);
}

/* The table of roles changes: a stranger may not read any more, or may again. The nodes' own lines
 * stay: of a program that may nothing no answer would be due. */
void lh_sim_fault_roles(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 50) ? LH_SIM_ACT_TAKE_RIGHTS : LH_SIM_ACT_GIVE_RIGHTS);

    if (n->mix.readers == 0)
        return;
    a.number = 1 + 2 * below(n, n->mix.readers);
    lh_sim_perform(n, &a);
}
