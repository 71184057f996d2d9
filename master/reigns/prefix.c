/* Whether the prefix is inside that of another cluster; looked at once, before anything is loaded.
 * Two such clusters do not disturb each other at first, but whoever removes, restores or copies the
 * outer one by its prefix takes the inner one with it. That a new store has no other one inside is
 * a part of its first transaction (writer.c). */
#include "master/reigns/internal.h"

#include <stdlib.h>

/* Prefixes around this one that are looked at; of more the outermost are. */
#define OUTER_MAX 32u

/* Heads of outer clusters: of "a/" and "a/b/" for "a/b/c/". */
static size_t outer_heads(const char *prefix, struct lh_r_bytes heads[OUTER_MAX])
{
    size_t count = 0, name = strlen(LH_R_HEAD);

    for (size_t i = 0; prefix[i] != 0 && prefix[i + 1] != 0 && count < OUTER_MAX; i++) {
        if (prefix[i] != '/')
            continue;
        struct lh_r_bytes key = {lh_alloc(i + 1 + name), i + 1 + name};
        memcpy(key.data, prefix, i + 1);
        memcpy(key.data + i + 1, LH_R_HEAD, name);
        heads[count++] = key;
    }
    return count;
}

void lh_r_prefix_ask(struct lh_reigns *r)
{
    Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__RequestOp operations[OUTER_MAX], *list[OUTER_MAX];
    Etcdserverpb__RangeRequest ranges[OUTER_MAX];
    struct lh_r_bytes heads[OUTER_MAX];
    size_t count = outer_heads(r->config.prefix, heads);

    r->prefix_seen = count == 0;
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        etcdserverpb__range_request__init(&ranges[i]);
        ranges[i].key = (ProtobufCBinaryData){heads[i].size, heads[i].data};
        etcdserverpb__request_op__init(&operations[i]);
        operations[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
        operations[i].request_range = &ranges[i];
        list[i] = &operations[i];
    }
    txn.success = list;
    txn.n_success = count;
    lh_r_call_begin(r, LH_R_PREFIX, LH_METHOD_ETCD_TXN, &txn.base);
    for (size_t i = 0; i < count; i++)
        free(heads[i].data);
}

static bool is_head(const Etcdserverpb__KeyValue *kv)
{
    LeaseholdStored__Head *head = lh_r_head_read(kv->value.data, kv->value.len);

    lh_r_head_free(head);
    return head != NULL;
}

void lh_r_prefix_reply(struct lh_reigns *r, const Etcdserverpb__TxnResponse *reply)
{
    r->prefix_seen = true;
    for (size_t i = 0; i < reply->n_responses; i++) {
        const Etcdserverpb__ResponseOp *op = reply->responses[i];
        if (op->response_case != ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE ||
            op->response_range->n_kvs == 0 || !is_head(op->response_range->kvs[0]))
            continue;
        const ProtobufCBinaryData *key = &op->response_range->kvs[0]->key;
        int outer = (int)(key->len - strlen(LH_R_HEAD));
        lh_fx_log(r->fx, LH_ERROR,
            "the prefix \"%.150s\" is inside that of another cluster, \"%.*s\": give another one",
            r->config.prefix, outer > 150 ? 150 : outer, (const char *)key->data);
        lh_r_stop_with(r, LH_ERR_WRONG_IDENTITY);
        return;
    }
}
