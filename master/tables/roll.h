/* A chunk that is being sealed by fences (FAIL-2a). */
#pragma once

#include "master/tables/member.h"

/* What a member answered to Fence: its durable log (FENCE-1). */
struct lh_m_fenced {
    const struct lh_m_server *server;
    uint64_t length, checksum, committed;
    bool unverified;
    bool primary;   /* its length is what it had committed as the primary */
    bool truncated; /* FAIL-3: it may have been longer once */
    bool damaged;   /* FAIL-4: its length is how far it is known to have gone (REC-9) */
};

/* Who has answered that its disk refuses the version: it is not fenced, and is asked again
 * (REC-7). */
struct lh_m_unfenced {
    const struct lh_m_server *servers[LH_REPLICATION_MAX];
    uint32_t count;
};

/* A chunk that is being sealed because its primary is lost (FAIL-2a); see seal/roll.c. */
struct lh_m_roll {
    struct lh_m_chunk *chunk;
    uint64_t ticket; /* of the commit that made the intent durable */
    bool resumed;    /* it was begun by a former master */
    struct lh_instant began;
    struct lh_instant usable_at; /* since then a log is known that counts; NEVER: none is */
    struct lh_instant enough_at; /* and as many of them as acknowledge an append */
    bool decided;                /* `length` is what will be sealed */
    struct lh_instant decided_at;
    uint64_t length, checksum;
    bool backed; /* so many members have all of that as acknowledge an append */
    struct lh_m_fenced answers[LH_REPLICATION_MAX];
    uint32_t answer_count;
    struct lh_m_unfenced unfenced;
    uint64_t committed; /* the most that any answer knew, also of those that were forgotten */
    struct lh_timer timer;
    TAILQ_ENTRY(lh_m_roll) link;
};
