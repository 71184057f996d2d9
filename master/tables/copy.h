/* A replica that is being copied to a server. */
#pragma once

#include "master/tables/common.h"

/* A replica that is being copied to a server (REC-4). */
struct lh_m_copy {
    struct lh_m_chunk *chunk;
    struct lh_m_server *target, *source; /* `source`: the one that is to be asked first */
    uint64_t version;                    /* CopyReplica's */
    bool sealed;                         /* of the whole chunk; else to join it */
    bool refresh;                        /* the target is a member */
    bool caught_up;                      /* it can join now */
    struct lh_instant begun;
    uint64_t length;       /* bytes of the log that are there, as it last reported */
    bool reported;         /* `length` */
    uint64_t metered;      /* bytes that arrived, of what the meter counted */
    struct lh_timer timer; /* it makes no progress */
    TAILQ_ENTRY(lh_m_copy) link;
    TAILQ_ENTRY(lh_m_copy) chunk_link;
};
TAILQ_HEAD(lh_m_copies, lh_m_copy);
