/* Leasehold, the C client: leases for programs. Locks with fencing tokens, cached values,
 * watching.
 *
 *   struct lh_cluster *cluster;
 *   struct lh_session *session;
 *   struct lh_lock lock;
 *
 *   lh_cluster_open("10.0.0.1:7400,10.0.0.2:7400", NULL, &cluster);
 *   lh_session_open(cluster, NULL, 10000, &session);
 *   lh_acquire(session, "/jobs/compact", NULL, LH_NO_TIMEOUT, &lock);
 *   struct lh_change_options mine = {.lock = "/jobs/compact", .token = lock.token};
 *   lh_put(cluster, "/jobs/compact/done", "42", 2, &mine, 10000, NULL);
 *   lh_release(&lock);
 *
 * A *session* is the lease under all that the program holds: while the library reaches the
 * cluster it goes on by itself. A *lock* is held while its session lives, until it is released,
 * or until somebody cancels it. A *value* is some bytes under a name; a session serves it from
 * memory, and no read ever returns what was replaced before the read began.
 *
 * docs/api.md is an introduction, docs/recipes/ has whole programs.
 *
 * CAVEATS
 *
 * - A lock is a promise about time. A program that is stopped for longer than its session's term
 *   no longer holds it when it goes on, whatever it did before. Ask lh_lock_left_ms() before
 *   each act that needs the lock, and leave a margin for the act. Where an act can be late (a
 *   write to a remote disk), pass the token on, and let the resource refuse lower ones:
 *   lh_guard_open(), or the `token` of lh_put() and of an appender.
 * - When a session has expired all its locks are gone, and others may have them. The session
 *   itself may go on, with the values that are attached to it. LH_SESSION_LOST is final: close
 *   the session, and open a new one.
 * - After fork() a session belongs to the parent alone. In the child its locks are not valid,
 *   and calls on it return LH_ERR_CLOSED.
 * - Closing a session while another thread is in a call on it, and closing a cluster before its
 *   sessions, are bugs in the program. Callbacks come from the cluster's callback thread: one
 *   that blocks delays the others, but no lease depends on it.
 * - A change (lh_put(), lh_delete()) is carried out once. After UNAVAILABLE, DEADLINE_EXCEEDED
 *   or CANCELLED it is not known whether it was, or still will be.
 *
 * Conventions are those of leasehold.h. */
#ifndef LEASEHOLD_LEASES_H
#define LEASEHOLD_LEASES_H

#include "leasehold.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LH_NAME_LENGTH_MAX  1024u  /* bytes of a name, which begins with "/" */
#define LH_NAME_KEPT_MAX    510u   /* bytes of the name of a value, and of the prefix of a policy */
#define LH_VALUE_BYTES_MAX  65536u /* of a value */
#define LH_LOCK_INFO_MAX    256u   /* bytes that a holder attaches to its lock */
#define LH_SESSION_TERM_MAX 60000u /* milliseconds */

/* ---- Sessions ---- */

struct lh_session;

enum lh_session_state {
    LH_SESSION_ACTIVE = 0,    /* answers come */
    LH_SESSION_SUSPENDED = 1, /* no answers: still valid for lh_session_left_ms() */
    LH_SESSION_LOST = 2, /* the master does not know it any more: over, with everything; final */
    /* No answer for the whole term: its locks are lost (`on_lost` was called for each), and
     * nothing is served from memory. Calls wait. It is LH_SESSION_ACTIVE again if a master still
     * has it, else LH_SESSION_LOST. */
    LH_SESSION_EXPIRED = 3
};

struct lh_session_options {
    uint64_t term_ms; /* 10000 if 0; at most LH_SESSION_TERM_MAX; the master may change it */
    /* What a person should see of this program, at most 128 bytes that a terminal shows; the
     * process's name if NULL. */
    const char *label;
    /* Called when the state changes: to SUSPENDED before the term is over, to EXPIRED behind the
     * `on_lost` of its locks, to ACTIVE when the master answers again. A session that was EXPIRED
     * and is ACTIVE has its attached values and its waiting requests, and no lock. If this
     * callback is late, states that are over may be left out, but EXPIRED never is. NULL: no
     * callback. */
    void (*on_state)(void *arg, struct lh_session *session, enum lh_session_state state);
    void *on_state_arg;
};

/* Opens a session. `options` may be NULL.
 *   INVALID_ARGUMENT, NO_MEMORY (the master has too many), UNAVAILABLE, DEADLINE_EXCEEDED */
int lh_session_open(struct lh_cluster *cluster, const struct lh_session_options *options,
    uint64_t timeout_ms, struct lh_session **session);

/* Ends the session with everything in it, at once, and frees. If the master cannot be reached
 * within the timeout it ends there by itself. NULL is allowed. Never from a callback. */
void lh_session_close(struct lh_session *session, uint64_t timeout_ms);

/* For how long the session is valid if no answer comes any more, in milliseconds; 0: it has
 * expired, or is lost. No message; a few dozen nanoseconds. */
uint64_t lh_session_left_ms(const struct lh_session *session);

/* Its id, 32 hexadecimal digits, as `leasehold sessions` shows it. The session's. */
const char *lh_session_id(const struct lh_session *session);

/* ---- Locks ---- */

struct lh_lock {
    struct lh_session *session;
    uint64_t id; /* of this tenure in its session */
    uint64_t
        token; /* higher than every token of this name before (shared tenures have one token) */
};

struct lh_lock_options {
    bool shared;      /* with others that ask for it so; else alone */
    uint32_t slots;   /* shared: with so many at most; 0: any number */
    const void *info; /* shown to whoever asks who holds the name; at most LH_LOCK_INFO_MAX bytes */
    size_t info_size;
    /* Somebody waits for the lock, or has cancelled it (`cancelled`: it ends in
     * lh_lock_left_ms(), whatever is done). Answer with lh_release() or lh_lock_yield(), here or
     * later; no answer keeps it. NULL: nobody asks. */
    void (*on_recall)(void *arg, const struct lh_lock *lock, bool cancelled, const char *why);
    /* It ended without lh_release(): its session expired or is lost, or it was cancelled. Called
     * once. */
    void (*on_lost)(void *arg, const struct lh_lock *lock);
    void *arg;
};

/* Acquires the lock on `name`; requests are served in the order in which they come. `options`
 * may be NULL: exclusive. With a timeout of 0: only if it is free. A session has one lock, or
 * one request, for a name.
 *   LEASE_HELD         timeout 0: somebody else holds it, or waits for it
 *   DEADLINE_EXCEEDED  not granted in time; the request is withdrawn
 *   CANCELLED          lh_acquire_cancel(), or the session is being closed
 *   ALREADY_EXISTS     this session holds the name, or waits for it
 *   CLOSED             the session is lost (while it has expired, the request waits)
 *   NO_MEMORY          a limit of the master's
 *   INVALID_ARGUMENT, UNAVAILABLE */
int lh_acquire(struct lh_session *session, const char *name, const struct lh_lock_options *options,
    uint64_t timeout_ms, struct lh_lock *lock);

typedef void (*lh_acquire_callback)(void *arg, int error, const struct lh_lock *lock);

/* The same without waiting: `callback` is called once, in the callback thread, with what
 * lh_acquire() would have returned. An error that is returned is not reported again. Any number
 * may be under way. */
int lh_acquire_async(struct lh_session *session, const char *name,
    const struct lh_lock_options *options, uint64_t timeout_ms, lh_acquire_callback callback,
    void *arg);

/* Withdraws the session's request for `name`, so that it waits in no queue any more. `arg`: that of
 * lh_acquire_async(); NULL: a request of lh_acquire(), which another thread waits for. The request
 * ends with LH_ERR_CANCELLED, and is not granted later: a grant that was on its way is given back.
 * May be called in a callback.
 *   NOT_FOUND  no such request waits: it was granted before, or has ended. One that was granted
 *              holds the lock; its callback says so, or has said so
 *   CLOSED */
int lh_acquire_cancel(struct lh_session *session, const char *name, const void *arg);

/* Gives the lock up. It is not held any more when this returns; others get it when the master
 * has heard of it, or with the end of the session.
 *   NOT_LEASED  it was released before, or is lost */
int lh_release(struct lh_lock *lock);

/* For how long the lock is held if nothing more is heard, in milliseconds, rounded down. 0: stop
 * now. No message; a few dozen nanoseconds. */
uint64_t lh_lock_left_ms(const struct lh_lock *lock);

/* Answers a recall: the lock ends by itself in `in_ms` at the latest; LH_NO_TIMEOUT: it is kept.
 *   NOT_LEASED */
int lh_lock_yield(struct lh_lock *lock, uint64_t in_ms);

/* Ends the lock of whoever holds `name` with `token` (0: with any). The holder is told to stop.
 * Returns when the lock is over: when the holder released it, or at the end that its session
 * had.
 *   NOT_LEASED         nobody holds it with this token
 *   LEASE_HELD, DEADLINE_EXCEEDED  not over yet; it will be
 *   UNAVAILABLE */
int lh_cancel(struct lh_cluster *cluster, const char *name, uint64_t token, const char *why,
    uint64_t timeout_ms);

/* ---- Values ---- */

/* Counted, and never changed: free each once. */
#ifndef LH_VALUE_DEFINED
#define LH_VALUE_DEFINED
struct lh_value {
    const void *data; /* ends in a byte 0 that does not count */
    size_t size;
    uint64_t revision; /* of its last change */
    uint64_t ttl_ms;   /* lh_get_once(): it can be taken for current for so long */
};
#endif
void lh_value_free(const struct lh_value *value);

/* The value as it is now. The first read asks the master and takes a cache lease; later ones
 * come from memory, without a message, until somebody changes the value.
 *   NOT_FOUND  there is none; this is remembered likewise
 *   CLOSED     the session is lost
 *   UNAVAILABLE, DEADLINE_EXCEEDED, INVALID_ARGUMENT */
int lh_get(struct lh_session *session, const char *name, uint64_t timeout_ms,
    const struct lh_value **value);

/* The same from the master, without a session and without a lease. */
int lh_get_once(struct lh_cluster *cluster, const char *name, uint64_t timeout_ms,
    const struct lh_value **value);

struct lh_change_options {
    bool if_revision; /* only if the value has the revision `revision`; 0: only if there is none */
    uint64_t revision;
    const char *lock; /* the lock that `token` is of; NULL: the value's own name */
    uint64_t token;   /* not 0: only while the lock is held with it */
    bool force;       /* also if the value was last changed with a token, and none is given here */
    struct lh_session *attach; /* the value is deleted when this session is closed, or lost */
};

/* Puts or deletes a value. Returns when that is durable and nobody serves the old value any
 * more: if a program that caches it does not answer, that takes until its session ends.
 * `name` has at most LH_NAME_KEPT_MAX bytes, to be put. `options` and `revision` (of this change)
 * may be NULL.
 *   ALREADY_EXISTS   if_revision: the value has another revision
 *   NOT_FOUND        lh_delete(): there is none
 *   STALE_TOKEN      the lock is not held with this token; or the value was changed with a token,
 *                    and none is given
 *   TOO_LARGE, DISK_FULL, UNAVAILABLE, DEADLINE_EXCEEDED, INVALID_ARGUMENT */
int lh_put(struct lh_cluster *cluster, const char *name, const void *data, size_t size,
    const struct lh_change_options *options, uint64_t timeout_ms, uint64_t *revision);
int lh_delete(struct lh_cluster *cluster, const char *name, const struct lh_change_options *options,
    uint64_t timeout_ms, uint64_t *revision);

/* ---- Watching ---- */

struct lh_watch;
struct lh_lock_holder;

enum lh_watch_kind {
    LH_WATCH_CHANGED, /* a value was put */
    LH_WATCH_REMOVED, /* or deleted */
    LH_WATCH_RESET,   /* changes were missed: forget everything; all that is there follows */
    /* lh_watch_locks_open(): */
    LH_WATCH_LOCK_GRANTED,  /* `holder` holds the lock from now on, or held it at the reset */
    LH_WATCH_LOCK_RELEASED, /* its holder gave it up */
    LH_WATCH_LOCK_ENDED,    /* by itself, or with its session */
    LH_WATCH_LOCK_CUT       /* it was cancelled, or is given up: it ends in `left_ms` */
};

struct lh_watch_event {
    enum lh_watch_kind kind;
    const char *name; /* the watch's, until the next call on it, as `data` */
    const void *data;
    size_t size;
    uint64_t revision; /* of the change; each has its own */
    bool attached;     /* to a session */
    /* LH_WATCH_LOCK_...: whose lock it is, or was. A session has one lock on a name. Its `token` is
     * 0 if it ended by itself; `left_ms` is known only of one that is cut. */
    const struct lh_lock_holder *holder;
};

/* Watches the values under `prefix` ("" : all) from the revision `from` on; 0: begins with
 * LH_WATCH_RESET and what is there. */
int lh_watch_open(struct lh_cluster *cluster, const char *prefix, uint64_t from,
    uint64_t timeout_ms, struct lh_watch **watch);
/* Watches the locks on names under `prefix` ("" : all): begins with LH_WATCH_RESET and
 * LH_WATCH_LOCK_GRANTED for each lock that is held, and goes on with what happens to them, in
 * order. Nothing more is promised: over a lost connection, a change of masters, or if this program
 * does not keep up, there is another reset, and what happened in between is not told. A new master
 * knows a lock when its holder is back, a few seconds later; then it is told as granted. To act
 * only while a lock is held, acquire it: what is told here is over when it arrives. */
int lh_watch_locks_open(
    struct lh_cluster *cluster, const char *prefix, uint64_t timeout_ms, struct lh_watch **watch);
/* The next event. Those of values in the order of revisions; each once, over lost connections and
 * changes of masters.
 *   DEADLINE_EXCEEDED  none yet; call again */
int lh_watch_next(struct lh_watch *watch, uint64_t timeout_ms, struct lh_watch_event *event);
void lh_watch_close(struct lh_watch *watch);

/* ---- What there is ---- */

struct lh_lock_holder {
    char *session; /* id, 32 hexadecimal digits */
    char *label, *host, *process;
    bool shared;
    uint64_t token;
    uint64_t left_ms; /* until it ends if it is not renewed */
    bool cut;         /* it will not be renewed */
    void *info;
    size_t info_size;
};

struct lh_name_info {
    char *name;
    struct lh_lock_holder *holders;
    size_t holder_count;
    uint64_t waiting; /* requests */
    bool has_value;
    uint64_t revision, size, token; /* of the value */
    char *attached;                 /* the session that it goes with, or "" */
    uint64_t caches;                /* sessions that may serve it */
    bool changing;
    char **sentences; /* lh_explain_name(): the state, and what is next */
    size_t sentence_count;
};

struct lh_name_list {
    struct lh_name_info *names;
    size_t count;
    bool more;              /* ask again with `after` = the last name here */
    uint64_t sessions_away; /* of a former master; until they are back nothing is granted ... */
    uint64_t waiting_ms;    /* ... for so long at most */
};

/* Lists names that begin with `prefix`, in the order of their bytes. Deinit the list afterwards. */
int lh_names(struct lh_cluster *cluster, const char *prefix, const char *after, uint32_t limit,
    uint64_t timeout_ms, struct lh_name_list *list);
/* One name, with sentences. NOT_FOUND: nobody uses it. */
int lh_explain_name(
    struct lh_cluster *cluster, const char *name, uint64_t timeout_ms, struct lh_name_list *list);
void lh_name_list_deinit(struct lh_name_list *list);

struct lh_session_info {
    char *id, *label, *host, *process;
    uint64_t term_ms, left_ms;
    bool back;   /* the master knows what it holds */
    bool linked; /* it has a stream */
    uint64_t locks, waiting, values, attached;
};

struct lh_session_list {
    struct lh_session_info *sessions;
    size_t count;
    bool more; /* ask again with `after` = the last id here */
};

int lh_sessions(struct lh_cluster *cluster, const char *after, uint32_t limit, uint64_t timeout_ms,
    struct lh_session_list *list);
void lh_session_list_deinit(struct lh_session_list *list);

/* What holds for the names under a prefix. */
struct lh_policy {
    char *prefix;   /* ends in "/", or is a whole name; the longest that fits a name holds */
    bool no_recall; /* holders are not asked for a lock when others wait */
    /* A cache lease's term: this share of the time since the value changed, between the two bounds.
     * 0: 10 %, 1 s and 10 min. */
    uint32_t share_percent;
    uint64_t term_min_ms, term_max_ms;
    bool no_lease;  /* reads get a time to live instead of a lease */
    bool broadcast; /* nothing is kept for each reader: for many readers and few changes */
};

struct lh_policy_list {
    struct lh_policy *policies;
    size_t count;
};

/* Sets the policy of its prefix, of at most LH_NAME_KEPT_MAX bytes, or with `remove` removes it. */
int lh_set_policy(
    struct lh_cluster *cluster, const struct lh_policy *policy, bool remove, uint64_t timeout_ms);
int lh_policies(struct lh_cluster *cluster, uint64_t timeout_ms, struct lh_policy_list *list);
void lh_policy_list_deinit(struct lh_policy_list *list);

/* ---- Guards: where a token counts ---- */

/* A guard keeps, in a file of its own, the highest token that was admitted for each name, and
 * refuses lower ones. Several processes of one machine may share the file. A guard belongs to
 * the resource, not to the lock: every program that acts on the resource goes through it. */
struct lh_guard;

/* Opens the guard's file; it is created if it is not there.
 *   WRONG_FORMAT, CORRUPT  it is no guard's file; IO, PERMISSION, SYSTEM */
int lh_guard_open(const char *path, struct lh_guard **guard);

/* Admits the token, durably, and holds the guard for this name until lh_guard_leave(): act in
 * between. Waits for another act under the name, at most for the timeout.
 *   STALE_TOKEN        a higher one was admitted: somebody else has the lock
 *   DEADLINE_EXCEEDED  another act takes longer
 *   IO, DISK_FULL      not admitted */
int lh_guard_enter(struct lh_guard *guard, const char *name, uint64_t token, uint64_t timeout_ms);
void lh_guard_leave(struct lh_guard *guard, const char *name);
void lh_guard_close(struct lh_guard *guard);

#ifdef __cplusplus
}
#endif

#endif
