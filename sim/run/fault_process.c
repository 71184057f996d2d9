/* Faults of processes, machines and clocks. */
#include "sim/run/fault.h"

/* A chunkserver's process is killed. */
void lh_sim_fault_crash(struct lh_sim_nemesis *n)
{
    lh_sim_act_on(n, LH_SIM_ACT_CRASH, lh_sim_some_server(n), hold(n));
}

/* A chunkserver's process is killed and started at once; sometimes it cannot write its incarnation
 * down, nor can those that follow (SES-1b). */
void lh_sim_fault_restart(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_server(n);

    if (chance(n, 30))
        lh_sim_act_on(n, LH_SIM_ACT_KEEP_INCARNATION, who, 1 + a_while(n).ns);
    lh_sim_act_on(n, LH_SIM_ACT_RESTART, who, 0);
}

/* A machine loses power. */
void lh_sim_fault_power(struct lh_sim_nemesis *n)
{
    if (n->power_left == 0)
        return;
    if (lh_sim_act_on(n, LH_SIM_ACT_POWER_LOSS, lh_sim_some_server(n), a_while(n).ns) &&
        n->power_left != UINT32_MAX)
        n->power_left--;
}

/* All machines of the cluster lose power at once. What was acknowledged in `buffered` files may
 * be gone; it must be reported (REC-2a). */
void lh_sim_fault_rack(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = {.kind = LH_SIM_WHO_SERVERS};

    if (n->power_left == UINT32_MAX)
        lh_sim_act_on(n, LH_SIM_ACT_POWER_LOSS, who, a_while(n).ns);
}

/* The master is killed, loses power or stands still. */
void lh_sim_fault_master(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_master(n);

    switch (below(n, 4)) {
    case 0:
        lh_sim_act_on(n, LH_SIM_ACT_CRASH, who, a_while(n).ns);
        break;
    case 1:
        lh_sim_act_on(n, LH_SIM_ACT_POWER_LOSS, who, a_while(n).ns);
        break;
    case 2:
        lh_sim_act_on(n, LH_SIM_ACT_PAUSE, who, a_while(n).ns);
        break;
    default:
        lh_sim_act_on(n, LH_SIM_ACT_RESTART, who, 0);
        break;
    }
}

/* A client is killed, or stands still. */
void lh_sim_fault_client(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = client(1 + below(n, n->clients));

    if (chance(n, 50))
        lh_sim_act_on(n, LH_SIM_ACT_CRASH, who, a_while(n).ns);
    else
        lh_sim_act_on(n, LH_SIM_ACT_PAUSE, who, a_while(n).ns);
}

/* A process stands still, also in the middle of a step. */
void lh_sim_fault_pause(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_PAUSE);

    a.who = lh_sim_some_server(n);
    a.hold = a_while(n);
    a.in_step = chance(n, 50);
    lh_sim_perform(n, &a);
}

/* A clean shutdown of a chunkserver. */
void lh_sim_fault_stop(struct lh_sim_nemesis *n)
{
    lh_sim_act_on(n, LH_SIM_ACT_STOP, lh_sim_some_server(n), a_while(n).ns);
}

/* The master stands still for about as long as a holder's term: its answers come when the holder
 * has just given up, or is about to. */
void lh_sim_fault_master_pause(struct lh_sim_nemesis *n)
{
    uint64_t term = n->mix.term.ns;

    lh_sim_act_on(n, LH_SIM_ACT_PAUSE, master(), term / 2 + below(n, term));
}

/* The primary of a file stands still, long enough for clients to lose patience, and often longer
 * than its lease. */
void lh_sim_fault_primary_pause(struct lh_sim_nemesis *n)
{
    const char *path = lh_sim_some_path(n);

    if (path == NULL)
        return;
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_PAUSE);
    a.who.kind = LH_SIM_WHO_PRIMARY;
    (void)snprintf(a.who.text, sizeof a.who.text, "%s", path);
    a.hold = lh_nanoseconds(spread(n, 500000000, n->mix.term.ns * 3 + 1000000000));
    a.in_step = chance(n, 30);
    lh_sim_perform(n, &a);
}

/* Clocks go at other rates, at the edges as often as in between; or timers are late. */
void lh_sim_fault_drift(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_CLOCK);
    int32_t edge = n->mix.drift_ppm;

    if (chance(n, 20)) {
        a.kind = LH_SIM_ACT_TIMERS;
        a.who = lh_sim_some_node(n);
        a.delay = lh_nanoseconds(spread(n, 10000, n->mix.term.ns / 2));
        lh_sim_perform(n, &a);
        return;
    }
    a.who = chance(n, 30) ? master() : lh_sim_some_node(n);
    switch (below(n, 4)) {
    case 0:
        a.ppm = edge;
        break;
    case 1:
        a.ppm = -edge;
        break;
    default:
        a.ppm = (int32_t)below(n, 2 * (uint64_t)edge + 1) - edge;
        break;
    }
    lh_sim_perform(n, &a);
}

/* Wall clocks jump. */
void lh_sim_fault_wall(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_WALL);

    a.who = lh_sim_some_node(n);
    a.number = UINT64_C(1600000000000) + below(n, UINT64_C(200000000000));
    lh_sim_perform(n, &a);
}
