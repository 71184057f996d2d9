#ifndef LH_MASTER_CALLS_SET_SERVER_H
#define LH_MASTER_CALLS_SET_SERVER_H

#include "master/tables/tables.h"

void lh_m_set_server(
    struct lh_master *m, uint64_t link, const Leasehold__SetServerRequest *request);

#endif
