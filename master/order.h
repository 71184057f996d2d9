#pragma once

#include "master/tables/tables.h"

/* At the start: whatever the order in which records came (lh_master_load(), lh_master_amend()),
 * lists stand in the order of ids, so what follows depends on what is stored alone. */
void lh_m_order(struct lh_master *m);
