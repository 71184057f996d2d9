#ifndef LH_MASTER_CHUNKS_H
#define LH_MASTER_CHUNKS_H

#include "master/tables/tables.h"

void lh_m_chunk_free(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_chunk_remove(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_chunk_durable(struct lh_master *m, struct lh_m_chunk *c);

#endif
