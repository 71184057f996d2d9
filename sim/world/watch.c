#include "sim/world/watch.h"

#include "sim/world/internal.h"

#include "base/alloc.h"

void lh_sim_watch(struct lh_sim *sim, const struct lh_sim_watcher *watcher)
{
    sim->watchers = lh_realloc_array(sim->watchers, sim->watcher_count + 1, sizeof *sim->watchers);
    sim->watchers[sim->watcher_count++] = *watcher;
}

/* `w` is each watcher that has that function. */
#define EACH_WITH(function)                                                                        \
    for (const struct lh_sim_watcher *w = sim->watchers, *end = w + sim->watcher_count; w < end;   \
         w++)                                                                                      \
        if (w->function != NULL)

void lh_sim_notify_takes(struct lh_sim *sim, const struct lh_sim_sight *sight)
{
    EACH_WITH(takes)
    w->takes(w->arg, sight);
}

void lh_sim_notify_does(struct lh_sim *sim, const struct lh_sim_sight *sight)
{
    EACH_WITH(does)
    w->does(w->arg, sight);
}

void lh_sim_notify_stepped(struct lh_sim_node *node)
{
    const struct lh_sim *sim = node->sim;

    EACH_WITH(stepped)
    w->stepped(w->arg, node);
}

void lh_sim_notify_lives(struct lh_sim_node *node, enum lh_sim_life what)
{
    const struct lh_sim *sim = node->sim;

    EACH_WITH(lives)
    w->lives(w->arg, node, what);
}

void lh_sim_notify_disk(struct lh_sim_node *node, uint64_t file, enum lh_disk_op op,
    uint64_t offset, uint64_t length, int error)
{
    const struct lh_sim *sim = node->sim;

    EACH_WITH(disk)
    w->disk(w->arg, node, file, op, offset, length, error);
}

void lh_sim_notify_committed(struct lh_sim_node *node)
{
    const struct lh_sim *sim = node->sim;

    EACH_WITH(committed)
    w->committed(w->arg, node);
}

void lh_sim_notify_noted(struct lh_sim *sim, const char *text)
{
    EACH_WITH(noted)
    w->noted(w->arg, text);
}
