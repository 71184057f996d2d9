#ifndef LH_MASTER_SESSIONS_HEARTBEAT_H
#define LH_MASTER_SESSIONS_HEARTBEAT_H

#include "master/tables/tables.h"

/* An answer with that stamp goes out now; and which of them has the server received (SES-4)? */
void lh_m_remember_answer(struct lh_master *m, struct lh_m_server *s, uint64_t stamp);
void lh_m_note_confirmed(struct lh_m_server *s, uint64_t last_stamp);
/* Says that the session which the heartbeat names is not (any more). */
void lh_m_unknown_session(
    struct lh_master *m, uint64_t link, const Leasehold__Heartbeat *heartbeat);
void lh_m_on_heartbeat(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat);

#endif
