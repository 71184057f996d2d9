/* One run of the simulator: a plan is carried out in a fresh world, under the eyes of the
 * observers, and ends with a verdict. The same plan gives the same run.
 *
 * A plan comes from a seed: how large the cluster is, how its network and disks are, what the
 * programs do, and the temperament of the nemesis that will break things as the run goes on. What
 * the nemesis did is in the result as actions with their times. A plan of these actions, with the
 * nemesis at rest, is the same run again; that is how a failure is made smaller (minimize.h). */
#pragma once

#include "sim/observers/observers.h"
#include "sim/run/nemesis.h"
#include "sim/scenario/action.h"
#include "sim/scenario/settings.h"
#include "sim/scenario/stage.h"

/* Of the simulator: raised when a seed no longer gives the run that it gave. Seeds are printed with
 * it (417@1), so that one of another generation is not taken for a run that it does not name. */
#define LH_SIM_GENERATION 16u

/* What kind of runs a seed is drawn for. */
enum lh_sim_profile {
    LH_SIM_PROFILE_SWARM,    /* what a swarm runs: of twenty seeds sixteen FAULTS, two CLOCKS, one
                              RUIN, one RESTORED */
    LH_SIM_PROFILE_FAULTS,   /* each seed has its own mixture of what the protocol survives */
    LH_SIM_PROFILE_CALM,     /* no faults: for speed, and as a comparison */
    LH_SIM_PROFILE_CLOCKS,   /* clocks leave rho: INV-1 and INV-2 may break, nothing else (INV-7) */
    LH_SIM_PROFILE_RUIN,     /* more damage than the protocol survives: loss must be reported */
    LH_SIM_PROFILE_RESTORED, /* the master's store becomes an older copy: nothing is deleted */
    LH_SIM_PROFILE_STRANGERS, /* FAULTS, and programs that misbehave beside the others */
    LH_SIM_PROFILE_MASTERS,   /* FAULTS, several masters that share an etcd, and what befalls them;
                               in a tenth of the seeds clocks leave rho, too */
    LH_SIM_PROFILE_LEASES,    /* FAULTS, or MASTERS, and programs with leases of their own */
    LH_SIM_PROFILE_WIRE,      /* one of these, and links are carried by the machines of wire/ */
    LH_SIM_PROFILE_COUNT
};

const char *lh_sim_profile_name(enum lh_sim_profile profile);

/* False: no profile is called so. */
bool lh_sim_profile_find(const char *name, enum lh_sim_profile *profile);

struct lh_sim_plan {
    struct lh_sim_settings settings;
    struct lh_sim_fault_mix mix;   /* of the nemesis; all zero: it rests */
    struct lh_sim_action *actions; /* in the order of their times; programs are among them */
    size_t action_count, action_capacity;
    struct lh_duration duration; /* then faults end, and all must become well */
};

/* Draws the plan of a seed. To be given to lh_sim_plan_deinit(). */
void lh_sim_plan_draw(struct lh_sim_plan *plan, uint64_t seed, enum lh_sim_profile profile);
void lh_sim_plan_deinit(struct lh_sim_plan *plan);

/* A plan's copy that shares nothing with it. */
void lh_sim_plan_copy(struct lh_sim_plan *to, const struct lh_sim_plan *from);

/* How long the world may take, after all faults ended, for each step of becoming well (INV-8), if
 * that was done to it. */
struct lh_duration lh_sim_healing_bound(const struct lh_sim_settings *settings,
    const struct lh_sim_action *actions, size_t action_count);

struct lh_sim_scenario; /* sim/scenario/scenario.h */

/* A plan whose nemesis rests, as a scenario that is the same run, and ends with the expectation
 * that `rule` is broken; NULL: that nothing is. To be given to lh_sim_scenario_deinit(). */
void lh_sim_plan_scenario(
    const struct lh_sim_plan *plan, const char *rule, struct lh_sim_scenario *scenario);

struct lh_sim_run_options {
    struct lh_sim_stage_options stage;
    /* Called, with the stage's `arg`, for each action as it is carried out, the nemesis's too: what
     * a run that ends in an assertion leaves behind. May be NULL. */
    void (*did)(void *arg, const struct lh_sim_action *action);
};

struct lh_sim_result {
    bool failed;
    char rule[16];      /* "INV-1", ..., "history", "check"; "" if nothing failed */
    char *text;         /* the failure with its moment; NULL if nothing failed */
    uint64_t failed_at; /* true ns */
    uint64_t chunk;     /* that the failure is about; 0: none in particular */

    uint64_t virtual_ns, events, messages, hash;
    uint64_t acknowledged; /* batches */
    uint64_t faults;       /* that the nemesis, or the plan, did */
    uint64_t granted;      /* locks of programs */
    uint64_t excused;      /* INV-1, INV-2, ... seen broken with clocks beyond rho (INV-7) */
    uint64_t exempt;       /* files that damage left without a primary for good */

    /* All that was done to the cluster: the plan's actions and the nemesis's. */
    struct lh_sim_action *actions;
    size_t action_count;
};

/* Liveness (INV-8, INV-9, KEEP-1), as opposed to safety. */
bool lh_sim_result_is_liveness(const struct lh_sim_result *r);

/* Runs it. `result` is to be given to lh_sim_result_deinit(). Options may be NULL. One run at a
 * time in a process: planted bugs and marks are the process's. */
void lh_sim_run(const struct lh_sim_plan *plan, const struct lh_sim_run_options *options,
    struct lh_sim_result *result);
void lh_sim_result_deinit(struct lh_sim_result *result);
