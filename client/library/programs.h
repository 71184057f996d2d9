/* Sessions, as the files of the library share them. */
#pragma once

#include "client/library/library.h"

#include "client/core/leases.h"
#include "client/library/leasehold_leases.h"

#include <stdatomic.h>
#include <uthash.h>

/* A lock that the program holds: for its callbacks. */
struct lh_held {
    struct lh_lock lock;
    struct lh_lock_options options; /* `info` is gone */
    UT_hash_handle hh;              /* of the session, by the lock's id */
};

struct lh_session {
    struct lh_cluster *cluster;
    struct lh_client_session *core;
    char id[33];
    struct lh_session_options options; /* its callback */

    pthread_mutex_t mutex;
    pthread_cond_t quiet;
    enum lh_session_state state;
    struct lh_held *held; /* by id */
    atomic_bool closing;  /* the core's session may be gone */
    bool running;         /* a callback of it is */
    bool over;            /* no event comes any more */
    unsigned pending;     /* tasks of lh_acquire_async() */

    struct lh_session_event_call event;
    int event_error;
    struct lh_task task;
};

/* The session may be used here: LH_OK; else what a call on it returns. */
int lh_session_check(const struct lh_session *session);

/* The program may act on it: it is not a parent's, and not being closed. */
bool lh_session_is_usable(const struct lh_session *session);

/* Around what the callback thread does for a session. Closing waits for it; false: it has begun,
 * and the core's session may be gone. */
bool lh_session_enter(struct lh_session *session);
void lh_session_leave(struct lh_session *session);

/* For how long the master may wait: a little less than the caller does, and not for ever. */
uint64_t lh_wait_ms(uint64_t timeout_ms);

/* The session's record of that lock: false if there is none. Taken: no callback of it follows. */
bool lh_held_find(struct lh_session *session, uint64_t id, struct lh_held *copy);
bool lh_held_take(struct lh_session *session, uint64_t id, struct lh_held *copy);
void lh_held_clear(struct lh_session *session);

/* An event is there; called in the loop's thread. */
void lh_session_event_completed(struct lh_session_event_call *call, int error);
/* A lock is granted, or is not. True: nobody waits for the call. In the loop's thread. */
bool lh_acquire_completed(struct lh_acquire_call *call, int error);
