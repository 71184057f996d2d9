/* A connection: bytes in and out of its socket, and the events of its links. */
#include "base/alloc.h"
#include "base/assert.h"
#include "wire/sockets/internal.h"
#include "wire/sockets/secure.h"

#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* What a link's owner has not asked for may be so much; more where there is bulk. */
#define WINDOW          (1u << 20)
#define SESSION_WINDOW  (256u << 10)
#define STAGE_BYTES     (256u << 10)
#define FRAME_BYTES     (64u << 10)
#define LINKS_MAX       16384u
#define PARTS_MAX       64u
/* Read of a connection before others have their turn. */
#define ROUND_BYTES     (512u << 10)
#define BLOCK_BYTES     (256u << 10)
#define READ_BYTES_MIN  (16u << 10)
#define SERVER_PING_MS  20000u
#define UNUSED_SECONDS  300u

/* ---- life ---- */

struct connection *lh_connection_create(struct wire *wire, bool serves)
{
    struct connection *c = lh_alloc(sizeof *c);

    atomic_init(&c->references, 1);
    c->wire = wire;
    atomic_fetch_add_explicit(&wire->references, 1, memory_order_relaxed);
    c->loop = lh_loops_choose(wire);
    c->serves = serves;
    c->fd = -1;
    atomic_fetch_add(&wire->connections, 1);
    c->used = lh_wire_now();
    c->armed = LH_INSTANT_NEVER;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void lh_connection_ref(struct connection *c)
{
    atomic_fetch_add_explicit(&c->references, 1, memory_order_relaxed);
}

void lh_connection_unref(struct connection *c)
{
    if (atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) != 1)
        return;
    LH_ASSERT(c->fd < 0);
    lh_mux_destroy(c->mux);
    lh_secure_destroy(c->secure);
    free(c->identity);
    free(c->refusal);
    if (c->addresses != NULL)
        freeaddrinfo(c->addresses);
    pthread_mutex_destroy(&c->lock);
    atomic_fetch_sub(&c->wire->connections, 1);
    lh_wire_unref(c->wire);
    free(c->peer);
    free(c->server);
    free(c);
}

void lh_connection_begin_mux(struct connection *c)
{
    const struct lh_transport_config *t = &c->wire->config;
    unsigned links = t->calls_max == 0 ? LINKS_MAX : (t->calls_max + 3) / 4;
    struct lh_mux_config config = {
        .serves = c->serves,
        .class_ = c->class_,
        .window = c->class_ == LH_MUX_SESSIONS ? SESSION_WINDOW : WINDOW,
        .links_max = links,
        .message_max = (uint32_t)(c->serves && t->served_message_max != 0 ? t->served_message_max
                                                                         : LH_MESSAGE_BYTES_MAX),
        .frame_bytes = FRAME_BYTES,
        .stage_bytes = STAGE_BYTES,
        .hello_timeout = c->serves ? t->handshake_timeout : t->connect_timeout,
        .ping_after = c->serves ? lh_milliseconds(SERVER_PING_MS) : t->keepalive,
        .ping_timeout = t->keepalive_timeout,
        .request_timeout = t->request_timeout,
    };

    if (c->serves)
        config.cancels_max = lh_connections_cancels_max();
    c->mux = lh_mux_create(&config, lh_wire_now());
}

void lh_connection_forget(struct connection *c)
{
    struct wire *wire = c->wire;

    pthread_mutex_lock(&wire->lock);
    bool was = c->in_table;
    if (was)
        HASH_DEL(wire->table, c);
    c->in_table = false;
    pthread_mutex_unlock(&wire->lock);
    if (was)
        lh_connection_unref(c);
}

/* ---- counts ---- */

static void add(_Atomic uint64_t *sum, uint64_t *counted, uint64_t now)
{
    if (now != *counted)
        atomic_fetch_add_explicit(sum, now - *counted, memory_order_relaxed);
    *counted = now;
}

void lh_connection_count(struct connection *c)
{
    bool over = c->state == CONNECTION_OVER;
    uint64_t queued = over ? 0 : lh_mux_queued_bytes(c->mux);

    if (c->serves) {
        if (c->admitted != NULL && queued != c->counted_queued)
            lh_connections_unsent(c->admitted, (int64_t)(queued - c->counted_queued));
        add(&c->wire->unsent, &c->counted_queued, queued);
    }
    add(&c->wire->waiting, &c->counted_waiting, over ? 0 : lh_mux_waiting_bytes(c->mux));
}

/* ---- writing ---- */

static void wrote(struct connection *c, ssize_t written, int error, uint32_t edges)
{
    if (written > 0)
        lh_mux_written(c->mux, (size_t)written);
    else if (written < 0 && (error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS))
        c->full = edges == c->room_edges;
    else if (written < 0 && error != EINTR)
        c->write_failed = true; /* the loop hears of it, too, and ends it */
}

/* The same with TLS: more is encrypted only when all before has been sent. */
static bool write_secure(struct connection *c)
{
    struct lh_mux_part parts[PARTS_MAX];
    size_t n = 0;

    if (!lh_secure_has_output(c->secure))
        n = lh_mux_output(c->mux, parts, PARTS_MAX, lh_wire_now());
    if (n == 0 && !lh_secure_has_output(c->secure))
        return false;
    uint32_t edges = c->room_edges;
    pthread_mutex_unlock(&c->lock);
    if (n > 0)
        lh_secure_encrypt(c->secure, parts, n);
    ssize_t sent = lh_secure_send(c->secure);
    int error = errno;
    pthread_mutex_lock(&c->lock);
    wrote(c, sent, error, edges);
    return true;
}

/* What the machine has, as far as the socket takes it. With the lock held, which is let go of
 * meanwhile. Whether something was done. */
static bool write_some(struct connection *c)
{
    struct lh_mux_part parts[PARTS_MAX];
    struct iovec to[PARTS_MAX];

    if (c->state != CONNECTION_OPEN || c->full || c->write_failed)
        return false;
    if (c->secure != NULL)
        return write_secure(c);
    size_t n = lh_mux_output(c->mux, parts, PARTS_MAX, lh_wire_now());
    if (n == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        to[i] = (struct iovec){(void *)(uintptr_t)parts[i].bytes, parts[i].size};
    uint32_t edges = c->room_edges;
    int fd = c->fd;
    pthread_mutex_unlock(&c->lock);
    struct msghdr message = {.msg_iov = to, .msg_iovlen = n};
    ssize_t written = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    int error = errno;
    pthread_mutex_lock(&c->lock);
    wrote(c, written, error, edges);
    return true;
}

/* Says of messages that they have left. With the lock held, which is let go of meanwhile. */
static bool report_sent(struct connection *c)
{
    struct lh_mux_link *sent = c->mux == NULL ? NULL : lh_mux_next_sent(c->mux);

    if (sent == NULL)
        return false;
    struct wire_link *link = sent->owner;
    link->callbacks++;
    lh_transport_link_ref(&link->base);
    pthread_mutex_unlock(&c->lock);
    c->wire->config.on_sent(c->wire->config.arg, &link->base);
    pthread_mutex_lock(&c->lock);
    lh_wire_link_called(link);
    pthread_mutex_unlock(&c->lock);
    lh_wire_link_unref(link);
    pthread_mutex_lock(&c->lock);
    return true;
}

/* With the lock held: the loop has something to report, or to look at sooner. */
static void rouse(struct connection *c)
{
    if (c->state == CONNECTION_OVER)
        return;
    if (lh_mux_has_event(c->mux) || c->write_failed)
        lh_loop_kick(c);
    lh_loop_arm(c, lh_mux_deadline(c->mux));
}

void lh_connection_service(struct connection *c)
{
    pthread_mutex_lock(&c->lock);
    if (c->writing) {
        c->write_again = true;
        pthread_mutex_unlock(&c->lock);
        return;
    }
    c->writing = true;
    do {
        c->write_again = false;
        if (c->state == CONNECTION_NEW)
            lh_connection_dial(c);
        while (write_some(c) || report_sent(c))
            ;
    } while (c->write_again);
    c->writing = false;
    if (c->mux != NULL) {
        lh_connection_count(c);
        rouse(c);
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- reading ---- */

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

static void lost(struct connection *c, const char *what, int error)
{
    char text[200];

    if (c->serves)
        snprintf(text, sizeof text, "the peer's connection was lost");
    else if (!lh_mux_is_greeted(c->mux) && c->secure == NULL)
        snprintf(text, sizeof text,
            "perhaps the server speaks TLS, and this side does not: --tls-dir (%s closed the "
            "connection before it said anything)",
            c->server + 2);
    else if (!lh_mux_is_greeted(c->mux))
        snprintf(text, sizeof text,
            "perhaps the server does not trust this side's certificate: its log says why (%s closed "
            "the connection before it said anything)",
            c->server + 2);
    else if (error != 0)
        snprintf(text, sizeof text, "%s: the connection to %s was lost: %s", what, c->server + 2,
            strerror(error));
    else
        snprintf(text, sizeof text, "%s: %s closed the connection", what, c->server + 2);
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

/* The first that arrived is a SETTINGS frame: a server of HTTP/2, which gRPC is. Whoever speaks the
 * wire answers by it. */
static bool speaks_http2(const struct connection *c, const uint8_t *bytes, size_t size)
{
    static const uint8_t settings[] = {4, 0, 0, 0, 0, 0}; /* type, flags, stream */

    if (size < 9 || memcmp(bytes + 3, settings, sizeof settings) != 0)
        return false;
    lh_wire_note_grpc(c);
    return true;
}

/* False: it was read to its end, for now or for ever. `ends`: its end is known to come. */
static bool read_some(struct connection *c, bool ends)
{
    struct loop *loop = c->loop;

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
        lost(c, "unavailable", n < 0 ? errno : 0);
        return false;
    }
    loop->block_used += (size_t)n;
    pthread_mutex_lock(&c->lock);
    if (!c->serves && !lh_mux_is_greeted(c->mux) && speaks_http2(c, to, (size_t)n)) {
        lh_connection_break(c, "the server speaks gRPC alone: it is called so from now on");
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

static void read_all(struct connection *c, bool ends)
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
    link->callbacks = 1;
    atomic_fetch_add_explicit(&wire->served, 1, memory_order_relaxed);
    if (c->admitted != NULL)
        link->admitted = lh_connections_call_on(c->admitted, &cut);
    if (c->identity != NULL)
        link->base.identity = c->identity;
    const char *why = c->refusal != NULL ? c->refusal : refusal(c, opened->method);
    int error = c->refusal != NULL ? LH_ERR_PERMISSION : LH_ERR_SHORTAGE;
    lh_transport_link_ref(&link->base); /* the owner's */
    lh_transport_link_ref(&link->base); /* until it was called */
    pthread_mutex_unlock(&c->lock);
    if (why != NULL) {
        atomic_fetch_add_explicit(&wire->calls_refused, 1, memory_order_relaxed);
        lh_transport_link_close(&link->base, error, why);
        lh_wire_link_unref(link);
    } else {
        wire->config.on_opened(wire->config.arg, &link->base, link->method, c->peer);
    }
    pthread_mutex_lock(&c->lock);
    lh_wire_link_called(link);
    pthread_mutex_unlock(&c->lock);
    lh_wire_link_unref(link);
    pthread_mutex_lock(&c->lock);
}

static void report_message(struct connection *c, struct wire_link *link, struct lh_buf bytes)
{
    link->callbacks++;
    lh_transport_link_ref(&link->base);
    pthread_mutex_unlock(&c->lock);
    c->wire->config.on_message(c->wire->config.arg, &link->base, bytes);
    pthread_mutex_lock(&c->lock);
    lh_wire_link_called(link);
    pthread_mutex_unlock(&c->lock);
    lh_wire_link_unref(link);
    pthread_mutex_lock(&c->lock);
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
            lh_wire_link_ended(event.owner, event.error, event.text);
        c->used = lh_wire_now();
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- the end ---- */

void lh_connection_break(struct connection *c, const char *text)
{
    lh_mux_break(c->mux, text);
    lh_loop_kick(c);
}

void lh_connection_end(struct connection *c)
{
    lh_connection_forget(c);
    pthread_mutex_lock(&c->lock);
    if (c->state == CONNECTION_OVER) {
        pthread_mutex_unlock(&c->lock);
        return;
    }
    if (c->mux != NULL)
        lh_mux_break(c->mux, "this end is shutting down");
    pthread_mutex_unlock(&c->lock);
    lh_connection_report(c);
    pthread_mutex_lock(&c->lock);
    while (c->writing) { /* by another thread, which has the descriptor in hand */
        pthread_mutex_unlock(&c->lock);
        sched_yield();
        pthread_mutex_lock(&c->lock);
    }
    c->state = CONNECTION_OVER;
    lh_connection_count(c);
    int fd = c->fd;
    c->fd = -1;
    pthread_mutex_unlock(&c->lock);
    if (c->admitted != NULL)
        lh_connections_closing(c->admitted);
    c->admitted = NULL;
    if (fd >= 0)
        close(fd);
    lh_loop_unlist(c);
}

/* ---- what its loop does ---- */

/* With the lock held. */
static bool is_undecided_for_long(const struct connection *c, struct lh_instant now)
{
    struct lh_duration most = c->state == CONNECTION_SECURING ? c->wire->config.handshake_timeout
                                                              : lh_seconds(DECIDE_SECONDS);

    return (c->state == CONNECTION_DECIDING || c->state == CONNECTION_SECURING) &&
           lh_instant_reached(now, lh_instant_add(c->used, most));
}

/* With the lock held. Nobody needs it any more. */
static bool is_done(struct connection *c, struct lh_instant now)
{
    bool idle = lh_mux_links(c->mux) == 0 && !lh_mux_has_output(c->mux);
    struct lh_duration unused = lh_instant_until(c->used, now);
    struct lh_duration most =
        c->serves ? c->wire->config.idle_timeout : lh_seconds(UNUSED_SECONDS);

    if (lh_mux_broken(c->mux) != NULL)
        return !lh_mux_has_output(c->mux) || c->full || c->write_failed ||
               c->state != CONNECTION_OPEN;
    if (!idle)
        return false;
    if (c->serves)
        return atomic_load(&c->wire->stopping) || (most.ns != 0 && unused.ns >= most.ns);
    return !lh_mux_may_open(c->mux) || unused.ns >= most.ns;
}

static void settle(struct connection *c)
{
    lh_connection_report(c);
    lh_connection_service(c);
    lh_connection_report(c);
    pthread_mutex_lock(&c->lock);
    bool done = c->state != CONNECTION_OVER && is_done(c, lh_wire_now());
    bool failed = c->write_failed && c->state == CONNECTION_OPEN;
    pthread_mutex_unlock(&c->lock);
    if (failed && !done)
        lost(c, "unavailable", EPIPE);
    if (failed || done)
        lh_connection_end(c);
}

void lh_connection_ready(struct connection *c, uint32_t events)
{
    if (c->state == CONNECTION_SECURING) {
        lh_connection_secure(c);
        return;
    }
    if (c->state == CONNECTION_DIALLING) {
        pthread_mutex_lock(&c->lock);
        lh_connection_dialled(c);
        bool secures = c->state == CONNECTION_SECURING;
        pthread_mutex_unlock(&c->lock);
        if (secures)
            return;
    } else if (c->state == CONNECTION_DECIDING) {
        lh_connection_decide(c);
        if (c->mux == NULL || c->state != CONNECTION_OPEN)
            return;
    }
    if ((events & EPOLLOUT) != 0) {
        pthread_mutex_lock(&c->lock);
        c->room_edges++;
        c->full = false;
        pthread_mutex_unlock(&c->lock);
    }
    if (c->state == CONNECTION_OPEN)
        read_all(c, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    settle(c);
}

void lh_connection_tick(struct connection *c, struct lh_instant now)
{
    pthread_mutex_lock(&c->lock);
    c->armed = LH_INSTANT_NEVER;
    bool silent = c->mux == NULL && (c->write_failed || is_undecided_for_long(c, now));
    if (c->mux != NULL && c->state != CONNECTION_OVER)
        lh_mux_tick(c->mux, now);
    pthread_mutex_unlock(&c->lock);
    if (silent) {
        lh_connection_end(c);
        return;
    }
    if (atomic_exchange(&c->read_due, false) && c->state == CONNECTION_OPEN)
        read_all(c, false);
    if (c->mux == NULL)
        return;
    settle(c);
}
