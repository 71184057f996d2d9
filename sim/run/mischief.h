/* What nemesis.c (when) and mischief.c (what, to whom) know of each other. Inside sim/run/ only. */
#ifndef LH_SIM_MISCHIEF_H
#define LH_SIM_MISCHIEF_H

#include "sim/run/nemesis.h"

/* A deed that belongs to an earlier one. */
struct follow_up {
    struct follow_up *next;
    struct lh_sim_nemesis *nemesis;
    struct lh_sim_who who;
};

struct lh_sim_nemesis {
    struct lh_sim_cluster *cluster;
    struct lh_sim_actor *actor;
    struct lh_sim *sim;
    struct lh_sim_temper temper;
    struct lh_prng random;
    void (*did)(void *arg, const struct lh_sim_action *action);
    void *arg;
    bool resting;
    uint64_t quiet_until;
    size_t servers, clients;
    uint64_t damaged; /* a bit for each chunkserver whose replicas it has spoilt */
    uint32_t power_left;
    uint64_t draining, undrained; /* a bit for each chunkserver that is to be emptied; that was to
                                     be */
    uint64_t drain_after; /* true ns: until then the master may still hear of the last one */
    bool scrapped;        /* a machine is gone */
    char removed[LH_SIM_PATH_MAX + 1]; /* the file that was removed last; "": none */
    struct follow_up *follow_ups;      /* done or not: freed at the end */
    struct lh_sim_node *prey;          /* of the ambush that is under way; NULL: none */
};

/* ---- Chances ---- */

static inline uint64_t below(struct lh_sim_nemesis *n, uint64_t bound)
{
    return lh_prng_below(&n->random, bound);
}

static inline bool chance(struct lh_sim_nemesis *n, uint32_t of_hundred)
{
    return below(n, 100) < of_hundred;
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
    return lh_nanoseconds(spread(n, n->temper.term.ns >> 10, n->temper.term.ns * 3));
}

/* ---- mischief.c ---- */

/* One deed of that kind, to somebody who is drawn, or to the prey of the ambush under way. */
void lh_sim_misbehave(struct lh_sim_nemesis *n, enum lh_sim_mischief what);

/* Something sudden to the prey. */
void lh_sim_strike(struct lh_sim_nemesis *n, enum lh_sim_mischief what);

/* Mends one node, or, now and then, everything. */
void lh_sim_mend_some(struct lh_sim_nemesis *n);

#endif
