#ifndef LH_MASTER_KEEP_REPAIR_H
#define LH_MASTER_KEEP_REPAIR_H

#include "master/tables/tables.h"

/* Does what can be done for `c` without a copy, and says whether copies or a grant are wanting.
 * `swept`: nothing special was heard of it. */
void lh_m_repair_look(struct lh_master *m, struct lh_m_chunk *c, bool swept);
void lh_m_repair_start(struct lh_master *m);
void lh_m_repair_step(struct lh_master *m);
void lh_m_repair_forget(struct lh_master *m, struct lh_m_chunk *c);

#endif
