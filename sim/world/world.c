/* The event loop, and what belongs to no single part. */
#include "sim/world/internal.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct lh_sim_config lh_sim_config_default(uint64_t seed)
{
    return (struct lh_sim_config){
        .seed = seed,
        .delay = {lh_nanoseconds(50000), lh_nanoseconds(500000)},
        .notice = {lh_milliseconds(1000), lh_milliseconds(2000)},
        .write = {lh_nanoseconds(5000), lh_nanoseconds(50000)},
        .sync = {lh_nanoseconds(200000), lh_milliseconds(2)},
        .read = {lh_nanoseconds(5000), lh_nanoseconds(100000)},
        .commit = {lh_nanoseconds(200000), lh_milliseconds(2)},
        .piece_bytes = 4u << 10, /* as links and records are small here */
        .progress_interval = lh_milliseconds(20),
        .timer_late = lh_nanoseconds(100000),
        .check_every = 1,
    };
}

struct lh_sim *lh_sim_create(const struct lh_sim_config *config)
{
    struct lh_sim *sim = lh_alloc(sizeof *sim);
    struct lh_prng seeds = {config->seed};

    LH_ASSERT(config->check_every > 0);
    sim->config = *config;
    for (int i = 0; i < LH_SIM_STREAMS; i++)
        sim->streams[i].state = lh_prng_next(&seeds);
    sim->hash = config->seed;
    sim->network.wire = lh_sim_wire_config_draw(config);
    return sim;
}

void lh_sim_destroy(struct lh_sim *sim)
{
    sim->trace = NULL;
    sim->watcher_count = 0;
    /* After this every event is void, and letting it happen frees what it is about. */
    for (size_t i = 0; i < sim->node_count; i++)
        lh_sim_crash(sim->nodes[i]);
    free(sim->failure);
    sim->failure = NULL;
    while (sim->queue.count > 0) {
        struct lh_sim_event e = lh_sim_queue_pop(&sim->queue);
        if (e.kind == LH_SIM_EV_DISK)
            lh_sim_disk_done(sim, &e);
        else if (e.kind == LH_SIM_EV_COMMIT)
            lh_sim_store_done(sim, &e);
        else if (e.kind == LH_SIM_EV_CALL && sim->nodes[e.node]->role->abandoned != NULL)
            sim->nodes[e.node]->role->abandoned(
                sim->nodes[e.node]->arg, sim->nodes[e.node], e.about);
    }
    lh_sim_network_deinit(sim);
    for (size_t i = 0; i < sim->node_count; i++)
        lh_sim_node_deinit(sim->nodes[i]);
    lh_sim_queue_deinit(&sim->queue);
    free(sim->watchers);
    free(sim);
}

struct lh_sim_node *lh_sim_add(
    struct lh_sim *sim, const char *name, const struct lh_sim_role *role, void *arg)
{
    LH_ASSERT(sim->node_count < LH_SIM_NODES_MAX && lh_sim_find(sim, name) == NULL);
    struct lh_sim_node *node = lh_alloc(sizeof *node);

    node->sim = sim;
    node->index = (uint32_t)sim->node_count;
    node->name = lh_strdup(name);
    node->identity = lh_strdup("");
    node->role = role;
    node->arg = arg;
    node->powered = true;
    node->boot = 1;
    node->stopped_with = LH_ERR_CLOSED;
    node->timer_at = UINT64_MAX;
    node->timer_late = node->timer_latest = sim->config.timer_late.ns;
    node->wall_ms = UINT64_C(1700000000000);
    struct lh_instant shows = {
        1 + lh_prng_below(&sim->streams[LH_SIM_CLOCKS], UINT64_C(3600000000000))};
    lh_sim_clock_init(&node->clock, sim->now, shows, 0);
    lh_sim_disk_init(&node->disk);
    sim->nodes[sim->node_count++] = node;
    return node;
}

void lh_sim_identify(struct lh_sim_node *node, const char *identity)
{
    free(node->identity);
    node->identity = lh_strdup(identity);
}

const char *lh_sim_identity(const struct lh_sim_node *node)
{
    return node->identity;
}

size_t lh_sim_node_count(const struct lh_sim *sim)
{
    return sim->node_count;
}

struct lh_sim_node *lh_sim_node(struct lh_sim *sim, size_t index)
{
    LH_ASSERT(index < sim->node_count);
    return sim->nodes[index];
}

struct lh_sim_node *lh_sim_find(struct lh_sim *sim, const char *name)
{
    for (size_t i = 0; i < sim->node_count; i++)
        if (strcmp(sim->nodes[i]->name, name) == 0)
            return sim->nodes[i];
    return NULL;
}

uint64_t lh_sim_draw(struct lh_prng *random, const struct lh_sim_range *range)
{
    LH_ASSERT(range->min.ns <= range->max.ns);
    return range->min.ns + lh_prng_below(random, range->max.ns - range->min.ns + 1);
}

uint64_t lh_sim_draw_tail(struct lh_prng *random, const struct lh_sim_tail *tail)
{
    if (tail->per_million == 0 || lh_prng_below(random, LH_SIM_MILLION) >= tail->per_million)
        return 0;
    uint64_t most = tail->most.ns >> lh_prng_below(random, 8);
    return lh_prng_below(random, most + 1);
}

void lh_sim_hash_in(struct lh_sim *sim, uint64_t value)
{
    sim->hash = lh_mix64(sim->hash + value + UINT64_C(0x9e3779b97f4a7c15));
}

void lh_sim_schedule(struct lh_sim *sim, uint64_t at, struct lh_sim_event e)
{
    LH_ASSERT(at >= sim->now);
    e.at = at;
    lh_sim_queue_push(&sim->queue, e);
}

static void call(struct lh_sim *sim, const struct lh_sim_event *e)
{
    struct lh_sim_node *node = sim->nodes[e->node];

    if (e->life == node->life) {
        lh_sim_feed(node, &(struct lh_input){.kind = LH_IN_CALL, .call = e->about}, NULL);
    } else if (node->role->abandoned != NULL) {
        node->role->abandoned(node->arg, node, e->about);
    }
}

static void happen(struct lh_sim *sim, const struct lh_sim_event *e)
{
    switch (e->kind) {
    case LH_SIM_EV_TIMER:
        lh_sim_timer(sim, e);
        break;
    /* A link's ends are shut when their process ends, so these find out by themselves. */
    case LH_SIM_EV_DELIVER:
        lh_sim_network_deliver(sim, e);
        lh_sim_network_unref(sim, e->about);
        break;
    case LH_SIM_EV_SENT:
        lh_sim_network_sent(sim, e);
        lh_sim_network_unref(sim, e->about);
        break;
    case LH_SIM_EV_TIMEOUT:
        lh_sim_network_timeout(sim, e);
        lh_sim_network_unref(sim, e->about);
        break;
    case LH_SIM_EV_SILENCE:
        lh_sim_network_silence(sim, e);
        lh_sim_network_unref(sim, e->about);
        break;
    case LH_SIM_EV_WIRE:
        lh_sim_wire_event(sim, e);
        lh_sim_wire_unref(e->about);
        break;
    /* So do these, and they own what they are about. */
    case LH_SIM_EV_DISK:
        lh_sim_disk_done(sim, e);
        break;
    case LH_SIM_EV_COMMIT:
        lh_sim_store_done(sim, e);
        break;
    case LH_SIM_EV_CALL:
        call(sim, e);
        break;
    case LH_SIM_EV_STOP:
        if (e->life == sim->nodes[e->node]->life && sim->nodes[e->node]->up)
            lh_sim_feed(sim->nodes[e->node], &(struct lh_input){.kind = LH_IN_STOP}, NULL);
        break;
    case LH_SIM_EV_SCRIPT:
        e->script(e->about);
        break;
    }
}

bool lh_sim_run_one(struct lh_sim *sim)
{
    if (sim->queue.count == 0 || sim->failure != NULL)
        return false;
    struct lh_sim_event e = lh_sim_queue_pop(&sim->queue);
    LH_ASSERT(e.at >= sim->now);
    sim->now = e.at;

    struct lh_sim_node *node = e.kind == LH_SIM_EV_SCRIPT ? NULL : sim->nodes[e.node];
    /* An earlier one may have taken its place. */
    if (e.kind == LH_SIM_EV_TIMER && (e.life != node->life || e.number != node->timer_at))
        return true;
    if (node != NULL && node->paused) {
        LH_GROW(node->waiting, node->waiting_capacity, node->waiting_count + 1);
        node->waiting[node->waiting_count++] = e;
        return true;
    }
    sim->events++;
    lh_sim_hash_in(sim, sim->now);
    lh_sim_hash_in(sim, (uint64_t)e.kind << 32 | e.node);
    happen(sim, &e);
    return sim->failure == NULL;
}

static bool due_by(const struct lh_sim *sim, uint64_t end)
{
    return sim->queue.count > 0 && sim->queue.heap[0].at <= end;
}

static uint64_t later(const struct lh_sim *sim, struct lh_duration d)
{
    return d.ns > UINT64_MAX - sim->now ? UINT64_MAX : sim->now + d.ns;
}

void lh_sim_run_for(struct lh_sim *sim, struct lh_duration d)
{
    uint64_t end = later(sim, d);

    while (due_by(sim, end))
        if (!lh_sim_run_one(sim))
            return;
    sim->now = end;
}

bool lh_sim_run_until(
    struct lh_sim *sim, bool (*met)(void *arg), void *arg, struct lh_duration bound)
{
    uint64_t end = later(sim, bound);

    while (!met(arg)) {
        if (!due_by(sim, end)) {
            sim->now = end;
            return false;
        }
        if (!lh_sim_run_one(sim))
            return false;
    }
    return true;
}

void lh_sim_at(
    struct lh_sim *sim, struct lh_duration from_now, void (*script)(void *arg), void *arg)
{
    lh_sim_schedule(sim, later(sim, from_now),
        (struct lh_sim_event){.kind = LH_SIM_EV_SCRIPT, .about = arg, .script = script});
}

uint64_t lh_sim_now(const struct lh_sim *sim)
{
    return sim->now;
}

uint64_t lh_sim_hash(const struct lh_sim *sim)
{
    return sim->hash;
}

uint64_t lh_sim_events(const struct lh_sim *sim)
{
    return sim->events;
}

struct lh_prng *lh_sim_stream(struct lh_sim *sim, enum lh_sim_stream which)
{
    return &sim->streams[which];
}

struct lh_prng *lh_sim_random(struct lh_sim *sim)
{
    return lh_sim_stream(sim, LH_SIM_OTHERS);
}

void lh_sim_fail(struct lh_sim *sim, const char *rule, uint64_t chunk, const char *format, ...)
{
    char text[1024];
    va_list args;

    if (sim->failure != NULL)
        return;
    int n = snprintf(text, sizeof text, "%s at %" PRIu64 ".%03" PRIu64 " ms: ", rule,
        sim->now / 1000000, sim->now / 1000 % 1000);
    LH_ASSERT(n > 0);
    va_start(args, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    sim->failure = lh_strdup(text);
    sim->failed_rule = rule;
    sim->failed_at = sim->now;
    sim->failed_chunk = chunk;
    lh_sim_trace_line(sim, "!!", "%s", text);
}

const char *lh_sim_failure(const struct lh_sim *sim)
{
    return sim->failure;
}

const char *lh_sim_failed_rule(const struct lh_sim *sim)
{
    return sim->failed_rule;
}

uint64_t lh_sim_failed_at(const struct lh_sim *sim)
{
    return sim->failed_at;
}

uint64_t lh_sim_failed_chunk(const struct lh_sim *sim)
{
    return sim->failed_chunk;
}

void lh_sim_trace_to(struct lh_sim *sim, FILE *to)
{
    sim->trace = to;
}
