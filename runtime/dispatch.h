/* What loop.c (inputs, beginning and end), network.c (what a transport reports) and dispatch.c
 * (feeding the core and carrying out) share. Nothing else includes this. */
#pragma once

#include "proto/codec.h"
#include "runtime/disk.h"
#include "runtime/loop.h"
#include "runtime/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uthash.h>

/* The loop's part of a link. Fields but `dirty` and `arrival` are under the loop's lock. */
struct lh_loop_link {
    uint64_t id;
    enum lh_method method;
    bool known;                          /* in the table: the core may name it and hears of it */
    bool held;                           /* LH_FX_HOLD */
    bool reading;                        /* asked for a message that has not been fed yet */
    _Atomic bool dirty;                  /* some dispatch will flush it */
    struct lh_instant progress_notified; /* of the message that is arriving; 0: not yet */
    /* Of whoever was brought the last piece, until it asks for the next one. */
    struct lh_wire_arrival arrival;
    struct lh_transport_link *carrier; /* the transport's */
    UT_hash_handle hh;
};

struct inputs {
    struct lh_input *items;
    size_t count, capacity;
};

struct lh_dispatch {
    struct inputs inputs;
    struct lh_effects fx;
    struct lh_transport_link **flush; /* each with a reference */
    size_t flush_count, flush_capacity;
    struct lh_disk_io *first_io, **last_io;
};

/* What waits in the outbox. */
struct parcel {
    enum lh_effect_kind kind;
    enum lh_level level;
    int error;
    uint64_t ticket;
    void *call;
    char *text;
    struct lh_change *changes;
    size_t change_count;
    bool beat; /* nothing else: of lh_dispatch_beat() */
};

struct outbox {
    struct parcel *items;
    size_t count, capacity;
};

/* Whose memory is kept for the next ones, and for how many items of a kind. */
#define DISPATCHES_KEPT 4
#define ITEMS_KEPT      512u

struct lh_loop {
    struct lh_loop_config config;
    struct lh_transport *transport;
    int timer_fd;
    pthread_t timer_thread;
    bool started;
    _Atomic(struct lh_dispatch *) spare[DISPATCHES_KEPT];

    pthread_mutex_t lock;
    _Atomic uint32_t inputs_wait; /* threads that wait for it, but the timer's */
    struct lh_loop_link *links;
    uint64_t served_count;
    struct lh_instant armed; /* when the timer thread will next wake */
    _Atomic uint64_t beats;  /* lh_loop_beats() */
    _Atomic bool beat_waits; /* in the outbox */
    _Atomic bool persisting; /* a commit is being begun, which may be slow */
    struct outbox outbox;    /* filled under the lock ... */
    struct outbox sending;   /* ... emptied by the one thread that set `delivering` */
    bool delivering;
    _Atomic bool outbox_waits;      /* something was put in and may not have been delivered */
    _Atomic uint64_t reading_bytes; /* asked of the disk for replies */
    bool stop_asked;
    bool stopped; /* the core emitted STOPPED, or the loop is being destroyed: nothing is fed */
    bool stopped_notified;
    int stop_error;
    pthread_cond_t stopped_changed;
    _Atomic bool ending;
};

/* Takes the lock, before the core's own work does: for whoever has inputs, and all others but the
 * timer's thread. */
static inline void lh_dispatch_lock(struct lh_loop *loop)
{
    atomic_fetch_add(&loop->inputs_wait, 1);
    pthread_mutex_lock(&loop->lock);
    atomic_fetch_sub(&loop->inputs_wait, 1);
}

/* For the timer's thread, before it takes the lock. A core with much to do asks for the next timer
 * at once, and a mutex may be taken again by the thread that has just released it: inputs would
 * wait until the core has done all. They go first, for a millisecond at most. */
static inline void lh_dispatch_give_way(struct lh_loop *loop)
{
    for (int i = 0; i < 10 && atomic_load(&loop->inputs_wait) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static inline bool lh_loop_link_served(const struct lh_loop_link *link)
{
    return (link->id & LH_LINK_SERVED) != 0;
}

/* A dispatch to use, empty. It ends with lh_dispatch_run() or lh_dispatch_end(). */
struct lh_dispatch *lh_dispatch_begin(struct lh_loop *loop);
void lh_dispatch_end(struct lh_loop *loop, struct lh_dispatch *d);
void lh_dispatch_free(struct lh_dispatch *d);

/* Adds a zeroed input; valid until the next one is added. */
struct lh_input *lh_dispatch_input(struct lh_dispatch *d, enum lh_input_kind kind);

/* Adds a completed disk operation as an input and frees it. */
void lh_dispatch_disk_input(struct lh_loop *loop, struct lh_dispatch *d, struct lh_disk_io *io);

/* Feeds the dispatch's inputs and carries out what comes of it, until there is nothing left. The
 * second is called with the lock held, which it releases. */
void lh_dispatch_run(struct lh_loop *loop, struct lh_dispatch *d);
void lh_dispatch_run_locked(struct lh_loop *loop, struct lh_dispatch *d);

/* These with the lock held. */

/* Puts a link into the table, which takes over the caller's reference to `carrier`. */
struct lh_loop_link *lh_loop_enter_link(
    struct lh_loop *loop, struct lh_transport_link *carrier, uint64_t id, enum lh_method method);
void lh_loop_forget_link(struct lh_loop *loop, struct lh_loop_link *link);

/* Has the dispatch flush the link once the lock is released. */
void lh_dispatch_flush_link(struct lh_dispatch *d, struct lh_loop_link *link);

/* outbox.c. Puts a commit, a completion, a line or the end into the outbox; takes what `e` has. */
void lh_outbox_post(struct lh_loop *loop, struct lh_effect *e);
/* Empties the outbox, unless another thread is at it: that one will come to what we put in. With
 * the lock held, which is released while callbacks run. */
void lh_outbox_empty(struct lh_loop *loop);

/* The end of a link that neither side asked for, for both of them. `text` lasts until the dispatch
 * has run. */
void lh_dispatch_end_link(struct lh_loop *loop, struct lh_dispatch *d, struct lh_loop_link *link,
    int error, const char *text);

/* A thread begins, or ends, a round: what the inputs in between cause, but for the steps
 * themselves, is carried out together at its end. A message leaves once for all of them, and a
 * file is written to once. */
void lh_dispatch_round(struct lh_loop *loop, bool begins);

/* The timer has woken: a beat once the outbox has been emptied so far. */
void lh_dispatch_beat(struct lh_loop *loop);
/* `may_answer` of the loop's network; takes the lock. */
int lh_loop_may_answer(void *loop, enum lh_server_kind kind, const char *name, const char *identity,
    bool apart, char *text, size_t text_size);

/* network.c. The loop's transport, with the loop's callbacks; errors as lh_transport_create(). */
LH_MUST_USE int lh_loop_network_create(struct lh_loop *loop, char *why, size_t why_size);
/* Cuts all links that the core has not closed. Takes the lock. */
void lh_loop_network_cut_links(struct lh_loop *loop);

/* Asks for the link's next message. */
void lh_dispatch_want_message(struct lh_dispatch *d, struct lh_loop_link *link);
