#include "sim/cluster/guard.h"

#include "base/probe.h"
#include "sim/cluster/internal.h"

#include <stdlib.h>
#include <string.h>

struct guarded {
    struct guarded *next;
    char *name;
    uint64_t highest; /* that was admitted */
};

static struct guarded *find(struct lh_sim_cluster *c, const char *name)
{
    struct guarded *g = c->guard.names;

    while (g != NULL && strcmp(g->name, name) != 0)
        g = g->next;
    if (g != NULL)
        return g;
    g = lh_alloc(sizeof *g);
    *g = (struct guarded){c->guard.names, lh_strdup(name), 0};
    c->guard.names = g;
    return g;
}

bool lh_sim_guard_act(
    struct lh_sim_cluster *c, struct lh_sim_node *node, const char *name, uint64_t token, bool held)
{
    struct guarded *g = find(c, name);
    struct lh_sim_act_guarded act = {name, token, token >= g->highest, held, node};

    if (!act.admitted) {
        LH_MARK("guard-refuses");
        act.admitted = LH_PLANTED("guard-forgets");
    }
    if (act.admitted)
        g->highest = token;
    if (c->guard.seen != NULL)
        c->guard.seen(c->guard.arg, &act);
    return act.admitted;
}

/* Its token is on its way. */
struct late_act {
    struct late_act *next;
    struct lh_sim_cluster *cluster;
    struct lh_sim_node *node;
    uint64_t token;
    char name[];
};

static void arrives(void *arg)
{
    struct late_act *late = arg;
    struct late_act **at = &late->cluster->guard.late;

    while (*at != late)
        at = &(*at)->next;
    *at = late->next;
    (void)lh_sim_guard_act(late->cluster, late->node, late->name, late->token, false);
    free(late);
}

void lh_sim_guard_act_late(struct lh_sim_cluster *c, struct lh_sim_node *node, const char *name,
    uint64_t token, struct lh_duration delay)
{
    size_t size = strlen(name) + 1;
    struct late_act *late = lh_alloc(sizeof *late + size);

    late->next = c->guard.late;
    late->cluster = c;
    late->node = node;
    late->token = token;
    memcpy(late->name, name, size);
    c->guard.late = late;
    lh_sim_at(c->sim, delay, arrives, late);
}

void lh_sim_guard_watch(struct lh_sim_cluster *c,
    void (*seen)(void *arg, const struct lh_sim_act_guarded *act), void *arg)
{
    c->guard.seen = seen;
    c->guard.arg = arg;
}

void lh_sim_guard_deinit(struct lh_sim_cluster *c)
{
    struct late_act *late;

    while ((late = c->guard.late) != NULL) {
        c->guard.late = late->next;
        free(late);
    }

    while (c->guard.names != NULL) {
        struct guarded *next = c->guard.names->next;
        free(c->guard.names->name);
        free(c->guard.names);
        c->guard.names = next;
    }
}
