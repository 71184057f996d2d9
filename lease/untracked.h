/* Leases of untracked kinds (service.h), in the client's present session. The engine alone has
 * them: their users name them by kind and id, and hear only of those that ended by themselves. */
#pragma once

#include "lease/service.h"

static inline uint64_t lh_untracked_key(unsigned kind, uint64_t id)
{
    return (uint64_t)kind << 60 | id;
}

/* Grants it for `term` from the client's last heartbeat on, or with LH_DURATION_FOREVER for as long
 * as the session goes on. Those of the key that have ended are collected before: `ended` may be
 * called, and may call back. Errors of lh_grantor_grant(); also LEASE_HELD, of a kind that is
 * `unrecorded`, while a client that is not back may hold it. */
LH_MUST_USE int lh_untracked_grant(struct lh_leases *l, struct lh_lease_client *client,
    uint64_t key, uint64_t version, enum lh_lease_mode mode, struct lh_duration term);
/* The same for one that the client shows after a former session's end was awaited: it was granted
 * before. */
LH_MUST_USE int lh_untracked_continue(struct lh_leases *l, struct lh_lease_client *client,
    uint64_t key, uint64_t version, enum lh_lease_mode mode, struct lh_duration term);
/* If the client's own lease of the key has ended, or another one, and was not collected yet, it is:
 * `ended` is called. */
void lh_untracked_collect(struct lh_leases *l, const struct lh_lease_client *client, uint64_t key);
/* False: the client has none in force. */
bool lh_untracked_find(const struct lh_leases *l, const struct lh_lease_client *client,
    uint64_t key, struct lh_lease_info *info);
/* It is given up; `ended` is not called. Errors of lh_grantor_release(). */
LH_MUST_USE int lh_untracked_release(
    struct lh_leases *l, const struct lh_lease_client *client, uint64_t key, uint64_t version);
/* lh_grantor_cut(). */
LH_MUST_USE int lh_untracked_cut(
    struct lh_leases *l, const struct lh_lease_client *client, uint64_t key, struct lh_instant at);
/* Is a lease of the key in force? Those that are not and were not collected yet are, in front of
 * the first that is: `ended` is called. False: it is free. */
bool lh_untracked_held(struct lh_leases *l, uint64_t key, struct lh_lease_info *info);
