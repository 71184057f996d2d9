/* A member as a core: it takes calls in, answers from its own state what may be answered so, and
 * hands the rest to the cluster. */
#include "sim/etcd/internal.h"

#include "base/alloc.h"
#include "base/error.h"
#include "proto/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct process {
    struct member *member;
};

void lh_etcd_poke(struct member *m)
{
    if (m->process == NULL || m->poked)
        return;
    m->poked = true;
    lh_sim_call(m->node, NULL);
}

/* ---- Calls ---- */

static void refuse(struct lh_effects *fx, uint64_t link, const struct lh_etcd_refusal *refusal)
{
    lh_fx_close(fx, link, refusal->error, refusal->text);
}

static void reply(struct lh_effects *fx, uint64_t link, ProtobufCMessage *message,
    const struct lh_etcd_refusal *refusal)
{
    if (refusal == NULL)
        lh_fx_reply(fx, link, message, NULL);
    else
        refuse(fx, link, refusal);
}

/* The proposal has some fields around the request. */
#define PROPOSAL_FRAME 32u

/* gRPC takes messages that are larger than what etcd proposes, so that etcd can say why not. */
#define GRPC_FRAME (512u << 10)

static const struct lh_etcd_refusal *check_size(
    const struct member *m, const ProtobufCMessage *message, bool proposed)
{
    size_t size = protobuf_c_message_get_packed_size(message);

    if (size > m->etcd->config.request_bytes_max + GRPC_FRAME)
        return &lh_etcd_too_large_for_grpc_refusal;
    if (proposed && size + PROPOSAL_FRAME > m->etcd->config.request_bytes_max)
        return &lh_etcd_too_large_refusal;
    return NULL;
}

static void on_range(
    struct member *m, uint64_t link, const ProtobufCMessage *message, struct lh_effects *fx)
{
    const Etcdserverpb__RangeRequest *q = (const Etcdserverpb__RangeRequest *)message;
    const struct lh_etcd_refusal *refusal = lh_etcd_check_range(q);
    Etcdserverpb__RangeResponse *to = NULL;

    if (refusal == NULL && !q->serializable) {
        lh_etcd_submit(m, link, REQUEST_READ, message);
        return;
    }
    struct lh_etcd_view view = lh_etcd_view(m);
    if (refusal == NULL)
        to = lh_etcd_do_range(&m->etcd->store, &view, q, &refusal);
    reply(fx, link, (ProtobufCMessage *)to, refusal);
    lh_wire_free((ProtobufCMessage *)to);
}

static void on_txn(
    struct member *m, uint64_t link, const ProtobufCMessage *message, struct lh_effects *fx)
{
    const Etcdserverpb__TxnRequest *q = (const Etcdserverpb__TxnRequest *)message;
    const struct lh_etcd_refusal *refusal = lh_etcd_check_txn(q, &m->etcd->config);
    Etcdserverpb__TxnResponse *to = NULL;
    bool reads = lh_etcd_only_reads(q);

    if (refusal == NULL)
        refusal = check_size(m, message, !reads);
    if (refusal == NULL && !lh_etcd_is_serializable(q)) {
        lh_etcd_submit(m, link, reads ? REQUEST_READ_TXN : REQUEST_TXN, message);
        return;
    }
    struct lh_etcd_view view = lh_etcd_view(m);
    if (refusal == NULL)
        to = lh_etcd_do_txn(&m->etcd->store, &view, q, &refusal);
    reply(fx, link, (ProtobufCMessage *)to, refusal);
    lh_wire_free((ProtobufCMessage *)to);
}

static void on_status(struct member *m, uint64_t link, struct lh_effects *fx)
{
    struct lh_sim_etcd *e = m->etcd;
    struct lh_etcd_view view = lh_etcd_view(m);
    Etcdserverpb__StatusResponse to = ETCDSERVERPB__STATUS_RESPONSE__INIT;
    Etcdserverpb__ResponseHeader *header = lh_etcd_header(&view, view.revision);
    static char version[] = "3.4.23", no_leader[] = "etcdserver: no leader";
    char no_space[64];
    char *errors[2];

    to.header = header;
    to.version = version;
    to.db_size = e->nearly_full ? INT64_MAX : (int64_t)e->store.bytes;
    to.db_size_in_use = (int64_t)e->store.bytes;
    to.raft_term = view.term;
    to.raft_index = m->applied;
    to.errors = errors;
    if (lh_etcd_has_majority(m)) {
        struct lh_etcd_view leader = lh_etcd_view(lh_etcd_leader(e));
        to.leader = leader.member_id;
    } else {
        errors[to.n_errors++] = no_leader;
    }
    if (e->full) {
        snprintf(no_space, sizeof no_space, "memberID:%" PRIu64 " alarm:NOSPACE ", view.member_id);
        errors[to.n_errors++] = no_space;
    }
    lh_fx_reply(fx, link, &to.base, NULL);
    lh_wire_free(&header->base);
}

static struct stream *stream_of(struct member *m, uint64_t link)
{
    struct stream *s = m->streams;

    while (s != NULL && s->link != link)
        s = s->next;
    return s;
}

static void on_message(struct member *m, const struct lh_input *in, struct lh_effects *fx)
{
    switch (in->method) {
    case LH_METHOD_ETCD_RANGE:
        on_range(m, in->link, in->message, fx);
        break;
    case LH_METHOD_ETCD_TXN:
        on_txn(m, in->link, in->message, fx);
        break;
    case LH_METHOD_ETCD_COMPACT:
        lh_etcd_submit(m, in->link, REQUEST_COMPACT, in->message);
        break;
    case LH_METHOD_ETCD_STATUS:
        on_status(m, in->link, fx);
        break;
    case LH_METHOD_ETCD_WATCH: {
        struct stream *s = stream_of(m, in->link);
        if (s != NULL)
            lh_etcd_stream_request(m, s, in->message, fx);
        break;
    }
    default:
        refuse(fx, in->link, &lh_etcd_no_auth_refusal);
        break;
    }
}

/* ---- Links ---- */

static void on_opened(struct member *m, const struct lh_input *in, struct lh_effects *fx)
{
    if (in->method < LH_METHOD_ETCD_RANGE || in->method > LH_METHOD_ETCD_AUTHENTICATE) {
        lh_fx_close(fx, in->link, LH_ERR_UNIMPLEMENTED, "unknown service");
    } else if (!m->serves) {
        refuse(fx, in->link, &lh_etcd_not_serving_refusal);
    } else if (in->method == LH_METHOD_ETCD_WATCH) {
        struct stream *s = lh_alloc(sizeof *s);
        *s = (struct stream){.next = m->streams, .link = in->link, .due_at = UINT64_MAX};
        m->streams = s;
    }
}

static void drop_stream(struct stream **at)
{
    struct stream *s = *at;

    *at = s->next;
    lh_etcd_stream_free(s);
}

static void on_closed(struct member *m, uint64_t link)
{
    lh_etcd_request_left(m, link);
    for (struct stream **at = &m->streams; *at != NULL; at = &(*at)->next)
        if ((*at)->link == link) {
            drop_stream(at);
            return;
        }
}

static void on_poke(struct member *m, struct lh_effects *fx)
{
    struct request *r;

    m->poked = false;
    while ((r = lh_etcd_request_answered(m)) != NULL) {
        reply(fx, r->link, r->answer, r->refusal);
        lh_etcd_request_free(r);
    }
    for (struct stream **at = &m->streams; *at != NULL;) {
        struct stream *s = *at;
        if (s->broken) {
            refuse(fx, s->link, &lh_etcd_no_leader_refusal);
            drop_stream(at);
            continue;
        }
        if (s->due_at <= lh_sim_now(m->etcd->sim))
            lh_etcd_stream_flush(m, s, fx);
        at = &s->next;
    }
}

/* ---- The core ---- */

static void step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct member *m = ((struct process *)self)->member;

    switch (in->kind) {
    case LH_IN_LINK_OPENED:
        on_opened(m, in, fx);
        break;
    case LH_IN_MESSAGE:
        on_message(m, in, fx);
        break;
    case LH_IN_LINK_CLOSED:
        on_closed(m, in->link);
        break;
    case LH_IN_CALL:
        on_poke(m, fx);
        break;
    case LH_IN_STOP:
        lh_fx_stopped(fx, LH_OK);
        break;
    default: /* a watch whose caller says no more goes on, as etcd's */
        break;
    }
}

static struct lh_instant deadline(const void *self)
{
    (void)self;
    return LH_INSTANT_NEVER;
}

static bool start(void *arg, struct lh_sim_node *node, struct lh_core *core)
{
    struct member *m = arg;

    (void)node;
    m->process = lh_alloc(sizeof *m->process);
    m->process->member = m;
    m->serves = m->has_goal = m->poked = false;
    lh_etcd_wake(m->etcd, lh_sim_now(m->etcd->sim));
    *core = (struct lh_core){m->process, step, deadline};
    return true;
}

static void destroy(void *arg, void *self)
{
    struct member *m = arg;

    m->process = NULL;
    m->serves = false;
    while (m->streams != NULL)
        drop_stream(&m->streams);
    lh_etcd_requests_orphan(m);
    free(self);
}

const struct lh_sim_role lh_etcd_role = {.start = start, .destroy = destroy};
