/* A server's part in a chunk. */
#ifndef LH_MASTER_TABLES_MEMBER_H
#define LH_MASTER_TABLES_MEMBER_H

#include "master/tables/server.h"

struct lh_m_member {
    struct lh_m_server *server;
    bool joining; /* REC-4 */
    bool created; /* confirmed its empty replica; all true once the chunk is created */
    bool lost;    /* durable: its replica is of no use (FAIL-5) until it is copied anew */
    bool stale;   /* it lacks what its chunk's seal covers, and must be refreshed */
    bool sealed;  /* it has recorded the chunk's seal, as far as this master heard */
    bool leaving; /* another server is to take its place: it is drained, or too much lies on it */
    bool excluded; /* its chunk's primary, lost, or a member that this cannot go on without: what
                     comes after a roll is placed elsewhere (FAIL-2a) */
    lh_session_id seen; /* in this session its server has shown that it has the replica */
};

/* What a member's replica is worth now (KEEP-1). */
enum lh_m_health {
    LH_M_GOOD,
    LH_M_AWAY,    /* no session, or a failing disk, for less than the grace period */
    LH_M_GONE,    /* for longer */
    LH_M_LOST,    /* FAIL-4, FAIL-5 */
    LH_M_MISSING, /* its server registered without it */
    LH_M_STALE,   /* it missed what the chunk's seal covers */
    LH_M_JOINING  /* REC-4 */
};

/* A chunk's, for the operator. */
enum lh_m_condition {
    LH_M_WHOLE,
    LH_M_DEGRADED,   /* fewer good replicas than its file asks for */
    LH_M_ENDANGERED, /* one */
    LH_M_UNREADABLE, /* none */
    LH_M_CONDITIONS
};

/* The replica is to go elsewhere: its server is drained, or the master chose it (KEEP-2). */
static inline bool lh_m_leaving(const struct lh_m_member *member)
{
    return member->leaving || member->server->admin != LEASEHOLD__SERVER_ADMIN__ACTIVE;
}

#endif
