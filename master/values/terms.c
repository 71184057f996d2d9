/* For how long a value may be cached (NL-5), and the cache leases themselves: the engine alone has
 * them. All leases of a name have the version 1; which bytes are cached, the revision says. */
#include "lease/term.h"
#include "master/values/internal.h"

#define SHARE_PERCENT 10u
#define TERM_MIN      lh_seconds(1)
#define TERM_MAX      lh_seconds(600)

#define CACHE_VERSION 1u

bool lh_m_leases_full(const struct lh_master *m)
{
    return lh_grantor_lease_count(m->leases.engine) >= m->config.locks_max;
}

static bool is_crowded(const struct lh_master *m)
{
    return lh_grantor_lease_count(m->leases.engine) >= m->config.locks_max / 4 * 3;
}

/* Since the value changed last, as far as this master knows. */
static struct lh_duration age_of(const struct lh_master *m, const struct lh_m_name *name)
{
    const struct lh_m_value *v = name == NULL ? NULL : name->more->value;

    if (v == NULL)
        return lh_nanoseconds(0); /* when it was deleted is not on record */
    return lh_instant_until(lh_instant_max(v->changed_at, m->started_at), m->now);
}

struct lh_duration lh_m_value_term(
    const struct lh_master *m, const struct lh_m_name *name, const struct lh_m_policy *policy)
{
    struct lh_duration least = policy->term_min.ns == 0 ? TERM_MIN : policy->term_min;
    struct lh_duration most = policy->term_max.ns == 0 ? TERM_MAX : policy->term_max;
    uint32_t share = policy->share_percent == 0 ? SHARE_PERCENT : policy->share_percent;

    if (is_crowded(m)) {
        LH_MARK("cache-terms-shrunk");
        return least;
    }
    unsigned __int128 part = (unsigned __int128)age_of(m, name).ns * share / 100;
    if (part >= most.ns)
        return most;
    return lh_nanoseconds(part < least.ns ? least.ns : (uint64_t)part);
}

/* A path hardly ever changes, and no lease is longer than its session. */
struct lh_duration lh_m_lookup_term(const struct lh_master *m)
{
    return is_crowded(m) ? TERM_MIN : TERM_MAX;
}

bool lh_m_cache_grant(
    struct lh_master *m, struct lh_m_program *p, struct lh_m_name *name, struct lh_duration term)
{
    uint64_t key = lh_m_cache_key(name);
    struct lh_lease_info info;

    bool had = lh_untracked_find(&m->leases, &p->session.client, key, &info);
    name->leases++; /* others that have run out go now: the name is not to go with the last one */
    bool has = lh_untracked_continue(&m->leases, &p->session.client, key, CACHE_VERSION,
                   LH_LEASE_SHARED, term) == LH_OK;
    if (!has || had) {
        name->leases--;
        return has; /* else the session has just ended */
    }
    p->caches++;
    name->caches++;
    return true;
}

static void gone(struct lh_master *m, struct lh_m_program *p, struct lh_m_name *name)
{
    LH_ASSERT(p->caches > 0 && name->caches > 0 && name->leases > 0);
    p->caches--;
    name->caches--;
    name->leases--;
    if (name->more->changing != NULL)
        lh_m_pending_changes_work(m, name->more->changing);
    else
        lh_m_name_settle(m, name);
}

void lh_m_cache_release(struct lh_master *m, struct lh_m_program *p, struct lh_m_name *name)
{
    if (lh_untracked_release(&m->leases, &p->session.client, lh_m_cache_key(name), CACHE_VERSION) ==
        LH_OK)
        gone(m, p, name);
}

static void ended(void *core, uint64_t id, struct lh_lease_client *client)
{
    struct lh_m_program *p = lh_m_client_program(client);
    struct lh_master *m = core;

    LH_MARK("cache-lease-ran-out");
    m->counts.caches_expired++;
    gone(m, p, lh_m_name_by_number(m, id));
    lh_m_program_settle(m, p);
}

const struct lh_untracked_owner lh_m_cache_leases = {.ended = ended};
