#include "client/core/client.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/active.h"
#include "client/core/appender.h"
#include "client/core/ask.h"
#include "client/core/hedge.h"
#include "client/core/link.h"
#include "client/core/locks.h"
#include "client/core/lookups.h"
#include "client/core/reader.h"
#include "client/core/reply.h"
#include "client/core/server.h"
#include "client/core/session.h"
#include "client/core/silent.h"
#include "client/core/state.h"
#include "client/core/stream.h"
#include "client/core/values.h"
#include "client/core/watch.h"

#include <stdlib.h>

static struct lh_duration or_default(struct lh_duration d, uint64_t ms)
{
    return d.ns == 0 ? lh_milliseconds(ms) : d;
}

static uint64_t or_count(uint64_t n, uint64_t preset)
{
    return n == 0 ? preset : n;
}

struct lh_client *lh_client_create(const struct lh_client_config *config)
{
    struct lh_client *c = lh_alloc(sizeof *c);

    c->config = *config;
    c->config.masters = NULL;
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
    c->parts = lh_alloc_array(c->config.message_parts + 1, sizeof *c->parts);
    c->part_list = lh_alloc_array(c->config.message_parts + 1, sizeof *c->part_list);
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
    lh_client_links_init(c);
    lh_client_active_init(c, config);
    lh_client_lookups_init(c, config);
    c->prng.state = config->seed;
    /* From a stream of its own: no writer's id says which calls are this client's. */
    struct lh_prng ids = {lh_mix64(config->seed ^ UINT64_C(0x63616c6c73))};
    do
        c->call_client = lh_prng_next(&ids);
    while (c->call_client == 0);
    c->session_ids.state = lh_mix64(config->seed ^ UINT64_C(0x73657373696f6e));
    lh_client_hedge_init(c);
    return c;
}

void lh_client_destroy(struct lh_client *c)
{
    struct lh_effects dropped = {0};

    if (c == NULL)
        return;
    c->fx = &dropped;
    lh_client_appenders_end(c, false);
    lh_client_streams_end(c);
    lh_client_opening_expect_none(c);
    lh_client_readers_end(c, false);
    lh_client_questions_end(c, false);
    lh_client_masters_end(c, false);
    lh_client_lookups_stop(c, false);
    lh_client_sessions_end(c, false);
    lh_client_watches_end(c, false);
    lh_client_active_stop(c);
    lh_effects_deinit(&dropped);
    lh_client_silent_deinit(c);
    free(c->parts);
    free(c->part_list);
    lh_client_lookups_deinit(c);
    lh_client_active_deinit(c);
    lh_client_links_deinit(c);
    lh_timers_deinit(&c->timers);
    free(c);
}

/* ---- Dispatch ---- */

static void begin_call(struct lh_client *c, struct lh_call *call)
{
    if (c->stopped) {
        lh_client_complete(c, call, LH_ERR_CLOSED, "the cluster is being closed");
        return;
    }
    switch (call->kind) {
    case LH_CALL_MASTER:
        lh_client_master_ask(c, (struct lh_master_call *)call);
        break;
    case LH_CALL_APPENDER_OPEN:
        lh_client_appender_open(c, (struct lh_appender_open_call *)call);
        break;
    case LH_CALL_APPENDER_CLOSE:
        lh_client_appender_close((struct lh_appender_close_call *)call);
        break;
    case LH_CALL_SUBMIT:
        lh_client_appender_submit((struct lh_submit_call *)call);
        break;
    case LH_CALL_READER_OPEN:
        lh_client_reader_open(c, (struct lh_reader_open_call *)call);
        break;
    case LH_CALL_READER_CLOSE:
        lh_client_reader_close((struct lh_reader_close_call *)call);
        break;
    case LH_CALL_FETCH:
        lh_client_reader_fetch((struct lh_fetch_call *)call);
        break;
    case LH_CALL_SERVER:
        lh_client_server_ask(c, (struct lh_server_call *)call);
        break;
    case LH_CALL_KNOWN_MASTERS:
        lh_client_active_list(c, (struct lh_known_masters_call *)call);
        break;
    case LH_CALL_SESSION_OPEN:
        lh_client_session_open(c, (struct lh_session_open_call *)call);
        break;
    case LH_CALL_SESSION_CLOSE:
        lh_client_session_close((struct lh_session_close_call *)call);
        break;
    case LH_CALL_SESSION_EVENT:
        lh_client_event_fetch((struct lh_session_event_call *)call);
        break;
    case LH_CALL_ACQUIRE:
        lh_client_acquire((struct lh_acquire_call *)call);
        break;
    case LH_CALL_WITHDRAW:
        lh_client_acquire_withdraw((struct lh_withdraw_call *)call);
        break;
    case LH_CALL_RELEASE:
        lh_client_release((struct lh_release_call *)call);
        break;
    case LH_CALL_YIELD:
        lh_client_yield((struct lh_yield_call *)call);
        break;
    case LH_CALL_GET:
        lh_client_get((struct lh_get_call *)call);
        break;
    case LH_CALL_WATCH_OPEN:
        lh_client_watch_open(c, (struct lh_watch_open_call *)call);
        break;
    case LH_CALL_WATCH_NEXT:
        lh_client_watch_next((struct lh_watch_next_call *)call);
        break;
    case LH_CALL_WATCH_CLOSE:
        lh_client_watch_close((struct lh_watch_close_call *)call);
        break;
    case LH_CALL_LOOKUPS_END:
        lh_client_lookups_end(c, (struct lh_lookups_end_call *)call);
        break;
    }
}

static void stop(struct lh_client *c)
{
    if (c->stopped)
        return;
    c->stopped = true;
    lh_client_appenders_end(c, true);
    lh_client_readers_end(c, true);
    lh_client_questions_end(c, true);
    lh_client_masters_end(c, true);
    lh_client_lookups_stop(c, true);
    lh_client_sessions_end(c, true);
    lh_client_watches_end(c, true);
    lh_client_active_stop(c);
    lh_client_streams_end(c);
    lh_fx_stopped(c->fx, LH_OK);
}

void lh_client_step(struct lh_client *c, struct lh_input *in, struct lh_effects *fx)
{
    c->now = in->now;
    c->fx = fx;
    switch (in->kind) {
    case LH_IN_MESSAGE:
        lh_client_link_message(c, in);
        break;
    case LH_IN_LINK_CLOSED:
        lh_client_link_closed(c, in);
        break;
    case LH_IN_CALL:
        begin_call(c, in->call);
        break;
    case LH_IN_STOP:
        stop(c);
        break;
    case LH_IN_PROGRESS:
        lh_client_link_progress(c, in);
        break;
    case LH_IN_SENT:
        lh_client_link_sent(c, in);
        break;
    case LH_IN_TIMER:
    case LH_IN_LINK_OPENED: /* nothing is served here, ... */
    case LH_IN_HALF_CLOSED:
    case LH_IN_DISK: /* ... and nothing stored */
    case LH_IN_PERSISTED:
        break;
    }
    lh_timers_fire(&c->timers, c, c->now);
    lh_client_streams_flush(c);
    lh_client_sessions_flush(c);
    c->fx = NULL;
}

struct lh_instant lh_client_deadline(const struct lh_client *c)
{
    return lh_timers_next(&c->timers);
}

static void core_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    lh_client_step(self, in, fx);
}

static struct lh_instant core_deadline(const void *self)
{
    return lh_client_deadline(self);
}

struct lh_core lh_client_core(struct lh_client *c)
{
    return (struct lh_core){.self = c, .step = core_step, .deadline = core_deadline};
}

void lh_client_check(const struct lh_client *c)
{
    lh_client_links_check(c);
    lh_client_active_check(c);
    lh_client_masters_check(c);
    lh_client_streams_check(c);
    lh_client_appenders_check(c);
    lh_client_readers_check(c);
    lh_client_sessions_check(c);
    lh_client_lookups_check(c);
    lh_client_watches_check(c);
}
