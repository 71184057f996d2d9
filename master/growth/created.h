#ifndef LH_MASTER_GROWTH_CREATED_H
#define LH_MASTER_GROWTH_CREATED_H

#include "master/tables/tables.h"

void lh_m_on_created(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report);

#endif
