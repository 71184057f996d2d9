/* `leasehold-sim minimize`: the least that still fails, as a scenario file. */
#include "sim/run/minimize.h"

#include "sim/command/command.h"
#include "sim/command/host.h"
#include "sim/command/subject.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "minimize"

struct options {
    struct lh_sim_subject_options subject;
    const char *output;
    uint64_t seeds;
    struct lh_duration limit;
};

struct task {
    const struct options *o;
    struct lh_sim_outcome wanted; /* how it failed at first */
    struct lh_sim_outcome last;   /* how the smallest plan so far fails */
    uint64_t began_ns;
    bool no_processes;
};

static bool same_failure(const struct lh_sim_outcome *a, const struct lh_sim_outcome *b)
{
    if (a->verdict != b->verdict || strcmp(a->rule, b->rule) != 0)
        return false;
    /* Two assertions are the same if they stand at the same place. */
    return a->verdict != LH_SIM_EXIT_CRASH || strcmp(a->text, b->text) == 0;
}

static bool fails(void *arg, const struct lh_sim_plan *plan, uint64_t *failed_at)
{
    struct task *t = arg;
    struct lh_sim_outcome outcome;

    if (!lh_sim_outcome_isolated(plan, t->o->limit, &outcome, COMMAND)) {
        t->no_processes = true;
        return false;
    }
    if (!same_failure(&outcome, &t->wanted))
        return false;
    t->last = outcome;
    /* A run that crashed cannot say when. */
    *failed_at = outcome.verdict == LH_SIM_EXIT_CRASH ? plan->duration.ns * 2 : outcome.failed_at;
    return true;
}

static void smaller(void *arg, const char *doing, const struct lh_sim_plan *plan, uint64_t runs)
{
    const struct task *t = arg;
    char text[24];

    (void)fprintf(stderr,
        "minimize: %zu actions, %" PRIu32 " chunkservers, %" PRIu32 " clients (%s; %" PRIu64
        " runs, %s)\n",
        plan->action_count, plan->settings.servers, plan->settings.clients, doing, runs,
        lh_sim_host_duration(text, lh_sim_host_ns() - t->began_ns));
}

static bool enough(void *arg)
{
    const struct task *t = arg;

    return lh_sim_host_interrupted() || t->no_processes;
}
