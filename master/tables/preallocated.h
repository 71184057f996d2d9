/* A chunk that is created ahead of its need. */
#pragma once

#include "master/tables/common.h"

/* A chunk that was created ahead of its need; see growth/preallocated.c. */
struct lh_m_prealloc {
    uint64_t id;
    struct lh_m_file *file;
    struct lh_m_member *members;
    uint32_t member_count;
    uint64_t ticket; /* the commit that uses up the id */
    uint32_t pair;   /* its tombstone's */
    bool asked;      /* CreateReplica was sent */
    struct lh_timer timer;
    TAILQ_ENTRY(lh_m_prealloc) link; /* in `m->new_preallocs` until asked */
};

/* The version at which a chunk's replicas are created: that of its first grant. So this one needs
 * no other header, and no other sync (FENCE-1). */
#define LH_M_FIRST_VERSION 1u
