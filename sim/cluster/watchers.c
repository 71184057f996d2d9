/* Watchers of masters that share a store (HA-3a): of each master's process that ended on a machine
 * that runs on, one begins a moment later, and resigns its reign. The process may have left
 * transactions in etcd; the watcher's are as late as anybody's, and it may stand still. */
#include "sim/cluster/internal.h"

#include "sim/world/watch.h"

#include <stdio.h>

/* From a process's end until its watcher asks etcd, at most: a large process's memory is freed
 * first. */
#define NOTICED_WITHIN lh_milliseconds(200)

static bool watcher_start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    struct master *m = arg;
    struct lh_reign_config config;

    (void)node;
    if (m->ended == 0)
        return false; /* whoever starts all nodes */
    lh_sim_reign_config(m, m->ended_at, &config);
    config.task = LH_REIGN_AFTER_DEATH;
    config.process = m->ended;
    m->ended = 0;
    *core = lh_reigns_core(lh_reigns_create(&config));
    return true;
}

static void watcher_destroy(void *arg, void *self)
{
    (void)arg;
    lh_reigns_destroy(self);
}

static const struct lh_sim_role watcher_role = {.start = watcher_start, .destroy = watcher_destroy};

static void noticed(void *arg)
{
    struct master *m = arg;

    if (m->ended != 0)
        lh_sim_start(m->watcher);
}

static void lives(void *arg, struct lh_sim_node *node, enum lh_sim_life what)
{
    struct lh_sim_cluster *c = arg;

    for (size_t i = 0; i < c->config.masters; i++) {
        struct master *m = &c->masters[i];
        if (m->node != node)
            continue;
        if (what == LH_SIM_LIFE_POWER_LOST) {
            m->ended = 0;
            lh_sim_crash(m->watcher);
        } else if (what == LH_SIM_LIFE_CRASHED || what == LH_SIM_LIFE_STOPPED) {
            m->ended = m->process;
            m->ended_at = m->runs_at;
            struct lh_prng *random = lh_sim_stream(c->sim, LH_SIM_ETCD);
            lh_sim_at(c->sim, lh_nanoseconds(lh_prng_below(random, NOTICED_WITHIN.ns)), noticed, m);
        }
    }
}

void lh_sim_watchers_init(struct lh_sim_cluster *c)
{
    char name[24];

    if (!c->config.watchers)
        return;
    for (size_t i = 0; i < c->config.masters; i++) {
        struct master *m = &c->masters[i];
        (void)snprintf(name, sizeof name, "%s-watcher", m->name);
        m->watcher = lh_sim_add(c->sim, name, &watcher_role, m);
    }
    lh_sim_watch(c->sim, &(struct lh_sim_watcher){.arg = c, .lives = lives});
}

struct lh_sim_node *lh_sim_watcher_of(const struct lh_sim_cluster *c, size_t number)
{
    return c->config.watchers ? c->masters[number - 1].watcher : NULL;
}
