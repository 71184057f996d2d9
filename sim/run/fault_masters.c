/* Faults of masters that share an etcd, and of that etcd. Most last about as long as a reign's term
 * or a session's, since what differs is what happens just before and just after. */
#include "sim/run/fault.h"

static struct lh_sim_who active(void)
{
    return (struct lh_sim_who){.kind = LH_SIM_WHO_ACTIVE};
}

static struct lh_sim_who some_standby(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = {.kind = LH_SIM_WHO_STANDBY, .number = 1};

    if (n->masters > 2)
        who.number += (uint32_t)below(n, n->masters - 1);
    return who;
}

static struct lh_sim_who some_member(struct lh_sim_nemesis *n)
{
    return etcd_member(1 + below(n, n->etcd));
}

static struct lh_sim_who all(enum lh_sim_who_kind kind)
{
    return (struct lh_sim_who){.kind = kind};
}

/* From far below a reign's term to some of them; or about a session's. */
static uint64_t a_reign(struct lh_sim_nemesis *n)
{
    return chance(n, 70) ? spread(n, n->mix.reign.ns >> 5, n->mix.reign.ns * 4) : a_while(n).ns;
}

/* Around the moment at which it ends: its share, and what is waited for beyond that. */
static uint64_t about_a_reign(struct lh_sim_nemesis *n)
{
    return n->mix.reign.ns / 2 + below(n, n->mix.reign.ns);
}

/* So many of a million: a few, or nearly all. */
static uint32_t rate(struct lh_sim_nemesis *n)
{
    return chance(n, 25) ? 1000000 : (uint32_t)spread(n, 2000, 800000);
}

static void act_on_etcd(struct lh_sim_nemesis *n, struct lh_sim_action *a)
{
    a->hold.ns = chance(n, 20) ? 0 : a_reign(n);
    lh_sim_perform(n, a);
}

/* The acting master is killed, or its machine loses power. */
void lh_sim_fault_active_kill(struct lh_sim_nemesis *n)
{
    if (chance(n, 20))
        lh_sim_act_on(n, LH_SIM_ACT_RESTART, active(), 0);
    else
        lh_sim_act_on(
            n, chance(n, 70) ? LH_SIM_ACT_CRASH : LH_SIM_ACT_POWER_LOSS, active(), a_reign(n));
}

/* It stands still, also in the middle of a step, and wakes up about when its reign has ended. */
void lh_sim_fault_active_pause(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_PAUSE);

    a.who = active();
    a.hold.ns = chance(n, 50) ? about_a_reign(n) : a_reign(n);
    a.in_step = chance(n, 40);
    lh_sim_perform(n, &a);
}

/* An operator stops it, and starts it again. */
void lh_sim_fault_active_resign(struct lh_sim_nemesis *n)
{
    lh_sim_act_on(n, LH_SIM_ACT_STOP, active(), a_reign(n));
}

/* One direction between a master and a node, or both. */
static void part(struct lh_sim_nemesis *n, struct lh_sim_who who, struct lh_sim_who from,
    uint64_t way, uint64_t length)
{
    if (way == 0)
        lh_sim_act_between(n, LH_SIM_ACT_ISOLATE, who, from, length);
    else
        lh_sim_act_between(n, LH_SIM_ACT_CUT, way == 1 ? who : from, way == 1 ? from : who, length);
}

/* It is cut off from etcd, from chunkservers, from clients or from the other masters, one way or
 * both. */
void lh_sim_fault_active_cut(struct lh_sim_nemesis *n)
{
    static const enum lh_sim_who_kind kinds[] = {LH_SIM_WHO_ETCDS, LH_SIM_WHO_ETCDS,
        LH_SIM_WHO_SERVERS, LH_SIM_WHO_CLIENTS, LH_SIM_WHO_MASTERS};
    struct lh_sim_who who = master(), from = all(kinds[below(n, sizeof kinds / sizeof kinds[0])]);
    uint64_t length = chance(n, 50) ? about_a_reign(n) : a_reign(n);

    part(n, who, from, below(n, 3), length);
}

/* For longer than sessions last a master, mostly the acting one, is cut off from all or some
 * chunkservers, and clients; and not from etcd. */
void lh_sim_fault_active_apart(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = chance(n, 80) ? master() : some_standby(n);
    uint64_t length = n->mix.term.ns + a_while(n).ns, way = below(n, 3);
    uint32_t servers = chance(n, 60) ? 100 : 60, clients = chance(n, 50) ? 0 : 60;

    for (size_t i = 1; i <= n->servers; i++)
        if (chance(n, servers))
            part(n, who, server(i), way, length);
    for (size_t i = 1; i <= n->clients; i++)
        if (chance(n, clients))
            part(n, who, client(i), way, length);
}

/* What it sends to etcd, or hears from there, is late; or its timers are. */
void lh_sim_fault_active_late(struct lh_sim_nemesis *n)
{
    bool timers = chance(n, 30), to = chance(n, 50);
    struct lh_sim_action a = lh_sim_action_default(timers ? LH_SIM_ACT_TIMERS : LH_SIM_ACT_SLOW);

    a.delay.ns = spread(n, n->mix.reign.ns >> 5, n->mix.reign.ns * 3);
    a.who = to || timers ? master() : all(LH_SIM_WHO_ETCDS);
    if (!timers) {
        a.peer = to ? all(LH_SIM_WHO_ETCDS) : master();
        a.hold.ns = a_reign(n);
    }
    lh_sim_perform(n, &a);
}

/* A standby is killed, stands still, or is stopped. */
void lh_sim_fault_standby(struct lh_sim_nemesis *n)
{
    static const enum lh_sim_action_kind kinds[] = {
        LH_SIM_ACT_CRASH, LH_SIM_ACT_PAUSE, LH_SIM_ACT_STOP, LH_SIM_ACT_ISOLATE};

    if (n->masters > 1)
        lh_sim_act_on(n, kinds[below(n, sizeof kinds / sizeof kinds[0])], some_standby(n),
            chance(n, 50) ? about_a_reign(n) : a_reign(n));
}

static void one_down(struct lh_sim_nemesis *n, struct lh_sim_who who, uint64_t length)
{
    static const enum lh_sim_action_kind kinds[] = {
        LH_SIM_ACT_CRASH, LH_SIM_ACT_PAUSE, LH_SIM_ACT_POWER_LOSS};

    lh_sim_act_on(n, kinds[below(n, sizeof kinds / sizeof kinds[0])], who, length);
}

/* A member of etcd is down, or stands still. */
void lh_sim_fault_etcd_down(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = n->target == NULL ? some_member(n) : lh_sim_some_node(n);

    one_down(n, who.kind == LH_SIM_WHO_ETCD ? who : some_member(n), a_reign(n));
}

/* So many that the others are no majority. */
void lh_sim_fault_etcd_majority(struct lh_sim_nemesis *n)
{
    size_t first = below(n, n->etcd), count = n->etcd / 2 + 1;
    uint64_t length = a_reign(n);

    for (size_t i = 0; i < count; i++)
        one_down(n, etcd_member(1 + (first + i) % n->etcd), length);
}

/* Members do not hear each other, or one does not hear a master. */
void lh_sim_fault_etcd_cut(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = some_member(n);

    switch (below(n, 4)) {
    case 0:
        lh_sim_act_between(n, LH_SIM_ACT_ISOLATE, who, all(LH_SIM_WHO_ETCDS), a_reign(n));
        break;
    case 1:
        lh_sim_act_between(n, LH_SIM_ACT_ISOLATE, who, all(LH_SIM_WHO_MASTERS), a_reign(n));
        break;
    case 2:
        lh_sim_act_between(n, LH_SIM_ACT_CUT, who, all(LH_SIM_WHO_MASTERS), a_reign(n));
        break;
    default:
        lh_sim_act_between(n, LH_SIM_ACT_BREAK, all(LH_SIM_WHO_MASTERS), who, 0);
        break;
    }
}

/* No majority at all, for less or more than a session's term. */
void lh_sim_fault_etcd_quorum(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_ETCD_QUORUM);

    a.hold.ns = chance(n, 60) ? about_a_reign(n) : a_while(n).ns;
    lh_sim_perform(n, &a);
}

/* Calls end in errors, before or after they have taken effect. */
void lh_sim_fault_etcd_errors(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 60) ? LH_SIM_ACT_ETCD_AFTER : LH_SIM_ACT_ETCD_BEFORE);

    a.count = rate(n);
    act_on_etcd(n, &a);
}

/* Transactions take effect long after their callers asked. */
void lh_sim_fault_etcd_late(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_ETCD_LATE);

    a.count = rate(n);
    a.delay.ns = spread(n, n->mix.reign.ns >> 4, n->mix.reign.ns * 4);
    act_on_etcd(n, &a);
}

/* A member's state is old. */
void lh_sim_fault_etcd_lag(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_ETCD_LAG);

    a.who = chance(n, 20) ? all(LH_SIM_WHO_ETCDS) : some_member(n);
    a.delay.ns = spread(n, n->mix.reign.ns >> 4, n->mix.reign.ns * 8);
    act_on_etcd(n, &a);
}

/* Watches break, lag, lose events or are canceled. */
void lh_sim_fault_etcd_watches(struct lh_sim_nemesis *n)
{
    static const enum lh_sim_action_kind kinds[] = {
        LH_SIM_ACT_ETCD_BREAK, LH_SIM_ACT_ETCD_DELAY, LH_SIM_ACT_ETCD_LOSE, LH_SIM_ACT_ETCD_CANCEL};
    struct lh_sim_action a = lh_sim_action_default(kinds[below(n, sizeof kinds / sizeof kinds[0])]);

    if (a.kind == LH_SIM_ACT_ETCD_BREAK || a.kind == LH_SIM_ACT_ETCD_CANCEL) {
        lh_sim_perform(n, &a);
        return;
    }
    if (a.kind == LH_SIM_ACT_ETCD_LOSE)
        a.count = rate(n);
    else
        a.delay.ns = spread(n, n->mix.reign.ns >> 4, n->mix.reign.ns * 4);
    act_on_etcd(n, &a);
}

/* A member's disk flips bits; or a hand deletes or changes keys that are the masters'. What it has
 * done is put back when all is mended: without a master that has a copy nobody acts until then. */
void lh_sim_fault_etcd_damage(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_ETCD_FLIP);

    if (chance(n, 50)) {
        a.who = chance(n, 20) ? all(LH_SIM_WHO_ETCDS) : some_member(n);
        act_on_etcd(n, &a);
        return;
    }
    a.kind = chance(n, 50) ? LH_SIM_ACT_ETCD_DELETE : LH_SIM_ACT_ETCD_CHANGE;
    for (uint64_t i = 1 + below(n, 3); i > 0; i--)
        lh_sim_perform(n, &a);
}

/* An operator compacts the history, maybe all of it, while a standby loads or follows. */
void lh_sim_fault_etcd_compact(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_ETCD_COMPACT);

    a.number = chance(n, 30) ? 0 : below(n, 50);
    lh_sim_perform(n, &a);
}

/* The quota of etcd is used up, or soon will be. */
void lh_sim_fault_etcd_full(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a =
        lh_sim_action_default(chance(n, 50) ? LH_SIM_ACT_ETCD_FULL : LH_SIM_ACT_ETCD_NEARLY_FULL);

    a.hold.ns = a_reign(n);
    lh_sim_perform(n, &a);
}

/* A leader of etcd is lost, and with it some of what is on its way; the next one is there soon, or
 * after several elections. */
void lh_sim_fault_etcd_election(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_ETCD_ELECTS);

    a.count = rate(n);
    a.hold.ns = chance(n, 70) ? about_a_reign(n) : a_reign(n);
    lh_sim_perform(n, &a);
}

/* An operator starts a master with a wrong prefix, and notices later. */
void lh_sim_fault_astray(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_ASTRAY);

    a.who = chance(n, 50) ? active() : some_standby(n);
    a.now = chance(n, 30);
    a.hold.ns = chance(n, 50) ? a_reign(n) : a_while(n).ns;
    if (n->masters > 1)
        lh_sim_perform(n, &a);
}
