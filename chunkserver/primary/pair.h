/* The one stream from this server to another, shared by the members there of all chunks of which
 * this server is the primary. */
#pragma once

#include "chunkserver/primary/internal.h"
#include "flow/turns.h"

struct lh_cs_member;

/* A feed that ended here; the other server is to be told. */
struct lh_cs_ended_feed {
    uint64_t chunk, version, feed;
    struct lh_cs_ended_feed *prev, *next;
};

struct lh_cs_pair {
    struct lh_cs_primaries *primaries;
    char *address;                /* lh_server_at() */
    uint64_t link;                /* 0: none */
    struct lh_cs_member *members; /* by chunk */
    struct lh_turns turns;        /* of those that may have something to send */
    struct lh_cs_member
        *unreported; /* those to be told the committed length with the next message */
    struct lh_cs_ended_feed *ended;
    bool named; /* which cluster this server is of (SES-10) */
    struct lh_instant writing_since;
    struct lh_instant progress_at; /* of any of its members, or when the stream was opened */
    struct lh_outbox outbox;       /* what there is to send gathers while it is in flight */
    struct lh_timer idle;          /* set while nobody uses it */
    UT_hash_handle hh;             /* of the room, by address */
};

/* The member's chunk takes part in the stream to its address, which is opened if there is none.
 * Begins a new feed. False: another member of the chunk has the same address. */
bool lh_cs_pair_join(struct lh_cs_member *m);
/* Ends the feed. A member that takes no part is ignored. */
void lh_cs_pair_leave(struct lh_cs_member *m);
/* The member may have something to send: lh_cs_member_next() is asked at the end of the step, or
 * when the way is free. */
void lh_cs_pair_ready(struct lh_cs_member *m);
/* The committed length has risen: the member is told with the next message that goes there, whoever
 * it is for. */
void lh_cs_pair_committed(struct lh_cs_member *m);
/* The member has been waited for in vain. If its part waits behind a message that does not leave,
 * the stream is given up, and with it all its feeds: each member begins again on another one. */
void lh_cs_pair_unstick(struct lh_cs_member *m);
void lh_cs_pairs_deinit(struct lh_cs_primaries *primaries);
