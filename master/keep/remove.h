#ifndef LH_MASTER_KEEP_REMOVE_H
#define LH_MASTER_KEEP_REMOVE_H

#include "master/tables/tables.h"

void lh_m_chunk_free(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_chunk_remove(struct lh_master *m, struct lh_m_chunk *c);

#endif
