/* Watches of values (VAL-6): one stream each, at the active master, opened again from where the
 * last one ended; and of locks (NL-6), which begin with a reset each time. What the program has not
 * asked for waits, up to a bound; then the stream is not read. */
#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/names/internal.h"
#include "proto/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct watch_reply {
    struct watch_reply *prev, *next;
    Leasehold__WatchReply *m;
};

struct lh_client_watch {
    struct lh_client_host *client;
    struct lh_client_names *names;
    struct lh_client_watch *prev, *next;
    char *prefix;
    bool locks;
    uint64_t from;  /* every change before was queued; 0, and for locks: a reset comes first */
    bool resetting; /* a reset has begun, and is not whole */
    struct lh_client_waiter waiter;
    struct lh_link link;
    struct lh_timer timer; /* the end of a pause; or its master has been silent for long */
    unsigned failures;
    bool held; /* LH_FX_HOLD */
    struct watch_reply *replies;
    size_t reply_count;
    struct lh_watch_next_call *call;
    struct lh_timer deadline; /* the call's */
    int error;                /* that ended it */
    char text[LH_CALL_TEXT_BYTES];
};

/* ---- The stream. */

static void open_stream(struct lh_client_watch *w)
{
    struct lh_client_host *c = w->client;
    Leasehold__WatchRequest m = LEASEHOLD__WATCH_REQUEST__INIT;

    if (!lh_client_active_ready(c)) {
        lh_client_active_wait(c, &w->waiter);
        return;
    }
    lh_client_active_choose(c, &w->waiter);
    lh_link_open(
        &c->links, c->fx, &w->link, LH_METHOD_WATCH, w->waiter.address, LH_DURATION_FOREVER);
    m.prefix = w->prefix;
    /* Events alone would not make a reset whole that was cut off. */
    m.from = w->resetting ? 0 : w->from;
    m.locks = w->locks;
    m.cluster = lh_client_active_cluster(c);
    w->held = false;
    lh_fx_send(c->fx, w->link.id, &m.base, NULL);
    lh_timer_set(&c->timers, &w->timer, lh_instant_add(c->now, c->config.watch_doubt));
    lh_client_active_attached(c, &w->waiter);
    lh_client_active_asked(c, &w->waiter);
}

static void go_on(struct lh_client_waiter *waiter)
{
    open_stream(LH_OWNER(waiter, struct lh_client_watch, waiter));
}

static void close_stream(struct lh_client_watch *w)
{
    lh_client_active_leave(w->client, &w->waiter);
    lh_client_link_close(w->client, &w->link);
    w->held = false;
    lh_timer_unset(&w->client->timers, &w->timer);
}

static void elsewhere(struct lh_client_waiter *waiter)
{
    struct lh_client_watch *w = LH_OWNER(waiter, struct lh_client_watch, waiter);

    LH_MARK("watch-moves-to-another-master");
    close_stream(w);
    open_stream(w);
}

static void stream_failed(struct lh_client_watch *w, int error, const char *text)
{
    struct lh_client_host *c = w->client;

    w->failures++;
    snprintf(w->text, sizeof w->text, "master %s: %s", w->waiter.address,
        text != NULL && text[0] != '\0' ? text : lh_error_text(error));
    lh_client_active_failed(c, &w->waiter, error);
    close_stream(w);
    bool moved = lh_client_active_moved(c, &w->waiter);
    lh_timer_set(&c->timers, &w->timer,
        lh_instant_add(c->now, lh_client_backoff(c, w->failures + (moved ? 0 : 1))));
}

static void timer_fires(void *core, struct lh_timer *timer)
{
    struct lh_client_watch *w = LH_OWNER(timer, struct lh_client_watch, timer);
    struct lh_client_host *c = core;

    if (w->link.id == 0) {
        open_stream(w);
        return;
    }
    /* No change, or a master that froze: nobody is asked anything on this stream. */
    lh_timer_set(&c->timers, &w->timer, lh_instant_add(c->now, c->config.watch_doubt));
    lh_client_active_doubt(c, &w->waiter);
}

/* ---- Replies. */

static void end_call(struct lh_client_watch *w, int error, const char *text)
{
    struct lh_watch_next_call *call = w->call;

    w->call = NULL;
    lh_timer_unset(&w->client->timers, &w->deadline);
    lh_client_complete(w->client, &call->call, error, text);
}

static void deliver(struct lh_client_watch *w)
{
    struct watch_reply *r = w->replies;

    if (w->call == NULL || (r == NULL && w->error == LH_OK))
        return;
    if (r == NULL) {
        end_call(w, w->error, w->text);
        return;
    }
    DL_DELETE(w->replies, r);
    w->reply_count--;
    w->call->reply = &r->m->base;
    free(r);
    end_call(w, LH_OK, NULL);
    if (w->held && w->reply_count < w->client->config.watch_replies) {
        w->held = false;
        lh_fx_unhold(w->client->fx, w->link.id);
    }
}

/* Those that came already: a stream that was opened again may begin earlier than it was asked
 * to. */
static void drop_old_events(Leasehold__WatchReply *m, uint64_t from)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->n_events; i++)
        if (m->events[i]->revision >= from)
            m->events[kept++] = m->events[i];
        else
            lh_wire_free(&m->events[i]->base);
    m->n_events = kept;
}

static void note_position(struct lh_client_watch *w, const Leasehold__WatchReply *m)
{
    if (w->locks)
        return; /* nothing of them is on record: there is nowhere to go on from */
    if (m->reset)
        w->resetting = true;
    if (w->resetting && m->more)
        return;
    if (w->resetting)
        w->from = 0; /* it begins there, also if that is earlier */
    w->resetting = false;
    if (m->next > w->from)
        w->from = m->next;
    for (size_t i = 0; i < m->n_events; i++)
        if (m->events[i]->revision >= w->from)
            w->from = m->events[i]->revision + 1;
}

static void queue(struct lh_client_watch *w, const Leasehold__WatchReply *m)
{
    struct watch_reply *r = lh_alloc(sizeof *r);

    r->m = (Leasehold__WatchReply *)(void *)lh_client_copy_message(&m->base);
    if (!m->reset && !w->resetting)
        drop_old_events(r->m, w->from);
    note_position(w, r->m);
    if (r->m->n_events == 0 && !r->m->reset && m->n_events > 0) {
        lh_wire_free(&r->m->base);
        free(r);
        return;
    }
    DL_APPEND(w->replies, r);
    if (++w->reply_count >= w->client->config.watch_replies && !w->held) {
        LH_MARK("watch-is-held");
        w->held = true;
        lh_fx_hold(w->client->fx, w->link.id);
    }
    deliver(w);
}

static bool is_final(int error)
{
    return error == LH_ERR_INVALID_ARGUMENT || error == LH_ERR_UNIMPLEMENTED ||
           error == LH_ERR_MALFORMED || error == LH_ERR_PERMISSION;
}

static void end_watch(struct lh_client_watch *w, int error, const char *text)
{
    close_stream(w);
    w->error = error;
    snprintf(w->text, sizeof w->text, "%s",
        text != NULL && text[0] != '\0' ? text : lh_error_text(error));
    deliver(w);
}

static void answered(void *core, struct lh_link *link, const void *message, struct lh_buf *payload)
{
    struct lh_client_watch *w = LH_OWNER(link, struct lh_client_watch, link);
    struct lh_client_host *c = core;
    const Leasehold__WatchReply *m = message;
    const char *text;
    int error = lh_client_reply_error(message, &text);

    (void)payload;
    if (is_final(error)) {
        end_watch(w, error, text);
        return;
    }
    if (error != LH_OK) {
        stream_failed(w, error, text);
        return;
    }
    w->failures = 0;
    lh_client_active_attached(c, &w->waiter);
    lh_timer_set(&c->timers, &w->timer, lh_instant_add(c->now, c->config.watch_doubt));
    queue(w, m);
    lh_client_active_acts(c, &w->waiter, 0);
}

static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    struct lh_client_watch *w = LH_OWNER(link, struct lh_client_watch, link);

    (void)core;
    if (is_final(error))
        end_watch(w, error, text);
    else
        stream_failed(w, error == LH_OK ? LH_ERR_UNAVAILABLE : error, text);
}

static const struct lh_link_user watch_links = {.message = answered, .closed = closed};

/* ---- Calls. */

static void call_late(void *core, struct lh_timer *timer)
{
    struct lh_client_watch *w = LH_OWNER(timer, struct lh_client_watch, deadline);

    (void)core;
    end_call(w, LH_ERR_DEADLINE_EXCEEDED,
        w->link.id == 0 && w->text[0] != '\0' ? w->text : "nothing has changed");
}

void lh_client_watch_open(struct lh_client_names *n, struct lh_watch_open_call *call)
{
    struct lh_client_host *c = n->client;

    call->watch = NULL;
    if (call->prefix == NULL ||
        strnlen(call->prefix, LH_CLIENT_NAME_BYTES_MAX + 1) > LH_CLIENT_NAME_BYTES_MAX) {
        lh_client_complete(
            c, &call->call, LH_ERR_INVALID_ARGUMENT, "a prefix has at most 1024 bytes");
        return;
    }
    if (n->watch_count >= c->config.watches) {
        lh_client_complete(c, &call->call, LH_ERR_NO_MEMORY, "this program has too many watches");
        return;
    }
    struct lh_client_watch *w = lh_alloc(sizeof *w);
    w->client = c;
    w->names = n;
    w->prefix = lh_strdup(call->prefix);
    w->from = call->locks ? 0 : call->from;
    w->locks = call->locks;
    w->link.user = &watch_links;
    w->waiter.go_on = go_on;
    w->waiter.elsewhere = elsewhere;
    w->timer.fire = timer_fires;
    w->deadline.fire = call_late;
    DL_APPEND(n->watches, w);
    n->watch_count++;
    call->watch = w;
    lh_client_complete(c, &call->call, LH_OK, NULL);
    open_stream(w);
}

void lh_client_watch_next(struct lh_watch_next_call *call)
{
    struct lh_client_watch *w = call->watch;
    struct lh_client_host *c = w->client;

    call->reply = NULL;
    if (w->call != NULL) {
        lh_client_complete(c, &call->call, LH_ERR_INVALID_ARGUMENT,
            "the watch's next change is waited for already");
        return;
    }
    w->call = call;
    lh_timer_set(&c->timers, &w->deadline, call->deadline);
    deliver(w);
}

static void free_watch(struct lh_client_watch *w)
{
    struct lh_client_host *c = w->client;
    struct watch_reply *r, *after;

    close_stream(w);
    lh_client_active_forget(c, &w->waiter);
    lh_timer_unset(&c->timers, &w->deadline);
    DL_FOREACH_SAFE(w->replies, r, after) {
        lh_wire_free(&r->m->base);
        free(r);
    }
    DL_DELETE(w->names->watches, w);
    w->names->watch_count--;
    free(w->prefix);
    free(w);
}

void lh_client_watch_close(struct lh_watch_close_call *call)
{
    struct lh_client_watch *w = call->watch;
    struct lh_client_host *c = w->client;

    if (w->call != NULL)
        end_call(w, LH_ERR_CANCELLED, "the watch is being closed");
    free_watch(w);
    lh_client_complete(c, &call->call, LH_OK, NULL);
}

void lh_client_watches_end(struct lh_client_names *n, bool complete)
{
    while (n->watches != NULL) {
        if (complete && n->watches->call != NULL)
            end_call(n->watches, LH_ERR_CANCELLED, "the cluster is being closed");
        free_watch(n->watches);
    }
}

void lh_client_watches_check(const struct lh_client_names *n)
{
    const struct lh_client_watch *w;
    size_t count = 0;

    DL_FOREACH(n->watches, w) {
        LH_ASSERT(w->error != LH_OK || w->waiter.list == &n->client->active.waiting ||
                  lh_timer_is_set(&w->timer));
        LH_ASSERT(w->reply_count == 0 || w->call == NULL);
        LH_ASSERT(!w->held || w->link.id != 0);
        LH_ASSERT(
            w->call == NULL || lh_timer_is_set(&w->deadline) || w->call->deadline.ns == UINT64_MAX);
        count++;
    }
    LH_ASSERT(count == n->watch_count);
}
