/* What the parts of the world know of each other. Inside sim/ only. */
#pragma once

#include "sim/world/clock.h"
#include "sim/world/disk.h"
#include "sim/world/files.h"
#include "sim/world/queue.h"
#include "sim/world/watch.h"
#include "sim/world/wired.h"

#include "proto/codec.h"

#include <uthash.h>

/* ---- network.c ---- */

enum parcel_kind { PARCEL_OPENED, PARCEL_MESSAGE, PARCEL_HALF_CLOSED, PARCEL_CLOSED };

/* Something on its way over a link. */
struct parcel {
    struct parcel *next;
    enum parcel_kind kind;
    uint64_t at;               /* when it arrives if nothing stops it */
    uint64_t begins;           /* MESSAGE in pieces: when it begins to */
    uint64_t pieces, notified; /* of which its receiver hears before the last; has heard */
    ProtobufCMessage *message; /* MESSAGE; owned */
    struct lh_buf payload;     /* MESSAGE */
    uint32_t crc;              /* MESSAGE: of its bytes */
    bool notify;               /* MESSAGE: its sender waits until it is out of the way ... */
    bool stuck;                /* ... which it is when it has arrived */
    int error;                 /* CLOSED */
    const char *text;          /* CLOSED; static */
    char *said;                /* CLOSED: the server's own text in its place, or NULL; owned */
};

struct wired; /* wire.h */
struct connection;

/* One of a link's two ends: 0 opened it, 1 serves it. */
struct end {
    struct link *link;
    struct wired *wired;         /* the same link, if the wire carries it; or NULL */
    struct lh_sim_node *node;    /* 1: NULL until the name was resolved */
    uint64_t id;                 /* the core's name for it; 0 before the serving core heard of it */
    bool open;                   /* the core may still get something from it */
    bool held;                   /* LH_FX_HOLD */
    bool late_one;               /* one message may still arrive though it is held */
    bool half_closed;            /* 0: it sends nothing more */
    bool arriving;               /* a DELIVER event is under way for this end */
    struct parcel *first, *last; /* towards this end, in order */
    UT_hash_handle hh;           /* in its node's `links`, by id */
};

struct link {
    struct link *next, *prev; /* all links of the world */
    uint64_t number;
    enum lh_method method;
    uint32_t references;        /* events about it, and the world's while an end is open */
    bool arrived;               /* the call has come to the serving machine */
    bool nobody;                /* the name that was opened is no node's */
    char *called;               /* that name, as of lh_server_at() */
    bool broken;                /* one end was told so, the other notices the silence */
    struct lh_instant deadline; /* of the call, on its opener's clock */
    struct end ends[2];
};

struct network {
    struct link *links;
    struct connection *connections;
    uint64_t connection_count;
    struct lh_sim_wire_config wire;
    uint64_t link_count;
    uint64_t delivered;
    bool cut[LH_SIM_NODES_MAX][LH_SIM_NODES_MAX];      /* [from][to] */
    uint64_t cuts[LH_SIM_NODES_MAX][LH_SIM_NODES_MAX]; /* how often it was cut */
    bool clogged[LH_SIM_NODES_MAX][LH_SIM_NODES_MAX];
    bool deaf[LH_SIM_NODES_MAX][LH_SIM_NODES_MAX]; /* [at][peer]: does not notice its silence */
    uint64_t extra[LH_SIM_NODES_MAX][LH_SIM_NODES_MAX];     /* ns */
    uint64_t bandwidth[LH_SIM_NODES_MAX][LH_SIM_NODES_MAX]; /* bytes a second; 0: no limit */
    uint64_t line_free[LH_SIM_NODES_MAX][LH_SIM_NODES_MAX]; /* when the last byte has gone out */
};

/* Fills in what a sight shows of a link: of a link's end, and of the link that an effect of `node`
 * is about (all of it stays zero when there is none). A SEND's message is decoded here, once for
 * watchers and receiver; it belongs to the caller until lh_sim_network_send(). */
void lh_sim_network_show(const struct end *end, struct lh_sim_sight *sight);
ProtobufCMessage *lh_sim_network_show_effect(
    struct lh_sim_node *node, const struct lh_effect *e, struct lh_sim_sight *sight);

void lh_sim_network_open(struct lh_sim_node *node, const struct lh_effect *e);
void lh_sim_network_send(struct lh_sim_node *node, struct lh_effect *e, ProtobufCMessage *message);
void lh_sim_network_close(struct lh_sim_node *node, const struct lh_effect *e);
void lh_sim_network_hold(struct lh_sim_node *node, uint64_t link, bool held);
void lh_sim_network_deliver(struct lh_sim *sim, const struct lh_sim_event *e);
void lh_sim_network_sent(struct lh_sim *sim, const struct lh_sim_event *e);
void lh_sim_network_timeout(struct lh_sim *sim, const struct lh_sim_event *e);
void lh_sim_network_silence(struct lh_sim *sim, const struct lh_sim_event *e);

/* The process is gone: its peers hear of it, or, when the machine went with it,
 * only its silence. */
void lh_sim_network_drop(struct lh_sim_node *node, bool machine);

/* When neither end can hear the other, each finds out by itself: `end` after a while. */
void lh_sim_network_watch_silence(struct lh_sim *sim, struct end *end);

/* The connection breaks as far as `end` is concerned. May be the end of the link. */
void lh_sim_network_break_end(struct lh_sim *sim, struct end *end);

/* The opener's end sends nothing more: what its core still says is lost. */
void lh_sim_network_half_close(struct lh_sim *sim, struct link *link);

/* What is on its way to `end` has a free way again. */
void lh_sim_network_move_on(struct lh_sim *sim, struct end *end);
/* It has waited for a slow line, which is not slow any more. */
void lh_sim_network_hurry(struct lh_sim *sim, struct end *end);

void lh_sim_network_unref(struct lh_sim *sim, struct link *link);
void lh_sim_network_deinit(struct lh_sim *sim);

/* For both ways to carry links. A message's way, in ns. */
uint64_t lh_sim_network_one_way(
    struct lh_sim *sim, const struct lh_sim_node *from, const struct lh_sim_node *to);
/* How long it takes until the last of so many bytes is on the line, behind all that was sent
 * before; `*begins` is when the first of them is. */
uint64_t lh_sim_network_transfer(struct lh_sim *sim, const struct lh_sim_node *from,
    const struct lh_sim_node *to, uint64_t bytes, uint64_t *begins);
bool lh_sim_network_is_blocked(
    const struct lh_sim *sim, const struct lh_sim_node *from, const struct lh_sim_node *to);
/* Whoever has that address now; NULL: nobody. */
struct lh_sim_node *lh_sim_network_called(struct lh_sim *sim, const char *server);
/* What grpc/ and wire/ find out in a handshake (ACC-8). */
bool lh_sim_network_is_meant(
    const struct lh_sim_node *answers, enum lh_method method, const char *server);

/* ---- disk.c ---- */

struct disk {
    struct lh_sim_files files;
    struct disk_op *running, *last_running; /* in the order in which they were emitted */
    uint64_t capacity;
    bool stalled;
    bool starved;
    int refuses;        /* changes, with this error; LH_OK: it takes them */
    bool refuses_sync;  /* and syncs */
    bool shut;          /* the file system has shut itself down: no change and no sync any more */
    uint32_t mounts;    /* since the machine was made, but for those by a boot */
    uint64_t failed_at; /* the first sync or probe that failed since it is; 0: none did */
    uint64_t extra;     /* ns that every operation takes longer */
    bool misdirect;     /* the next write, to: */
    uint64_t wrong_file, wrong_offset;
    struct disk_fault {
        int error;
        uint32_t count; /* operations that it meets */
    } faults[LH_DISK_OPS];
};

void lh_sim_disk_init(struct disk *d);
void lh_sim_disk_submit(struct lh_sim_node *node, struct lh_effect *e);
void lh_sim_disk_done(struct lh_sim *sim, const struct lh_sim_event *e);

/* What is under way comes to an unknown end; with `machine`, so does what was not synced. */
void lh_sim_disk_drop(struct lh_sim_node *node, bool machine);
void lh_sim_disk_deinit(struct disk *d);

/* ---- store.c ---- */

struct store {
    struct lh_sim_pair *pairs;
    size_t count, capacity;
    struct commit *first, *last; /* under way, in order */
    uint64_t version;            /* commits that took effect */
    struct lh_sim_pair *kept;    /* a copy of `pairs` as they once were */
    size_t kept_count;
    bool has_kept;
    int fail_next;
    int failed; /* of the process's first commit that failed */
};

void lh_sim_store_submit(struct lh_sim_node *node, struct lh_effect *e);
void lh_sim_store_done(struct lh_sim *sim, const struct lh_sim_event *e);
void lh_sim_store_go_on(struct lh_sim_node *node); /* the disk is not stalled any more */
void lh_sim_store_drop(struct lh_sim_node *node);
void lh_sim_store_wipe(struct lh_sim_node *node);
void lh_sim_store_deinit(struct store *s);

/* ---- node.c ---- */

struct lh_sim_node {
    struct lh_sim *sim;
    uint32_t index;
    char *name;
    char *identity;                   /* that others see */
    struct lh_sim_node *in_its_place; /* has its address while it is down; NULL: nobody */
    const struct lh_sim_role *role;
    void *arg;

    bool up, paused;
    bool scrapped;
    bool deaf;                       /* no new connections */
    bool hidden;                     /* likewise, but only to it */
    struct lh_sim_node *misleads_to; /* who has its address; NULL: itself */
    bool powered;                    /* false after a power loss, until the next start */
    bool pause_in_step;
    bool in_step;  /* it was: `kept` is to be carried out */
    uint64_t life; /* counts starts and ends: odd while it is up */
    uint64_t incarnation, boot;
    uint64_t stored;     /* the incarnation that the last start could write down */
    uint64_t kept_until; /* true ns: until then no start can */
    uint64_t steps;
    uint64_t check_at; /* of its steps, the next one that is checked */
    uint64_t served;   /* links that peers opened, in this life */
    struct lh_core core;
    struct lh_effects fx;
    struct lh_effects kept; /* of the step in which it was paused */
    int stopped_with;
    struct end *links; /* by the core's id */

    struct lh_sim_clock clock;
    uint64_t wall_ms;      /* at true time 0 */
    uint64_t timer_at;     /* true time of the earliest TIMER event under way; UINT64_MAX: none */
    uint64_t timer_late;   /* ns at most */
    uint64_t timer_latest; /* the most that this ever was */
    uint64_t timer_spins;  /* timers in a row without true time moving on */
    uint64_t timer_fired_at;

    struct lh_sim_event *waiting; /* events that came while it was paused */
    size_t waiting_count, waiting_capacity;

    struct disk disk;
    struct store store;
};

/* Feeds one input (its `now` and `wall_ms` are filled in) and carries out what comes of it. `end`:
 * whose link it is about, or NULL. */
void lh_sim_feed(struct lh_sim_node *node, struct lh_input *in, const struct end *end);

/* Sets the timer for what the core now wants; after a step, or when the clock's rate changed. */
void lh_sim_arm(struct lh_sim_node *node);
void lh_sim_timer(struct lh_sim *sim, const struct lh_sim_event *e);
void lh_sim_node_deinit(struct lh_sim_node *node);

/* ---- world.c ---- */

struct lh_sim {
    struct lh_sim_config config;
    uint64_t now;
    struct lh_sim_queue queue;
    struct lh_sim_node *nodes[LH_SIM_NODES_MAX];
    size_t node_count;
    struct network network;
    struct lh_prng streams[LH_SIM_STREAMS];
    uint64_t hash, events;
    struct lh_sim_watcher *watchers;
    size_t watcher_count;
    FILE *trace;
    char *failure;
    const char *failed_rule;
    uint64_t failed_at, failed_chunk;
};

uint64_t lh_sim_draw(struct lh_prng *random, const struct lh_sim_range *range);
uint64_t lh_sim_draw_tail(struct lh_prng *random, const struct lh_sim_tail *tail);
void lh_sim_hash_in(struct lh_sim *sim, uint64_t value);

/* Schedules `e` (kind, node, life, which, about set) for `at`, which is not in the past. */
void lh_sim_schedule(struct lh_sim *sim, uint64_t at, struct lh_sim_event e);

/* ---- watch.c: tells watchers; the functions of watch.h by their names ---- */

void lh_sim_notify_takes(struct lh_sim *sim, const struct lh_sim_sight *sight);
void lh_sim_notify_does(struct lh_sim *sim, const struct lh_sim_sight *sight);
void lh_sim_notify_stepped(struct lh_sim_node *node);
void lh_sim_notify_lives(struct lh_sim_node *node, enum lh_sim_life what);
void lh_sim_notify_disk(struct lh_sim_node *node, uint64_t file, enum lh_disk_op op,
    uint64_t offset, uint64_t length, int error);
void lh_sim_notify_committed(struct lh_sim_node *node);
void lh_sim_notify_noted(struct lh_sim *sim, const char *text);

/* ---- trace.c ---- */

const char *lh_sim_disk_op_name(enum lh_disk_op op); /* "write" */

void lh_sim_trace_input(const struct lh_sim_sight *sight);
void lh_sim_trace_effect(const struct lh_sim_sight *sight);
void lh_sim_trace_line(const struct lh_sim *sim, const char *who, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
