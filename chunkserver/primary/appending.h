/* The clients' append streams. */
#ifndef LH_CHUNKSERVER_PRIMARY_APPENDING_H
#define LH_CHUNKSERVER_PRIMARY_APPENDING_H

#include "chunkserver/primary/primary.h"

/* A writer on an append stream. */
struct lh_cs_stream_writer {
    uint64_t id;
    uint64_t first_sequence;
    bool opened;         /* the opening was answered */
    bool refused;        /* what still comes of it is ignored, until it is opened again */
    unsigned unanswered; /* batches */
};

/* One client's append stream for a chunk. */
struct lh_cs_stream {
    uint64_t link;
    uint64_t chunk;
    uint64_t version;
    struct lh_cs_primary *primary;
    bool held;                /* LH_FX_HOLD is in force */
    bool arriving;            /* a message has begun and is not whole */
    bool half_closed;         /* nothing more will come: it ends when all is answered */
    struct lh_instant spoken; /* when it was last sent anything, or was opened */
    struct lh_cs_stream_writer *writers;
    size_t writer_count, writer_capacity;
    Leasehold__Stored stored[LH_REPLY_BATCHES_MAX]; /* committed, to go with the next reply */
    unsigned stored_count;
    bool touched; /* by a commit that is being answered: in its list */
    struct lh_cs_stream *next_touched;
    struct lh_cs_stream *prev, *next; /* of the primary */
    struct lh_cs_stream *next_half_closed;
};

/* Links that clients opened to append; their room is the primaries'. */
extern const struct lh_cs_link_user lh_cs_append_links;

/* Ends those of which nothing more will come, once all that came is answered. */
void lh_cs_streams_close_answered(struct lh_cs_primaries *room);
/* The primary takes appends now: answers openings that waited. */
void lh_cs_stream_open_all(struct lh_cs_primary *p);
/* Ends one stream with an answer; batches of it that are unanswered are unknown to the client. */
void lh_cs_stream_end(struct lh_cs_stream *s, int error, const char *text);
/* Closes one writer on the stream with an answer; the others go on. */
void lh_cs_stream_refuse_writer(
    struct lh_cs_stream *s, struct lh_cs_stream_writer *w, int error, const char *text);
void lh_cs_stream_end_all(struct lh_cs_primary *p, int error, const char *text);
void lh_cs_stream_hold_all(struct lh_cs_primary *p);
void lh_cs_stream_stored(struct lh_cs_stream *s, const struct lh_cs_uncommitted *u);
void lh_cs_stream_flush(struct lh_cs_stream *s);
/* Does any client of this primary wait, for an append or for its stream to open? */
bool lh_cs_streams_wait(const struct lh_cs_primary *p);
/* Is a message of any of them on its way? */
bool lh_cs_streams_arrive(const struct lh_cs_primary *p);
void lh_cs_streams_release_pressure(struct lh_cs_primaries *room);

#endif
