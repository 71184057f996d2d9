/* The configuration: defaults, and copies of what it points to. */
#include "chunkserver/config.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>

#define REPAIR_RATE     (UINT64_C(64) << 20)
#define SCRUB_RATE      (UINT64_C(16) << 20)
#define SCRUB_PERIOD_MS (UINT64_C(14) * 24 * 3600 * 1000)

static struct lh_duration or_default(struct lh_duration d, uint64_t ms)
{
    return d.ns == 0 ? lh_milliseconds(ms) : d;
}

static struct lh_chunkserver_bounds with_defaults(const struct lh_chunkserver_bounds *given)
{
    struct lh_chunkserver_bounds b = *given;

#define X(name, least, standard, what) b.name = b.name == 0 ? (standard) : b.name;
    LH_CHUNKSERVER_BOUNDS(X)
#undef X
    LH_ASSERT(b.pair_bytes + b.small_bytes <= LH_PIECE_BYTES);
    LH_ASSERT(b.reply_batches <= LH_REPLY_BATCHES_MAX);
    return b;
}

static const char *copy_or_empty(const char *s)
{
    return lh_strdup(s == NULL ? "" : s);
}

void lh_cs_term_read(const char *text, uint64_t *master_term, uint64_t *reign_name)
{
    char *end;

    *master_term = strtoull(text, &end, 10);
    *reign_name = strtoull(end, NULL, 16);
}

void lh_cs_config_init(struct lh_chunkserver_config *c, const struct lh_chunkserver_config *config)
{
    LH_ASSERT(config->master_count > 0 && config->server_id != NULL);
    *c = *config;
    c->server_id = copy_or_empty(config->server_id);
    c->address = copy_or_empty(config->address);
    c->failure_domain = copy_or_empty(config->failure_domain);
    c->machine_id = copy_or_empty(config->machine_id);
    c->cluster_id = copy_or_empty(config->cluster_id);

    const char **masters = lh_alloc_array(config->master_count, sizeof *masters);
    for (size_t i = 0; i < config->master_count; i++)
        masters[i] = lh_strdup(config->masters[i]);
    c->masters = masters;

    uint64_t *chunks = lh_alloc_array(config->chunk_count, sizeof *chunks);
    if (config->chunk_count > 0)
        memcpy(chunks, config->chunks, config->chunk_count * sizeof *chunks);
    c->chunks = chunks;

    c->member_timeout = or_default(config->member_timeout, 1000);
    c->drain_timeout = or_default(config->drain_timeout, 2000);
    c->reconnect_min = or_default(config->reconnect_min, 50);
    c->reconnect_max = or_default(config->reconnect_max, 500);
    c->notice_delay = or_default(config->notice_delay, 5);
    c->disk_stall = or_default(config->disk_stall, 500);
    c->alive_interval = or_default(config->alive_interval, 200);
    c->settle_wait = or_default(config->settle_wait, 500);
    c->ask_masters_after = or_default(config->ask_masters_after, 500);
    c->scrub_period = or_default(config->scrub_period, SCRUB_PERIOD_MS);
    c->scrub_position = copy_or_empty(config->scrub_position);
    c->scrub_rate = config->scrub_rate == 0 ? SCRUB_RATE : config->scrub_rate;
    c->repair_rate = config->repair_rate == 0 ? REPAIR_RATE : config->repair_rate;
    if (c->pending_bytes_max == 0)
        c->pending_bytes_max = UINT64_C(512) << 20;
    c->bounds = with_defaults(&config->bounds);
}

void lh_cs_config_deinit(struct lh_chunkserver_config *c)
{
    for (size_t i = 0; i < c->master_count; i++)
        free((char *)(uintptr_t)c->masters[i]);
    free((char **)(uintptr_t)c->masters);
    free((uint64_t *)(uintptr_t)c->chunks);
    free((char *)(uintptr_t)c->server_id);
    free((char *)(uintptr_t)c->address);
    free((char *)(uintptr_t)c->failure_domain);
    free((char *)(uintptr_t)c->machine_id);
    free((char *)(uintptr_t)c->scrub_position);
    free((char *)(uintptr_t)c->cluster_id);
}
