#include "sim/scenario/stage.h"

#include "base/assert.h"
#include "base/probe.h"
#include "sim/cluster/healing.h"

/* To start. */
#define START_BOUND lh_seconds(60)

static void plant(const char *name)
{
    lh_plant_none();
    if (name[0] != '\0') {
        bool planted = lh_plant(name, true);
        LH_ASSERT(planted); /* lh_sim_settings_check() */
    }
}

void lh_sim_stage_open(struct lh_sim_stage *stage, const struct lh_sim_settings *settings,
    uint32_t check_every, const struct lh_sim_stage_options *options)
{
    struct lh_sim_cluster_config config = lh_sim_settings_config(settings);

    config.world.check_every = check_every;
    plant(settings->plant);
    *stage = (struct lh_sim_stage){.settings = settings, .options = options};
    stage->cluster = lh_sim_cluster_create(&config);
    stage->sim = lh_sim_world(stage->cluster);
    stage->actor = lh_sim_actor_create(stage->cluster);
    stage->observers = lh_sim_observers_create(stage->cluster, NULL);
    lh_sim_trace_to(stage->sim, options->trace);
    if (options->attach != NULL)
        options->attach(options->arg, stage->cluster, stage->observers);
}

static int create_file(struct lh_sim_stage *stage, const struct lh_sim_file_setting *f)
{
    const struct lh_sim_file_options options = {
        .synced = f->synced,
        .replication = f->replication,
        .min_replicas = f->min_replicas,
        .chunk_size = f->chunk_size,
        .on_loss = f->on_loss,
    };

    return lh_sim_create_file(stage->cluster, f->path, &options);
}

bool lh_sim_stage_start(struct lh_sim_stage *stage, char *text, size_t text_size)
{
    if (!lh_sim_cluster_start(stage->cluster, START_BOUND)) {
        (void)snprintf(text, text_size, "the cluster did not start");
        return false;
    }
    for (uint32_t i = 0; i < stage->settings->file_count; i++) {
        const struct lh_sim_file_setting *f = &stage->settings->files[i];
        int error = create_file(stage, f);
        if (error != LH_OK) {
            (void)snprintf(
                text, text_size, "%s could not be created: %s", f->path, lh_error_name(error));
            return false;
        }
    }
    return lh_sim_failure(stage->sim) == NULL;
}

void lh_sim_stage_at(
    struct lh_sim_stage *stage, uint64_t true_ns, void (*script)(void *arg), void *arg)
{
    uint64_t now = lh_sim_now(stage->sim);

    lh_sim_at(stage->sim, lh_nanoseconds(true_ns > now ? true_ns - now : 0), script, arg);
}

static bool is_exempt(void *arg, const char *path)
{
    const struct lh_sim_stage *stage = arg;

    return lh_sim_observers_exempt(stage->observers, path);
}

static bool is_settled(void *arg)
{
    const struct lh_sim_stage *stage = arg;

    return lh_sim_observers_settled(stage->observers);
}

static uint64_t healed(void *arg)
{
    const struct lh_sim_stage *stage = arg;

    return lh_sim_observers_copies(stage->observers);
}

static void unsettled(void *arg)
{
    const struct lh_sim_stage *stage = arg;

    lh_sim_observers_unsettled(stage->observers);
}

void lh_sim_stage_settle(struct lh_sim_stage *stage, struct lh_duration bound)
{
    const struct lh_sim_settling settling = {stage, is_exempt, is_settled, healed, unsettled};

    lh_sim_mend(stage->cluster);
    lh_sim_observers_faults_over(stage->observers);
    if (lh_sim_settle_all(stage->cluster, &settling, bound))
        lh_sim_observers_end(stage->observers);
}

void lh_sim_stage_close(struct lh_sim_stage *stage)
{
    const struct lh_sim_stage_options *o = stage->options;

    if (o->detach != NULL)
        o->detach(o->arg, stage->cluster, stage->observers);
    lh_sim_observers_destroy(stage->observers);
    lh_sim_actor_destroy(stage->actor);
    lh_sim_cluster_destroy(stage->cluster);
    lh_plant_none();
}
