/* Faults of programs with leases, and of what they and the master say to each other. Most last
 * about as long as a session's term: what differs is what happens just before its end and just
 * after. */
#include "sim/run/fault.h"

/* From far below a session's term to some of them. */
static uint64_t a_lease(struct lh_sim_nemesis *n)
{
    return chance(n, 40) ? n->mix.lease.ns / 2 + below(n, n->mix.lease.ns)
                         : spread(n, n->mix.lease.ns >> 6, n->mix.lease.ns * 3);
}

/* Session streams break, at both ends or at one; or a program says no more on its own. */
void lh_sim_fault_lease_break(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_client(n);
    struct lh_sim_action half = lh_sim_action_default(LH_SIM_ACT_HALF_CLOSE);

    switch (below(n, 4)) {
    case 0:
        lh_sim_act_between(n, LH_SIM_ACT_BREAK_AT, who, master(), 0);
        break;
    case 1:
        lh_sim_act_between(n, LH_SIM_ACT_BREAK_AT, master(), who, 0);
        break;
    case 2:
        half.method = LH_METHOD_LEASE_SESSION;
        half.who = who;
        lh_sim_perform(n, &half);
        break;
    default:
        lh_sim_act_between(n, LH_SIM_ACT_BREAK, who, master(), 0);
        break;
    }
}

/* A program and the master do not hear each other, one way or both. */
void lh_sim_fault_lease_cut(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_client(n);

    switch (below(n, 3)) {
    case 0:
        lh_sim_act_between(n, LH_SIM_ACT_ISOLATE, who, master(), a_lease(n));
        break;
    case 1:
        lh_sim_act_between(n, LH_SIM_ACT_CUT, who, master(), a_lease(n));
        break;
    default:
        lh_sim_act_between(n, LH_SIM_ACT_CUT, master(), who, a_lease(n));
        break;
    }
}

/* A program stands still, also in the middle of a step, and wakes up about when its
 * session ends. */
void lh_sim_fault_lease_sleep(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_PAUSE);

    a.who = lh_sim_some_client(n);
    a.hold.ns = a_lease(n);
    a.in_step = chance(n, 40);
    lh_sim_perform(n, &a);
}

/* What one of the two says comes late, and meanwhile the connection breaks: an old showing, or an
 * old answer, is still on its way. */
void lh_sim_fault_lease_late(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_SLOW);
    struct lh_sim_who who = lh_sim_some_client(n);
    bool to_master = chance(n, 60);

    a.who = to_master ? who : master();
    a.peer = to_master ? master() : who;
    a.delay.ns = spread(n, n->mix.lease.ns >> 5, n->mix.lease.ns * 2);
    a.hold.ns = a_lease(n);
    lh_sim_perform(n, &a);
    if (chance(n, 50))
        lh_sim_act_between(n, LH_SIM_ACT_BREAK_AT, who, master(), 0);
    else if (chance(n, 40))
        lh_sim_restart_soon(n, master(), a.delay.ns);
}

/* Clocks at the edges, and then the two do not hear each other: the program is slow and the master
 * fast. */
void lh_sim_fault_lease_edge(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_CLOCK);
    struct lh_sim_who who = lh_sim_some_client(n);

    a.who = who;
    a.ppm = -n->mix.drift_ppm;
    lh_sim_perform(n, &a);
    a.who = master();
    a.ppm = n->mix.drift_ppm;
    lh_sim_perform(n, &a);
    lh_sim_act_between(n, LH_SIM_ACT_ISOLATE, who, master(), n->mix.lease.ns + a_lease(n));
}

/* The master is restarted, or there is another one, while a program is away. */
void lh_sim_fault_lease_restart(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_client(n);

    if (chance(n, 60))
        lh_sim_act_between(n, LH_SIM_ACT_ISOLATE, who,
            (struct lh_sim_who){.kind = LH_SIM_WHO_MASTERS}, a_lease(n));
    if (n->masters > 1 && chance(n, 40))
        lh_sim_act_on(n, LH_SIM_ACT_STOP, master(), n->mix.reign.ns + a_lease(n));
    else if (chance(n, 40))
        lh_sim_act_on(n, LH_SIM_ACT_CRASH, master(), a_lease(n));
    else
        lh_sim_act_on(n, LH_SIM_ACT_RESTART, master(), 0);
    if (chance(n, 30))
        lh_sim_restart_soon(n, master(), n->mix.lease.ns);
}

/* A program is killed; its supervisor starts it again. */
void lh_sim_fault_lease_kill(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_client(n);

    if (chance(n, 50))
        lh_sim_act_on(n, LH_SIM_ACT_RESTART, who, 0);
    else
        lh_sim_act_on(n, chance(n, 70) ? LH_SIM_ACT_CRASH : LH_SIM_ACT_POWER_LOSS, who, a_lease(n));
}

/* What one of them says waits in the connection, and all of it comes at once. */
void lh_sim_fault_lease_clog(struct lh_sim_nemesis *n)
{
    struct lh_sim_who who = lh_sim_some_client(n);

    if (chance(n, 50))
        lh_sim_act_between(n, LH_SIM_ACT_CLOG, who, master(), a_lease(n));
    else
        lh_sim_act_between(n, LH_SIM_ACT_CLOG, master(), who, a_lease(n));
    if (chance(n, 30))
        lh_sim_act_between(n, LH_SIM_ACT_BREAK_AT, who, master(), 0);
}

/* A little of what one of the two says is late, and then the program hears that its connection is
 * broken: what it says on the next one comes first. */
void lh_sim_fault_lease_stale(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_SLOW);
    struct lh_sim_who who = lh_sim_some_client(n);
    bool to_master = chance(n, 70);

    a.who = to_master ? who : master();
    a.peer = to_master ? master() : who;
    a.delay.ns = spread(n, n->mix.lease.ns >> 4, n->mix.lease.ns * 2);
    a.hold.ns = spread(n, 1000000, n->mix.lease.ns >> 4);
    lh_sim_perform(n, &a);
    lh_sim_act_later(n, LH_SIM_ACT_BREAK_AT, who, master(), 0, a.hold.ns);
    if (chance(n, 40))
        lh_sim_act_later(n, LH_SIM_ACT_BREAK_AT, who, master(), 0, spread(n, 1000000, a.hold.ns));
}

/* Answers are old when they come; and then the master hears nothing more of the program. */
void lh_sim_fault_lease_aged(struct lh_sim_nemesis *n)
{
    struct lh_sim_action a = lh_sim_action_default(LH_SIM_ACT_SLOW);
    struct lh_sim_who who = lh_sim_some_client(n);

    a.who = master();
    a.peer = who;
    a.delay.ns = spread(n, n->mix.lease.ns >> 4, n->mix.lease.ns / 2);
    a.hold.ns = 2 * n->mix.lease.ns + a_lease(n);
    lh_sim_perform(n, &a);
    if (chance(n, 70))
        lh_sim_act_later(n, LH_SIM_ACT_CUT, who, master(), n->mix.lease.ns + a_lease(n),
            a.delay.ns + below(n, n->mix.lease.ns));
}
