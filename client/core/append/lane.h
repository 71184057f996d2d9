/* Lanes: what the writers of this client append to one chunk at one version, with one token or
 * without, inside the stream to that chunk's primary. This is what appenders see of it. */
#pragma once

#include "client/core/host/host.h"

#include <uthash.h>

struct lh_client_streams;

/* A writer's place on a lane. Lives inside its owner; `lane` NULL: on none. */
struct lh_client_writer {
    uint64_t id;
    uint64_t token; /* that it appends with (TOK-2); 0: with none */
    /* That it shows (ACC-5); its owner's, there while the writer is on a lane. */
    const ProtobufCBinaryData *capability;
    struct lh_client_lane *lane;
    bool opening;                                       /* its opening is unanswered */
    bool to_open;                                       /* and not even sent */
    uint64_t first_sequence;                            /* of its opening */
    struct lh_client_writer *open_previous, *open_next; /* to be opened on the stream */
    uint64_t left;        /* the number of the newest lane that it has left, ... */
    uint64_t left_stream; /* ... and the `id` of the newest stream */
    unsigned batches;     /* given and not released */
    uint64_t bytes;       /* of these */
    void *owner;
    void (*on_opened)(void *owner, const Leasehold__AppendAnswer *m);
    void (*on_stored)(void *owner, const Leasehold__Stored *stored);
    /* The server has refused this writer, or ended the lane or the stream, or the connection is
     * lost. The owner releases its batches and leaves in this call. */
    void (*on_refused)(void *owner, int error, const char *text);
    UT_hash_handle hh; /* of its lane */
};

/* Joins a lane to that primary for that chunk and version, begun if there is none, and asks for the
 * writer's opening (APP-5). */
void lh_client_lane_join(struct lh_client_streams *all, struct lh_client_writer *w,
    const char *address, const struct lh_client_chunk *chunk, uint64_t first_sequence);

/* Leaves it, all of its batches released; also when it is on none. */
void lh_client_lane_leave(struct lh_client_writer *w);

/* Leaves a lane on which it is opened and has no batch: nothing is wrong with it. */
void lh_client_lane_leave_at_rest(struct lh_client_writer *w);

/* Gives a batch to be sent, in order, once `on_opened` was called. It is kept until its release,
 * `sent` set when it goes. */
void lh_client_lane_give(struct lh_client_writer *w, struct lh_submit_call *b);

/* Forgets a given batch that was answered or that the writer does not wait for any more: not sent
 * yet, it never is. */
void lh_client_lane_release(struct lh_client_writer *w, struct lh_submit_call *b);
