#ifndef LH_MASTER_MOVING_H
#define LH_MASTER_MOVING_H

#include "master/tables/tables.h"

void lh_m_set_server(
    struct lh_master *m, uint64_t link, const Leasehold__SetServerRequest *request);
void lh_m_moving_start(struct lh_master *m);
/* Something happened that a drain may go on after: looks at the draining servers soon. */
void lh_m_moving_kick(struct lh_master *m);
/* Draining, and no chunk needs what is on it (any more). */
bool lh_m_safe_to_stop(const struct lh_master *m, const struct lh_m_server *s);
/* Draining: replicas that a chunk needs until there is another one. */
uint64_t lh_m_replicas_to_move(const struct lh_master *m, const struct lh_m_server *s);

#endif
