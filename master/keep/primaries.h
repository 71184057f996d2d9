#ifndef LH_MASTER_KEEP_PRIMARIES_H
#define LH_MASTER_KEEP_PRIMARIES_H

#include "master/tables/tables.h"

void lh_m_recall_from_drained(struct lh_master *m);
/* One lease of the busiest server that has one which a less busy server could have. */
void lh_m_balance_primaries(struct lh_master *m);

#endif
