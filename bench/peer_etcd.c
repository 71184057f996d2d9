/* peer_locks.h of etcd: its calls go through grpc/ and the loop, as those of a master. */
#include "base/alloc.h"
#include "bench/peer_loop.h"
#include "proto/codec.h"
#include "proto/etcd.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX    (1u << 17) /* under way at once */
#define WATCH_LINK   1u
#define PUT_LEASE    3u /* PutRequest.lease; masters have no leases at etcd */
#define VARINT_BYTES 10

struct call {
    enum lh_bench_op op;
    uint32_t client;
    uint64_t key;
};

struct etcd {
    struct lh_bench_looped l;
    uint8_t lease[VARINT_BYTES];
    size_t lease_bytes;
    uint64_t last_link;
    struct call *calls;   /* by link, modulo CALLS_MAX */
    struct call *watches; /* by etcd's number: they are created in the order of the requests */
    size_t watch_count, watch_capacity, created;
};

static char *key_text(uint64_t key, char text[32])
{
    snprintf(text, 32, "lock/%012" PRIu64, key);
    return text;
}

static ProtobufCBinaryData bytes(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static void watch(struct etcd *e, uint32_t client, uint64_t key)
{
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    Etcdserverpb__WatchRequest q = ETCDSERVERPB__WATCH_REQUEST__INIT;
    char text[32];

    create.key = bytes(key_text(key, text));
    q.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    q.create_request = &create;
    if (e->watch_count == 0)
        lh_fx_open(e->l.fx, WATCH_LINK, LH_METHOD_ETCD_WATCH, e->l.address, LH_DURATION_FOREVER);
    LH_GROW(e->watches, e->watch_capacity, e->watch_count + 1);
    e->watches[e->watch_count++] = (struct call){LH_BENCH_WATCH, client, key};
    lh_fx_send(e->l.fx, WATCH_LINK, &q.base, NULL);
}

static void read_key(struct etcd *e, uint64_t link, uint64_t key)
{
    Etcdserverpb__RangeRequest q = ETCDSERVERPB__RANGE_REQUEST__INIT;
    char text[32];

    q.key = bytes(key_text(key, text));
    lh_fx_open(e->l.fx, link, LH_METHOD_ETCD_RANGE, e->l.address, LH_DURATION_FOREVER);
    lh_fx_send(e->l.fx, link, &q.base, NULL);
}

static void transaction(struct etcd *e, uint64_t link, enum lh_bench_op op, uint64_t key)
{
    static const char value[LH_BENCH_VALUE_BYTES] = {'x'};
    ProtobufCMessageUnknownField lease = {
        PUT_LEASE, PROTOBUF_C_WIRE_TYPE_VARINT, e->lease_bytes, e->lease};
    Etcdserverpb__Compare absent = ETCDSERVERPB__COMPARE__INIT, *compares[] = {&absent};
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    Etcdserverpb__DeleteRangeRequest del = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    Etcdserverpb__RequestOp todo = ETCDSERVERPB__REQUEST_OP__INIT, *todos[] = {&todo};
    Etcdserverpb__TxnRequest q = ETCDSERVERPB__TXN_REQUEST__INIT;
    char text[32];

    put.key = del.key = absent.key = bytes(key_text(key, text));
    put.value = op == LH_BENCH_WRITE
                    ? (ProtobufCBinaryData){sizeof value, (uint8_t *)(uintptr_t)value}
                    : bytes("owner");
    absent.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION;
    if (op == LH_BENCH_ACQUIRE) {
        q.compare = compares;
        q.n_compare = 1;
        put.base.unknown_fields = &lease;
        put.base.n_unknown_fields = 1;
    }
    todo.request_case = op == LH_BENCH_RELEASE
                            ? ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE
                            : ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    if (op == LH_BENCH_RELEASE)
        todo.request_delete_range = &del;
    else
        todo.request_put = &put;
    q.success = todos;
    q.n_success = 1;
    lh_fx_open(e->l.fx, link, LH_METHOD_ETCD_TXN, e->l.address, LH_DURATION_FOREVER);
    lh_fx_send(e->l.fx, link, &q.base, NULL);
}

static void request(struct lh_bench_peer *peer, uint32_t client, enum lh_bench_op op, uint64_t key)
{
    struct etcd *e = (struct etcd *)peer;

    if (op == LH_BENCH_WATCH) {
        watch(e, client, key);
        return;
    }
    uint64_t link = ++e->last_link;
    e->calls[link % CALLS_MAX] = (struct call){op, client, key};
    if (op == LH_BENCH_READ)
        read_key(e, link, key);
    else
        transaction(e, link, op, key);
}

static void on_watch(struct etcd *e, const Etcdserverpb__WatchResponse *r)
{
    if (r->canceled)
        lh_bench_fail("etcd ended a watch: %s", r->cancel_reason);
    if (r->created) {
        struct call w = e->watches[e->created++];
        e->l.load->done(e->l.load, &e->l.base, w.client, LH_BENCH_WATCH, w.key, true);
        return;
    }
    for (size_t i = 0; i < r->n_events && (size_t)r->watch_id < e->created; i++) {
        struct call w = e->watches[r->watch_id];
        e->l.load->done(e->l.load, &e->l.base, w.client, LH_BENCH_NOTED, w.key, true);
    }
}

static void on_answer(struct etcd *e, const struct lh_input *in)
{
    struct call c = e->calls[in->link % CALLS_MAX];
    bool ok = true;

    if (in->method == LH_METHOD_ETCD_TXN)
        ok = ((const Etcdserverpb__TxnResponse *)in->message)->succeeded;
    else
        ok = ((const Etcdserverpb__RangeResponse *)in->message)->n_kvs == 1;
    if (!ok && c.op != LH_BENCH_ACQUIRE)
        lh_bench_fail("etcd: operation %d was refused", (int)c.op);
    e->l.load->done(e->l.load, &e->l.base, c.client, c.op, c.key, ok);
}

static void input(struct lh_bench_looped *l, const struct lh_input *in)
{
    struct etcd *e = (struct etcd *)l;

    if (in->kind == LH_IN_CALL)
        l->load->begin(l->load, &l->base);
    else if (in->kind == LH_IN_MESSAGE && in->method == LH_METHOD_ETCD_WATCH)
        on_watch(e, in->message);
    else if (in->kind == LH_IN_MESSAGE)
        on_answer(e, in);
    else if (in->kind == LH_IN_LINK_CLOSED && (in->error != LH_OK || in->link == WATCH_LINK))
        lh_bench_fail("etcd at %s: %s", l->address, in->text == NULL ? "?" : in->text);
}

struct lh_bench_peer *lh_bench_etcd(const struct lh_bench_options *o)
{
    struct etcd *e = lh_alloc(sizeof *e);

    lh_bench_looped_init(&e->l, o, request, input);
    e->l.base.watch_stays = true;
    e->last_link = WATCH_LINK;
    e->calls = lh_alloc_array(CALLS_MAX, sizeof *e->calls);
    for (uint64_t n = o->lease; n > 0 || e->lease_bytes == 0; n >>= 7)
        e->lease[e->lease_bytes++] = (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
    return &e->l.base;
}
