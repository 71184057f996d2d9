/* The settings, and what becomes of the host's parts. */
#include "client/core/host/internal.h"

static struct lh_duration or_default(struct lh_duration d, uint64_t ms)
{
    return d.ns == 0 ? lh_milliseconds(ms) : d;
}

static uint64_t or_count(uint64_t n, uint64_t preset)
{
    return n == 0 ? preset : n;
}

void lh_client_host_init(struct lh_client_host *c, const struct lh_client_config *config)
{
    c->config = *config;
    c->config.masters = NULL;
    c->config.lookups_host = c->config.lookups_process = NULL;
    c->config.try_timeout = or_default(config->try_timeout, 5000);
    c->config.ask_masters_after = or_default(config->ask_masters_after, 500);
    c->config.stall_timeout = or_default(config->stall_timeout, 5000);
    c->config.hang_timeout = or_default(config->hang_timeout, 700);
    c->config.settle_try = or_default(config->settle_try, 300);
    c->config.tail_wait = or_default(config->tail_wait, 5000);
    c->config.new_file_wait = or_default(config->new_file_wait, 500);
    c->config.poll_wait = or_default(config->poll_wait, 10000);
    c->config.arrival_timeout = or_default(config->arrival_timeout, 600000);
    c->config.backoff_min = or_default(config->backoff_min, 10);
    c->config.backoff_max = or_default(config->backoff_max, 1000);
    c->config.silent_min = or_default(config->silent_min, 5000);
    c->config.silent_max = or_default(config->silent_max, 60000);
    c->config.repeat_for = or_default(config->repeat_for, 300000);
    c->config.late_first = or_default(config->late_first, 300);
    c->config.late_min = or_default(config->late_min, 50);
    c->config.late_max = or_default(config->late_max, 2000);
    c->config.hedge_percent = (uint32_t)or_count(config->hedge_percent, 10);
    c->config.hedge_burst = (uint32_t)or_count(config->hedge_burst, 4);
    c->config.read_bytes = (uint32_t)or_count(config->read_bytes, 2u << 20);
    c->config.chunks_ahead = (uint32_t)or_count(config->chunks_ahead, 2);
    c->config.silent_servers = (uint32_t)or_count(config->silent_servers, 64);
    c->config.messages = (uint32_t)or_count(config->messages, 2);
    c->config.full_message_bytes = or_count(config->full_message_bytes, 256u << 10);
    c->config.unanswered_bytes = or_count(config->unanswered_bytes, 16u << 20);
    c->config.message_bytes = or_count(config->message_bytes, 1u << 20);
    c->config.shared_bytes = or_count(config->shared_bytes, 512u << 10);
    c->config.small_bytes = or_count(config->small_bytes, 16u << 10);
    c->config.message_parts = (uint32_t)or_count(config->message_parts, 256);
    c->config.stream_lanes = (uint32_t)or_count(config->stream_lanes, 4096);
    c->config.stream_idle = or_default(config->stream_idle, 10000);
    c->config.stream_writers = (uint32_t)or_count(config->stream_writers, 256);
    c->config.sessions = (uint32_t)or_count(config->sessions, 4096);
    c->config.session_locks = (uint32_t)or_count(config->session_locks, 65536);
    c->config.session_reads = (uint32_t)or_count(config->session_reads, 65536);
    c->config.session_ops = (uint32_t)or_count(config->session_ops, 262144);
    c->config.session_prefixes = (uint32_t)or_count(config->session_prefixes, 64);
    c->config.session_message_bytes = or_count(config->session_message_bytes, 512u << 10);
    c->config.cached_values = (uint32_t)or_count(config->cached_values, 65536);
    c->config.cached_bytes = or_count(config->cached_bytes, 64u << 20);
    c->config.lookup_chunks = (uint32_t)or_count(config->lookup_chunks, 256);
    c->config.watches = (uint32_t)or_count(config->watches, 4096);
    c->config.watch_replies = (uint32_t)or_count(config->watch_replies, 16);
    c->config.watch_doubt = or_default(config->watch_doubt, 5000);
    c->links.answer_ends = true;
    lh_client_active_init(c, config);
    c->prng.state = config->seed;
    /* From a stream of its own: no writer's id says which calls are this client's. */
    struct lh_prng ids = {lh_mix64(config->seed ^ UINT64_C(0x63616c6c73))};
    do
        c->call_client = lh_prng_next(&ids);
    while (c->call_client == 0);
}

void lh_client_host_deinit(struct lh_client_host *c)
{
    lh_client_masters_deinit(c);
    lh_client_active_deinit(c);
    lh_timers_deinit(&c->timers);
}

void lh_client_host_check(const struct lh_client_host *c)
{
    lh_links_check(&c->links);
    lh_client_active_check(c);
    lh_client_masters_check(c);
}
