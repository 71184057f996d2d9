#ifndef LH_MASTER_CALLS_LISTING_H
#define LH_MASTER_CALLS_LISTING_H

#include "master/tables/tables.h"

void lh_m_list(struct lh_master *m, uint64_t link, const Leasehold__ListRequest *request);
void lh_m_locate(struct lh_master *m, uint64_t link, const Leasehold__LocateRequest *request);
void lh_m_list_leases(
    struct lh_master *m, uint64_t link, const Leasehold__ListLeasesRequest *request);
void lh_m_list_servers(
    struct lh_master *m, uint64_t link, const Leasehold__ListServersRequest *request);

#endif
