/* Streams of appends, one to each server, and the lanes in them: what lane.c and stream.c share. */
#pragma once

#include "client/core/append/lane.h"
#include "flow/outbox.h"
#include "flow/turns.h"

/* What a lane has in one message, unanswered. */
struct lh_client_message {
    unsigned batches; /* at least 1 */
};

/* What all writers of a lane have in common. */
struct lh_client_lane_key {
    uint64_t chunk, version;
    uint64_t token; /* TOK-2; 0: none */
};

struct lh_client_lane {
    struct lh_client_stream *stream;
    uint64_t number; /* no other lane of this client ever had it */
    struct lh_client_lane_key key;
    bool touched; /* in the list of those to be looked at */
    struct lh_client_lane *next_touched;
    bool joinable; /* the one of its key that writers join: it is not over, and not full */
    bool known;    /* the server may have it */
    struct lh_client_writer *writers;                       /* by id */
    unsigned joined;                                        /* writers that ever did */
    struct lh_client_writer *to_open;                       /* those whose opening is to be sent */
    struct lh_client_lane *opening_previous, *opening_next; /* of the stream's, then */
    struct lh_submit_call *waiting;                         /* batches to be sent */
    uint64_t waiting_bytes;
    unsigned given;             /* batches waiting or unanswered */
    unsigned messages;          /* unanswered */
    uint64_t unanswered_bytes;  /* in them */
    struct lh_timer timer;      /* set while batches are given; may be early */
    struct lh_instant progress; /* the last answer to a batch, or the first batch after a rest */
    struct lh_turn turn;        /* of the stream's: it has something that may go now */
    UT_hash_handle hh;          /* of its stream, by number */
    UT_hash_handle of_key;      /* likewise, if it is joinable */
};

struct lh_client_stream {
    struct lh_client_host *client;
    struct lh_client_streams *streams;
    struct lh_client_stream *prev, *next; /* of these */
    UT_hash_handle of_address;            /* likewise, if it is the newest to its address ... */
    bool newest;                          /* ... and not over */
    struct lh_outbox outbox;              /* what there is to send gathers while it is in flight */
    struct lh_link link;                  /* `id` 0: it is over and its writers are leaving */
    uint64_t id; /* of its link, also then: newer ones have higher numbers */
    char *address;
    struct lh_client_lane *lanes;    /* by number */
    struct lh_client_lane *joinable; /* by key */
    /* What there is to send. Lanes with openings; those that the server does not know yet are in
     * the order of their numbers. Turns of lanes that have batches. */
    struct lh_client_lane *opening;
    uint64_t *ends; /* numbers of lanes that have ended here */
    size_t end_count, end_capacity;
    struct lh_turns turns;
    struct { /* of a batch that was sent in part; `lane` NULL: there is none */
        struct lh_client_lane *lane;
        struct lh_buf batch;
        uint64_t sent;
    } rest;
    bool named; /* the server was told which cluster this client is of (SES-10) */
    struct lh_instant writing_since;
    unsigned owed;              /* openings and batches without an answer */
    struct lh_timer timer;      /* set while any are; may be early */
    struct lh_instant heard;    /* the last message, or when something began to be owed */
    struct lh_instant arrived;  /* the last news of a part of something that has arrived */
    struct lh_duration silence; /* for so long it may say nothing */
    bool sound;                 /* whoever left it last had no answer to wait for */
    struct lh_timer idle;       /* set while it has no lane */
};

struct lh_client_streams {
    struct lh_client_host *client;
    struct lh_client_stream *all;
    struct lh_client_stream *newest;      /* the newest to each address, if it is not over */
    struct lh_outbox *touched;            /* streams, by this step */
    struct lh_client_lane *touched_lanes; /* likewise */
    uint64_t last_lane;                   /* its number */
    Leasehold__AppendPart *parts;         /* of the message that is being made ... */
    Leasehold__AppendPart **part_list;    /* ... and where they are */
};

/* ---- stream.c ---- */

void lh_client_streams_init(struct lh_client_streams *all, struct lh_client_host *c);
void lh_client_streams_deinit(struct lh_client_streams *all);
/* The newest stream to that server, if it is not over; NULL. */
struct lh_client_stream *lh_client_stream_newest(
    const struct lh_client_streams *all, const char *address);
/* A stream to that server for one more lane, none older than `oldest`. */
struct lh_client_stream *lh_client_stream_to(
    struct lh_client_streams *all, const char *address, uint64_t oldest);
void lh_client_stream_touch(struct lh_client_stream *s);
/* So many more answers are awaited; or less. */
void lh_client_stream_owes(struct lh_client_stream *s, int answers);
/* Ends it and its lanes. */
void lh_client_stream_end(struct lh_client_stream *s, int error, const char *text);
/* Ends a step: sends what gathered in it, ends lanes that all have left. */
void lh_client_streams_flush(struct lh_client_streams *all);
/* Closes all; no writer is on a lane. */
void lh_client_streams_end(struct lh_client_streams *all);
void lh_client_streams_check(const struct lh_client_streams *all);

/* ---- lane.c ---- */

void lh_client_lane_answered(struct lh_client_lane *l, const Leasehold__AppendAnswer *m);
void lh_client_lane_end(struct lh_client_lane *l, int error, const char *text);
/* The next opening of a writer, which goes now; NULL: there is none. */
struct lh_client_writer *lh_client_lane_take_opening(struct lh_client_stream *s);
/* It waits for its turn if, and only if, it has something that may go now. */
void lh_client_lane_update(struct lh_client_lane *l);
void lh_client_lane_enlist(struct lh_client_lane *l, bool little);
/* Its next batches, about `most` bytes. With `alone` a batch goes whole, however large it is;
 * otherwise of one that is larger than a shared message a part goes, if no other one is on its way
 * in parts. False: nothing may go now. */
bool lh_client_lane_take(struct lh_client_lane *l, struct lh_buf *bytes, uint64_t most, bool alone);
/* Nobody is on it any more. */
void lh_client_lane_free(struct lh_client_lane *l);
void lh_client_lane_check(const struct lh_client_lane *l);
