/* One scenario's run. */
#include "sim/scenario/scenario.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"
#include "sim/cluster/healing.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* To start, and to create the files. */
#define START_BOUND lh_seconds(60)

struct runner {
    const struct lh_sim_scenario *scenario;
    struct lh_sim_cluster *cluster;
    struct lh_sim *sim;
    struct lh_sim_actor *actor;
    struct lh_sim_observers *observers;
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
    return lh_sim_failure(r->sim) != NULL;
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
    uint64_t now = lh_sim_now(r->sim);

    if (true_ns > now)
        lh_sim_run_for(r->sim, lh_nanoseconds(true_ns - now));
}

/* ---- Actions ---- */

static void act(struct runner *r, const struct lh_sim_statement *s)
{
    struct lh_sim_action a = s->action;
    char text[LH_SIM_ACTION_TEXT];

    a.at = lh_sim_now(r->sim);
    lh_sim_action_print(&a, false, text, sizeof text);
    lh_sim_note(r->sim, "line %u: %s", s->line, text);
    if (!lh_sim_act(r->actor, &a) && r->result->idle_line == 0)
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
    uint64_t now = lh_sim_now(r->sim);

    r->timetable = lh_alloc_array(r->scenario->count, sizeof *r->timetable);
    for (size_t i = 0; i < r->scenario->count; i++) {
        const struct lh_sim_statement *s = &r->scenario->statements[i];
        if (!is_in_timetable(s))
            continue;
        r->timetable[i] = (struct entry){r, s};
        lh_sim_at(r->sim, lh_nanoseconds(s->time.ns > now ? s->time.ns - now : 0), act_in_time,
            &r->timetable[i]);
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

    return lh_sim_condition_holds(q->condition, r->cluster, r->actor, r->observers) == q->answer;
}

static bool expect(struct runner *r, const struct lh_sim_statement *s)
{
    struct question q = {r, &s->condition, s->hold.ns == 0};
    char expected[LH_SIM_LINE_MAX + 1], actual[LH_SIM_CONDITION_TEXT];
    bool met = answered(&q);

    if (!met && s->within.ns + s->hold.ns > 0)
        met = lh_sim_run_until(r->sim, answered, &q, lh_nanoseconds(s->within.ns + s->hold.ns));
    if (over(r))
        return false;
    if (met == q.answer)
        return true;
    lh_sim_condition_print(&s->condition, expected, sizeof expected);
    lh_sim_condition_actual(&s->condition, r->cluster, r->actor, actual, sizeof actual);
    uint64_t now_us = lh_sim_now(r->sim) / 1000;
    return fail(r, "expected %s; at %llu.%06llus %s", expected,
        (unsigned long long)(now_us / 1000000), (unsigned long long)(now_us % 1000000), actual);
}

/* ---- Settling ---- */

static bool is_exempt(void *arg, const char *path)
{
    return lh_sim_observers_exempt(((struct runner *)arg)->observers, path);
}

static bool is_settled(void *arg)
{
    return lh_sim_observers_settled(((struct runner *)arg)->observers);
}

static void settle(struct runner *r, const struct lh_sim_statement *s)
{
    struct lh_sim_settling settling = {r, is_exempt, is_settled};

    lh_sim_mend(r->cluster);
    lh_sim_observers_faults_over(r->observers);
    if (lh_sim_settle_all(r->cluster, &settling, s->within))
        lh_sim_observers_end(r->observers);
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
        lh_sim_run_for(r->sim, s->time);
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
        settle(r, s);
        break;
    case LH_SIM_SAYS_VIOLATION:
        (void)lh_sim_run_until(r->sim, never, NULL, s->within);
        break;
    }
    return !over(r);
}

static bool start(struct runner *r)
{
    const struct lh_sim_settings *settings = &r->scenario->settings;

    if (!lh_sim_cluster_start(r->cluster, START_BOUND))
        return over(r) ? false : fail(r, "the cluster did not start");
    for (uint32_t i = 0; i < settings->file_count; i++) {
        const struct lh_sim_file_setting *f = &settings->files[i];
        struct lh_sim_file_options options = {.synced = f->synced,
            .replication = f->replication,
            .min_replicas = f->min_replicas,
            .chunk_size = f->chunk_size};
        int error = lh_sim_create_file(r->cluster, f->path, &options);
        if (over(r))
            return false;
        if (error != LH_OK)
            return fail(r, "%s could not be created: %s", f->path, lh_error_name(error));
    }
    r->started = lh_sim_now(r->sim);
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
    const char *failure = lh_sim_failure(r->sim);

    to->virtual_ns = lh_sim_now(r->sim);
    to->events = lh_sim_events(r->sim);
    to->hash = lh_sim_hash(r->sim);
    if (failure != NULL) {
        (void)snprintf(to->rule, sizeof to->rule, "%s", lh_sim_failed_rule(r->sim));
        if (violation == NULL || strcmp(violation->rule, to->rule) != 0)
            (void)fail(r, "%s", failure);
    } else if (violation != NULL && to->ok) {
        r->statement = violation;
        (void)fail(r, "expected that %s is broken, and nothing was", violation->rule);
    }
}

void lh_sim_scenario_run(const struct lh_sim_scenario *scenario,
    const struct lh_sim_scenario_options *options, struct lh_sim_scenario_result *result)
{
    static const struct lh_sim_scenario_options none;
    const struct lh_sim_scenario_options *o = options == NULL ? &none : options;
    struct lh_sim_cluster_config config = lh_sim_settings_config(&scenario->settings);
    struct runner r = {.scenario = scenario, .result = result};

    *result = (struct lh_sim_scenario_result){.ok = true};
    lh_plant_none();
    if (scenario->settings.plant[0] != '\0') {
        bool planted = lh_plant(scenario->settings.plant, true);
        LH_ASSERT(planted); /* lh_sim_settings_check() */
    }
    r.cluster = lh_sim_cluster_create(&config);
    r.sim = lh_sim_world(r.cluster);
    r.actor = lh_sim_actor_create(r.cluster);
    r.observers = lh_sim_observers_create(r.cluster, NULL);
    lh_sim_trace_to(r.sim, o->trace);
    if (o->attach != NULL)
        o->attach(o->arg, r.cluster, r.observers);
    bool goes_on = start(&r);
    for (size_t i = 0; i < scenario->count && goes_on; i++)
        goes_on = carry_out(&r, &scenario->statements[i]);
    conclude(&r);
    if (o->detach != NULL)
        o->detach(o->arg, r.cluster, r.observers);
    lh_sim_observers_destroy(r.observers);
    lh_sim_actor_destroy(r.actor);
    lh_sim_cluster_destroy(r.cluster);
    free(r.timetable);
    lh_plant_none();
}
