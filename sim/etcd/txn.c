#include "sim/etcd/txn.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/prng.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>

/* Errors are what the real driver makes of etcd's statuses (grpc/statuses.c); texts are etcd's. */
#define REFUSAL(name, error, text)                                                                 \
    const struct lh_etcd_refusal lh_etcd_##name##_refusal = {error, text}

/* OutOfRange */
REFUSAL(compacted, LH_ERR_SYSTEM, "etcdserver: mvcc: required revision has been compacted");
REFUSAL(future, LH_ERR_SYSTEM, "etcdserver: mvcc: required revision is a future revision");
/* InvalidArgument */
REFUSAL(too_large, LH_ERR_INVALID_ARGUMENT, "etcdserver: request is too large");
static REFUSAL(no_key, LH_ERR_INVALID_ARGUMENT, "etcdserver: key is not provided");
static REFUSAL(no_operation, LH_ERR_INVALID_ARGUMENT, "etcdserver: key not found");
static REFUSAL(too_many, LH_ERR_INVALID_ARGUMENT, "etcdserver: too many operations in txn request");
static REFUSAL(twice, LH_ERR_INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request");
/* ResourceExhausted */
REFUSAL(too_large_for_grpc, LH_ERR_TOO_LARGE, "grpc: received message larger than max");
REFUSAL(no_space, LH_ERR_NO_MEMORY, "etcdserver: mvcc: database space exceeded");
/* Unavailable */
REFUSAL(timeout, LH_ERR_UNAVAILABLE, "etcdserver: request timed out");
REFUSAL(timeout_leader, LH_ERR_UNAVAILABLE,
    "etcdserver: request timed out, possibly due to previous leader failure");
REFUSAL(leader_changed, LH_ERR_UNAVAILABLE, "etcdserver: leader changed");
REFUSAL(no_leader, LH_ERR_UNAVAILABLE, "etcdserver: no leader");
REFUSAL(stopped, LH_ERR_UNAVAILABLE, "etcdserver: server stopped");
REFUSAL(not_serving, LH_ERR_UNAVAILABLE, "connection refused");
/* Unknown, and FailedPrecondition */
REFUSAL(too_many_requests, LH_ERR_SYSTEM, "etcdserver: too many requests");
REFUSAL(dropped, LH_ERR_SYSTEM, "raft proposal dropped");
REFUSAL(no_auth, LH_ERR_SYSTEM, "etcdserver: authentication is not enabled");

ProtobufCBinaryData lh_etcd_bytes(const uint8_t *from, size_t size)
{
    ProtobufCBinaryData to = {.len = size};

    if (size > 0) {
        to.data = lh_alloc(size);
        memcpy(to.data, from, size);
    }
    return to;
}

Etcdserverpb__ResponseHeader *lh_etcd_header(const struct lh_etcd_view *v, int64_t revision)
{
    Etcdserverpb__ResponseHeader *h = lh_alloc(sizeof *h);

    etcdserverpb__response_header__init(h);
    h->cluster_id = v->cluster_id;
    h->member_id = v->member_id;
    h->raft_term = v->term;
    h->revision = revision;
    return h;
}

/* ---- Checks ---- */

static struct lh_etcd_range range_of(const ProtobufCBinaryData *key, const ProtobufCBinaryData *end)
{
    return (struct lh_etcd_range){key->data, end->data, key->len, end->len};
}

const struct lh_etcd_refusal *lh_etcd_check_range(const Etcdserverpb__RangeRequest *r)
{
    return r->key.len == 0 ? &lh_etcd_no_key_refusal : NULL;
}

static const struct lh_etcd_refusal *check_operation(const Etcdserverpb__RequestOp *op)
{
    size_t key_size = 0;

    switch (op->request_case) {
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE:
        key_size = op->request_range->key.len;
        break;
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT:
        key_size = op->request_put->key.len;
        break;
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
        key_size = op->request_delete_range->key.len;
        break;
    default:
        return &lh_etcd_no_operation_refusal;
    }
    return key_size == 0 ? &lh_etcd_no_key_refusal : NULL;
}

static const Etcdserverpb__PutRequest *put_of(const Etcdserverpb__RequestOp *op)
{
    return op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT ? op->request_put
                                                                             : NULL;
}

/* Is a key put by an operation that another one of the branch puts or deletes? In any order. */
static bool is_put_twice(Etcdserverpb__RequestOp *const *ops, size_t count, size_t which)
{
    const Etcdserverpb__PutRequest *put = put_of(ops[which]);

    for (size_t i = 0; put != NULL && i < count; i++) {
        const Etcdserverpb__PutRequest *other = put_of(ops[i]);
        if (i == which)
            continue;
        if (other != NULL && other->key.len == put->key.len &&
            memcmp(other->key.data, put->key.data, put->key.len) == 0)
            return true;
        if (ops[i]->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE) {
            const Etcdserverpb__DeleteRangeRequest *d = ops[i]->request_delete_range;
            struct lh_etcd_range r = range_of(&d->key, &d->range_end);
            if (lh_etcd_in_range(&r, put->key.data, put->key.len))
                return true;
        }
    }
    return false;
}

static const struct lh_etcd_refusal *check_keys(Etcdserverpb__RequestOp *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct lh_etcd_refusal *refusal = check_operation(ops[i]);
        if (refusal != NULL)
            return refusal;
    }
    return NULL;
}

static const struct lh_etcd_refusal *check_twice(Etcdserverpb__RequestOp *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_put_twice(ops, count, i))
            return &lh_etcd_twice_refusal;
    return NULL;
}

/* The order of the checks is etcd's: it decides which of several reasons the caller is told. */
const struct lh_etcd_refusal *lh_etcd_check_txn(
    const Etcdserverpb__TxnRequest *t, const struct lh_sim_etcd_config *config)
{
    const struct lh_etcd_refusal *refusal;

    if (t->n_compare > config->ops_max || t->n_success > config->ops_max ||
        t->n_failure > config->ops_max)
        return &lh_etcd_too_many_refusal;
    for (size_t i = 0; i < t->n_compare; i++)
        if (t->compare[i]->key.len == 0)
            return &lh_etcd_no_key_refusal;
    if ((refusal = check_keys(t->success, t->n_success)) != NULL ||
        (refusal = check_keys(t->failure, t->n_failure)) != NULL ||
        (refusal = check_twice(t->success, t->n_success)) != NULL)
        return refusal;
    return check_twice(t->failure, t->n_failure);
}

static const Etcdserverpb__RangeRequest *read_of(const Etcdserverpb__RequestOp *op)
{
    return op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE ? op->request_range
                                                                               : NULL;
}

bool lh_etcd_only_reads(const Etcdserverpb__TxnRequest *t)
{
    for (size_t i = 0; i < t->n_success; i++)
        if (read_of(t->success[i]) == NULL)
            return false;
    for (size_t i = 0; i < t->n_failure; i++)
        if (read_of(t->failure[i]) == NULL)
            return false;
    return true;
}

bool lh_etcd_is_serializable(const Etcdserverpb__TxnRequest *t)
{
    if (!lh_etcd_only_reads(t))
        return false;
    for (size_t i = 0; i < t->n_success; i++)
        if (!read_of(t->success[i])->serializable)
            return false;
    for (size_t i = 0; i < t->n_failure; i++)
        if (!read_of(t->failure[i])->serializable)
            return false;
    return true;
}

bool lh_etcd_has_put(const Etcdserverpb__TxnRequest *t)
{
    for (size_t i = 0; i < t->n_success; i++)
        if (put_of(t->success[i]) != NULL)
            return true;
    for (size_t i = 0; i < t->n_failure; i++)
        if (put_of(t->failure[i]) != NULL)
            return true;
    return false;
}

/* ---- Compares ---- */

static int order_of(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int order_of_values(const struct lh_sim_etcd_record *r, const Etcdserverpb__Compare *c)
{
    static const ProtobufCBinaryData nothing = {0};
    const ProtobufCBinaryData *to =
        c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE ? &c->value : &nothing;
    size_t common = r->value_size < to->len ? r->value_size : to->len;
    int first = common == 0 ? 0 : memcmp(r->value, to->data, common);

    return first != 0 ? first : (r->value_size > to->len) - (r->value_size < to->len);
}

/* A target that the request does not give is 0, as every field of proto3. */
static bool holds_for(const struct lh_sim_etcd_record *r, const Etcdserverpb__Compare *c)
{
    int order = 0;

    switch (c->target) {
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__VERSION:
        order = order_of(r->version,
            c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION ? c->version : 0);
        break;
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE:
        order = order_of(r->create_revision,
            c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION
                ? c->create_revision
                : 0);
        break;
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD:
        order = order_of(r->mod_revision,
            c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION
                ? c->mod_revision
                : 0);
        break;
    default:
        order = order_of_values(r, c);
        break;
    }
    switch (c->result) {
    case ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL:
        return order == 0;
    case ETCDSERVERPB__COMPARE__COMPARE_RESULT__GREATER:
        return order > 0;
    case ETCDSERVERPB__COMPARE__COMPARE_RESULT__LESS:
        return order < 0;
    default:
        return order != 0;
    }
}

/* For every key of the range. Where there is none, numbers are compared with 0, and no compare of a
 * value holds, not even NOT_EQUAL. */
static bool holds(const struct lh_etcd_store *s, int64_t at, const Etcdserverpb__Compare *c)
{
    static const struct lh_sim_etcd_record none = {0};
    struct lh_etcd_range r = range_of(&c->key, &c->range_end);
    bool any = false;

    for (size_t i = lh_etcd_store_first(s, &r); i < s->count; i++) {
        const struct lh_sim_etcd_record *first = &s->lines[i]->records[0]->seen;
        if (!lh_etcd_in_range(&r, first->key, first->key_size))
            break;
        const struct lh_sim_etcd_record *now = lh_etcd_line_at(s->lines[i], at);
        if (now == NULL)
            continue;
        any = true;
        if (!holds_for(now, c))
            return false;
    }
    return any ||
           (c->target != ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE && holds_for(&none, c));
}

/* ---- Operations ---- */

static const struct lh_etcd_refusal *check_revision(
    const struct lh_etcd_view *v, const Etcdserverpb__RangeRequest *r)
{
    if (r->revision <= 0)
        return NULL;
    return r->revision > v->revision    ? &lh_etcd_future_refusal
           : r->revision < v->compacted ? &lh_etcd_compacted_refusal
                                        : NULL;
}

/* Some of the values in a member's file have another bit, always the same one: of the head, and of
 * what masters keep. */
static void spoil(
    const ProtobufCBinaryData *key, ProtobufCBinaryData *value, int64_t revision, uint64_t damage)
{
    uint64_t drawn = lh_mix64(damage + (uint64_t)revision + key->len);
    bool theirs = memmem(key->data, key->len, "map/", 4) != NULL ||
                  memmem(key->data, key->len, "head", 4) != NULL;

    if (damage != 0 && theirs && value->len > 0 && drawn % 2 == 0)
        value->data[(drawn >> 8) % value->len] ^= (uint8_t)(1u << (drawn >> 4) % 8);
}

static void show(
    Etcdserverpb__RangeResponse *to, const struct lh_sim_etcd_record *r, bool with, uint64_t damage)
{
    Etcdserverpb__KeyValue *kv = lh_alloc(sizeof *kv);

    etcdserverpb__key_value__init(kv);
    kv->key = lh_etcd_bytes(r->key, r->key_size);
    kv->create_revision = r->create_revision;
    kv->mod_revision = r->mod_revision;
    kv->version = r->version;
    if (with)
        kv->value = lh_etcd_bytes(r->value, r->value_size);
    spoil(&kv->key, &kv->value, r->mod_revision, damage);
    to->kvs[to->n_kvs++] = kv;
}

static Etcdserverpb__RangeResponse *read_range(const struct lh_etcd_store *s, int64_t at,
    const Etcdserverpb__RangeRequest *q, Etcdserverpb__ResponseHeader *header, uint64_t damage)
{
    Etcdserverpb__RangeResponse *to = lh_alloc(sizeof *to);
    struct lh_etcd_range r = range_of(&q->key, &q->range_end);
    size_t capacity = 0;

    etcdserverpb__range_response__init(to);
    to->header = header;
    for (size_t i = lh_etcd_store_first(s, &r); i < s->count; i++) {
        const struct lh_sim_etcd_record *first = &s->lines[i]->records[0]->seen;
        if (!lh_etcd_in_range(&r, first->key, first->key_size))
            break;
        const struct lh_sim_etcd_record *then = lh_etcd_line_at(s->lines[i], at);
        if (then == NULL)
            continue;
        to->count++;
        if (q->count_only)
            continue;
        if (q->limit > 0 && to->n_kvs == (uint64_t)q->limit) {
            to->more = true;
            continue;
        }
        LH_GROW(to->kvs, capacity, to->n_kvs + 1);
        show(to, then, !q->keys_only, damage);
    }
    return to;
}

Etcdserverpb__RangeResponse *lh_etcd_do_range(const struct lh_etcd_store *s,
    const struct lh_etcd_view *v, const Etcdserverpb__RangeRequest *r,
    const struct lh_etcd_refusal **refusal)
{
    *refusal = check_revision(v, r);
    if (*refusal != NULL)
        return NULL;
    return read_range(s, r->revision > 0 ? r->revision : v->revision, r,
        lh_etcd_header(v, v->revision), v->damage);
}

static Etcdserverpb__PutResponse *put(struct lh_etcd_store *s, const Etcdserverpb__PutRequest *p,
    int64_t at, Etcdserverpb__ResponseHeader *header)
{
    Etcdserverpb__PutResponse *to = lh_alloc(sizeof *to);

    etcdserverpb__put_response__init(to);
    to->header = header;
    lh_etcd_store_put(s, at, p->key.data, p->key.len, p->value.data, p->value.len);
    return to;
}

static Etcdserverpb__DeleteRangeResponse *delete_range(struct lh_etcd_store *s,
    const Etcdserverpb__DeleteRangeRequest *d, int64_t at, Etcdserverpb__ResponseHeader *header)
{
    Etcdserverpb__DeleteRangeResponse *to = lh_alloc(sizeof *to);
    struct lh_etcd_range r = range_of(&d->key, &d->range_end);

    etcdserverpb__delete_range_response__init(to);
    to->header = header;
    to->deleted = lh_etcd_store_delete(s, at, &r);
    return to;
}

/* One operation; `changed`: an earlier one of the transaction has changed something. */
static Etcdserverpb__ResponseOp *operate(struct lh_etcd_store *s, const struct lh_etcd_view *v,
    const Etcdserverpb__RequestOp *op, size_t changes_before)
{
    /* Of the headers inside a transaction's answer only the revision is set. */
    static const struct lh_etcd_view inside = {0};
    Etcdserverpb__ResponseOp *to = lh_alloc(sizeof *to);
    Etcdserverpb__ResponseHeader *header = lh_etcd_header(&inside, 0);
    int64_t now = v->revision + (s->change_count > changes_before);

    etcdserverpb__response_op__init(to);
    if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE) {
        const Etcdserverpb__RangeRequest *r = op->request_range;
        header->revision = now;
        to->response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        to->response_range = read_range(s, r->revision > 0 ? r->revision : now, r, header, 0);
    } else if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT) {
        header->revision = v->revision + 1;
        to->response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
        to->response_put = put(s, op->request_put, v->revision + 1, header);
    } else {
        to->response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
        to->response_delete_range =
            delete_range(s, op->request_delete_range, v->revision + 1, header);
        header->revision = v->revision + (s->change_count > changes_before);
    }
    return to;
}

Etcdserverpb__TxnResponse *lh_etcd_do_txn(struct lh_etcd_store *s, const struct lh_etcd_view *v,
    const Etcdserverpb__TxnRequest *t, const struct lh_etcd_refusal **refusal)
{
    size_t changes_before = s->change_count;
    bool succeeded = true;

    for (size_t i = 0; i < t->n_compare && succeeded; i++)
        succeeded = holds(s, v->revision, t->compare[i]);
    Etcdserverpb__RequestOp **ops = succeeded ? t->success : t->failure;
    size_t count = succeeded ? t->n_success : t->n_failure;

    *refusal = NULL;
    for (size_t i = 0; i < count && *refusal == NULL; i++)
        if (read_of(ops[i]) != NULL)
            *refusal = check_revision(v, read_of(ops[i]));
    if (*refusal != NULL)
        return NULL;
    Etcdserverpb__TxnResponse *to = lh_alloc(sizeof *to);
    etcdserverpb__txn_response__init(to);
    to->succeeded = succeeded;
    to->responses = lh_alloc_array(count + 1, sizeof(Etcdserverpb__ResponseOp *));
    for (size_t i = 0; i < count; i++)
        to->responses[to->n_responses++] = operate(s, v, ops[i], changes_before);
    if (s->change_count > changes_before) {
        LH_ASSERT(s->revision == v->revision);
        s->revision++;
    }
    to->header = lh_etcd_header(v, v->revision + (s->change_count > changes_before));
    return to;
}
