/* What arrives over a connection, and what its links' owner is called for. */
#include "base/alloc.h"
#include "wire/sockets/internal.h"
#include "wire/sockets/secure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Read of a connection before others have their turn. */
#define ROUND_BYTES    (512u << 10)
#define BLOCK_BYTES    LH_READ_BLOCK_BYTES
#define READ_BYTES_MIN (16u << 10)
/* Calls that a connection begins in a second without anybody asking whether it may. */
#define CROWD 500u

static void release_block(struct lh_block *block)
{
    free(block);
}

static void fresh_block(struct loop *loop)
{
    if (loop->block != NULL && BLOCK_BYTES - loop->block_used >= READ_BYTES_MIN)
        return;
    if (loop->block != NULL && atomic_load(&loop->block->references) == 1) {
        loop->block_used = 0; /* nobody kept anything of it */
        return;
    }
    if (loop->block != NULL)
        lh_block_unref(loop->block);
    loop->block = lh_realloc_array(NULL, 1, sizeof *loop->block + BLOCK_BYTES);
    atomic_init(&loop->block->references, 1);
    loop->block->release = release_block;
    loop->block_bytes = (uint8_t *)(loop->block + 1);
    loop->block_used = 0;
}

void lh_connection_lost(struct connection *c, int error)
{
    char text[200];

    if (c->serves)
        snprintf(text, sizeof text, "the peer's connection was lost");
    else if (!lh_mux_is_greeted(c->mux) && c->secure == NULL)
        snprintf(text, sizeof text,
            "perhaps the server speaks TLS, and this side does not: --tls-dir (%s closed the "
            "connection before it said anything)",
            c->server);
    else if (!lh_mux_is_greeted(c->mux))
        snprintf(text, sizeof text,
            "perhaps the server does not trust this side's certificate: its log says why (%s "
            "closed "
            "the connection before it said anything)",
            c->server);
    else if (error != 0)
        snprintf(
            text, sizeof text, "the connection to %s was lost: %s", c->server, strerror(error));
    else
        snprintf(text, sizeof text, "%s closed the connection", c->server);
    pthread_mutex_lock(&c->lock);
    lh_connection_break(c, text);
    pthread_mutex_unlock(&c->lock);
}

/* What has arrived and waits is more than all may have, and it has its share of that. */
static bool is_too_much(const struct connection *c)
{
    uint64_t all = atomic_load_explicit(&c->wire->waiting, memory_order_relaxed);
    size_t max = c->wire->config.memory_max;

    return max != 0 && all > max &&
           c->counted_waiting >= all / (atomic_load(&c->wire->connections) + 1);
}

/* It begins that many calls that its address may be held up. */
static bool is_crowded(struct connection *c)
{
    uint64_t second = lh_wire_now().ns / 1000000000u;

    if (c->calls_second != second) {
        c->was_crowded = c->calls_begun > CROWD && second - c->calls_second == 1;
        c->calls_second = second;
        c->calls_begun = 0;
    }
    return c->admitted != NULL && (c->was_crowded || c->calls_begun > CROWD);
}

/* The first that arrived is a SETTINGS frame: a server of HTTP/2, which gRPC is. Whoever speaks the
 * wire answers by it. */
static bool speaks_http2(const uint8_t *bytes, size_t size)
{
    static const uint8_t settings[] = {4, 0, 0, 0, 0, 0}; /* type, flags, stream */

    return size >= 9 && memcmp(bytes + 3, settings, sizeof settings) == 0;
}

/* False: it was read to its end, for now or for ever. `ends`: its end is known to come. */
static bool read_some(struct connection *c, bool ends)
{
    struct loop *loop = c->loop;

    if (c->secure == NULL && is_crowded(c) && lh_connections_may_receive(c->fd) == 0)
        return false; /* its address begins too many; the kernel says again that there is more */
    fresh_block(loop);
    size_t most = BLOCK_BYTES - loop->block_used;
    uint8_t *to = loop->block_bytes + loop->block_used;
    ssize_t n = c->secure != NULL ? lh_secure_read(c->secure, to, most)
                                  : recv(c->fd, to, most, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0) {
        lh_connection_lost(c, n < 0 ? errno : 0);
        return false;
    }
    loop->block_used += (size_t)n;
    pthread_mutex_lock(&c->lock);
    if (!c->serves && !lh_mux_is_greeted(c->mux) && speaks_http2(to, (size_t)n)) {
        lh_connection_fall_back(c);
        pthread_mutex_unlock(&c->lock);
        return false;
    }
    lh_mux_take(c->mux, loop->block, to, (size_t)n, lh_wire_now());
    lh_connection_count(c);
    if (is_too_much(c))
        lh_connection_break(c, "too much was sent that nobody has taken");
    pthread_mutex_unlock(&c->lock);
    lh_connection_report(c);
    return ends || (size_t)n == most;
}

void lh_connection_read(struct connection *c, bool ends)
{
    size_t rounds = ROUND_BYTES / BLOCK_BYTES;

    while (c->state == CONNECTION_OPEN && read_some(c, ends))
        if (!ends && rounds-- == 0) {
            lh_loop_heat(c); /* the kernel will not say again that there is more */
            return;
        }
}

/* ---- events ---- */

static const char *refusal(struct connection *c, enum lh_method method)
{
    const struct lh_transport_config *config = &c->wire->config;
    const struct lh_method_info *info = lh_method_info(method);

    if (config->peer_calls_max != 0 && c->admitted != NULL &&
        lh_connections_peer_calls(c->admitted) > config->peer_calls_max) {
        atomic_fetch_add_explicit(&c->wire->peer_calls_refused, 1, memory_order_relaxed);
        lh_connections_refused_call(c->admitted, "calls are refused");
        return "too many calls are open here from one address: end some, or have the server's "
               "--max-peer-calls raised";
    }
    if (config->peer_unsent_max != 0 && c->admitted != NULL &&
        lh_connections_peer_unsent(c->admitted) >= config->peer_unsent_max) {
        atomic_fetch_add_explicit(&c->wire->peer_calls_refused, 1, memory_order_relaxed);
        lh_connections_refused_call(c->admitted, "calls are refused");
        return "too many replies are not being taken by one address: take them, or have the "
               "server's --peer-reply-memory raised";
    }
    if (config->calls_max != 0 && atomic_load(&c->wire->served) > config->calls_max)
        return "too many calls are open here: try again in a moment";
    if (config->unsent_max != 0 && atomic_load(&c->wire->unsent) >= config->unsent_max &&
        !info->reply_stream && info->reply_payload == 0)
        return "too many replies are not being taken: try again in a moment";
    return NULL;
}

/* With the lock held, which is let go of while the owner is called. */
static void report_opened(struct connection *c, struct lh_mux_link *opened)
{
    struct wire *wire = c->wire;
    bool cut = false;

    struct wire_link *link = lh_wire_link_create(c, opened->method, true);
    opened->owner = link;
    link->mux = opened;
    atomic_fetch_add_explicit(&wire->served, 1, memory_order_relaxed);
    c->calls_begun++;
    if (c->admitted != NULL)
        link->admitted = lh_connections_call_on(c->admitted, &cut);
    if (c->identity != NULL)
        link->base.identity = c->identity;
    const char *why = c->refusal != NULL ? c->refusal : refusal(c, opened->method);
    int error = c->refusal != NULL ? LH_ERR_PERMISSION : LH_ERR_SHORTAGE;
    lh_transport_link_ref(&link->base); /* the owner's */
    lh_wire_link_enter(link);
    if (why != NULL) {
        atomic_fetch_add_explicit(&wire->calls_refused, 1, memory_order_relaxed);
        lh_transport_link_close(&link->base, error, why);
        lh_wire_link_unref(link);
    } else {
        wire->config.on_opened(wire->config.arg, &link->base, link->method, c->peer);
    }
    lh_wire_link_leave(link);
}

static void report_message(struct connection *c, struct wire_link *link, struct lh_buf bytes)
{
    lh_wire_link_enter(link);
    c->wire->config.on_message(c->wire->config.arg, &link->base, bytes);
    lh_wire_link_leave(link);
}

void lh_connection_report(struct connection *c)
{
    struct lh_mux_event event;

    pthread_mutex_lock(&c->lock);
    while (c->mux != NULL && (event = lh_mux_next(c->mux)).kind != LH_MUX_NOTHING) {
        if (event.kind == LH_MUX_OPENED)
            report_opened(c, event.link);
        else if (event.kind == LH_MUX_MESSAGE)
            report_message(c, event.owner, event.bytes);
        else
            lh_wire_link_ended(event.owner, event.error, event.text, c->serves && event.by_peer);
        c->used = lh_wire_now();
    }
    pthread_mutex_unlock(&c->lock);
}
