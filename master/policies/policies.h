/* What holds for the names under a prefix, for their locks and their values (NL-5). The table is
 * master/tables/policy.h; who gives a lease looks there. */
#pragma once

#include "master/tables/tables.h"

/* ---- Unary. */

void lh_m_set_policy(
    struct lh_master *m, uint64_t link, const Leasehold__SetPolicyRequest *request);
void lh_m_list_policies(
    struct lh_master *m, uint64_t link, const Leasehold__ListPoliciesRequest *request);
