/* Asking the masters: one after the other, until one answers or the deadline comes. */
#include "client/core/ask.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/reply.h"
#include "client/core/state.h"
#include "proto/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void try_over(void *core, struct lh_timer *timer)
{
    struct lh_client_ask *ask = LH_OWNER(timer, struct lh_client_ask, timer);
    struct lh_client *c = core;

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
    ask->timer.fire = try_over;
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

/* A LH_CALL_MASTER under way. */
struct lh_client_unary {
    struct lh_client_unary *next;
    struct lh_master_call *call;
    struct lh_client_ask ask;
};

static void unary_done(void *owner, int error, const char *text, const void *reply)
{
    struct lh_client_unary *u = owner;
    struct lh_client *c = u->ask.client;
    struct lh_client_unary **at = &c->unaries;

    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
    u->call->reply = reply == NULL ? NULL : lh_client_copy_message(reply);
    lh_client_complete(c, &u->call->call, error, text);
    free(u);
}

void lh_client_master_ask(struct lh_client *c, struct lh_master_call *call)
{
    struct lh_client_unary *u = lh_alloc(sizeof *u);

    u->call = call;
    call->reply = NULL;
    u->next = c->unaries;
    c->unaries = u;
    u->ask.owner = u;
    u->ask.done = unary_done;
    lh_client_ask(c, &u->ask, call->method, call->request, call->patience, call->deadline);
}

void lh_client_masters_end(struct lh_client *c, bool complete)
{
    while (c->unaries != NULL) {
        struct lh_client_unary *u = c->unaries;

        lh_client_ask_cancel(&u->ask);
        if (complete) {
            unary_done(u, LH_ERR_CANCELLED, "the cluster is being closed", NULL);
        } else {
            c->unaries = u->next;
            free(u);
        }
    }
}

void lh_client_masters_check(const struct lh_client *c)
{
    for (const struct lh_client_unary *u = c->unaries; u != NULL; u = u->next)
        LH_ASSERT(u->ask.active && lh_timer_is_set(&u->ask.timer));
}
