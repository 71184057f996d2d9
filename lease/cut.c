/* Shared leases of one key that are to end, one after the other: there may be very many of them. */
#include "base/probe.h"
#include "lease/grantor.h"
#include "lease/table.h"

bool lh_grantor_cut_next(
    struct lh_grantor *g, uint64_t key, struct lh_instant now, struct lh_lease_info *info)
{
    uint32_t group = lh_table_find(g, key);

    g->seen = lh_instant_max(g->seen, now);
    if (group == 0 || lh_record_at(g, group)->kind != LH_RECORD_GROUP)
        return false;
    uint32_t i = lh_record_at(g, group)->members.first;
    struct lh_record *r = lh_record_at(g, i);
    if (r->recalling)
        return false; /* those behind it, too: nobody shares the key who came later */
    r->recalling = true;
    struct lh_instant end = lh_record_end(g, r);
    if (end.ns != r->end.ns && !LH_PLANTED("cut-cache-lease-renewed")) {
        r->end = end;
        lh_wheel_remove(&g->lease_wheel, i);
        lh_wheel_insert(&g->lease_wheel, i, end);
    }
    lh_table_share_to_last(g, i);
    *info = lh_table_info(g, i);
    return true;
}
