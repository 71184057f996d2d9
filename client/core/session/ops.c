/* Operations of a session, and when they go (flow/outbox.h). */
#include "base/alloc.h"
#include "client/core/session/internal.h"
#include "proto/codec.h"

#include <stdlib.h>
#include <utlist.h>

/* Of an operation beside its strings: tags, lengths and numbers. */
#define OP_OVERHEAD 64u

void lh_client_session_touch(struct lh_client_session *s)
{
    lh_outbox_touch(&s->sessions->touched, &s->outbox);
}

void lh_client_session_want_beat(struct lh_client_session *s)
{
    s->beat_wanted = true;
    lh_client_session_touch(s);
}

/* The oneof's members share their place, and all but the case is a pointer to the body. */
static void init_op(struct lh_client_op *op, Leasehold__LeaseOp__OpCase kind)
{
    leasehold__lease_op__init(&op->op);
    op->op.op_case = kind;
    switch (kind) {
    case LEASEHOLD__LEASE_OP__OP_ACQUIRE:
        leasehold__acquire__init(&op->body.acquire);
        op->op.acquire = &op->body.acquire;
        break;
    case LEASEHOLD__LEASE_OP__OP_RELEASE:
        leasehold__release_lock__init(&op->body.release);
        op->op.release = &op->body.release;
        break;
    case LEASEHOLD__LEASE_OP__OP_WITHDRAW:
        leasehold__withdraw__init(&op->body.withdraw);
        op->op.withdraw = &op->body.withdraw;
        break;
    case LEASEHOLD__LEASE_OP__OP_YIELD:
        leasehold__yield__init(&op->body.yield);
        op->op.yield = &op->body.yield;
        break;
    case LEASEHOLD__LEASE_OP__OP_READ:
        leasehold__read_value__init(&op->body.read);
        op->op.read = &op->body.read;
        break;
    case LEASEHOLD__LEASE_OP__OP_DROPPED:
        leasehold__dropped__init(&op->body.dropped);
        op->op.dropped = &op->body.dropped;
        break;
    default:
        leasehold__broadcast__init(&op->body.broadcast);
        op->op.broadcast = &op->body.broadcast;
        break;
    }
}

struct lh_client_op *lh_client_op_add(struct lh_client_session *s, Leasehold__LeaseOp__OpCase kind,
    size_t room, struct lh_client_op **owner)
{
    if (s->phase != LH_CLIENT_STREAM_SHOWING && s->phase != LH_CLIENT_STREAM_UP)
        return NULL;
    struct lh_client_op *op = lh_alloc(sizeof *op + room);
    op->size = OP_OVERHEAD + room;
    op->owner = owner;
    if (owner != NULL)
        *owner = op;
    init_op(op, kind);
    DL_APPEND(s->ops, op);
    s->op_count++;
    lh_client_session_touch(s);
    return op;
}

void lh_client_op_drop(struct lh_client_session *s, struct lh_client_op *op)
{
    if (op->owner != NULL)
        *op->owner = NULL;
    DL_DELETE(s->ops, op);
    s->op_count--;
    free(op);
}

void lh_client_ops_clear(struct lh_client_session *s)
{
    while (s->ops != NULL)
        lh_client_op_drop(s, s->ops);
}

static void send_message(struct lh_client_session *s)
{
    Leasehold__LeaseSessionRequest m = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__LeaseOps ops = LEASEHOLD__LEASE_OPS__INIT;
    struct lh_client_op *op;
    size_t bytes = 0;

    ops.ops = lh_alloc_array(s->op_count, sizeof(Leasehold__LeaseOp *));
    DL_FOREACH(s->ops, op) {
        if (ops.n_ops > 0 && bytes + op->size > s->client->config.session_message_bytes)
            break;
        bytes += op->size;
        ops.ops[ops.n_ops++] = &op->op;
    }
    m.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS;
    m.ops = &ops;
    lh_outbox_send(&s->outbox, s->client->fx, s->link.id, &m.base, NULL);
    while (ops.n_ops-- > 0)
        lh_client_op_drop(s, s->ops);
    free(ops.ops);
}

static void flush(struct lh_client_session *s)
{
    if (s->op_count > s->client->config.session_ops) {
        /* The master does not take them; what is shown next is less. */
        LH_MARK("session-ops-overflow");
        lh_client_attach_failed(s, LH_ERR_UNAVAILABLE, "it does not take what is sent");
        return;
    }
    if (s->phase == LH_CLIENT_STREAM_UP && s->ops != NULL && s->outbox.in_flight == 0)
        send_message(s);
    if (s->phase == LH_CLIENT_STREAM_UP && s->ops == NULL && s->beat_wanted)
        lh_client_attach_beat(s);
}

void lh_client_ops_left(struct lh_client_session *s)
{
    lh_outbox_left(&s->outbox);
    if (s->ops != NULL)
        lh_client_session_touch(s);
}

void lh_client_sessions_flush(struct lh_client_sessions *all)
{
    struct lh_outbox *o;

    while ((o = lh_outbox_next(&all->touched)) != NULL)
        flush(LH_OWNER(o, struct lh_client_session, outbox));
}
