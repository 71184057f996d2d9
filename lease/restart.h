/* What former grantors left to one that starts (service.h): leases on record, clients that had
 * sessions, and for how long what was promised to them is waited for (LEASE-7, LEASE-9). */
#pragma once

#include "lease/service.h"

/* What the store says of a former grantor's grant. */
void lh_lease_restore(struct lh_leases *l, struct lh_lease *lease, struct lh_lease_client *holder,
    uint64_t process, uint64_t version);
/* The last one in every list that it stands in. Called for every lease, before lh_leases_start():
 * so it does not matter in which order they were restored. */
void lh_lease_reorder(struct lh_leases *l, struct lh_lease *lease);

/* This grantor begins; what its predecessors granted lasts until `wait_end` at most. */
void lh_leases_start(struct lh_leases *l, struct lh_instant now, struct lh_instant wait_end);

/* It had a session of at most `term` when this grantor started, just now: what it holds is not
 * known. Nothing was promised to it after `made`. Its record stays until it is back
 * (lh_lease_client_registered()), or `ended`. */
void lh_lease_client_restore(struct lh_leases *l, struct lh_lease_client *client,
    struct lh_instant made, struct lh_duration term);
/* Its leases are on record; nothing was promised to it after `made`, and no longer term than
 * `term`. So those that wait are over then. */
void lh_lease_client_promised(struct lh_leases *l, struct lh_lease_client *client,
    struct lh_instant made, struct lh_duration term);

/* It is not back, and has just been heard: its former session, and what was promised to it, is not
 * over before `term` has passed. UNKNOWN_SESSION: it has none, or that is over. */
LH_MUST_USE int lh_lease_client_await(
    struct lh_leases *l, struct lh_lease_client *client, struct lh_duration term);

/* When the lease is over at the latest if it is `waiting`, and not in force besides. */
struct lh_instant lh_lease_wait_end(const struct lh_leases *l, const struct lh_lease *lease);
