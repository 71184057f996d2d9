/* Requests that need the cluster: when they take effect, and what their callers are told. The two
 * are not the same: a caller is told that its time is over while its proposal lives on, or is told
 * of a failure behind a success. */
#include "sim/etcd/internal.h"

#include "base/alloc.h"
#include "proto/codec.h"

#include <stdlib.h>

static ProtobufCMessage *copy_of(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = lh_alloc(size + 1);

    protobuf_c_message_pack(message, bytes);
    ProtobufCMessage *copy = protobuf_c_message_unpack(message->descriptor, NULL, size, bytes);
    free(bytes);
    return copy;
}

static bool is_proposal(const struct request *r)
{
    return r->kind == REQUEST_TXN || r->kind == REQUEST_COMPACT;
}

static struct request *enqueue(struct member *m, uint64_t link, enum request_kind kind)
{
    struct lh_sim_etcd *e = m->etcd;
    struct request *r = lh_alloc(sizeof *r);

    *r = (struct request){.member = m, .link = link, .kind = kind, .deadline = UINT64_MAX};
    if (e->last != NULL)
        e->last->next = r;
    else
        e->first = r;
    e->last = r;
    return r;
}

void lh_etcd_request_free(struct request *r)
{
    lh_wire_free(r->message);
    lh_wire_free(r->answer);
    free(r);
}

static void take_out(struct lh_sim_etcd *e, struct request **at)
{
    struct request *r = *at;

    *at = r->next;
    if (e->last == r) {
        e->last = e->first;
        while (e->last != NULL && e->last->next != NULL)
            e->last = e->last->next;
    }
}

static void answer(struct request *r, ProtobufCMessage *with, const struct lh_etcd_refusal *refusal)
{
    r->state = REQUEST_ANSWERED;
    r->answer = with;
    r->refusal = refusal;
    if (r->link != 0)
        lh_etcd_poke(r->member);
}

/* Tells the caller, and nobody is told what comes of the request itself. */
static void tell_caller(struct request *r, const struct lh_etcd_refusal *refusal)
{
    struct request *notified = enqueue(r->member, r->link, r->kind);

    r->link = 0;
    answer(notified, NULL, refusal);
}

/* ---- Arrival ---- */

/* Refused before anything is done; NULL: it is not. */
static const struct lh_etcd_refusal *refuse(struct lh_sim_etcd *e, struct request *r)
{
    if (lh_etcd_chance(e, e->fail_before)) {
        if (!is_proposal(r))
            return &lh_etcd_leader_changed_refusal;
        return lh_prng_below(lh_etcd_random(e), 2) == 0 ? &lh_etcd_too_many_requests_refusal
                                                        : &lh_etcd_dropped_refusal;
    }
    if (r->kind == REQUEST_TXN && e->full &&
        lh_etcd_has_put((const Etcdserverpb__TxnRequest *)r->message)) {
        /* The one that finds the quota used up is proposed before every member knows. */
        bool applied = !e->full_is_certain && lh_prng_below(lh_etcd_random(e), 2) == 0;
        e->full_is_certain = true;
        if (!applied)
            return &lh_etcd_no_space_refusal;
        r->after = &lh_etcd_no_space_refusal;
    }
    return NULL;
}

void lh_etcd_submit(
    struct member *m, uint64_t link, enum request_kind kind, const ProtobufCMessage *message)
{
    struct lh_sim_etcd *e = m->etcd;
    struct request *r = enqueue(m, link, kind);
    uint64_t now = lh_sim_now(e->sim);

    r->message = copy_of(message);
    const struct lh_etcd_refusal *refusal = refuse(e, r);
    if (refusal != NULL) {
        answer(r, NULL, refusal);
        return;
    }
    r->deadline = now + lh_etcd_draw(e, &e->config.timeout);
    r->ready_at = now + lh_etcd_draw(e, is_proposal(r) ? &e->config.propose : &e->config.read);
    if (is_proposal(r) && lh_etcd_chance(e, e->late)) {
        r->late = true;
        r->ready_at += lh_prng_below(lh_etcd_random(e), e->late_most.ns + 1);
    }
    if (is_proposal(r) && r->after == NULL && lh_etcd_chance(e, e->fail_after))
        r->after = &lh_etcd_timeout_leader_refusal;
    lh_etcd_wake(e, r->ready_at < r->deadline ? r->ready_at : r->deadline);
}

/* ---- Taking effect ---- */

static void show(struct lh_sim_etcd *e, const struct request *r, bool succeeded, size_t before)
{
    const struct lh_etcd_store *s = &e->store;
    size_t count = s->change_count - before;
    const struct lh_sim_etcd_record **changes = lh_alloc_array(count + 1, sizeof *changes);

    for (size_t i = 0; i < count; i++)
        changes[i] = &s->changes[before + i]->seen;
    struct lh_sim_etcd_applied applied = {.revision = s->revision,
        .member = r->member->node,
        .request = (const Etcdserverpb__TxnRequest *)r->message,
        .succeeded = succeeded,
        .changes = changes,
        .count = count};
    for (size_t i = 0; i < e->observer_count; i++)
        if (e->observers[i].applied != NULL)
            e->observers[i].applied(e->observers[i].arg, &applied);
    free(changes);
}

static void do_txn(struct lh_sim_etcd *e, struct request *r)
{
    struct lh_etcd_view view = lh_etcd_newest(r->member);
    size_t before = e->store.change_count;
    const struct lh_etcd_refusal *refusal;
    Etcdserverpb__TxnResponse *to =
        lh_etcd_do_txn(&e->store, &view, (const Etcdserverpb__TxnRequest *)r->message, &refusal);

    if (to == NULL) {
        answer(r, NULL, refusal);
        return;
    }
    show(e, r, to->succeeded, before);
    if (to->succeeded)
        lh_etcd_decides(e, (const Etcdserverpb__TxnRequest *)r->message);
    r->answer = &to->base;
    if (!e->full && e->store.bytes > e->config.quota_bytes)
        lh_sim_etcd_no_space(e, true);
    lh_etcd_log(e);
}

static void do_compact(struct lh_sim_etcd *e, struct request *r)
{
    const struct lh_etcd_refusal *refusal =
        lh_etcd_do_compact(e, ((const Etcdserverpb__CompactionRequest *)r->message)->revision);

    if (refusal != NULL) {
        answer(r, NULL, refusal);
        return;
    }
    struct lh_etcd_view view = lh_etcd_newest(r->member);
    Etcdserverpb__CompactionResponse *to = lh_alloc(sizeof *to);
    etcdserverpb__compaction_response__init(to);
    to->header = lh_etcd_header(&view, view.revision);
    r->answer = &to->base;
}

static void take_effect(struct lh_sim_etcd *e, struct request *r)
{
    r->state = REQUEST_DONE;
    if (r->kind == REQUEST_TXN)
        do_txn(e, r);
    else if (r->kind == REQUEST_COMPACT)
        do_compact(e, r);
    r->index = e->log_count - 1;
}

/* The member has applied as much as the request needs. */
static void be_applied(struct request *r)
{
    struct lh_sim_etcd *e = r->member->etcd;
    struct lh_etcd_view view = lh_etcd_view(r->member);
    const struct lh_etcd_refusal *refusal = r->after;
    ProtobufCMessage *to = r->answer;

    if (r->kind == REQUEST_READ) {
        Etcdserverpb__RangeResponse *read = lh_etcd_do_range(
            &e->store, &view, (const Etcdserverpb__RangeRequest *)r->message, &refusal);
        to = read == NULL ? NULL : &read->base;
    } else if (r->kind == REQUEST_READ_TXN) {
        Etcdserverpb__TxnResponse *read = lh_etcd_do_txn(
            &e->store, &view, (const Etcdserverpb__TxnRequest *)r->message, &refusal);
        to = read == NULL ? NULL : &read->base;
    }
    answer(r, to, refusal);
}

static void time_out(struct lh_sim_etcd *e, struct request *r)
{
    r->deadline = UINT64_MAX;
    if (r->link != 0)
        tell_caller(r, &lh_etcd_timeout_refusal);
    if (r->state == REQUEST_WAITS && is_proposal(r) &&
        (r->lost || (!r->late && !lh_etcd_chance(e, e->config.kept_per_million))))
        r->state = REQUEST_ANSWERED; /* lost */
}

/* True: it is lost, or waits for a leader. */
static bool met_election(struct lh_sim_etcd *e, struct request *r)
{
    if (e->electing && !r->elects) {
        r->elects = true;
        r->lost = lh_etcd_chance(e, e->lost_in_election);
    }
    return e->electing || r->lost;
}

/* True: it waits for a majority. */
static bool look_at(struct lh_sim_etcd *e, struct request *r, uint64_t *next)
{
    uint64_t now = lh_sim_now(e->sim);
    bool waits = false;

    if (r->state == REQUEST_WAITS && r->ready_at <= now && !met_election(e, r)) {
        waits = r->handed_on ? lh_etcd_leader(e) == NULL : !lh_etcd_has_majority(r->member);
        if (!waits)
            take_effect(e, r);
    }
    if (r->state == REQUEST_DONE && r->link != 0 && r->member->applied >= r->index)
        be_applied(r);
    if (r->state != REQUEST_ANSWERED && r->deadline <= now)
        time_out(e, r);
    if (r->state == REQUEST_ANSWERED)
        return false;
    if (r->state == REQUEST_WAITS && r->ready_at > now && r->ready_at < *next)
        *next = r->ready_at;
    if (r->deadline < *next)
        *next = r->deadline;
    return waits;
}

/* Nobody waits for its answer, and it has no effect to come. */
static bool is_over(const struct request *r)
{
    return r->link == 0 && (r->state != REQUEST_WAITS || !is_proposal(r));
}

bool lh_etcd_requests_look(struct lh_sim_etcd *e, uint64_t *next)
{
    bool waits = false;

    for (struct request **at = &e->first; *at != NULL;) {
        struct request *r = *at;
        waits = look_at(e, r, next) || waits;
        if (is_over(r)) {
            take_out(e, at);
            lh_etcd_request_free(r);
        } else {
            at = &r->next;
        }
    }
    return waits;
}

/* ---- Ends ---- */

struct request *lh_etcd_request_answered(struct member *m)
{
    for (struct request **at = &m->etcd->first; *at != NULL; at = &(*at)->next) {
        struct request *r = *at;
        if (r->member == m && r->state == REQUEST_ANSWERED && r->link != 0) {
            take_out(m->etcd, at);
            return r;
        }
    }
    return NULL;
}

void lh_etcd_request_left(struct member *m, uint64_t link)
{
    for (struct request *r = m->etcd->first; r != NULL; r = r->next)
        if (r->member == m && r->link == link)
            r->link = 0;
}

void lh_etcd_requests_orphan(struct member *m)
{
    struct lh_sim_etcd *e = m->etcd;

    for (struct request *r = e->first; r != NULL; r = r->next) {
        if (r->member != m || r->handed_on)
            continue;
        r->link = 0;
        r->deadline = UINT64_MAX;
        if (r->state == REQUEST_WAITS && is_proposal(r)) {
            r->handed_on = !r->lost && (r->late || lh_etcd_chance(e, e->config.kept_per_million));
            r->state = r->handed_on ? REQUEST_WAITS : REQUEST_ANSWERED;
        }
    }
    lh_etcd_wake(e, lh_sim_now(e->sim));
}

void lh_etcd_requests_end(struct lh_sim_etcd *e, const struct lh_etcd_refusal *why)
{
    for (struct request *r = e->first; r != NULL; r = r->next) {
        if (r->state == REQUEST_ANSWERED)
            continue;
        lh_wire_free(r->answer);
        answer(r, NULL, why);
    }
}

void lh_etcd_requests_deinit(struct lh_sim_etcd *e)
{
    struct request *next;

    for (struct request *r = e->first; r != NULL; r = next) {
        next = r->next;
        lh_etcd_request_free(r);
    }
}
