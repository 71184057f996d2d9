#ifndef LH_MASTER_CALLS_EXPLAIN_H
#define LH_MASTER_CALLS_EXPLAIN_H

#include "master/tables/tables.h"

void lh_m_explain(struct lh_master *m, uint64_t link, const Leasehold__ExplainRequest *request);

#endif
