/* A transaction of etcd: put together operation by operation, fenced by the head (HA-1), sent. */
#include "master/reigns/internal.h"

#include <stdlib.h>

static Etcdserverpb__RequestOp *operation(struct lh_r_txn *t)
{
    LH_GROW(t->operations, t->capacity, t->count + 1);
    Etcdserverpb__RequestOp *op = lh_alloc(sizeof *op);
    etcdserverpb__request_op__init(op);
    t->operations[t->count++] = op;
    return op;
}

static void give(ProtobufCBinaryData *field, struct lh_r_bytes bytes)
{
    field->data = bytes.data;
    field->len = bytes.size;
}

static void set(ProtobufCBinaryData *field, const void *data, size_t size)
{
    give(field, lh_r_bytes_copy(data, size));
}

void lh_r_txn_put(struct lh_r_txn *t, struct lh_r_bytes key, const void *value, size_t size)
{
    Etcdserverpb__RequestOp *op = operation(t);

    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    op->request_put = lh_alloc(sizeof *op->request_put);
    etcdserverpb__put_request__init(op->request_put);
    give(&op->request_put->key, key);
    set(&op->request_put->value, value, size);
}

void lh_r_txn_delete(struct lh_r_txn *t, struct lh_r_bytes key, struct lh_r_bytes end)
{
    Etcdserverpb__RequestOp *op = operation(t);

    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    op->request_delete_range = lh_alloc(sizeof *op->request_delete_range);
    etcdserverpb__delete_range_request__init(op->request_delete_range);
    give(&op->request_delete_range->key, key);
    give(&op->request_delete_range->range_end, end);
}

static bool is_of(const Etcdserverpb__RequestOp *op, const struct lh_r_bytes *key)
{
    const ProtobufCBinaryData *has =
        op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT
            ? &op->request_put->key
            : &op->request_delete_range->key;

    return has->len == key->size && memcmp(has->data, key->data, key->size) == 0;
}

void lh_r_txn_change(struct lh_reigns *r, struct lh_r_txn *t, const struct lh_change *c)
{
    struct lh_r_bytes key = lh_r_map_key(r, c->key, c->key_size);

    /* etcd takes a key once in a transaction. There are few operations in one. */
    for (size_t i = 0; i < t->count; i++)
        if (is_of(t->operations[i], &key)) {
            etcdserverpb__request_op__free_unpacked(t->operations[i], NULL);
            t->operations[i] = t->operations[--t->count];
            break;
        }
    if (c->value != NULL)
        lh_r_txn_put(t, key, c->value, c->value_size);
    else
        lh_r_txn_delete(t, key, (struct lh_r_bytes){0});
}

static void compare(
    Etcdserverpb__Compare *c, Etcdserverpb__Compare__CompareTarget target, struct lh_r_bytes key)
{
    etcdserverpb__compare__init(c);
    c->result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
    c->target = target;
    give(&c->key, key);
}

static void compare_range(Etcdserverpb__Compare *c, struct lh_r_bytes from, struct lh_r_bytes end)
{
    compare(c, ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE, from);
    c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    give(&c->range_end, end);
}

/* The first key behind all that begin with the prefix, which ends in '/'. */
static struct lh_r_bytes behind_prefix(const struct lh_reigns *r)
{
    struct lh_r_bytes key = lh_r_key(r, "");

    key.data[key.size - 1]++;
    return key;
}

/* HA-1: the head is what this master's last write left, revision and value. HA-3: without a head
 * there is nothing else either, but masters' records. */
static size_t fence(struct lh_reigns *r, Etcdserverpb__Compare c[2])
{
    if (r->copy.said == NULL) {
        compare_range(&c[0], lh_r_key(r, ""), lh_r_key(r, LH_R_RECORD_OF));
        compare_range(&c[1], lh_r_key(r, LH_R_RECORDS_END), behind_prefix(r));
        return 2;
    }
    if (LH_PLANTED("no-fence") ||
        (r->writer.kind == LH_R_RESIGN && LH_PLANTED("resigns-over-whatever-there-is")))
        return 0;
    compare(&c[0], ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD, lh_r_key(r, LH_R_HEAD));
    c[0].target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    c[0].mod_revision = r->copy.head_revision;
    compare(&c[1], ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE, lh_r_key(r, LH_R_HEAD));
    c[1].target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
    set(&c[1].value, r->copy.head.data, r->copy.head.size);
    return 2;
}

void lh_r_txn_send(struct lh_reigns *r, struct lh_r_txn *t, enum lh_r_write kind,
    const LeaseholdStored__Head *head)
{
    struct lh_r_writer *w = &r->writer;
    Etcdserverpb__Compare compares[2], *compare_list[2] = {&compares[0], &compares[1]};
    Etcdserverpb__RequestOp read = ETCDSERVERPB__REQUEST_OP__INIT, *read_list[1] = {&read};
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;

    lh_r_bytes_clear(&w->head);
    w->head = lh_r_head_pack(head);
    w->kind = kind;
    lh_r_txn_put(t, lh_r_key(r, LH_R_HEAD), w->head.data, w->head.size);

    etcdserverpb__txn_request__init(&t->request);
    t->request.compare = compare_list;
    t->request.n_compare = fence(r, compares);
    t->request.success = t->operations;
    t->request.n_success = t->count;
    give(&range.key, lh_r_key(r, LH_R_HEAD));
    read.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    read.request_range = &range;
    t->request.failure = read_list;
    t->request.n_failure = 1;
    w->sent_at = r->now;
    lh_r_call_begin(r, LH_R_WRITE, LH_METHOD_ETCD_TXN, &t->request.base);

    for (size_t i = 0; i < t->request.n_compare; i++) {
        free(compares[i].key.data);
        free(compares[i].range_end.data);
        if (compares[i].target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE)
            free(compares[i].value.data);
    }
    free(range.key.data);
    while (t->count > 0)
        etcdserverpb__request_op__free_unpacked(t->operations[--t->count], NULL);
    free(t->operations);
    w->next_at = lh_instant_add(r->now, lh_nanoseconds(r->config.reign_term.ns / 4));
}
