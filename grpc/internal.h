/* A node's end of all its links, which all files of grpc/ work on. Nothing outside includes this.
 *
 * Locks, in the order in which they may be nested: rpc->health_lock, link->lock, rpc->lock. The
 * last two are never held while gRPC starts a batch or the owner is called. */
#pragma once

#include "grpc/link.h"
#include "grpc/queues.h"
#include "grpc/services.h"
#include "grpc/tag.h"
#include "runtime/transport.h"
#include "tls/tls.h"

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>

struct acceptor;
struct channel;

struct lh_rpc {
    struct lh_transport base;    /* first */
    _Atomic uint32_t references; /* the owner's, and each link's: links may outlive it */
    struct lh_transport_config config;
    struct queue queues[QUEUES_MAX];   /* the first one is for all but most of the served calls */
    unsigned queue_count;              /* under the lock until the server is gone */
    struct shared_queue *shared_queue; /* NULL: the first one is its own */
    grpc_server *server;               /* NULL: serves nothing */
    int port;
    struct acceptor *acceptors;
    struct tag server_down_tag;
    struct lh_tls *tls, *foreign_tls; /* NULL: in the clear */
    uint64_t served_generation;       /* of tls: what the listener has; the fetcher's */
    _Atomic uint64_t served, unsent, calls_refused, peer_calls_refused, replies_dropped;
    _Atomic uint64_t requests_dropped;
    uint64_t tended_ns;           /* requests; the tender's */
    _Atomic unsigned reflections; /* streams that ask what is served here */

    pthread_mutex_t health_lock;   /* orders what watchers are sent */
    pthread_rwlock_t answers_lock; /* read while the owner is asked who may answer; not nested */
    bool answers_over;             /* it is asked no more */
    pthread_rwlock_t handing_lock; /* read while a connection is handed over (handed.c) */
    void *handler;                 /* gRPC's, that takes them; NULL: it takes none (any more) */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* server_down, accepting, or a link ended while stopping */
    struct channel *channels[LH_SERVER_KINDS]; /* for new links, by address and name */
    struct lh_rpc_link *links;                 /* every link with a call that has not ended */
    struct lh_rpc_link *watchers;              /* health watches among them */
    bool serving[2];                           /* enum health */
    unsigned accepting; /* acceptors that wait for a call, and calls that they are taking on */
    bool started, stopping, server_down;
};

extern const struct link_handler lh_rpc_owner_handler;

/* As lh_transport_...(). */
int lh_rpc_create(
    const struct lh_transport_config *config, struct lh_rpc **rpc, char *why, size_t why_size);
void lh_rpc_start(struct lh_rpc *rpc);
void lh_rpc_destroy(struct lh_rpc *rpc);
uint64_t lh_rpc_unsent(const struct lh_rpc *rpc);
void lh_rpc_figures(const struct lh_rpc *rpc, struct lh_transport_figures *figures);
/* The same, in tend.c, channel.c and health.c. */
void lh_rpc_housekeep(struct lh_rpc *rpc);
void lh_rpc_ask_who_answers(struct lh_rpc *rpc);
void lh_rpc_set_serving(struct lh_rpc *rpc, bool server, bool services);

void lh_rpc_unref(struct lh_rpc *rpc);

/* A served call of that connection is over: it does not count any more. */
void lh_rpc_call_ended(struct lh_rpc *rpc, struct lh_connection *connection, struct queue *events);

/* CLOCK_MONOTONIC, as of the last tick of some milliseconds. */
uint64_t lh_rpc_now_ns(void);
