/* Faults of links. */
#include "sim/run/fault.h"

/* One node is cut off from all others. */
void lh_sim_fault_isolate(struct lh_sim_nemesis *n)
{
    lh_sim_act_on(n, LH_SIM_ACT_ISOLATE, lh_sim_some_node(n), hold(n));
}

/* Two sides that do not hear each other, or a ring in which each hears its neighbours alone. */
void lh_sim_fault_partition(struct lh_sim_nemesis *n)
{
    uint64_t sides = lh_prng_next(&n->random), length = hold(n);
    bool ring = chance(n, 25);

    for (size_t a = 0; a < nodes(n); a++)
        for (size_t b = a + 1; b < nodes(n); b++) {
            bool neighbours = b == a + 1 || (a == 0 && b + 1 == nodes(n));
            if (ring ? neighbours : (sides >> a & 1) == (sides >> b & 1))
                continue;
            lh_sim_act_between(
                n, LH_SIM_ACT_ISOLATE, lh_sim_nth_node(n, a), lh_sim_nth_node(n, b), length);
        }
}

/* One direction of one link is cut. */
void lh_sim_fault_one_way(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_node(n);

    lh_sim_act_between(n, LH_SIM_ACT_CUT, who, lh_sim_another_node(n, &who), hold(n));
}

/* A primary is cut off from the master, its clients still alive. */
void lh_sim_fault_primary_cut(struct lh_sim_nemesis *n)
{
    struct lh_sim_who primary = lh_sim_some_server(n);

    switch (below(n, 3)) {
    case 0:
        lh_sim_act_between(n, LH_SIM_ACT_ISOLATE, primary, master(), hold(n));
        break;
    case 1:
        lh_sim_act_between(n, LH_SIM_ACT_CUT, primary, master(), hold(n));
        break;
    default:
        lh_sim_act_between(n, LH_SIM_ACT_CUT, master(), primary, hold(n));
        break;
    }
}

/* A primary is cut off from the master, so that it outlives its session: its timers are late,
 * too, or what it sends to another member is. */
void lh_sim_fault_outlive(struct lh_sim_nemesis *n)
{
    struct lh_sim_who primary = lh_sim_some_server(n), member = server(1 + below(n, n->servers));
    struct lh_sim_action late = lh_sim_action_default(LH_SIM_ACT_TIMERS);
    uint64_t length = n->mix.term.ns + a_while(n).ns;

    if (chance(n, 50)) {
        struct lh_sim_action clock = lh_sim_action_default(LH_SIM_ACT_CLOCK);
        clock.who = primary;
        clock.ppm = -n->mix.drift_ppm;
        lh_sim_perform(n, &clock);
    }
    lh_sim_act_between(n, LH_SIM_ACT_ISOLATE, primary, master(), length);
    switch (same(&primary, &member) ? 0 : below(n, 3)) {
    case 0:
        late.who = primary;
        late.delay = lh_nanoseconds(spread(n, n->mix.term.ns / 2, n->mix.term.ns * 4));
        lh_sim_perform(n, &late);
        break;
    case 1:
        lh_sim_act_between(n, LH_SIM_ACT_ISOLATE, primary, member, length);
        break;
    default:
        lh_sim_act_between(n, LH_SIM_ACT_CLOG, primary, member, length);
        break;
    }
}

/* A client is cut off from one chunkserver alone. */
void lh_sim_fault_client_apart(struct lh_sim_nemesis *n)
{
    lh_sim_act_between(
        n, LH_SIM_ACT_ISOLATE, client(1 + below(n, n->clients)), lh_sim_some_server(n), hold(n));
}

/* A client and a primary that lives, one way, for long. */
void lh_sim_fault_client_one_way(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = client(1 + below(n, n->clients)), primary = lh_sim_some_server(n);
    uint64_t length = n->mix.term.ns * 2 + a_while(n).ns;

    if (chance(n, 50))
        lh_sim_act_between(n, LH_SIM_ACT_CUT, who, primary, length);
    else
        lh_sim_act_between(n, LH_SIM_ACT_CUT, primary, who, length);
}

/* News between master and chunkserver come late, and are overtaken by a recall or by the next
 * process. */
void lh_sim_fault_late(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_SLOW);
    struct lh_sim_who who = lh_sim_some_server(n);
    bool to_master = chance(n, 50);

    a.who = to_master ? who : master();
    a.peer = to_master ? master() : who;
    a.delay = lh_nanoseconds(spread(n, n->mix.term.ns / 4, n->mix.term.ns * 3));
    a.hold = a_while(n);
    lh_sim_perform(n, &a);
    if (!to_master) {
        lh_sim_fault_recall(n);
        return;
    }
    lh_sim_act_between(n, LH_SIM_ACT_BREAK, who, master(), 0);
    lh_sim_restart_soon(n, who, a.delay.ns);
}

/* Connections break. */
void lh_sim_fault_break(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_node(n);

    lh_sim_act_between(n, LH_SIM_ACT_BREAK, who, lh_sim_another_node(n, &who), 0);
}

/* A node says no more on its streams, and listens for ever. A stranger may; ours do not. */
void lh_sim_fault_half_close(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_HALF_CLOSE);

    a.method = chance(n, 60)   ? LH_METHOD_APPEND
               : chance(n, 60) ? LH_METHOD_REPLICATE
                               : LH_METHOD_SESSION;
    a.who = a.method == LH_METHOD_APPEND ? client(1 + below(n, n->clients)) : lh_sim_some_server(n);
    lh_sim_perform(n, &a);
}

/* Links take longer, or carry less. */
void lh_sim_fault_slow(struct lh_sim_nemesis *n)
{
    bool narrow = chance(n, 30);
    struct lh_sim_action a = lh_sim_action_default(narrow ? LH_SIM_ACT_BANDWIDTH : LH_SIM_ACT_SLOW);

    a.who = lh_sim_some_node(n);
    a.peer = lh_sim_another_node(n, &a.who);
    a.hold.ns = hold(n);
    if (narrow)
        a.number = spread(n, 2000, 2000000);
    else
        a.delay = lh_nanoseconds(spread(n, 100000, n->mix.term.ns * 2));
    lh_sim_perform(n, &a);
}

/* No new connections at a node: its descriptors have run out. */
void lh_sim_fault_deaf(struct lh_sim_nemesis *n)
{
    lh_sim_act_on(n, LH_SIM_ACT_DEAFEN, lh_sim_some_node(n), hold(n));
}

/* Silence is not noticed; one end alone hears of a break. */
void lh_sim_fault_blind(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_node(n);

    if (chance(n, 50))
        lh_sim_act_between(n, LH_SIM_ACT_BLIND, who, lh_sim_another_node(n, &who), hold(n));
    else
        lh_sim_act_between(n, LH_SIM_ACT_BREAK_AT, who, lh_sim_another_node(n, &who), 0);
}

/* Links are clogged: one; or FoundationDB's swizzle: all links of a node one after another,
 * which open again in another order, since each has its own length. */
void lh_sim_fault_clog(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_node(n);

    if (chance(n, 50)) {
        lh_sim_act_between(n, LH_SIM_ACT_CLOG, who, lh_sim_another_node(n, &who), a_while(n).ns);
        return;
    }
    for (size_t i = 0; i < nodes(n); i++) {
        struct lh_sim_who peer = lh_sim_nth_node(n, i);
        if (same(&who, &peer))
            continue;
        lh_sim_act_between(n, LH_SIM_ACT_CLOG, who, peer, a_while(n).ns);
        lh_sim_act_between(n, LH_SIM_ACT_CLOG, peer, who, a_while(n).ns);
    }
}
