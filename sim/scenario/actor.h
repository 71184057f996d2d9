/* Who carries actions out in a cluster: knows which names were given to nodes and what has to end
 * by itself. */
#pragma once

#include "sim/scenario/action.h"

struct lh_sim_actor;

/* One for a cluster; destroy it after the last run of the world, before or after the cluster. */
struct lh_sim_actor *lh_sim_actor_create(struct lh_sim_cluster *c);
void lh_sim_actor_destroy(struct lh_sim_actor *actor);

/* Carries the action out now, whatever its time. It does not run the world, so it may be called
 * from lh_sim_at(). False, and nothing happens: there is nothing to do it to (a chunk without a
 * primary, a node that is down already, a client that cannot be asked, ...), or the action does not
 * pass lh_sim_action_check(). So any subset of a run's actions is a run. */
bool lh_sim_act(struct lh_sim_actor *actor, const struct lh_sim_action *action);

/* The nodes that `who` names now: at most `max` are put into `nodes`. */
size_t lh_sim_actor_resolve(struct lh_sim_actor *actor, const struct lh_sim_who *who,
    struct lh_sim_node **nodes, size_t max);

/* False: there is no such chunk now. */
bool lh_sim_actor_chunk(
    struct lh_sim_actor *actor, const struct lh_sim_where *where, struct lh_sim_chunk *chunk);
