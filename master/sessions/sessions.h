#ifndef LH_MASTER_SESSIONS_SESSIONS_H
#define LH_MASTER_SESSIONS_SESSIONS_H

#include "master/tables/tables.h"

void lh_m_session_message(
    struct lh_master *m, uint64_t link, const Leasehold__SessionRequest *request);
/* `ended`: by whom, in words; NULL: the stream broke. */
void lh_m_session_closed(struct lh_master *m, uint64_t link, const char *ended);
void lh_m_session_expired(void *core, struct lh_lessee *lessee);
/* This master begins: no server has a session with it yet. */
void lh_m_sessions_start(struct lh_master *m);

#endif
