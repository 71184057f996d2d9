#include "sim/run/run.h"
#include "sim/world/network.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* One of the plan's actions, waiting for its moment. */
struct due {
    struct run *run;
    const struct lh_sim_action *action;
};

struct run {
    const struct lh_sim_plan *plan;
    const struct lh_sim_run_options *options;
    struct lh_sim_stage stage;
    struct lh_sim_nemesis *nemesis;
    struct due *due;
    struct lh_sim_result *result;
    size_t action_capacity;
};

/* Cores walk their own invariants after every so many of their steps: it takes a fifth of a run's
 * time when done after each, and finds nothing sooner that matters. */
#define CHECK_EVERY 16

/* No lease runs longer than the longest session term, a master's restart waits that long again,
 * and so may a chunk whose recovery fails on the way. What is idle the master looks at once a
 * minute; the rest is for slow links and disks. */
struct lh_duration lh_sim_healing_bound(
    const struct lh_sim_settings *s, const struct lh_sim_action *actions, size_t action_count)
{
    uint64_t longest = s->session_term.ns;

    for (size_t i = 0; i < action_count; i++) {
        const struct lh_sim_action *a = &actions[i];
        if (a->kind == LH_SIM_ACT_SESSION_TERM && a->hold.ns > longest)
            longest = a->hold.ns;
    }
    return lh_nanoseconds(4 * longest + s->grace.ns + 2 * s->scrub_period.ns + lh_seconds(120).ns);
}

/* ---- Actions ---- */

static void did(void *arg, const struct lh_sim_action *action)
{
    struct run *r = arg;
    struct lh_sim_result *to = r->result;

    LH_GROW(to->actions, r->action_capacity, to->action_count + 1);
    to->actions[to->action_count++] = *action;
    to->faults += action->kind < LH_SIM_ACT_RECALL;
    if (r->options->did != NULL)
        r->options->did(r->options->stage.arg, action);
}

static void carry_out(void *arg)
{
    struct due *d = arg;
    struct lh_sim_action a = *d->action;

    a.at = lh_sim_now(d->run->stage.sim);
    if (lh_sim_act(d->run->stage.actor, &a))
        did(d->run, &a);
}

static void schedule_actions(struct run *r)
{
    r->due = lh_alloc_array(r->plan->action_count, sizeof *r->due);
    for (size_t i = 0; i < r->plan->action_count; i++) {
        const struct lh_sim_action *a = &r->plan->actions[i];
        r->due[i] = (struct due){r, a};
        lh_sim_stage_at(&r->stage, a->at, carry_out, &r->due[i]);
    }
}

/* ---- The phases ---- */

static bool start(struct run *r)
{
    char text[LH_SIM_STAGE_TEXT];

    if (lh_sim_stage_start(&r->stage, text, sizeof text))
        return true;
    if (lh_sim_failure(r->stage.sim) == NULL)
        lh_sim_fail(r->stage.sim, "INV-8", 0, "%s", text);
    return false;
}

static void suffer(struct run *r)
{
    uint64_t end = lh_sim_now(r->stage.sim) + r->plan->duration.ns;

    schedule_actions(r);
    r->nemesis = lh_sim_nemesis_start(
        r->stage.cluster, r->stage.actor, &r->plan->mix, r->plan->settings.seed, did, r);
    lh_sim_run_for(r->stage.sim, lh_nanoseconds(end - lh_sim_now(r->stage.sim)));
    lh_sim_nemesis_rest(r->nemesis);
}

static void heal(struct run *r)
{
    lh_sim_stage_settle(&r->stage,
        lh_sim_healing_bound(&r->plan->settings, r->result->actions, r->result->action_count));
}

/* ---- One run ---- */

static void conclude(struct run *r)
{
    const struct lh_sim_stage *s = &r->stage;
    struct lh_sim_result *to = r->result;
    const char *failure = lh_sim_failure(s->sim);

    to->virtual_ns = lh_sim_now(s->sim);
    to->events = lh_sim_events(s->sim);
    to->messages = lh_sim_delivered(s->sim);
    to->hash = lh_sim_hash(s->sim);
    to->excused = lh_sim_observers_seen(s->observers, "INV-1") +
                  lh_sim_observers_seen(s->observers, "INV-2") +
                  lh_sim_observers_seen(s->observers, "INV-11") +
                  lh_sim_observers_seen(s->observers, "INV-13") +
                  lh_sim_observers_seen(s->observers, "INV-14") +
                  lh_sim_observers_seen(s->observers, "INV-15");
    for (size_t i = 0; i < lh_sim_file_count(s->cluster); i++)
        to->exempt += lh_sim_observers_exempt(s->observers, lh_sim_file_path(s->cluster, i));
    for (const struct lh_sim_program *p = lh_sim_program_next(s->cluster, NULL); p != NULL;
         p = lh_sim_program_next(s->cluster, p))
        if (lh_sim_program_spec(p)->kind == LH_SIM_WRITER)
            to->acknowledged += lh_sim_program_status(p).succeeded;
        else if (lh_sim_program_spec(p)->kind == LH_SIM_LOCKER)
            to->granted += lh_sim_program_status(p).succeeded;
    if (failure == NULL)
        return;
    to->failed = true;
    to->text = lh_strdup(failure);
    (void)snprintf(to->rule, sizeof to->rule, "%s", lh_sim_failed_rule(s->sim));
    to->failed_at = lh_sim_failed_at(s->sim);
    to->chunk = lh_sim_failed_chunk(s->sim);
}

void lh_sim_run(const struct lh_sim_plan *plan, const struct lh_sim_run_options *options,
    struct lh_sim_result *result)
{
    static const struct lh_sim_run_options none;
    struct run r = {.plan = plan, .options = options == NULL ? &none : options, .result = result};

    *result = (struct lh_sim_result){0};
    lh_sim_stage_open(&r.stage, &plan->settings, CHECK_EVERY, &r.options->stage);
    if (start(&r)) {
        suffer(&r);
        if (lh_sim_failure(r.stage.sim) == NULL)
            heal(&r);
    }
    conclude(&r);
    lh_sim_stage_close(&r.stage);
    if (r.nemesis != NULL)
        lh_sim_nemesis_destroy(r.nemesis);
    free(r.due);
}

void lh_sim_result_deinit(struct lh_sim_result *result)
{
    free(result->text);
    free(result->actions);
    *result = (struct lh_sim_result){0};
}

bool lh_sim_result_is_liveness(const struct lh_sim_result *r)
{
    static const char *const rules[] = {"INV-8", "INV-9", "INV-10", "INV-18", "KEEP-1"};
    bool any = false;

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        any = any || strcmp(r->rule, rules[i]) == 0;
    return r->failed && any;
}
