/* A node's end of all its links, over the wire and, beside it, over gRPC. */
#include "base/alloc.h"
#include "base/assert.h"
#include "grpc/rpc.h"
#include "tls/context.h"
#include "wire/sockets/internal.h"
#include "wire/sockets/sockets.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

static const struct wire *const_wire_of(const struct lh_transport *transport)
{
    return (const struct wire *)transport;
}

/* ---- gRPC beside it ---- */

static int begin_grpc(struct wire *wire, char *why, size_t why_size)
{
    struct lh_transport_config config = wire->config;

    config.listen = NULL;
    config.handed = wire->listener_count > 0;
    return lh_transport_create(&lh_rpc_transport, &config, &wire->grpc, why, why_size);
}

struct lh_transport *lh_wire_grpc(struct wire *wire)
{
    char why[200];

    pthread_mutex_lock(&wire->lock);
    if (wire->grpc == NULL && !wire->over) {
        /* It listens nowhere, and its files were read before: what can fail is a shortage. */
        int error = begin_grpc(wire, why, sizeof why);
        if (error == LH_OK && wire->started)
            lh_transport_start(wire->grpc);
    }
    struct lh_transport *grpc = wire->over ? NULL : wire->grpc;
    pthread_mutex_unlock(&wire->lock);
    return grpc;
}

static struct lh_transport *grpc_of(const struct lh_transport *transport)
{
    struct wire *wire = (struct wire *)(uintptr_t)const_wire_of(transport);

    pthread_mutex_lock(&wire->lock);
    struct lh_transport *grpc = wire->grpc;
    pthread_mutex_unlock(&wire->lock);
    return grpc;
}

/* ---- life ---- */

void lh_wire_unref(struct wire *wire)
{
    if (atomic_fetch_sub_explicit(&wire->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&wire->lock);
    pthread_cond_destroy(&wire->changed);
    pthread_mutex_destroy(&wire->handshakes_lock);
    pthread_cond_destroy(&wire->handshakes_changed);
    lh_tls_context_free(wire->sides[0].context);
    lh_tls_context_free(wire->sides[1].context);
    lh_tls_context_free(wire->offer_context);
    lh_tls_unref(wire->tls);
    for (struct grpc_only *g = wire->grpc_only, *next; g != NULL; g = next) {
        next = g->hh.next;
        HASH_DEL(wire->grpc_only, g);
        free(g);
    }
    free(wire->unlink_path);
    free(wire->loops);
    free(wire);
}

static int open_tls(
    struct wire *wire, const struct lh_transport_config *config, char *why, size_t why_size)
{
    enum lh_tls_use use = config->listen != NULL ? LH_TLS_SERVES : LH_TLS_CALLS;

    if (!lh_tls_is_wanted(&config->tls))
        return LH_OK;
    LH_ASSERT(config->may_answer != NULL);
    int error = lh_tls_open(&config->tls, use, config->log, &wire->tls, why, why_size);
    wire->config.shared_tls = wire->tls; /* gRPC's, too */
    if (error == LH_OK && config->listen != NULL)
        wire->offer_context = lh_tls_offer_context();
    return error;
}

static int create(
    const struct lh_transport_config *config, struct lh_transport **out, char *why, size_t why_size)
{
    struct wire *wire = lh_alloc(sizeof *wire);
    pthread_condattr_t monotonic;
    wire->base.methods = &lh_wire_transport;
    atomic_init(&wire->references, 1);
    wire->config = lh_transport_defaults(config);
    pthread_mutex_init(&wire->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&wire->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&wire->handshakes_lock, NULL);
    pthread_cond_init(&wire->handshakes_changed, NULL);
    int error = lh_loops_create(wire, why, why_size);
    if (error == LH_OK)
        error = open_tls(wire, config, why, why_size);
    if (error == LH_OK && config->listen != NULL)
        error = lh_wire_listen(wire, config->listen, why, why_size);
    /* A server answers everybody from the beginning, and what foreign servers' files are is found
     * out now. */
    if (error == LH_OK && (config->listen != NULL || lh_tls_is_wanted(&config->foreign_tls)))
        error = begin_grpc(wire, why, why_size);
    if (error == LH_OK)
        error = lh_loops_start(wire, why, why_size);
    if (error != LH_OK) {
        lh_transport_destroy(&wire->base);
        return error;
    }
    *out = &wire->base;
    return LH_OK;
}

static void start(struct lh_transport *transport)
{
    struct wire *wire = wire_of(transport);

    pthread_mutex_lock(&wire->lock);
    LH_ASSERT(!wire->started);
    wire->started = true;
    struct lh_transport *grpc = wire->grpc;
    pthread_mutex_unlock(&wire->lock);
    if (grpc != NULL)
        lh_transport_start(grpc);
    lh_wire_begin_accepting(wire);
}

static void for_each(struct wire *wire, void (*visit)(struct connection *c))
{
    for (unsigned i = 0; i < wire->loop_count; i++) {
        size_t count;
        struct connection **all = lh_loop_connections(&wire->loops[i], &count);
        for (size_t j = 0; j < count; j++) {
            visit(all[j]);
            lh_connection_unref(all[j]);
        }
        free(all);
    }
}

static void send_away(struct connection *c)
{
    if (!c->serves)
        return;
    pthread_mutex_lock(&c->lock);
    if (c->mux != NULL && c->state == CONNECTION_OPEN)
        lh_mux_go_away(c->mux, LH_ERR_SHUTTING_DOWN, "the server is shutting down");
    pthread_mutex_unlock(&c->lock);
    lh_connection_service(c);
    lh_loop_kick(c);
}

/* Some time for calls in flight. */
static void wait_for_calls(struct wire *wire)
{
    struct lh_instant until = lh_instant_add(lh_wire_now(), wire->config.grace);
    const struct timespec moment = {.tv_nsec = 2000000};

    while (atomic_load(&wire->connections) > 0 && lh_instant_before(lh_wire_now(), until)) {
        if (atomic_load(&wire->served) == 0 && atomic_load(&wire->unsent) == 0)
            break;
        nanosleep(&moment, NULL);
    }
}

static void destroy(struct lh_transport *transport)
{
    struct wire *wire = wire_of(transport);

    atomic_store(&wire->stopping, true);
    lh_wire_stop_listening(wire);
    if (wire->started && wire->listener_count > 0) {
        for_each(wire, send_away);
        wait_for_calls(wire);
    }
    pthread_mutex_lock(&wire->lock);
    wire->over = true;
    while (wire->resolving > 0)
        pthread_cond_wait(&wire->changed, &wire->lock);
    struct lh_transport *grpc = wire->grpc;
    wire->grpc = NULL;
    pthread_mutex_unlock(&wire->lock);
    lh_handshakes_end(wire);
    lh_loops_end(wire);
    lh_wire_close_listeners(wire);
    lh_transport_destroy(wire->instead);
    lh_transport_destroy(grpc);
    lh_wire_unref(wire);
}

/* ---- what it says of itself ---- */

static int port(const struct lh_transport *transport)
{
    return const_wire_of(transport)->port;
}

static uint64_t unsent(const struct lh_transport *transport)
{
    struct lh_transport *grpc = grpc_of(transport);
    uint64_t bytes = grpc == NULL ? 0 : lh_transport_unsent(grpc);

    return bytes + atomic_load_explicit(&const_wire_of(transport)->unsent, memory_order_relaxed);
}

static void figures(const struct lh_transport *transport, struct lh_transport_figures *to)
{
    const struct wire *wire = const_wire_of(transport);
    struct lh_transport *grpc = grpc_of(transport);

    *to = (struct lh_transport_figures){0};
    if (grpc != NULL)
        lh_transport_figures(grpc, to);
    else
        lh_tls_figures(wire->tls, &to->tls);
    to->calls += atomic_load(&wire->served);
    to->unsent += atomic_load(&wire->unsent);
    to->calls_refused += atomic_load(&wire->calls_refused);
    to->peer_calls_refused += atomic_load(&wire->peer_calls_refused);
    to->replies_dropped += atomic_load(&wire->replies_dropped);
}

static struct lh_tls *tls(const struct lh_transport *transport)
{
    return const_wire_of(transport)->tls;
}

static void drop_untaken(struct connection *c)
{
    struct lh_duration most = c->wire->config.reply_timeout;
    struct lh_instant now = lh_wire_now();
    struct lh_instant since = {now.ns > most.ns ? now.ns - most.ns : 0};

    pthread_mutex_lock(&c->lock);
    unsigned dropped = 0;
    if (c->serves && c->mux != NULL && c->state == CONNECTION_OPEN)
        dropped = lh_mux_drop_untaken(c->mux, since);
    if (dropped > 0)
        lh_connection_count(c);
    pthread_mutex_unlock(&c->lock);
    atomic_fetch_add_explicit(&c->wire->replies_dropped, dropped, memory_order_relaxed);
}

static void housekeep(struct lh_transport *transport)
{
    struct wire *wire = wire_of(transport);
    struct lh_transport *grpc = grpc_of(transport);

    if (grpc != NULL)
        lh_transport_housekeep(grpc);
    else
        lh_tls_housekeep(wire->tls);
    if (wire->config.unsent_max != 0 && atomic_load(&wire->unsent) > wire->config.unsent_max / 2)
        for_each(wire, drop_untaken);
}

static void set_serving(struct lh_transport *transport, bool server, bool services)
{
    struct lh_transport *grpc = grpc_of(transport);

    if (grpc != NULL)
        lh_transport_set_serving(grpc, server, services);
}

static void ask_who_answers(struct lh_transport *transport)
{
    struct lh_transport *grpc = grpc_of(transport);

    struct wire *wire = wire_of(transport);

    atomic_fetch_add(&wire->answers_asked, 1); /* before: handshakes in flight see it */
    for_each(wire, lh_connection_ask_who_answers);
    pthread_mutex_lock(&wire->lock);
    struct lh_transport *instead = wire->instead;
    pthread_mutex_unlock(&wire->lock);
    if (instead != NULL)
        lh_transport_ask_who_answers(instead);
    if (grpc != NULL)
        lh_transport_ask_who_answers(grpc);
}

const struct lh_transport_methods lh_wire_transport = {
    .create = create,
    .start = start,
    .destroy = destroy,
    .port = port,
    .unsent = unsent,
    .figures = figures,
    .tls = tls,
    .housekeep = housekeep,
    .set_serving = set_serving,
    .ask_who_answers = ask_who_answers,
    .open = lh_wire_link_open,
    .flush_begin = lh_wire_flush_begin,
    .flush_end = lh_wire_flush_end,
    .forks = lh_loops_fork,
};
