/* How a run ended, as plain bytes that can be sent from one process to another, and in words. */
#pragma once

#include "sim/command/command.h"
#include "sim/run/run.h"
#include "sim/scenario/scenario.h"

struct lh_sim_outcome {
    enum lh_sim_exit verdict; /* OK, SAFETY, LIVENESS, CRASH; of a scenario also EXPECTED */
    char rule[16];            /* as in struct lh_sim_result; "assertion" for a crash */
    char text[LH_SIM_SCENARIO_TEXT + 300];
    uint64_t failed_at, chunk;
    uint64_t virtual_ns, events, messages, hash, acknowledged, faults, excused, exempt;
    uint32_t idle_line; /* as in struct lh_sim_scenario_result */
    uint64_t host_ns;   /* what it took */
};

/* Runs `plan` in this process. `options` may be NULL. */
void lh_sim_outcome_of(const struct lh_sim_plan *plan, const struct lh_sim_run_options *options,
    struct lh_sim_outcome *outcome);

/* Runs the scenario of the file `name` in this process. Only attach(), detach() and the trace of
 * `options` count; NULL: none. */
void lh_sim_outcome_of_scenario(const struct lh_sim_scenario *scenario, const char *name,
    const struct lh_sim_run_options *options, struct lh_sim_outcome *outcome);

/* Runs `plan` in a process of its own: a crash is an outcome like any other. `limit`: host time
 * after which the run counts as one without an end. False, said for `command`: the system gave no
 * process. */
LH_MUST_USE bool lh_sim_outcome_isolated(const struct lh_sim_plan *plan, struct lh_duration limit,
    struct lh_sim_outcome *outcome, const char *command);

/* As lh_sim_outcome_isolated(), of a scenario. */
LH_MUST_USE bool lh_sim_outcome_isolated_scenario(const struct lh_sim_scenario *scenario,
    const char *name, struct lh_duration limit, struct lh_sim_outcome *outcome,
    const char *command);

/* As lh_sim_outcome_isolated(). `recorded` becomes the plan of what was done in that run, up to its
 * crash if it crashed, with the nemesis at rest; to be given to lh_sim_plan_deinit() unless false
 * is returned. */
LH_MUST_USE bool lh_sim_outcome_recorded(const struct lh_sim_plan *plan, struct lh_duration limit,
    struct lh_sim_outcome *outcome, struct lh_sim_plan *recorded, const char *command);

/* Of a run that killed its process; `text` says of what. */
void lh_sim_outcome_crashed(struct lh_sim_outcome *outcome, const char *text);

/* For a command's table of flags: how long a run may take. */
#define LH_SIM_LIMIT_FLAG(limit)                                                                   \
    {                                                                                              \
        LH_FLAG("limit", DURATION, &(limit), "5m"),                                                \
            .min = 1000000000, .help = "a run that takes longer than this counts as a crash"       \
    }

/* "safety", "liveness", "crash", "not as expected" or "fine". */
const char *lh_sim_outcome_word(const struct lh_sim_outcome *outcome);

/* One line: how much happened, and how fast. */
void lh_sim_outcome_print(FILE *to, const char *name, const struct lh_sim_outcome *outcome);
