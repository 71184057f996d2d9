/* What the door of transports says of links, on links of connections. */
#include "base/alloc.h"
#include "wire/sockets/internal.h"

#include <stdlib.h>
#include <string.h>

static struct wire_link *link_of(struct lh_transport_link *link)
{
    return (struct wire_link *)link;
}

struct wire_link *lh_wire_link_create(struct connection *c, enum lh_method method, bool served)
{
    struct wire_link *link = lh_alloc(sizeof *link + c->wire->config.link_data_size);

    link->base = (struct lh_transport_link){&lh_wire_link_methods, link->data, ""};
    atomic_init(&link->references, 1);
    link->connection = c;
    lh_connection_ref(c);
    link->method = method;
    link->served = served;
    return link;
}

static void ref(struct wire_link *link)
{
    atomic_fetch_add_explicit(&link->references, 1, memory_order_relaxed);
}

void lh_wire_link_unref(struct wire_link *link)
{
    if (atomic_fetch_sub_explicit(&link->references, 1, memory_order_acq_rel) != 1)
        return;
    struct connection *c = link->connection;
    if (c->wire->config.on_released != NULL)
        c->wire->config.on_released(c->wire->config.arg, &link->base);
    free(link->end_text);
    free(link);
    lh_connection_unref(c);
}

/* It counts no more among what is served; with the connection's lock held. */
static void uncount(struct wire_link *link)
{
    struct connection *c = link->connection;

    if (!link->served)
        return;
    link->served = false;
    atomic_fetch_sub_explicit(&c->wire->served, 1, memory_order_relaxed);
    if (link->admitted != NULL)
        lh_connections_call_ended(link->admitted);
    link->admitted = NULL;
}

static void report_end(struct wire_link *link)
{
    struct connection *c = link->connection;

    link->silent = true;
    link->end_waits = false;
    pthread_mutex_unlock(&c->lock);
    c->wire->config.on_closed(c->wire->config.arg, &link->base, link->end_error, link->end_text);
    lh_wire_link_unref(link); /* the connection's */
    pthread_mutex_lock(&c->lock);
}

void lh_wire_link_enter(struct wire_link *link)
{
    link->callbacks++;
    ref(link);
    pthread_mutex_unlock(&link->connection->lock);
}

void lh_wire_link_leave(struct wire_link *link)
{
    struct connection *c = link->connection; /* its caller's, and outlives the link */

    pthread_mutex_lock(&c->lock);
    if (--link->callbacks == 0 && link->end_waits)
        report_end(link);
    pthread_mutex_unlock(&c->lock);
    lh_wire_link_unref(link); /* without the lock: it may tell the owner so */
    pthread_mutex_lock(&c->lock);
}

/* The peer has ended it, rather than that its connection was lost. */
static void report_half_closed(struct wire_link *link)
{
    struct connection *c = link->connection;

    lh_wire_link_enter(link);
    c->wire->config.on_half_closed(c->wire->config.arg, &link->base);
    lh_wire_link_leave(link);
}

void lh_wire_link_ended(struct wire_link *link, int error, char *text, bool by_peer)
{
    link->mux = NULL;
    uncount(link);
    free(link->end_text);
    link->end_text = text;
    link->end_error = error;
    if (by_peer && lh_method_info(link->method)->request_stream &&
        link->connection->wire->config.on_half_closed != NULL) {
        link->end_waits = true; /* until that callback is over */
        report_half_closed(link);
    } else if (link->callbacks > 0) {
        link->end_waits = true;
    } else {
        report_end(link);
    }
}

/* ---- opening ---- */

static struct connection *create_connection(
    struct wire *wire, const char *server, enum lh_server_kind kind, enum lh_mux_class class_)
{
    struct connection *c = lh_connection_create(wire, false);

    c->server = lh_strdup(server);
    c->kind = kind;
    c->class_ = class_;
    lh_connection_begin_mux(c);
    return c;
}

/* A connection for new links to that server: the one that there is, or a new one. With wire->lock
 * held. With a reference. */
static struct connection *connection_to(struct wire *wire, const char *server,
    enum lh_server_kind kind, enum lh_mux_class class_, uint64_t generation)
{
    struct connection *c;
    struct connection **table = &wire->table[kind][class_];

    HASH_FIND(hh, *table, server, strlen(server), c);
    if (c != NULL && c->generation < generation) { /* it shows a certificate that was renewed */
        HASH_DEL(*table, c);
        c->in_table = false;
        lh_connection_unref(c);
        c = NULL;
    }
    if (c != NULL) {
        lh_connection_ref(c);
        return c;
    }
    c = create_connection(wire, server, kind, class_);
    c->generation = generation;
    c->in_table = true;
    lh_connection_ref(c);
    HASH_ADD_KEYPTR(hh, *table, c->server, strlen(c->server), c);
    return c;
}

static struct wire_link *open_on(
    struct connection *c, enum lh_method method, struct lh_duration timeout)
{
    struct wire_link *link = NULL;

    pthread_mutex_lock(&c->lock);
    if (c->state != CONNECTION_OVER && lh_mux_may_open(c->mux)) {
        link = lh_wire_link_create(c, method, false);
        ref(link); /* the connection's */
        link->mux = lh_mux_open(c->mux, method, timeout, link, lh_wire_now());
    }
    pthread_mutex_unlock(&c->lock);
    return link;
}

struct lh_transport_link *lh_wire_link_open(struct lh_transport *transport, enum lh_method method,
    const char *address, struct lh_duration timeout)
{
    struct wire *wire = wire_of(transport);
    const struct lh_method_info *info = lh_method_info(method);
    struct wire_link *link = NULL;

    uint64_t generation = lh_wire_generation(wire);
    pthread_mutex_lock(&wire->lock);
    bool by_grpc = info->foreign || lh_wire_speaks_grpc_alone(wire, address);
    pthread_mutex_unlock(&wire->lock);
    struct lh_transport *grpc = by_grpc ? lh_wire_grpc(wire) : NULL;
    if (grpc != NULL)
        return lh_transport_link_open(grpc, method, address, timeout);
    if (by_grpc) { /* ends as if its address could not be reached */
        struct connection *c =
            create_connection(wire, address, info->server, lh_mux_class_of(method));
        c->lacks_grpc = true;
        link = open_on(c, method, timeout);
        lh_connection_unref(c);
        return &link->base;
    }
    while (link == NULL) {
        pthread_mutex_lock(&wire->lock);
        struct connection *c =
            connection_to(wire, address, info->server, lh_mux_class_of(method), generation);
        pthread_mutex_unlock(&wire->lock);
        link = open_on(c, method, timeout);
        if (link == NULL)
            lh_connection_forget(c);
        lh_connection_unref(c);
    }
    return &link->base;
}

/* ---- operations ---- */

static void set_token(struct lh_transport_link *base, const char *token)
{
    (void)base; /* of foreign methods alone */
    (void)token;
}

static void ref_link(struct lh_transport_link *base)
{
    ref(link_of(base));
}

static void unref_link(struct lh_transport_link *base)
{
    lh_wire_link_unref(link_of(base));
}

static void put(struct lh_transport_link *base, struct lh_buf bytes, bool notify)
{
    struct wire_link *link = link_of(base);
    struct connection *c = link->connection;

    pthread_mutex_lock(&c->lock);
    bool lives = link->mux != NULL || link->instead != NULL;
    if (link->instead != NULL) {
        lh_transport_link_put(link->instead, bytes, notify);
    } else if (lives) {
        lh_mux_put(c->mux, link->mux, bytes, notify);
        lh_connection_count(c);
    }
    pthread_mutex_unlock(&c->lock);
    if (!lives)
        lh_buf_clear(&bytes);
}

static void close_link(struct lh_transport_link *base, int error, const char *text)
{
    struct wire_link *link = link_of(base);
    struct connection *c = link->connection;

    pthread_mutex_lock(&c->lock);
    bool lived = link->mux != NULL || link->end_waits;
    if (link->instead != NULL)
        lh_transport_link_close(link->instead, error, text);
    link->silent = true;
    link->end_waits = false;
    if (link->mux != NULL) {
        lh_mux_close(c->mux, link->mux, error, text);
        link->mux = NULL;
        uncount(link);
        lh_connection_count(c);
    }
    pthread_mutex_unlock(&c->lock);
    if (lived)
        lh_wire_link_unref(link); /* the connection's */
}

static void read_link(struct lh_transport_link *base)
{
    struct wire_link *link = link_of(base);
    struct connection *c = link->connection;

    pthread_mutex_lock(&c->lock);
    if (link->instead != NULL)
        lh_transport_link_read(link->instead);
    else if (link->mux != NULL)
        lh_mux_read(c->mux, link->mux);
    pthread_mutex_unlock(&c->lock);
}

/* Connections that are to be served once a thread has flushed several links. */
#define FLUSHED_MAX 64
static _Thread_local struct {
    unsigned depth, count;
    struct connection *all[FLUSHED_MAX];
} flushed;

void lh_wire_flush_begin(struct lh_transport *transport)
{
    (void)transport;
    flushed.depth++;
}

void lh_wire_flush_end(struct lh_transport *transport)
{
    (void)transport;
    if (--flushed.depth > 0)
        return;
    struct connection *all[FLUSHED_MAX];
    unsigned count = flushed.count;
    memcpy(all, flushed.all, count * sizeof *all);
    flushed.count = 0;
    for (unsigned i = 0; i < count; i++) {
        lh_connection_service(all[i]);
        lh_connection_unref(all[i]);
    }
}

static void flush(struct lh_transport_link *base)
{
    struct connection *c = link_of(base)->connection;

    if (c->fell_back)
        lh_wire_link_flush_instead(link_of(base));
    if (flushed.depth == 0) {
        lh_connection_service(c);
        return;
    }
    for (unsigned i = 0; i < flushed.count; i++)
        if (flushed.all[i] == c)
            return;
    if (flushed.count == FLUSHED_MAX) {
        lh_connection_service(c);
        return;
    }
    lh_connection_ref(c);
    flushed.all[flushed.count++] = c;
}

const struct lh_transport_link_methods lh_wire_link_methods = {
    .set_token = set_token,
    .ref = ref_link,
    .unref = unref_link,
    .put = put,
    .close = close_link,
    .read = read_link,
    .flush = flush,
};
