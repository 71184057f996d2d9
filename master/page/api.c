/* Calls of the master as JSON. */
#include "master/page/internal.h"

#include "base/alloc.h"
#include "proto/codec.h"
#include "runtime/loop.h"
#include "runtime/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_SECONDS 5

/* Only what changes nothing, and shows no bytes of values. */
static const struct {
    const char *path;
    enum lh_method method;
} calls[] = {
    {"/api/masters", LH_METHOD_MASTERS},
    {"/api/servers", LH_METHOD_LIST_SERVERS},
    {"/api/files", LH_METHOD_LIST},
    {"/api/file", LH_METHOD_STAT},
    {"/api/locate", LH_METHOD_LOCATE},
    {"/api/chunks", LH_METHOD_LIST_CHUNKS},
    {"/api/leases", LH_METHOD_LIST_LEASES},
    {"/api/explain", LH_METHOD_EXPLAIN},
    {"/api/events", LH_METHOD_LIST_EVENTS},
    {"/api/names", LH_METHOD_LIST_NAMES},
    {"/api/sessions", LH_METHOD_LIST_SESSIONS},
    {"/api/policies", LH_METHOD_LIST_POLICIES},
};

static enum lh_method method_at(const char *path)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].path, path) == 0)
            return calls[i].method;
    return LH_METHOD_NONE;
}

bool lh_page_is_call(const char *path)
{
    return method_at(path) != LH_METHOD_NONE;
}

void lh_page_ask_free(struct lh_ask *ask)
{
    LIST_REMOVE(ask, link);
    lh_buf_clear(&ask->question.reply);
    protobuf_c_message_free_unpacked(ask->request, NULL);
    free(ask);
}

/* A listing without a bound gets ours. False: the caller asks for more than that. */
static bool bound(ProtobufCMessage *request)
{
    const ProtobufCFieldDescriptor *limit =
        protobuf_c_message_descriptor_get_field_by_name(request->descriptor, "limit");

    if (limit == NULL)
        return true;
    uint32_t *at = (uint32_t *)((char *)request + limit->offset);
    if (*at == 0)
        *at = 100;
    return *at <= LH_PAGE_ITEMS_MAX;
}

/* NULL: `why` says what is wrong. */
static ProtobufCMessage *request_of(
    const struct lh_uri *uri, enum lh_method method, char *why, size_t why_size)
{
    const ProtobufCMessageDescriptor *type = lh_method_info(method)->request;
    ProtobufCMessage *request = lh_alloc(type->sizeof_message);
    bool good = true;

    protobuf_c_message_init(type, request);
    for (size_t i = 0; i < uri->count && good; i++)
        good =
            lh_json_set(request, uri->parameters[i].name, uri->parameters[i].value, why, why_size);
    if (good && !bound(request)) {
        (void)snprintf(why, why_size, "limit is at most %u here", LH_PAGE_ITEMS_MAX);
        good = false;
    }
    if (good)
        return request;
    protobuf_c_message_free_unpacked(request, NULL);
    return NULL;
}

static unsigned status_of(int error)
{
    switch (error) {
    case LH_OK:
        return MHD_HTTP_OK;
    case LH_ERR_INVALID_ARGUMENT:
        return MHD_HTTP_BAD_REQUEST;
    case LH_ERR_PERMISSION:
        return MHD_HTTP_FORBIDDEN;
    case LH_ERR_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case LH_ERR_DEADLINE_EXCEEDED:
        return MHD_HTTP_GATEWAY_TIMEOUT;
    default:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    }
}

static int error_in(const ProtobufCMessage *reply)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(reply->descriptor, "error");

    return field == NULL
               ? LH_OK
               : lh_error_from_wire(*(const unsigned *)((const char *)reply + field->offset));
}

static ProtobufCMessage *reply_of(const struct lh_question *q)
{
    uint8_t *bytes = lh_alloc(q->reply.size + 1);
    ProtobufCMessage *reply = NULL;

    if (lh_buf_read(&q->reply, 0, bytes, q->reply.size))
        reply =
            protobuf_c_message_unpack(lh_method_info(q->method)->reply, NULL, q->reply.size, bytes);
    free(bytes);
    return reply;
}

static enum MHD_Result respond_with(struct lh_visit *v, const ProtobufCMessage *reply)
{
    struct lh_json json = {0};

    lh_json_message(&json, reply);
    lh_json_raw(&json, "\n");
    struct MHD_Response *response =
        MHD_create_response_from_buffer(json.size, json.bytes, MHD_RESPMEM_MUST_FREE);
    if (response == NULL)
        lh_json_deinit(&json);
    return lh_page_respond(v, status_of(error_in(reply)), "application/json", "no-store", response);
}

static enum MHD_Result answered(struct lh_visit *v)
{
    const struct lh_ask *ask = v->ask;

    if (ask == NULL)
        return lh_page_refuse(
            v, MHD_HTTP_SERVICE_UNAVAILABLE, LH_ERR_SHUTTING_DOWN, "this master is being stopped");
    if (ask->error != LH_OK)
        return lh_page_refuse(v, status_of(ask->error), ask->error,
            ask->question.text[0] != '\0' ? ask->question.text : lh_error_text(ask->error));
    ProtobufCMessage *reply = reply_of(&ask->question);
    if (reply == NULL)
        return lh_page_refuse(
            v, MHD_HTTP_SERVICE_UNAVAILABLE, LH_ERR_MALFORMED, lh_error_text(LH_ERR_MALFORMED));
    enum MHD_Result result = respond_with(v, reply);
    protobuf_c_message_free_unpacked(reply, NULL);
    return result;
}

/* The connection waits from here on, until the answer is there. False: there are too many. */
static bool ask(struct lh_visit *v, enum lh_method method, ProtobufCMessage *request,
    const char identity[LH_LINK_IDENTITY_MAX + 1])
{
    struct lh_page *page = v->page;
    struct lh_ask *ask = lh_alloc(sizeof *ask);

    memcpy(ask->identity, identity, sizeof ask->identity);
    ask->question.identity = ask->identity;
    ask->question.method = method;
    ask->question.request = request;
    ask->question.timeout = lh_seconds(TIMEOUT_SECONDS);
    ask->request = request;
    ask->visit = v;
    pthread_mutex_lock(&page->lock);
    bool take = !page->stopping && page->ask_count < LH_PAGE_QUESTIONS_MAX;
    LIST_INSERT_HEAD(&page->asks, ask, link);
    if (take) {
        page->ask_count++;
        v->ask = ask;
        v->state = LH_VISIT_ASKED;
        MHD_suspend_connection(v->connection);
    } else {
        lh_page_ask_free(ask);
    }
    pthread_mutex_unlock(&page->lock);
    if (take && !lh_loop_call(page->config.loop, &ask->question))
        lh_page_completed(page, &ask->question, LH_ERR_SHUTTING_DOWN);
    return take;
}

void lh_page_completed(struct lh_page *page, struct lh_question *question, int error)
{
    struct lh_ask *ask = LH_OWNER(question, struct lh_ask, question);

    pthread_mutex_lock(&page->lock);
    page->ask_count--;
    ask->error = error;
    if (ask->visit == NULL) {
        lh_page_ask_free(ask);
    } else {
        ask->visit->state = LH_VISIT_ANSWERED;
        MHD_resume_connection(ask->visit->connection);
    }
    pthread_mutex_unlock(&page->lock);
}

enum MHD_Result lh_page_call(struct lh_visit *v)
{
    enum lh_method method = method_at(v->uri.path);
    char why[256], identity[LH_LINK_IDENTITY_MAX + 1] = "";

    pthread_mutex_lock(&v->page->lock);
    enum lh_visit_state state = v->state;
    pthread_mutex_unlock(&v->page->lock);
    if (state == LH_VISIT_ANSWERED)
        return answered(v);
    if (state == LH_VISIT_ASKED)
        return MHD_YES;
    if (!lh_observe_identity(v->page->config.tls, v->connection, identity))
        return lh_page_refuse(v, MHD_HTTP_FORBIDDEN, LH_ERR_PERMISSION, identity);
    ProtobufCMessage *request = request_of(&v->uri, method, why, sizeof why);
    if (request == NULL)
        return lh_page_refuse(v, MHD_HTTP_BAD_REQUEST, LH_ERR_INVALID_ARGUMENT, why);
    if (ask(v, method, request, identity))
        return MHD_YES;
    return lh_page_refuse(v, MHD_HTTP_SERVICE_UNAVAILABLE, LH_ERR_SHORTAGE,
        "too many calls of the page are in flight");
}
