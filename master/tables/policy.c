/* The table of policies. */
#include "master/tables/policy.h"

#include "master/tables/dirty.h"
#include "master/tables/tables.h"

int lh_m_compare_policies(const struct lh_m_policy *a, const struct lh_m_policy *b)
{
    return strcmp(a->prefix, b->prefix);
}

RB_GENERATE(lh_m_policy_tree, lh_m_policy, place, lh_m_compare_policies)

static struct lh_m_policy *find(const struct lh_master *m, const char *prefix)
{
    struct lh_m_policy key = {.prefix = (char *)(uintptr_t)prefix};

    return RB_FIND(lh_m_policy_tree, (struct lh_m_policy_tree *)(uintptr_t)&m->policies.tree, &key);
}

struct lh_m_policy *lh_m_policy_find(const struct lh_master *m, const char *prefix)
{
    struct lh_m_policy *policy = find(m, prefix);

    return policy == NULL || policy->gone ? NULL : policy;
}

/* The whole name, and then its prefixes that end in "/", the longest first. */
const struct lh_m_policy *lh_m_policy_of(const struct lh_master *m, const char *name)
{
    static const struct lh_m_policy preset = {.prefix = ""};
    char prefix[LH_PATH_BYTES_MAX + 1];
    size_t size = strlen(name);

    if (m->policies.count == 0 || size >= sizeof prefix)
        return &preset;
    memcpy(prefix, name, size + 1);
    while (size > 0) {
        const struct lh_m_policy *policy = lh_m_policy_find(m, prefix);
        if (policy != NULL)
            return policy;
        do
            size--;
        while (size > 0 && prefix[size - 1] != '/');
        prefix[size] = 0;
    }
    return &preset;
}

struct lh_m_policy *lh_m_policy_get(struct lh_master *m, const char *prefix)
{
    struct lh_m_policy *policy = find(m, prefix);

    if (policy == NULL) {
        policy = lh_alloc(sizeof *policy);
        policy->prefix = lh_strdup(prefix);
        policy->gone = true;
        RB_INSERT(lh_m_policy_tree, &m->policies.tree, policy);
    }
    if (policy->gone)
        m->policies.count++;
    policy->gone = false;
    return policy;
}

void lh_m_policy_free(struct lh_master *m, struct lh_m_policy *policy)
{
    LH_ASSERT(!policy->dirty);
    if (!policy->gone)
        m->policies.count--;
    RB_REMOVE(lh_m_policy_tree, &m->policies.tree, policy);
    lh_m_pair_drop(m, &policy->pair);
    free(policy->prefix);
    free(policy);
}

void lh_m_policy_remove(struct lh_master *m, struct lh_m_policy *policy)
{
    if (policy->gone)
        return;
    policy->gone = true;
    m->policies.count--;
    lh_m_dirty_policy(m, policy);
}
