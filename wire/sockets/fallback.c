/* Servers that speak gRPC alone, as those of a release before the wire. A client finds out with
 * the first bytes of its first connection, before anything of a call was sent: its links go on
 * over gRPC, and their owner notices nothing. */
#include "base/alloc.h"
#include "base/assert.h"
#include "grpc/rpc.h"
#include "wire/sockets/internal.h"

#include <stdlib.h>
#include <string.h>

/* Such a server is not asked again for so long. */
#define GRPC_ONLY_SECONDS 600u

/* ---- which they are ---- */

static void note(struct wire *wire, const char *server)
{
    size_t size = strlen(server);
    struct grpc_only *found;

    pthread_mutex_lock(&wire->lock);
    HASH_FIND(hh, wire->grpc_only, server, size, found);
    if (found == NULL) {
        found = lh_alloc(sizeof *found + size + 1);
        memcpy(found->server, server, size);
        HASH_ADD_KEYPTR(hh, wire->grpc_only, found->server, size, found);
    }
    found->until = lh_instant_add(lh_wire_now(), lh_seconds(GRPC_ONLY_SECONDS));
    pthread_mutex_unlock(&wire->lock);
}

bool lh_wire_speaks_grpc_alone(struct wire *wire, const char *server)
{
    struct grpc_only *found;

    if (wire->grpc_only == NULL)
        return false;
    HASH_FIND(hh, wire->grpc_only, server, strlen(server), found);
    if (found == NULL)
        return false;
    if (lh_instant_before(lh_wire_now(), found->until))
        return true;
    HASH_DEL(wire->grpc_only, found);
    free(found);
    return false;
}

/* ---- links that gRPC carries ---- */

/* Whose they are: a reference of each. */
static struct wire_link *link_of(const struct lh_transport_link *instead)
{
    return *(struct wire_link **)lh_transport_link_data(instead);
}

static void on_opened(
    void *arg, struct lh_transport_link *link, enum lh_method method, const char *peer)
{
    (void)arg;
    (void)link;
    (void)method;
    (void)peer;
    LH_UNREACHABLE(); /* it serves nothing */
}

/* Each keeps the other alive until the link is over for its owner. */
void lh_wire_link_flush_instead(struct wire_link *link)
{
    struct connection *c = link->connection;

    pthread_mutex_lock(&c->lock);
    struct lh_transport_link *instead = link->instead;
    bool over = link->silent;
    if (instead != NULL && over)
        link->instead = NULL;
    else if (instead != NULL)
        lh_transport_link_ref(instead);
    pthread_mutex_unlock(&c->lock);
    if (instead == NULL)
        return;
    lh_transport_link_flush(instead);
    lh_transport_link_unref(instead);
}

static void on_message(void *arg, struct lh_transport_link *instead, struct lh_buf bytes)
{
    const struct wire *wire = arg;

    wire->config.on_message(wire->config.arg, &link_of(instead)->base, bytes);
    lh_wire_link_flush_instead(link_of(instead));
}

static void on_half_closed(void *arg, struct lh_transport_link *instead)
{
    const struct wire *wire = arg;

    if (wire->config.on_half_closed != NULL)
        wire->config.on_half_closed(wire->config.arg, &link_of(instead)->base);
}

static void on_sent(void *arg, struct lh_transport_link *instead)
{
    const struct wire *wire = arg;

    wire->config.on_sent(wire->config.arg, &link_of(instead)->base);
    lh_wire_link_flush_instead(link_of(instead));
}

static void on_closed(void *arg, struct lh_transport_link *instead, int error, const char *text)
{
    const struct wire *wire = arg;
    struct wire_link *link = link_of(instead);

    pthread_mutex_lock(&link->connection->lock);
    bool tell = !link->silent;
    link->silent = true;
    pthread_mutex_unlock(&link->connection->lock);
    if (tell)
        wire->config.on_closed(wire->config.arg, &link->base, error, text);
    lh_wire_link_flush_instead(link);
}

static void on_released(void *arg, struct lh_transport_link *instead)
{
    (void)arg;
    lh_wire_link_unref(link_of(instead));
}

static int may_answer(void *arg, enum lh_server_kind kind, const char *name, const char *identity,
    bool apart, char *text, size_t text_size)
{
    const struct wire *wire = arg;

    return wire->config.may_answer(wire->config.arg, kind, name, identity, apart, text, text_size);
}

/* The transport for them, with its own callbacks. NULL: it cannot be had now, or this ends. */
static struct lh_transport *transport_of(struct wire *wire)
{
    struct lh_transport_config config = wire->config;
    char why[200];

    config.listen = NULL;
    config.foreign_tls = (struct lh_tls_files){0}; /* none of these is foreign */
    config.link_data_size = sizeof(struct wire_link *);
    config.arg = wire;
    config.on_opened = on_opened;
    config.on_message = on_message;
    config.on_half_closed = on_half_closed;
    config.on_sent = on_sent;
    config.on_closed = on_closed;
    config.on_released = on_released;
    config.on_round = NULL;
    if (config.may_answer != NULL)
        config.may_answer = may_answer;
    pthread_mutex_lock(&wire->lock);
    if (wire->instead == NULL && !wire->over) {
        /* It listens nowhere, and its files were read before: what can fail is a shortage. */
        int error =
            lh_transport_create(&lh_rpc_transport, &config, &wire->instead, why, sizeof why);
        if (error == LH_OK)
            lh_transport_start(wire->instead);
    }
    struct lh_transport *transport = wire->over ? NULL : wire->instead;
    pthread_mutex_unlock(&wire->lock);
    return transport;
}

/* The connection's first link goes over to gRPC. With its lock held. */
static struct wire_link *move(struct connection *c, struct lh_transport *transport,
    struct lh_mux_link *mux, struct lh_duration timeout, bool asks)
{
    struct wire_link *link = mux->owner;
    struct lh_buf bytes;
    bool notify;

    struct lh_transport_link *instead =
        lh_transport_link_open(transport, link->method, c->server, timeout);
    *(struct wire_link **)lh_transport_link_data(instead) = link;
    while (lh_mux_take_back(c->mux, mux, &bytes, &notify))
        lh_transport_link_put(instead, bytes, notify);
    if (asks)
        lh_transport_link_read(instead);
    lh_mux_close(c->mux, mux, LH_OK, NULL);
    link->mux = NULL;
    link->instead = instead;
    return link;
}

void lh_connection_fall_back(struct connection *c)
{
    struct lh_instant ends;
    struct lh_mux_link *mux;
    bool asks;

    pthread_mutex_unlock(&c->lock);
    note(c->wire, c->server);
    lh_connection_forget(c);
    struct lh_transport *transport = transport_of(c->wire);
    pthread_mutex_lock(&c->lock);
    c->fell_back = true;
    while (transport != NULL && (mux = lh_mux_unbegun(c->mux, &ends, &asks)) != NULL) {
        struct lh_duration timeout = ends.ns == LH_INSTANT_NEVER.ns
                                         ? LH_DURATION_FOREVER
                                         : lh_instant_until(lh_wire_now(), ends);
        struct wire_link *link = move(c, transport, mux, timeout, asks);
        lh_transport_link_ref(&link->base);
        pthread_mutex_unlock(&c->lock);
        lh_wire_link_flush_instead(link);
        lh_wire_link_unref(link);
        pthread_mutex_lock(&c->lock);
    }
    lh_connection_count(c);
    lh_connection_break(c, "the server speaks gRPC alone");
}
