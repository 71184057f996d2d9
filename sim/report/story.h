/* A run as a story: what nodes take in and do (sim/world/watch.h) becomes transitions, spans and
 * arrows, in the protocol's words and in the order of true time. The narrative and the timeline
 * print what is told here; how messages are read, who believes in what, and how long a fault lasted
 * is decided once, in this folder's story*.c.
 *
 * A lease has two ends: the holder's, on the holder's clock, and the grantor's, on the master's
 * (TIME-4). Both are told, each at the true moment at which that clock gets there, also when the
 * node is paused or nothing else happens then. */
#pragma once

#include "sim/cluster/cluster.h"

#include <stdbool.h>
#include <stdint.h>

enum lh_sim_topic {
    LH_SIM_TOPIC_FAULT, /* what is done to the world; starts and ends of processes too */
    LH_SIM_TOPIC_SESSION,
    LH_SIM_TOPIC_LEASE,
    LH_SIM_TOPIC_RECOVERY, /* adoption, equality, members that fail */
    LH_SIM_TOPIC_APPEND,
    LH_SIM_TOPIC_SEAL,
    LH_SIM_TOPIC_REPLICA, /* created, cut, lost, removed */
    LH_SIM_TOPIC_FILE,    /* what programs ask of the master */
    LH_SIM_TOPIC_REFUSAL,
    LH_SIM_TOPIC_LOCK,  /* of programs */
    LH_SIM_TOPIC_VALUE, /* likewise: reads, caches and changes */
    LH_SIM_TOPIC_LOG,   /* warnings and errors of a core that no message shows */
    LH_SIM_TOPIC_COUNT
};

/* One word in lower case. Static. */
const char *lh_sim_topic_name(enum lh_sim_topic topic);

enum lh_sim_what {
    LH_SIM_SAID,     /* `text` is all of it */
    LH_SIM_EXTENDED, /* a lease's end moved, at the node that believes in it */
    LH_SIM_STORED, /* a primary answered `count` committed batches; the last one lies at `reach` */
    LH_SIM_ACKED   /* a client got such an answer */
};

#define LH_SIM_NOBODY (-1)

struct lh_sim_transition {
    uint64_t at; /* true ns */
    enum lh_sim_what what;
    enum lh_sim_topic topic;
    int node;                /* index in the world; NOBODY: the world itself */
    int peer;                /* whom it is said to, or NOBODY */
    uint64_t chunk, version; /* 0: about no single one */
    uint64_t count, reach;   /* STORED, ACKED. EXTENDED: `reach` is how much is left, in ns */
    const char *text;        /* without names of node, peer, chunk and version; no control
                                characters; good until the listener returns */
};

enum lh_sim_span_kind {
    LH_SIM_SPAN_LEASE_GIVEN,   /* the master holds the chunk for `node` */
    LH_SIM_SPAN_LEASE_HELD,    /* `node` believes that it may act as primary */
    LH_SIM_SPAN_SESSION_GIVEN, /* `number`: the session, as on the wire */
    LH_SIM_SPAN_SESSION_HELD,
    LH_SIM_SPAN_DOWN,
    LH_SIM_SPAN_PAUSED,
    LH_SIM_SPAN_CUT,  /* nothing gets from `node` to `peer` */
    LH_SIM_SPAN_SLOW, /* `number`: ns more from `node` to `peer` */
    LH_SIM_SPAN_STALLED,
    LH_SIM_SPAN_DRIFT,     /* `number`: the rate in ppm, as two's complement */
    LH_SIM_SPAN_CLOGGED,   /* what `node` sends to `peer` waits, and nobody notices */
    LH_SIM_SPAN_LOCK_HELD, /* a program at `node` believes that it has the lock `name`, with
                              the token `number` */
    LH_SIM_SPAN_COUNT
};

struct lh_sim_span {
    enum lh_sim_span_kind kind;
    int node, peer;
    uint64_t chunk, version; /* of leases */
    uint64_t number;
    uint64_t begin, end; /* true ns */
    bool unfinished;     /* it lasted when the story ended */
    uint64_t until;      /* of an unfinished lease or session: when it ends by the believer's clock
                            as that runs now, true ns; else as `end` */
    const char *how;     /* it ended; static. "" when that says nothing */
    const char *name;    /* of a lock; good until the listener returns. NULL: of nothing else */
};

/* A message on its way. */
struct lh_sim_arrow {
    const char *name; /* static */
    int from, to;
    uint64_t chunk, version; /* 0: about no single one */
    uint64_t sent, arrived;  /* true ns; `arrived` UINT64_MAX: it did not */
    bool under_way;          /* it did not arrive because the story ended first */
};

/* Each function may be NULL. Transitions come in the order of their moments; spans and arrows are
 * told once, when they are over. Pointers are good until the function returns. */
struct lh_sim_listener {
    void *arg;
    void (*transition)(void *arg, const struct lh_sim_transition *t);
    void (*span)(void *arg, const struct lh_sim_span *s);
    void (*arrow)(void *arg, const struct lh_sim_arrow *a);
};

struct lh_sim_story;

/* Begins to watch; before the nodes are started. The listener is copied. */
struct lh_sim_story *lh_sim_story_begin(
    struct lh_sim_cluster *c, const struct lh_sim_listener *listener);

/* Tells what is still open, and nothing more after that. */
void lh_sim_story_end(struct lh_sim_story *s);

/* After the cluster was destroyed, since its world keeps the watcher. */
void lh_sim_story_destroy(struct lh_sim_story *s);

/* "12,345" */
#define LH_SIM_NUMBER_BYTES 32
const char *lh_sim_number(char to[LH_SIM_NUMBER_BYTES], uint64_t number);
