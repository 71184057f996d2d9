#ifndef LH_MASTER_SEAL_FAILED_H
#define LH_MASTER_SEAL_FAILED_H

#include "master/tables/tables.h"

void lh_m_on_member_failed(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__MemberFailed *report);

#endif
