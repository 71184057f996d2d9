#ifndef LH_MASTER_SESSIONS_REGISTRATION_H
#define LH_MASTER_SESSIONS_REGISTRATION_H

#include "master/tables/tables.h"

void lh_m_announce(struct lh_master *m, struct lh_m_server *s);
/* Ends the server's session and its stream for good; only its name is remembered. It holds no
 * lease. */
void lh_m_dismiss(struct lh_master *m, struct lh_m_server *s);
void lh_m_on_register(
    struct lh_master *m, struct lh_m_link *l, const Leasehold__Register *request);

#endif
