#ifndef LH_MASTER_KEEP_GARBAGE_H
#define LH_MASTER_KEEP_GARBAGE_H

#include "master/tables/tables.h"

void lh_m_garbage_init(struct lh_master *m);
void lh_m_on_removed(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaRemoved *report);
void lh_m_garbage_durable(struct lh_master *m);
/* The operator has looked: what was kept may go. */
void lh_m_garbage_resume(struct lh_master *m);

#endif
