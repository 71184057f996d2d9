#include "sim/run/minimize.h"

#include <string.h>

struct search {
    const struct lh_sim_minimizer *m;
    struct lh_sim_plan *best;
    uint64_t failed_at; /* of `best` */
    uint64_t runs;
    uint64_t seeds_drawn;
    const char *doing;
    bool over;
};

/* Copies `best` for a try. */
static struct lh_sim_plan candidate(const struct search *s)
{
    struct lh_sim_plan plan;

    lh_sim_plan_copy(&plan, s->best);
    return plan;
}

/* Everything that the plan names is there: it can be written as a scenario file. */
static bool makes_sense(const struct lh_sim_plan *plan)
{
    const struct lh_sim_crew crew = lh_sim_settings_crew(&plan->settings);
    char text[256];

    if (lh_sim_settings_check(&plan->settings, text, sizeof text) != LH_OK)
        return false;
    for (size_t i = 0; i < plan->action_count; i++)
        if (!lh_sim_action_check(&plan->actions[i], &crew, text, sizeof text))
            return false;
    return true;
}

/* Takes `plan` over. True: it fails too and is now the best. */
static bool try(struct search *s, struct lh_sim_plan *plan)
{
    uint64_t seed = plan->settings.seed;

    for (uint32_t i = 0; !s->over && i < s->m->seeds && makes_sense(plan); i++) {
        uint64_t failed_at;
        if (s->m->enough != NULL && s->m->enough(s->m->arg)) {
            s->over = true;
            break;
        }
        plan->settings.seed = i == 0 ? seed : lh_mix64(seed + ++s->seeds_drawn) % 1000000;
        s->runs++;
        if (!s->m->fails(s->m->arg, plan, &failed_at))
            continue;
        lh_sim_plan_deinit(s->best);
        *s->best = *plan;
        s->failed_at = failed_at;
        if (s->m->smaller != NULL)
            s->m->smaller(s->m->arg, s->doing, s->best, s->runs);
        return true;
    }
    lh_sim_plan_deinit(plan);
    return false;
}

/* ---- Fewer actions ---- */

static void drop(struct lh_sim_plan *plan, size_t from, size_t count)
{
    memmove(plan->actions + from, plan->actions + from + count,
        (plan->action_count - from - count) * sizeof *plan->actions);
    plan->action_count -= count;
}

/* What happens after the failure does not matter. */
static bool drop_the_end(struct search *s)
{
    struct lh_sim_plan plan = candidate(s);
    size_t before = plan.action_count;
    uint64_t duration = plan.duration.ns;

    s->doing = "dropping what comes after the failure";
    while (plan.action_count > 0 && plan.actions[plan.action_count - 1].at > s->failed_at)
        plan.action_count--;
    /* A failure in the phase in which all must become well needs that phase where it is. */
    uint64_t enough = s->failed_at / 1000000000 * 1000000000 + 1000000000;
    if (enough < duration)
        plan.duration.ns = enough;
    if (plan.action_count == before && plan.duration.ns == duration) {
        lh_sim_plan_deinit(&plan);
        return false;
    }
    return try(s, &plan);
}

/* Halves, quarters, ... down to single ones; from the end, since what is late is seldom a cause. */
static bool drop_actions(struct search *s)
{
    bool any = false;

    s->doing = "dropping actions";
    for (size_t size = (s->best->action_count + 1) / 2; size > 0 && !s->over; size /= 2) {
        for (size_t end = s->best->action_count; end > 0 && !s->over;) {
            size_t from = end > size ? end - size : 0;
            struct lh_sim_plan plan = candidate(s);
            drop(&plan, from, end - from);
            any |= try(s, &plan);
            end = from;
        }
    }
    return any;
}

/* ---- Simpler actions ---- */

/* One change to one action; false: nothing to change. */
typedef bool change_fn(struct lh_sim_action *a);

static bool change_actions(struct search *s, const char *doing, change_fn *change)
{
    bool any = false;

    s->doing = doing;
    for (size_t i = 0; i < s->best->action_count && !s->over; i++) {
        for (;;) {
            struct lh_sim_plan plan = candidate(s);
            if (!change(&plan.actions[i])) {
                lh_sim_plan_deinit(&plan);
                break;
            }
            if (!try(s, &plan))
                break;
            any = true;
        }
    }
    return any;
}

static bool is_program(const struct lh_sim_action *a)
{
    return lh_sim_action_begins(a->kind);
}

static bool fewer_operations(struct lh_sim_action *a)
{
    struct lh_sim_program_spec *p = &a->program;

    if (!is_program(a) || p->count <= 1)
        return false;
    p->count = p->count == UINT64_MAX ? 64 : p->count / 2;
    return true;
}

static bool smaller_operations(struct lh_sim_action *a)
{
    struct lh_sim_program_spec *p = &a->program;

    if (a->kind != LH_SIM_ACT_WRITER)
        return false;
    if (p->window > 1)
        p->window = p->window / 2;
    else if (p->records_max > p->records_min)
        p->records_max = p->records_min;
    else if (p->records_min > 1)
        p->records_min = p->records_max = 1;
    else if (p->bytes_max > p->bytes_min)
        p->bytes_max = p->bytes_min;
    else
        return false;
    return true;
}

static bool regular_operations(struct lh_sim_action *a)
{
    struct lh_sim_range *every = &a->program.every;

    if (!is_program(a) || every->min.ns == every->max.ns)
        return false;
    every->min = every->max =
        lh_milliseconds(lh_duration_ms(lh_nanoseconds(every->min.ns / 2 + every->max.ns / 2)));
    return true;
}

static bool at_the_first_client(struct lh_sim_action *a)
{
    if (!is_program(a) || a->program.client == 1)
        return false;
    a->program.client = 1;
    return true;
}

static bool shorter_hold(struct lh_sim_action *a)
{
    if (a->hold.ns < 200000000)
        return false;
    a->hold.ns = a->hold.ns / 2;
    return true;
}

static bool round_down(uint64_t *ns, uint64_t unit)
{
    uint64_t rounded = *ns / unit * unit;

    if (rounded == *ns)
        return false;
    *ns = rounded;
    return true;
}

static bool hold_in_seconds(struct lh_sim_action *a)
{
    return a->hold.ns > 1000000000 && round_down(&a->hold.ns, 1000000000);
}

static bool hold_in_milliseconds(struct lh_sim_action *a)
{
    if (a->hold.ns > 0 && a->hold.ns < 1000000) {
        a->hold.ns = 1000000;
        return true;
    }
    return round_down(&a->hold.ns, 1000000);
}

static bool delay_in_milliseconds(struct lh_sim_action *a)
{
    return a->delay.ns > 1000000 && round_down(&a->delay.ns, 1000000);
}

/* Times keep their order, so that actions stay where they are in the list. */
static bool round_times(struct search *s, const char *doing, uint64_t unit)
{
    bool any = false;

    s->doing = doing;
    for (size_t i = s->best->action_count; i > 0 && !s->over; i--) {
        struct lh_sim_plan plan = candidate(s);
        uint64_t *at = &plan.actions[i - 1].at;
        bool rounded = round_down(at, unit);
        if (i > 1 && *at < plan.actions[i - 2].at)
            *at = plan.actions[i - 2].at;
        if (rounded && *at != s->best->actions[i - 1].at)
            any |= try(s, &plan);
        else
            lh_sim_plan_deinit(&plan);
    }
    return any;
}

/* ---- Simpler settings ---- */

static bool fewer_nodes(struct search *s)
{
    bool any = false;

    s->doing = "taking nodes away";
    for (bool again = true; again && !s->over;) {
        struct lh_sim_plan plan = candidate(s);
        plan.settings.clients--;
        again = try(s, &plan);
        any |= again;
    }
    for (bool again = true; again && !s->over;) {
        struct lh_sim_plan plan = candidate(s);
        plan.settings.servers--;
        again = try(s, &plan);
        any |= again;
    }
    for (bool again = s->best->settings.etcd > 0; again && !s->over;) {
        struct lh_sim_plan plan = candidate(s);
        plan.settings.masters--;
        again = try(s, &plan);
        any |= again;
    }
    for (bool again = s->best->settings.etcd > 1; again && !s->over;) {
        struct lh_sim_plan plan = candidate(s);
        plan.settings.etcd--;
        again = try(s, &plan) && s->best->settings.etcd > 1;
        any |= again;
    }
    for (bool again = s->best->settings.strangers > 0; again && !s->over;) {
        struct lh_sim_plan plan = candidate(s);
        plan.settings.strangers--;
        again = try(s, &plan) && s->best->settings.strangers > 0;
        any |= again;
    }
    return any;
}

static bool fewer_files(struct search *s)
{
    bool any = false;

    s->doing = "taking files away";
    for (uint32_t i = s->best->settings.file_count; i > 0 && !s->over; i--) {
        struct lh_sim_plan plan = candidate(s);
        struct lh_sim_settings *settings = &plan.settings;
        memmove(settings->files + i - 1, settings->files + i,
            (settings->file_count - i) * sizeof *settings->files);
        settings->file_count--;
        any |= try(s, &plan);
    }
    return any;
}

#define SETTING(member)                                                                            \
    {                                                                                              \
        offsetof(struct lh_sim_settings, member), sizeof(((struct lh_sim_settings *)0)->member)    \
    }

static bool default_settings(struct search *s)
{
    /* What a failure is about (rho, loss, a planted bug) is not among them. */
    static const struct {
        size_t offset, size;
    } members[] = {SETTING(session_term), SETTING(chunk_term), SETTING(drift_ppm),
        SETTING(replication), SETTING(min_replicas), SETTING(chunk_size), SETTING(create_timeout),
        SETTING(member_timeout), SETTING(drain_timeout), SETTING(delay), SETTING(notice),
        SETTING(write), SETTING(sync), SETTING(read), SETTING(commit), SETTING(delay_tail),
        SETTING(disk_tail), SETTING(timer_late), SETTING(on_loss), SETTING(suspect_after),
        SETTING(grace), SETTING(trash_retention), SETTING(repair_streams), SETTING(repair_rate),
        SETTING(scrub_period), SETTING(balance), SETTING(etcd_takes), SETTING(reign_term),
        SETTING(watchers), SETTING(wire)};
    struct lh_sim_settings defaults = lh_sim_settings_default(0);
    bool any = false;

    s->doing = "bringing settings back to their defaults";
    for (size_t i = 0; i < sizeof members / sizeof members[0] && !s->over; i++) {
        const char *usual = (const char *)&defaults + members[i].offset;
        if (memcmp((const char *)&s->best->settings + members[i].offset, usual, members[i].size) ==
            0)
            continue;
        struct lh_sim_plan plan = candidate(s);
        memcpy((char *)&plan.settings + members[i].offset, usual, members[i].size);
        any |= try(s, &plan);
    }
    return any;
}

/* All of them together, or else each half for itself: mostly none matters, or one does. */
static bool shipped_between(struct search *s, size_t from, size_t to)
{
    uint64_t *now = s->best->settings.bounds;
    bool any = false;

    for (size_t i = from; i < to; i++)
        any = any || now[i] != 0;
    if (!any || s->over)
        return false;
    struct lh_sim_plan plan = candidate(s);
    memset(plan.settings.bounds + from, 0, (to - from) * sizeof *now);
    if (try(s, &plan))
        return true;
    if (to - from == 1)
        return false;
    any = shipped_between(s, from, (from + to) / 2);
    return shipped_between(s, (from + to) / 2, to) || any;
}

static bool shipped_bounds(struct search *s)
{
    s->doing = "bringing bounds back to what is shipped";
    return shipped_between(s, 0, LH_SIM_BOUNDS_MAX);
}

static bool shorter_run(struct search *s)
{
    bool any = false;

    s->doing = "shortening the run";
    while (!s->over && s->best->duration.ns > 2000000000) {
        struct lh_sim_plan plan = candidate(s);
        plan.duration.ns = plan.duration.ns / 2000000000 * 1000000000;
        if (!try(s, &plan))
            break;
        any = true;
    }
    return any;
}

uint64_t lh_sim_minimize(struct lh_sim_plan *plan, const struct lh_sim_minimizer *minimizer)
{
    struct search s = {.m = minimizer, .best = plan, .runs = 1};

    if (!minimizer->fails(minimizer->arg, plan, &s.failed_at))
        return 0;
    /* Each step may make an earlier one possible: until nothing helps any more. */
    for (bool any = true; any && !s.over;) {
        any = drop_the_end(&s);
        any |= shipped_bounds(&s);
        any |= drop_actions(&s);
        any |= change_actions(&s, "letting programs do less", fewer_operations);
        any |= change_actions(&s, "letting programs do smaller things", smaller_operations);
        any |= change_actions(&s, "letting programs act regularly", regular_operations);
        any |= change_actions(&s, "moving programs to the first client", at_the_first_client);
        any |= change_actions(&s, "letting faults last shorter", shorter_hold);
        any |= fewer_nodes(&s);
        any |= fewer_files(&s);
        any |= default_settings(&s);
        any |= shorter_run(&s);
    }
    /* For the reader. */
    if (!s.over)
        (void)round_times(&s, "rounding times to seconds", 1000000000);
    (void)round_times(&s, "rounding times to tenths of a second", 100000000);
    (void)round_times(&s, "rounding times to milliseconds", 1000000);
    (void)change_actions(&s, "rounding durations to seconds", hold_in_seconds);
    (void)change_actions(&s, "rounding durations to milliseconds", hold_in_milliseconds);
    (void)change_actions(&s, "rounding durations to milliseconds", delay_in_milliseconds);
    return s.runs;
}
