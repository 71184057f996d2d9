/* One port for all: connections are accepted here, and kept if they begin as the wire does. */
#include "admission/address.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "grpc/rpc.h"
#include "tls/context.h"
#include "wire/frames.h"
#include "wire/sockets/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG       1024
#define TLS_HANDSHAKE 22u
/* A ClientHello has no more, or it is none of ours. */
#define HELLO_BYTES_MAX (16u << 10)

/* ---- listening ---- */

static int add_listener(
    struct wire *wire, int family, const struct sockaddr *address, socklen_t size, bool alone)
{
    int one = 1, no = 0;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return errno;
    if (family != AF_UNIX)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, alone ? &one : &no, sizeof one);
    struct listener *listener = &wire->listeners[wire->listener_count];
    /* What is in the set needs no more memory: nothing comes of it before it is accepted from. */
    struct epoll_event none = {.data.ptr = listener};
    if (bind(fd, address, size) != 0 || listen(fd, BACKLOG) != 0 ||
        epoll_ctl(wire->loops[0].epoll, EPOLL_CTL_ADD, fd, &none) != 0) {
        int error = errno;
        close(fd);
        return error;
    }
    *listener = (struct listener){fd};
    wire->listener_count++;
    return 0;
}

static int listen_unix(struct wire *wire, const char *address)
{
    struct sockaddr_un un;
    struct stat info;

    if (!lh_address_unix(address, &un))
        return EINVAL;
    /* Nobody listens there any more: that was looked at. */
    if (lstat(un.sun_path, &info) == 0 && S_ISSOCK(info.st_mode))
        (void)unlink(un.sun_path);
    int error = add_listener(wire, AF_UNIX, (const struct sockaddr *)&un, sizeof un, false);
    if (error == 0)
        wire->unlink_path = lh_strdup(un.sun_path);
    return error;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage any;
    socklen_t size = sizeof any;

    if (getsockname(fd, (struct sockaddr *)&any, &size) != 0)
        return 0;
    return any.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&any)->sin6_port)
                                     : ntohs(((struct sockaddr_in *)&any)->sin_port);
}

static void set_port(struct sockaddr *address, uint16_t port)
{
    if (address->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons(port);
}

static int listen_tcp(struct wire *wire, const char *address)
{
    struct addrinfo *found;
    int first = 0, good = 0;

    if (lh_address_look_up(address, AI_PASSIVE, &found) != 0)
        return EINVAL;
    for (struct addrinfo *a = found; a != NULL && wire->listener_count < LISTENERS_MAX;
         a = a->ai_next) {
        if (wire->port != 0)
            set_port(a->ai_addr, (uint16_t)wire->port);
        int error =
            add_listener(wire, a->ai_family, a->ai_addr, a->ai_addrlen, found->ai_next != NULL);
        if (error != 0 && first == 0)
            first = error;
        if (error != 0)
            continue;
        good++;
        wire->port = port_of(wire->listeners[wire->listener_count - 1].fd);
    }
    freeaddrinfo(found);
    return good > 0 ? 0 : first == 0 ? EADDRNOTAVAIL : first;
}

int lh_wire_listen(struct wire *wire, const char *address, char *why, size_t why_size)
{
    int error = lh_listen_check(address, why, why_size);

    if (error != LH_OK)
        return error;
    int failed =
        lh_address_is_unix(address) ? listen_unix(wire, address) : listen_tcp(wire, address);
    return failed == 0 ? LH_OK : lh_listen_explain(address, why, why_size);
}

void lh_wire_begin_accepting(struct wire *wire)
{
    for (unsigned i = 0; i < wire->listener_count; i++) {
        struct listener *listener = &wire->listeners[i];
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = listener};
        int error = epoll_ctl(wire->loops[0].epoll, EPOLL_CTL_MOD, listener->fd, &event);
        LH_ASSERT(error == 0);
        /* So it is watched again after a shortage, too. */
        lh_connections_watched(wire->loops[0].epoll, listener->fd, &event);
    }
}

void lh_wire_stop_listening(struct wire *wire)
{
    for (unsigned i = 0; i < wire->listener_count; i++) {
        (void)epoll_ctl(wire->loops[0].epoll, EPOLL_CTL_DEL, wire->listeners[i].fd, NULL);
        (void)shutdown(wire->listeners[i].fd, SHUT_RDWR);
    }
    if (wire->unlink_path != NULL)
        (void)unlink(wire->unlink_path);
}

void lh_wire_close_listeners(struct wire *wire)
{
    for (unsigned i = 0; i < wire->listener_count; i++)
        close(wire->listeners[i].fd);
}

/* ---- accepting ---- */

/* As gRPC prints it. */
static char *print_peer(const struct sockaddr_storage *from)
{
    char ip[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 32];

    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)from;
        inet_ntop(AF_INET, &in->sin_addr, ip, sizeof ip);
        snprintf(text, sizeof text, "ipv4:%s:%u", ip, ntohs(in->sin_port));
    } else if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
        if (mapped)
            inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], ip, sizeof ip);
        else
            inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof ip);
        snprintf(text, sizeof text, mapped ? "ipv4:%s:%u" : "ipv6:%%5B%s%%5D:%u", ip,
            ntohs(in6->sin6_port));
    } else {
        snprintf(text, sizeof text, "unix:");
    }
    return lh_strdup(text);
}

static void take_on(struct wire *wire, int fd, const struct sockaddr_storage *from)
{
    struct connection *c = lh_connection_create(wire, true);

    lh_wire_set_options(fd, from->ss_family == AF_UNIX);
    c->fd = fd;
    c->peer = print_peer(from);
    c->state = CONNECTION_DECIDING;
    lh_loop_list(c);
    pthread_mutex_lock(&c->lock);
    lh_loop_arm(c, lh_instant_add(lh_wire_now(), lh_seconds(DECIDE_SECONDS)));
    pthread_mutex_unlock(&c->lock);
    if (!lh_loop_watch(c))
        lh_connection_end(c);
    lh_connection_unref(c);
}

void lh_wire_accept(struct loop *loop, const struct listener *listener)
{
    struct sockaddr_storage from;

    for (;;) {
        socklen_t size = sizeof from;
        memset(&from, 0, sizeof from);
        int fd =
            accept4(listener->fd, (struct sockaddr *)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return; /* of what may pass, a process that limits its connections hears again */
        take_on(loop->wire, fd, &from);
    }
}

/* ---- what a connection speaks ---- */

static void hand_over(struct connection *c)
{
    struct lh_transport *grpc = lh_wire_grpc(c->wire);
    int fd = c->fd;

    (void)epoll_ctl(c->loop->epoll, EPOLL_CTL_DEL, fd, NULL);
    pthread_mutex_lock(&c->lock);
    c->fd = -1;
    c->state = CONNECTION_OVER;
    pthread_mutex_unlock(&c->lock);
    if (grpc == NULL || !lh_rpc_take_connection(grpc, fd))
        close(fd);
    lh_loop_unlist(c);
}

static void keep(struct connection *c)
{
    pthread_mutex_lock(&c->lock);
    c->admitted = lh_connections_take(c->fd);
    lh_connection_begin_mux(c);
    c->state = CONNECTION_OPEN;
    pthread_mutex_unlock(&c->lock);
}

/* The first of a handshake: what the client offers to speak behind it. */
static void decide_secure(struct connection *c, const uint8_t *hello, size_t size)
{
    /* Not before its first record is there: who sends it byte by byte costs no more. */
    if (size < 5 || (size < HELLO_BYTES_MAX && size < 5u + ((size_t)hello[3] << 8 | hello[4])))
        return;
    enum lh_tls_offer offer = lh_tls_offer(c->wire->offer_context, hello, size);

    if (offer == LH_TLS_MORE_BYTES && size < HELLO_BYTES_MAX)
        return;
    if (offer != LH_TLS_OFFERED) {
        hand_over(c);
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->used = lh_wire_now();
    c->state = CONNECTION_SECURING;
    c->armed = LH_INSTANT_NEVER;
    lh_loop_arm(c, lh_instant_add(c->used, c->wire->config.handshake_timeout));
    pthread_mutex_unlock(&c->lock);
    lh_connection_secure(c);
}

void lh_connection_decide(struct connection *c)
{
    uint8_t first[HELLO_BYTES_MAX];
    ssize_t n =
        recv(c->fd, first, c->wire->tls != NULL ? sizeof first : 1, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n <= 0) {
        lh_connection_end(c);
        return;
    }
    bool secure = c->wire->tls != NULL;
    if (secure && first[0] == TLS_HANDSHAKE)
        decide_secure(c, first, (size_t)n);
    else if (!secure && first[0] == LH_FRAME_HELLO)
        keep(c);
    else
        hand_over(c);
}
