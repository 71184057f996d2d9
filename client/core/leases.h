/* Leases of the program that embeds the client: sessions, locks, cached values, watches (PS, NL,
 * VAL). Calls are fed and completed as all others (client.h). A session's events come as
 * completions of the one LH_CALL_SESSION_EVENT that is under way.
 *
 * What a program may do *now* is asked directly, with a fresh reading of the clock (TIME-5):
 * lh_client_session_left(), lh_client_lock_left(), lh_client_cached(). These may be called by
 * any thread if the config has a `guard`, which the core calls around every change of what they
 * read. */
#pragma once

#include "client/core/calls.h"

struct lh_client;
struct lh_client_session;

#define LH_CLIENT_NAME_BYTES_MAX 1024u
#define LH_CLIENT_INFO_BYTES_MAX 256u

/* Completes when the session is on record and back, or at the deadline. */
struct lh_session_open_call {
    struct lh_call call;
    uint64_t term_ms; /* 0: the master's default */
    const char *host, *process, *label;
    bool lookups; /* it is the core's own, for lookups of files (VAL-7) */
    struct lh_instant deadline;
    struct lh_client_session *session; /* out: until a SESSION_CLOSE of it is fed */
};

/* Ends it: calls of the session complete with CANCELLED, then this one, when the master has
 * heard of it or at the deadline. */
struct lh_session_close_call {
    struct lh_call call;
    struct lh_client_session *session;
    struct lh_instant deadline;
};

enum lh_client_event_kind {
    LH_CLIENT_SUSPENDED, /* no answers; leases are still valid */
    LH_CLIENT_RESUMED,   /* after SUSPENDED or EXPIRED: the master answers, and has the session */
    LH_CLIENT_EXPIRED,   /* no answer came for the term: its locks are lost; it may go on */
    LH_CLIENT_LOST,      /* the session is over; final */
    LH_CLIENT_RECALLED,  /* `lock`: somebody waits for it */
    LH_CLIENT_CUT,       /* `lock` is cancelled: it ends in lh_client_lock_left() */
    LH_CLIENT_LOCK_LOST  /* `lock` is over */
};

/* Completes with the next event; one of a session at a time. */
struct lh_session_event_call {
    struct lh_call call; /* out: its text says why */
    struct lh_client_session *session;
    enum lh_client_event_kind event; /* out */
    uint64_t lock;                   /* out: the id of the lock; 0: none */
    uint64_t waiting;                /* out, RECALLED */
};

/* Errors: those of lh_acquire(). */
struct lh_acquire_call {
    struct lh_call call;
    struct lh_client_session *session;
    const char *name;
    bool shared, no_wait, recallable;
    uint32_t slots;
    const void *info;
    size_t info_size;
    struct lh_instant deadline;
    const void *tag;      /* names the request, beside `name`, to a LH_CALL_WITHDRAW */
    uint64_t lock, token; /* out */
};

/* Completes at once. The request of that name and tag leaves the queue: it completes with CANCELLED
 * before this does, and is not granted later. NOT_FOUND: there is none (any more). */
struct lh_withdraw_call {
    struct lh_call call;
    struct lh_client_session *session;
    const char *name;
    const void *tag;
};

/* Completes at once: the lock is not held any more here. NOT_LEASED. */
struct lh_release_call {
    struct lh_call call;
    struct lh_client_session *session;
    uint64_t lock;
};

/* Completes at once. NOT_LEASED. */
struct lh_yield_call {
    struct lh_call call;
    struct lh_client_session *session;
    uint64_t lock;
    struct lh_duration in; /* LH_DURATION_FOREVER: it is kept */
};

/* A value, counted: part of the cache and of whoever reads. What can be seen of it is the library's
 * public struct. */
struct lh_client_value;

#ifndef LH_VALUE_DEFINED
#define LH_VALUE_DEFINED
struct lh_value {
    const void *data;
    size_t size;
    uint64_t revision;
    uint64_t ttl_ms;
};
#endif

/* Reads a value, from the cache if it may be served. With LH_OK and NOT_FOUND what it says was
 * so at some moment while the call was under way. */
struct lh_get_call {
    struct lh_call call;
    struct lh_client_session *session;
    const char *name;
    struct lh_instant deadline;
    struct lh_client_value *value; /* out, LH_OK: the caller's reference */
    bool from_cache;               /* out: no message was needed */
};

struct lh_client_watch;

/* Completes at once. NO_MEMORY, INVALID_ARGUMENT. */
struct lh_watch_open_call {
    struct lh_call call;
    const char *prefix;
    uint64_t from;
    bool locks;                    /* events of locks, and none of values; `from` does not count */
    struct lh_client_watch *watch; /* out: until a WATCH_CLOSE of it is fed */
};
/* The next reply of the master's, whole; events once and in order, over streams and masters, but
 * those of locks over one stream alone: each stream begins with a reset. One call of a watch at a
 * time. Completes with DEADLINE_EXCEEDED if there is none, and with what
 * the master refuses the watch with, if trying again cannot help. After a reset whose replies
 * were cut off another reset comes. */
struct lh_watch_next_call {
    struct lh_call call;
    struct lh_client_watch *watch;
    struct lh_instant deadline;
    ProtobufCMessage *reply; /* out: a Leasehold__WatchReply, to be freed with lh_wire_free() */
};
struct lh_watch_close_call {
    struct lh_call call;
    struct lh_client_watch *watch;
};

/* Ends the lookups of files (VAL-7) for good, so that no master waits for them any more. Completes
 * when it has heard of it, or at the deadline. */
struct lh_lookups_end_call {
    struct lh_call call;
    struct lh_instant deadline;
};

/* ---- What may be done now. `now` is read after the last thing that may have taken long. */

/* Zero: the session has run out, or is over. */
struct lh_duration lh_client_session_left(const struct lh_client_session *s, struct lh_instant now);
/* Its 16 bytes; the session's. */
const uint8_t *lh_client_session_id(const struct lh_client_session *s);
/* Zero: not held (any more). */
struct lh_duration lh_client_lock_left(
    const struct lh_client_session *s, uint64_t lock, struct lh_instant now);
/* True: the name's value may be served: `*value` is it, with a reference for the caller, or NULL
 * if there is none. False: a LH_CALL_GET says more; it may do so from memory, too, and renews
 * leases that end soon. */
bool lh_client_cached(const struct lh_client_session *s, const char *name, struct lh_instant now,
    struct lh_client_value **value);

/* True: that path would be opened from memory now, as that file (VAL-7). */
bool lh_client_looked_up(
    const struct lh_client *c, const char *path, struct lh_instant now, uint64_t *file);

struct lh_client_value *lh_client_value_ref(struct lh_client_value *value);
void lh_client_value_unref(struct lh_client_value *value);
/* What it is: as long as the reference. And back. */
const struct lh_value *lh_client_value_view(const struct lh_client_value *value);
struct lh_client_value *lh_client_value_of(const struct lh_value *view);
/* A new one, with one reference: a copy of the bytes. */
struct lh_client_value *lh_client_value_create(
    uint64_t revision, const void *bytes, size_t size, uint64_t ttl_ms);
