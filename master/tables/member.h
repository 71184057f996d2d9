/* A server's part in a chunk. */
#pragma once

#include "master/tables/server.h"

/* There are three for each chunk: eight bytes. */
struct lh_m_member {
    uint32_t server : LH_M_SERVER_BITS; /* its number; see lh_m_server_of() */
    bool joining : 1;                   /* REC-4 */
    bool created : 1; /* confirmed its empty replica; all true once the chunk is created */
    bool lost : 1;    /* durable: its replica is damaged (FAIL-4) until it is copied again */
    bool kept : 1;   /* as its server said in the session `seen`: lost, and its whole batches can be
                         read (REC-9); or it adds up to the seal, and cannot record it (REC-8) */
    bool stale : 1;  /* it lacks what its chunk's seal covers, and must be refreshed */
    bool sealed : 1; /* it has recorded the chunk's seal, as far as this master heard; of an open
                        chunk: it has shown `shown_seal` (KEEP-4) */
    bool leaving : 1; /* another server is to take its place: it is drained, or too much is on it */
    bool excluded : 1; /* its chunk's primary, lost, or a member that this cannot go on without:
                          what comes after a roll is placed elsewhere (FAIL-2a) */
    bool led : 1;      /* no other member was the primary since it was */
    uint32_t seen;     /* in this session its server has shown that it has the replica; see
                          lh_m_session_of() */
};
_Static_assert(sizeof(struct lh_m_member) == 8, "three of them are in each chunk's record");

/* A member at that server, of which nothing is known yet. */
static inline struct lh_m_member lh_m_member_at(const struct lh_m_server *s)
{
    return (struct lh_m_member){.server = s->number & ((1u << LH_M_SERVER_BITS) - 1)};
}

/* The number of the server's present session, for members; 0: it has none. */
static inline uint32_t lh_m_session_of(const struct lh_m_server *s)
{
    return s->session.client.session == 0 ? 0 : s->session.number;
}

/* What a member's replica is worth now (KEEP-1). */
enum lh_m_health {
    LH_M_GOOD,
    LH_M_AWAY,    /* no session, or a failing disk, for less than the grace period */
    LH_M_GONE,    /* for longer */
    LH_M_LOST,    /* FAIL-4 */
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
