/* HA-10: an operator deletes the record of a master that is gone. Nothing rests on it: whoever runs
 * puts its record again when it misses it. */
#include "master/reigns/internal.h"

#include <stdio.h>
#include <stdlib.h>

static void reply(struct lh_reigns *r, uint64_t link, int error, const char *text)
{
    Leasehold__ForgetMasterReply reply = LEASEHOLD__FORGET_MASTER_REPLY__INIT;

    reply.error = (Leasehold__ErrorCode)error;
    reply.error_text = (char *)(uintptr_t)text;
    lh_fx_reply(r->fx, link, &reply.base, NULL);
}

static const struct lh_r_record *record_of(const struct lh_reigns *r, const char *id)
{
    for (size_t i = 0; i < r->records_known; i++)
        if (strcmp(r->records[i].id, id) == 0)
            return &r->records[i];
    return NULL;
}

/* If it is as it was read. Else it is read: a copy of this request that took effect has left
 * nothing, and a master that runs has put another one. */
static void delete_record(struct lh_reigns *r, const struct lh_r_record *record)
{
    Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT, *compares[1] = {&compare};
    Etcdserverpb__DeleteRangeRequest delete = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    Etcdserverpb__RequestOp then = ETCDSERVERPB__REQUEST_OP__INIT, *thens[1] = {&then};
    Etcdserverpb__RequestOp other = ETCDSERVERPB__REQUEST_OP__INIT, *others[1] = {&other};
    struct lh_r_bytes name = lh_r_record_key(r, record->id);

    compare.key = delete.key = range.key = (ProtobufCBinaryData){name.size, name.data};
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    compare.mod_revision = record->revision;
    then.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    then.request_delete_range = &delete;
    other.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    other.request_range = &range;
    txn.n_compare = txn.n_success = txn.n_failure = 1;
    txn.compare = compares;
    txn.success = thens;
    txn.failure = others;
    lh_r_call_begin(r, LH_R_FORGET, LH_METHOD_ETCD_TXN, &txn.base);
    free(name.data);
}

void lh_r_forget(struct lh_reigns *r, uint64_t link, const Leasehold__ForgetMasterRequest *request)
{
    const struct lh_r_record *record = record_of(r, request->master_id);
    char text[200];

    lh_r_link_over(r, link);
    if (strcmp(request->master_id, r->config.id) == 0) {
        reply(r, link, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT, "this is the active master");
    } else if (record == NULL) {
        (void)snprintf(
            text, sizeof text, "there is no record of a master \"%.128s\"", request->master_id);
        reply(r, link, LEASEHOLD__ERROR_CODE__NOT_FOUND, text);
    } else if (lh_r_call_is_open(r, LH_R_FORGET)) {
        lh_fx_close(r->fx, link, LH_ERR_UNAVAILABLE, "another record is being deleted");
    } else {
        r->forget_link = link;
        delete_record(r, record);
    }
}

void lh_r_forget_reply(struct lh_reigns *r, const Etcdserverpb__TxnResponse *m)
{
    bool there =
        !m->succeeded && m->n_responses > 0 &&
        m->responses[0]->response_case == ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE &&
        m->responses[0]->response_range->n_kvs > 0;

    r->list_at = r->now; /* it is not in the next answer any more */
    if (r->forget_link == 0)
        return;
    reply(r, r->forget_link, there ? LEASEHOLD__ERROR_CODE__IN_USE : LEASEHOLD__ERROR_CODE__OK,
        there ? "it has just put its record again, so it runs: stop it first" : "");
    r->forget_link = 0;
}
