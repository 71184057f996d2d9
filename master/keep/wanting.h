#ifndef LH_MASTER_KEEP_WANTING_H
#define LH_MASTER_KEEP_WANTING_H

#include "master/tables/tables.h"

/* The lease is over: whoever wants it for appends comes before repair. */
void lh_m_repair_pause(struct lh_master *m, struct lh_m_chunk *c);
/* Begins a round over all that are wanting. */
void lh_m_repair_round(struct lh_master *m);
/* It waits for a copy, or for a primary that looks after its members: `good` members are, `bytes`
 * are still to be copied, but for what copies under way bring. And: it does not (any more). */
void lh_m_want(struct lh_master *m, struct lh_m_chunk *c, uint32_t good, uint64_t bytes);
void lh_m_unwant(struct lh_master *m, struct lh_m_chunk *c);

#endif
