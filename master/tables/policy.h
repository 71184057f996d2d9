/* What holds for the names under a prefix (NL-4, NL-5, VAL-5). */
#pragma once

#include "master/tables/common.h"

struct lh_m_policy {
    char *prefix; /* ends in "/", or is a whole name */
    /* Durable. */
    bool no_recall;         /* NL-4 */
    uint32_t share_percent; /* NL-5; 0: the default, here and below */
    struct lh_duration term_min, term_max;
    bool no_lease;
    bool broadcast; /* VAL-5 */

    bool gone; /* removed, and that is not in a commit yet: it holds no more */
    bool dirty;
    uint32_t pair;
    uint64_t ticket;
    STAILQ_ENTRY(lh_m_policy) dirty_link;
    RB_ENTRY(lh_m_policy) place; /* by prefix */
};
RB_HEAD(lh_m_policy_tree, lh_m_policy);
RB_PROTOTYPE(lh_m_policy_tree, lh_m_policy, place, lh_m_compare_policies)
int lh_m_compare_policies(const struct lh_m_policy *a, const struct lh_m_policy *b);

struct lh_m_policies {
    struct lh_m_policy_tree tree;
    size_t count;    /* those that are `gone` not counted */
    uint64_t ticket; /* of the last commit with one, by who sets them */
};

/* What holds for the name: the policy of the longest prefix that fits, or the default, whose prefix
 * is empty. Never NULL. */
const struct lh_m_policy *lh_m_policy_of(const struct lh_master *m, const char *name);
/* NULL: there is none of exactly this prefix. */
struct lh_m_policy *lh_m_policy_find(const struct lh_master *m, const char *prefix);
/* Made if there is none; what it says is the caller's to write. In memory alone. */
struct lh_m_policy *lh_m_policy_get(struct lh_master *m, const char *prefix);
/* In memory alone. */
void lh_m_policy_free(struct lh_master *m, struct lh_m_policy *policy);
/* It holds no more, durably with this step's commit. */
void lh_m_policy_remove(struct lh_master *m, struct lh_m_policy *policy);
