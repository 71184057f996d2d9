/* LH_CALL_SERVER: one question to one server, without a second try. What a reader does by
 * itself, going from member to member until one answers, would hide the very thing that is asked
 * here: how this one replica is. */
#include "base/alloc.h"
#include "client/core/host/host.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <utlist.h>

/* A LH_CALL_SERVER under way. */
struct lh_client_question {
    struct lh_client_question *prev, *next;
    struct lh_client_host *client;
    struct lh_link link;
    struct lh_timer timer; /* the deadline */
    struct lh_server_call *call;
};

static void end(struct lh_client_question *q, bool complete, int error, const char *text)
{
    struct lh_client_host *c = q->client;

    DL_DELETE(c->questions, q);
    lh_client_link_close(c, &q->link);
    lh_timer_unset(&c->timers, &q->timer);
    if (complete)
        lh_client_complete(c, &q->call->call, error, text);
    free(q);
}

static void answered(void *core, struct lh_link *link, const void *message, struct lh_buf *payload)
{
    struct lh_client_question *q = LH_OWNER(link, struct lh_client_question, link);
    const char *text;
    int error = lh_client_reply_error(message, &text);

    (void)core;
    q->call->reply = lh_client_copy_message(message);
    q->call->payload = lh_buf_take(payload);
    end(q, true, error, text);
}

static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    (void)core;
    end(LH_OWNER(link, struct lh_client_question, link), true,
        error == LH_OK ? LH_ERR_UNAVAILABLE : error, text);
}

static const struct lh_link_user question_links = {.message = answered, .closed = closed};

static void out_of_time(void *core, struct lh_timer *timer)
{
    (void)core;
    end(LH_OWNER(timer, struct lh_client_question, timer), true, LH_ERR_DEADLINE_EXCEEDED,
        "the server did not answer in time");
}

void lh_client_server_ask(struct lh_client_host *c, struct lh_server_call *call)
{
    struct lh_duration left = lh_instant_until(c->now, call->deadline);
    struct lh_client_question *q = lh_alloc(sizeof *q);
    ProtobufCMessage *request = lh_client_copy_message(call->request);

    lh_request_name_cluster(request, lh_client_active_cluster(c));
    call->reply = NULL;
    call->payload = (struct lh_buf){0};
    q->client = c;
    q->call = call;
    DL_APPEND(c->questions, q);
    q->timer.fire = out_of_time;
    q->link.user = &question_links;
    lh_link_open(&c->links, c->fx, &q->link, call->method, call->address, left);
    lh_fx_send(c->fx, q->link.id, request, NULL);
    lh_wire_free(request);
    lh_timer_set(&c->timers, &q->timer, call->deadline);
}

void lh_client_questions_end(struct lh_client_host *c, bool complete)
{
    while (c->questions != NULL)
        end(c->questions, complete, LH_ERR_CANCELLED, "the cluster is being closed");
}
