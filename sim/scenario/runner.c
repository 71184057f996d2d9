/* One scenario's run. */
#include "sim/scenario/scenario.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Cores walk their own invariants after each of their steps. */
#define CHECK_EVERY 1

struct runner {
    const struct lh_sim_scenario *scenario;
    struct lh_sim_stage stage;
    struct lh_sim_scenario_result *result;
    struct entry *timetable;
    uint64_t started; /* true ns at which all was up and the files were there */
    const struct lh_sim_statement *statement; /* whose turn it is; NULL: not begun yet */
};

/* An action of the timetable. */
struct entry {
    struct runner *runner;
    const struct lh_sim_statement *statement;
};

static bool over(const struct runner *r)
{
    return lh_sim_failure(r->stage.sim) != NULL;
}

static bool fail(struct runner *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct runner *r, const char *format, ...)
{
    va_list args;

    r->result->ok = false;
    r->result->line = r->statement == NULL ? 0 : r->statement->line;
    va_start(args, format);
    (void)vsnprintf(r->result->text, sizeof r->result->text, format, args);
    va_end(args);
    return false;
}

static void run_to(struct runner *r, uint64_t true_ns)
{
    uint64_t now = lh_sim_now(r->stage.sim);

    if (true_ns > now)
        lh_sim_run_for(r->stage.sim, lh_nanoseconds(true_ns - now));
}

/* ---- Actions ---- */

static void act(struct runner *r, const struct lh_sim_statement *s)
{
    struct lh_sim_action a = s->action;
    char text[LH_SIM_ACTION_TEXT];

    a.at = lh_sim_now(r->stage.sim);
    lh_sim_action_print(&a, false, text, sizeof text);
    lh_sim_note(r->stage.sim, "line %u: %s", s->line, text);
    if (!lh_sim_act(r->stage.actor, &a) && r->result->idle_line == 0)
        r->result->idle_line = s->line;
}

static void act_in_time(void *arg)
{
    struct entry *e = arg;

    act(e->runner, e->statement);
}

static bool is_in_timetable(const struct lh_sim_statement *s)
{
    return s->kind == LH_SIM_SAYS_ACTION && s->moment == LH_SIM_AT;
}

/* Just as a run of a plan does it, so that a plan written as a scenario is the same run. */
static void make_timetable(struct runner *r)
{
    r->timetable = lh_alloc_array(r->scenario->count, sizeof *r->timetable);
    for (size_t i = 0; i < r->scenario->count; i++) {
        const struct lh_sim_statement *s = &r->scenario->statements[i];
        if (!is_in_timetable(s))
            continue;
        r->timetable[i] = (struct entry){r, s};
        lh_sim_stage_at(&r->stage, s->time.ns, act_in_time, &r->timetable[i]);
    }
}

/* ---- Expectations ---- */

struct question {
    struct runner *runner;
    const struct lh_sim_condition *condition;
    bool answer; /* that is waited for */
};

static bool answered(void *arg)
{
    const struct question *q = arg;
    const struct runner *r = q->runner;

    return lh_sim_condition_holds(
               q->condition, r->stage.cluster, r->stage.actor, r->stage.observers) == q->answer;
}

static bool expect(struct runner *r, const struct lh_sim_statement *s)
{
    struct question q = {r, &s->condition, s->hold.ns == 0};
    char expected[LH_SIM_LINE_MAX + 1], actual[LH_SIM_CONDITION_TEXT];
    bool met = answered(&q);

    if (!met && s->within.ns + s->hold.ns > 0)
        met =
            lh_sim_run_until(r->stage.sim, answered, &q, lh_nanoseconds(s->within.ns + s->hold.ns));
    if (over(r))
        return false;
    if (met == q.answer)
        return true;
    lh_sim_condition_print(&s->condition, expected, sizeof expected);
    lh_sim_condition_actual(&s->condition, r->stage.cluster, r->stage.actor, actual, sizeof actual);
    uint64_t now_us = lh_sim_now(r->stage.sim) / 1000;
    return fail(r, "expected %s; at %" PRIu64 ".%06" PRIu64 "s %s", expected, now_us / 1000000,
        now_us % 1000000, actual);
}

/* ---- One after another ---- */

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void wait_for_turn(struct runner *r, const struct lh_sim_statement *s)
{
    switch (s->moment) {
    case LH_SIM_NOW:
        break;
    case LH_SIM_AT:
        run_to(r, s->time.ns);
        break;
    case LH_SIM_AFTER:
        lh_sim_run_for(r->stage.sim, s->time);
        break;
    case LH_SIM_SINCE:
        run_to(r, r->started + s->time.ns);
        break;
    }
}

/* False: the scenario has failed, or something is broken. */
static bool carry_out(struct runner *r, const struct lh_sim_statement *s)
{
    r->statement = s;
    wait_for_turn(r, s);
    if (over(r))
        return false;
    switch (s->kind) {
    case LH_SIM_SAYS_ACTION:
        if (!is_in_timetable(s))
            act(r, s);
        break;
    case LH_SIM_SAYS_EXPECT:
        return expect(r, s);
    case LH_SIM_SAYS_WAIT:
        break;
    case LH_SIM_SAYS_SETTLE:
        lh_sim_stage_settle(&r->stage, s->within);
        break;
    case LH_SIM_SAYS_VIOLATION:
        (void)lh_sim_run_until(r->stage.sim, never, NULL, s->within);
        break;
    }
    return !over(r);
}

static bool start(struct runner *r)
{
    char text[LH_SIM_STAGE_TEXT];

    if (!lh_sim_stage_start(&r->stage, text, sizeof text))
        return over(r) ? false : fail(r, "%s", text);
    r->started = lh_sim_now(r->stage.sim);
    make_timetable(r);
    return true;
}

static const struct lh_sim_statement *expected_violation(const struct lh_sim_scenario *scenario)
{
    for (size_t i = 0; i < scenario->count; i++)
        if (scenario->statements[i].kind == LH_SIM_SAYS_VIOLATION)
            return &scenario->statements[i];
    return NULL;
}

static void conclude(struct runner *r)
{
    struct lh_sim_scenario_result *to = r->result;
    const struct lh_sim_statement *violation = expected_violation(r->scenario);
    const char *failure = lh_sim_failure(r->stage.sim);

    to->virtual_ns = lh_sim_now(r->stage.sim);
    to->events = lh_sim_events(r->stage.sim);
    to->hash = lh_sim_hash(r->stage.sim);
    if (failure != NULL) {
        (void)snprintf(to->rule, sizeof to->rule, "%s", lh_sim_failed_rule(r->stage.sim));
        if (violation == NULL || strcmp(violation->rule, to->rule) != 0)
            (void)fail(r, "%s", failure);
    } else if (violation != NULL && to->ok) {
        r->statement = violation;
        (void)fail(r, "expected that %s is broken, and nothing was", violation->rule);
    }
}

void lh_sim_scenario_run(const struct lh_sim_scenario *scenario,
    const struct lh_sim_stage_options *options, struct lh_sim_scenario_result *result)
{
    static const struct lh_sim_stage_options none;
    struct runner r = {.scenario = scenario, .result = result};

    *result = (struct lh_sim_scenario_result){.ok = true};
    lh_sim_stage_open(
        &r.stage, &scenario->settings, CHECK_EVERY, options == NULL ? &none : options);
    bool goes_on = start(&r);
    for (size_t i = 0; i < scenario->count && goes_on; i++)
        goes_on = carry_out(&r, &scenario->statements[i]);
    conclude(&r);
    lh_sim_stage_close(&r.stage);
    free(r.timetable);
}
