/* A node's end of all its links: listening, accepting, the threads, and the shutdown. */
#include "admission/address.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "grpc/batches.h"
#include "grpc/channel.h"
#include "grpc/credentials.h"
#include "grpc/handed.h"
#include "grpc/internal.h"
#include "grpc/services.h"
#include "proto/codec.h"
#include "runtime/thread.h"

#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Calls that can arrive before one is taken on: enough that a burst finds a place armed. */
#define ACCEPTORS 16

struct acceptor {
    struct tag tag;
    struct lh_rpc *rpc;
    struct queue *queue; /* for the call's events */
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
};

uint64_t lh_rpc_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void arm(struct acceptor *a)
{
    struct lh_rpc *rpc = a->rpc;
    struct queue *queue = lh_rpc_queue_take(rpc);

    grpc_call_details_init(&a->details);
    grpc_metadata_array_init(&a->metadata);
    a->queue = queue;
    tag_post(&a->tag);
    grpc_call_error e = grpc_server_request_call(rpc->server, &a->call, &a->details, &a->metadata,
        queue->grpc, rpc->queues[0].grpc, &a->tag);
    LH_ASSERT(e == GRPC_CALL_OK);
}

static void serve(struct lh_rpc *rpc, const struct served_call *call, enum lh_method method,
    const char *peer, const char *identity)
{
    const struct lh_method_info *info = lh_method_info(method);
    struct lh_rpc_link *link = lh_rpc_link_serve(
        rpc, call, method, !info->request_stream, !info->reply_stream, &lh_rpc_owner_handler);

    if (identity[0] != 0)
        link->base.identity = link->identity = lh_strdup(identity);
    lh_rpc_link_enter(link);
    lh_rpc_link_await_end(link);
    rpc->config.on_opened(rpc->config.arg, &link->base, method, peer);
    lh_rpc_link_leave(link);
}

/* The status goes out with the stream's end, and the call is gone: with batches of its own each
 * would keep some ten KiB until its events have been waited for, one after the other, and a flood
 * of them left most of a GiB. */
static void refuse(struct lh_rpc *rpc, const struct served_call *call, int error, const char *text)
{
    char message[512];

    (void)snprintf(message, sizeof message, "%s: %s", lh_error_name(error), text);
    (void)grpc_call_cancel_with_status(
        call->grpc, (grpc_status_code)lh_error_grpc(error), message, NULL);
    grpc_call_unref(call->grpc);
    lh_rpc_call_ended(rpc, call->connection, call->events);
}

/* Why no further call of `method` is taken on; NULL: it is. */
static const char *too_much(const struct lh_rpc *rpc, enum lh_method method)
{
    const struct lh_transport_config *c = &rpc->config;

    if (c->calls_max != 0 && atomic_load(&rpc->served) >= c->calls_max)
        return "too many calls are open here: try again in a moment";
    if (c->unsent_max == 0 || method == LH_METHOD_NONE || atomic_load(&rpc->unsent) < c->unsent_max)
        return NULL;
    const struct lh_method_info *info = lh_method_info(method);
    return info->reply_stream || info->reply_payload != 0
               ? NULL
               : "too many replies are not being taken: try again in a moment";
}

/* Likewise, for what its peer has already. */
static const char *too_much_of_peer(
    const struct lh_rpc *rpc, const struct lh_connection *connection, enum lh_method method)
{
    const struct lh_transport_config *c = &rpc->config;

    if (c->peer_calls_max != 0 && lh_connections_peer_calls(connection) > c->peer_calls_max)
        return "too many calls are open here from one address: end some, or have the server's "
               "--max-peer-calls raised";
    if (c->peer_unsent_max != 0 && method != LH_METHOD_NONE &&
        lh_connections_peer_unsent(connection) >= c->peer_unsent_max)
        return "too many replies are not being taken by one address: take them, or have the "
               "server's --peer-reply-memory raised";
    return NULL;
}

void lh_rpc_call_ended(struct lh_rpc *rpc, struct lh_connection *connection, struct queue *events)
{
    lh_connections_call_ended(connection);
    lh_rpc_queue_leave(rpc, events);
}

static void take_on(struct lh_rpc *rpc, struct served_call *call, const char *path, size_t size)
{
    enum lh_method method = lh_method_by_path(path, size);
    char *peer = grpc_call_get_peer(call->grpc);
    char identity[LH_LINK_IDENTITY_MAX + 1];
    bool cut;
    call->connection = lh_connections_call(peer, &cut);
    const char *of_peer = cut ? NULL : too_much_of_peer(rpc, call->connection, method);
    const char *why = cut || of_peer != NULL ? of_peer : too_much(rpc, method);

    if (cut) { /* what of it had arrived before; nobody hears an answer */
        grpc_call_unref(call->grpc);
        lh_rpc_call_ended(rpc, call->connection, call->events);
    } else if (why != NULL) {
        atomic_fetch_add_explicit(&rpc->calls_refused, 1, memory_order_relaxed);
        if (of_peer != NULL) {
            atomic_fetch_add_explicit(&rpc->peer_calls_refused, 1, memory_order_relaxed);
            lh_connections_refused_call(call->connection, "calls are refused");
        }
        refuse(rpc, call, LH_ERR_SHORTAGE, why);
    } else if (!lh_rpc_identity(rpc, call->grpc, identity)) {
        refuse(rpc, call, LH_ERR_PERMISSION, identity);
    } else if (method != LH_METHOD_NONE) {
        serve(rpc, call, method, peer, identity);
    } else if (!lh_rpc_health_serve(rpc, call, path, size) &&
               !lh_rpc_reflection_serve(rpc, call, path, size)) {
        refuse(rpc, call, LH_ERR_UNIMPLEMENTED, "no such method");
    }
    gpr_free(peer);
}

static void accepting(struct lh_rpc *rpc, int change)
{
    pthread_mutex_lock(&rpc->lock);
    rpc->accepting += (unsigned)change;
    if (rpc->accepting == 0)
        pthread_cond_broadcast(&rpc->changed);
    pthread_mutex_unlock(&rpc->lock);
}

static void accepted(struct tag *tag, bool success)
{
    struct acceptor *a = (struct acceptor *)tag;
    struct lh_rpc *rpc = a->rpc;

    if (!success) { /* the server is shutting down */
        grpc_call_details_destroy(&a->details);
        grpc_metadata_array_destroy(&a->metadata);
        accepting(rpc, -1);
        return;
    }
    accepting(rpc, 1); /* this call; the acceptor may be over before it is taken on */
    struct served_call call = {.grpc = a->call, .events = a->queue};
    grpc_call_details details = a->details;
    grpc_metadata_array_destroy(&a->metadata);
    arm(a);

    take_on(rpc, &call, (const char *)GRPC_SLICE_START_PTR(details.method),
        GRPC_SLICE_LENGTH(details.method));
    grpc_call_details_destroy(&details);
    accepting(rpc, -1);
}

static void server_down(struct tag *tag, bool success)
{
    struct lh_rpc *rpc = (struct lh_rpc *)((char *)tag - offsetof(struct lh_rpc, server_down_tag));

    (void)success;
    pthread_mutex_lock(&rpc->lock);
    rpc->server_down = true;
    pthread_cond_broadcast(&rpc->changed);
    pthread_mutex_unlock(&rpc->lock);
}

/* Whoever calls finds out by itself that a server is gone, and a server waits for nobody: it only
 * gives back what a peer that is gone had. A ping costs about what a heartbeat does, and each of
 * thousands of peers is silent for longer than a client waits. */
#define PEER_KEEPALIVE_MS 20000

static int listen_on(struct lh_rpc *rpc, const char *address, char *why, size_t why_size)
{
    grpc_arg args[RPC_ARGS_MAX];
    int error = rpc->config.handed ? LH_OK : lh_listen_check(address, why, why_size);

    if (error != LH_OK)
        return error;
    size_t largest = rpc->config.served_message_max;
    size_t n = lh_rpc_common_args(rpc, largest != 0 ? largest : LH_MESSAGE_BYTES_MAX, args);
    args[n++] = lh_rpc_int_arg(GRPC_ARG_ALLOW_REUSEPORT, 0);
    args[n++] = lh_rpc_int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, PEER_KEEPALIVE_MS);
    args[n++] = lh_rpc_int_arg("grpc.http2.min_ping_interval_without_data_ms", 100);
    args[n++] = lh_rpc_int_arg(
        GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, lh_rpc_milliseconds(rpc->config.handshake_timeout));
    if (rpc->config.idle_timeout.ns != 0)
        args[n++] = lh_rpc_int_arg(
            GRPC_ARG_MAX_CONNECTION_IDLE_MS, lh_rpc_milliseconds(rpc->config.idle_timeout));
    if (rpc->config.calls_max != 0)
        args[n++] =
            lh_rpc_int_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, (int)((rpc->config.calls_max + 3) / 4));
    grpc_resource_quota *quota = NULL;
    if (rpc->config.memory_max != 0) {
        quota = grpc_resource_quota_create("served");
        grpc_resource_quota_resize(quota, rpc->config.memory_max);
        args[n++] = (grpc_arg){.type = GRPC_ARG_POINTER,
            .key = (char *)(uintptr_t)GRPC_ARG_RESOURCE_QUOTA,
            .value.pointer = {quota, grpc_resource_quota_arg_vtable()}};
    }
    if (rpc->config.handed)
        args[n++] = lh_rpc_handed_arg(rpc);
    grpc_channel_args all = {.num_args = n, .args = args};
    rpc->server = grpc_server_create(&all, NULL);
    if (quota != NULL)
        grpc_resource_quota_unref(quota);
    grpc_server_register_completion_queue(rpc->server, rpc->queues[0].grpc, NULL);
    grpc_server_credentials *credentials = lh_rpc_server_credentials(rpc);
    int port = grpc_server_add_http2_port(
        rpc->server, rpc->config.handed ? LH_RPC_HANDED : address, credentials);
    grpc_server_credentials_release(credentials);
    if (rpc->config.handed)
        return lh_rpc_may_be_handed(rpc) ? LH_OK
                                         : lh_why(LH_ERR_UNIMPLEMENTED, why, why_size,
                                               "this gRPC does not take accepted connections");
    if (port == 0)
        return lh_listen_explain(address, why, why_size);
    rpc->port = strncmp(address, "unix:", 5) == 0 ? 0 : port;
    return LH_OK;
}

static void owner_message(struct lh_rpc_link *link, struct lh_buf bytes)
{
    link->rpc->config.on_message(link->rpc->config.arg, &link->base, bytes);
}

static void owner_closed(struct lh_rpc_link *link, int error, const char *text)
{
    link->rpc->config.on_closed(link->rpc->config.arg, &link->base, error, text);
}

static void owner_sent(struct lh_rpc_link *link)
{
    link->rpc->config.on_sent(link->rpc->config.arg, &link->base);
}

static void owner_released(struct lh_rpc_link *link)
{
    if (link->rpc->config.on_released != NULL)
        link->rpc->config.on_released(link->rpc->config.arg, &link->base);
}

static void owner_half_closed(struct lh_rpc_link *link)
{
    if (link->rpc->config.on_half_closed != NULL)
        link->rpc->config.on_half_closed(link->rpc->config.arg, &link->base);
}

const struct link_handler lh_rpc_owner_handler = {
    .message = owner_message,
    .half_closed = owner_half_closed,
    .sent = owner_sent,
    .closed = owner_closed,
    .released = owner_released,
};

void lh_rpc_unref(struct lh_rpc *rpc)
{
    if (atomic_fetch_sub_explicit(&rpc->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_cond_destroy(&rpc->changed);
    pthread_mutex_destroy(&rpc->lock);
    pthread_mutex_destroy(&rpc->health_lock);
    pthread_rwlock_destroy(&rpc->answers_lock);
    pthread_rwlock_destroy(&rpc->handing_lock);
    lh_tls_unref(rpc->tls);
    lh_tls_unref(rpc->foreign_tls);
    free(rpc);
}

static int open_tls(
    struct lh_rpc *rpc, const struct lh_transport_config *config, char *why, size_t why_size)
{
    enum lh_tls_use use = config->listen != NULL || config->handed ? LH_TLS_SERVES : LH_TLS_CALLS;
    int error = LH_OK;

    LH_ASSERT(config->may_answer != NULL ||
              (!lh_tls_is_wanted(&config->tls) && !lh_tls_is_wanted(&config->foreign_tls)));
    if (config->shared_tls != NULL)
        rpc->tls = lh_tls_ref(config->shared_tls);
    else if (lh_tls_is_wanted(&config->tls))
        error = lh_tls_open(&config->tls, use, config->log, &rpc->tls, why, why_size);
    if (error == LH_OK && lh_tls_is_wanted(&config->foreign_tls))
        error = lh_tls_open(
            &config->foreign_tls, LH_TLS_FOREIGN, config->log, &rpc->foreign_tls, why, why_size);
    return error;
}

int lh_rpc_create(
    const struct lh_transport_config *config, struct lh_rpc **out, char *why, size_t why_size)
{
    int error = lh_rpc_queues_probe(config->threads, why, why_size);

    if (error != LH_OK)
        return error;
    struct lh_rpc *rpc = lh_alloc(sizeof *rpc);
    atomic_init(&rpc->references, 1);
    rpc->config = lh_transport_defaults(config);
    rpc->config.listen = NULL;
    rpc->config.tls = rpc->config.foreign_tls = (struct lh_tls_files){0};
    if (config->queue_calls == 0)
        rpc->config.queue_calls = QUEUE_CALLS;
    rpc->server_down_tag.done = server_down;
    pthread_mutex_init(&rpc->lock, NULL);
    pthread_mutex_init(&rpc->health_lock, NULL);
    pthread_rwlock_init(&rpc->answers_lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&rpc->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);

    /* gRPC's own lines go to nobody unless somebody who debugs it asks for them: what they say that
     * matters is also in a status, but for handshakes of a server's, and for what ends it. */
    if (getenv("GRPC_VERBOSITY") == NULL)
        gpr_set_log_function(lh_rpc_hear_grpc);
    grpc_init();
    bool serves = config->listen != NULL || config->handed;
    pthread_rwlock_init(&rpc->handing_lock, NULL);
    error = lh_rpc_queues_create(rpc, serves, why, why_size);
    if (error == LH_OK)
        error = open_tls(rpc, config, why, why_size);
    if (error == LH_OK && serves)
        error = listen_on(rpc, config->listen, why, why_size);
    if (error != LH_OK) {
        lh_rpc_destroy(rpc);
        return error;
    }
    *out = rpc;
    return LH_OK;
}

static void start_server(struct lh_rpc *rpc)
{
    rpc->started = true;
    if (rpc->server != NULL)
        grpc_server_start(rpc->server);
}

void lh_rpc_start(struct lh_rpc *rpc)
{
    LH_ASSERT(!rpc->started);
    start_server(rpc);
    if (rpc->server == NULL)
        return;
    rpc->acceptors = lh_alloc_array(ACCEPTORS, sizeof *rpc->acceptors);
    for (int i = 0; i < ACCEPTORS; i++) {
        struct acceptor *a = &rpc->acceptors[i];
        a->tag.done = accepted;
        a->rpc = rpc;
        accepting(rpc, 1);
        arm(a);
    }
}

uint64_t lh_rpc_unsent(const struct lh_rpc *rpc)
{
    return atomic_load_explicit(&rpc->unsent, memory_order_relaxed);
}

void lh_rpc_figures(const struct lh_rpc *rpc, struct lh_transport_figures *figures)
{
    *figures = (struct lh_transport_figures){
        .calls = atomic_load(&rpc->served),
        .unsent = atomic_load(&rpc->unsent),
        .calls_refused = atomic_load(&rpc->calls_refused),
        .peer_calls_refused = atomic_load(&rpc->peer_calls_refused),
        .replies_dropped = atomic_load(&rpc->replies_dropped),
        .requests_dropped = atomic_load(&rpc->requests_dropped),
    };
    lh_tls_figures(rpc->tls, &figures->tls);
    lh_tls_figures(rpc->foreign_tls, &figures->tls);
}

/* Cuts all opened links. With the lock held. */
static void cancel_links(struct lh_rpc *rpc)
{
    for (struct lh_rpc_link *l = rpc->links; l != NULL; l = l->next)
        if (!l->served && l->call != NULL)
            (void)grpc_call_cancel(l->call, NULL);
}

static struct timespec after(struct lh_duration d)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(d.ns / 1000000000u);
    t.tv_nsec += (long)(d.ns % 1000000000u);
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

static void shut_server_down(struct lh_rpc *rpc)
{
    struct timespec deadline = after(rpc->config.grace);

    tag_post(&rpc->server_down_tag);
    grpc_server_shutdown_and_notify(rpc->server, rpc->queues[0].grpc, &rpc->server_down_tag);
    pthread_mutex_lock(&rpc->lock);
    while (!rpc->server_down && pthread_cond_timedwait(&rpc->changed, &rpc->lock, &deadline) == 0)
        ;
    bool down = rpc->server_down;
    pthread_mutex_unlock(&rpc->lock);
    if (!down)
        grpc_server_cancel_all_calls(rpc->server);
    pthread_mutex_lock(&rpc->lock);
    /* A server is down when its connections are. Some thread may still have a call of one in hand,
     * or be about to wait for the next. */
    while (!rpc->server_down || rpc->accepting > 0)
        pthread_cond_wait(&rpc->changed, &rpc->lock);
    pthread_mutex_unlock(&rpc->lock);
    grpc_server_destroy(rpc->server);
}

void lh_rpc_destroy(struct lh_rpc *rpc)
{
    if (rpc == NULL)
        return;
    if (!rpc->started)
        start_server(rpc); /* gRPC shuts down only what was started */

    pthread_mutex_lock(&rpc->lock);
    rpc->stopping = true;
    pthread_mutex_unlock(&rpc->lock);
    lh_rpc_stop_handing(rpc);
    if (rpc->server != NULL)
        shut_server_down(rpc);

    pthread_mutex_lock(&rpc->lock);
    cancel_links(rpc);
    while (rpc->links != NULL)
        pthread_cond_wait(&rpc->changed, &rpc->lock);
    pthread_mutex_unlock(&rpc->lock);

    lh_rpc_channels_destroy(rpc);
    /* A handshake may still be under way. */
    pthread_rwlock_wrlock(&rpc->answers_lock);
    rpc->answers_over = true;
    pthread_rwlock_unlock(&rpc->answers_lock);
    lh_rpc_queues_destroy(rpc);
    grpc_shutdown();

    free(rpc->acceptors);
    rpc->acceptors = NULL;
    lh_rpc_unref(rpc);
}
