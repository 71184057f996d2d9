/* What the core's files share. */
#ifndef LH_CLIENT_INTERNAL_H
#define LH_CLIENT_INTERNAL_H

#include "base/prng.h"
#include "base/probe.h"
#include "base/timers.h"
#include "client/client.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"

#include <uthash.h>

/* One link that this core opened. Lives inside its owner; `id` 0: none. */
struct lh_client_link {
    uint64_t id;
    enum lh_method method;
    void *owner;
    /* A message arrived. A link of a unary method is forgotten before this is called. */
    void (*on_message)(void *owner, const void *message, struct lh_buf *payload);
    /* A part of a message arrived. May be NULL. */
    void (*on_progress)(void *owner);
    /* It is over, without (another) message; forgotten before this is called. */
    void (*on_closed)(void *owner, int error, const char *text);
    struct lh_client_link *next; /* in its bucket */
};

/* A request to the masters, repeated until one answers or the deadline comes. Lives inside its
 * owner. */
struct lh_client_ask {
    struct lh_client *client;
    struct lh_client_link link;
    struct lh_timer timer; /* the end of a try or of a pause */
    const ProtobufCMessage *request;
    struct lh_duration patience;
    struct lh_instant deadline;
    unsigned failures;
    bool active;
    bool unknown; /* an earlier try may have been carried out though its answer is lost */
    int reason;   /* of the last failed try */
    char text[LH_CALL_TEXT_BYTES];
    void *owner;
    /* The end: `reply` (NULL if nobody answered) and its error. The ask may be begun anew in it. */
    void (*done)(void *owner, int error, const char *text, const void *reply);
};

/* A server of a chunk's replica set. */
struct lh_client_member {
    char *server_id;
    char *address; /* "" if not known */
    /* Of a lane: what has become of it in the round over all members. */
    bool tried, corrupt;
};

/* What the master says of a chunk. Owned copies. */
struct lh_client_chunk {
    uint64_t chunk, version;
    uint64_t start, length;
    bool sealed;
    char *primary; /* server_id or "" */
    struct lh_client_member *members;
    size_t member_count;
};

/* A writer's place on a stream of appends. Lives inside its owner; `stream` NULL: on none. */
struct lh_client_writer {
    uint64_t id;
    struct lh_client_stream *stream;
    bool opening;     /* its opening is unanswered */
    uint64_t left;    /* the newest link of the streams that it has left */
    unsigned batches; /* given and not released */
    uint64_t bytes;   /* of these */
    void *owner;
    void (*on_opened)(void *owner, const Leasehold__AppendReply *m);
    void (*on_stored)(void *owner, const Leasehold__Stored *stored);
    /* The server has refused this writer or ended the stream, or the connection is lost. The owner
     * releases its batches and leaves in this call. */
    void (*on_refused)(void *owner, int error, const char *text);
    UT_hash_handle hh; /* of its stream */
};

/* Verified bytes that wait for a FETCH. */
struct lh_client_ready {
    struct lh_client_ready *next;
    struct lh_buf batches;
    uint64_t offset; /* in the file */
};

/* One READ, under way or over. Lives inside its lane. */
struct lh_client_read {
    struct lh_client_lane *lane;
    struct lh_client_link link; /* `id` 0: it is over */
    struct lh_timer timer;      /* its end */
    char *address;              /* that is asked or was asked last; NULL: none yet */
    struct lh_instant begun;
    struct lh_instant whole_by; /* however it comes on */
    uint64_t for_fetch; /* the FETCH that it was begun for; 0: ahead of any */
    bool waits;         /* for more bytes */
};

/* A chunk that a reader reads, and the READs of it that are under way: one, or two of the same
 * bytes when the first is late. */
struct lh_client_lane {
    struct lh_client_lane *next;
    struct lh_client_reader *reader;
    struct lh_client_chunk chunk;
    uint64_t offset; /* in the chunk: of the next READ */
    struct lh_client_ready *first, *last;
    struct lh_client_read reads[2]; /* the later one of two is the hedge */
    struct lh_timer timer;          /* with a READ under way: it is late then; else a pause */
    size_t member;                  /* that was asked last, or is to be asked next */
    unsigned failures;              /* rounds over all members in a row */
    bool at_end;                    /* unsealed, and nothing more when last asked */
};

/* One place in one file. */
struct lh_client_reader {
    struct lh_client *client;
    struct lh_client_reader *next;
    char *path;
    uint64_t file;
    uint64_t chunk_size;
    uint64_t readahead;
    bool follow;
    struct lh_reader_open_call *opening;
    struct lh_fetch_call *fetch; /* under way, or NULL */
    uint64_t fetches;            /* fed so far: the number of the present one */
    struct lh_client_lane *lanes;
    uint64_t start;    /* where the program said to begin */
    uint64_t held;     /* bytes ready and under way, in all lanes */
    uint64_t position; /* of the first lane, or of the next chunk when there is none */
    struct lh_client_ask ask;
    Leasehold__StatRequest stat;
    Leasehold__LocateRequest locate;
    Leasehold__OpenTailRequest open_tail;
    uint64_t located_for;        /* the FETCH that the LOCATE under way was begun for */
    bool verifying;              /* ... after the primary said that there is no more */
    struct lh_timer timer;       /* the pause before the next LOCATE */
    struct lh_timer fetch_timer; /* the FETCH's deadline */
    unsigned failures;
    int reason; /* of the last failure since bytes came; LH_OK: none */
    char text[LH_CALL_TEXT_BYTES];
};

/* A server that did not answer. */
struct lh_client_silent {
    struct lh_client_silent *next;
    char *address;
    struct lh_instant until;  /* asked last */
    struct lh_duration lasts; /* the while that ends there */
    bool tried_again;         /* since it became silent, and has not answered yet */
};

#define LH_CLIENT_BUCKETS 256u

/* Owners of timers. */
enum lh_client_timer {
    LH_TIMER_ASK,
    LH_TIMER_APPENDER,
    LH_TIMER_GIVE_UP,
    LH_TIMER_STREAM,
    LH_TIMER_READ,
    LH_TIMER_LANE,
    LH_TIMER_READER,
    LH_TIMER_FETCH,
    LH_TIMER_SERVER
};

struct lh_client {
    struct lh_client_config config;
    char **masters;
    size_t master; /* the one that is asked first: the last that answered */
    struct lh_prng prng;
    uint64_t last_link;
    struct lh_client_link *links[LH_CLIENT_BUCKETS];
    struct lh_timers timers;
    struct lh_instant now; /* during a step */
    struct lh_effects *fx; /* during a step */
    struct unary *unaries;
    struct question *questions;
    struct lh_client_stream *streams;
    struct lh_client_stream *touched_streams; /* by this step */
    struct lh_client_appender *appenders;
    struct lh_client_reader *readers;
    struct lh_client_silent *silent;
    size_t silent_count;                       /* at most `silent_servers` */
    struct lh_duration read_time, read_spread; /* of answered READs: usually; 0: none yet */
    uint64_t hedge_credit;                     /* in hundredths of a READ */
    bool stopped;
};

/* client.c */
void lh_client_link_open(struct lh_client *c, struct lh_client_link *link, enum lh_method method,
    const char *address, struct lh_duration timeout);
void lh_client_link_close(struct lh_client *c, struct lh_client_link *link);

/* Begins asking; `ask->owner` and `ask->done` are set by the caller, `request` lives until the end.
 */
void lh_client_ask(struct lh_client *c, struct lh_client_ask *ask, enum lh_method method,
    const ProtobufCMessage *request, struct lh_duration patience, struct lh_instant deadline);
void lh_client_ask_cancel(struct lh_client_ask *ask);

/* The pause after that many failures in a row. */
struct lh_duration lh_client_backoff(struct lh_client *c, unsigned failures);

/* The error and text fields that every reply has; `*text` is never NULL. */
int lh_client_reply_error(const void *reply, const char **text);

void lh_client_complete(struct lh_client *c, struct lh_call *call, int error, const char *text);

void lh_client_chunk_copy(struct lh_client_chunk *to, const Leasehold__ChunkInfo *from);
void lh_client_chunk_deinit(struct lh_client_chunk *chunk);

/* A message of the caller's own, to be freed with lh_wire_free(). */
ProtobufCMessage *lh_client_copy_message(const ProtobufCMessage *m);

/* server.c */
void lh_client_server_ask(struct lh_client *c, struct lh_server_call *call);
void lh_client_server_timer(void *question);
void lh_client_questions_end(struct lh_client *c, bool complete);

/* silent.c */

/* Whether others should be asked before the server at `address`. */
bool lh_client_is_silent(const struct lh_client *c, const char *address);

/* It is being asked: others wait for how that goes. */
void lh_client_silent_asked(struct lh_client *c, const char *address);

/* It was asked, and cannot be reached or said nothing in time. */
void lh_client_no_answer(struct lh_client *c, const char *address);

/* It has answered something, be it an error. */
void lh_client_answered(struct lh_client *c, const char *address);

void lh_client_silent_deinit(struct lh_client *c);

/* hedge.c */
void lh_client_hedge_init(struct lh_client *c);

/* A READ that did not wait for more bytes was answered after that time. */
void lh_client_read_took(struct lh_client *c, struct lh_duration time);

/* After which time one is late. */
struct lh_duration lh_client_late_after(const struct lh_client *c);

/* A READ goes out that is no hedge: so many more hedges are allowed. */
void lh_client_hedge_earn(struct lh_client *c);

/* False: there were too many. */
bool lh_client_hedge_spend(struct lh_client *c);

/* stream.c */

/* Joins a stream to that primary for that chunk and version, opened if there is none, and asks for
 * the writer's opening (APP-5). */
void lh_client_stream_join(struct lh_client *c, struct lh_client_writer *w, const char *address,
    uint64_t chunk, uint64_t version, uint64_t first_sequence);

/* Leaves it, all of its batches released; also when it is on none. */
void lh_client_stream_leave(struct lh_client_writer *w);

/* Gives a batch to be sent, in order, once `on_opened` was called. It is kept until its release,
 * `sent` set when it goes. */
void lh_client_stream_give(struct lh_client_writer *w, struct lh_submit_call *b);

/* Forgets a given batch that was answered or that the writer does not wait for any more: not sent
 * yet, it never is. */
void lh_client_stream_release(struct lh_client_writer *w, struct lh_submit_call *b);

void lh_client_stream_timer(struct lh_client_stream *s);

/* Ends a step: sends what was given, closes streams that all have left. */
void lh_client_streams_flush(struct lh_client *c);
void lh_client_streams_check(const struct lh_client *c);

/* appender.c */
void lh_client_appender_open(struct lh_client *c, struct lh_appender_open_call *call);
void lh_client_appender_close(struct lh_appender_close_call *call);
void lh_client_appender_submit(struct lh_submit_call *call);
void lh_client_appender_timer(struct lh_client_appender *a, enum lh_client_timer kind);
void lh_client_appenders_end(struct lh_client *c, bool complete);
void lh_client_appenders_check(const struct lh_client *c);

/* reader.c */
void lh_client_reader_open(struct lh_client *c, struct lh_reader_open_call *call);
void lh_client_reader_close(struct lh_reader_close_call *call);
void lh_client_reader_fetch(struct lh_fetch_call *call);
void lh_client_reader_timer(void *owner, enum lh_client_timer kind);
void lh_client_readers_end(struct lh_client *c, bool complete);
void lh_client_readers_check(const struct lh_client *c);

/* reader.c, for lane.c */

/* Remembers the last failure: what a FETCH that ends at its deadline tells. */
void lh_client_reader_say(
    struct lh_client_reader *r, int error, const char *what, const char *text);

/* Completes the FETCH under way, if there is one. */
void lh_client_reader_end_fetch(struct lh_client_reader *r, int error, const char *text);

/* Asks the master for the chunks from the first lane's position on. `verifying`: the primary has
 * nothing more, and this is the file's end if the chunk still is its unsealed tail (APP-6). */
void lh_client_reader_locate(struct lh_client_reader *r, bool verifying);

/* Nobody is known to act as the tail's primary, but only it can say where the end is: have the
 * master bring one, or name it. `primary_failed`: the one of the tail's version gave no answer, or
 * says that it is none. */
void lh_client_reader_open_tail(struct lh_client_reader *r, bool primary_failed);

/* Goes on: gives out what is ready, reads where there is room, asks the master when there is no
 * lane. May free lanes. */
void lh_client_reader_pump(struct lh_client_reader *r);

/* lane.c */

/* A lane behind the reader's others, which reads from `offset` in the chunk on; begins nothing. */
struct lh_client_lane *lh_client_lane_add(
    struct lh_client_reader *r, const Leasehold__ChunkInfo *info, uint64_t offset);

/* With its READs and what is ready. The caller has taken it off the reader's lanes. */
void lh_client_lane_free(struct lh_client_lane *l);

/* Takes newer knowledge of the first lane's chunk. False when it cannot be true. */
bool lh_client_lane_refresh(struct lh_client_lane *l, const Leasehold__ChunkInfo *info);

/* Where in the file its next READ begins. */
uint64_t lh_client_lane_position(const struct lh_client_lane *l);

/* Whether the chunk was read to its sealed end. */
bool lh_client_lane_exhausted(const struct lh_client_lane *l);

/* Whether the next READ is for the primary only: the end of the file is asked of nobody else
 * (APP-6). */
bool lh_client_lane_needs_primary(const struct lh_client_lane *l);

/* Whether a READ is under way. */
bool lh_client_lane_reading(const struct lh_client_lane *l);

/* Begins a READ, of the member whose turn it is; none is under way. */
void lh_client_lane_read(struct lh_client_lane *l);

/* A READ is late, or the pause is over. May free lanes. */
void lh_client_lane_timer(struct lh_client_lane *l);

/* That READ's time is over. May free lanes. */
void lh_client_read_timer(struct lh_client_read *read);

#endif
