/* Chunkservers and their sessions, for all who ask about them. */
#ifndef LH_MASTER_INVENTORY_SERVERS_H
#define LH_MASTER_INVENTORY_SERVERS_H

#include "master/sessions/sessions.h"

static inline struct lh_m_server *lh_m_session_server(struct lh_m_session *session)
{
    return LH_OWNER(session, struct lh_m_server, session);
}

static inline bool lh_m_live(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_lessee_live(&m->leases, &s->session.lessee);
}

static inline bool lh_m_reachable(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_m_session_reachable(m, &s->session);
}

static inline bool lh_m_looks_alive(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_m_session_looks_alive(m, &s->session);
}

static inline bool lh_m_send(
    struct lh_master *m, const struct lh_m_server *s, const Leasehold__SessionReply *reply)
{
    return lh_m_session_send(m, &s->session, &reply->base);
}

/* This master begins: no server has a session with it yet. */
void lh_m_servers_start(struct lh_master *m);
/* Servers come or go now: whoever can wait for a full set should, for a moment. */
void lh_m_unsettled(struct lh_master *m);

#endif
