#ifndef LH_MASTER_SESSIONS_LINKS_H
#define LH_MASTER_SESSIONS_LINKS_H

#include "master/tables/tables.h"

void lh_m_session_opened(struct lh_master *m, uint64_t link);
/* A stream by its number; NULL: it is none of a session. */
struct lh_m_link *lh_m_link_find(const struct lh_master *m, uint64_t link);
void lh_m_link_forget(struct lh_master *m, struct lh_m_link *l);

#endif
