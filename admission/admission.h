/* Who is connected to this process, how many they may be, and who has to go.
 *
 * One table a process, since descriptors are the process's. sockets.c brings every connection that
 * the process accepts through lh_connections_accept(), and what arrives over it through
 * lh_connections_received(); a served call is entered with its peer's
 * address, so that it is known which connections are idle. gRPC offers no way to close one: its
 * socket is shut down, and gRPC finds it broken and closes it. Only gRPC ever closes a descriptor
 * that it was given.
 *
 * Connections over a Unix socket have no address that a call could name. They count, and are
 * refused when there are too many, but none of them is ever cut.
 *
 * Any thread. */
#pragma once

#include "base/step.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct lh_connection;

struct lh_connections_config {
    /* Connections at once. From seven eighths of them on those that have been without a call for
     * longest are closed; beyond them a new one is closed at once. */
    unsigned max;
    /* Calls that a connection may both begin and cancel within a second before it is cut; 0: any
     * number. */
    unsigned cancels_max;
    /* Connections at once of one peer (peers.h), with the same rule; 0: any number. And how many
     * new ones it may begin a second, twice as many at once; 0: any number. Beyond either a new one
     * is closed at once. */
    unsigned peer_max, peer_rate;
    /* Calls that one peer may begin a second while there are others; 0: any number. Beyond it
     * nothing more is read from it for some milliseconds. */
    unsigned peer_calls_rate;
    /* Bytes that a connection may have sent since a call of it was opened, or a message of it was
     * there in whole: what gRPC may keep of it, and nobody else knows of. Beyond it the connection
     * is cut. All together may have 32 times as much; beyond that the one that has most is cut, of
     * the peer that has most. More than flow control lets in of streams that are not read. 0: any
     * number. */
    uint64_t fruitless_max;
    /* A line for the operator; at most a few each ten seconds. */
    void (*log)(enum lh_level level, const char *text);
};

struct lh_connections_figures {
    uint64_t open, max;
    uint64_t accepted, refused; /* refused: too many, or no descriptors */
    uint64_t refused_peer;      /* of these, for what one peer has */
    uint64_t gone;              /* broken by their peers before they were accepted */
    uint64_t cut_idle, cut_cancelling, cut_fruitless;
    uint64_t paced; /* times that a connection was not read from for a moment */
};

/* Begins to limit; before it everything is let through. Keeps one descriptor in reserve, to be able
 * to turn somebody away when there are none left. */
void lh_connections_limit(const struct lh_connections_config *config);

/* What comes to this listening socket is let through and not counted: it has limits of its own. */
void lh_connections_exempt(int listener);

void lh_connections_figures(struct lh_connections_figures *figures);

/* accept4(2), as gRPC's listener can bear it: it ends for good when accept fails with anything but
 * EAGAIN. So a connection that there is no room for is accepted and closed, and whatever else may
 * pass is EAGAIN; the listener is brought back here some milliseconds later. `real` is libc's. */
int lh_connections_accept(int (*real)(int, struct sockaddr *, socklen_t *, int), int listener,
    struct sockaddr *address, socklen_t *size, int flags);

/* An epoll(7) set was told to watch a descriptor. If that listens it is woken through this once
 * accept4 has failed for want of something, since connections may wait behind that one. */
void lh_connections_watched(int set, int fd, const struct epoll_event *event);

/* How many bytes to read from a descriptor now, at most. 0: its peer begins more calls than it may;
 * epoll(7) will say again that there is something to read. */
size_t lh_connections_may_receive(int fd);

/* What was read from a descriptor: `size` bytes in `parts`. It is looked at as HTTP/2, if that is
 * how the connection began, for
 *   - calls that are opened and cancelled: who does nothing else keeps gRPC from everything else,
 *     and takes some ten KiB of memory with each until gRPC comes to it;
 *   - headers that do not end, of which gRPC keeps all.
 * What is not seen, since it is encrypted, is counted until something comes of it (fruitless_max).
 * False: there was too much, and the connection was cut; the reader sees its end. */
bool lh_connections_received(int fd, const struct iovec *parts, size_t part_count, size_t size);

/* A call from `peer`, as grpc_call_get_peer() prints it, begins. NULL: that connection is not
 * known. Each is to be ended once, NULL too. `*cut`: the connection was cut, so the call is not
 * worth serving. */
struct lh_connection *lh_connections_call(const char *peer, bool *cut);
void lh_connections_call_ended(struct lh_connection *connection);

/* A connection that a transport of our own reads, by its descriptor: gRPC hears nothing of it, so
 * what is received over it need not be looked at. NULL: it is not known. To be given back with
 * lh_connections_closing() before its descriptor is closed; its calls may end later. */
struct lh_connection *lh_connections_take(int fd);
void lh_connections_closing(struct lh_connection *connection);
/* A call over it begins, as lh_connections_call(). */
struct lh_connection *lh_connections_call_on(struct lh_connection *connection, bool *cut);
/* The config's. */
unsigned lh_connections_cancels_max(void);

/* A message of one of its calls was there in whole. NULL is allowed. */
void lh_connections_heard(struct lh_connection *connection);

/* Of all connections with the peer of that one, between lh_connections_call() and _call_ended().
 * NULL, of which nothing is known, has nothing. */
unsigned lh_connections_peer_calls(const struct lh_connection *connection);
uint64_t lh_connections_peer_unsent(const struct lh_connection *connection);
/* So many more bytes, or fewer, that it has not taken. */
void lh_connections_unsent(struct lh_connection *connection, int64_t bytes);

/* The peer's call was refused: says so, but not each time. */
void lh_connections_refused_call(struct lh_connection *connection, const char *why);
