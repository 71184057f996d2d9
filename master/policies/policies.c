/* What holds for the names under a prefix is set and listed. */
#include "master/policies/policies.h"

#include "base/alloc.h"
#include "master/tables/dirty.h"
#include "master/tables/replies.h"
#include "master/values/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_PERCENT_MAX 1000u
#define TERM_MAX_MS       (24u * 3600u * 1000u)

/* A whole name, or what ends in "/" and begins names. */
static int check_prefix(const char *prefix, char *why, size_t why_size)
{
    char name[LH_M_NAME_BYTES_MAX + 2];
    size_t size = strlen(prefix);

    if (size == 0 || size > LH_M_NAME_BYTES_MAX) {
        snprintf(why, why_size, "a prefix has 1 to %u bytes", LH_M_NAME_BYTES_MAX);
        return LH_ERR_INVALID_ARGUMENT;
    }
    memcpy(name, prefix, size + 1);
    if (name[size - 1] == '/') { /* as the name of something under it */
        name[size] = 'x';
        name[size + 1] = 0;
    }
    return strlen(name) > LH_M_NAME_BYTES_MAX ? LH_OK : lh_m_name_check(name, why, why_size);
}

static int check(
    const struct lh_master *m, const Leasehold__SetPolicyRequest *request, char *why, size_t size)
{
    const Leasehold__Policy *p = request->policy;

    if (p == NULL) {
        snprintf(why, size, "there is no policy in the request");
        return LH_ERR_INVALID_ARGUMENT;
    }
    int error = check_prefix(p->prefix, why, size);
    if (error == LH_OK && !request->remove)
        error = lh_m_name_check_kept("the prefix of a policy", p->prefix, why, size);
    if (error != LH_OK)
        return error;
    if (request->remove) {
        snprintf(why, size, "there is no policy of this prefix");
        return lh_m_policy_find(m, p->prefix) == NULL ? LH_ERR_NOT_FOUND : LH_OK;
    }
    if (p->share_percent > SHARE_PERCENT_MAX || p->term_min_ms > TERM_MAX_MS ||
        p->term_max_ms > TERM_MAX_MS || (p->term_max_ms != 0 && p->term_min_ms > p->term_max_ms)) {
        snprintf(why, size,
            "the share is at most %u percent, the bounds are at most a day, and the lower one not "
            "above the upper one",
            SHARE_PERCENT_MAX);
        return LH_ERR_INVALID_ARGUMENT;
    }
    if (m->store_fills != NULL) { /* HA-11 */
        snprintf(why, size, "%s", m->store_fills);
        return LH_ERR_DISK_FULL;
    }
    if (lh_m_policy_find(m, p->prefix) == NULL && m->policies.count >= m->config.policies_max) {
        snprintf(why, size, "there are as many policies as there may be");
        return LH_ERR_NO_MEMORY;
    }
    return LH_OK;
}

static void set(struct lh_master *m, const Leasehold__Policy *asked)
{
    struct lh_m_policy *p = lh_m_policy_get(m, asked->prefix);

    p->no_recall = asked->no_recall;
    p->share_percent = asked->share_percent;
    p->term_min = lh_milliseconds(asked->term_min_ms);
    p->term_max = lh_milliseconds(asked->term_max_ms);
    p->no_lease = asked->no_lease;
    p->broadcast = asked->broadcast;
    lh_m_dirty_policy(m, p);
}

void lh_m_set_policy(struct lh_master *m, uint64_t link, const Leasehold__SetPolicyRequest *request)
{
    Leasehold__SetPolicyReply reply = LEASEHOLD__SET_POLICY_REPLY__INIT;
    char why[LH_TEXT_BYTES];
    int error = check(m, request, why, sizeof why);

    if (error != LH_OK) {
        reply.error = lh_m_wire_error(error);
        reply.error_text = why;
        lh_m_reply(m, link, 0, &reply.base);
        return;
    }
    if (request->remove)
        lh_m_policy_remove(m, lh_m_policy_find(m, request->policy->prefix));
    else
        set(m, request->policy);
    lh_m_broadcast_policy(m, request->policy->prefix);
    m->policies.ticket = m->commit.next_ticket;
    lh_m_reply(m, link, m->commit.next_ticket, &reply.base);
}

void lh_m_list_policies(
    struct lh_master *m, uint64_t link, const Leasehold__ListPoliciesRequest *request)
{
    Leasehold__ListPoliciesReply reply = LEASEHOLD__LIST_POLICIES_REPLY__INIT;
    Leasehold__Policy *items = lh_alloc_array(m->policies.count + 1, sizeof *items);
    Leasehold__Policy **pointers = lh_alloc_array(m->policies.count + 1, sizeof *pointers);
    struct lh_m_policy *p;

    (void)request;
    RB_FOREACH(p, lh_m_policy_tree, &m->policies.tree) {
        if (p->gone || !lh_access_concerns(m->config.access, m->caller, p->prefix))
            continue;
        Leasehold__Policy *item = &items[reply.n_policies];
        leasehold__policy__init(item);
        item->prefix = p->prefix;
        item->no_recall = p->no_recall;
        item->share_percent = p->share_percent;
        item->term_min_ms = lh_duration_ms(p->term_min);
        item->term_max_ms = lh_duration_ms(p->term_max);
        item->no_lease = p->no_lease;
        item->broadcast = p->broadcast;
        pointers[reply.n_policies++] = item;
    }
    reply.policies = pointers;
    lh_m_reply(m, link, m->policies.ticket, &reply.base);
    free(items);
    free(pointers);
}
