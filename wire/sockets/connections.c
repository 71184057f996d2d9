/* A connection: bytes in and out of its socket, and the events of its links. */
#include "base/alloc.h"
#include "base/assert.h"
#include "wire/sockets/internal.h"
#include "wire/sockets/secure.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* What a link's owner has not asked for may be so much; more where there is bulk. */
#define WINDOW         (1u << 20)
#define SESSION_WINDOW (256u << 10)
#define STAGE_BYTES    (256u << 10)
#define FRAME_BYTES    (64u << 10)
#define LINKS_MAX      16384u
#define PARTS_MAX      64u
#define SERVER_PING_MS 20000u
#define UNUSED_SECONDS 300u

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
        .refer_bytes = LH_READ_BLOCK_BYTES / 4,
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
        HASH_DEL(wire->table[c->kind][c->class_], c);
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
    lh_wire_link_enter(link);
    c->wire->config.on_sent(c->wire->config.arg, &link->base);
    lh_wire_link_leave(link);
    return true;
}

/* With the lock held: the loop has something to report, or to look at sooner. */
static void rouse(struct connection *c)
{
    /* What came before its end waits until the owner asks for it. */
    bool over = c->state == CONNECTION_OVER;

    if (over && atomic_load(&c->wire->stopping))
        return;
    if (lh_mux_has_event(c->mux) || (!over && (c->write_failed || lh_mux_broken(c->mux) != NULL)))
        lh_loop_kick(c);
    if (!over)
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

/* ---- the end ---- */

void lh_connection_break(struct connection *c, const char *text)
{
    lh_mux_break(c->mux, text);
    lh_loop_kick(c);
}

void lh_connection_say_end(struct connection *c)
{
    if (c->state != CONNECTION_OPEN)
        return;
    lh_connection_service(c);
    (void)shutdown(c->fd, SHUT_WR);
}

void lh_connection_hear_out(struct connection *c, struct lh_instant until)
{
    struct pollfd one = {.fd = c->fd, .events = POLLIN};
    struct lh_instant now = lh_wire_now();
    char dropped[4096];

    while (c->state == CONNECTION_OPEN && lh_instant_before(now, until)) {
        if (poll(&one, 1, (int)lh_duration_ms(lh_instant_until(now, until))) <= 0)
            break;
        ssize_t n = recv(c->fd, dropped, sizeof dropped, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            break;
        now = lh_wire_now();
    }
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
    struct lh_connection *admitted = c->admitted;
    c->admitted = NULL;
    pthread_mutex_unlock(&c->lock);
    if (admitted != NULL)
        lh_connections_closing(admitted);
    if (fd >= 0)
        lh_loop_close(c->loop, fd);
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
    struct lh_duration most = c->serves ? c->wire->config.idle_timeout : lh_seconds(UNUSED_SECONDS);

    if (lh_mux_broken(c->mux) != NULL)
        return !lh_mux_has_output(c->mux) || c->full || c->write_failed ||
               c->state != CONNECTION_OPEN;
    if (!idle)
        return false;
    if (c->serves)
        return most.ns != 0 && unused.ns >= most.ns;
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
    if (failed && !done) { /* what came before is still to be heard */
        lh_connection_read(c, true);
        lh_connection_lost(c, EPIPE);
    }
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
        lh_connection_read(c, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    settle(c);
}

void lh_connection_tick(struct connection *c, struct lh_instant now)
{
    pthread_mutex_lock(&c->lock);
    c->armed = LH_INSTANT_NEVER;
    bool looks = atomic_exchange(&c->read_due, false);
    looks = c->mux != NULL && (looks || lh_mux_awaits_life(c->mux));
    pthread_mutex_unlock(&c->lock);
    if (looks && c->state == CONNECTION_OPEN) /* this thread may have slept for long */
        lh_connection_read(c, true);
    if (c->state == CONNECTION_DIALLING)
        lh_connection_try_on(c, now);
    pthread_mutex_lock(&c->lock);
    bool silent = c->mux == NULL && (c->write_failed || is_undecided_for_long(c, now));
    bool has_mux = c->mux != NULL; /* a handshake's thread makes it, and has it looked at */
    if (has_mux && c->state != CONNECTION_OVER)
        lh_mux_tick(c->mux, now);
    pthread_mutex_unlock(&c->lock);
    if (silent)
        lh_connection_end(c);
    else if (has_mux)
        settle(c);
}
