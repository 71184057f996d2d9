/* What every room of a client stands on: the step under way, the settings, timers, links, which
 * master is asked, and the requests to it. It knows nothing of sessions, appenders or readers. */
#pragma once

#include "base/prng.h"
#include "base/probe.h"
#include "base/timers.h"
#include "client/core/calls.h"
#include "client/core/config.h"
#include "finder/finder.h"
#include "flow/links.h"
#include "proto/leasehold.pb-c.h"

struct lh_client_host;

/* ---- active.c: which master is asked, and who waits until that is known (HA-10). */

/* Whoever talks to the active master: a request, a session, a watch. Lives inside its owner. */
struct lh_client_waiter {
    uint64_t choice; /* the finder's number of the master that was chosen last, ... */
    char *address;   /* ... where that is (NULL: there was none), ... */
    uint64_t reign;  /* ... and its reign, as far as is known; 0: not */
    struct lh_client_waiter **list;       /* NULL, or one of those below, ... */
    struct lh_client_waiter *prev, *next; /* ... with these */
    /* It waited, and may go to a master now: lh_client_active_choose(). */
    void (*go_on)(struct lh_client_waiter *waiter);
    /* Its master is silent, or its reign is over, and another one has been found to act. */
    void (*elsewhere)(struct lh_client_waiter *waiter);
};

struct lh_client_active {
    struct lh_finder finder;
    struct lh_link links[LH_MASTERS_MAX]; /* the questions of a round, by place */
    struct lh_timer timer;                /* the finder's */
    /* Rounds are for these: */
    struct lh_client_waiter *waiting;     /* for a master to be asked */
    struct lh_client_waiter *suspecting;  /* its master, the choice, has been silent for a while */
    struct lh_client_waiter *moved;       /* likewise, and the choice is another one by now */
    struct lh_client_waiter *attached;    /* has a stream on which nothing is asked now */
    uint64_t judged_choice, judged_reign; /* by which it was decided who of them is where */
    char *refused; /* why a master would not say who acts; NULL: none, or one has said it since */
};

/* Ends the round; no request waits any more. */
void lh_client_active_stop(struct lh_client_host *c);

/* Whether requests may go to the choice now. */
bool lh_client_active_ready(const struct lh_client_host *c);

/* It goes to the choice. */
void lh_client_active_choose(struct lh_client_host *c, struct lh_client_waiter *waiter);
/* It has gone there. If others doubt the choice already, so does this one. */
void lh_client_active_asked(struct lh_client_host *c, struct lh_client_waiter *waiter);
/* It has a stream there that stays, and whatever was asked on it is answered: it is called
 * elsewhere() when a master of a higher reign is chosen, whoever found that one. */
void lh_client_active_attached(struct lh_client_host *c, struct lh_client_waiter *waiter);
/* It waits until it may; then its go_on() is called. */
void lh_client_active_wait(struct lh_client_host *c, struct lh_client_waiter *waiter);
/* It does not wait, or doubt, any more. */
void lh_client_active_leave(struct lh_client_host *c, struct lh_client_waiter *waiter);
/* Leaves, and is freed. */
void lh_client_active_forget(struct lh_client_host *c, struct lh_client_waiter *waiter);

/* The master that it chose is silent: another one may act by now, and then its elsewhere() is
 * called. To be called again while the silence lasts. */
void lh_client_active_doubt(struct lh_client_host *c, struct lh_client_waiter *waiter);

/* The master that it chose did not answer, or has refused as one that does not act. */
void lh_client_active_failed(
    struct lh_client_host *c, const struct lh_client_waiter *waiter, int error);
/* Whether there is another choice by now, or none: then no pause is needed the first time. */
bool lh_client_active_moved(const struct lh_client_host *c, const struct lh_client_waiter *waiter);
/* The master that it chose acts, in that reign (0: it did not say). */
void lh_client_active_acts(
    struct lh_client_host *c, const struct lh_client_waiter *waiter, uint64_t reign);

/* LH_CALL_KNOWN_MASTERS. */
void lh_client_active_list(struct lh_client_host *c, struct lh_known_masters_call *call);

/* The master that it chose has named its cluster ("": it did not). False: another one than this
 * client's (SES-10). */
bool lh_client_active_is_ours(
    struct lh_client_host *c, const struct lh_client_waiter *waiter, const char *cluster);

/* As calls name this client's cluster. */
uint64_t lh_client_active_cluster(const struct lh_client_host *c);

/* Likewise, by what it greets a session with. */
void lh_client_active_greeted(
    struct lh_client_host *c, struct lh_client_waiter *waiter, const Leasehold__Greeting *greeting);

/* The master that it chose has answered that to a request of that method. */
void lh_client_active_answered(struct lh_client_host *c, const struct lh_client_waiter *waiter,
    enum lh_method method, const void *reply);

/* ---- ask.c: requests to the active master, repeated until it answers. */

/* A request to the active master, repeated until it answers or the deadline comes. Lives inside its
 * owner. */
struct lh_client_ask {
    struct lh_client_host *client;
    struct lh_link link;
    enum lh_method method;
    struct lh_timer timer;     /* the end of a try or of a pause; a try's master is silent */
    ProtobufCMessage *request; /* what is sent: a copy of the owner's, with what is added */
    bool once;                 /* HA-12: the call has an id, which stands in it */
    Leasehold__CallId id;
    struct lh_instant repeat_until; /* of one whose outcome is unknown */
    struct lh_duration patience;
    uint64_t wait_ms;   /* what the request asks for; 0: as long as the master likes */
    uint64_t *own_wait; /* in it: each try asks for no more than is left; NULL: it has none */
    struct lh_instant deadline;
    unsigned failures;
    bool active;
    struct lh_client_waiter waiter; /* its choice: the master that the last try went to */
    struct lh_instant try_end;      /* of the try under way, ... */
    struct lh_duration silence;     /* ... whose master is doubted after this, again and again */
    bool unknown; /* an earlier try may have been carried out, though its answer is lost */
    int reason;   /* of the last failed try */
    char text[LH_CALL_TEXT_BYTES];
    void *owner;
    /* The end: `reply` (NULL if nobody answered) and its error. The ask may begin again in it. */
    void (*done)(void *owner, int error, const char *text, const void *reply);
};

/* Begins asking; `ask->owner` and `ask->done` are set by the caller, `request` lives until the end.
 */
void lh_client_ask(struct lh_client_host *c, struct lh_client_ask *ask, enum lh_method method,
    const ProtobufCMessage *request, struct lh_duration patience, struct lh_instant deadline);
void lh_client_ask_cancel(struct lh_client_ask *ask);

/* The pause after that many failures in a row. */
struct lh_duration lh_client_backoff(struct lh_client_host *c, unsigned failures);

/* LH_CALL_MASTER. */
void lh_client_master_ask(struct lh_client_host *c, struct lh_master_call *call);
void lh_client_masters_end(struct lh_client_host *c, bool complete);
/* True, once for each: this client has just created the file of that path. */
bool lh_client_was_created(struct lh_client_host *c, const char *path);

/* ---- reply.c: what replies have in common, and telling a caller how his call has ended. */

/* The error and text fields that every reply has; `*text` is never NULL. */
int lh_client_reply_error(const void *reply, const char **text);

/* What a program hears of that error, if it hears of it: it can do nothing about a capability that
 * nobody takes (ACC-5), which is as good as a server that is not there. */
int lh_client_reason(int error);

/* A message of the caller's own, to be freed with lh_wire_free(). */
ProtobufCMessage *lh_client_copy_message(const ProtobufCMessage *m);

void lh_client_complete(
    struct lh_client_host *c, struct lh_call *call, int error, const char *text);

/* ---- server.c: LH_CALL_SERVER, one question to one server. */

void lh_client_server_ask(struct lh_client_host *c, struct lh_server_call *call);
void lh_client_questions_end(struct lh_client_host *c, bool complete);

/* ---- chunk.c: what the master says of a chunk. */

/* A server of a chunk's replica set. */
struct lh_client_member {
    char *server_id;
    char *address; /* lh_server_at(): who it is, and where; "" if not known */
};

/* Owned copies. */
struct lh_client_chunk {
    uint64_t chunk, version;
    uint64_t start, length;
    bool sealed;
    char *primary; /* server_id or "" */
    struct lh_client_member *members;
    size_t member_count;
    ProtobufCBinaryData capability; /* for its servers (ACC-5); a secret */
};

void lh_client_chunk_copy(struct lh_client_chunk *to, const Leasehold__ChunkInfo *from);
void lh_client_chunk_deinit(struct lh_client_chunk *chunk);

/* ---- The host itself. */

/* Files that are remembered as just created. */
#define LH_CLIENT_CREATED 16u

struct lh_client_host {
    struct lh_client_config config; /* with the defaults; strings are not kept */
    struct lh_prng prng;
    struct lh_timers timers; /* each is called with the host */
    struct lh_instant now;   /* during a step */
    struct lh_effects *fx;   /* during a step */
    bool stopped;

    struct lh_links links;                /* users are called with the host, too */
    struct lh_client_active active;       /* active.c */
    struct lh_client_unary *unaries;      /* ask.c ... */
    uint64_t call_client, last_call;      /* ... of calls' ids (HA-12) */
    char *created[LH_CLIENT_CREATED];     /* ... paths, or NULL; ... */
    unsigned created_next;                /* ... the oldest */
    struct lh_client_question *questions; /* server.c */
    unsigned guards;
};

void lh_client_host_init(struct lh_client_host *c, const struct lh_client_config *config);
/* Nothing is under way any more. */
void lh_client_host_deinit(struct lh_client_host *c);
void lh_client_host_check(const struct lh_client_host *c);

/* The link, if it is open, is of no use any more. */
static inline void lh_client_link_close(struct lh_client_host *c, struct lh_link *link)
{
    lh_link_close(&c->links, c->fx, link, LH_ERR_CANCELLED, NULL);
}

/* What other threads may read while the core steps (leases.h): changes of it stand between these
 * two. They nest. */
static inline void lh_client_guard(struct lh_client_host *c)
{
    if (c->guards++ == 0 && c->config.guard != NULL)
        c->config.guard(c->config.guard_arg, true);
}

static inline void lh_client_unguard(struct lh_client_host *c)
{
    if (--c->guards == 0 && c->config.guard != NULL)
        c->config.guard(c->config.guard_arg, false);
}
