#ifndef LH_MASTER_KEEP_MOVING_H
#define LH_MASTER_KEEP_MOVING_H

#include "master/tables/tables.h"

void lh_m_moving_start(struct lh_master *m);
/* Something happened that a drain may go on after: looks at the draining servers soon. */
void lh_m_moving_kick(struct lh_master *m);
/* What can be done now for drains and an even load; the rest follows by a timer. */
void lh_m_moving_advance(struct lh_master *m);
/* The operator wants something else of the server. */
void lh_m_moving_restart(struct lh_master *m, struct lh_m_server *s);

#endif
