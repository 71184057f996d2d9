#include "sim/observers/observers.h"

#include "sim/observers/capability.h"
#include "sim/observers/heads.h"
#include "sim/observers/history.h"
#include "sim/observers/leases.h"
#include "sim/observers/leftovers.h"
#include "sim/observers/own_log.h"
#include "sim/observers/reign.h"
#include "sim/observers/tokens.h"

#include "sim/cluster/internal.h"
#include "sim/cluster/stranger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define PATIENCE lh_seconds(60)

/* ---- Who is who ---- */

static size_t slot_of(const struct lh_sim_observers *o, const struct lh_sim_node *node)
{
    size_t slot = (size_t)((uintptr_t)node >> 4) * 0x9e3779b1u >> 8 & 0xff;

    while (o->by_address[slot] != 0 && o->actors[o->by_address[slot] - 1].node != node)
        slot = (slot + 1) & 0xff;
    return slot;
}

struct actor *lh_ob_actor(struct lh_sim_observers *o, const struct lh_sim_node *node)
{
    size_t slot = slot_of(o, node);

    LH_ASSERT(o->by_address[slot] != 0);
    return &o->actors[o->by_address[slot] - 1];
}

int32_t lh_ob_server_named(const struct lh_sim_observers *o, const char *name)
{
    for (uint32_t i = 0; i < o->server_count; i++)
        if (strcmp(o->servers[i]->name, name) == 0)
            return (int32_t)i;
    return -1;
}

static void add_actor(
    struct lh_sim_observers *o, struct lh_sim_node *node, enum part part, uint32_t number)
{
    struct actor *a = &o->actors[o->actor_count++];

    *a = (struct actor){.node = node, .name = lh_sim_name(node), .part = part, .number = number};
    a->alive = lh_sim_is_up(node);
    o->by_address[slot_of(o, node)] = (uint8_t)o->actor_count;
}

static void find_actors(struct lh_sim_observers *o)
{
    const struct lh_sim_cluster_config *config = &o->cluster->config;

    bool shared = lh_sim_shared_etcd(o->cluster) != NULL;

    for (uint32_t i = 0; i < (shared ? config->masters : 1); i++)
        add_actor(o, lh_sim_master_at(o->cluster, i + 1), PART_MASTER, i);
    o->master = &o->actors[0];
    o->store = lh_sim_store(o->cluster);
    if (shared) {
        add_actor(o, o->store, PART_STORE, 0);
        for (size_t i = 0; i < LH_SIM_PREFIX_NONE; i++)
            add_actor(o, o->cluster->shared.beginners[i].node, PART_OTHER, 0);
        for (size_t i = 0; i < lh_sim_etcd_members(lh_sim_shared_etcd(o->cluster)); i++)
            add_actor(o, lh_sim_etcd_member(lh_sim_shared_etcd(o->cluster), i), PART_OTHER, 0);
    }
    for (uint32_t i = 0; config->watchers && i < config->masters; i++)
        add_actor(o, lh_sim_watcher_of(o->cluster, i + 1), PART_OTHER, 0);
    o->ruin = config->ruin;
    o->server_count = (uint32_t)config->servers;
    o->servers = lh_alloc_array(config->servers, sizeof(struct actor *));
    for (uint32_t i = 0; i < config->servers; i++) {
        add_actor(o, lh_sim_server(o->cluster, i + 1), PART_SERVER, i);
        o->servers[i] = &o->actors[o->actor_count - 1];
    }
    for (uint32_t i = 0; i < config->clients; i++)
        add_actor(o, lh_sim_client(o->cluster, i + 1), PART_CLIENT, i);
}

/* ---- What there is ---- */

struct chunk *lh_ob_chunk_find(const struct lh_sim_observers *o, uint64_t id)
{
    struct chunk *c;

    HASH_FIND(hh, o->chunks, &id, sizeof id, c);
    return c;
}

struct chunk *lh_ob_chunk(struct lh_sim_observers *o, uint64_t id)
{
    struct chunk *c = lh_ob_chunk_find(o, id);

    if (c != NULL)
        return c;
    c = lh_alloc(sizeof *c);
    c->id = id;
    c->holder = c->decided_holder = -1;
    c->replicas = lh_alloc_array(o->server_count, sizeof *c->replicas);
    HASH_ADD(hh, o->chunks, id, sizeof c->id, c);
    return c;
}

struct file *lh_ob_file_find(const struct lh_sim_observers *o, uint64_t id)
{
    struct file *f;

    HASH_FIND(hh, o->files, &id, sizeof id, f);
    return f;
}

/* ---- Watching ---- */

/* What strangers do is nobody's concern, nor what they say as if they were servers; only what comes
 * of it is. What they append in order may be stored. */
static bool is_strange(const struct lh_sim_sight *s)
{
    return lh_sim_is_stranger(s->node) ||
           (s->method == LH_METHOD_SESSION && s->peer != NULL && lh_sim_is_stranger(s->peer));
}

void lh_ob_take(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s)
{
    lh_ob_pieces_note(o, s);
    lh_ob_keep_takes(o, a, s);
    lh_ob_leftovers_takes(o, a, s);
    lh_ob_own_log_takes(o, a, s);
    if (failed(o))
        return;
    a->stopping = a->stopping || s->input->kind == LH_IN_STOP;
    lh_ob_links_takes(o, a, s);
    lh_ob_leases_takes(o, a, s);
    lh_ob_history_takes(o, a, s);
    if (a->part == PART_CLIENT) {
        lh_ob_inv8_takes(o);
        return;
    }
    if (a->part == PART_MASTER)
        lh_ob_ledger_takes(o, s);
    lh_ob_model_takes(o, a, s);
    lh_ob_inv1_takes(o, a, s);
    lh_ob_inv4_takes(o, a, s);
    lh_ob_roll_takes(o, a, s);
    lh_ob_inv9_takes(o, a, s);
    lh_ob_inv10_takes(o, a, s);
    lh_ob_health_takes(o, a, s);
}

static void takes(void *arg, const struct lh_sim_sight *s)
{
    struct lh_sim_observers *o = arg;

    if (lh_sim_is_stranger(s->node))
        return;
    if (o->cluster->config.roles)
        lh_ob_access_takes(o, s);
    if (o->cluster->config.capabilities) {
        lh_ob_capability_takes(o, s);
        lh_ob_leads_takes(o, s);
    }
    struct actor *a = lh_ob_actor(o, s->node);
    lh_ob_tokens_takes(o, a, s);
    lh_ob_foreign_takes(o, a, s);
    a->clock = s->input->now;
    a->stepped_at = lh_sim_now(o->sim);
    if (!is_strange(s) && a->part != PART_OTHER && lh_ob_reign_takes(o, a, s))
        lh_ob_take(o, a, s);
}

static void does(void *arg, const struct lh_sim_sight *s)
{
    struct lh_sim_observers *o = arg;

    if (o->cluster->config.roles && !lh_sim_is_stranger(s->node))
        lh_ob_access_does(o, s);
    if (o->cluster->config.capabilities && !lh_sim_is_stranger(s->node)) {
        lh_ob_capability_does(o, s);
        lh_ob_leads_does(o, s);
    }
    if (is_strange(s)) {
        lh_ob_history_stranger(o, s);
        return;
    }
    struct actor *a = lh_ob_actor(o, s->node);
    if (a->part == PART_OTHER)
        return;
    lh_ob_foreign_does(o, a, s);
    if (a->part == PART_MASTER) {
        lh_ob_reign_does(o, a, s);
        lh_ob_tokens_does(o, a, s);
    }
    if (a->part == PART_MASTER && !lh_ob_reign_acts(o, a)) {
        /* What it decided while it was confirmed may leave late. */
        if (!failed(o)) {
            lh_ob_model_does(o, a, s);
            lh_ob_leases_says_late(o, s);
        }
        return;
    }
    lh_ob_pieces_note(o, s);
    lh_ob_keep_does(o, a, s);
    lh_ob_leftovers_does(o, a, s);
    lh_ob_own_log_does(o, a, s);
    if (a->part == PART_MASTER)
        lh_ob_taken_on_does(o, s);
    if (failed(o))
        return;
    lh_ob_leases_does(o, a, s);
    if (a->part == PART_CLIENT) {
        lh_ob_history_does(o, a, s);
        return;
    }
    if (a->part == PART_MASTER)
        lh_ob_ledger_does(o, s);
    lh_ob_model_does(o, a, s);
    lh_ob_inv1_does(o, a, s);
    lh_ob_inv2_does(o, a, s);
    lh_ob_roll_does(o, a, s);
    lh_ob_inv4_does(o, a, s);
    lh_ob_inv3_does(o, a, s);
    lh_ob_inv9_does(o, a, s);
    lh_ob_health_does(o, a, s);
    lh_ob_links_does(o, a, s);
}

static void stepped(void *arg, struct lh_sim_node *node)
{
    struct lh_sim_observers *o = arg;

    if (failed(o) || lh_sim_is_stranger(node))
        return;
    struct actor *a = lh_ob_actor(o, node);
    if (a->part == PART_SERVER) {
        lh_ob_model_stepped(o, a);
        lh_ob_inv1_stepped(o, a);
    } else if (a->part == PART_MASTER && lh_ob_reign_acts(o, a)) {
        if (lh_sim_shared_etcd(o->cluster) != NULL)
            lh_ob_ledger_looks(o); /* a step's commit comes behind what it says */
        lh_ob_inv2_stepped(o);
        lh_ob_leases_stepped(o, a);
    } else if (a->part == PART_CLIENT) {
        lh_ob_leases_stepped(o, a);
    }
}

static void lives(void *arg, struct lh_sim_node *node, enum lh_sim_life what)
{
    struct lh_sim_observers *o = arg;

    if (failed(o) || lh_sim_is_stranger(node))
        return;
    struct actor *a = lh_ob_actor(o, node);
    bool shared = lh_sim_shared_etcd(o->cluster) != NULL;
    if (a->part == PART_OTHER || a->part == PART_STORE)
        return;
    if (what == LH_SIM_LIFE_RESTORED) {
        o->restored = a->part == PART_MASTER;
        return;
    }
    if (what == LH_SIM_LIFE_MOUNTED) {
        lh_ob_replicas_lives(o, a, what);
        return;
    }
    if (what == LH_SIM_LIFE_STARTED) {
        a->started = lh_sim_clock(node);
        a->started_at = lh_sim_now(o->sim);
        a->dark = a->stopping = false;
    }
    if (a->alive && !lh_sim_is_up(node))
        a->ended_at = lh_sim_now(o->sim);
    a->alive = lh_sim_is_up(node);
    if (what == LH_SIM_LIFE_POWER_LOST)
        a->dark = true;
    if (a->part != PART_MASTER || !shared)
        lh_ob_leases_lives(o, a, what);
    if (a->part == PART_MASTER && shared) {
        /* Whether it acts shows in its steps. */
        if (a == o->master && !a->alive) {
            lh_ob_reign_forget(o);
            lh_ob_ledger_ended(o);
            lh_ob_leases_lives(o, a, what);
        }
        return;
    }
    if (a->part == PART_MASTER && what == LH_SIM_LIFE_STARTED)
        o->master_life++;
    if (a->part == PART_MASTER && what != LH_SIM_LIFE_PAUSED && what != LH_SIM_LIFE_RESUMED)
        lh_ob_ledger_ended(o);
    lh_ob_links_lives(o, a, what);
    lh_ob_history_lives(o, a, what);
    lh_ob_model_lives(o, a, what);
    lh_ob_replicas_lives(o, a, what);
    lh_ob_inv1_lives(o, a, what);
    lh_ob_inv9_lives(o, a, what);
    lh_ob_health_lives(o, a, what);
}

static void disk(void *arg, struct lh_sim_node *node, uint64_t file, enum lh_disk_op op,
    uint64_t offset, uint64_t length, int error)
{
    struct lh_sim_observers *o = arg;

    if (lh_sim_failure(o->sim) == NULL)
        lh_ob_own_log_disk(o, lh_ob_actor(o, node), file, op, offset);
    if (!failed(o))
        lh_ob_replicas_disk(o, lh_ob_actor(o, node), file, op, offset, length, error);
}

static void committed(void *arg, struct lh_sim_node *node)
{
    struct lh_sim_observers *o = arg;

    o->restored = o->restored || lh_sim_shared_restored(o->cluster);
    if (!failed(o) && node == o->store)
        lh_ob_ledger_committed(o);
}

/* ---- From outside ---- */

struct lh_sim_observers *lh_sim_observers_create(
    struct lh_sim_cluster *c, const struct lh_sim_observers_config *config)
{
    struct lh_sim_observers *o = lh_alloc(sizeof *o);

    if (config != NULL)
        o->config = *config;
    else
        o->config.clocks_beyond_rho = c->config.clocks_beyond_rho;
    if (o->config.patience.ns == 0)
        o->config.patience = PATIENCE;
    o->cluster = c;
    o->sim = lh_sim_world(c);
    find_actors(o);
    lh_ob_model_init(o);
    lh_ob_history_init(o);
    lh_ob_leases_init(o);
    lh_ob_inv1_init(o);
    lh_ob_inv9_init(o);
    lh_ob_health_init(o);
    lh_ob_own_log_init(o);
    lh_ob_heads_init(o);
    lh_ob_tokens_init(o);
    lh_sim_watch(o->sim, &(struct lh_sim_watcher){.arg = o,
                             .takes = takes,
                             .does = does,
                             .stepped = stepped,
                             .lives = lives,
                             .disk = disk,
                             .committed = committed});
    return o;
}

void lh_sim_observers_destroy(struct lh_sim_observers *o)
{
    lh_ob_links_deinit(o);
    lh_ob_access_deinit(o);
    lh_ob_foreign_deinit(o);
    lh_ob_capability_deinit(o);
    lh_ob_reign_forget(o);
    lh_ob_inv1_deinit(o);
    lh_ob_inv9_deinit(o);
    lh_ob_health_deinit(o);
    lh_ob_leases_deinit(o);
    lh_ob_history_deinit(o);
    lh_ob_model_deinit(o);
    lh_ob_ledger_deinit(o);
    lh_ob_pieces_deinit(o);
    lh_ob_own_log_deinit(o);
    lh_ob_heads_deinit(o);
    lh_ob_tokens_deinit(o);
    free(o->servers);
    free(o);
}

void lh_sim_observers_faults_over(struct lh_sim_observers *o)
{
    o->over = true;
    o->over_at = o->next_due = lh_sim_now(o->sim);
}

void lh_sim_observers_end(struct lh_sim_observers *o)
{
    char text[256];
    uint64_t chunk;

    if (failed(o) || !o->over)
        return;
    lh_ob_inv8_end(o);
    if (lh_sim_shared_etcd(o->cluster) != NULL && !lh_ob_reign_confirmed(o))
        lh_sim_fail(o->sim, "INV-8", 0, "no master is active when all is well");
    if (!lh_ob_inv5_equal(o, true, &chunk, text, sizeof text))
        lh_sim_fail(o->sim, "INV-5", chunk, "%s", text);
}

uint64_t lh_sim_observers_seen(const struct lh_sim_observers *o, const char *rule)
{
    return strcmp(rule, "INV-1") == 0    ? o->seen_inv1
           : strcmp(rule, "INV-2") == 0  ? o->seen_inv2
           : strcmp(rule, "INV-11") == 0 ? o->seen_inv11
           : strcmp(rule, "INV-13") == 0 ? o->seen_inv13
           : strcmp(rule, "INV-14") == 0 ? o->seen_inv14
           : strcmp(rule, "INV-15") == 0 ? o->seen_inv15
                                         : 0;
}

bool lh_sim_observers_exempt(struct lh_sim_observers *o, const char *path)
{
    struct name *n;

    if (o->restored)
        return true;
    HASH_FIND_STR(o->history->names, path, n);
    for (size_t i = 0; n != NULL && i < n->count; i++) {
        struct file *f = lh_ob_file_find(o, n->times[i].file);
        if (f != NULL && !f->removed && lh_ob_inv8_exempt(o, f))
            return true;
    }
    return false;
}

bool lh_sim_observers_settled(struct lh_sim_observers *o)
{
    char text[256];
    uint64_t chunk;

    return failed(o) || (lh_ob_inv5_equal(o, false, &chunk, text, sizeof text) &&
                            lh_ob_keep_whole(o, &chunk, text, sizeof text) &&
                            lh_ob_leftovers_none(o, &chunk, text, sizeof text) &&
                            lh_ob_leases_settled(o, text, sizeof text));
}

void lh_sim_observers_unsettled(struct lh_sim_observers *o)
{
    char text[256];
    uint64_t chunk;

    if (failed(o))
        return;
    if (!lh_ob_keep_whole(o, &chunk, text, sizeof text))
        lh_sim_fail(o->sim, "KEEP-1", chunk, "full replication was not restored in time: %s", text);
    else if (!lh_ob_inv5_equal(o, false, &chunk, text, sizeof text))
        lh_sim_fail(o->sim, "INV-8", chunk, "replicas did not become equal in time: %s", text);
    else if (!lh_ob_leftovers_none(o, &chunk, text, sizeof text))
        lh_sim_fail(o->sim, "KEEP-3", chunk, "%s, and nothing is broken any more", text);
    else if (!lh_ob_leases_settled(o, text, sizeof text))
        lh_sim_fail(o->sim, "INV-17", 0, "%s, and nothing is broken any more", text);
}
