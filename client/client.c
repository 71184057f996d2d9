#include "client/client.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "client/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A LH_CALL_MASTER under way. */
struct unary {
    struct unary *next;
    struct lh_master_call *call;
    struct lh_client_ask ask;
};

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

    LH_ASSERT(config->master_count > 0);
    c->config = *config;
    c->config.masters = NULL;
    c->config.try_timeout = or_default(config->try_timeout, 5000);
    c->config.stall_timeout = or_default(config->stall_timeout, 5000);
    c->config.hang_timeout = or_default(config->hang_timeout, 700);
    c->config.settle_try = or_default(config->settle_try, 300);
    c->config.tail_wait = or_default(config->tail_wait, 5000);
    c->config.poll_wait = or_default(config->poll_wait, 10000);
    c->config.arrival_timeout = or_default(config->arrival_timeout, 600000);
    c->config.backoff_min = or_default(config->backoff_min, 10);
    c->config.backoff_max = or_default(config->backoff_max, 1000);
    c->config.silent_min = or_default(config->silent_min, 5000);
    c->config.silent_max = or_default(config->silent_max, 60000);
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
    c->config.stream_writers = (uint32_t)or_count(config->stream_writers, 256);
    c->masters = lh_alloc_array(config->master_count, sizeof *c->masters);
    for (size_t i = 0; i < config->master_count; i++)
        c->masters[i] = lh_strdup(config->masters[i]);
    c->prng.state = config->seed;
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
    lh_client_streams_flush(c);
    lh_client_readers_end(c, false);
    lh_client_questions_end(c, false);
    while (c->unaries != NULL) {
        struct unary *u = c->unaries;
        c->unaries = u->next;
        lh_client_ask_cancel(&u->ask);
        free(u);
    }
    lh_effects_deinit(&dropped);
    lh_client_silent_deinit(c);
    for (size_t i = 0; i < c->config.master_count; i++)
        free(c->masters[i]);
    free(c->masters);
    lh_timers_deinit(&c->timers);
    free(c);
}

/* ---- Links ---- */

static struct lh_client_link **bucket(struct lh_client *c, uint64_t id)
{
    return &c->links[id % LH_CLIENT_BUCKETS];
}

static struct lh_client_link *find_link(struct lh_client *c, uint64_t id)
{
    struct lh_client_link *l = *bucket(c, id);

    while (l != NULL && l->id != id)
        l = l->next;
    return l;
}

static void forget_link(struct lh_client *c, struct lh_client_link *link)
{
    struct lh_client_link **at = bucket(c, link->id);

    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link->id = 0;
    link->next = NULL;
}

void lh_client_link_open(struct lh_client *c, struct lh_client_link *link, enum lh_method method,
    const char *address, struct lh_duration timeout)
{
    LH_ASSERT(link->id == 0);
    link->id = ++c->last_link;
    link->method = method;
    link->next = *bucket(c, link->id);
    *bucket(c, link->id) = link;
    lh_fx_open(c->fx, link->id, method, address, timeout);
}

void lh_client_link_close(struct lh_client *c, struct lh_client_link *link)
{
    if (link->id == 0)
        return;
    lh_fx_close(c->fx, link->id, LH_ERR_CANCELLED, NULL);
    forget_link(c, link);
}

/* ---- Replies ---- */

int lh_client_reply_error(const void *reply, const char **text)
{
    const ProtobufCMessage *m = reply;
    const ProtobufCFieldDescriptor *error =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "error");
    const ProtobufCFieldDescriptor *error_text =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "error_text");
    unsigned code;
    const char *said;

    LH_ASSERT(error != NULL && error_text != NULL);
    memcpy(&code, (const char *)reply + error->offset, sizeof code);
    memcpy(&said, (const char *)reply + error_text->offset, sizeof said);
    int e = lh_error_from_wire(code);
    *text = said != NULL && said[0] != '\0' ? said : lh_error_text(e);
    return e;
}

void lh_client_complete(struct lh_client *c, struct lh_call *call, int error, const char *text)
{
    if (error != LH_OK)
        snprintf(call->text, sizeof call->text, "%s",
            text != NULL && text[0] != '\0' ? text : lh_error_text(error));
    lh_fx_complete(c->fx, call, error);
}

void lh_client_chunk_copy(struct lh_client_chunk *to, const Leasehold__ChunkInfo *from)
{
    *to = (struct lh_client_chunk){
        .chunk = from->chunk,
        .version = from->version,
        .start = from->start,
        .length = from->length,
        .sealed = from->sealed,
        .primary = lh_strdup(from->primary),
        .members = lh_alloc_array(from->n_members, sizeof *to->members),
        .member_count = from->n_members,
    };
    for (size_t i = 0; i < from->n_members; i++) {
        to->members[i].server_id = lh_strdup(from->members[i]->server_id);
        to->members[i].address = lh_strdup(from->members[i]->address);
    }
}

void lh_client_chunk_deinit(struct lh_client_chunk *chunk)
{
    for (size_t i = 0; i < chunk->member_count; i++) {
        free(chunk->members[i].server_id);
        free(chunk->members[i].address);
    }
    free(chunk->members);
    free(chunk->primary);
    *chunk = (struct lh_client_chunk){0};
}

/* ---- Asking the masters ---- */

struct lh_duration lh_client_backoff(struct lh_client *c, unsigned failures)
{
    /* The first repetition comes at once: most often the picture was merely old. */
    if (failures <= 1)
        return lh_nanoseconds(0);
    unsigned doublings = failures - 2 < 20 ? failures - 2 : 20;
    uint64_t ns = c->config.backoff_min.ns << doublings;
    if (ns > c->config.backoff_max.ns || ns >> doublings != c->config.backoff_min.ns)
        ns = c->config.backoff_max.ns;
    return lh_nanoseconds(ns - lh_prng_below(&c->prng, ns / 2 + 1));
}

static void end_ask(struct lh_client_ask *ask, int error, const char *text, const void *reply)
{
    lh_timer_unset(&ask->client->timers, &ask->timer);
    ask->active = false;
    ask->done(ask->owner, error, text, reply);
}

/* Nobody answered in time. */
static void expire_ask(struct lh_client_ask *ask)
{
    char text[LH_CALL_TEXT_BYTES];

    lh_client_link_close(ask->client, &ask->link);
    if (ask->reason == LH_OK) {
        struct lh_client *c = ask->client;
        snprintf(text, sizeof text, "master %s did not answer in time", c->masters[c->master]);
        end_ask(ask, LH_ERR_DEADLINE_EXCEEDED, text, NULL);
    } else {
        memcpy(text, ask->text, sizeof text);
        end_ask(ask, ask->reason, text, NULL);
    }
}

static void try_master(struct lh_client_ask *ask)
{
    struct lh_client *c = ask->client;
    struct lh_duration left = lh_instant_until(c->now, ask->deadline);
    struct lh_duration timeout =
        lh_duration_min(left, lh_duration_add(c->config.try_timeout, ask->patience));

    if (left.ns == 0) {
        expire_ask(ask);
        return;
    }
    lh_client_link_open(c, &ask->link, ask->link.method, c->masters[c->master], timeout);
    lh_fx_send(c->fx, ask->link.id, ask->request, NULL);
    lh_timer_set(&c->timers, &ask->timer, lh_instant_add(c->now, timeout));
}

/* The present master did not help: on to the next, after a pause once all were tried. */
static void try_failed(struct lh_client_ask *ask, int error, const char *text)
{
    struct lh_client *c = ask->client;

    ask->failures++;
    ask->unknown = true;
    ask->reason = error == LH_ERR_DEADLINE_EXCEEDED ? LH_ERR_UNAVAILABLE : error;
    snprintf(ask->text, sizeof ask->text, "master %s: %s", c->masters[c->master],
        text != NULL && text[0] != '\0' ? text : lh_error_text(error));
    c->master = (c->master + 1) % c->config.master_count;
    unsigned rounds = (unsigned)(ask->failures / c->config.master_count);
    struct lh_duration pause = ask->failures % c->config.master_count != 0
                                   ? lh_nanoseconds(0)
                                   : lh_client_backoff(c, rounds + 1);
    lh_timer_set(
        &c->timers, &ask->timer, lh_instant_min(lh_instant_add(c->now, pause), ask->deadline));
}

static void ask_timer(struct lh_client_ask *ask)
{
    struct lh_client *c = ask->client;

    if (lh_instant_reached(c->now, ask->deadline)) {
        expire_ask(ask);
    } else if (ask->link.id != 0) {
        lh_client_link_close(c, &ask->link);
        try_failed(ask, LH_ERR_UNAVAILABLE, "no answer");
    } else {
        try_master(ask);
    }
}

static void ask_answered(void *owner, const void *message, struct lh_buf *payload)
{
    struct lh_client_ask *ask = owner;
    char said[LH_CALL_TEXT_BYTES];
    const char *text;
    int error = lh_client_reply_error(message, &text);

    (void)payload;
    if (error == LH_ERR_UNAVAILABLE || error == LH_ERR_SHUTTING_DOWN ||
        error == LH_ERR_STALE_MASTER) {
        try_failed(ask, error, text);
        return;
    }
    if (ask->unknown && (error == LH_ERR_ALREADY_EXISTS || error == LH_ERR_NOT_FOUND)) {
        snprintf(said, sizeof said,
            "%s (the answer to an earlier try of this call was lost: it may have been its work)",
            text);
        text = said;
    }
    end_ask(ask, error, text, message);
}

static void ask_closed(void *owner, int error, const char *text)
{
    struct lh_client_ask *ask = owner;

    if (error == LH_ERR_UNIMPLEMENTED || error == LH_ERR_MALFORMED ||
        error == LH_ERR_INVALID_ARGUMENT)
        end_ask(ask, error, text, NULL);
    else
        try_failed(ask, error == LH_OK ? LH_ERR_UNAVAILABLE : error, text);
}

void lh_client_ask(struct lh_client *c, struct lh_client_ask *ask, enum lh_method method,
    const ProtobufCMessage *request, struct lh_duration patience, struct lh_instant deadline)
{
    LH_ASSERT(!ask->active);
    ask->client = c;
    ask->request = request;
    ask->patience = patience;
    ask->deadline = deadline;
    ask->failures = 0;
    ask->unknown = false;
    ask->reason = LH_OK;
    ask->active = true;
    ask->link = (struct lh_client_link){
        .method = method, .owner = ask, .on_message = ask_answered, .on_closed = ask_closed};
    ask->timer.kind = LH_TIMER_ASK;
    ask->timer.owner = ask;
    try_master(ask);
}

void lh_client_ask_cancel(struct lh_client_ask *ask)
{
    if (!ask->active)
        return;
    lh_client_link_close(ask->client, &ask->link);
    lh_timer_unset(&ask->client->timers, &ask->timer);
    ask->active = false;
}

/* ---- LH_CALL_MASTER ---- */

ProtobufCMessage *lh_client_copy_message(const ProtobufCMessage *m)
{
    size_t size = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = lh_alloc(size);

    protobuf_c_message_pack(m, bytes);
    ProtobufCMessage *copy = protobuf_c_message_unpack(m->descriptor, NULL, size, bytes);
    free(bytes);
    return copy;
}

static void unary_done(void *owner, int error, const char *text, const void *reply)
{
    struct unary *u = owner;
    struct lh_client *c = u->ask.client;
    struct unary **at = &c->unaries;

    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
    u->call->reply = reply == NULL ? NULL : lh_client_copy_message(reply);
    lh_client_complete(c, &u->call->call, error, text);
    free(u);
}

static void begin_unary(struct lh_client *c, struct lh_master_call *call)
{
    struct unary *u = lh_alloc(sizeof *u);

    u->call = call;
    call->reply = NULL;
    u->next = c->unaries;
    c->unaries = u;
    u->ask.owner = u;
    u->ask.done = unary_done;
    lh_client_ask(c, &u->ask, call->method, call->request, call->patience, call->deadline);
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
        begin_unary(c, (struct lh_master_call *)call);
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
    }
}

static void message(struct lh_client *c, struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l == NULL)
        return;
    /* The server ends a unary link after its reply by itself; nothing more is expected from it. */
    if (!lh_method_info(l->method)->reply_stream)
        forget_link(c, l);
    l->on_message(l->owner, in->message, &in->payload);
}

static void progress(struct lh_client *c, const struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l != NULL && l->on_progress != NULL)
        l->on_progress(l->owner);
}

static void link_closed(struct lh_client *c, const struct lh_input *in)
{
    struct lh_client_link *l = find_link(c, in->link);

    if (l == NULL)
        return;
    forget_link(c, l);
    l->on_closed(l->owner, in->error, in->text);
}

static void fire_timers(struct lh_client *c)
{
    struct lh_timer *t;

    while ((t = lh_timers_pop(&c->timers, c->now)) != NULL) {
        switch ((enum lh_client_timer)t->kind) {
        case LH_TIMER_ASK:
            ask_timer(t->owner);
            break;
        case LH_TIMER_APPENDER:
        case LH_TIMER_GIVE_UP:
            lh_client_appender_timer(t->owner, (enum lh_client_timer)t->kind);
            break;
        case LH_TIMER_STREAM:
            lh_client_stream_timer(t->owner);
            break;
        case LH_TIMER_READ:
        case LH_TIMER_LANE:
        case LH_TIMER_READER:
        case LH_TIMER_FETCH:
            lh_client_reader_timer(t->owner, (enum lh_client_timer)t->kind);
            break;
        case LH_TIMER_SERVER:
            lh_client_server_timer(t->owner);
            break;
        }
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
    while (c->unaries != NULL) {
        struct unary *u = c->unaries;
        lh_client_ask_cancel(&u->ask);
        unary_done(u, LH_ERR_CANCELLED, "the cluster is being closed", NULL);
    }
    lh_client_streams_flush(c);
    lh_fx_stopped(c->fx, LH_OK);
}

void lh_client_step(struct lh_client *c, struct lh_input *in, struct lh_effects *fx)
{
    c->now = in->now;
    c->fx = fx;
    switch (in->kind) {
    case LH_IN_MESSAGE:
        message(c, in);
        break;
    case LH_IN_LINK_CLOSED:
        link_closed(c, in);
        break;
    case LH_IN_CALL:
        begin_call(c, in->call);
        break;
    case LH_IN_STOP:
        stop(c);
        break;
    case LH_IN_PROGRESS:
        progress(c, in);
        break;
    case LH_IN_TIMER:
    case LH_IN_LINK_OPENED: /* nothing is served here, ... */
    case LH_IN_HALF_CLOSED:
    case LH_IN_DISK:        /* ... and nothing stored */
    case LH_IN_PERSISTED:
        break;
    }
    fire_timers(c);
    lh_client_streams_flush(c);
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
    for (size_t i = 0; i < LH_CLIENT_BUCKETS; i++)
        for (const struct lh_client_link *l = c->links[i]; l != NULL; l = l->next)
            LH_ASSERT(l->id != 0 && l->id % LH_CLIENT_BUCKETS == i && l->id <= c->last_link);
    for (const struct unary *u = c->unaries; u != NULL; u = u->next)
        LH_ASSERT(u->ask.active && lh_timer_is_set(&u->ask.timer));
    lh_client_streams_check(c);
    lh_client_appenders_check(c);
    lh_client_readers_check(c);
}
