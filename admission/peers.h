/* What one address has of this process: its connections, its calls, what it does not take.
 *
 * A peer is an IPv4 address, or the first 64 bits of an IPv6 one: whoever has one address there has
 * all of them. Kept under the lock of connections.c, but for what is atomic. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uthash.h>

/* The other end: an IPv6 address (of IPv4 the mapped one) and a port, without padding. */
struct lh_end {
    uint8_t ip[16];
    uint8_t port[2];
};

/* Of what accept(2) says, and of the socket itself. False: it has none, as over a Unix socket, or
 * as a socket whose other end has broken the connection. */
bool lh_end_of_address(const struct sockaddr_storage *address, struct lh_end *end);
bool lh_end_of_socket(int fd, struct lh_end *end);
/* Of what grpc_call_get_peer() prints: "ipv4:10.0.0.1:4711", "ipv6:%5Bfe80::1%25eth0%5D:4711" with
 * or without the escapes. */
bool lh_end_of_text(const char *text, struct lh_end *end);

struct lh_connection;

struct lh_peer {
    uint8_t network[16]; /* of IPv4 the mapped address */
    unsigned users;      /* connections that name it: listed ones, and those with calls */
    unsigned open;       /* listed ones */
    unsigned paced;      /* of these, not read from for the moment */
    struct lh_connection *connections;
    uint64_t swept;
    /* When all the connections that it began would have been due at their rate, its calls, and
     * those of them that gRPC has said nothing of. */
    uint64_t due_ns, calls_due_ns, unseen_due_ns;
    _Atomic unsigned calls;
    _Atomic uint64_t unsent; /* bytes of replies */
    UT_hash_handle hh;
};

struct lh_peers {
    struct lh_peer *all;
    uint64_t collected;
};

/* The one of that address, which then has one user more. */
struct lh_peer *lh_peer_take(struct lh_peers *peers, const uint8_t ip[16], uint64_t now_ns);
/* One user less. Without any it is still known for as long as its rate says. */
void lh_peer_give(struct lh_peers *peers, struct lh_peer *peer, uint64_t now_ns);

/* Whether it may begin one more connection: `rate` a second, and twice that at once; 0: as many as
 * it likes. If so, it has begun it. */
bool lh_peer_may_begin(struct lh_peer *peer, unsigned rate, uint64_t now_ns);

/* It began so many calls, of `rate` a second. */
void lh_peer_began(struct lh_peer *peer, unsigned calls, unsigned rate, uint64_t now_ns);
/* It began them by what was read from it, and gRPC has still to say so, with _seen() for each. Some
 * calls gRPC refuses without a word. */
void lh_peer_sent(struct lh_peer *peer, unsigned calls, unsigned rate, uint64_t now_ns);
void lh_peer_seen(struct lh_peer *peer, unsigned rate, uint64_t now_ns);
/* Whether it is ahead of that rate at all, and by more than a moment. That one counts for one that
 * is alone only as far as gRPC has not come to its calls. */
bool lh_peer_is_busy(const struct lh_peer *peer, uint64_t now_ns);
bool lh_peer_is_ahead(const struct lh_peer *peer, bool alone, uint64_t now_ns);

#define LH_PEER_TEXT_BYTES 64
void lh_peer_print(const struct lh_peer *peer, char text[LH_PEER_TEXT_BYTES]);
