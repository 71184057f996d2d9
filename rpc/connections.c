#include "rpc/connections.h"

#include "base/alloc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#define SECOND_NS UINT64_C(1000000000)
/* The table is gone through for connections that gRPC has closed at most this often. */
#define SWEEP_NS (SECOND_NS / 10)
#define LOG_NS   (10 * SECOND_NS)

/* HTTP/2 (RFC 9113): a client begins with this, and frames of so large a header follow. */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE_BYTES      (sizeof preface - 1)
#define FRAME_HEADER_BYTES 9u
#define FRAME_HEADERS      1u
#define FRAME_RST_STREAM   3u

/* Who is at the other end: an IPv6 address (of IPv4 the mapped one) and a port, without padding. */
struct peer {
    uint8_t ip[16];
    uint8_t port[2];
};

struct lh_connection {
    struct peer peer;
    bool named; /* has a peer: can be cut, and is in `by_peer` */
    bool listed, cut;
    int fd;
    unsigned calls;
    uint64_t used; /* when the last call began or ended, or when it was accepted */
    /* How far what it sent was taken apart. */
    bool opaque; /* not HTTP/2 as we know it */
    uint8_t preface_seen, header_seen;
    uint8_t header[FRAME_HEADER_BYTES];
    uint32_t body_left;
    uint64_t second;
    unsigned begun, cancelled; /* calls, in that second */
    UT_hash_handle hh;
};

static struct {
    pthread_mutex_t lock;
    struct lh_connections_config config;
    struct lh_connection *by_peer;
    struct lh_connection **by_fd;
    size_t fd_capacity;
    unsigned open;
    int spare; /* -1: none */
    _Atomic int exempt;
    uint64_t swept, logged;
    struct lh_connections_figures figures;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .spare = -1, .exempt = -1};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* ---- who ---- */

static void map_ipv4(struct peer *peer, const struct in_addr *ip)
{
    memset(peer->ip, 0, 10);
    memset(peer->ip + 10, 0xff, 2);
    memcpy(peer->ip + 12, ip, 4);
}

static bool peer_of_socket(int fd, struct peer *peer)
{
    struct sockaddr_storage any = {0};
    socklen_t size = sizeof any;

    if (getpeername(fd, (struct sockaddr *)&any, &size) != 0)
        return false;
    if (any.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&any;
        map_ipv4(peer, &in->sin_addr);
        memcpy(peer->port, &in->sin_port, sizeof peer->port);
        return true;
    }
    if (any.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&any;
        memcpy(peer->ip, &in6->sin6_addr, sizeof peer->ip);
        memcpy(peer->port, &in6->sin6_port, sizeof peer->port);
        return true;
    }
    return false;
}

/* "ipv4:10.0.0.1:4711", "ipv6:%5Bfe80::1%25eth0%5D:4711" with or without the escapes. */
static bool peer_of_text(const char *text, struct peer *peer)
{
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN];
    size_t n;

    if (colon == NULL || strlen(text) < 5)
        return false;
    bool four = strncmp(text, "ipv4:", 5) == 0;
    if (!four && strncmp(text, "ipv6:", 5) != 0)
        return false;
    text += 5;
    if (strncmp(text, "%5B", 3) == 0)
        text += 3;
    else if (*text == '[')
        text++;
    n = strcspn(text, four ? ":" : "%]");
    if (n >= sizeof host)
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    unsigned long port = strtoul(colon + 1, NULL, 10);
    peer->port[0] = (uint8_t)(port >> 8);
    peer->port[1] = (uint8_t)port;
    if (!four)
        return inet_pton(AF_INET6, host, peer->ip) == 1;
    struct in_addr ip;
    if (inet_pton(AF_INET, host, &ip) != 1)
        return false;
    map_ipv4(peer, &ip);
    return true;
}

/* ---- the table; all with the lock held ---- */

/* Says what happened, but not each time. */
static void say(const char *what)
{
    const struct lh_connections_figures *f = &table.figures;
    uint64_t now = now_ns();
    char text[320];

    if (table.config.log == NULL || (table.logged != 0 && now - table.logged < LOG_NS))
        return;
    table.logged = now;
    (void)snprintf(text, sizeof text,
        "%s: %u of at most %u connections; so far %" PRIu64 " idle ones closed, %" PRIu64
        " new ones turned away, %" PRIu64 " cut for cancelling calls without end",
        what, table.open, table.config.max, f->cut_idle, f->refused, f->cut_cancelling);
    table.config.log(LH_WARN, text);
}

static void forget(struct lh_connection *c)
{
    if (c->named)
        HASH_DEL(table.by_peer, c);
    table.by_fd[c->fd] = NULL;
    table.open--;
    c->listed = false;
    if (c->calls == 0)
        free(c);
}

/* Whether the descriptor still is this connection: gRPC closes it without telling us. */
static bool alive(const struct lh_connection *c)
{
    struct peer peer;

    if (!c->named) {
        struct sockaddr_storage any;
        socklen_t size = sizeof any;
        return getpeername(c->fd, (struct sockaddr *)&any, &size) == 0 && any.ss_family == AF_UNIX;
    }
    return peer_of_socket(c->fd, &peer) && memcmp(&peer, &c->peer, sizeof peer) == 0;
}

static void sweep(void)
{
    for (size_t fd = 0; fd < table.fd_capacity; fd++)
        if (table.by_fd[fd] != NULL && !alive(table.by_fd[fd]))
            forget(table.by_fd[fd]);
}

/* A descriptor that was closed and opened again since the look is another connection's only if that
 * has the same peer; it then breaks, which connections do. */
static void cut(struct lh_connection *c)
{
    c->cut = true;
    if (c->listed && alive(c))
        (void)shutdown(c->fd, SHUT_RDWR);
}

static int by_use(const void *a, const void *b)
{
    const struct lh_connection *x = *(struct lh_connection *const *)a;
    const struct lh_connection *y = *(struct lh_connection *const *)b;

    return (x->used > y->used) - (x->used < y->used);
}

/* Closes up to `count` connections, those first that have been idle for longest. */
static void cut_idle(unsigned count)
{
    struct lh_connection **idle = lh_alloc_array(table.open + 1, sizeof *idle);
    struct lh_connection *c, *next;
    size_t n = 0;

    HASH_ITER(hh, table.by_peer, c, next) {
        if (c->calls == 0 && !c->cut)
            idle[n++] = c;
    }
    qsort(idle, n, sizeof *idle, by_use);
    for (size_t i = 0; i < n && i < count; i++) {
        cut(idle[i]);
        table.figures.cut_idle++;
    }
    if (n > 0)
        say("closing idle connections to have room for others");
    free(idle);
}

/* Whether one more may come. Room is made a little at a time and ahead of need: what is cut is
 * closed by gRPC some moments later. */
static bool room(void)
{
    unsigned max = table.config.max;
    unsigned full = max - max / 8;
    uint64_t now = now_ns();

    if (table.open >= full && now - table.swept >= SWEEP_NS) {
        sweep();
        table.swept = now;
        if (table.open >= full)
            cut_idle(table.open - full + 1 + max / 16);
    }
    return table.open < max;
}

static void enter(int fd)
{
    struct lh_connection *c = lh_alloc(sizeof *c), *old;

    c->fd = fd;
    c->named = peer_of_socket(fd, &c->peer);
    c->used = now_ns();
    c->listed = true;
    if ((size_t)fd >= table.fd_capacity) {
        size_t before = table.fd_capacity;
        LH_GROW(table.by_fd, table.fd_capacity, (size_t)fd + 1);
        memset(table.by_fd + before, 0, (table.fd_capacity - before) * sizeof *table.by_fd);
    }
    if (table.by_fd[fd] != NULL)
        forget(table.by_fd[fd]);
    if (c->named) {
        HASH_FIND(hh, table.by_peer, &c->peer, sizeof c->peer, old);
        if (old != NULL)
            forget(old);
        HASH_ADD(hh, table.by_peer, peer, sizeof c->peer, c);
    }
    table.by_fd[fd] = c;
    table.open++;
    table.figures.accepted++;
}

/* ---- accepting ---- */

void lh_connections_limit(const struct lh_connections_config *config)
{
    pthread_mutex_lock(&table.lock);
    table.config = *config;
    if (table.spare < 0)
        table.spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_unlock(&table.lock);
}

void lh_connections_exempt(int listener)
{
    atomic_store(&table.exempt, listener);
}

/* There are no descriptors: with the one in reserve the connection is taken and closed, so that it
 * does not wait for somebody who may never come. False: that does not help. With the lock held. */
static bool turn_away(int (*real)(int, struct sockaddr *, socklen_t *, int), int listener)
{
    if (table.spare < 0)
        table.spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (table.spare < 0)
        return false;
    close(table.spare);
    table.spare = -1;
    int fd = real(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    table.spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    table.figures.refused++;
    sweep();
    cut_idle(1 + table.open / 16);
    say("no descriptors are left");
    return true;
}

/* Admits it, or closes it. */
static bool admit(int fd)
{
    pthread_mutex_lock(&table.lock);
    bool in = table.config.max == 0 || room();
    if (in && table.config.max != 0) {
        enter(fd);
    } else if (!in) {
        table.figures.refused++;
        say("too many connections");
        close(fd);
    }
    pthread_mutex_unlock(&table.lock);
    return in;
}

int lh_connections_accept(int (*real)(int, struct sockaddr *, socklen_t *, int), int listener,
    struct sockaddr *address, socklen_t *size, int flags)
{
    socklen_t given = size == NULL ? 0 : *size;

    if (listener == atomic_load_explicit(&table.exempt, memory_order_relaxed))
        return real(listener, address, size, flags);
    for (;;) {
        if (size != NULL)
            *size = given;
        int fd = real(listener, address, size, flags);
        if (fd >= 0 && admit(fd))
            return fd;
        if (fd >= 0)
            continue;
        switch (errno) {
        case EMFILE:
        case ENFILE:
            pthread_mutex_lock(&table.lock);
            bool gone = turn_away(real, listener);
            pthread_mutex_unlock(&table.lock);
            if (gone)
                continue;
            errno = EAGAIN;
            return -1;
        case ENOMEM:
        case ENOBUFS:
            errno = EAGAIN;
            return -1;
        /* Of the connection, not of the listener. */
        case ECONNABORTED:
        case EPERM:
        case EPROTO:
        case ENETDOWN:
        case ENOPROTOOPT:
        case EHOSTDOWN:
        case ENONET:
        case EHOSTUNREACH:
        case ENETUNREACH:
            continue;
        default:
            return -1;
        }
    }
}

/* ---- what arrives ---- */

/* Takes the next bytes apart, with the lock held. */
static void take_apart(struct lh_connection *c, const uint8_t *at, size_t size)
{
    while (size > 0 && !c->opaque) {
        size_t n = 1;
        if (c->preface_seen < PREFACE_BYTES) {
            c->opaque = *at != (uint8_t)preface[c->preface_seen++];
        } else if (c->body_left > 0) {
            n = size < c->body_left ? size : c->body_left;
            c->body_left -= (uint32_t)n;
        } else {
            c->header[c->header_seen++] = *at;
            if (c->header_seen == FRAME_HEADER_BYTES) {
                c->header_seen = 0;
                c->body_left =
                    (uint32_t)c->header[0] << 16 | (uint32_t)c->header[1] << 8 | c->header[2];
                c->begun += c->header[3] == FRAME_HEADERS;
                c->cancelled += c->header[3] == FRAME_RST_STREAM;
            }
        }
        at += n;
        size -= n;
    }
}

bool lh_connections_received(int fd, const struct iovec *parts, size_t part_count, size_t size)
{
    bool go_on = true;

    pthread_mutex_lock(&table.lock);
    unsigned max = table.config.cancels_max;
    struct lh_connection *c =
        max != 0 && fd >= 0 && (size_t)fd < table.fd_capacity ? table.by_fd[fd] : NULL;
    if (c != NULL && !c->opaque) {
        uint64_t now = now_ns();
        if (now - c->second >= SECOND_NS) {
            c->second = now;
            c->begun = c->cancelled = 0;
        }
        for (size_t i = 0; i < part_count && size > 0; i++) {
            size_t n = parts[i].iov_len < size ? parts[i].iov_len : size;
            take_apart(c, parts[i].iov_base, n);
            size -= n;
        }
        if (c->begun > max && c->cancelled > max && alive(c)) {
            table.figures.cut_cancelling++;
            cut(c);
            say("a peer opens calls only to cancel them");
            go_on = false;
        }
    }
    pthread_mutex_unlock(&table.lock);
    return go_on;
}

/* ---- calls ---- */

struct lh_connection *lh_connections_call(const char *peer, bool *is_cut)
{
    struct lh_connection *c = NULL;
    struct peer key;

    *is_cut = false;
    if (peer == NULL || !peer_of_text(peer, &key))
        return NULL;
    pthread_mutex_lock(&table.lock);
    HASH_FIND(hh, table.by_peer, &key, sizeof key, c);
    if (c != NULL) {
        c->calls++;
        c->used = now_ns();
        *is_cut = c->cut;
    }
    pthread_mutex_unlock(&table.lock);
    return c;
}

void lh_connections_call_ended(struct lh_connection *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&table.lock);
    c->calls--;
    c->used = now_ns();
    if (!c->listed && c->calls == 0)
        free(c);
    pthread_mutex_unlock(&table.lock);
}

void lh_connections_figures(struct lh_connections_figures *figures)
{
    pthread_mutex_lock(&table.lock);
    sweep();
    *figures = table.figures;
    figures->open = table.open;
    figures->max = table.config.max;
    pthread_mutex_unlock(&table.lock);
}
