#ifndef LH_MASTER_GRANTS_LEASES_H
#define LH_MASTER_GRANTS_LEASES_H

#include "master/tables/tables.h"

extern const struct lh_lease_owner lh_m_chunk_leases;

bool lh_m_held(const struct lh_master *m, const struct lh_m_chunk *c);
/* How long the present lease may still run; zero if there is none. */
struct lh_duration lh_m_lease_left(const struct lh_master *m, const struct lh_m_chunk *c);
/* Confirmed and in force in the holder's present session, and not being given up. */
bool lh_m_has_primary(const struct lh_master *m, const struct lh_m_chunk *c);
/* Gives the free lease to the best member; false: none can have it now. */
bool lh_m_grant_free(struct lh_master *m, struct lh_m_chunk *c);
/* A new version for the present holder (LEASE-3). */
void lh_m_regrant(struct lh_master *m, struct lh_m_chunk *c);
/* Could this member be given the free lease? */
bool lh_m_can_lead(const struct lh_master *m, const struct lh_m_member *member);
/* The lease is over; `why` for the log. */
void lh_m_lease_over(struct lh_master *m, struct lh_m_chunk *c, const char *why);
void lh_m_recall(struct lh_master *m, struct lh_m_chunk *c);
/* Sends (again) what the holder has to hear: the grant until it is confirmed, the recall until it
 * is answered. */
void lh_m_push(struct lh_master *m, struct lh_m_chunk *c);
/* The durable grant at the newest version, to the holder's present session. */
void lh_m_send_grant(struct lh_master *m, struct lh_m_chunk *c);
/* The chunk is removed: nobody holds it any more. */
void lh_m_grant_forget(struct lh_master *m, struct lh_m_chunk *c);
/* What the store says of a former master's grant. */
void lh_m_grant_load(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *holder,
    uint64_t incarnation, uint64_t version);

#endif
