/* One end of a connection that carries many links: bytes in, events out; operations on links in,
 * bytes out. Pure: no socket, no clock, no thread. The driver owns the socket.
 *
 * A link is one call of one method, opened by the end that opened the connection. Its messages
 * arrive whole and in order; nothing is ordered among links. What a link may have sent and its
 * receiver's owner has not asked for is bounded by the link's window, and by nothing else: bytes of
 * the connection are always read, so that a link whose owner does not ask never holds up another
 * one. A message that was begun is let in whole.
 *
 * Life of a struct lh_mux_link: from lh_mux_open(), or LH_MUX_OPENED, until lh_mux_close() or
 * LH_MUX_CLOSED has been taken. It must not be named afterwards.
 *
 * Everything that a peer sends is checked; what breaks the format breaks the connection, with a
 * sentence, which the peer is sent too. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/step.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_MUX_VERSION 1u

/* Which links a connection carries. Leases must not wait behind bulk bytes, nor appends behind
 * reads. */
enum lh_mux_class { LH_MUX_DATA, LH_MUX_SESSIONS, LH_MUX_READS, LH_MUX_CLASSES };
enum lh_mux_class lh_mux_class_of(enum lh_method method);

/* The number of a method on the wire, which it keeps for ever; 0: it is not carried (a foreign
 * one). And back; LH_METHOD_NONE: there is none of that number. */
uint16_t lh_mux_method_number(enum lh_method method);
enum lh_method lh_mux_method_of(uint16_t number);

struct lh_mux_config {
    bool serves;              /* this end accepted the connection; the other end opens links */
    enum lh_mux_class class_; /* of an end that does not serve */
    uint32_t window;          /* bytes; 1 or more */
    uint32_t links_max;       /* served at once, 1 or more; more end the connection */
    uint32_t cancels_max;     /* links that the peer may both open and cancel in a second; 0: any */
    uint32_t message_max;     /* bytes of a message from the peer */
    uint32_t frame_bytes;     /* of a message in one frame, LH_FRAME_MORE_BYTES_MIN to
                                 LH_FRAME_BODY_BYTES_MAX */
    uint32_t refer_bytes; /* that arrive together of a message are referred to, fewer are copied: a
                                 quarter of the block that they are read into */
    uint32_t stage_bytes; /* chosen and not yet written, about: what nothing can overtake */
    struct lh_duration hello_timeout;
    /* After so long without a byte from the peer: a PING. A connection on which none came for that
     * time after it is broken. */
    struct lh_duration ping_after, ping_timeout;
    /* The request of a unary call is to be there so long after its link was opened. */
    struct lh_duration request_timeout;
};

struct lh_mux;

struct lh_mux_link {
    uint64_t id; /* first: it is kept in a map */
    void *owner; /* the driver's */
    enum lh_method method;
};

struct lh_mux *lh_mux_create(const struct lh_mux_config *config, struct lh_instant now);
/* The driver connects only now: hello_timeout and ping_after count from here. Before any byte. */
void lh_mux_begin(struct lh_mux *mux, struct lh_instant now);
void lh_mux_destroy(struct lh_mux *mux); /* its links, too; NULL is allowed */

/* ---- links ---- */

/* Whether a further link can be opened: the connection is not broken, and neither end goes away.
 * One more than the peer serves waits for another one's end. */
bool lh_mux_may_open(const struct lh_mux *mux);
/* Only if it may. `timeout`: of the whole call, LH_DURATION_FOREVER for none. */
struct lh_mux_link *lh_mux_open(struct lh_mux *mux, enum lh_method method,
    struct lh_duration timeout, void *owner, struct lh_instant now);
/* Queues a message; takes over `bytes`. `notify`: lh_mux_next_sent() names the link once its last
 * byte was written. */
void lh_mux_put(struct lh_mux *mux, struct lh_mux_link *link, struct lh_buf bytes, bool notify);
/* Asks for one more message; without effect while an earlier one is still to come. */
void lh_mux_read(struct lh_mux *mux, struct lh_mux_link *link);
/* The end. A served link sends what was queued, and then `error` and `text`; an opened one is
 * cancelled, and what was queued is dropped. */
void lh_mux_close(struct lh_mux *mux, struct lh_mux_link *link, int error, const char *text);
/* A served link that was closed before `since` and still has something queued: that is dropped, and
 * its end alone is sent. Returns how many there were. */
unsigned lh_mux_drop_untaken(struct lh_mux *mux, struct lh_instant since);

/* What was not begun yet of links of a connection that turned out to be of no use, as one to a
 * server that does not speak this. Of the link that was opened first: its deadline, and whether a
 * message of it is asked for. NULL: there is none. */
struct lh_mux_link *lh_mux_unbegun(const struct lh_mux *mux, struct lh_instant *ends, bool *asks);
/* Its next message, the caller's. False: there is none. */
bool lh_mux_take_back(
    struct lh_mux *mux, struct lh_mux_link *link, struct lh_buf *bytes, bool *notify);

/* ---- bytes ---- */

/* What was read from the socket; the bytes are in `block`, of which references are taken. An error:
 * the connection broke. */
void lh_mux_take(struct lh_mux *mux, struct lh_block *block, const uint8_t *bytes, size_t size,
    struct lh_instant now);

/* A part of what is to be written. */
struct lh_mux_part {
    const uint8_t *bytes;
    size_t size;
};
/* The first parts of what is to be written now, at most `max`; 0: nothing. They stay valid until
 * lh_mux_written(), other calls in between too. */
size_t lh_mux_output(
    struct lh_mux *mux, struct lh_mux_part *parts, size_t max, struct lh_instant now);
void lh_mux_written(struct lh_mux *mux, size_t bytes);
/* Whether there is something to write. */
bool lh_mux_has_output(const struct lh_mux *mux);

/* ---- events ---- */

enum lh_mux_event_kind { LH_MUX_NOTHING, LH_MUX_OPENED, LH_MUX_MESSAGE, LH_MUX_CLOSED };

struct lh_mux_event {
    enum lh_mux_event_kind kind;
    struct lh_mux_link *link; /* CLOSED: NULL, it is no more */
    void *owner;
    struct lh_buf bytes; /* MESSAGE: the taker's */
    int error;           /* CLOSED */
    bool by_peer;        /* CLOSED: the peer ended it, while a message was asked for */
    char *text;          /* CLOSED: the taker's, may be NULL */
};

/* The next event; LH_MUX_NOTHING: there is none. */
struct lh_mux_event lh_mux_next(struct lh_mux *mux);
bool lh_mux_has_event(const struct lh_mux *mux);
/* The next link of which a message sent with `notify` was written; NULL: none. */
struct lh_mux_link *lh_mux_next_sent(struct lh_mux *mux);

/* ---- time, and the end ---- */

/* When lh_mux_tick() is due. */
struct lh_instant lh_mux_deadline(const struct lh_mux *mux);
void lh_mux_tick(struct lh_mux *mux, struct lh_instant now);

/* Takes no further links, and says so; those that are open go on. */
void lh_mux_go_away(struct lh_mux *mux, int error, const char *text);
/* The connection is lost, or is to be: all links end with UNAVAILABLE and the text; served ones
 * with CANCELLED. */
void lh_mux_break(struct lh_mux *mux, const char *text);
/* NULL: it is not broken. What is still to be written is a last word to the peer. */
const char *lh_mux_broken(const struct lh_mux *mux);
/* A PING was sent, and nothing has been taken since: whether something has arrived is to be
 * looked at before lh_mux_tick(). */
bool lh_mux_awaits_life(const struct lh_mux *mux);
/* The peer sent a HELLO. */
bool lh_mux_is_greeted(const struct lh_mux *mux);
/* Links that are open, or still have something to send. */
size_t lh_mux_links(const struct lh_mux *mux);
/* Bytes of messages queued and not written; and of messages that arrived and wait. */
size_t lh_mux_queued_bytes(const struct lh_mux *mux);
size_t lh_mux_waiting_bytes(const struct lh_mux *mux);
