/* Streams of appends, each shared by the writers of one chunk. */
#ifndef LH_CLIENT_STREAM_H
#define LH_CLIENT_STREAM_H

#include "client/core/client.h"
#include "proto/leasehold.pb-c.h"

#include <uthash.h>

struct lh_client_stream;

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

/* Ends a step: sends what was given, closes streams that all have left. */
void lh_client_streams_flush(struct lh_client *c);
void lh_client_streams_check(const struct lh_client *c);

#endif
