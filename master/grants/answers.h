#ifndef LH_MASTER_GRANTS_ANSWERS_H
#define LH_MASTER_GRANTS_ANSWERS_H

#include "master/tables/tables.h"

void lh_m_on_confirm(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__GrantConfirm *confirm);
void lh_m_on_release(struct lh_master *m, struct lh_m_server *s, const Leasehold__Release *release);
/* Extends what the heartbeat lists, and `extended[i]` says whether its i-th lease was (LEASE-4). */
void lh_m_extend(struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat,
    bool *extended);

/* The leases that a registration shows go on in the new session, as far as they are in force
 * (`continued`, with room for all of them). Of the `same_process`, by its incarnation, grants that
 * were not confirmed go over into it; if that is `proven`, what is not shown is free (SES-5a). */
void lh_m_shows(struct lh_master *m, struct lh_m_server *s, const Leasehold__Register *request,
    bool same_process, bool proven, struct lh_m_chunk **continued, size_t *count);
/* Does the holder believe otherwise (LEASE-8)? */
bool lh_m_sum_differs(const struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat);
void lh_m_on_shown(struct lh_master *m, struct lh_m_server *s, const Leasehold__ShownLeases *shown);

#endif
