/* A replica at a server that is not a member. */
#pragma once

#include "master/tables/common.h"

/* A replica whose server is not a member of its chunk; see keep/garbage.c. */
struct lh_m_extra {
    struct lh_m_chunk *chunk;
    struct lh_m_server *server;
    uint64_t version; /* at most: it was reported, or dropped, at this one */
    bool sealed, copying;
    bool asked;                      /* RemoveReplica went out in the server's present session */
    bool going;                      /* ... and its answer has not come */
    TAILQ_ENTRY(lh_m_extra) link;    /* of the chunk */
    TAILQ_ENTRY(lh_m_extra) of_link; /* of the server */
    TAILQ_ENTRY(lh_m_extra) all_link;
};
TAILQ_HEAD(lh_m_extras, lh_m_extra);
