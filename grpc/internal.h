/* What the files of grpc/ share. Nothing outside includes this.
 *
 * Locks, in the order in which they may be nested: rpc->health_lock, link->lock, rpc->lock. The
 * last two are never held while gRPC starts a batch or the owner is called. */
#pragma once

#include "admission/admission.h"
#include "grpc/answers.h"
#include "grpc/rpc.h"
#include "tls/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <pthread.h>
#include <stdatomic.h>

/* What a completion queue's event names: it is told how its batch went, once. */
struct tag {
    void (*done)(struct tag *tag, bool success);
    /* gRPC orders the start of a batch before its event. Stated here again, since thread
     * sanitizers do not see into gRPC: written before the start, read before `done`. */
    _Atomic unsigned posts;
};

static inline void tag_post(struct tag *tag)
{
    atomic_fetch_add_explicit(&tag->posts, 1, memory_order_release);
}

static inline void tag_take(struct tag *tag)
{
    (void)atomic_load_explicit(&tag->posts, memory_order_acquire);
}

struct channel;

/* What is asked about: the server (""), or one of its services. */
enum health { HEALTH_SERVER, HEALTH_SERVICES };

/* Of served calls: fewer in a queue cost more in threads that wake each other, more of them in
 * looking for tags (queues.c). */
#define QUEUE_CALLS 2048u
#define QUEUES_MAX  64u

/* A completion queue, and the threads that wait for it. */
struct queue {
    grpc_completion_queue *grpc;
    pthread_t *threads;
    unsigned thread_count; /* that run */
    unsigned calls;        /* served ones, and those that may come; under rpc->lock */
};

struct lh_rpc {
    _Atomic uint32_t references; /* the owner's, and each link's: links may outlive it */
    struct lh_rpc_config config;
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
    pthread_mutex_t lock;
    pthread_cond_t changed; /* server_down, accepting, or a link ended while stopping */
    struct channel *channels[LH_SERVER_KINDS]; /* for new links, by address and name */
    struct lh_rpc_link *links;                 /* every link with a call that has not ended */
    struct lh_rpc_link *watchers;              /* health watches among them */
    bool serving[2];                           /* enum health */
    unsigned accepting; /* acceptors that wait for a call, and calls that they are taking on */
    bool started, stopping, server_down;
};

/* A call that a peer made. */
struct served_call {
    grpc_call *grpc;
    struct lh_connection *connection; /* whose; NULL if not known */
    struct queue *events;             /* where those of its batches come */
};

/* Who is told of a link's events: the owner, or one of the standard services. */
struct link_handler {
    void (*message)(struct lh_rpc_link *link, struct lh_buf bytes);
    void (*half_closed)(struct lh_rpc_link *link); /* NULL: not of interest */
    void (*sent)(struct lh_rpc_link *link);        /* for what is sent with `notify` */
    void (*closed)(struct lh_rpc_link *link, int error, const char *text);
    void (*released)(struct lh_rpc_link *link); /* NULL, or: the last reference is gone */
};

struct queued {
    struct lh_buf bytes;
    bool notify;
    struct queued *next;
};

struct lh_rpc_link {
    _Atomic uint32_t references;
    struct lh_rpc *rpc;
    const struct link_handler *handler;
    enum lh_method method;
    bool served, unary_request, unary_reply;
    struct lh_connection *connection; /* served links: as in struct served_call */
    struct queue *events;
    char *identity;          /* served links: who the peer is; NULL: nobody says so */
    char *address;           /* opened links, until the call exists */
    struct channel *channel; /* opened links with a call */
    char *token;             /* opened links of foreign methods; NULL: none */
    struct lh_duration timeout;

    grpc_call *call;
    struct tag status_tag, send_tag, read_tag, end_tag;
    /* What gRPC fills in while batches are under way. */
    grpc_metadata_array initial_metadata, trailing_metadata;
    grpc_status_code status;
    grpc_slice status_details;
    int cancelled;
    grpc_byte_buffer *received;
    grpc_byte_buffer *sent;

    pthread_mutex_t lock; /* for all below */
    struct queued *queue, **queue_end;
    bool flushing, flush_again;
    bool started;      /* the call exists and its first batch was started */
    bool initial_sent; /* served: initial metadata went out with the first message or the status */
    bool sending, reading, read_wanted, read_ended, got_message;
    bool close_wanted, close_done; /* by the owner; carried out */
    int close_error;
    uint64_t served_ns; /* served links: when the call began */
    uint64_t closed_ns; /* when close_wanted was set */
    char *close_text;
    /* Served links: bytes of messages that count as rpc->unsent, and of the one being sent. */
    uint64_t unsent, sending_bytes;
    bool sending_notify; /* its owner wants to know when it has left */
    bool over;           /* the call's end was seen: no further batch is of use */
    bool reported;       /* no more callbacks: the owner closed it, or on_closed was called */
    bool ended;          /* the call was given back to gRPC */
    unsigned under_way, callbacks;
    int end_error;
    char *end_text;

    /* Under rpc->lock. */
    struct lh_rpc_link *previous, *next;
    struct lh_rpc_link *watch_previous, *watch_next;
    bool watching;
    enum health watched;

    _Alignas(max_align_t) unsigned char data[];
};

/* rpc.c */

extern const struct link_handler lh_rpc_owner_handler;

void lh_rpc_unref(struct lh_rpc *rpc);

/* A served call of that connection is over: it does not count any more. */
void lh_rpc_call_ended(struct lh_rpc *rpc, struct lh_connection *connection, struct queue *events);

/* CLOCK_MONOTONIC, as of the last tick of some milliseconds. */
uint64_t lh_rpc_now_ns(void);

/* queues.c */

void lh_rpc_queues_create(struct lh_rpc *rpc, bool serves);
void lh_rpc_queues_start(struct lh_rpc *rpc);
void lh_rpc_queues_destroy(struct lh_rpc *rpc);
/* Where the events of the next served call shall come. It counts there until _leave(). */
struct queue *lh_rpc_queue_take(struct lh_rpc *rpc);
void lh_rpc_queue_leave(struct lh_rpc *rpc, struct queue *q);

/* bytes.c */

/* A byte buffer of `bytes` without copying more than small pieces; takes over `bytes`. */
grpc_byte_buffer *lh_rpc_bytes_out(struct lh_buf bytes);

/* A buf over a received byte buffer, which it takes over. */
struct lh_buf lh_rpc_bytes_in(grpc_byte_buffer *received);

/* address.c */

/* Whether something can listen on `address`, as far as can be known beforehand: gRPC takes a Unix
 * socket away from a living server without a word. */
int lh_rpc_check_listen(const char *address, char *why, size_t why_size);

/* Why gRPC may have refused to listen on `address`: never LH_OK. */
int lh_rpc_explain_listen(const char *address, char *why, size_t why_size);

/* channel.c */

/* The shared channel to a server (lh_server_at()); the caller uses it until it gives it back. It is
 * another one than before once certificates were renewed: what began over the old one goes on
 * there. */
struct channel *lh_rpc_channel_take(
    struct lh_rpc *rpc, const char *server, enum lh_server_kind kind);
grpc_channel *lh_rpc_channel_of(const struct channel *channel);
/* With rpc->lock held. NULL is allowed. */
void lh_rpc_channel_give(struct channel *channel);
void lh_rpc_channels_destroy(struct lh_rpc *rpc);
/* Whoever answers there is not meant any more: its calls end. With rpc->lock held, both. */
bool lh_rpc_channel_has_ended(const struct channel *channel);
void lh_rpc_channel_cancel(grpc_call *call);
/* lh_rpc_answerer_refusal(), if that is what `text`, gRPC's, is about. */
char *lh_rpc_channel_refusal(const struct channel *channel, const char *text);

/* Settings that both ends need; see there. Returns how many of `args` were set. */
#define RPC_ARGS_MAX 40
size_t lh_rpc_common_args(const struct lh_rpc *rpc, size_t receive_max, grpc_arg *args);
grpc_arg lh_rpc_int_arg(const char *key, int value);
int lh_rpc_milliseconds(struct lh_duration d);

/* foreign.c */

/* Settings of a channel to a server that is not ours. Returns how many of `args` were set. */
size_t lh_rpc_foreign_args(grpc_arg *args);

/* What an opened link's call is to say besides its message; how many of `metadata` were set, their
 * values to be unreferenced. */
#define FOREIGN_METADATA_MAX 2
size_t lh_rpc_foreign_metadata(const struct lh_rpc_link *link, grpc_metadata *metadata);

/* credentials.c */

/* What a new channel is made with, and which generation of `tls` that is; NULL: in the clear.
 * `answerer` NULL: to this process itself. */
grpc_channel_credentials *lh_rpc_channel_credentials(
    struct lh_tls *tls, struct answerer *answerer, uint64_t *generation);
/* Of the listener. */
grpc_server_credentials *lh_rpc_server_credentials(struct lh_rpc *rpc);

/* Who makes this call, by its certificate; without TLS "". False: the certificate names nobody, and
 * `identity` says why. */
bool lh_rpc_identity(
    const struct lh_rpc *rpc, grpc_call *call, char identity[LH_LINK_IDENTITY_MAX + 1]);

/* The log of gRPC, which nobody reads otherwise: takes what it says of handshakes. */
void lh_rpc_hear_grpc(gpr_log_func_args *args);

/* link.c */

/* A link for a call that a peer made; its connection and queue are told of its end. The rpc holds
 * one reference until the call has ended and the caller gets another. */
struct lh_rpc_link *lh_rpc_link_serve(struct lh_rpc *rpc, const struct served_call *call,
    enum lh_method method, bool unary_request, bool unary_reply,
    const struct link_handler *handler);

/* Begins to wait for the peer's end of a served link (batches.c). */
void lh_rpc_link_await_end(struct lh_rpc_link *link);

/* Brackets a call of the owner's for the link: its end is not reported in between. */
void lh_rpc_link_enter(struct lh_rpc_link *link);
void lh_rpc_link_leave(struct lh_rpc_link *link);

/* batches.c: each starts one batch, without the lock; the caller has counted it as under way. */

void lh_rpc_link_create_call(struct lh_rpc_link *link);

/* The batch that waits for an opened link's end. */
void lh_rpc_link_await_status(struct lh_rpc_link *link);

/* Starts the next send batch: a message, the status, or both. `last`: nothing is queued behind it.
 * Takes over `q`, which is NULL when there is only a status to send. */
void lh_rpc_link_start_send(
    struct lh_rpc_link *link, struct queued *q, bool last, bool status, bool initial);

void lh_rpc_link_start_read(struct lh_rpc_link *link);

/* status.c */

/* "NAME: text", with the error's own text if it is NULL. */
grpc_slice lh_rpc_status_message(int error, const char *text);

/* "NAME: text" back to its error, with *details moved on to the text; otherwise by the code. What a
 * foreign server says is left as it is. */
int lh_rpc_error_of(grpc_status_code status, bool foreign, const char **details);

/* What the owner is told of an opened link's end, to be freed: with a hint where connections fail
 * for want of TLS or by it. NULL: nothing was said. */
char *lh_rpc_end_text(const struct lh_rpc_link *link, int error, const char *text);

/* health.c */

/* Serves the call if `path` is a method of the health service; false if it is not. */
bool lh_rpc_health_serve(
    struct lh_rpc *rpc, const struct served_call *call, const char *path, size_t size);

/* reflection.c */

/* Likewise for the reflection service. */
bool lh_rpc_reflection_serve(
    struct lh_rpc *rpc, const struct served_call *call, const char *path, size_t size);
