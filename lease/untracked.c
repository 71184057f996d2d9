/* Leases of untracked kinds: the engine alone has them (service.h). */
#include "lease/untracked.h"
#include "base/assert.h"
#include "base/probe.h"

/* What has ended is reported before something else takes its place in the engine: whoever counts
 * leases hears of each. */
static void collect(struct lh_leases *l, uint64_t key, lh_session_id session)
{
    struct lh_lease_info info;

    while (lh_grantor_collect(l->engine, key, session, l->now, &info))
        l->kinds[lh_lease_kind(key)].untracked->ended(l->core, lh_lease_id(key), info.context);
}

void lh_untracked_collect(struct lh_leases *l, const struct lh_lease_client *client, uint64_t key)
{
    collect(l, key, client->session);
}

int lh_untracked_continue(struct lh_leases *l, struct lh_lease_client *client, uint64_t key,
    uint64_t version, enum lh_lease_mode mode, struct lh_duration term)
{
    LH_ASSERT(l->kinds[lh_lease_kind(key)].untracked != NULL);
    collect(l, key, client->session);
    return lh_grantor_grant(
        l->engine, key, version, mode, client->session, l->now, client->received_at, term);
}

int lh_untracked_grant(struct lh_leases *l, struct lh_lease_client *client, uint64_t key,
    uint64_t version, enum lh_lease_mode mode, struct lh_duration term)
{
    if (l->kinds[lh_lease_kind(key)].unrecorded && l->away > 0 &&
        !LH_PLANTED("lock-granted-before-all-back"))
        return LH_ERR_LEASE_HELD; /* LEASE-7, PS-3: whose, nobody knows */
    return lh_untracked_continue(l, client, key, version, mode, term);
}

bool lh_untracked_find(const struct lh_leases *l, const struct lh_lease_client *client,
    uint64_t key, struct lh_lease_info *info)
{
    return lh_grantor_find_of(l->engine, key, client->session, l->now, info);
}

int lh_untracked_release(
    struct lh_leases *l, const struct lh_lease_client *client, uint64_t key, uint64_t version)
{
    return lh_grantor_release(l->engine, key, version, client->session);
}

int lh_untracked_cut(
    struct lh_leases *l, const struct lh_lease_client *client, uint64_t key, struct lh_instant at)
{
    return lh_grantor_cut(l->engine, key, client->session, l->now, at);
}

bool lh_untracked_held(struct lh_leases *l, uint64_t key, struct lh_lease_info *info)
{
    collect(l, key, 0);
    return lh_grantor_find(l->engine, key, l->now, info);
}
