#ifndef LH_MASTER_GRANTS_ANSWERS_H
#define LH_MASTER_GRANTS_ANSWERS_H

#include "master/tables/tables.h"

/* Its holder does not act on it any more; if it was being recalled, another member may have it. */
void lh_m_given_back(struct lh_master *m, struct lh_m_chunk *c, const char *why);
/* Its term is over, here or at its holder. */
void lh_m_ran_out(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_on_confirm(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__GrantConfirm *confirm);
void lh_m_on_release(struct lh_master *m, struct lh_m_server *s, const Leasehold__Release *release);
void lh_m_wait_ended(void *core, struct lh_timer *timer);
/* Extends what the heartbeat lists, and `extended[i]` says whether its i-th lease was (LEASE-4). */
void lh_m_extend(struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat,
    bool *extended);
/* The engine says that the chunk's lease, of that session, has ended. */
void lh_m_lease_expired(struct lh_master *m, uint64_t chunk, lh_session_id session);

#endif
