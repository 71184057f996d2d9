/* Append streams: one per client and chunk, for any number of the client's writers. */
#ifndef LH_CHUNKSERVER_PRIMARY_STREAMS_H
#define LH_CHUNKSERVER_PRIMARY_STREAMS_H

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
    Leasehold__Stored *stored; /* committed, to go with the next reply; NULL: none */
    size_t stored_count, stored_capacity;
    bool touched; /* by a commit that is being answered: in its list */
    struct lh_cs_stream *next_touched;
    struct lh_cs_stream *prev, *next; /* of the primary */
    struct lh_cs_stream *next_half_closed;
};

/* Ends those of which nothing more will come, once all that came is answered. */
void lh_cs_streams_close_answered(struct lh_cs_primaries *room);
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

/* For those who take what comes on a stream. */
void lh_cs_stream_free(struct lh_cs_stream *s);
struct lh_cs_stream_writer *lh_cs_stream_writer(struct lh_cs_stream *s, uint64_t id);
/* A reply to a stream, which is a sign of life. */
void lh_cs_stream_send(struct lh_cs_stream *s, const Leasehold__AppendReply *m);
/* Refuses what comes on a link, and closes it. */
void lh_cs_stream_send_error(
    struct lh_cs_host *cs, uint64_t link, int error, const char *text, uint64_t version);
/* From now on somebody waits for an answer. */
void lh_cs_streams_expect_life(struct lh_cs_primaries *room);
/* Too much is uncommitted: this client is read again when there is less. */
void lh_cs_stream_hold_if_full(struct lh_cs_primaries *room, struct lh_cs_stream *s);

#endif
