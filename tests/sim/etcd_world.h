/* A simulated etcd, and clients whose cores do what the test tells them to. */
#pragma once

#include "base/alloc.h"
#include "base/error.h"
#include "proto/codec.h"
#include "proto/etcd.pb-c.h"
#include "sim/etcd/etcd.h"
#include "sim/world/network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Clients ---- */

/* One link that a client has opened, and all that it heard on it. */
struct call {
    ProtobufCMessage **messages;
    size_t count, capacity;
    bool closed;
    int error;
    char text[128];
};

struct client {
    struct lh_sim_node *node;
    struct call *calls; /* link n is calls[n - 1] */
    size_t count, capacity;
    struct lh_effects todo; /* emitted with the next input */
};

static inline void client_step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct client *c = self;

    if (in->kind == LH_IN_MESSAGE) {
        struct call *call = &c->calls[in->link - 1];
        const ProtobufCMessage *m = in->message;
        size_t size = protobuf_c_message_get_packed_size(m);
        uint8_t *bytes = lh_alloc(size + 1);
        protobuf_c_message_pack(m, bytes);
        LH_GROW(call->messages, call->capacity, call->count + 1);
        call->messages[call->count++] = protobuf_c_message_unpack(m->descriptor, NULL, size, bytes);
        free(bytes);
    } else if (in->kind == LH_IN_LINK_CLOSED) {
        struct call *call = &c->calls[in->link - 1];
        call->closed = true;
        call->error = in->error;
        snprintf(call->text, sizeof call->text, "%s", in->text == NULL ? "" : in->text);
    }
    for (size_t i = 0; i < c->todo.count; i++) {
        enum lh_effect_kind kind = c->todo.items[i].kind;
        *lh_effects_add(fx, kind) = c->todo.items[i];
    }
    c->todo.count = 0;
}

static struct lh_instant client_deadline(const void *self)
{
    (void)self;
    return LH_INSTANT_NEVER;
}

static inline bool client_start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    (void)node;
    *core = (struct lh_core){arg, client_step, client_deadline};
    return true;
}

static inline void client_destroy(void *arg, void *self)
{
    (void)self;
    lh_effects_clear(&((struct client *)arg)->todo);
}

static const struct lh_sim_role client_role = {.start = client_start, .destroy = client_destroy};

static inline void client_deinit(struct client *c)
{
    for (size_t i = 0; i < c->count; i++) {
        for (size_t k = 0; k < c->calls[i].count; k++)
            lh_wire_free(c->calls[i].messages[k]);
        free(c->calls[i].messages);
    }
    free(c->calls);
    lh_effects_deinit(&c->todo);
}

/* Lets the core do what stands in its `todo`, at once. */
static inline void act(struct client *c)
{
    lh_sim_call(c->node, NULL);
    while (c->todo.count > 0)
        assert_true(lh_sim_run_one(lh_sim_of(c->node)));
}

/* Opens a link and sends one message, which is all that a unary call needs. */
static inline uint64_t ask(struct client *c, struct lh_sim_node *member, enum lh_method method,
    const ProtobufCMessage *message)
{
    LH_GROW(c->calls, c->capacity, c->count + 1);
    c->calls[c->count++] = (struct call){0};
    lh_fx_open(&c->todo, c->count, method, lh_sim_name(member), LH_DURATION_FOREVER);
    lh_fx_send(&c->todo, c->count, message, NULL);
    lh_sim_call(c->node, NULL);
    return c->count;
}

/* ---- Requests ---- */

static inline ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

/* A range's end: all keys from its beginning on. */
static const char TO_THE_END[] = "\xff\xff";

static inline ProtobufCBinaryData end_of(const char *text)
{
    static uint8_t zero[1];

    if (text == TO_THE_END)
        return (ProtobufCBinaryData){.len = 1, .data = zero};
    return text == NULL ? (ProtobufCBinaryData){0} : bytes_of(text);
}

#define OPS_MAX 150

/* A transaction while it is put together. */
struct txn {
    Etcdserverpb__TxnRequest request;
    Etcdserverpb__Compare compares[OPS_MAX], *compare_list[OPS_MAX];
    Etcdserverpb__RequestOp ops[OPS_MAX], *then_list[OPS_MAX], *else_list[OPS_MAX];
    Etcdserverpb__PutRequest puts[OPS_MAX];
    Etcdserverpb__RangeRequest ranges[OPS_MAX];
    Etcdserverpb__DeleteRangeRequest deletes[OPS_MAX];
    size_t op_count;
};

static struct txn *txn_new(void)
{
    static struct txn t; /* one at a time is put together */

    memset(&t, 0, sizeof t);
    etcdserverpb__txn_request__init(&t.request);
    t.request.compare = t.compare_list;
    t.request.success = t.then_list;
    t.request.failure = t.else_list;
    return &t;
}

static inline Etcdserverpb__Compare *compare(struct txn *t, const char *key)
{
    Etcdserverpb__Compare *c = &t->compares[t->request.n_compare];

    etcdserverpb__compare__init(c);
    c->key = bytes_of(key);
    t->compare_list[t->request.n_compare++] = c;
    return c;
}

static inline void if_mod(struct txn *t, const char *key, int64_t revision)
{
    Etcdserverpb__Compare *c = compare(t, key);

    c->target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
    c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    c->mod_revision = revision;
}

static inline void if_value(struct txn *t, const char *key, const char *value)
{
    Etcdserverpb__Compare *c = compare(t, key);

    c->target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE;
    c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
    c->value = bytes_of(value);
}

enum branch { THEN, ELSE };

static inline Etcdserverpb__RequestOp *operation(struct txn *t, enum branch branch)
{
    assert_true(t->op_count < OPS_MAX);
    Etcdserverpb__RequestOp *op = &t->ops[t->op_count++];

    etcdserverpb__request_op__init(op);
    if (branch == THEN)
        t->then_list[t->request.n_success++] = op;
    else
        t->else_list[t->request.n_failure++] = op;
    return op;
}

static inline void put(struct txn *t, enum branch branch, const char *key, const char *value)
{
    Etcdserverpb__RequestOp *op = operation(t, branch);
    Etcdserverpb__PutRequest *p = &t->puts[t->op_count - 1];

    etcdserverpb__put_request__init(p);
    p->key = bytes_of(key);
    p->value = bytes_of(value);
    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    op->request_put = p;
}

static inline void delete_range(struct txn *t, enum branch branch, const char *key, const char *end)
{
    Etcdserverpb__RequestOp *op = operation(t, branch);
    Etcdserverpb__DeleteRangeRequest *d = &t->deletes[t->op_count - 1];

    etcdserverpb__delete_range_request__init(d);
    d->key = bytes_of(key);
    d->range_end = end_of(end);
    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    op->request_delete_range = d;
}

static inline Etcdserverpb__RangeRequest range_request(const char *key, const char *end)
{
    Etcdserverpb__RangeRequest r = ETCDSERVERPB__RANGE_REQUEST__INIT;

    r.key = bytes_of(key);
    r.range_end = end_of(end);
    return r;
}

/* Reads a range in a transaction; the request may be changed further. */
static inline Etcdserverpb__RangeRequest *get(
    struct txn *t, enum branch branch, const char *key, const char *end)
{
    Etcdserverpb__RequestOp *op = operation(t, branch);
    Etcdserverpb__RangeRequest *r = &t->ranges[t->op_count - 1];

    *r = range_request(key, end);
    op->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    op->request_range = r;
    return r;
}
