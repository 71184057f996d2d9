/* One end of a connection as the files of wire/ share it: mux.c (links, life), receive.c (bytes to
 * events), transmit.c (links to bytes). */
#pragma once

#include "base/idmap.h"
#include "base/timers.h"
#include "proto/codec.h"
#include "wire/frames.h"
#include "wire/mux.h"

/* A row of links, each at most once in it. */
struct lh_mux_row {
    struct link *first, *last;
};

/* A link's place in a row. */
struct lh_mux_place {
    struct link *previous, *next;
    bool in;
};

struct lh_mux_message {
    struct lh_buf bytes;
    bool notify;
    struct lh_mux_message *next;
};

struct lh_mux_messages {
    struct lh_mux_message *first, **last;
};

struct link {
    struct lh_mux_link base; /* first */
    bool unary_request;
    bool one_message; /* of the peer; it does not come in pieces either */
    /* Sending. */
    struct lh_mux_messages queue;
    size_t sent_of_first; /* bytes of the queue's first message that were staged */
    int64_t credit;       /* a message may begin while it is positive */
    bool open_due;        /* OPEN was not staged */
    bool close_due;       /* behind the queue */
    bool closed;          /* by its owner, who does not know it any more */
    struct lh_instant closed_at;
    int close_error;
    char *close_text;
    uint32_t notifies_staged, notifies_written;
    /* Receiving. */
    struct lh_buf arriving;
    struct lh_block *gather_block; /* where small parts of it are copied to; NULL: nowhere */
    uint8_t *gather_next;
    size_t gather_left;
    bool begun; /* a message is arriving */
    struct lh_mux_messages inbox;
    size_t inbox_bytes;
    int64_t allowed;   /* what the peer may still send, as its credit */
    uint32_t to_grant; /* bytes that its owner has taken since the last CREDIT */
    bool wanted;
    bool got_message; /* a whole one */
    bool counted;     /* among those that may be open at the serving end */
    bool opened_due;  /* to be reported */
    bool end_due;     /* likewise, behind what is in the inbox ... */
    bool at_once;     /* ... as far as its owner asks for that: it ended in the middle */
    bool ended_by_peer;
    int end_error;
    char *end_text;
    struct lh_timer timer;
    struct lh_instant call_ends; /* of a served unary call, while the timer waits for its request */
    struct lh_mux_place ready, sending, waiting, granting, sent;
};

/* A part that was chosen to be written. */
struct staged {
    struct lh_block *block;
    const uint8_t *bytes;
    size_t size;
    struct link *notify; /* written to its end, this link is to be notified; NULL: none */
    size_t queued;       /* of the queue's bytes, for the count */
};

struct lh_mux {
    struct lh_mux_config config;
    struct lh_idmap links;
    struct lh_timers timers;
    uint32_t last_link; /* that was opened */
    uint32_t counted;   /* links that are open at the serving end */
    struct lh_mux_row ready, sending, granting, sent;
    struct lh_mux_row waiting; /* to be opened, in their order, when the peer takes one more */
    size_t queued_bytes, waiting_bytes;
    struct lh_hello peer;
    bool greeted, hello_due;
    /* Being received. */
    uint8_t header[LH_FRAME_BYTES];
    size_t header_size;
    struct lh_frame frame;
    bool in_body;
    uint32_t body_read, checksum;
    struct link *into; /* of a MESSAGE; NULL: nobody's any more */
    uint8_t control[LH_FRAME_CONTROL_BYTES_MAX];
    /* Being sent: a queue of parts from `out_first` on. */
    struct staged *out;
    size_t out_first, out_count, out_capacity, out_bytes;
    struct lh_block *scratch; /* of headers and small messages; NULL: none */
    uint8_t *scratch_bytes;
    size_t scratch_used;
    unsigned pongs_due;
    bool ping_due;
    bool going, goaway_due; /* this end takes no more links */
    uint32_t goaway_last;
    int goaway_error;
    char *goaway_text;
    bool peer_going;
    char *broken;
    bool last_word_due; /* GOAWAY of a broken connection */
    /* Time. */
    struct lh_instant now, heard, greet_by, ping_sent; /* ping_sent: LH_INSTANT_NEVER: none */
    struct lh_instant second;                          /* of the counts below */
    unsigned begun, cancelled, pings;
};

/* What a message takes of a window beside its bytes: empty ones are bounded, too. */
#define LH_MUX_MESSAGE_COST 64u

static inline struct link *lh_mux_link_of(struct lh_mux_link *link)
{
    return (struct link *)link;
}

#define LH_MUX_ROW(row, place)                                                                     \
    static inline void row##_add(struct lh_mux *mux, struct link *link)                            \
    {                                                                                              \
        if (link->place.in)                                                                        \
            return;                                                                                \
        link->place.in = true;                                                                     \
        link->place.next = NULL;                                                                   \
        link->place.previous = mux->row.last;                                                      \
        if (mux->row.last != NULL)                                                                 \
            mux->row.last->place.next = link;                                                      \
        else                                                                                       \
            mux->row.first = link;                                                                 \
        mux->row.last = link;                                                                      \
    }                                                                                              \
    static inline void row##_remove(struct lh_mux *mux, struct link *link)                         \
    {                                                                                              \
        if (!link->place.in)                                                                       \
            return;                                                                                \
        link->place.in = false;                                                                    \
        if (link->place.previous != NULL)                                                          \
            link->place.previous->place.next = link->place.next;                                   \
        else                                                                                       \
            mux->row.first = link->place.next;                                                     \
        if (link->place.next != NULL)                                                              \
            link->place.next->place.previous = link->place.previous;                               \
        else                                                                                       \
            mux->row.last = link->place.previous;                                                  \
    }
LH_MUX_ROW(ready, ready)
LH_MUX_ROW(sending, sending)
LH_MUX_ROW(waiting, waiting)
LH_MUX_ROW(granting, granting)
LH_MUX_ROW(sent, sent)

static inline void lh_mux_messages_init(struct lh_mux_messages *m)
{
    m->first = NULL;
    m->last = &m->first;
}

/* mux.c */
void lh_mux_messages_add(struct lh_mux_messages *m, struct lh_buf bytes, bool notify);
struct lh_buf lh_mux_messages_take(struct lh_mux_messages *m);
void lh_mux_messages_clear(struct lh_mux_messages *m);
struct link *lh_mux_add_link(struct lh_mux *mux, uint32_t id, enum lh_method method);
/* Takes it out of everything and frees it. */
void lh_mux_free_link(struct lh_mux *mux, struct link *link);
/* What is queued is dropped. */
void lh_mux_drop_queue(struct lh_mux *mux, struct link *link);
/* The link is over, whoever ended it; its owner is to be notified, unless it ended it. What has
 * come whole before is delivered first, but `at_once` only while its owner asks for it. */
void lh_mux_end_link(
    struct lh_mux *mux, struct link *link, int error, const char *text, bool at_once);
/* receive.c. Nothing more is copied to its last place. */
void lh_mux_end_gather(struct link *link);
/* The peer broke the format. */
void lh_mux_violated(struct lh_mux *mux, const char *what);
/* Has the link wait for its place to send, if it has something to send now. */
void lh_mux_offer(struct lh_mux *mux, struct link *link);
/* Whether one more link may be open there. */
static inline bool lh_mux_may_begin(const struct lh_mux *mux)
{
    return mux->greeted && mux->counted < mux->peer.links_max;
}
/* Whether the queue's first message may go on or begin. */
static inline bool lh_mux_may_send(const struct link *link)
{
    return link->queue.first != NULL && (link->sent_of_first > 0 || link->credit > 0);
}
