/* The wire's driver, for its files: transport.c (a node's end), links.c (the door's operations on
 * links), connections.c and reading.c (a connection's bytes and events), dialling.c (how one
 * begins that is opened here), listening.c (and one that is accepted), loops.c (the threads).
 *
 * Locks: wire->lock before connection->lock before loop->lock. The owner is called with none of
 * them held, and what it calls here may be called under locks of its own.
 *
 * Who does what: a connection's loop alone reads from it and reports what arrives. Whoever has
 * something to write writes it, one at a time; others leave it to that one. */
#pragma once

#include "admission/admission.h"
#include "base/time.h"
#include "base/timers.h"
#include "runtime/transport.h"
#include "wire/mux.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <uthash.h>

struct addrinfo;
struct connection;
struct loop;
struct wire;

struct wire_link {
    struct lh_transport_link base; /* first */
    _Atomic uint32_t references;
    struct connection *connection; /* with a reference */
    enum lh_method method;
    bool served;
    struct lh_connection *admitted; /* a served one counts there; NULL: not known */
    /* Under the connection's lock. */
    struct lh_mux_link *mux;           /* NULL: over, or: */
    struct lh_transport_link *instead; /* gRPC carries it (fallback.c) */
    unsigned callbacks;                /* the owner is being called for it */
    bool silent;                       /* the owner closed it, or knows of its end */
    bool end_waits;                    /* for callbacks */
    int end_error;
    char *end_text;
    _Alignas(max_align_t) unsigned char data[];
};

enum connection_state {
    CONNECTION_NEW,       /* opened here, and nothing was done yet */
    CONNECTION_RESOLVING, /* its address is being looked up */
    CONNECTION_DIALLING,
    CONNECTION_DECIDING, /* accepted: what does it speak? */
    CONNECTION_SECURING, /* in its handshake */
    CONNECTION_OPEN,
    CONNECTION_OVER
};

struct connection {
    _Atomic uint32_t references;
    struct wire *wire;
    struct loop *loop;
    bool serves;
    char *peer;                     /* an accepted one's, as links hear of it */
    struct lh_connection *admitted; /* an accepted one's; NULL: not known */
    char *server; /* an opened one's: where, and perhaps who (lh_server_address()) */
    enum lh_server_kind kind;
    enum lh_mux_class class_;
    bool lacks_grpc; /* gRPC would carry its links, and cannot be had */

    uint64_t generation;   /* of the certificates that an opened one shows */
    struct secure *secure; /* NULL: in the clear. Made with the handshake */

    pthread_mutex_t lock;                /* for all below */
    char *identity;                      /* of the other end, with TLS; NULL: not known (yet) */
    char *refusal;                       /* why no call of it is served; NULL: they are */
    _Atomic enum connection_state state; /* the loop reads it without the lock */
    int fd;                              /* -1: none. Closed by the loop alone */
    struct lh_mux *mux;
    _Atomic bool fell_back;    /* its links are carried by gRPC */
    bool writing, write_again; /* somebody writes; there is more since */
    bool full;                 /* the socket took no more */
    uint32_t room_edges;       /* times that it said to take more */
    bool write_failed;
    uint64_t counted_queued, counted_waiting;  /* as they are in the wire's sums */
    struct lh_instant used;                    /* when its last link ended */
    struct lh_instant armed;                   /* the loop looks at it then at the latest */
    struct addrinfo *addresses, *next_address; /* an opened one's */
    struct lh_duration attempt;                /* with one of them, while there are others */
    struct lh_instant attempt_ends;

    /* The loop's, under its lock. */
    struct lh_timer timer;
    bool kicked;
    struct connection *next_kicked;
    /* The loop thread's. */
    bool listed, hot;
    bool was_crowded; /* in the last second */
    unsigned calls_begun;
    uint64_t calls_second;
    _Atomic bool read_due; /* something may have come that no event speaks of */
    struct connection *next_hot;
    struct connection *previous, *next; /* all of the loop */

    /* Under wire->handshakes_lock. */
    bool handshake_waits;
    struct connection *next_handshake;

    /* Under wire->lock. */
    bool in_table;
    UT_hash_handle hh;
};

/* A server that turned out to speak gRPC alone. */
struct grpc_only {
    struct lh_instant until; /* it is tried again then */
    UT_hash_handle hh;
    char server[];
};

struct tls_side {
    SSL_CTX *context;
    uint64_t generation;
};

#define HANDSHAKE_THREADS 2

struct listener {
    int fd;
};

#define LISTENERS_MAX 8
/* What connections of a loop read into, one by one. A part that is kept keeps all of it: so
 * small ones are copied (lh_mux_config.refer_bytes). */
#define LH_READ_BLOCK_BYTES (128u << 10)
/* An accepted connection over which nothing comes for so long is closed. */
#define DECIDE_SECONDS 5u

struct loop {
    struct wire *wire;
    pthread_t thread;
    bool started;
    int epoll, event;
    /* What is being read into. */
    struct lh_block *block;
    uint8_t *block_bytes;
    size_t block_used;
    struct connection *connections;
    struct connection *hot; /* to be looked at again in this round */

    pthread_mutex_t lock; /* for all below */
    struct connection *kicked;
    struct lh_timers timers;
    struct lh_instant sleeps_until; /* LH_INSTANT_NEVER, too; zero: it is awake */
    bool ending;
};

struct wire {
    struct lh_transport base; /* first */
    _Atomic uint32_t references;
    struct lh_transport_config config;
    struct loop *loops;
    unsigned loop_count;
    _Atomic unsigned next_loop;
    struct listener listeners[LISTENERS_MAX];
    unsigned listener_count;
    int port;
    char *unlink_path; /* of a Unix socket */
    _Atomic uint64_t connections, served, unsent, waiting, calls_refused, peer_calls_refused,
        replies_dropped;
    _Atomic bool stopping;
    _Atomic unsigned answers_asked; /* times that who may answer was asked again */

    pthread_mutex_t lock; /* for all below */
    pthread_cond_t changed;
    struct lh_transport *grpc;    /* NULL: not needed so far */
    struct lh_transport *instead; /* gRPC for links that were begun here (fallback.c); likewise */
    struct connection *table[LH_SERVER_KINDS][LH_MUX_CLASSES]; /* for new links, by server */
    struct grpc_only *grpc_only;
    struct tls_side sides[2]; /* clients, servers */
    unsigned resolving;       /* threads */
    bool started, over;

    struct lh_tls *tls;              /* NULL: in the clear */
    SSL_CTX *offer_context;          /* the accepting loop's, to look at what a client offers */
    pthread_mutex_t handshakes_lock; /* for all below */
    pthread_cond_t handshakes_changed;
    struct connection *handshakes,
        **last_handshake; /* with a step to make; each with a reference */
    pthread_t handshakers[HANDSHAKE_THREADS];
    unsigned handshake_threads;
    bool handshakes_over;
};

static inline struct wire *wire_of(struct lh_transport *transport)
{
    return (struct wire *)transport;
}

extern const struct lh_transport_link_methods lh_wire_link_methods;

struct lh_instant lh_wire_now(void);

/* transport.c */
void lh_wire_unref(struct wire *wire);
/* gRPC, begun if it was not; with the same owner. NULL: it cannot be had now, or this ends. */
struct lh_transport *lh_wire_grpc(struct wire *wire);

/* links.c */
struct wire_link *lh_wire_link_create(struct connection *c, enum lh_method method, bool served);
void lh_wire_link_unref(struct wire_link *link);
/* With the connection's lock held, which it lets go of while the owner is called: it is over. */
void lh_wire_link_ended(struct wire_link *link, int error, char *text, bool by_peer);
/* Around a call of the owner about it: the first lets go of the connection's lock, which is held,
 * and the second takes it again. An end that comes meanwhile is reported by the second. */
void lh_wire_link_enter(struct wire_link *link);
void lh_wire_link_leave(struct wire_link *link);
struct lh_transport_link *lh_wire_link_open(struct lh_transport *transport, enum lh_method method,
    const char *address, struct lh_duration timeout);
void lh_wire_flush_begin(struct lh_transport *transport);
void lh_wire_flush_end(struct lh_transport *transport);

/* fallback.c. The server of that connection speaks gRPC alone: its links are carried so, and new
 * ones to it. With the connection's lock held, which is let go of meanwhile. By any thread. */
void lh_connection_fall_back(struct connection *c);
/* What was written down for a link that gRPC carries, if it does. Any thread. */
void lh_wire_link_flush_instead(struct wire_link *link);
/* Whether one is known to. With wire->lock held. */
bool lh_wire_speaks_grpc_alone(struct wire *wire, const char *server);

/* handshakes.c */
uint64_t lh_wire_generation(struct wire *wire);
/* Has a thread make what step of the handshake can be made. Any thread. */
void lh_connection_secure(struct connection *c);
void lh_connection_ask_who_answers(struct connection *c);
void lh_handshakes_end(struct wire *wire);

/* connections.c */
struct connection *lh_connection_create(struct wire *wire, bool serves);
void lh_connection_ref(struct connection *c);
void lh_connection_unref(struct connection *c);
void lh_connection_begin_mux(struct connection *c);
/* Writes what there is to write, begins what was not begun, and has the loop report what there is
 * to report. Any thread. */
void lh_connection_service(struct connection *c);
/* By its loop alone. */
void lh_connection_ready(struct connection *c, uint32_t events);
void lh_connection_tick(struct connection *c, struct lh_instant now);
void lh_connection_end(struct connection *c);
/* Before it: nothing is sent any more; what the other end still sends is dropped, until it closes
 * the connection or the time has come. */
void lh_connection_say_end(struct connection *c);
void lh_connection_hear_out(struct connection *c, struct lh_instant until);
/* With its lock held. */
void lh_connection_break(struct connection *c, const char *text);
void lh_connection_count(struct connection *c);
/* It is not for new links any more. */
void lh_connection_forget(struct connection *c);

/* reading.c. By its loop alone. `ends`: its end is known to come. */
void lh_connection_read(struct connection *c, bool ends);
void lh_connection_report(struct connection *c);
/* It broke; `error`: errno, 0: the other end closed it. */
void lh_connection_lost(struct connection *c, int error);

/* dialling.c. With the connection's lock held. */
void lh_connection_dial(struct connection *c);
void lh_connection_dialled(struct connection *c);
/* The next address, if the present one has not answered in time. By its loop, without the lock. */
void lh_connection_try_on(struct connection *c, struct lh_instant now);
void lh_wire_set_options(int fd, bool is_unix);

/* listening.c */
int lh_wire_listen(struct wire *wire, const char *address, char *why, size_t why_size);
void lh_wire_begin_accepting(struct wire *wire);
void lh_wire_accept(struct loop *loop, const struct listener *listener);
void lh_connection_decide(struct connection *c);
void lh_wire_stop_listening(struct wire *wire);
/* Behind it, once no loop can be accepting. */
void lh_wire_close_listeners(struct wire *wire);

/* loops.c */
LH_MUST_USE int lh_loops_create(struct wire *wire, char *why, size_t why_size);
/* Their threads, which wait until there is something to do. */
LH_MUST_USE int lh_loops_start(struct wire *wire, char *why, size_t why_size);
void lh_loops_end(struct wire *wire);
void lh_loops_fork(struct lh_transport *transport, enum lh_fork where);
struct loop *lh_loops_choose(struct wire *wire);
/* All its connections, each with a reference; free() frees the array. Any thread. */
struct connection **lh_loop_connections(struct loop *loop, size_t *count);
/* Has the loop look at the connection. Any thread. */
void lh_loop_kick(struct connection *c);
/* The connection wants to be looked at then, at the latest; with its lock held. */
void lh_loop_arm(struct connection *c, struct lh_instant at);
/* By the loop's thread: takes a connection on, that has a descriptor; and lets it go. */
bool lh_loop_watch(struct connection *c);
/* Closes a descriptor that it watches. A child of fork() may have it, too: a close alone would
 * leave it in the set, which would go on naming the connection. */
void lh_loop_close(const struct loop *loop, int fd);
void lh_loop_list(struct connection *c);
void lh_loop_unlist(struct connection *c);
/* By the loop's thread: look at it again in this round. */
void lh_loop_heat(struct connection *c);
