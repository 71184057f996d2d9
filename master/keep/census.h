#ifndef LH_MASTER_KEEP_CENSUS_H
#define LH_MASTER_KEEP_CENSUS_H

#include "master/tables/tables.h"

/* May the master move what is well where it is? */
bool lh_m_may_balance(const struct lh_master *m);
/* A walk over all chunks: begins one; a step's share of it. */
void lh_m_census_begin(struct lh_master *m);
void lh_m_census_go_on(struct lh_master *m);

#endif
