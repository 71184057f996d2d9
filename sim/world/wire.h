/* Links that are carried as wire/sockets/ carries them: over connections, one for each node that is
 * called and each class of methods, between two of the pure machines of wire/. Between these are
 * pipes of bytes: what a socket's buffers and the way between them hold. Inside sim/world only.
 *
 * wire.c: connections. wire_pipe.c: pipes. wire_faults.c: what befalls them. wire_links.c: effects
 * and inputs of links. wire_watch.c: what a machine may do, by the bytes that it writes and takes.
 * wire_config.c: how large all is. */
#pragma once

#include "sim/world/internal.h"
#include "wire/frames.h"
#include "wire/mux.h"

enum chunk_kind { CHUNK_CONNECT, CHUNK_BYTES, CHUNK_END };

/* Something on its way through a pipe. */
struct chunk {
    struct chunk *next;
    enum chunk_kind kind;
    uint64_t at; /* when it arrives if nothing stops it */
    uint8_t *bytes;
    size_t size, taken;
    const char *text; /* END; static */
};

struct pipe {
    struct chunk *first, *last; /* in order */
    size_t bytes;
    uint64_t free_at;       /* when the last byte that was written has gone out */
    uint64_t stalled_until; /* true time: nothing arrives before */
    bool arriving;          /* an event is scheduled for its first chunk */
    bool lost;              /* nothing arrives any more, and nobody says so */
};

/* Frames in a stream of bytes. */
struct frames_seen {
    uint8_t header[LH_FRAME_BYTES], body[LH_HELLO_BYTES];
    size_t header_size, body_size;
    struct lh_frame frame;
    bool in_body;
    uint64_t bytes, began; /* of the stream; where the frame began */
};

/* One of a connection's two ends: 0 opened it. */
struct side {
    struct lh_sim_node *node;
    struct lh_mux *mux; /* NULL: not accepted yet, or over */
    bool connected;     /* bytes may go out */
    bool over;          /* no process has it any more */
    bool service_due;   /* an event is scheduled */
    bool going;         /* it was said that no links are served any more */
    bool full;          /* it waits for the pipe */
    uint64_t tick_at;   /* UINT64_MAX: no event is scheduled */
    struct lh_instant used;
    struct pipe in;
    struct frames_seen writes, takes;
    bool greeted; /* its machine has taken a HELLO */
    uint32_t window;
};

struct connection {
    struct connection *next, *prev;
    struct lh_sim *sim;
    uint64_t number;
    uint32_t references;   /* events about it, and the world's while a side is not over */
    enum lh_method method; /* of its first link */
    enum lh_mux_class class_;
    char *called;  /* as of lh_server_at() */
    bool in_table; /* for new links */
    bool listed;
    struct side sides[2];
    struct wired *links;       /* by id */
    struct wired *half_closed; /* at its server, which does not know yet that it ended */
    bool sweep_due;
};

/* The messages of one direction of a link, as they are on the wire. */
struct way {
    uint32_t *checksums; /* of those that were put and not delivered */
    size_t first, count, capacity;
    uint64_t put, written, taken, delivered;
    bool ended;         /* its sender took a CLOSE */
    uint64_t *notifies; /* of those that were put with `notify`: how many were put by then */
    size_t notify_first, notify_count, notify_capacity;
    int64_t credit;
    bool within;            /* a message was written in part */
    uint64_t eligible_from; /* where in the stream it could go on; UINT64_MAX: it cannot */
    uint64_t last_frame;    /* where in the stream its last frame began; UINT64_MAX: nowhere */
};

struct wired {
    struct link link; /* first */
    struct connection *connection;
    uint64_t id; /* the machines' */
    struct lh_mux_link *mux[2];
    bool reading[2];
    struct lh_instant progress_notified[2];
    struct lh_wire_arrival arrivals[2]; /* at that end */
    struct way ways[2];                 /* from that end */
    bool opened;                        /* OPEN was written */
    bool served_over;                   /* the serving end knew of it, and knows it no more */
    bool finished;                      /* with LH_OK, by the serving core */
    /* A link of the world's own, of which no core knows: to see what a machine refuses. */
    bool own;
    int end_error; /* half-closed: its end */
    char *end_text;
    uint64_t own_ends; /* by the serving node's clock, when it must have ended it; 0: none */
    UT_hash_handle hh;
};

/* ---- wire.c ---- */

/* A connection for a new link to that server. */
struct connection *lh_sim_wire_connection(
    struct lh_sim_node *node, const char *called, enum lh_method method);
/* Events and output of a machine are looked at, soon. */
void lh_sim_wire_rouse(struct connection *c, int which);
struct wired *lh_sim_wire_find(struct connection *c, uint64_t id);
/* A side's descriptor is closed: what was written gets there, unless something came that nobody has
 * read; not `says_so`: an unknown part of it, and no end. The caller has a reference. */
void lh_sim_wire_close_side(struct connection *c, int which, bool says_so);

/* ---- wire_pipe.c ---- */

/* What happens to a side. */
enum happening { ARRIVES, SERVICE, TICKS };
void lh_sim_wire_schedule(struct connection *c, int which, enum happening what, uint64_t at);
/* Of the pipe to a side. */
struct chunk *lh_sim_wire_put_chunk(
    struct connection *c, int to, enum chunk_kind kind, uint64_t delay);
void lh_sim_wire_pop_chunk(struct pipe *p);
void lh_sim_wire_empty(struct pipe *p);
void lh_sim_wire_advance(struct connection *c, int to);
uint64_t lh_sim_wire_one_way(struct connection *c, int to);
void lh_sim_wire_lose_suffix(struct connection *c, int to);
void lh_sim_wire_put_end(struct connection *c, int to, const char *text);

/* ---- wire_links.c ---- */

/* The next event of a machine is reported. False: there is none. The node may be down, or paused,
 * afterwards. */
bool lh_sim_wire_report(struct connection *c, int which);
bool lh_sim_wire_report_sent(struct connection *c, int which);
/* The process is gone: its core hears nothing of it. */
void lh_sim_wire_shut_all(struct connection *c, int which);
/* Links of which neither end knows are freed; `all`: all. */
void lh_sim_wire_sweep(struct connection *c, bool all);

/* ---- wire_watch.c ---- */

void lh_sim_wire_saw_put(struct end *end, const struct lh_buf *bytes, bool notify);
void lh_sim_wire_saw_written(struct connection *c, int which, const uint8_t *bytes, size_t size);
void lh_sim_wire_saw_taken(struct connection *c, int which, const uint8_t *bytes, size_t size);
/* False: the run has failed. */
bool lh_sim_wire_saw_delivered(struct end *end, const struct lh_buf *bytes);
bool lh_sim_wire_saw_sent(struct end *end);
bool lh_sim_wire_saw_closed(struct end *end, int error);
/* All events of that side were reported. */
void lh_sim_wire_saw_drained(struct connection *c, int which);
void lh_sim_wire_way_init(struct way *way);
void lh_sim_wire_way_deinit(struct way *way);
