/* What a program hears of its session: one event at a time, in order. What the program has not
 * asked for waits; there are at most a few for each lock. */
#include "base/alloc.h"
#include "client/core/session/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

struct lh_client_event {
    struct lh_client_event *prev, *next;
    enum lh_client_event_kind kind;
    uint64_t lock, waiting;
    char *text;
};

static void drop(struct lh_client_session *s, struct lh_client_event *e)
{
    DL_DELETE(s->events, e);
    free(e->text);
    free(e);
}

static void deliver(struct lh_client_session *s)
{
    struct lh_session_event_call *call = s->event_call;
    struct lh_client_event *e = s->events;

    if (call == NULL || e == NULL)
        return;
    s->event_call = NULL;
    call->event = e->kind;
    call->lock = e->lock;
    call->waiting = e->waiting;
    snprintf(call->call.text, sizeof call->call.text, "%s", e->text);
    drop(s, e);
    lh_client_complete(s->client, &call->call, LH_OK, NULL);
}

static bool is_of_state(const struct lh_client_event *e)
{
    return e->kind == LH_CLIENT_SUSPENDED || e->kind == LH_CLIENT_RESUMED ||
           e->kind == LH_CLIENT_EXPIRED;
}

/* What the program has not heard of, and need not hear of any more: how the session stood before it
 * ran out. So there are at most three of these, however often it runs out. */
static void overtake(struct lh_client_session *s)
{
    struct lh_client_event *e, *after;

    DL_FOREACH_SAFE(s->events, e, after)
        if (is_of_state(e))
            drop(s, e);
}

/* The program has not heard that it was suspended, so it need not hear of both. What it has not
 * heard of an earlier end of the term stays. */
static bool cancels_out(struct lh_client_session *s, enum lh_client_event_kind kind)
{
    struct lh_client_event *e;

    if (kind != LH_CLIENT_RESUMED)
        return false;
    DL_FOREACH(s->events, e)
        if (e->kind == LH_CLIENT_SUSPENDED) {
            drop(s, e);
            return true;
        }
    return false;
}

static struct lh_client_event *find(
    const struct lh_client_session *s, enum lh_client_event_kind kind, uint64_t lock)
{
    struct lh_client_event *e;

    DL_FOREACH(s->events, e)
        if (e->kind == kind && e->lock == lock)
            return e;
    return NULL;
}

void lh_client_event_add(struct lh_client_session *s, enum lh_client_event_kind kind, uint64_t lock,
    uint64_t waiting, const char *text)
{
    struct lh_client_event *e;

    if (cancels_out(s, kind))
        return;
    if (kind == LH_CLIENT_EXPIRED)
        overtake(s);
    e = kind == LH_CLIENT_RECALLED ? find(s, kind, lock) : NULL;
    if (e != NULL) {
        e->waiting = waiting;
        return;
    }
    e = lh_alloc(sizeof *e);
    e->kind = kind;
    e->lock = lock;
    e->waiting = waiting;
    e->text = lh_strdup(text == NULL ? "" : text);
    DL_APPEND(s->events, e);
    deliver(s);
}

void lh_client_event_fetch(struct lh_session_event_call *call)
{
    struct lh_client_session *s = call->session;

    lh_client_session_expires(s);
    if (s->event_call != NULL || s->closing != NULL) {
        lh_client_complete(s->client, &call->call,
            s->closing != NULL ? LH_ERR_CLOSED : LH_ERR_INVALID_ARGUMENT,
            s->closing != NULL ? "the session is being closed" : "events are waited for already");
        return;
    }
    s->event_call = call;
    deliver(s);
}

void lh_client_events_drop(struct lh_client_session *s, uint64_t lock)
{
    struct lh_client_event *e, *after;

    DL_FOREACH_SAFE(s->events, e, after)
        if (e->lock == lock)
            drop(s, e);
}

void lh_client_events_deinit(struct lh_client_session *s)
{
    while (s->events != NULL)
        drop(s, s->events);
}
