#include "sim/run/run.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"
#include "sim/cluster/healing.h"

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
    struct lh_sim_cluster *cluster;
    struct lh_sim *sim;
    struct lh_sim_actor *actor;
    struct lh_sim_observers *observers;
    struct lh_sim_nemesis *nemesis;
    struct due *due;
    struct lh_sim_result *result;
    size_t action_capacity;
};

/* Cores walk their own invariants after every so many of their steps: it takes a fifth of a run's
 * time when done after each, and finds nothing sooner that matters. */
#define CHECK_EVERY 16

/* To start, and to create the files. */
#define START_BOUND lh_seconds(60)

/* No lease runs longer than the longest session term, a master's restart waits that long once more,
 * and so may a chunk whose recovery fails on the way; the rest is for slow links and disks. */
struct lh_duration lh_sim_healing_bound(
    const struct lh_sim_settings *s, const struct lh_sim_action *actions, size_t action_count)
{
    uint64_t longest = s->session_term.ns;

    for (size_t i = 0; i < action_count; i++) {
        const struct lh_sim_action *a = &actions[i];
        if (a->kind == LH_SIM_ACT_SESSION_TERM && a->hold.ns > longest)
            longest = a->hold.ns;
    }
    return lh_nanoseconds(4 * longest + lh_seconds(60).ns);
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
        r->options->did(r->options->arg, action);
}

static void carry_out(void *arg)
{
    struct due *d = arg;
    struct lh_sim_action a = *d->action;

    a.at = lh_sim_now(d->run->sim);
    if (lh_sim_act(d->run->actor, &a))
        did(d->run, &a);
}

static void schedule_actions(struct run *r)
{
    uint64_t now = lh_sim_now(r->sim);

    r->due = lh_alloc_array(r->plan->action_count, sizeof *r->due);
    for (size_t i = 0; i < r->plan->action_count; i++) {
        const struct lh_sim_action *a = &r->plan->actions[i];
        r->due[i] = (struct due){r, a};
        lh_sim_at(r->sim, lh_nanoseconds(a->at > now ? a->at - now : 0), carry_out, &r->due[i]);
    }
}

/* ---- The phases ---- */

static bool start(struct run *r)
{
    if (!lh_sim_cluster_start(r->cluster, START_BOUND)) {
        lh_sim_fail(r->sim, "INV-8", 0, "the cluster did not start");
        return false;
    }
    for (uint32_t i = 0; i < r->plan->settings.file_count; i++) {
        const struct lh_sim_file_setting *f = &r->plan->settings.files[i];
        struct lh_sim_file_options options = {.synced = f->synced,
            .replication = f->replication,
            .min_replicas = f->min_replicas,
            .chunk_size = f->chunk_size};
        int error = lh_sim_create_file(r->cluster, f->path, &options);
        if (error != LH_OK) {
            lh_sim_fail(
                r->sim, "INV-8", 0, "%s could not be created: %s", f->path, lh_error_name(error));
            return false;
        }
    }
    return true;
}

static void suffer(struct run *r)
{
    uint64_t end = lh_sim_now(r->sim) + r->plan->duration.ns;

    schedule_actions(r);
    r->nemesis = lh_sim_nemesis_start(
        r->cluster, r->actor, &r->plan->temper, r->plan->settings.seed, did, r);
    lh_sim_run_for(r->sim, lh_nanoseconds(end - lh_sim_now(r->sim)));
    lh_sim_nemesis_rest(r->nemesis);
}

static bool is_exempt(void *arg, const char *path)
{
    struct run *r = arg;

    return lh_sim_observers_exempt(r->observers, path);
}

static bool is_settled(void *arg)
{
    struct run *r = arg;

    return lh_sim_observers_settled(r->observers);
}

static void heal(struct run *r)
{
    struct lh_sim_settling settling = {r, is_exempt, is_settled};

    lh_sim_mend(r->cluster);
    lh_sim_observers_faults_over(r->observers);
    struct lh_duration bound =
        lh_sim_healing_bound(&r->plan->settings, r->result->actions, r->result->action_count);
    if (lh_sim_settle_all(r->cluster, &settling, bound))
        lh_sim_observers_end(r->observers);
}

/* ---- One run ---- */

static void plant(const struct lh_sim_plan *plan)
{
    lh_plant_none();
    if (plan->settings.plant[0] != '\0') {
        bool planted = lh_plant(plan->settings.plant, true);
        LH_ASSERT(planted); /* lh_sim_settings_check() */
    }
}

static void conclude(struct run *r)
{
    struct lh_sim_result *to = r->result;
    const char *failure = lh_sim_failure(r->sim);

    to->virtual_ns = lh_sim_now(r->sim);
    to->events = lh_sim_events(r->sim);
    to->messages = lh_sim_delivered(r->sim);
    to->hash = lh_sim_hash(r->sim);
    to->excused =
        lh_sim_observers_seen(r->observers, "INV-1") + lh_sim_observers_seen(r->observers, "INV-2");
    for (size_t i = 0; i < lh_sim_file_count(r->cluster); i++)
        to->exempt += lh_sim_observers_exempt(r->observers, lh_sim_file_path(r->cluster, i));
    for (const struct lh_sim_program *p = lh_sim_program_next(r->cluster, NULL); p != NULL;
         p = lh_sim_program_next(r->cluster, p))
        if (lh_sim_program_spec(p)->kind == LH_SIM_WRITER)
            to->acknowledged += lh_sim_program_status(p).succeeded;
    if (failure == NULL)
        return;
    to->failed = true;
    to->text = lh_strdup(failure);
    (void)snprintf(to->rule, sizeof to->rule, "%s", lh_sim_failed_rule(r->sim));
    to->failed_at = lh_sim_failed_at(r->sim);
    to->chunk = lh_sim_failed_chunk(r->sim);
}

void lh_sim_run(const struct lh_sim_plan *plan, const struct lh_sim_run_options *options,
    struct lh_sim_result *result)
{
    static const struct lh_sim_run_options none;
    const struct lh_sim_run_options *o = options == NULL ? &none : options;
    struct lh_sim_cluster_config config = lh_sim_settings_config(&plan->settings);
    struct run r = {.plan = plan, .options = o, .result = result};

    *result = (struct lh_sim_result){0};
    config.world.check_every = CHECK_EVERY;
    plant(plan);
    r.cluster = lh_sim_cluster_create(&config);
    r.sim = lh_sim_world(r.cluster);
    r.actor = lh_sim_actor_create(r.cluster);
    r.observers = lh_sim_observers_create(r.cluster, NULL);
    lh_sim_trace_to(r.sim, o->trace);
    if (o->attach != NULL)
        o->attach(o->arg, r.cluster, r.observers);
    if (start(&r)) {
        suffer(&r);
        if (lh_sim_failure(r.sim) == NULL)
            heal(&r);
    }
    conclude(&r);
    if (o->detach != NULL)
        o->detach(o->arg, r.cluster, r.observers);
    lh_sim_observers_destroy(r.observers);
    lh_sim_actor_destroy(r.actor);
    lh_sim_cluster_destroy(r.cluster);
    if (r.nemesis != NULL)
        lh_sim_nemesis_destroy(r.nemesis);
    free(r.due);
    lh_plant_none();
}

void lh_sim_result_deinit(struct lh_sim_result *result)
{
    free(result->text);
    free(result->actions);
    *result = (struct lh_sim_result){0};
}

bool lh_sim_result_is_liveness(const struct lh_sim_result *r)
{
    return r->failed && (strcmp(r->rule, "INV-8") == 0 || strcmp(r->rule, "INV-9") == 0);
}
