#include "sim/command/outcome.h"

#include "sim/command/host.h"
#include "sim/command/pool.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static enum lh_sim_exit verdict_of_rule(const char *rule)
{
    struct lh_sim_result result = {.failed = true};

    (void)snprintf(result.rule, sizeof result.rule, "%s", rule);
    return lh_sim_result_is_liveness(&result) ? LH_SIM_EXIT_LIVENESS : LH_SIM_EXIT_SAFETY;
}

void lh_sim_outcome_of(const struct lh_sim_plan *plan, const struct lh_sim_run_options *options,
    struct lh_sim_outcome *outcome)
{
    struct lh_sim_result result;
    uint64_t start = lh_sim_host_ns();

    lh_sim_run(plan, options, &result);
    *outcome = (struct lh_sim_outcome){
        .verdict = result.failed ? verdict_of_rule(result.rule) : LH_SIM_EXIT_OK,
        .failed_at = result.failed_at,
        .chunk = result.chunk,
        .virtual_ns = result.virtual_ns,
        .events = result.events,
        .messages = result.messages,
        .hash = result.hash,
        .acknowledged = result.acknowledged,
        .faults = result.faults,
        .excused = result.excused,
        .exempt = result.exempt,
        .host_ns = lh_sim_host_ns() - start,
    };
    if (result.failed) {
        memcpy(outcome->rule, result.rule, sizeof outcome->rule);
        (void)snprintf(outcome->text, sizeof outcome->text, "%s", result.text);
    }
    lh_sim_result_deinit(&result);
}

void lh_sim_outcome_of_scenario(const struct lh_sim_scenario *scenario, const char *name,
    const struct lh_sim_run_options *options, struct lh_sim_outcome *outcome)
{
    struct lh_sim_scenario_result result;
    uint64_t start = lh_sim_host_ns();

    lh_sim_scenario_run(scenario, options == NULL ? NULL : &options->stage, &result);
    *outcome = (struct lh_sim_outcome){
        .verdict = result.ok                ? LH_SIM_EXIT_OK
                   : result.rule[0] == '\0' ? LH_SIM_EXIT_EXPECTED
                                            : verdict_of_rule(result.rule),
        .virtual_ns = result.virtual_ns,
        .events = result.events,
        .hash = result.hash,
        .idle_line = result.idle_line,
        .host_ns = lh_sim_host_ns() - start,
    };
    memcpy(outcome->rule, result.rule, sizeof outcome->rule);
    if (!result.ok && result.line != 0)
        (void)snprintf(outcome->text, sizeof outcome->text, "%s:%" PRIu32 ": %s", name, result.line,
            result.text);
    else if (!result.ok)
        (void)snprintf(outcome->text, sizeof outcome->text, "%s: %s", name, result.text);
}

/* ---- In a process of its own ---- */

struct isolated {
    const struct lh_sim_plan *plan;         /* or */
    const struct lh_sim_scenario *scenario; /* of the file */
    const char *name;
    int record; /* a file in memory that gets the plan's actions; -1: none */
};

static void record(void *arg, const struct lh_sim_action *action)
{
    const struct isolated *isolated = arg;

    /* Memory that cannot grow ends the recording, and then the plan does not fail again. */
    (void)!write(isolated->record, action, sizeof *action);
}

static void run_task(void *arg, const void *task, void *result)
{
    struct isolated *isolated = arg;
    struct lh_sim_run_options options = {.stage.arg = isolated, .did = record};

    (void)task;
    if (isolated->scenario != NULL)
        lh_sim_outcome_of_scenario(isolated->scenario, isolated->name, NULL, result);
    else
        lh_sim_outcome_of(isolated->plan, isolated->record >= 0 ? &options : NULL, result);
}

static bool run_isolated(struct isolated *isolated, struct lh_duration limit,
    struct lh_sim_outcome *outcome, const char *command)
{
    /* The worker is forked here and now, so it has the plan; the task says nothing more. */
    struct lh_sim_pool_config config = {
        .jobs = 1,
        .task_size = 1,
        .result_size = sizeof *outcome,
        .work = run_task,
        .arg = isolated,
        .limit = limit,
    };
    struct lh_sim_pool_done done;
    struct lh_sim_pool *pool = lh_sim_pool_create(&config);

    if (pool == NULL || !lh_sim_pool_give(pool, "")) {
        (void)lh_sim_command_error(
            LH_SIM_EXIT_OUTPUT, command, "cannot start a process: %s", strerror(errno));
        if (pool != NULL)
            lh_sim_pool_destroy(pool);
        return false;
    }
    while (!lh_sim_pool_wait(pool, LH_DURATION_FOREVER, &done))
        ;
    if (done.result != NULL)
        memcpy(outcome, done.result, sizeof *outcome);
    else
        lh_sim_outcome_crashed(outcome, done.crash);
    lh_sim_pool_destroy(pool);
    return true;
}

bool lh_sim_outcome_isolated(const struct lh_sim_plan *plan, struct lh_duration limit,
    struct lh_sim_outcome *outcome, const char *command)
{
    struct isolated isolated = {.plan = plan, .record = -1};

    return run_isolated(&isolated, limit, outcome, command);
}

bool lh_sim_outcome_isolated_scenario(const struct lh_sim_scenario *scenario, const char *name,
    struct lh_duration limit, struct lh_sim_outcome *outcome, const char *command)
{
    struct isolated isolated = {.scenario = scenario, .name = name, .record = -1};

    return run_isolated(&isolated, limit, outcome, command);
}

bool lh_sim_outcome_recorded(const struct lh_sim_plan *plan, struct lh_duration limit,
    struct lh_sim_outcome *outcome, struct lh_sim_plan *recorded, const char *command)
{
    struct isolated isolated = {
        .plan = plan, .record = memfd_create("leasehold-sim-actions", MFD_CLOEXEC)};
    struct lh_sim_action action;

    if (isolated.record < 0) {
        (void)lh_sim_command_error(
            LH_SIM_EXIT_OUTPUT, command, "cannot record a run: %s", strerror(errno));
        return false;
    }
    bool ok = run_isolated(&isolated, limit, outcome, command);
    if (ok) {
        lh_sim_plan_copy(recorded, plan);
        recorded->mix = (struct lh_sim_fault_mix){0};
        recorded->action_count = 0;
        (void)lseek(isolated.record, 0, SEEK_SET);
        while (read(isolated.record, &action, sizeof action) == (ssize_t)sizeof action) {
            LH_GROW(recorded->actions, recorded->action_capacity, recorded->action_count + 1);
            recorded->actions[recorded->action_count++] = action;
        }
    }
    (void)close(isolated.record);
    return ok;
}

void lh_sim_outcome_crashed(struct lh_sim_outcome *outcome, const char *text)
{
    *outcome = (struct lh_sim_outcome){.verdict = LH_SIM_EXIT_CRASH, .rule = "assertion"};
    (void)snprintf(outcome->text, sizeof outcome->text, "%s", text);
}

const char *lh_sim_outcome_word(const struct lh_sim_outcome *outcome)
{
    switch (outcome->verdict) {
    case LH_SIM_EXIT_SAFETY:
        return "safety";
    case LH_SIM_EXIT_LIVENESS:
        return "liveness";
    case LH_SIM_EXIT_CRASH:
        return "crash";
    case LH_SIM_EXIT_EXPECTED:
        return "not as expected";
    default:
        return "fine";
    }
}

void lh_sim_outcome_print(FILE *to, const char *name, const struct lh_sim_outcome *o)
{
    double host_s = o->host_ns > 0 ? (double)o->host_ns / 1e9 : 1e-9;
    char virtual_time[24], host_time[24], rate[24], speed[24];

    (void)fprintf(to,
        "%s: %s of virtual time, %" PRIu64 " events, %" PRIu64 " appends acknowledged, %" PRIu64
        " faults, hash %016" PRIx64 "; took %s: %s events/s, %s times real time\n",
        name, lh_sim_host_duration(virtual_time, o->virtual_ns), o->events, o->acknowledged,
        o->faults, o->hash, lh_sim_host_duration(host_time, o->host_ns),
        lh_sim_host_count(rate, (double)o->events / host_s),
        lh_sim_host_count(speed, (double)o->virtual_ns / 1e9 / host_s));
}
