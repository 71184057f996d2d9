#ifndef LH_MASTER_CALLS_TAIL_H
#define LH_MASTER_CALLS_TAIL_H

#include "master/tables/tables.h"

void lh_m_open_tail(struct lh_master *m, uint64_t link, const Leasehold__OpenTailRequest *request);
void lh_m_recall_call(struct lh_master *m, uint64_t link, const Leasehold__RecallRequest *request);
void lh_m_file_advance(struct lh_master *m, struct lh_m_file *f);

#endif
