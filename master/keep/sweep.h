#ifndef LH_MASTER_KEEP_SWEEP_H
#define LH_MASTER_KEEP_SWEEP_H

#include "master/tables/tables.h"

void lh_m_sweep_start(struct lh_master *m);
/* A step's share of looking at chunks and starting copies; `busy`: there is more at once. */
void lh_m_sweep_step(struct lh_master *m);
bool lh_m_sweep_busy(const struct lh_master *m);
/* The chunk is removed: out of all that health and repair keep. */
void lh_m_sweep_forget(struct lh_master *m, struct lh_m_chunk *c);

#endif
