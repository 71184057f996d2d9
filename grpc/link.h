/* A link: one call as a state machine (link.c). */
#pragma once

#include "admission/admission.h"
#include "base/buf.h"
#include "base/time.h"
#include "grpc/queues.h"
#include "grpc/services.h"
#include "grpc/tag.h"
#include "runtime/transport_methods.h"

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>

struct channel;
struct lh_rpc;
struct lh_rpc_link;

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
    struct lh_transport_link base; /* first */
    _Atomic uint32_t references;
    struct lh_rpc *rpc;
    const struct link_handler *handler;
    enum lh_method method;
    bool served, unary_request, unary_reply;
    struct lh_connection *connection; /* served links: as in struct served_call */
    struct queue *events;
    char *identity;          /* what base.identity is, to be freed; NULL: of nobody */
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

/* transport.c */
extern const struct lh_transport_link_methods lh_rpc_link_methods;

/* As lh_transport_link_...(). */
struct lh_rpc_link *lh_rpc_link_open(
    struct lh_rpc *rpc, enum lh_method method, const char *address, struct lh_duration timeout);
void lh_rpc_link_ref(struct lh_rpc_link *link);
void lh_rpc_link_unref(struct lh_rpc_link *link);
void lh_rpc_link_put(struct lh_rpc_link *link, struct lh_buf bytes, bool notify);
void lh_rpc_link_send(struct lh_rpc_link *link, struct lh_buf bytes);
void lh_rpc_link_close(struct lh_rpc_link *link, int error, const char *text);
void lh_rpc_link_read(struct lh_rpc_link *link);
void lh_rpc_link_flush(struct lh_rpc_link *link);

/* A link for a call that a peer made; its connection and queue are told of its end. The rpc holds
 * one reference until the call has ended and the caller gets another. */
struct lh_rpc_link *lh_rpc_link_serve(struct lh_rpc *rpc, const struct served_call *call,
    enum lh_method method, bool unary_request, bool unary_reply,
    const struct link_handler *handler);

/* Brackets a call of the owner's for the link: its end is not reported in between. */
void lh_rpc_link_enter(struct lh_rpc_link *link);
void lh_rpc_link_leave(struct lh_rpc_link *link);

/* events.c: the batches of the four tags are over. */
void lh_rpc_link_status_done(struct tag *tag, bool success);
void lh_rpc_link_send_done(struct tag *tag, bool success);
void lh_rpc_link_read_done(struct tag *tag, bool success);
void lh_rpc_link_end_done(struct tag *tag, bool success);

/* With the lock held: drops what was not sent; so many bytes of what counts as unsent have left. */
void lh_rpc_link_drop_queue(struct lh_rpc_link *link);
void lh_rpc_link_count_sent(struct lh_rpc_link *link, uint64_t bytes);

/* With the lock held, which both release. Reports the link's end if that is due, and gives the call
 * back once nothing can happen to it any more. */
void lh_rpc_link_settle(struct lh_rpc_link *link);
/* lh_rpc_link_flush(), and the same. Events end this way without letting go of the lock before:
 * whoever has the lock may be the one to give the call, and with it the link, back. */
void lh_rpc_link_flush_locked(struct lh_rpc_link *link);
