/* What nemesis.c (when), fault.c (which node) and the files of faults know of each other. Inside
 * sim/run/ only. */
#pragma once

#include "sim/run/nemesis.h"

/* An action that belongs to an earlier one. */
struct follow_up {
    struct follow_up *next;
    struct lh_sim_nemesis *nemesis;
    enum lh_sim_action_kind kind;
    struct lh_sim_who who, peer;
    uint64_t hold;
};

struct lh_sim_nemesis {
    struct lh_sim_cluster *cluster;
    struct lh_sim_actor *actor;
    struct lh_sim *sim;
    struct lh_sim_fault_mix mix;
    struct lh_prng random;
    void (*did)(void *arg, const struct lh_sim_action *action);
    void *arg;
    bool resting;
    uint64_t quiet_until;
    size_t masters, etcd, servers, clients;
    uint64_t damaged; /* a bit for each chunkserver whose replicas it has spoilt */
    uint32_t power_left;
    uint64_t draining, undrained; /* a bit for each chunkserver that is to be emptied; that was to
                                     be */
    uint64_t drain_after; /* true ns: until then the master may still hear of the last one */
    bool scrapped;        /* a machine is gone */
    char removed[LH_SIM_PATH_MAX + 1]; /* the file that was removed last; "": none */
    struct follow_up *follow_ups;      /* done or not: freed at the end */
    struct lh_sim_node *starting;      /* goes down at its next changes to the disk; NULL: none */
    uint32_t changes_left;             /* ... at the last of so many */
    uint64_t rotten_ends; /* a bit for each chunkserver where the end of a log has rotted, and that
                             has not started since */
    struct lh_sim_node *target; /* of the fault that an effect provoked; NULL: none */
};

/* ---- Chances ---- */

static inline uint64_t below(struct lh_sim_nemesis *n, uint64_t bound)
{
    return lh_prng_below(&n->random, bound);
}

static inline bool chance(struct lh_sim_nemesis *n, uint32_t of_hundred)
{
    return lh_prng_chance(&n->random, of_hundred);
}

/* Short ones as likely as long ones: every power of two between the two has the same chance. */
static inline uint64_t spread(struct lh_sim_nemesis *n, uint64_t min, uint64_t max)
{
    uint32_t doublings = 0;

    min += min == 0;
    if (max <= min)
        return min;
    while (min << doublings < max / 2)
        doublings++;
    uint64_t low = min << below(n, doublings + 1);
    uint64_t drawn = low + below(n, low);
    return drawn < max ? drawn : max;
}

static inline struct lh_duration drawn(struct lh_sim_nemesis *n, const struct lh_sim_range *range)
{
    return lh_nanoseconds(spread(n, range->min.ns, range->max.ns));
}

/* From far below a term to well beyond it. */
static inline struct lh_duration a_while(struct lh_sim_nemesis *n)
{
    return lh_nanoseconds(spread(n, n->mix.term.ns >> 10, n->mix.term.ns * 3));
}

/* Some things last until they are mended, most end by themselves. */
static inline uint64_t hold(struct lh_sim_nemesis *n)
{
    return chance(n, 25) ? 0 : a_while(n).ns;
}

/* ---- Nodes ---- */

static inline struct lh_sim_who server(size_t number)
{
    return (struct lh_sim_who){.kind = LH_SIM_WHO_SERVER, .number = (uint32_t)number};
}

static inline struct lh_sim_who master(void)
{
    return (struct lh_sim_who){.kind = LH_SIM_WHO_MASTER};
}

static inline struct lh_sim_who etcd_member(size_t number)
{
    return (struct lh_sim_who){.kind = LH_SIM_WHO_ETCD, .number = (uint32_t)number};
}

static inline struct lh_sim_who client(size_t number)
{
    return (struct lh_sim_who){.kind = LH_SIM_WHO_CLIENT, .number = (uint32_t)number};
}

static inline bool same(const struct lh_sim_who *a, const struct lh_sim_who *b)
{
    return a->kind == b->kind && a->number == b->number;
}

/* Nodes are counted: masters, chunkservers, clients, members of etcd. */
static inline size_t nodes(const struct lh_sim_nemesis *n)
{
    return n->masters + n->servers + n->clients + n->etcd;
}

struct lh_sim_who lh_sim_nth_node(const struct lh_sim_nemesis *n, size_t index);
struct lh_sim_who lh_sim_who_is(const struct lh_sim_nemesis *n, const struct lh_sim_node *node);

/* The target, if it is a master; else the master that acts. */
struct lh_sim_who lh_sim_some_master(struct lh_sim_nemesis *n);

/* The target, if it is a chunkserver; the primary of some file, which matters most; or any. */
struct lh_sim_who lh_sim_some_server(struct lh_sim_nemesis *n);
/* The target, if it is a client; or any. */
struct lh_sim_who lh_sim_some_client(struct lh_sim_nemesis *n);
struct lh_sim_who lh_sim_some_node(struct lh_sim_nemesis *n);
struct lh_sim_who lh_sim_another_node(struct lh_sim_nemesis *n, const struct lh_sim_who *than);

/* NULL: there is no file yet. Valid until the master's store changes. */
const char *lh_sim_some_path(struct lh_sim_nemesis *n);

/* A chunkserver whose replicas may be spoilt. The atlas: so many machines and no more, since two at
 * once may be all. */
bool lh_sim_may_damage(struct lh_sim_nemesis *n, struct lh_sim_who *who);

/* ---- Actions ---- */

/* Now; false: nothing came of it. */
bool lh_sim_perform(struct lh_sim_nemesis *n, struct lh_sim_action *a);
bool lh_sim_act_on(
    struct lh_sim_nemesis *n, enum lh_sim_action_kind kind, struct lh_sim_who who, uint64_t hold);
bool lh_sim_act_between(struct lh_sim_nemesis *n, enum lh_sim_action_kind kind,
    struct lh_sim_who who, struct lh_sim_who peer, uint64_t hold);

/* The next process of that server, while messages of the last one are in flight. */
void lh_sim_restart_soon(struct lh_sim_nemesis *n, struct lh_sim_who who, uint64_t within);

/* After so long, if the nemesis does not rest by then. */
void lh_sim_act_later(struct lh_sim_nemesis *n, enum lh_sim_action_kind kind, struct lh_sim_who who,
    struct lh_sim_who peer, uint64_t hold, uint64_t after);

/* ---- Faults ---- */

#define HANDLER(NAME, name) void lh_sim_fault_##name(struct lh_sim_nemesis *n);
LH_SIM_FAULTS(HANDLER)
#undef HANDLER

/* One fault of that kind, of a node that is drawn, or of the target. */
void lh_sim_inject(struct lh_sim_nemesis *n, enum lh_sim_fault fault);

/* Something sudden to the target. */
void lh_sim_inject_at_target(struct lh_sim_nemesis *n, enum lh_sim_fault fault);

/* Mends one node, or, now and then, everything. */
void lh_sim_mend_some(struct lh_sim_nemesis *n);
