/* Append streams: one per client, for its lanes of all chunks of which this server is the primary.
 * And what is said on them. */
#pragma once

#include "chunkserver/primary/internal.h"

/* A writer on a lane. */
struct lh_cs_lane_writer {
    uint64_t id;
    uint64_t first_sequence;
    bool opened;         /* the opening was answered */
    bool refused;        /* what still comes of it is ignored, until it is opened again */
    unsigned unanswered; /* batches */
};

/* What one client's writers append to one chunk at one version. It ends with the primary part. */
struct lh_cs_lane {
    struct lh_cs_lane_key key;
    struct lh_cs_stream *stream;
    struct lh_cs_primary *primary;
    struct lh_cs_lane_writer *writers;
    size_t writer_count, writer_capacity;
    struct lh_instant may_until; /* by what was shown when writers were opened (ACC-5) */
    bool ignored; /* something came while the primary drains: only the lane's end answers it */
    struct lh_cs_lane *prev, *next; /* of the primary */
    struct lh_cs_lane *stream_prev, *stream_next;
    UT_hash_handle hh; /* of the room, by key */
};

/* An answer that has not been sent. */
struct lh_cs_lane_answer {
    Leasehold__AppendAnswer m; /* without text and batches */
    char *text;                /* NULL: none; owned */
    size_t stored;             /* so many batches, behind those of the answers before */
};

struct lh_cs_stream {
    struct lh_cs_primaries *primaries;
    uint64_t link;
    struct lh_cs_lane *lanes;
    size_t lane_count;
    uint64_t last_lane;       /* the highest number that was seen */
    bool held;                /* LH_FX_HOLD is in force */
    bool arriving;            /* a message or a batch has begun and is not whole */
    bool half_closed;         /* nothing more will come: it ends when all is answered */
    struct lh_outbox outbox;  /* answers gather while replies are in flight, ... */
    bool urgent;              /* ... but a lane has ended: they go now */
    size_t flying;            /* answers, and batches in them, that may not have left */
    struct lh_instant spoken; /* when it was last sent anything, or was opened */

    struct {                             /* answers that wait, in order, and the batches in them */
        struct lh_cs_lane_answer *items; /* the first of them at `first` */
        size_t first, count, capacity;
        Leasehold__Stored *stored; /* likewise */
        size_t stored_first, stored_count, stored_capacity;
    } answers;

    struct { /* of the one batch that has come in part; empty: there is none */
        uint64_t lane;
        struct lh_buf bytes;
        struct lh_instant since;
    } rest;

    struct lh_cs_stream *prev, *next; /* of the room */
};

/* ---- lanes ---- */

/* NULL: it has ended, or never began. */
struct lh_cs_lane *lh_cs_lane_find(
    const struct lh_cs_primaries *primaries, const struct lh_cs_lane_key *key);
struct lh_cs_lane *lh_cs_lane_begin(
    struct lh_cs_stream *s, uint64_t number, struct lh_cs_primary *p);
/* Without an answer; those that wait are sent. */
void lh_cs_lane_free(struct lh_cs_lane *lane);
/* Ends it with an answer; batches of it that are unanswered are unknown to the client. */
void lh_cs_lane_end(struct lh_cs_lane *lane, int error, const char *text);
void lh_cs_lane_end_all(struct lh_cs_primary *p, int error, const char *text);
struct lh_cs_lane_writer *lh_cs_lane_writer(struct lh_cs_lane *lane, uint64_t id);
/* Closes one writer on the lane with an answer; the others go on. */
void lh_cs_lane_refuse_writer(
    struct lh_cs_lane *lane, struct lh_cs_lane_writer *w, int error, const char *text);
void lh_cs_lane_stored(struct lh_cs_lane *lane, const struct lh_cs_uncommitted *u);
/* Does its client wait, for an append or for an opening? */
bool lh_cs_lane_waits(const struct lh_cs_lane *lane);
/* Does any client of this primary? */
bool lh_cs_lanes_wait(const struct lh_cs_primary *p);
/* Is anything on its way on a stream that has a lane of it? */
bool lh_cs_lanes_arrive(const struct lh_cs_primary *p);

/* ---- streams ---- */

void lh_cs_streams_init(struct lh_cs_primaries *primaries);
struct lh_cs_stream *lh_cs_stream_begin(struct lh_cs_primaries *primaries, struct lh_cs_link *l);
/* Its link is gone. */
void lh_cs_stream_free(struct lh_cs_stream *s);
/* Ends it and all its lanes, with a last reply. */
void lh_cs_stream_end(struct lh_cs_stream *s, int error, const char *text);
/* Puts an answer behind those that wait: it goes at the end of the step, or when the way is free.
 * `text` is copied and may be NULL. */
void lh_cs_stream_answer(
    struct lh_cs_stream *s, const Leasehold__AppendAnswer *m, const char *text);
/* The last one that waits; NULL: none does. And one more batch in it. */
struct lh_cs_lane_answer *lh_cs_stream_last_answer(const struct lh_cs_stream *s);
Leasehold__Stored *lh_cs_stream_one_more_stored(struct lh_cs_stream *s);
/* An answer with an error, to a lane of that number, or to its writer if that is not 0. */
void lh_cs_stream_refuse(struct lh_cs_stream *s, uint64_t lane, uint64_t chunk, uint64_t writer,
    int error, const char *text);
/* So many of those that wait, and batches in them. */
void lh_cs_stream_drop_answers(struct lh_cs_stream *s, size_t count, size_t stored);
void lh_cs_stream_drop_rest(struct lh_cs_stream *s);
/* What was sent has left. */
void lh_cs_stream_sent(struct lh_cs_stream *s);
void lh_cs_stream_half_closed(struct lh_cs_stream *s);
/* Too much is uncommitted, or unread by the client: it is read again when there is less. */
void lh_cs_stream_hold_if_full(struct lh_cs_stream *s);
void lh_cs_streams_release_pressure(struct lh_cs_primaries *primaries);
/* From now on somebody waits for an answer. */
void lh_cs_streams_expect_life(struct lh_cs_primaries *primaries);
