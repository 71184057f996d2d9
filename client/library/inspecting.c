/* The library: what names, sessions and policies there are. */
#include "client/library/programs.h"

#include "base/alloc.h"
#include "proto/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *hexadecimal(ProtobufCBinaryData id)
{
    char *text = lh_alloc(2 * id.len + 1);

    for (size_t i = 0; i < id.len; i++)
        snprintf(text + 2 * i, 3, "%02x", id.data[i]);
    return text;
}

static void *copy_bytes(ProtobufCBinaryData bytes)
{
    char *copy = lh_alloc(bytes.len + 1);

    if (bytes.len > 0)
        memcpy(copy, bytes.data, bytes.len);
    return copy;
}

/* ---- Names. ---- */

static void copy_holder(struct lh_lock_holder *to, const Leasehold__LockHolder *from)
{
    *to = (struct lh_lock_holder){
        .session = hexadecimal(from->session),
        .label = lh_strdup(from->label),
        .host = lh_strdup(from->host),
        .process = lh_strdup(from->process),
        .shared = from->mode == LEASEHOLD__LOCK_MODE__SHARED,
        .token = from->token,
        .left_ms = from->left_ms,
        .cut = from->cut,
        .info = copy_bytes(from->info),
        .info_size = from->info.len,
    };
}

static void copy_name(struct lh_name_info *to, const Leasehold__NameInfo *from)
{
    *to = (struct lh_name_info){
        .name = lh_strdup(from->name),
        .holders = lh_alloc_array(from->n_holders, sizeof *to->holders),
        .holder_count = from->n_holders,
        .waiting = from->waiting,
        .has_value = from->value != NULL,
        .caches = from->caches,
        .changing = from->changing,
        .sentences = lh_alloc_array(from->n_sentences, sizeof *to->sentences),
        .sentence_count = from->n_sentences,
    };
    for (size_t i = 0; i < from->n_holders; i++)
        copy_holder(&to->holders[i], from->holders[i]);
    for (size_t i = 0; i < from->n_sentences; i++)
        to->sentences[i] = lh_strdup(from->sentences[i]);
    if (from->value == NULL) {
        to->attached = lh_strdup("");
        return;
    }
    to->revision = from->value->revision;
    to->size = from->value->size;
    to->token = from->value->token;
    to->attached = hexadecimal(from->value->session);
}

static int list_names(struct lh_cluster *cluster, const Leasehold__ListNamesRequest *m,
    uint64_t timeout_ms, struct lh_name_list *list)
{
    Leasehold__ListNamesReply *reply;
    int error = lh_ask(cluster, LH_METHOD_LIST_NAMES, &m->base, 0, timeout_ms, &reply);

    if (error == LH_OK) {
        *list = (struct lh_name_list){
            .names = lh_alloc_array(reply->n_names, sizeof *list->names),
            .count = reply->n_names,
            .more = reply->more,
            .sessions_away = reply->sessions_away,
            .waiting_ms = reply->waiting_ms,
        };
        for (size_t i = 0; i < list->count; i++)
            copy_name(&list->names[i], reply->names[i]);
    }
    lh_free_reply(reply);
    return error;
}

int lh_names(struct lh_cluster *cluster, const char *prefix, const char *after, uint32_t limit,
    uint64_t timeout_ms, struct lh_name_list *list)
{
    Leasehold__ListNamesRequest m = LEASEHOLD__LIST_NAMES_REQUEST__INIT;

    if (cluster == NULL || list == NULL)
        return lh_missing(cluster == NULL ? "cluster" : "list");
    m.prefix = lh_wire_string(prefix == NULL ? "" : prefix);
    m.after = lh_wire_string(after == NULL ? "" : after);
    m.limit = limit;
    return list_names(cluster, &m, timeout_ms, list);
}

int lh_explain_name(
    struct lh_cluster *cluster, const char *name, uint64_t timeout_ms, struct lh_name_list *list)
{
    Leasehold__ListNamesRequest m = LEASEHOLD__LIST_NAMES_REQUEST__INIT;

    if (cluster == NULL || name == NULL || list == NULL)
        return lh_missing(cluster == NULL ? "cluster" : name == NULL ? "name" : "list");
    m.prefix = lh_wire_string(name);
    m.exact = m.explain = true;
    int error = list_names(cluster, &m, timeout_ms, list);
    if (error != LH_OK || list->count > 0)
        return error;
    lh_name_list_deinit(list);
    return lh_fail(LH_ERR_NOT_FOUND, "nobody uses the name %s", name);
}

void lh_name_list_deinit(struct lh_name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct lh_name_info *n = &list->names[i];
        for (size_t k = 0; k < n->holder_count; k++) {
            free(n->holders[k].session);
            free(n->holders[k].label);
            free(n->holders[k].host);
            free(n->holders[k].process);
            free(n->holders[k].info);
        }
        for (size_t k = 0; k < n->sentence_count; k++)
            free(n->sentences[k]);
        free(n->holders);
        free(n->sentences);
        free(n->attached);
        free(n->name);
    }
    free(list->names);
    *list = (struct lh_name_list){0};
}

/* ---- Sessions. ---- */

static unsigned digit(char c)
{
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                  : 16;
}

/* An id as it is shown. */
static bool parse_id(const char *text, uint8_t id[16])
{
    if (strlen(text) != 32)
        return false;
    for (unsigned i = 0; i < 16; i++) {
        unsigned high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high > 15 || low > 15)
            return false;
        id[i] = (uint8_t)(16 * high + low);
    }
    return true;
}

static void copy_session(struct lh_session_info *to, const Leasehold__ProgramInfo *from)
{
    *to = (struct lh_session_info){
        .id = hexadecimal(from->session),
        .label = lh_strdup(from->label),
        .host = lh_strdup(from->host),
        .process = lh_strdup(from->process),
        .term_ms = from->term_ms,
        .left_ms = from->left_ms,
        .back = from->back,
        .linked = from->linked,
        .locks = from->locks,
        .waiting = from->waiting,
        .values = from->values,
        .attached = from->attached,
    };
}

int lh_sessions(struct lh_cluster *cluster, const char *after, uint32_t limit, uint64_t timeout_ms,
    struct lh_session_list *list)
{
    Leasehold__ListSessionsRequest m = LEASEHOLD__LIST_SESSIONS_REQUEST__INIT;
    Leasehold__ListSessionsReply *reply;
    uint8_t id[16];

    if (cluster == NULL || list == NULL)
        return lh_missing(cluster == NULL ? "cluster" : "list");
    if (after != NULL && after[0] != '\0') {
        if (!parse_id(after, id))
            return lh_fail(LH_ERR_INVALID_ARGUMENT,
                "\"%s\" is no session's id, which has 32 hexadecimal digits", after);
        m.after.data = id;
        m.after.len = sizeof id;
    }
    m.limit = limit;
    int error = lh_ask(cluster, LH_METHOD_LIST_SESSIONS, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        *list = (struct lh_session_list){
            .sessions = lh_alloc_array(reply->n_sessions, sizeof *list->sessions),
            .count = reply->n_sessions,
            .more = reply->more,
        };
        for (size_t i = 0; i < list->count; i++)
            copy_session(&list->sessions[i], reply->sessions[i]);
    }
    lh_free_reply(reply);
    return error;
}

void lh_session_list_deinit(struct lh_session_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->sessions[i].id);
        free(list->sessions[i].label);
        free(list->sessions[i].host);
        free(list->sessions[i].process);
    }
    free(list->sessions);
    *list = (struct lh_session_list){0};
}

/* ---- Policies. ---- */

int lh_set_policy(
    struct lh_cluster *cluster, const struct lh_policy *policy, bool remove, uint64_t timeout_ms)
{
    Leasehold__SetPolicyRequest m = LEASEHOLD__SET_POLICY_REQUEST__INIT;
    Leasehold__Policy p = LEASEHOLD__POLICY__INIT;
    Leasehold__SetPolicyReply *reply;

    if (cluster == NULL || policy == NULL || policy->prefix == NULL)
        return lh_missing(cluster == NULL ? "cluster" : "policy or its prefix");
    p.prefix = policy->prefix;
    p.no_recall = policy->no_recall;
    p.share_percent = policy->share_percent;
    p.term_min_ms = policy->term_min_ms;
    p.term_max_ms = policy->term_max_ms;
    p.no_lease = policy->no_lease;
    p.broadcast = policy->broadcast;
    m.policy = &p;
    m.remove = remove;
    int error = lh_ask(cluster, LH_METHOD_SET_POLICY, &m.base, 0, timeout_ms, &reply);
    lh_free_reply(reply);
    return error;
}

int lh_policies(struct lh_cluster *cluster, uint64_t timeout_ms, struct lh_policy_list *list)
{
    Leasehold__ListPoliciesRequest m = LEASEHOLD__LIST_POLICIES_REQUEST__INIT;
    Leasehold__ListPoliciesReply *reply;

    if (cluster == NULL || list == NULL)
        return lh_missing(cluster == NULL ? "cluster" : "list");
    int error = lh_ask(cluster, LH_METHOD_LIST_POLICIES, &m.base, 0, timeout_ms, &reply);
    if (error == LH_OK) {
        *list = (struct lh_policy_list){
            .policies = lh_alloc_array(reply->n_policies, sizeof *list->policies),
            .count = reply->n_policies,
        };
        for (size_t i = 0; i < list->count; i++) {
            const Leasehold__Policy *from = reply->policies[i];
            list->policies[i] = (struct lh_policy){
                .prefix = lh_strdup(from->prefix),
                .no_recall = from->no_recall,
                .share_percent = from->share_percent,
                .term_min_ms = from->term_min_ms,
                .term_max_ms = from->term_max_ms,
                .no_lease = from->no_lease,
                .broadcast = from->broadcast,
            };
        }
    }
    lh_free_reply(reply);
    return error;
}

void lh_policy_list_deinit(struct lh_policy_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->policies[i].prefix);
    free(list->policies);
    *list = (struct lh_policy_list){0};
}
