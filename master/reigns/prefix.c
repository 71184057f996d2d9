/* Whether the prefix is inside that of another cluster; looked at once, before anything is loaded.
 * Two such clusters do not disturb each other at first, but whoever removes, restores or copies the
 * outer one by its prefix takes the inner one with it. That a new store has no other one inside is
 * a part of its first transaction (writer.c). */
#include "master/reigns/internal.h"

#include <stdlib.h>

/* The head of an outer cluster: of "a/" for "a/b/". */
static struct lh_r_bytes head_of(const char *prefix, size_t size)
{
    size_t name = strlen(LH_R_HEAD);
    struct lh_r_bytes key = {lh_alloc(size + name), size + name};

    memcpy(key.data, prefix, size);
    memcpy(key.data + size, LH_R_HEAD, name);
    return key;
}

static void look_at(Etcdserverpb__RequestOp *operation, struct lh_r_bytes key)
{
    etcdserverpb__request_op__init(operation);
    operation->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    operation->request_range = lh_alloc(sizeof *operation->request_range);
    etcdserverpb__range_request__init(operation->request_range);
    operation->request_range->key = (ProtobufCBinaryData){key.size, key.data};
}

void lh_r_prefix_ask(struct lh_reigns *r)
{
    Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__RequestOp *operations = lh_alloc_array(r->config.outer_max, sizeof *operations);
    Etcdserverpb__RequestOp **list = lh_alloc_array(r->config.outer_max, sizeof *list);
    const char *prefix = r->config.prefix, *at = prefix;

    while ((at = strchr(at, '/')) != NULL && at[1] != 0 && txn.n_success < r->config.outer_max) {
        at++;
        list[txn.n_success] = &operations[txn.n_success];
        look_at(list[txn.n_success++], head_of(prefix, (size_t)(at - prefix)));
    }
    txn.success = list;
    /* What is inside another one already may be copied out. */
    r->prefix_seen = txn.n_success == 0 || r->config.task == LH_REIGN_TAKE;
    if (!r->prefix_seen)
        lh_r_call_begin(r, LH_R_PREFIX, LH_METHOD_ETCD_TXN, &txn.base);
    for (size_t i = 0; i < txn.n_success; i++) {
        free(operations[i].request_range->key.data);
        free(operations[i].request_range);
    }
    free(operations);
    free(list);
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
        int outer = key->len < strlen(LH_R_HEAD) ? 0 : (int)(key->len - strlen(LH_R_HEAD));
        lh_fx_log(r->fx, LH_ERROR,
            "the prefix \"%.150s\" is inside that of another cluster, \"%.*s\": give another one",
            r->config.prefix, outer > 150 ? 150 : outer, (const char *)key->data);
        lh_r_stop_with(r, LH_ERR_WRONG_IDENTITY);
        return;
    }
}
