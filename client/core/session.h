/* A session of the program (PS): what the files of sessions, locks and values share. */
#pragma once

#include "client/core/guard.h"
#include "client/core/leases.h"
#include "client/core/link.h"
#include "client/core/state.h"
#include "lease/term.h"

#include <uthash.h>

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
    LH_CLIENT_STREAM_SEEKING,  /* no master is known to act */
    LH_CLIENT_STREAM_ATTACHED, /* Attach was sent; the greeting has not come */
    LH_CLIENT_STREAM_SHOWING,  /* all that there is was shown, and not answered */
    LH_CLIENT_STREAM_UP,       /* operations and heartbeats go */
    LH_CLIENT_STREAM_CLOSING   /* CloseSession was sent */
};

/* One operation that has not been sent yet (session_ops.c). */
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

struct lh_client_lock;
struct lh_client_withdrawn;
struct lh_client_event;
struct lh_client_read;
struct lh_client_get;
struct lh_client_prefix;

/* The cached values of a session, and those that were read under a promise (cache.h). */
struct lh_client_cache {
    struct lh_client_cached **buckets; /* a power of two of them */
    size_t bucket_count;
    struct lh_client_cached
        *hand; /* a ring: the next one that is looked at when there are too many */
    size_t count, bytes;
};

struct lh_client_session {
    struct lh_client *client;
    struct lh_client_session *prev, *next; /* of the client */
    bool touched;                          /* in the client's list of those to be looked at */
    struct lh_client_session *next_touched;

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
    struct lh_client_seeker seeker;
    struct lh_client_link link;
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
    bool writing;     /* the last message has not left: operations gather */
    bool beat_wanted; /* behind the operations that are to be sent */

    /* Its term, on this clock (TIME-4). Guarded. */
    struct lh_instant valid_until; /* zero: it has run out, is over, or has not begun */
    struct lh_timer state;         /* the next of SUSPENDED and EXPIRED */
    bool suspended;

    /* session_events.c */
    struct lh_session_event_call *event_call; /* under way */
    struct lh_client_event *events;           /* that nobody asked for yet */

    /* session_ops.c */
    struct lh_client_op *ops;
    size_t op_count;
    uint64_t last_id; /* of requests and locks */

    /* locks.c. Guarded. */
    struct lh_client_lock *by_name, *by_id;
    struct lh_client_withdrawn *withdrawn, *withdrawn_ids; /* by name, by id; not guarded */

    /* values.c */
    struct lh_client_cache cache;            /* guarded */
    struct lh_client_prefix *prefixes;       /* guarded; broadcast.c */
    struct lh_client_read *reads, *read_ids; /* under way, by name and by id */
    size_t get_count;                        /* calls that wait for them */
    Leasehold__ValueRead *aside;             /* a planted bug's */
};

/* ---- session.c: the session's life. */

void lh_client_session_open(struct lh_client *c, struct lh_session_open_call *call);
void lh_client_session_close(struct lh_session_close_call *call);
/* True: it has just run out. What was held in it is lost (NL-3), and its stream is given up (PS-4).
 * To be asked before anything that comes counts. */
bool lh_client_session_expires(struct lh_client_session *s);
/* A call of the program on it: true if it cannot be carried out any more, and was completed. */
bool lh_client_session_refuses(struct lh_client_session *s, struct lh_call *call);
/* A master has no record of it: everything in it is lost for good, and the program hears of it. */
void lh_client_session_lose(struct lh_client_session *s);
/* An answer to what was sent with that stamp renews it. False: there was no such stamp. */
bool lh_client_session_renew(struct lh_client_session *s, uint64_t stamp, uint64_t term_ns);
/* A master knows that the program has closed it. */
void lh_client_session_told(struct lh_client_session *s);
/* It cannot be opened. */
void lh_client_session_refused(struct lh_client_session *s, int error, const char *text);
/* That stamp was sent, and may be counted from. */
bool lh_client_session_sent(const struct lh_client_session *s, uint64_t stamp);
void lh_client_sessions_end(struct lh_client *c, bool complete);
void lh_client_sessions_check(const struct lh_client *c);

/* ---- attach.c: its streams. */

void lh_client_attach_init(struct lh_client_session *s);
/* Attaches at the active master, and again until lh_client_attach_end(). */
void lh_client_attach(struct lh_client_session *s);
/* Gives the present stream up, if there is one, for another one. */
void lh_client_attach_again(struct lh_client_session *s);
/* Gives the present stream up; no other one follows. */
void lh_client_attach_end(struct lh_client_session *s);
/* Gives it up, and attaches again after a pause. */
void lh_client_attach_failed(struct lh_client_session *s, int error, const char *text);
/* Tells a master that the session is over, as soon as one has greeted it; then
 * lh_client_session_told() is called. */
void lh_client_attach_close(struct lh_client_session *s);
/* A heartbeat, now. */
void lh_client_attach_beat(struct lh_client_session *s);
/* Something was sent that will be answered. */
void lh_client_attach_asked(struct lh_client_session *s);

/* ---- session_show.c: showing. */

/* Packs all pieces, with the stamp of the stream's greeting. */
void lh_client_session_show(struct lh_client_session *s);
/* Sends the next piece; the one before has left. False: there is none. */
bool lh_client_session_show_next(struct lh_client_session *s);
/* Drops those that have not been sent. */
void lh_client_session_show_end(struct lh_client_session *s);
void lh_client_session_shown(struct lh_client_session *s, const Leasehold__Shown *m);

/* ---- session_events.c */

void lh_client_event_add(struct lh_client_session *s, enum lh_client_event_kind kind, uint64_t lock,
    uint64_t waiting, const char *text);
void lh_client_event_fetch(struct lh_session_event_call *call);
/* Nothing more is said of that lock. */
void lh_client_events_drop(struct lh_client_session *s, uint64_t lock);
void lh_client_events_deinit(struct lh_client_session *s);

/* ---- session_ops.c: operations of one step go in one message. */

/* To be filled, with `room` bytes for strings: NULL if no stream is up to which it could go:
 * what is shown next says it all. `owner` may be NULL. */
struct lh_client_op *lh_client_op_add(struct lh_client_session *s, Leasehold__LeaseOp__OpCase kind,
    size_t room, struct lh_client_op **owner);
/* The session is looked at when the step ends. */
void lh_client_session_touch(struct lh_client_session *s);
/* It has not been sent, and is not to be. */
void lh_client_op_drop(struct lh_client_session *s, struct lh_client_op *op);
void lh_client_ops_clear(struct lh_client_session *s);
/* The last message has left. */
void lh_client_ops_left(struct lh_client_session *s);
/* At the end of a step. */
void lh_client_sessions_flush(struct lh_client *c);
void lh_client_ops_answered(struct lh_client_session *s, const Leasehold__LeaseAnswers *m);
