/* What requests do to a store, and what they are answered: etcd's checks, compares and operations.
 * Knows nothing of members or time. */
#pragma once

#include "sim/etcd/store.h"

/* Why a request is refused: what its caller's link is closed with. Static. */
struct lh_etcd_refusal {
    int error;
    const char *text;
};

extern const struct lh_etcd_refusal lh_etcd_compacted_refusal, lh_etcd_future_refusal,
    lh_etcd_too_large_refusal, lh_etcd_too_large_for_grpc_refusal, lh_etcd_no_space_refusal,
    lh_etcd_timeout_refusal, lh_etcd_timeout_leader_refusal, lh_etcd_too_many_requests_refusal,
    lh_etcd_dropped_refusal, lh_etcd_leader_changed_refusal, lh_etcd_no_auth_refusal,
    lh_etcd_stopped_refusal, lh_etcd_no_leader_refusal, lh_etcd_not_serving_refusal;

/* Who answers, from which state. */
struct lh_etcd_view {
    uint64_t cluster_id, member_id, term;
    int64_t revision;  /* reads see it, and nothing newer */
    int64_t compacted; /* reads below it are refused */
    uint64_t damage;   /* which bits it reads wrongly from its disk; 0: none */
};

/* A new header; owned by the response that it is put into. */
Etcdserverpb__ResponseHeader *lh_etcd_header(const struct lh_etcd_view *v, int64_t revision);

/* Refusals that need no state; NULL: there is none. */
const struct lh_etcd_refusal *lh_etcd_check_range(const Etcdserverpb__RangeRequest *r);
const struct lh_etcd_refusal *lh_etcd_check_txn(
    const Etcdserverpb__TxnRequest *t, const struct lh_sim_etcd_config *config);

bool lh_etcd_only_reads(const Etcdserverpb__TxnRequest *t);
bool lh_etcd_has_put(const Etcdserverpb__TxnRequest *t);

/* No operation of it must be linearizable: it is answered from the asked member's own state. */
bool lh_etcd_is_serializable(const Etcdserverpb__TxnRequest *t);

/* The answer, to be freed with lh_wire_free(); NULL: refused, and nothing was done. */
Etcdserverpb__RangeResponse *lh_etcd_do_range(const struct lh_etcd_store *s,
    const struct lh_etcd_view *v, const Etcdserverpb__RangeRequest *r,
    const struct lh_etcd_refusal **refusal);

/* The same. One that changes something is done at the store's newest revision; its changes are
 * then the last of `s->changes`, and the store's revision is one higher. */
Etcdserverpb__TxnResponse *lh_etcd_do_txn(struct lh_etcd_store *s, const struct lh_etcd_view *v,
    const Etcdserverpb__TxnRequest *t, const struct lh_etcd_refusal **refusal);

/* A copy of `size` bytes in memory of its own. */
ProtobufCBinaryData lh_etcd_bytes(const uint8_t *from, size_t size);
