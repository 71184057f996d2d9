#ifndef LH_MASTER_WIRING_H
#define LH_MASTER_WIRING_H

#include "master/tables/tables.h"

/* Tells those below whom to tell. */
void lh_m_wire(struct lh_master *m);

#endif
