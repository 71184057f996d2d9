#ifndef LH_MASTER_SESSIONS_H
#define LH_MASTER_SESSIONS_H

#include "master/tables/tables.h"

void lh_m_session_opened(struct lh_master *m, uint64_t link);
void lh_m_session_message(
    struct lh_master *m, uint64_t link, const Leasehold__SessionRequest *request);
/* `ended`: by whom, in words; NULL: the stream broke. */
void lh_m_session_closed(struct lh_master *m, uint64_t link, const char *ended);
void lh_m_session_expired(struct lh_master *m, struct lh_m_server *s, lh_session_id session);
void lh_m_announce(struct lh_master *m, struct lh_m_server *s);
/* Ends the server's session and its stream for good. It holds no lease. */
void lh_m_dismiss(struct lh_master *m, struct lh_m_server *s);
void lh_m_look_at_reports(struct lh_master *m);
uint64_t lh_m_wire_session(const struct lh_master *m, lh_session_id s);
/* Sends on the server's link; true if there is one and its registration was answered. */
bool lh_m_send(struct lh_master *m, struct lh_m_server *s, Leasehold__SessionReply *reply);
bool lh_m_live(const struct lh_master *m, const struct lh_m_server *s);
/* Live, linked, announced, and lately confirmed an answer (SES-4). */
bool lh_m_reachable(const struct lh_master *m, const struct lh_m_server *s);
/* Nothing speaks against its being alive: linked, and a heartbeat came in time. */
bool lh_m_looks_alive(const struct lh_master *m, const struct lh_m_server *s);

#endif
