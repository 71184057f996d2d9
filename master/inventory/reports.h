#ifndef LH_MASTER_INVENTORY_REPORTS_H
#define LH_MASTER_INVENTORY_REPORTS_H

#include "master/tables/tables.h"

void lh_m_on_lost(struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaLost *report);
void lh_m_look_at_reports(struct lh_master *m);
/* What a registration tells of replicas: kept, and looked at in pieces once it is answered. */
void lh_m_reports_keep(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Register *request);
void lh_m_reports_forget(struct lh_master *m, struct lh_m_server *s);
void lh_m_on_possible_loss(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__PossibleLoss *report);
/* A registration tells of a replica, which may be a preallocated chunk's. */
void lh_m_prealloc_reported(
    struct lh_master *m, const struct lh_m_server *s, const struct lh_m_report *r);

#endif
