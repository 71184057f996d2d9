#ifndef LH_MASTER_GRANTS_HOLDERS_H
#define LH_MASTER_GRANTS_HOLDERS_H

#include "master/tables/tables.h"

/* The leases that a registration shows go on in the new session, as far as they are in force
 * (`continued`, with room for all of them). Of the `same_process`, by its incarnation, grants that
 * were not confirmed go over into it; if that is `proven`, what is not shown is free (SES-5a). */
void lh_m_shows(struct lh_master *m, struct lh_m_server *s, const Leasehold__Register *request,
    bool same_process, bool proven, struct lh_m_chunk **continued, size_t *count);
/* A higher incarnation on the same machine: the old process is dead (SES-5). */
void lh_m_free_dead(struct lh_master *m, struct lh_m_server *s);
/* Two processes have one incarnation: what the first was granted nobody gives back. */
void lh_m_disown(struct lh_master *m, struct lh_m_server *s);
/* A session has begun in which the server has confirmed nothing. */
void lh_m_sum_begin(struct lh_m_server *s);
/* Does the holder believe otherwise (LEASE-8)? */
bool lh_m_sum_differs(const struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat);
void lh_m_on_shown(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ShownLeases *shown);

#endif
