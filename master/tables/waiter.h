/* A call that waits. */
#pragma once

#include "master/tables/common.h"

enum lh_m_wait { LH_WAIT_TAIL, LH_WAIT_RECALL };

/* A call that is answered when a file has a primary (OpenTail, Recall). */
struct lh_m_waiter {
    enum lh_m_wait kind;
    struct lh_link link;
    struct lh_m_file *file;
    struct lh_instant deadline;
    struct lh_instant arrived_at;
    struct lh_timer timer; /* `deadline`, or before it `hold_until` */

    /* OpenTail. */
    uint64_t full_chunk, failed_chunk, failed_version;
    uint64_t arrival_version;     /* of the tail when the call came */
    uint64_t unsettled_chunk;     /* the caller can go on only once it can settle there */
    uint64_t token;               /* that the caller appends with (TOK-2); 0: with none */
    bool reads;                   /* it appends nothing */
    char *lock_name;              /* whose token that is; NULL: nobody's */
    struct lh_instant hold_until; /* a primary that the caller could not reach is not named again
                                     before this, unless it shows that it lives */
    /* Recall. */
    uint64_t chunk, from_version;
    char *old_primary;
    bool only_release;

    TAILQ_ENTRY(lh_m_waiter) file_link;
};
