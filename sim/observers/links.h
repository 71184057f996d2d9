/* What the observers know of links, until they end. Inside sim/observers only. */
#pragma once

#include "sim/observers/known.h"

/* What a served link was asked for, until it ends. */
struct note {
    uint64_t link;
    UT_hash_handle hh;
    uint32_t actor; /* who serves it */
    enum lh_method method;
    uint64_t chunk, version;
    uint64_t writer;          /* SETTLE */
    bool require_primary;     /* READ */
    bool recovery;            /* READ */
    uint64_t offset;          /* READ */
    uint64_t acknowledged_at; /* READ: chunk.acknowledged when it was asked */
    struct fed *fed;          /* REPLICATE: one for each chunk */
    struct laned *lanes;      /* APPEND */
    uint64_t rest_lane;       /* APPEND: of the batch that came in part */
    struct lh_buf rest;
};

/* A lane of an append link. */
struct laned {
    struct laned *next;
    uint64_t lane, chunk, version;
    bool over; /* the server has said so: what still comes is ignored */
};

/* What a replicate link feeds. */
struct fed {
    struct fed *next;
    uint64_t chunk, version, feed;
    /* CONFIRMs that were taken and not answered. */
    struct confirm {
        uint64_t length, checksum;
    } * confirms;
    size_t confirm_first, confirm_count, confirm_capacity;
};

/* The note of a link; NULL: there is none. */
struct note *lh_ob_note(const struct lh_sim_observers *o, uint64_t link);
/* NULL: the link has had no such lane. */
struct laned *lh_ob_lane(const struct note *n, uint64_t lane);
/* What a primary asks for (inv3.c). */
void lh_ob_note_replicate(struct note *n, const Leasehold__ReplicateRequest *m);
/* NULL: the answer is to no feed that the link has. */
struct fed *lh_ob_fed(const struct note *n, const Leasehold__ReplicateAnswer *answer);

void lh_ob_links_takes(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
/* After all others have seen the end of the link. */
void lh_ob_links_does(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_sim_sight *s);
void lh_ob_links_lives(struct lh_sim_observers *o, const struct actor *a, enum lh_sim_life what);
void lh_ob_links_deinit(struct lh_sim_observers *o);
