/* An appender: what appender.c, opening.c, settling.c and tail.c share. */
#pragma once

#include "client/core/append/append.h"
#include "client/core/append/stream.h"

struct lh_client_appenders {
    struct lh_client_host *client;
    struct lh_client_names *names;
    struct lh_client_appender *all;
    struct lh_client_streams streams;
};

enum lh_appender_state {
    LH_APPENDER_STARTING, /* asking whether the file exists; not if it has a token */
    LH_APPENDER_IDLE,     /* no lane and nothing to send */
    LH_APPENDER_FINDING,  /* asking for the tail and its primary */
    LH_APPENDER_PAUSED,   /* a failed round; FINDING when the timer fires */
    LH_APPENDER_LOCATING, /* asking who holds the unsettled chunk's seal */
    LH_APPENDER_SETTLING, /* asking one of them */
    LH_APPENDER_OPENING,  /* the writer's opening is unanswered */
    LH_APPENDER_OPEN,
    LH_APPENDER_FAILED
};

struct lh_client_appender {
    struct lh_client_host *client;
    struct lh_client_appenders *appenders;
    struct lh_client_appender *prev, *next; /* of these */
    enum lh_appender_state state;
    char *path;
    char *lock_name; /* of its writer's token; NULL: it has none */
    uint64_t file;
    struct lh_client_writer writer;
    struct lh_duration give_up;
    struct lh_appender_open_call *opening; /* until its completion */

    struct lh_submit_call *first, *last; /* unacknowledged, by sequence */
    struct lh_submit_call *unsent;       /* the first that is not in flight; NULL: all are */
    uint64_t sequence;                   /* of the next record to be acknowledged */
    uint64_t sent_end; /* OPEN: the sequence number after the last one in flight */

    struct lh_client_chunk tail; /* the chunk to append to; `chunk` 0: none known */
    char *address;               /* of its primary */
    bool full;                   /* it answered CHUNK_FULL */
    uint64_t failed_version;
    uint64_t window_batches, window_bytes;

    struct lh_client_chunk unsettled; /* `chunk` 0: none */
    size_t settler;                   /* the member to be asked next */
    unsigned settle_rounds;           /* in which none of its members has answered */
    char *silent;                     /* the server that was lost last; NULL: none */

    struct lh_client_ask ask;
    Leasehold__StatRequest stat;
    Leasehold__OpenTailRequest open_tail;
    Leasehold__LocateRequest locate;
    struct lh_link settle;
    struct lh_timer timer;         /* PAUSED, OPENING, SETTLING: its end */
    struct lh_timer give_up_timer; /* of the first batch, or of the opening; may be early */
    unsigned failures;             /* since the last acknowledged batch */
    int reason;                    /* of the last one, or why it has failed for good */
    char text[LH_CALL_TEXT_BYTES];
    char master_said[LH_CALL_TEXT_BYTES]; /* why there is no primary; since the same; "": nothing */
};

/* appender.c */

/* Remembers why it goes no further; "WHAT: TEXT" is what a call that fails tells. */
void lh_client_appender_say(
    struct lh_client_appender *a, int error, const char *what, const char *text);

/* The appender fails for good, and all of its batches with it. One that is not open yet is gone
 * then. */
void lh_client_appender_fail(
    struct lh_client_appender *a, int error, const char *what, const char *text);

/* The way in use has failed: look for another one, at once the first time. */
void lh_client_appender_broken(struct lh_client_appender *a, int error, const char *what,
    const char *text, struct lh_duration at_least);

/* The first batch is stored there. */
void lh_client_appender_acknowledge(struct lh_client_appender *a, uint64_t offset);

/* Joins a lane to the tail's primary. */
void lh_client_appender_join(struct lh_client_appender *a);

/* Ends what the appender is waiting for; keeps its batches. */
void lh_client_appender_cancel(struct lh_client_appender *a);
void lh_client_appender_free(struct lh_client_appender *a);

/* opening.c */

void lh_client_opening_begin(struct lh_client_appender *a, struct lh_appender_open_call *call);
/* What the master says of the file. MALFORMED: it makes no sense. */
int lh_client_opening_learn(
    struct lh_client_appender *a, const Leasehold__FileInfo *info, const char **text);
void lh_client_opening_done(struct lh_client_appender *a);
/* The tail of a file that was just created has none: the appender opens without. */
void lh_client_opening_without_primary(struct lh_client_appender *a);
/* The appender is gone then. */
void lh_client_opening_failed(
    struct lh_client_appender *a, int error, const char *what, const char *text);
/* Its deadline has come. */
void lh_client_opening_late(struct lh_client_appender *a);

/* tail.c */

/* Asks the master for the tail and its primary. */
void lh_client_appender_find_tail(struct lh_client_appender *a);

/* settling.c */

/* Asks the members that `info` names, which hold the seal of the unsettled chunk, what is in it. */
void lh_client_appender_settle(struct lh_client_appender *a, const Leasehold__ChunkInfo *info);

/* The same, after asking the master who they are. */
void lh_client_appender_locate_unsettled(struct lh_client_appender *a);

/* It is known what the unsettled chunk holds: on to the tail. */
void lh_client_appender_settled(struct lh_client_appender *a);

/* The member that is being asked has not answered in time. */
void lh_client_appender_settle_timer(struct lh_client_appender *a);
