/* How a connection begins that is opened here: its address is looked up, by a thread if that
 * takes a name server, and each that it has is tried. */
#include "admission/address.h"
#include "base/alloc.h"
#include "runtime/thread.h"
#include "wire/sockets/internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NOTSENT_BYTES (128 << 10)

void lh_wire_set_options(int fd, bool is_unix)
{
    int one = 1, notsent = NOTSENT_BYTES;

    if (is_unix)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &notsent, sizeof notsent);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static const char *address_of(const struct connection *c)
{
    size_t name_size;

    return lh_server_address(c->server, &name_size);
}

static void give_up(struct connection *c, const char *why)
{
    char text[300];

    snprintf(text, sizeof text, "cannot connect to %s: %s", address_of(c), why);
    lh_connection_break(c, text);
}

static int begin_connect(struct connection *c, const struct sockaddr *address, socklen_t size)
{
    bool is_unix = address->sa_family == AF_UNIX;

    c->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return errno;
    lh_wire_set_options(c->fd, is_unix);
    int error = connect(c->fd, address, size) == 0 ? 0 : errno;
    c->state = CONNECTION_DIALLING;
    if (error != 0 && error != EINPROGRESS && error != EAGAIN) {
        close(c->fd);
        c->fd = -1;
        return error;
    }
    if (!lh_loop_watch(c)) {
        close(c->fd);
        c->fd = -1;
        return ENOMEM;
    }
    return 0;
}

/* Each address has its share of the time while there are others. */
static void limit_attempt(struct connection *c)
{
    c->attempt_ends = LH_INSTANT_NEVER;
    if (c->next_address == NULL)
        return;
    c->attempt_ends = lh_instant_add(lh_wire_now(), c->attempt);
    lh_loop_arm(c, c->attempt_ends);
}

/* Tries the next address that can be tried at all. */
static void try_next(struct connection *c, int error)
{
    while (c->next_address != NULL) {
        const struct addrinfo *a = c->next_address;
        c->next_address = a->ai_next;
        limit_attempt(c);
        error = begin_connect(c, a->ai_addr, a->ai_addrlen);
        if (error == 0)
            return;
    }
    give_up(c, strerror(error));
}

static void dial_unix(struct connection *c)
{
    struct sockaddr_un un;

    if (!lh_address_unix(address_of(c), &un)) {
        give_up(c, "not the path of a socket");
        return;
    }
    int error = begin_connect(c, (const struct sockaddr *)&un, sizeof un);
    if (error != 0)
        give_up(c, strerror(error));
}

static void resolved(struct connection *c, int error, struct addrinfo *found)
{
    if (error != 0) {
        give_up(c, error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
        return;
    }
    uint64_t count = 0;
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next)
        count++;
    c->attempt = lh_nanoseconds(c->wire->config.connect_timeout.ns / (count + 1));
    c->addresses = c->next_address = found;
    try_next(c, EADDRNOTAVAIL);
}

static void *resolve(void *arg)
{
    struct connection *c = arg;
    struct wire *wire = c->wire;
    struct addrinfo *found = NULL;

    int error = lh_address_look_up(address_of(c), 0, &found);
    pthread_mutex_lock(&c->lock);
    if (c->state == CONNECTION_RESOLVING)
        resolved(c, error, found);
    else if (error == 0)
        freeaddrinfo(found);
    pthread_mutex_unlock(&c->lock);
    lh_connection_service(c);
    pthread_mutex_lock(&wire->lock);
    wire->resolving--;
    pthread_cond_broadcast(&wire->changed);
    pthread_mutex_unlock(&wire->lock);
    lh_connection_unref(c);
    return NULL;
}

void lh_connection_dial(struct connection *c)
{
    const char *address = address_of(c);
    struct addrinfo *found = NULL;
    char why[256];

    lh_loop_list(c);
    c->state = CONNECTION_RESOLVING;
    lh_mux_begin(c->mux, lh_wire_now());
    if (c->lacks_grpc) {
        give_up(c, "there is no thread or no descriptor for gRPC");
        return;
    }
    if (lh_address_is_unix(address)) {
        dial_unix(c);
        return;
    }
    int error = lh_address_look_up(address, AI_NUMERICHOST, &found);
    if (error != EAI_NONAME || strrchr(address, ':') == NULL) {
        resolved(c, error, found);
        return;
    }
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_lock(&c->wire->lock);
    c->wire->resolving++;
    pthread_mutex_unlock(&c->wire->lock);
    lh_connection_ref(c);
    bool begun = lh_thread_start(NULL, resolve, c, why, sizeof why) == LH_OK;
    if (!begun) {
        pthread_mutex_lock(&c->wire->lock);
        c->wire->resolving--;
        pthread_mutex_unlock(&c->wire->lock);
    }
    pthread_mutex_lock(&c->lock);
    if (!begun) {
        give_up(c, why);
        lh_connection_unref(c);
    }
}

void lh_connection_try_on(struct connection *c, struct lh_instant now)
{
    pthread_mutex_lock(&c->lock);
    if (c->state == CONNECTION_DIALLING && c->next_address != NULL) {
        if (lh_instant_reached(now, c->attempt_ends)) {
            lh_loop_close(c->loop, c->fd);
            c->fd = -1;
            c->state = CONNECTION_RESOLVING;
            try_next(c, ETIMEDOUT);
        } else {
            lh_loop_arm(c, c->attempt_ends);
        }
    }
    pthread_mutex_unlock(&c->lock);
}

void lh_connection_dialled(struct connection *c)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error == 0) {
        struct sockaddr_storage peer;
        socklen_t peer_size = sizeof peer;
        if (getpeername(c->fd, (struct sockaddr *)&peer, &peer_size) != 0)
            return; /* not yet */
        c->state = c->wire->tls == NULL ? CONNECTION_OPEN : CONNECTION_SECURING;
        if (c->state == CONNECTION_SECURING)
            lh_connection_secure(c);
        return;
    }
    lh_loop_close(c->loop, c->fd);
    c->fd = -1;
    c->state = CONNECTION_RESOLVING;
    try_next(c, error);
}
