/* A guard at some resource, outside of all nodes and durable: what TOK-1 asks for. Programs go
 * through it with the tokens of their locks. It belongs to the world, so nothing befalls it. */
#pragma once

#include "sim/cluster/cluster.h"

/* One act under a name. */
struct lh_sim_act_guarded {
    const char *name;
    uint64_t token;
    bool admitted;
    /* The program holds the lock, by its own clock, at the moment of the act; not when the act was
     * on its way for a while. */
    bool held;
    struct lh_sim_node *node; /* the program's */
};

/* Acts: true if the token was admitted. */
bool lh_sim_guard_act(struct lh_sim_cluster *c, struct lh_sim_node *node, const char *name,
    uint64_t token, bool held);
/* The same, by a program that does not look at the lock again: the token arrives after that delay.
 */
void lh_sim_guard_act_late(struct lh_sim_cluster *c, struct lh_sim_node *node, const char *name,
    uint64_t token, struct lh_duration delay);

/* `seen(arg, act)` is told of every act, after it. One for a cluster. */
void lh_sim_guard_watch(struct lh_sim_cluster *c,
    void (*seen)(void *arg, const struct lh_sim_act_guarded *act), void *arg);
