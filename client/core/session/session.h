/* Sessions of the program (PS): how long each is valid, its streams to masters, and what travels on
 * them. What is kept in a session, and shown and asked for on its streams, is its user's. */
#pragma once

#include "client/core/host/host.h"
#include "client/core/leases.h"
#include "flow/outbox.h"

struct lh_client_sessions;
struct lh_client_showing;

/* What the program may expect of it. */
enum lh_client_session_life {
    LH_CLIENT_SESSION_OPENING, /* not back yet for the first time */
    LH_CLIENT_SESSION_LIVE,
    /* No answer came for its term: nothing is held in it, and requests wait. It goes on if a master
     * still has its record (PS-3). */
    LH_CLIENT_SESSION_EXPIRED,
    LH_CLIENT_SESSION_OVER /* lost (final), or closed by the program */
};

/* Where its stream is. */
enum lh_client_session_phase {
    LH_CLIENT_STREAM_NONE,     /* none is wanted any more */
    LH_CLIENT_STREAM_PAUSE,    /* the last one failed: another one follows after a pause */
    LH_CLIENT_STREAM_WAITING,  /* no master is known to act */
    LH_CLIENT_STREAM_ATTACHED, /* Attach was sent; the greeting has not come */
    LH_CLIENT_STREAM_SHOWING,  /* all that there is was shown, and not answered */
    LH_CLIENT_STREAM_UP,       /* operations and heartbeats go */
    LH_CLIENT_STREAM_CLOSING   /* CloseSession was sent */
};

/* One operation that has not been sent yet. */
struct lh_client_op {
    struct lh_client_op *prev, *next;
    struct lh_client_op **owner; /* whose pointer to this is cleared when it goes; may be NULL */
    size_t size;                 /* on the wire, about */
    Leasehold__LeaseOp op;
    union {
        Leasehold__Acquire acquire;
        Leasehold__ReleaseLock release;
        Leasehold__Withdraw withdraw;
        Leasehold__Yield yield;
        Leasehold__ReadValue read;
        Leasehold__Dropped dropped;
        Leasehold__Broadcast broadcast;
    } body;
    char bytes[]; /* strings of it */
};

struct lh_client_event;
struct lh_client_session_names;

struct lh_client_session {
    struct lh_client_host *client;
    struct lh_client_sessions *sessions;
    struct lh_client_session *prev, *next; /* of these */
    struct lh_outbox outbox;               /* operations gather while it is in flight */

    uint8_t id[16];
    uint64_t wanted_term_ms;
    char *host, *process, *label;
    bool lookups; /* it is for lookups of files */
    enum lh_client_session_life life;
    struct lh_session_open_call *opening;  /* under way; NULL: none */
    struct lh_session_close_call *closing; /* likewise */
    struct lh_timer deadline;              /* of these */

    /* The stream. */
    enum lh_client_session_phase phase;
    struct lh_client_waiter waiter;
    struct lh_link link;
    struct lh_timer retry;         /* PAUSE: its end. Else set while something is unanswered */
    struct lh_timer beat;          /* UP, SHOWING: the next heartbeat */
    uint64_t stream;               /* counts them (PS-2) */
    bool greeted;                  /* by any master: the session is on record */
    uint64_t reign;                /* the highest that greeted it */
    uint64_t reign_name;           /* of that reign (SES-9); 0: not known */
    unsigned failures;             /* of streams in a row */
    int reason;                    /* of the last one ... */
    char text[LH_CALL_TEXT_BYTES]; /* ... and what was said of it */
    struct lh_instant asked;       /* what is unanswered longest was sent then; NEVER: nothing is */
    struct lh_duration term;       /* at the master, as it is on record */
    struct lh_duration beat_every;
    uint64_t first_stamp, last_stamp; /* sent on this stream; 0: none */
    uint64_t answered_stamp;          /* the highest that was answered, on any stream */
    uint64_t shown_stamp;             /* of what is shown on this stream */
    struct lh_buf *pieces;            /* SHOWING: of it, packed; those that have not been sent */
    size_t piece_count, piece_next, piece_room;
    bool in_pieces;   /* what is, or was, shown on this stream is more than one */
    bool beat_wanted; /* behind the operations that are to be sent */

    /* Its term, on this clock (TIME-4). Guarded. */
    struct lh_instant valid_until; /* zero: it has run out, is over, or has not begun */
    struct lh_timer state;         /* the next of SUSPENDED and EXPIRED */
    bool suspended;

    /* events.c */
    struct lh_session_event_call *event_call; /* under way */
    struct lh_client_event *events;           /* that nobody asked for yet */

    /* ops.c */
    struct lh_client_op *ops;
    size_t op_count;

    struct lh_client_session_names *names; /* names/: what it keeps here */
};

/* ---- Who keeps something in sessions. */

struct lh_client_session_users {
    /* It begins, with nothing in it; and it is freed, after all that is below. */
    void (*opened)(void *self, struct lh_client_session *s);
    void (*freed)(struct lh_client_session *s);
    /* It has run out, or is over: nothing is held or cached in it (NL-3). Guarded. */
    void (*emptied)(struct lh_client_session *s, const char *why);
    /* It is over: what waits completes with `error`; `complete` false: it never does. */
    void (*ended)(struct lh_client_session *s, bool complete, int error, const char *why);

    /* All that there is, shown by lh_client_show_...(); the answer; and operations may go. */
    void (*show)(struct lh_client_session *s, struct lh_client_showing *w);
    /* `until`: the session's end before that answer renewed it. */
    void (*shown)(struct lh_client_session *s, const Leasehold__Shown *m, struct lh_instant until);
    void (*up)(struct lh_client_session *s);
    void (*answered)(struct lh_client_session *s, const Leasehold__LeaseAnswers *m);
    /* A heartbeat goes behind the operations that were sent; and it is answered. */
    void (*beat)(struct lh_client_session *s, uint64_t stamp);
    void (*beat_answered)(struct lh_client_session *s, const Leasehold__BeatReply *m);
    void (*stream_over)(struct lh_client_session *s);

    void (*check)(const struct lh_client_session *s);
};

/* ---- session.c: the session's life. */

struct lh_client_sessions *lh_client_sessions_create(struct lh_client_host *c);
void lh_client_sessions_destroy(struct lh_client_sessions *all);
/* Before any is opened. */
void lh_client_sessions_serve(
    struct lh_client_sessions *all, const struct lh_client_session_users *users, void *self);

void lh_client_session_open(struct lh_client_sessions *all, struct lh_session_open_call *call);
void lh_client_session_close(struct lh_session_close_call *call);
/* True: it has just run out. What was held in it is lost (NL-3), and its stream is given up (PS-4).
 * To be asked before anything that comes counts. */
bool lh_client_session_expires(struct lh_client_session *s);
/* A call of the program on it: true if it cannot be carried out any more, and was completed. */
bool lh_client_session_refuses(struct lh_client_session *s, struct lh_call *call);
/* That stamp was sent, and may be counted from. */
bool lh_client_session_sent(const struct lh_client_session *s, uint64_t stamp);
void lh_client_sessions_end(struct lh_client_sessions *all, bool complete);
void lh_client_sessions_check(const struct lh_client_sessions *all);

/* ---- show.c: entries of a showing, of about so many bytes beside their numbers. What an entry
 * refers to stays until its user has shown all. */

Leasehold__ShownLock *lh_client_show_lock(struct lh_client_showing *w, size_t bytes);
Leasehold__Acquire *lh_client_show_waiting(struct lh_client_showing *w, size_t bytes);
Leasehold__ShownValue *lh_client_show_value(struct lh_client_showing *w, size_t bytes);
void lh_client_show_broadcast(struct lh_client_showing *w, const char *prefix);

/* ---- events.c: what the program hears of a session. */

void lh_client_event_add(struct lh_client_session *s, enum lh_client_event_kind kind, uint64_t lock,
    uint64_t waiting, const char *text);
void lh_client_event_fetch(struct lh_session_event_call *call);
/* Nothing more is said of that lock. */
void lh_client_events_drop(struct lh_client_session *s, uint64_t lock);

/* ---- ops.c: operations of one step go in one message. */

/* To be filled, with `room` bytes for strings: NULL if no stream is up to which it could go:
 * what is shown next says it all. `owner` may be NULL. */
struct lh_client_op *lh_client_op_add(struct lh_client_session *s, Leasehold__LeaseOp__OpCase kind,
    size_t room, struct lh_client_op **owner);
/* It has not been sent, and is not to be. */
void lh_client_op_drop(struct lh_client_session *s, struct lh_client_op *op);
/* A heartbeat follows the operations of this step. */
void lh_client_session_want_beat(struct lh_client_session *s);
/* At the end of a step. */
void lh_client_sessions_flush(struct lh_client_sessions *all);
