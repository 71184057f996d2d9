/* What a nemesis does, and to which node. */
#include "sim/run/fault.h"

#include "base/alloc.h"

/* ---- Targets ---- */

struct lh_sim_who lh_sim_nth_node(const struct lh_sim_nemesis *n, size_t index)
{
    if (index < n->masters) {
        struct lh_sim_who who = master();
        who.number = n->masters == 1 ? 0 : (uint32_t)index + 1;
        return who;
    }
    index -= n->masters;
    if (index < n->servers)
        return server(index + 1);
    index -= n->servers;
    return index < n->clients ? client(index + 1) : etcd_member(index - n->clients + 1);
}

/* Strangers, of which there are none where masters share an etcd, count as clients. */
struct lh_sim_who lh_sim_who_is(const struct lh_sim_nemesis *n, const struct lh_sim_node *node)
{
    size_t i = 0;

    while (lh_sim_node(n->sim, i) != node)
        i++;
    return lh_sim_nth_node(n, i);
}

const char *lh_sim_some_path(struct lh_sim_nemesis *n)
{
    size_t count = lh_sim_file_count(n->cluster);

    return count == 0 ? NULL : lh_sim_file_path(n->cluster, below(n, count));
}

struct lh_sim_who lh_sim_some_server(struct lh_sim_nemesis *n)
{
    const char *path;

    if (n->target != NULL) {
        struct lh_sim_who who = lh_sim_who_is(n, n->target);
        if (who.kind == LH_SIM_WHO_SERVER)
            return who;
    }
    if (chance(n, 40) && (path = lh_sim_some_path(n)) != NULL) {
        struct lh_sim_chunk tail;
        struct lh_sim_node *node =
            lh_sim_tail(n->cluster, path, &tail) ? lh_sim_primary(n->cluster, tail.chunk) : NULL;
        if (node != NULL)
            return lh_sim_who_is(n, node);
    }
    return server(1 + below(n, n->servers));
}

struct lh_sim_who lh_sim_some_master(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = n->target == NULL ? master() : lh_sim_who_is(n, n->target);

    return who.kind == LH_SIM_WHO_MASTER ? who : master();
}

struct lh_sim_who lh_sim_some_node(struct lh_sim_nemesis *n)
{
    if (n->target != NULL)
        return lh_sim_who_is(n, n->target);
    return chance(n, 60) ? lh_sim_some_server(n) : lh_sim_nth_node(n, below(n, nodes(n)));
}

struct lh_sim_who lh_sim_another_node(struct lh_sim_nemesis *n, const struct lh_sim_who *than)
{
    struct lh_sim_who who = lh_sim_nth_node(n, below(n, nodes(n)));

    while (same(&who, than))
        who = lh_sim_nth_node(n, below(n, nodes(n)));
    return who;
}

bool lh_sim_may_damage(struct lh_sim_nemesis *n, struct lh_sim_who *who)
{
    *who = lh_sim_some_server(n);
    uint64_t bit = UINT64_C(1) << who->number;

    if ((n->damaged & bit) != 0)
        return true;
    if (n->mix.damage_servers == 0)
        return false;
    n->mix.damage_servers--;
    n->damaged |= bit;
    return true;
}

/* ---- Actions ---- */

bool lh_sim_perform(struct lh_sim_nemesis *n, struct lh_sim_action *a)
{
    a->at = lh_sim_now(n->sim);
    if (!lh_sim_act(n->actor, a))
        return false;
    n->did(n->arg, a);
    return true;
}

bool lh_sim_act_on(
    struct lh_sim_nemesis *n, enum lh_sim_action_kind kind, struct lh_sim_who who, uint64_t hold)
{
    struct lh_sim_action a = lh_sim_action_default(kind);

    a.who = who;
    a.hold.ns = hold;
    return lh_sim_perform(n, &a);
}

bool lh_sim_act_between(struct lh_sim_nemesis *n, enum lh_sim_action_kind kind,
    struct lh_sim_who who, struct lh_sim_who peer, uint64_t hold)
{
    struct lh_sim_action a = lh_sim_action_default(kind);

    a.who = who;
    a.peer = peer;
    a.hold.ns = hold;
    return lh_sim_perform(n, &a);
}

static void follows(void *arg)
{
    struct follow_up *f = arg;

    if (!f->nemesis->resting)
        lh_sim_act_between(f->nemesis, f->kind, f->who, f->peer, f->hold);
}

void lh_sim_act_later(struct lh_sim_nemesis *n, enum lh_sim_action_kind kind, struct lh_sim_who who,
    struct lh_sim_who peer, uint64_t hold, uint64_t after)
{
    struct follow_up *f = lh_alloc(sizeof *f);

    *f = (struct follow_up){n->follow_ups, n, kind, who, peer, hold};
    n->follow_ups = f;
    lh_sim_at(n->sim, lh_nanoseconds(after), follows, f);
}

void lh_sim_restart_soon(struct lh_sim_nemesis *n, struct lh_sim_who who, uint64_t within)
{
    lh_sim_act_later(
        n, LH_SIM_ACT_RESTART, who, (struct lh_sim_who){0}, 0, spread(n, within / 64, within));
}

/* ---- Faults ---- */

void lh_sim_inject(struct lh_sim_nemesis *n, enum lh_sim_fault fault)
{
    static void (*const handlers[])(struct lh_sim_nemesis * n) = {
#define HANDLER(NAME, name) [LH_SIM_FAULT_##NAME] = lh_sim_fault_##name,
        LH_SIM_FAULTS(HANDLER)
#undef HANDLER
    };

    handlers[fault](n);
}

void lh_sim_inject_at_target(struct lh_sim_nemesis *n, enum lh_sim_fault fault)
{
    enum lh_sim_who_kind kind = lh_sim_who_is(n, n->target).kind;

    if (kind == LH_SIM_WHO_MASTER)
        lh_sim_fault_master(n);
    else if (kind == LH_SIM_WHO_SERVER)
        lh_sim_inject(n, fault);
    else if (kind == LH_SIM_WHO_ETCD)
        lh_sim_fault_etcd_down(n);
    else if (kind == LH_SIM_WHO_CLIENT && n->mix.lease.ns > 0)
        lh_sim_inject(
            n, (enum lh_sim_fault)(LH_SIM_FAULTS_BUT_LEASES +
                                   (int)below(n, LH_SIM_FAULT_COUNT - LH_SIM_FAULTS_BUT_LEASES)));
}

struct lh_sim_who lh_sim_some_client(struct lh_sim_nemesis *n)
{
    if (n->target != NULL) {
        struct lh_sim_who who = lh_sim_who_is(n, n->target);
        if (who.kind == LH_SIM_WHO_CLIENT && who.number <= n->clients)
            return who;
    }
    return client(1 + below(n, n->clients));
}

void lh_sim_mend_some(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_nth_node(n, below(n, nodes(n)));

    if (chance(n, 20)) {
        struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_MEND);
        lh_sim_perform(n, &a);
        return;
    }
    lh_sim_act_on(n, LH_SIM_ACT_RESUME, who, 0);
    lh_sim_act_on(n, LH_SIM_ACT_START, who, 0);
    lh_sim_act_on(n, LH_SIM_ACT_REJOIN, who, 0);
    lh_sim_act_on(n, LH_SIM_ACT_UNSTALL, who, 0);
}
