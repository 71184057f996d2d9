#ifndef LH_MASTER_SESSIONS_REACH_H
#define LH_MASTER_SESSIONS_REACH_H

#include "master/tables/tables.h"

/* Servers come or go now: whoever can wait for a full set should, for a moment. */
void lh_m_unsettled(struct lh_master *m);
uint64_t lh_m_wire_session(const struct lh_master *m, lh_session_id s);
/* Sends on the server's link; true if there is one and its registration was answered. */
bool lh_m_send(struct lh_master *m, struct lh_m_server *s, Leasehold__SessionReply *reply);
bool lh_m_live(const struct lh_master *m, const struct lh_m_server *s);
/* Live, linked, announced, and lately confirmed an answer (SES-4). */
bool lh_m_reachable(const struct lh_master *m, const struct lh_m_server *s);
/* Nothing speaks against its being alive: linked, and a heartbeat came in time. */
bool lh_m_looks_alive(const struct lh_master *m, const struct lh_m_server *s);
/* Asks the server whether it lives. The answer is a heartbeat. */
void lh_m_inquire(struct lh_master *m, struct lh_m_server *s);
/* It was asked so, and has not answered since. */
bool lh_m_is_asked(const struct lh_m_server *s);

#endif
