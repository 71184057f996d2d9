/* Asking the masters: the active one, until it answers or the deadline comes. */
#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/host/internal.h"
#include "proto/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct lh_duration lh_client_backoff(struct lh_client_host *c, unsigned failures)
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

/* ---- Calls that happen once (HA-12). */

/* Does the request change something that others may have changed again when a repeat comes? */
static bool changes(enum lh_method method, const ProtobufCMessage *request)
{
    switch (method) {
    case LH_METHOD_CREATE:
    case LH_METHOD_RENAME:
    case LH_METHOD_REMOVE:
    case LH_METHOD_RESTORE:
    case LH_METHOD_SET_SERVER:
    case LH_METHOD_CHANGE:
    case LH_METHOD_SET_POLICY:
        return true;
    case LH_METHOD_GARBAGE:
        return ((const Leasehold__GarbageRequest *)request)->resume;
    default:
        return false;
    }
}

static void *field(ProtobufCMessage *m, const char *name)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);

    return f == NULL ? NULL : (char *)m + f->offset;
}

/* The request is changed before it goes: a copy of its struct, which shares all else. */
static ProtobufCMessage *copy_request(const ProtobufCMessage *request)
{
    size_t size = request->descriptor->sizeof_message;
    ProtobufCMessage *copy = lh_alloc(size);

    memcpy(copy, request, size);
    return copy;
}

/* It goes out with an id. */
static void give_id(struct lh_client_ask *ask)
{
    struct lh_client_host *c = ask->client;
    const Leasehold__CallId *id = &ask->id;

    leasehold__call_id__init(&ask->id);
    ask->id.client = c->call_client;
    ask->id.number = ++c->last_call;
    memcpy(field(ask->request, "call"), &id, sizeof id);
}

/* A master that waits says what it has waited for before nobody listens any more: each try tells it
 * how long that is, and the last one has less time than the first. */
static void shorten_wait(struct lh_client_ask *ask, struct lh_duration left)
{
    struct lh_duration most = lh_nanoseconds(left.ns - left.ns / 8);

    if (ask->own_wait == NULL || ask->wait_ms == 0)
        return;
    *ask->own_wait = lh_duration_ms(lh_duration_min(lh_milliseconds(ask->wait_ms), most));
    if (*ask->own_wait == 0)
        *ask->own_wait = 1;
}

/* When it ends without an answer. Masters keep answers for twice `repeat_for`: no repeat comes when
 * its call is forgotten. */
static struct lh_instant end_of(const struct lh_client_ask *ask)
{
    return ask->once && ask->unknown ? lh_instant_min(ask->deadline, ask->repeat_until)
                                     : ask->deadline;
}

/* ---- Tries. */

static void leave(struct lh_client_ask *ask)
{
    lh_client_active_forget(ask->client, &ask->waiter);
    lh_timer_unset(&ask->client->timers, &ask->timer);
    free(ask->request);
    ask->request = NULL;
    ask->active = false;
}

static void end_ask(struct lh_client_ask *ask, int error, const char *text, const void *reply)
{
    leave(ask);
    ask->done(ask->owner, error, text, reply);
}

/* Nobody answered in time. */
static void expire_ask(struct lh_client_ask *ask)
{
    bool unknown = ask->once && (ask->unknown || ask->link.id != 0);
    bool waits = ask->link.id != 0;
    const char *refused = ask->client->active.refused;
    const char *remark = unknown ? " (this call may have been carried out)" : "";
    int error = unknown ? LH_ERR_UNAVAILABLE : ask->reason;
    char text[LH_CALL_TEXT_BYTES];

    lh_client_link_close(ask->client, &ask->link);
    if (refused != NULL) {
        error = unknown ? LH_ERR_UNAVAILABLE : LH_ERR_PERMISSION;
        snprintf(text, sizeof text, "%.400s%s", refused, remark);
    } else if (ask->reason != LH_OK && waits) {
        snprintf(text, sizeof text, "master %s has not answered yet; before that, %.300s%s",
            ask->waiter.address, ask->text, remark);
    } else if (ask->reason != LH_OK) {
        snprintf(text, sizeof text, "%.400s%s", ask->text, remark);
    } else if (ask->waiter.address == NULL) {
        char trouble[LH_FINDER_TEXT_MAX];
        bool has = lh_finder_trouble(&ask->client->active.finder, trouble);
        error = LH_ERR_DEADLINE_EXCEEDED;
        snprintf(text, sizeof text, "no master says that it is the active one%s%.440s",
            has ? "; " : "", has ? trouble : "");
    } else {
        error = LH_ERR_DEADLINE_EXCEEDED;
        snprintf(
            text, sizeof text, "master %s did not answer in time%s", ask->waiter.address, remark);
    }
    end_ask(ask, error, text, NULL);
}

/* A try ends in time. Before that its master is doubted, now and then: one that froze, or lost its
 * power, closes no connection. */
static void set_timer(struct lh_client_ask *ask)
{
    struct lh_client_host *c = ask->client;

    lh_timer_set(&c->timers, &ask->timer,
        lh_instant_min(ask->try_end, lh_instant_add(c->now, ask->silence)));
}

static void doubt(struct lh_client_ask *ask)
{
    LH_MARK("master-is-doubted");
    /* Many may wait, as they asked to, for one primary. */
    if (ask->patience.ns > 0)
        ask->silence = lh_duration_add(ask->silence, ask->silence);
    set_timer(ask);
    lh_client_active_doubt(ask->client, &ask->waiter);
}

static void try_master(struct lh_client_ask *ask)
{
    struct lh_client_host *c = ask->client;
    struct lh_duration left = lh_instant_until(c->now, end_of(ask));
    struct lh_duration timeout =
        lh_duration_min(left, lh_duration_add(c->config.try_timeout, ask->patience));

    if (left.ns == 0) {
        expire_ask(ask);
        return;
    }
    if (!lh_client_active_ready(c)) {
        lh_timer_set(&c->timers, &ask->timer, end_of(ask));
        lh_client_active_wait(c, &ask->waiter);
        return;
    }
    ask->id.repeated = ask->unknown;
    if (!ask->unknown)
        ask->repeat_until = lh_instant_add(c->now, c->config.repeat_for);
    shorten_wait(ask, left);
    lh_client_active_choose(c, &ask->waiter);
    lh_request_name_cluster(ask->request, lh_client_active_cluster(c));
    lh_link_open(&c->links, c->fx, &ask->link, ask->method, ask->waiter.address, timeout);
    lh_fx_send(c->fx, ask->link.id, ask->request, NULL);
    ask->try_end = lh_instant_add(c->now, timeout);
    ask->silence = c->config.ask_masters_after;
    set_timer(ask);
    lh_client_active_asked(c, &ask->waiter);
}

static void go_on(struct lh_client_waiter *waiter)
{
    try_master(LH_OWNER(waiter, struct lh_client_ask, waiter));
}

static void note_failure(struct lh_client_ask *ask, int error, const char *text)
{
    ask->failures++;
    if (error != LH_ERR_NOT_ACTIVE) /* else it was not carried out */
        ask->unknown = true;
    ask->reason = error == LH_ERR_DEADLINE_EXCEEDED || error == LH_ERR_NOT_ACTIVE
                      ? LH_ERR_UNAVAILABLE
                      : error;
    snprintf(ask->text, sizeof ask->text, "master %s: %s", ask->waiter.address,
        text != NULL && text[0] != '\0' ? text : lh_error_text(error));
}

/* Its master did not help: again after a pause, or at once the first time that another one is to be
 * found. */
static void try_failed(struct lh_client_ask *ask, int error, const char *text)
{
    struct lh_client_host *c = ask->client;

    note_failure(ask, error, text);
    bool moved = lh_client_active_moved(c, &ask->waiter);
    struct lh_duration pause = lh_client_backoff(c, ask->failures + (moved ? 0 : 1));
    lh_timer_set(
        &c->timers, &ask->timer, lh_instant_min(lh_instant_add(c->now, pause), end_of(ask)));
}

/* Its master gave no answer, or does not act. */
static void master_failed(struct lh_client_ask *ask, int error, const char *text)
{
    lh_client_active_failed(ask->client, &ask->waiter, error);
    try_failed(ask, error, text);
}

static void try_over(void *core, struct lh_timer *timer)
{
    struct lh_client_ask *ask = LH_OWNER(timer, struct lh_client_ask, timer);
    struct lh_client_host *c = core;

    if (lh_instant_reached(c->now, end_of(ask))) {
        expire_ask(ask);
    } else if (ask->link.id != 0 && !lh_instant_reached(c->now, ask->try_end)) {
        doubt(ask);
    } else if (ask->link.id != 0) {
        lh_client_active_leave(c, &ask->waiter);
        lh_client_link_close(c, &ask->link);
        master_failed(ask, LH_ERR_UNAVAILABLE, "no answer");
    } else {
        try_master(ask);
    }
}

static void elsewhere(struct lh_client_waiter *waiter)
{
    struct lh_client_ask *ask = LH_OWNER(waiter, struct lh_client_ask, waiter);

    LH_MARK("call-moves-to-another-master");
    lh_client_link_close(ask->client, &ask->link);
    note_failure(ask, LH_ERR_UNAVAILABLE, "no answer");
    try_master(ask);
}

static void ask_answered(
    void *core, struct lh_link *link, const void *message, struct lh_buf *payload)
{
    struct lh_client_ask *ask = LH_OWNER(link, struct lh_client_ask, link);
    const char *text;
    int error = lh_client_reply_error(message, &text);

    (void)core;
    (void)payload;
    lh_client_active_leave(ask->client, &ask->waiter);
    if (error == LH_ERR_SHUTTING_DOWN || error == LH_ERR_STALE_MASTER ||
        error == LH_ERR_NOT_ACTIVE) {
        master_failed(ask, error, text);
        return;
    }
    lh_client_active_answered(ask->client, &ask->waiter, ask->method, message);
    if (error == LH_ERR_UNAVAILABLE) {
        try_failed(ask, error, text); /* it acts, and cannot do this now */
        return;
    }
    end_ask(ask, error, text, message);
}

static void ask_closed(void *core, struct lh_link *link, int error, const char *text)
{
    struct lh_client_ask *ask = LH_OWNER(link, struct lh_client_ask, link);
    /* No error of a repeat says what became of the message before. */
    bool unknown = ask->once && ask->unknown;

    (void)core;
    lh_client_active_leave(ask->client, &ask->waiter);
    if (error == LH_ERR_DEADLINE_EXCEEDED && !lh_instant_before(ask->try_end, end_of(ask))) {
        /* The network noticed it first; no other try follows. */
        lh_timer_set(&ask->client->timers, &ask->timer, end_of(ask));
        ask->unknown = true;
    } else if (!unknown && (error == LH_ERR_UNIMPLEMENTED || error == LH_ERR_MALFORMED ||
                               error == LH_ERR_INVALID_ARGUMENT || error == LH_ERR_PERMISSION)) {
        end_ask(ask, error, text, NULL);
    } else {
        master_failed(ask, error == LH_OK ? LH_ERR_UNAVAILABLE : error, text);
    }
}

static const struct lh_link_user ask_links = {.message = ask_answered, .closed = ask_closed};

void lh_client_ask(struct lh_client_host *c, struct lh_client_ask *ask, enum lh_method method,
    const ProtobufCMessage *request, struct lh_duration patience, struct lh_instant deadline)
{
    LH_ASSERT(!ask->active);
    ask->client = c;
    ask->request = copy_request(request);
    ask->patience = patience;
    ask->deadline = deadline;
    ask->once = changes(method, request);
    bool ends = patience.ns > 0 && deadline.ns != UINT64_MAX;
    ask->own_wait = ask->once || ends ? field(ask->request, "wait_ms") : NULL;
    if (ask->own_wait != NULL)
        ask->wait_ms = *ask->own_wait;
    if (ask->once)
        give_id(ask);
    ask->failures = 0;
    ask->unknown = false;
    ask->reason = LH_OK;
    ask->active = true;
    ask->method = method;
    ask->link.user = &ask_links;
    ask->timer.fire = try_over;
    ask->waiter.go_on = go_on;
    ask->waiter.elsewhere = elsewhere;
    try_master(ask);
}

void lh_client_ask_cancel(struct lh_client_ask *ask)
{
    if (!ask->active)
        return;
    lh_client_link_close(ask->client, &ask->link);
    leave(ask);
}

/* ---- Files that were just created ---- */

static void note_created(struct lh_client_host *c, const char *path)
{
    char **oldest = &c->created[c->created_next++ % LH_CLIENT_CREATED];

    free(*oldest);
    *oldest = lh_strdup(path);
}

bool lh_client_was_created(struct lh_client_host *c, const char *path)
{
    for (unsigned i = 0; i < LH_CLIENT_CREATED; i++)
        if (c->created[i] != NULL && strcmp(c->created[i], path) == 0) {
            free(c->created[i]);
            c->created[i] = NULL;
            return true;
        }
    return false;
}

/* ---- LH_CALL_MASTER ---- */

/* A LH_CALL_MASTER under way. */
struct lh_client_unary {
    struct lh_client_unary *prev, *next;
    struct lh_master_call *call;
    struct lh_client_ask ask;
};

static void unary_done(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_unary *u = owner;
    struct lh_client_host *c = u->ask.client;

    if (u->call->method == LH_METHOD_CREATE && error == LH_OK)
        note_created(c, ((const Leasehold__CreateRequest *)u->call->request)->path);
    DL_DELETE(c->unaries, u);
    u->call->id_client = u->ask.id.client;
    u->call->id_number = u->ask.id.number;
    u->call->reply = reply == NULL ? NULL : lh_client_copy_message(reply);
    lh_client_complete(c, &u->call->call, error, text);
    free(u);
}

void lh_client_master_ask(struct lh_client_host *c, struct lh_master_call *call)
{
    struct lh_client_unary *u = lh_alloc(sizeof *u);

    u->call = call;
    call->reply = NULL;
    DL_APPEND(c->unaries, u);
    u->ask.owner = u;
    u->ask.done = unary_done;
    lh_client_ask(c, &u->ask, call->method, call->request, call->patience, call->deadline);
}

void lh_client_masters_end(struct lh_client_host *c, bool complete)
{
    while (c->unaries != NULL) {
        struct lh_client_unary *u = c->unaries;

        lh_client_ask_cancel(&u->ask);
        if (complete) {
            unary_done(u, LH_ERR_CANCELLED, "the cluster is being closed", NULL);
        } else {
            DL_DELETE(c->unaries, u);
            free(u);
        }
    }
}

void lh_client_masters_deinit(struct lh_client_host *c)
{
    for (unsigned i = 0; i < LH_CLIENT_CREATED; i++)
        free(c->created[i]);
}

void lh_client_masters_check(const struct lh_client_host *c)
{
    for (const struct lh_client_unary *u = c->unaries; u != NULL; u = u->next)
        LH_ASSERT(u->ask.active && lh_timer_is_set(&u->ask.timer) &&
                  (u->ask.waiter.list == NULL || u->ask.waiter.list == &c->active.waiting ||
                      u->ask.link.id != 0));
}
