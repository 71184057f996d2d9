/* The loop that feeds one core and carries out its effects over a transport, a disk and a metadata
 * store.
 *
 * There is no loop thread. Whoever brings an input (a thread that waits for the network, one that
 * reaps the disk, the timer, a caller of lh_loop_call()) steps the core under the loop's one lock
 * and carries the effects out itself: nothing is handed from thread to thread. Under the lock only
 * order is decided (which message comes first on a link, which batch is committed first); system
 * calls are made after it is released.
 *
 * Every input carries a reading of CLOCK_BOOTTIME taken when it is fed, under the lock (TIME-2,
 * TIME-5). Inputs that come of carrying effects out (a write completed on the spot) are fed by the
 * same thread before it returns.
 *
 * What has to happen in order but not under the lock (commits, completions, log lines, STOPPED)
 * goes through one queue, emptied by one thread at a time. So a completion callback may call
 * lh_loop_call() again, and completions never nest; but while one callback blocks, all later ones
 * wait.
 *
 * Large messages travel in pieces (proto/codec.h), which are taken apart and put together here,
 * without a copy. What has arrived of one is kept until the rest has, or the link is over. */
#pragma once

#include "access/access.h"
#include "base/error.h"
#include "base/step.h"
#include "base/time.h"
#include "runtime/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_disk;
struct lh_loop;

struct lh_loop_config {
    struct lh_core core; /* `self` stays the caller's; not stepped before lh_loop_start() */
    const char *name;    /* component in log lines: "master"; static */

    /* What carries links to other nodes (runtime/transport.h); NULL: the wire. */
    const struct lh_transport_methods *transport;
    /* Of it: see struct lh_transport_config for the meaning and the defaults (0). */
    const char *listen; /* NULL: serve nothing */
    unsigned threads;
    struct lh_duration keepalive, keepalive_timeout, connect_timeout, grace;
    const char *const *services;
    unsigned calls_max, peer_calls_max; /* what peers may take */
    size_t memory_max, unsent_max, peer_unsent_max, served_message_max;
    struct lh_duration handshake_timeout, idle_timeout, request_timeout;
    struct lh_tls_files tls; /* of connections with nodes of ours */
    /* Of connections to etcd. Who has a certificate of `tls`'s authority must have etcd's role
     * there; without `tls` any authority is another one (ACC-8). */
    struct lh_tls_files foreign_tls;
    /* The table of roles that says who may answer (ACC-8); NULL: certificates alone do. It may
     * change under lh_loop_lock(); lh_loop_ask_who_answers() follows. */
    const struct lh_access *access;

    size_t alone_bytes;                   /* a payload that is sent in one; 0: LH_ALONE_BYTES */
    size_t piece_bytes;                   /* of a larger one, at once; 0: LH_PIECE_BYTES */
    struct lh_duration progress_interval; /* LH_IN_PROGRESS at most this often in one message; 0:
                                             20 ms */

    struct lh_disk *disk; /* for LH_FX_DISK; NULL: none. Stays the caller's; the loop sets its
                             lh_disk_on_done() until lh_loop_destroy() */

    /* For LH_FX_PERSIST: commits `changes` atomically, after all earlier ones, and then has
     * lh_loop_persisted() called from any thread (also from within). Takes over the changes, to be
     * freed with lh_changes_free(). Called without the lock, one call at a time. NULL: none. */
    void (*persist)(void *store, uint64_t ticket, struct lh_change *changes, size_t count);
    void *store;

    /* LH_FX_COMPLETE and LH_FX_STOPPED. Called without the lock, one at a time, in order. May be
     * NULL when the core emits none. */
    void (*on_complete)(void *arg, void *call, int error);
    void (*on_stopped)(void *arg, int error);
    void *arg;
};

/* Binds the port and prepares everything, threads as well; nothing is done yet. Errors as
 * lh_transport_create(), with a sentence in `why`. */
LH_MUST_USE int lh_loop_create(
    const struct lh_loop_config *config, struct lh_loop **loop, char *why, size_t why_size);

/* The TCP port listened on, 0 for none or a Unix socket. Known since lh_loop_create(). */
int lh_loop_port(const struct lh_loop *loop);

/* Accepts links from now on, and feeds a first LH_IN_TIMER. */
void lh_loop_start(struct lh_loop *loop);

/* Feeds LH_IN_CALL. Any thread, also from callbacks; not while holding lh_loop_lock(). After
 * STOPPED it is ignored: returns false and `call` will not complete. */
bool lh_loop_call(struct lh_loop *loop, void *call);

/* A commit begun by `persist` is durable, or failed. Any thread; to be called in the order of the
 * commits. */
void lh_loop_persisted(struct lh_loop *loop, uint64_t ticket, int error);

/* For threads that look at the core's state, or give the core what its next input will refer to.
 * Keep it short: the core stands still meanwhile. */
void lh_loop_lock(struct lh_loop *loop);
void lh_loop_unlock(struct lh_loop *loop);

/* Whether lh_loop_lock() can be had within `timeout`: otherwise the core hangs in a step. */
bool lh_loop_is_responsive(struct lh_loop *loop, struct lh_duration timeout);

/* What peers have of this process: calls, and replies that they do not take. */
void lh_loop_network_figures(const struct lh_loop *loop, struct lh_transport_figures *figures);

/* lh_transport_tls() of the loop's network. */
struct lh_tls *lh_loop_tls(const struct lh_loop *loop);

/* lh_transport_housekeep() of the loop's network. */
void lh_loop_housekeep(struct lh_loop *loop);

/* What peers are answered that ask (by grpc.health.v1), of the server and of its services;
 * NOT_SERVING at first. */
void lh_loop_set_serving(struct lh_loop *loop, bool server, bool services);

/* Has the timer's thread step the core soon. lh_loop_beats() counts such steps, and those of the
 * core's own deadlines, once the callbacks of what was emitted before have returned, but for
 * `persist`: while it grows, timer, core and callbacks go on. False: the core hangs in a step, for
 * as long as `timeout`. */
bool lh_loop_beat(struct lh_loop *loop, struct lh_duration timeout);
uint64_t lh_loop_beats(const struct lh_loop *loop);

/* Feeds LH_IN_STOP. Any thread; the second time it does nothing. */
void lh_loop_stop(struct lh_loop *loop);

/* Ends each stream that a peer opened for whose identity `over` is true, with UNAVAILABLE and
 * `text` on both sides: the core sees a connection that broke, and the peer calls again. `over` is
 * called with the lock held. A call with one message each way has been decided and goes on. */
void lh_loop_end_streams(struct lh_loop *loop, bool (*over)(void *arg, const char *identity),
    void *arg, const char *text);

/* lh_transport_ask_who_answers() of the loop's network. */
void lh_loop_ask_who_answers(struct lh_loop *loop);

/* Waits for LH_FX_STOPPED (its callback has then returned) and returns its error; DEADLINE_EXCEEDED
 * when `timeout` passes first. Not from a callback. */
int lh_loop_wait(struct lh_loop *loop, struct lh_duration timeout);

/* Ends threads and links and frees the loop; the core is not stepped any more. A loop that was not
 * stopped is cut off as by a crash. No other thread may be in a call for this loop: stop the store
 * first, so that it says lh_loop_persisted() no more. Not from a callback. NULL is allowed. */
void lh_loop_destroy(struct lh_loop *loop);

/* lh_transport_forks() of the loop's network; the child closes the loop's timer, too. */
void lh_loop_forks(struct lh_loop *loop, enum lh_fork where);

/* This node's clock (CLOCK_BOOTTIME). */
struct lh_instant lh_clock_now(void);

/* Wall-clock milliseconds since 1970. */
uint64_t lh_clock_wall_ms(void);
