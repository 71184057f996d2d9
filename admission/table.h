/* The table of connections (admission.h), for the files that keep it: connections.c, who comes
 * and goes; arriving.c, what is read from them. All with its lock held. */
#pragma once

#include "admission/admission.h"
#include "admission/frames.h"
#include "admission/peers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <uthash.h>

#define LH_CONNECTIONS_SECOND_NS UINT64_C(1000000000)

struct lh_connection {
    struct lh_end end;
    bool named;                        /* has an end: can be cut, and is in `by_end` */
    struct lh_peer *peer;              /* of named ones */
    struct lh_connection *prev, *next; /* the peer's, while listed */
    bool listed, cut, paced;
    bool owned;   /* by a transport of ours */
    bool crowded; /* it begins many calls a second */
    int fd;
    unsigned calls;
    uint64_t used;           /* when the last call began or ended, or when it was accepted */
    struct lh_frames frames; /* calls of that second */
    uint64_t second;
    _Atomic uint64_t fruitless; /* bytes that came since anything came out of gRPC */
    UT_hash_handle hh;
};

struct lh_connections_table {
    pthread_mutex_t lock;
    struct lh_connections_config config;
    struct lh_connection *by_end;
    struct lh_connection **by_fd;
    size_t fd_capacity;
    unsigned open;
    struct lh_peers peers;
    const void *recent; /* the peer that sent something last; only compared */
    uint64_t mixed_ns;  /* when another one had before */
    unsigned calling;   /* peers with calls */
    unsigned paced;     /* connections */
    int spare;          /* -1: none */
    uint64_t swept, logged;
    _Atomic uint64_t fruitless; /* of all connections */
    struct lh_connections_figures figures;
};

extern struct lh_connections_table lh_connections_table;

static inline uint64_t lh_connections_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * LH_CONNECTIONS_SECOND_NS + (uint64_t)t.tv_nsec;
}

/* Says what happened, to whom if that is one peer, but not each time. */
void lh_connections_say(const char *what, const struct lh_peer *peer);

/* Whether the descriptor still is this connection: gRPC closes it without telling us. */
bool lh_connections_alive(const struct lh_connection *c);

/* Something came of what it sent. */
void lh_connections_bear(struct lh_connection *c);

/* Takes it off the table. It is freed when it has no calls. */
void lh_connections_forget(struct lh_connection *c);

/* A descriptor that was closed and opened again since the look is another connection's only if that
 * has the same peer; it then breaks, which connections do. */
void lh_connections_cut(struct lh_connection *c);

/* Whether it is not read from for the moment. Of one with a peer. */
void lh_connections_set_paced(struct lh_connection *c, bool paced);
