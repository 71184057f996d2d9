/* Composes the rooms: makes them known to each other, takes an input to the one that it concerns,
 * and runs what is due. */
#include "chunkserver/chunkserver.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/rooms.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------
 * What happens to a replica, and who does something about it (log/log.h). */

static void loaded(void *self)
{
    struct lh_chunkserver *cs = self;

    lh_cs_session_start(cs->session);
}

static void pressure_fell(void *self)
{
    struct lh_chunkserver *cs = self;

    lh_cs_secondary_release_pressure(&cs->logs);
}

static void removed(struct lh_cs_replica *r)
{
    LH_ASSERT(lh_cs_primary_of(r) == NULL);
    lh_cs_serving_removed(r);
}

static void durable(struct lh_cs_replica *r)
{
    struct lh_cs_primary *p = lh_cs_primary_of(r);

    if (p != NULL)
        lh_cs_primary_local_durable(p);
    else
        lh_cs_secondary_durable(r);
}

static void cut_back(struct lh_cs_replica *r, int error)
{
    if (lh_cs_primary_of(r) != NULL) {
        lh_cs_fencing_primary_ends(r);
        lh_cs_primary_abandon(lh_cs_primary_of(r), error);
    }
    lh_cs_serving_cut_back(r, error);
}

static void lost(struct lh_cs_replica *r, int error)
{
    if (lh_cs_primary_of(r) != NULL) {
        LH_MARK("replica-lost-of-primary");
        lh_cs_primary_abandon(lh_cs_primary_of(r), error);
    }
    lh_cs_serving_lost(r, error);
}

static const struct lh_cs_log_users log_users = {
    .loaded = loaded,
    .pressure_fell = pressure_fell,
    .removed = removed,
    .settled = lh_cs_serving_settled,
    .pumped = lh_cs_serving_pumped,
    .readable = lh_cs_serving_readable,
    .durable = durable,
    .cut_back = cut_back,
    .lost = lost,
    .differs = lh_cs_serving_differs,
    .read_back = lh_cs_serving_read_back,
};

/* ------------------------------------------------------------------------------------------------
 * Beginning and end. */

struct lh_chunkserver *lh_chunkserver_create(const struct lh_chunkserver_config *config)
{
    struct lh_chunkserver *cs = lh_alloc(sizeof *cs);

    lh_cs_config_init(&cs->host.config, config);
    lh_cs_cluster_is(&cs->host, cs->host.config.cluster_id);
    cs->host.holder = lh_holder_create();
    lh_capability_keys_init(&cs->host.keys, cs->host.config.bounds.capability_keys);
    lh_capability_keys_init(&cs->host.lead_keys, cs->host.config.bounds.capability_keys);
    lh_cs_logs_init(&cs->logs, &cs->host, &log_users, cs);
    cs->primaries = lh_cs_primaries_create(&cs->host, &cs->logs);
    cs->serving = lh_cs_serving_create(&cs->host, &cs->logs);
    cs->session = lh_cs_session_create(&cs->host, &cs->logs, cs->primaries, cs->serving);
    return cs;
}

void lh_chunkserver_destroy(struct lh_chunkserver *cs)
{
    struct lh_effects none = {0};
    struct lh_cs_replica *r;

    cs->host.fx = &none;
    lh_cs_scrub_stop(cs->serving);
    LH_IDMAP_FOREACH(r, &cs->logs.replicas) {
        lh_cs_copying_stop(r);
        if (lh_cs_primary_of(r) != NULL)
            lh_cs_primary_discard(lh_cs_primary_of(r), LH_ERR_SHUTTING_DOWN);
        lh_cs_serving_refuse(r, LH_ERR_SHUTTING_DOWN);
    }
    lh_cs_links_deinit(&cs->host);
    lh_cs_logs_deinit(&cs->logs);
    lh_cs_serving_destroy(cs->serving);
    lh_cs_primaries_destroy(cs->primaries);
    lh_cs_session_destroy(cs->session);
    lh_effects_deinit(&none);
    lh_holder_destroy(cs->host.holder);
    lh_capability_keys_deinit(&cs->host.keys);
    lh_capability_keys_deinit(&cs->host.lead_keys);
    lh_timers_deinit(&cs->host.timers);
    lh_cs_config_deinit(&cs->host.config);
    free(cs->host.cluster.id);
    free(cs);
}

static void on_stop(struct lh_chunkserver *cs)
{
    const struct lh_chunkserver_config *c = &cs->host.config;
    struct lh_cs_replica *r;

    if (cs->host.stopping)
        return;
    cs->host.stopping = true;
    lh_cs_scrub_stop(cs->serving);
    cs->stop_at =
        lh_instant_add(cs->host.now, lh_duration_add(c->drain_timeout, lh_milliseconds(500)));
    LH_IDMAP_FOREACH(r, &cs->logs.replicas) {
        if (lh_cs_primary_of(r) != NULL)
            lh_cs_primary_recall(lh_cs_primary_of(r));
        lh_cs_copying_stop(r);
    }
}

/* Clean shutdown: every primary has ended and every accepted byte was written. */
static void stop_if_done(struct lh_chunkserver *cs)
{
    struct lh_cs_replica *r;

    if (!cs->host.stopping || cs->host.stopped)
        return;
    if (!lh_instant_reached(cs->host.now, cs->stop_at)) {
        LH_IDMAP_FOREACH(r, &cs->logs.replicas) {
            if (lh_cs_primary_of(r) != NULL || lh_cs_replica_has_work(r))
                return;
        }
        if (lh_cs_session_final_heartbeat(cs->session))
            return;
    }
    cs->host.stopped = true;
    lh_cs_session_close(cs->session);
    lh_fx_stopped(cs->host.fx, LH_OK);
}

/* ------------------------------------------------------------------------------------------------
 * Inputs. */

/* ACC-3. `request` NULL: none has come yet. */
static bool refused(
    struct lh_cs_host *host, const struct lh_input *in, const ProtobufCMessage *request)
{
    char text[LH_ACCESS_TEXT_MAX];

    if (lh_access_call(host->config.access, in->identity, in->method, request, NULL, text) ==
            LH_OK ||
        LH_PLANTED("replica-for-anybody"))
        return false;
    LH_MARK("access-refused-by-server");
    host->counts.access_refused++;
    lh_access_say(&host->refusals, host->fx, host->now,
        lh_milliseconds(host->config.bounds.refusal_log_pause_ms), text);
    if (request != NULL)
        lh_cs_link_close(host, in->link, LH_ERR_PERMISSION, text);
    else
        lh_fx_close(host->fx, in->link, LH_ERR_PERMISSION, text);
    return true;
}

static void on_message(struct lh_chunkserver *cs, struct lh_input *in)
{
    struct lh_cs_link *l = lh_cs_link_find(&cs->host, in->link);

    if (l != NULL && l->user_arg != NULL) {
        /* How a replica is read is said by the request. */
        if (in->method == LH_METHOD_READ && refused(&cs->host, in, in->message))
            return;
        if (lh_cs_cluster_refuses(&cs->host, l, in->message))
            return;
    }
    lh_links_take(&cs->host.links.all, &cs->host, in);
}

static void on_link_opened(struct lh_chunkserver *cs, const struct lh_input *in)
{
    struct lh_cs_host *host = &cs->host;

    if (refused(host, in, NULL))
        return;
    switch (in->method) {
    case LH_METHOD_APPEND:
        lh_cs_link_serve(host, in, &lh_cs_append_links, cs->primaries);
        break;
    case LH_METHOD_REPLICATE:
        lh_cs_link_serve(host, in, &lh_cs_replicate_links, cs->serving);
        break;
    case LH_METHOD_READ:
        lh_cs_link_serve(host, in, &lh_cs_read_links, cs->serving);
        break;
    case LH_METHOD_SETTLE:
        lh_cs_link_serve(host, in, &lh_cs_settle_links, cs->serving);
        break;
    case LH_METHOD_IDENTIFY:
        lh_cs_link_serve(host, in, &lh_cs_identify_links, cs->session);
        break;
    default:
        lh_fx_close(host->fx, in->link, LH_ERR_UNIMPLEMENTED,
            "this is a chunkserver: ask the master for that");
        break;
    }
}

/* Was this process paused, or its machine? Then neither the disk nor anybody else was silent for as
 * long as the clock says: patience counts only time in which we ran. Leases know nothing of this:
 * they end by the clock (TIME-5). */
static void wake_up(struct lh_chunkserver *cs, struct lh_instant wanted)
{
    struct lh_duration slept = lh_instant_until(wanted, cs->host.now);

    if (slept.ns < lh_milliseconds(cs->host.config.bounds.pause_ms).ns ||
        LH_PLANTED("pause-blamed-on-others"))
        return;
    LH_MARK("pause-noticed");
    cs->host.counts.pauses++;
    lh_cs_logs_discount_pause(&cs->logs, slept);
    lh_cs_session_discount_pause(cs->session, slept);
    lh_cs_primaries_discount_pause(cs->primaries, slept);
}

void lh_chunkserver_step(struct lh_chunkserver *cs, struct lh_input *in, struct lh_effects *fx)
{
    struct lh_instant wanted = lh_chunkserver_deadline(cs);

    cs->host.now = in->now;
    cs->host.fx = fx;
    cs->host.peer = in->identity;
    if (cs->host.stopped)
        return;
    if (cs->started && lh_instant_before(wanted, cs->host.now))
        wake_up(cs, wanted);
    if (!cs->started) {
        cs->started = true;
        lh_cs_logs_load(&cs->logs);
        lh_cs_session_start(cs->session);
    }
    switch (in->kind) {
    case LH_IN_LINK_OPENED:
        on_link_opened(cs, in);
        break;
    case LH_IN_MESSAGE:
        on_message(cs, in);
        break;
    case LH_IN_PROGRESS:
    case LH_IN_SENT:
    case LH_IN_HALF_CLOSED:
    case LH_IN_LINK_CLOSED:
        lh_links_take(&cs->host.links.all, &cs->host, in);
        break;
    case LH_IN_DISK:
        lh_cs_disk_done(&cs->logs, in);
        break;
    case LH_IN_STOP:
        on_stop(cs);
        break;
    case LH_IN_PERSISTED:
        if (in->error != LH_OK && !lh_cs_session_is_failing(cs->session)) /* that was said */
            lh_fx_log(fx, LH_ERROR, "what was learnt could not be kept in the data directory: %s",
                lh_error_text(in->error));
        break;
    case LH_IN_TIMER:
    case LH_IN_CALL:
        break;
    }
    lh_timers_fire(&cs->host.timers, &cs->host, cs->host.now);
    lh_cs_pairs_flush(cs->primaries);
    lh_cs_feeders_flush(cs->serving);
    lh_cs_streams_flush(cs->primaries);
    lh_cs_logs_settle(&cs->logs);
    stop_if_done(cs);
    cs->host.fx = NULL;
    cs->host.peer = NULL;
}

struct lh_instant lh_chunkserver_deadline(const struct lh_chunkserver *cs)
{
    if (!cs->started)
        return (struct lh_instant){0};
    if (cs->host.stopped)
        return LH_INSTANT_NEVER;
    struct lh_instant next = lh_timers_next(&cs->host.timers);
    return cs->host.stopping ? lh_instant_min(next, cs->stop_at) : next;
}

static void step_core(void *self, struct lh_input *in, struct lh_effects *fx)
{
    lh_chunkserver_step(self, in, fx);
}

static struct lh_instant core_deadline(const void *self)
{
    return lh_chunkserver_deadline(self);
}

struct lh_core lh_chunkserver_core(struct lh_chunkserver *cs)
{
    return (struct lh_core){.self = cs, .step = step_core, .deadline = core_deadline};
}

void lh_chunkserver_set_space(
    struct lh_chunkserver *cs, uint64_t capacity_bytes, uint64_t free_bytes)
{
    cs->host.config.capacity_bytes = capacity_bytes;
    cs->host.config.free_bytes = free_bytes;
}
