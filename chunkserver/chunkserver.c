/* Dispatch: from an input to the part of the server that it concerns. */
#include "base/alloc.h"
#include "base/assert.h"
#include "chunkserver/internal.h"

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
    LH_ASSERT(b.flight_messages <= LH_FLIGHT_MESSAGES_MAX);
    LH_ASSERT(b.reply_batches <= LH_REPLY_BATCHES_MAX);
    return b;
}

static const char *copy_or_empty(const char *s)
{
    return lh_strdup(s == NULL ? "" : s);
}

struct lh_chunkserver *lh_chunkserver_create(const struct lh_chunkserver_config *config)
{
    struct lh_chunkserver *cs = lh_alloc(sizeof *cs);

    LH_ASSERT(config->master_count > 0 && config->server_id != NULL);
    cs->config = *config;
    cs->config.server_id = copy_or_empty(config->server_id);
    cs->config.address = copy_or_empty(config->address);
    cs->config.failure_domain = copy_or_empty(config->failure_domain);
    cs->config.machine_id = copy_or_empty(config->machine_id);
    cs->config.cluster_id = NULL;
    cs->cluster_id = lh_strdup(config->cluster_id == NULL ? "" : config->cluster_id);

    const char **masters = lh_alloc_array(config->master_count, sizeof *masters);
    for (size_t i = 0; i < config->master_count; i++)
        masters[i] = lh_strdup(config->masters[i]);
    cs->config.masters = masters;

    uint64_t *chunks = lh_alloc_array(config->chunk_count, sizeof *chunks);
    if (config->chunk_count > 0)
        memcpy(chunks, config->chunks, config->chunk_count * sizeof *chunks);
    cs->config.chunks = chunks;

    cs->config.member_timeout = or_default(config->member_timeout, 1000);
    cs->config.drain_timeout = or_default(config->drain_timeout, 2000);
    cs->config.reconnect_min = or_default(config->reconnect_min, 50);
    cs->config.reconnect_max = or_default(config->reconnect_max, 500);
    cs->config.notice_delay = or_default(config->notice_delay, 5);
    cs->config.disk_stall = or_default(config->disk_stall, 500);
    cs->config.alive_interval = or_default(config->alive_interval, 200);
    cs->config.settle_wait = or_default(config->settle_wait, 500);
    cs->shortage.timer.kind = TIMER_SHORTAGE;
    cs->space_timer.kind = TIMER_SPACE;
    cs->tables_timer.kind = TIMER_TABLES;
    cs->config.scrub_period = or_default(config->scrub_period, SCRUB_PERIOD_MS);
    cs->config.scrub_position = copy_or_empty(config->scrub_position);
    cs->config.scrub_rate = config->scrub_rate == 0 ? SCRUB_RATE : config->scrub_rate;
    cs->config.repair_rate = config->repair_rate == 0 ? REPAIR_RATE : config->repair_rate;
    cs->copy_in.rate = cs->copy_out.rate = cs->config.repair_rate;
    if (cs->config.pending_bytes_max == 0)
        cs->config.pending_bytes_max = UINT64_C(512) << 20;
    cs->config.bounds = with_defaults(&config->bounds);
    cs->holder = lh_holder_create();
    cs->session.backoff = cs->config.reconnect_min;
    cs->session.master_term = config->master_term;
    cs->session.timer.kind = TIMER_SESSION;
    cs->session.timer.owner = cs;
    cs->alive_timer.kind = TIMER_ALIVE;
    return cs;
}

void lh_chunkserver_destroy(struct lh_chunkserver *cs)
{
    struct lh_effects none = {0};
    struct replica *r, *next_replica;
    struct link *l, *next_link;
    struct ticket *t, *next_ticket;
    struct unconfirmed_seal *seal, *next_seal;
    struct untold_loss *loss, *next_loss;

    cs->fx = &none;
    scrub_stop(cs);
    HASH_ITER(hh, cs->replicas, r, next_replica)
    {
        if (r->copying != NULL)
            copying_end(r->copying);
        if (r->primary != NULL)
            primary_discard(r->primary, LH_ERR_SHUTTING_DOWN);
        readings_refuse_all(r, LH_ERR_SHUTTING_DOWN);
    }
    HASH_ITER(hh, cs->links, l, next_link)
    {
        /* What is left are streams that never named a chunk, and reads that are on the disk. */
        if (l->kind == LINK_APPEND)
            stream_link_closed(cs, l);
        else if (l->kind == LINK_READ)
            reading_link_closed(cs, l);
        else if (l->kind == LINK_SETTLE)
            settling_link_closed(cs, l);
        link_forget(cs, l->id);
    }
    HASH_ITER(hh, cs->tickets, t, next_ticket)
    {
        HASH_DELETE(hh, cs->tickets, t);
        lh_buf_clear(&t->bytes);
        free(t);
    }
    HASH_ITER(hh, cs->replicas, r, next_replica)
    {
        replica_free(r);
    }
    HASH_ITER(hh, cs->seals, seal, next_seal)
    {
        HASH_DELETE(hh, cs->seals, seal);
        free(seal);
    }
    LL_FOREACH_SAFE(cs->losses, loss, next_loss)
    {
        free(loss);
    }
    lh_effects_deinit(&none);
    lh_holder_destroy(cs->holder);
    lh_timers_deinit(&cs->timers);
    for (size_t i = 0; i < cs->config.master_count; i++)
        free((char *)(uintptr_t)cs->config.masters[i]);
    free((char **)(uintptr_t)cs->config.masters);
    free((uint64_t *)(uintptr_t)cs->config.chunks);
    free((char *)(uintptr_t)cs->config.server_id);
    free((char *)(uintptr_t)cs->config.address);
    free((char *)(uintptr_t)cs->config.failure_domain);
    free((char *)(uintptr_t)cs->config.machine_id);
    free((char *)(uintptr_t)cs->config.scrub_position);
    free(cs->cluster_id);
    free(cs);
}

static void on_link_opened(struct lh_chunkserver *cs, const struct lh_input *in)
{
    switch (in->method) {
    case LH_METHOD_APPEND:
        link_add(cs, in->link, LINK_APPEND, NULL);
        break;
    case LH_METHOD_REPLICATE:
        link_add(cs, in->link, LINK_SECONDARY, NULL);
        break;
    case LH_METHOD_READ:
        link_add(cs, in->link, LINK_READ, NULL);
        break;
    case LH_METHOD_SETTLE:
        link_add(cs, in->link, LINK_SETTLE, NULL);
        break;
    default:
        lh_fx_close(cs->fx, in->link, LH_ERR_UNIMPLEMENTED,
            "this is a chunkserver: ask the master for that");
        break;
    }
}

static void on_message(struct lh_chunkserver *cs, struct lh_input *in)
{
    struct link *l = link_find(cs, in->link);

    if (l == NULL)
        return;
    link_whole(cs, l);
    switch (l->kind) {
    case LINK_MASTER:
        session_message(cs, in->message);
        break;
    case LINK_MEMBER:
        member_message(l->owner, in->message);
        break;
    case LINK_FETCH:
        primary_fetched(l->owner, in->message, &in->payload);
        break;
    case LINK_COPY:
        copying_received(l->owner, in->message, &in->payload);
        break;
    case LINK_APPEND:
        stream_message(cs, l, in->message, &in->payload);
        break;
    case LINK_SECONDARY:
        secondary_message(cs, l, in->message, &in->payload);
        break;
    case LINK_READ:
        reading_message(cs, l, in->message);
        break;
    case LINK_SETTLE:
        settling_message(cs, l, in->message);
        break;
    }
}

static void on_stop(struct lh_chunkserver *cs)
{
    struct replica *r, *next;

    if (cs->stopping)
        return;
    cs->stopping = true;
    scrub_stop(cs);
    cs->stop_at =
        lh_instant_add(cs->now, lh_duration_add(cs->config.drain_timeout, lh_milliseconds(500)));
    HASH_ITER(hh, cs->replicas, r, next)
    {
        if (r->primary != NULL)
            primary_recall(r->primary);
        if (r->copying != NULL)
            copying_end(r->copying);
    }
}

/* Clean shutdown: every primary has ended and every accepted byte was written. */
void server_stop_if_done(struct lh_chunkserver *cs)
{
    struct replica *r, *next;

    if (!cs->stopping || cs->stopped)
        return;
    if (!lh_instant_reached(cs->now, cs->stop_at)) {
        HASH_ITER(hh, cs->replicas, r, next)
        {
            if (r->primary != NULL || r->unwritten > 0 || r->writing > 0 || r->jobs != NULL)
                return;
        }
        if (session_farewell(cs))
            return;
    }
    cs->stopped = true;
    session_close(cs);
    lh_fx_stopped(cs->fx, LH_OK);
}

static void run_timers(struct lh_chunkserver *cs)
{
    struct lh_timer *t;

    while ((t = lh_timers_pop(&cs->timers, cs->now)) != NULL) {
        switch ((enum timer_kind)t->kind) {
        case TIMER_SESSION:
            session_timer(cs);
            break;
        case TIMER_PRIMARY:
            primary_timer(t->owner);
            break;
        case TIMER_READING:
            reading_timer(t->owner);
            break;
        case TIMER_SETTLING:
            settling_timer(t->owner);
            break;
        case TIMER_ALIVE:
            streams_show_life(cs);
            break;
        case TIMER_COPYING:
            copying_timer(t->owner);
            break;
        case TIMER_LINK:
            link_timer(cs, t->owner);
            break;
        case TIMER_SCRUB:
            scrub_timer(cs);
            break;
        case TIMER_TABLES:
            settling_tables_timer(cs);
            break;
        case TIMER_SPACE:
            space_timer(cs);
            break;
        case TIMER_SHORTAGE:
            disk_ask_again(cs);
            break;
        }
    }
}

/* Moves a moment from which on somebody's silence counts by what this process has slept since, and
 * a little more, so that what arrived meanwhile is read before anybody is judged. Once: when
 * nothing has been heard since then, a next sleep changes nothing. So a process that is held up
 * again and again, perhaps by the very disk that hangs, does not excuse it for ever. */
static void forgive(const struct lh_chunkserver *cs, struct lh_instant *since,
    struct lh_instant *forgiven, struct lh_duration slept)
{
    struct lh_duration more = lh_milliseconds(cs->config.bounds.pause_ms);

    if (since->ns == forgiven->ns)
        return;
    *since = lh_instant_min(cs->now, lh_instant_add(*since, lh_duration_add(slept, more)));
    *forgiven = *since;
}

/* Was this process paused, or its machine? Then neither the disk nor anybody else was silent for as
 * long as the clock says: patience counts only time in which we ran. Leases know nothing of this:
 * they end by the clock (TIME-5). */
static void wake_up(struct lh_chunkserver *cs, struct lh_instant wanted)
{
    struct primary *p;
    struct lh_duration slept = lh_instant_until(wanted, cs->now);

    if (slept.ns < lh_milliseconds(cs->config.bounds.pause_ms).ns ||
        LH_PLANTED("pause-blamed-on-others"))
        return;
    LH_MARK("pause-noticed");
    cs->counts.pauses++;
    forgive(cs, &cs->disk_quiet_since, &cs->disk_forgiven, slept);
    forgive(cs, &cs->session.answered_at, &cs->session.forgiven, slept);
    DL_FOREACH(cs->primaries, p)
    {
        for (size_t i = 0; i < p->member_count; i++)
            forgive(cs, &p->members[i].progress_at, &p->members[i].forgiven, slept);
        primary_set_timer(p);
    }
}

void lh_chunkserver_step(struct lh_chunkserver *cs, struct lh_input *in, struct lh_effects *fx)
{
    struct link *l;
    struct lh_instant wanted = lh_chunkserver_deadline(cs);

    cs->now = in->now;
    cs->fx = fx;
    if (cs->stopped)
        return;
    if (cs->started && lh_instant_before(wanted, cs->now))
        wake_up(cs, wanted);
    if (!cs->started) {
        cs->started = true;
        scan_load_more(cs);
        session_start(cs);
    }
    switch (in->kind) {
    case LH_IN_LINK_OPENED:
        on_link_opened(cs, in);
        break;
    case LH_IN_MESSAGE:
        on_message(cs, in);
        break;
    case LH_IN_PROGRESS:
        if ((l = link_find(cs, in->link)) != NULL)
            link_progress(cs, l);
        break;
    case LH_IN_HALF_CLOSED:
        if ((l = link_find(cs, in->link)) != NULL)
            link_half_closed(cs, l);
        break;
    case LH_IN_LINK_CLOSED:
        if ((l = link_find(cs, in->link)) != NULL)
            link_closed(cs, l, in->text);
        break;
    case LH_IN_DISK:
        disk_done(cs, in);
        break;
    case LH_IN_STOP:
        on_stop(cs);
        break;
    case LH_IN_PERSISTED:
        if (in->error != LH_OK)
            lh_fx_log(fx, LH_ERROR, "what was learnt could not be kept in the data directory: %s",
                lh_error_text(in->error));
        break;
    case LH_IN_TIMER:
    case LH_IN_CALL:
        break;
    }
    run_timers(cs);
    streams_close_answered(cs);
    server_stop_if_done(cs);
    cs->fx = NULL;
}

struct lh_instant lh_chunkserver_deadline(const struct lh_chunkserver *cs)
{
    if (!cs->started)
        return (struct lh_instant){0};
    if (cs->stopped)
        return LH_INSTANT_NEVER;
    struct lh_instant next = lh_timers_next(&cs->timers);
    return cs->stopping ? lh_instant_min(next, cs->stop_at) : next;
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
    cs->config.capacity_bytes = capacity_bytes;
    cs->config.free_bytes = free_bytes;
}

static const struct replica *find_const(const struct lh_chunkserver *cs, uint64_t chunk)
{
    struct replica *r;

    HASH_FIND(hh, cs->replicas, &chunk, sizeof chunk, r);
    return r;
}

bool lh_chunkserver_replica(
    const struct lh_chunkserver *cs, uint64_t chunk, struct lh_replica_status *status)
{
    const struct replica *r = find_const(cs, chunk);

    if (r == NULL)
        return false;
    *status = (struct lh_replica_status){
        .version = r->header.version,
        .length = r->end,
        .committed = r->committed,
        .checksum = r->checksum,
        .sealed = r->header.sealed && !r->incomplete,
        .doubted = replica_doubted(r),
        .lost = r->state == REPLICA_LOST,
        .copying = r->incomplete,
        .primary = r->primary != NULL,
        .open = r->primary != NULL && r->primary->state == PRIMARY_OPEN,
        .appends = r->primary == NULL ? 0 : r->primary->appends,
    };
    return true;
}

void lh_chunkserver_stats(const struct lh_chunkserver *cs, struct lh_chunkserver_stats *stats)
{
    const struct copying *c;

    *stats = (struct lh_chunkserver_stats){
        .copied_in = cs->copied_in,
        .copied_out = cs->copied_out,
        .scrub_passes = cs->scrub.passes,
        .scrub_read = cs->scrub.read,
        .scrub_found = cs->scrub.found,
        .scrub_chunk = cs->scrub.finished,
        .scrub_rate = cs->scrub.pace.rate,
    };
    DL_COUNT(cs->copies, c, stats->copies);
}

bool lh_chunkserver_may_act(
    const struct lh_chunkserver *cs, uint64_t chunk, struct lh_instant now, uint64_t *version)
{
    const struct replica *r = find_const(cs, chunk);

    if (r == NULL || r->primary == NULL || cs->stopped)
        return false;
    *version = r->primary->version;
    return lh_holder_may_act(cs->holder, chunk, r->primary->version, now);
}

bool lh_chunkserver_in_session(const struct lh_chunkserver *cs, struct lh_instant now)
{
    return cs->session.state == SESSION_LIVE && lh_holder_session_live(cs->holder, now);
}

static void check_primary(const struct primary *p)
{
    const struct replica *r = p->replica;
    uint64_t at = r->end;

    LH_ASSERT(r->primary == p);
    LH_ASSERT(p->version <= r->adopting);
    for (size_t i = p->queue_count; i-- > 0;) {
        const struct uncommitted *u = &p->queue[(p->queue_first + i) % p->queue_capacity];
        LH_ASSERT(u->offset + u->bytes.size == at);
        at = u->offset;
    }
    LH_ASSERT(p->queue_count == 0 || at == r->committed || LH_PLANTED("half-batch-committed"));
    for (size_t i = 0; i < p->member_count; i++) {
        const struct member *m = &p->members[i];
        LH_ASSERT(m->sent <= r->end || m->state < MEMBER_COPYING);
        if (p->state >= PRIMARY_OPEN && m->state == MEMBER_EQUAL)
            LH_ASSERT(m->length <= r->end);
    }
}

void lh_chunkserver_check(const struct lh_chunkserver *cs)
{
    const struct replica *r, *next;
    size_t primaries = 0;

    HASH_ITER(hh, cs->replicas, r, next)
    {
        primaries += r->primary != NULL;
        LH_ASSERT(
            r->primary == NULL || lh_holder_version(cs->holder, r->chunk) == r->primary->version);
        LH_ASSERT(r->header.version <= r->adopting);
        if (r->state != REPLICA_READY)
            continue;
        LH_ASSERT(r->written + r->writing + r->unwritten == r->end);
        LH_ASSERT(r->synced <= r->written);
        LH_ASSERT(r->committed <= r->end);
        LH_ASSERT(r->end <= r->header.chunk_size);
        LH_ASSERT(!r->header.sealed || r->primary == NULL);
        LH_ASSERT(!r->incomplete || (r->primary == NULL && r->readings == NULL));
        LH_ASSERT(r->copying == NULL || r->copying->replica == r);
        LH_ASSERT(r->reserved <= r->header.chunk_size && r->reserving <= r->header.chunk_size);
        if (r->primary != NULL)
            check_primary(r->primary);
    }
    /* No lease without a primary part, which shows it (SES-5a, LEASE-8). */
    LH_ASSERT(lh_holder_count(cs->holder) == primaries);
    lh_holder_check(cs->holder);
}
