#ifndef LH_MASTER_CALLS_GARBAGE_CALL_H
#define LH_MASTER_CALLS_GARBAGE_CALL_H

#include "master/tables/tables.h"

void lh_m_garbage_call(
    struct lh_master *m, uint64_t link, const Leasehold__GarbageRequest *request);

#endif
