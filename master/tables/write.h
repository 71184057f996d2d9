/* Emits the step's commit. */
#ifndef LH_MASTER_TABLES_WRITE_H
#define LH_MASTER_TABLES_WRITE_H

#include "master/tables/tables.h"

/* Emits the step's commit if anything was marked. */
void lh_m_flush(struct lh_master *m);

#endif
