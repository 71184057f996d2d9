/* What a run takes place on, whoever says what happens in it: a fresh cluster with its files, an
 * actor, and the observers, from the first moment until all is well again. A drawn plan
 * (sim/run/run.h) and a scenario (scenario.h) use the same one, so that a plan that is written down
 * as a scenario is the same run. One at a time in a process: planted bugs are the process's. */
#pragma once

#include "sim/observers/observers.h"
#include "sim/scenario/actor.h"
#include "sim/scenario/settings.h"

#define LH_SIM_STAGE_TEXT (LH_SIM_PATH_MAX + 128) /* bytes that hold why a stage did not start */

/* Who looks on. */
struct lh_sim_stage_options {
    FILE *trace; /* every input and effect; NULL: nowhere */
    /* Called when the cluster exists and nothing has happened: to add watchers. May be NULL. */
    void (*attach)(void *arg, struct lh_sim_cluster *c, struct lh_sim_observers *o);
    /* Called when the run is over and the cluster still exists. May be NULL. */
    void (*detach)(void *arg, struct lh_sim_cluster *c, struct lh_sim_observers *o);
    void *arg;
};

struct lh_sim_stage {
    const struct lh_sim_settings *settings;
    const struct lh_sim_stage_options *options;
    struct lh_sim_cluster *cluster;
    struct lh_sim *sim;
    struct lh_sim_actor *actor;
    struct lh_sim_observers *observers;
};

/* Plants the settings' bug and creates what they describe; nothing has happened yet. Settings,
 * which were checked, and options outlive the stage. Cores walk their own invariants after every
 * `check_every` (1 or more) of their steps. */
void lh_sim_stage_open(struct lh_sim_stage *stage, const struct lh_sim_settings *settings,
    uint32_t check_every, const struct lh_sim_stage_options *options);

/* Starts all nodes and creates the settings' files. False: the world has failed, or else `text`
 * says what did not come about. */
LH_MUST_USE bool lh_sim_stage_start(struct lh_sim_stage *stage, char *text, size_t text_size);

/* `script(arg)` at this true time (ns), or as the next thing if that is over. */
void lh_sim_stage_at(
    struct lh_sim_stage *stage, uint64_t true_ns, void (*script)(void *arg), void *arg);

/* Ends all faults and runs until all is well, each step of which may take `bound` (INV-8); then has
 * the observers look for what can only be seen at the end. lh_sim_failure() says what came of
 * it. */
void lh_sim_stage_settle(struct lh_sim_stage *stage, struct lh_duration bound);

/* The run is over: everything goes, and nothing is planted any more. */
void lh_sim_stage_close(struct lh_sim_stage *stage);
