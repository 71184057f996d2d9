/* Locks of a session, and its requests for some (NL-1 to NL-4). */
#pragma once

#include "client/core/names/internal.h"

/* A lock, or a request for one. */
struct lh_client_lock {
    struct lh_client_session *session;
    uint64_t id;
    uint64_t token; /* 0: it waits */
    struct lh_instant
        end; /* it is cut, and over then whatever the session's end is; NEVER: it is not.
                              Guarded, as what is above */
    bool shared, no_wait, recallable;
    uint32_t slots;
    void *info;
    size_t info_size;
    uint64_t queued;              /* its number in the queue, as far as is known */
    struct lh_acquire_call *call; /* while it waits */
    struct lh_client_op *op;      /* its Acquire, not sent yet */
    struct lh_timer timer;        /* the call's deadline; or its end, of one that is cut */
    uint64_t asked_on; /* the stream on which it was asked for, or shown as waiting ... */
    uint64_t shown_on; /* ... and on which it was shown as held, last */
    UT_hash_handle of_name, of_id;
    char name[];
};

static inline bool lh_client_lock_is_held(const struct lh_client_lock *l)
{
    return l->token != 0;
}

void lh_client_granted(struct lh_client_session *s, const Leasehold__Granted *m);
void lh_client_queued(struct lh_client_session *s, const Leasehold__Queued *m);
/* True: it was a request for a lock. */
bool lh_client_lock_refused(struct lh_client_session *s, const Leasehold__Refused *m);
void lh_client_demanded(struct lh_client_session *s, const Leasehold__Demand *m);

/* The answer to a showing. `until`: the session's end before that answer renewed it. */
void lh_client_locks_shown(
    struct lh_client_session *s, const Leasehold__Shown *m, struct lh_instant until);
/* A stream is up: requests go that are not shown. */
void lh_client_locks_up(struct lh_client_session *s);
/* Locks that are cut, and whose end has come, are over. */
void lh_client_locks_cut_end(struct lh_client_session *s);
/* The request, as it is sent or shown. */
void lh_client_acquire_message(Leasehold__Acquire *m, const struct lh_client_lock *l);

/* The session has run out, or is over: locks are lost, and the program hears of it. */
void lh_client_locks_lost(struct lh_client_session *s, const char *why);
/* It is over: requests complete with `error`; `complete` false: they never do. */
void lh_client_locks_end(struct lh_client_session *s, bool complete, int error, const char *text);
void lh_client_locks_check(const struct lh_client_session *s);

/* ---- What withdrawn.c needs of locks.c. */

/* The session's lock, or request, of that name. */
struct lh_client_lock *lh_client_lock_named(const struct lh_client_session *s, const char *name);
/* The request goes, or is held back while an earlier one for the name may have been granted. */
void lh_client_acquire_send(struct lh_client_lock *l);
void lh_client_release_send(struct lh_client_session *s, const char *name, uint64_t token);

/* ---- withdrawn.c */

/* The request leaves the queue; the caller frees it. */
void lh_client_withdraw(struct lh_client_lock *l);
/* An earlier request for the name was withdrawn, and may have been granted. */
bool lh_client_is_withdrawn(const struct lh_client_session *s, const char *name);
/* A grant of no request that there is: it is given back. */
void lh_client_granted_late(struct lh_client_session *s, const Leasehold__Granted *m);
/* What was sent before that heartbeat, ... */
void lh_client_withdrawn_beat(struct lh_client_session *s, uint64_t stamp);
/* ... has been carried out when it is answered, ... */
void lh_client_withdrawn_resolve(struct lh_client_session *s, uint64_t stamp);
/* ... and is of no account when its stream is over. */
void lh_client_withdrawn_clear(struct lh_client_session *s);
