#include "sim/cluster/healing.h"

#include "sim/cluster/internal.h"
#include "sim/world/disk.h"
#include "sim/world/network.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How often slow questions are asked while waiting. */
#define ASK_AGAIN lh_milliseconds(100)

/* So many times the bound is what copying or reading back everything may take, as long as it goes
 * on. */
#define GOING_ON_BOUNDS 4u

void lh_sim_mend(struct lh_sim_cluster *c)
{
    struct lh_sim *sim = c->sim;

    lh_sim_mend_network(sim);
    for (size_t i = 1; i <= c->config.strangers; i++)
        (void)lh_sim_set_rights(c, i, true);
    if (c->shared.etcd != NULL)
        lh_sim_etcd_mend(c->shared.etcd);
    lh_sim_mend_prefixes(c);
    for (size_t i = 0; i < lh_sim_node_count(sim); i++) {
        lh_sim_mend_disk(lh_sim_node(sim, i));
        lh_sim_set_rate(lh_sim_node(sim, i), 0);
        lh_sim_set_timer_late(lh_sim_node(sim, i), c->config.world.timer_late);
    }
    for (size_t i = 0; i < lh_sim_node_count(sim); i++) {
        lh_sim_resume(lh_sim_node(sim, i));
        if (!lh_sim_shared_rests(c, lh_sim_node(sim, i)))
            lh_sim_start(lh_sim_node(sim, i));
    }
}

/* ---- Waiting ---- */

struct waiting {
    struct lh_sim_cluster *cluster;
    const struct lh_sim_settling *settling;
    const struct lh_sim_program *late; /* the first that is not done */
};

static bool is_exempt(const struct waiting *w, const char *path)
{
    return w->settling->exempt != NULL && w->settling->exempt(w->settling->arg, path);
}

/* Where masters share an etcd, one of them knows that it acts. */
static bool a_master_acts(void *arg)
{
    const struct waiting *w = arg;
    const struct lh_sim_node *node = lh_sim_master(w->cluster);
    struct lh_reign_state state;

    return lh_sim_shared_etcd(w->cluster) == NULL ||
           (lh_sim_reign_of(w->cluster, node, &state) && state.phase == LH_REIGN_ACTING &&
               lh_instant_before(lh_sim_clock(node), state.confirmed_until));
}

static bool all_in_session(void *arg)
{
    const struct waiting *w = arg;

    return lh_sim_all_in_session(w->cluster);
}

/* Nor does anybody still wait for a recall, which would move a lease later on. */
static bool nothing_pending(void *arg)
{
    struct waiting *w = arg;

    if (lh_sim_now(w->cluster->sim) < w->cluster->asides_over)
        return false;
    w->late = NULL;
    for (const struct lh_sim_program *p = lh_sim_program_next(w->cluster, NULL); p != NULL;
         p = lh_sim_program_next(w->cluster, p)) {
        if (lh_sim_program_status(p).pending > 0 && !is_exempt(w, lh_sim_program_spec(p)->path)) {
            w->late = p;
            return false;
        }
    }
    return true;
}

static bool all_ended(void *arg)
{
    struct waiting *w = arg;

    w->late = NULL;
    for (const struct lh_sim_program *p = lh_sim_program_next(w->cluster, NULL); p != NULL;
         p = lh_sim_program_next(w->cluster, p)) {
        struct lh_sim_program_status s = lh_sim_program_status(p);
        if ((!s.ended || s.pending > 0) && !is_exempt(w, lh_sim_program_spec(p)->path)) {
            w->late = p;
            return false;
        }
    }
    return true;
}

static bool is_settled(void *arg)
{
    struct waiting *w = arg;

    return w->settling->settled == NULL || w->settling->settled(w->settling->arg);
}

/* As lh_sim_run_until(), but asks rarely. */
static bool wait_for(struct waiting *w, bool (*met)(void *arg), struct lh_duration bound)
{
    uint64_t end = lh_sim_now(w->cluster->sim) + bound.ns;

    while (!met(w)) {
        if (lh_sim_failure(w->cluster->sim) != NULL || lh_sim_now(w->cluster->sim) >= end)
            return false;
        /* A clean stop that was under way when the faults ended takes its node down later. */
        lh_sim_start_all(w->cluster);
        lh_sim_run_for(w->cluster->sim, ASK_AGAIN);
    }
    return lh_sim_failure(w->cluster->sim) == NULL;
}

static bool not_in_time(const struct waiting *w, const char *what, struct lh_duration bound)
{
    const struct lh_sim_program_spec *late = w->late == NULL ? NULL : lh_sim_program_spec(w->late);

    lh_sim_fail(w->cluster->sim, late != NULL && late->kind >= LH_SIM_LOCKER ? "INV-18" : "INV-8",
        0, "%s%s%s%s%s within %" PRIu64 " ms after the faults ended",
        late == NULL ? "" : late->name, late == NULL ? "" : " (", late == NULL ? "" : late->path,
        late == NULL ? "" : ") ", what, bound.ns / 1000000);
    return false;
}

/* ---- One more batch, and everything read back ---- */

static bool must_work(const struct waiting *w, const char *path)
{
    for (size_t i = 0, count = lh_sim_file_count(w->cluster); i < count; i++)
        if (strcmp(w->cluster->files[i].path, path) == 0)
            return !is_exempt(w, path);
    return false;
}

/* A last program of this kind for every file that must work. */
static void start_last(struct waiting *w, enum lh_sim_program_kind kind, const char *prefix)
{
    struct lh_sim_cluster *c = w->cluster;
    size_t count = lh_sim_file_count(c);
    char(*paths)[LH_SIM_PATH_MAX + 1] = lh_alloc_array(count, sizeof *paths);
    char(*locks)[LH_SIM_PATH_MAX + 1] = lh_alloc_array(count, sizeof *locks);
    uint64_t *tokens = lh_alloc_array(count, sizeof *tokens);

    for (size_t i = 0; i < count; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s", c->files[i].path);
        (void)snprintf(locks[i], sizeof locks[i], "%s", c->files[i].lock_name);
        tokens[i] = c->files[i].fence;
    }
    for (size_t i = 0; i < count; i++) {
        struct lh_sim_program_spec spec = lh_sim_program_default(kind);
        if (!must_work(w, paths[i]))
            continue;
        (void)snprintf(spec.name, sizeof spec.name, "%s-%u", prefix, (unsigned)(i + 1));
        memcpy(spec.path, paths[i], sizeof spec.path);
        spec.client = 1 + (uint32_t)(i % c->config.clients);
        spec.follow = false;
        spec.every = (struct lh_sim_range){lh_milliseconds(1), lh_milliseconds(1)};
        if (kind == LH_SIM_WRITER)
            spec.count = 1;
        if (kind == LH_SIM_WRITER) { /* as the file's last owner (TOK-2) */
            memcpy(spec.lock, locks[i], sizeof spec.lock);
            spec.token = tokens[i];
        }
        (void)lh_sim_program_start(c, &spec);
    }
    free(paths);
    free(locks);
    free(tokens);
}

/* Where all readers together have got to. */
static uint64_t read_so_far(const struct waiting *w)
{
    const struct lh_sim_cluster *c = w->cluster;
    uint64_t sum = 0;

    for (const struct lh_sim_program *p = lh_sim_program_next(c, NULL); p != NULL;
         p = lh_sim_program_next(c, p))
        if (lh_sim_program_spec(p)->kind == LH_SIM_READER)
            sum += lh_sim_program_status(p).position;
    return sum;
}

static uint64_t healed_so_far(const struct waiting *w)
{
    return w->settling->healed == NULL ? 0 : w->settling->healed(w->settling->arg);
}

/* A long file in small pieces over slow links takes its time to read, and a disk of many chunks to
 * copy. What goes on is not late. */
static bool wait_while_going_on(struct waiting *w, bool (*met)(void *arg),
    uint64_t (*so_far)(const struct waiting *w), struct lh_duration bound)
{
    for (unsigned i = 0; i < GOING_ON_BOUNDS; i++) {
        uint64_t before = so_far(w);
        if (wait_for(w, met, bound))
            return true;
        if (lh_sim_failure(w->cluster->sim) != NULL || so_far(w) == before)
            return false;
    }
    return false;
}

static bool replicas_are_equal(struct waiting *w, struct lh_duration bound)
{
    const struct lh_sim_settling *s = w->settling;

    if (wait_while_going_on(w, is_settled, healed_so_far, bound))
        return true;
    if (s->unsettled != NULL && lh_sim_failure(w->cluster->sim) == NULL)
        s->unsettled(s->arg);
    return not_in_time(w, "replicas did not become equal", bound);
}

bool lh_sim_settle_all(
    struct lh_sim_cluster *c, const struct lh_sim_settling *settling, struct lh_duration bound)
{
    struct waiting w = {.cluster = c, .settling = settling};

    lh_sim_programs_end(c);
    if (!wait_for(&w, a_master_acts, bound))
        return not_in_time(&w, "no master's reign was confirmed", bound);
    if (!wait_for(&w, all_in_session, bound))
        return not_in_time(&w, "not every chunkserver got a session", bound);
    if (!wait_for(&w, nothing_pending, bound))
        return not_in_time(&w, "is not answered", bound);
    start_last(&w, LH_SIM_WRITER, "last-writer");
    if (!wait_for(&w, all_ended, bound))
        return not_in_time(&w, "is not answered", bound);
    if (!replicas_are_equal(&w, bound))
        return false;
    start_last(&w, LH_SIM_READER, "last-reader");
    if (!wait_while_going_on(&w, all_ended, read_so_far, bound))
        return not_in_time(&w, "does not come to its end", bound);
    /* Where no scrub comes by, rot is found by whoever reads it, and then copied again. */
    return replicas_are_equal(&w, bound);
}
