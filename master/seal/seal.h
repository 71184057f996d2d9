#ifndef LH_MASTER_SEAL_SEAL_H
#define LH_MASTER_SEAL_SEAL_H

#include "master/tables/tables.h"

void lh_m_on_seal(struct lh_master *m, struct lh_m_server *s, const Leasehold__SealReport *report);
void lh_m_on_seal_recorded(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__SealRecorded *report);
/* The store says that the chunk is sealed. */
void lh_m_seal_load(struct lh_master *m, struct lh_m_chunk *c);
/* A commit with the chunk is durable: its members hear of the seal, if it has one. */
void lh_m_seal_durable(struct lh_master *m, struct lh_m_chunk *c);

#endif
