/* Requests to the active master, repeated until it answers. */
#pragma once

#include "base/timers.h"
#include "client/core/active.h"
#include "client/core/link.h"
#include "proto/leasehold.pb-c.h"

/* A request to the active master, repeated until it answers or the deadline comes. Lives inside its
 * owner. */
struct lh_client_ask {
    struct lh_client *client;
    struct lh_client_link link;
    struct lh_timer timer;           /* the end of a try or of a pause; a try's master is silent */
    ProtobufCMessage *request;       /* what is sent: a copy of the owner's, with what is added */
    bool once;                       /* HA-12: the call has an id, which stands in it */
    Leasehold__CallId id;
    struct lh_instant repeat_until; /* of one whose outcome is unknown */
    struct lh_duration patience;
    uint64_t wait_ms;   /* what the request asks for; 0: as long as the master likes */
    uint64_t *own_wait; /* in it: each try asks for no more than is left; NULL: it has none */
    struct lh_instant deadline;
    unsigned failures;
    bool active;
    struct lh_client_seeker seeker; /* its choice: the master that the last try went to */
    struct lh_instant try_end;      /* of the try under way, ... */
    struct lh_duration silence;     /* ... whose master is doubted after this, again and again */
    bool unknown; /* an earlier try may have been carried out, though its answer is lost */
    int reason;   /* of the last failed try */
    char text[LH_CALL_TEXT_BYTES];
    void *owner;
    /* The end: `reply` (NULL if nobody answered) and its error. The ask may be begun anew in it. */
    void (*done)(void *owner, int error, const char *text, const void *reply);
};

/* Begins asking; `ask->owner` and `ask->done` are set by the caller, `request` lives until the end.
 */
void lh_client_ask(struct lh_client *c, struct lh_client_ask *ask, enum lh_method method,
    const ProtobufCMessage *request, struct lh_duration patience, struct lh_instant deadline);
void lh_client_ask_cancel(struct lh_client_ask *ask);

/* The pause after that many failures in a row. */
struct lh_duration lh_client_backoff(struct lh_client *c, unsigned failures);

/* LH_CALL_MASTER. */
void lh_client_master_ask(struct lh_client *c, struct lh_master_call *call);
void lh_client_masters_end(struct lh_client *c, bool complete);
void lh_client_masters_check(const struct lh_client *c);
