/* Leases of programs in words: sessions, locks, caches and changes. Heartbeats and what says
 * nothing new are left out. */
#include "sim/report/internal.h"

#include "client/core/leases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static struct lh_sim_transition by(
    const struct lh_sim_story *s, const struct lh_sim_sight *sight, enum lh_sim_topic topic)
{
    return (struct lh_sim_transition){
        .topic = topic, .node = lh_sim_index(s, sight->node), .peer = LH_SIM_NOBODY};
}

static struct lh_sim_transition to_peer(
    const struct lh_sim_story *s, const struct lh_sim_sight *sight, enum lh_sim_topic topic)
{
    struct lh_sim_transition t = by(s, sight, topic);

    t.peer = sight->peer == NULL ? LH_SIM_NOBODY : lh_sim_index(s, sight->peer);
    return t;
}

/* Numbers that a reign gives, as people read them. */
#define NUMBER_FORMAT  "%" PRIu64 ".%" PRIu64
#define NUMBER_ARGS(n) (n) >> 40, (n) & ((UINT64_C(1) << 40) - 1)

/* A session, by the front of its id. */
static const char *id_of(char to[16], const ProtobufCBinaryData *id)
{
    to[0] = '\0';
    for (size_t i = 0; i < 3 && i < id->len; i++)
        (void)snprintf(to + 2 * i, 16 - 2 * i, "%02x", id->data[i]);
    return to;
}

/* ---- A program to the master ---- */

static void say_show(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__Show *m)
{
    lh_sim_narrate(s, by(s, sight, LH_SIM_TOPIC_SESSION),
        "shows %zu locks, %zu requests, %zu values%s", m->n_locks, m->n_waiting, m->n_values,
        m->more ? ", and more to come" : "");
    for (size_t i = 0; i < m->n_locks; i++)
        lh_sim_narrate(s, by(s, sight, LH_SIM_TOPIC_LOCK),
            "shows the lock of %s, token " NUMBER_FORMAT "%s", m->locks[i]->name,
            NUMBER_ARGS(m->locks[i]->token), m->locks[i]->ends ? ", cut" : "");
}

static void say_op(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__LeaseOp *op)
{
    struct lh_sim_transition lock = by(s, sight, LH_SIM_TOPIC_LOCK);
    struct lh_sim_transition value = by(s, sight, LH_SIM_TOPIC_VALUE);

    switch (op->op_case) {
    case LEASEHOLD__LEASE_OP__OP_ACQUIRE:
        lh_sim_narrate(s, lock, "asks for %s%s (request %" PRIu64 ")", op->acquire->name,
            op->acquire->mode == LEASEHOLD__LOCK_MODE__SHARED ? ", shared" : "", op->acquire->id);
        break;
    case LEASEHOLD__LEASE_OP__OP_RELEASE:
        lh_sim_narrate(s, lock, "releases %s, token " NUMBER_FORMAT, op->release->name,
            NUMBER_ARGS(op->release->token));
        break;
    case LEASEHOLD__LEASE_OP__OP_WITHDRAW:
        lh_sim_narrate(s, lock, "withdraws request %" PRIu64, op->withdraw->id);
        break;
    case LEASEHOLD__LEASE_OP__OP_YIELD:
        if (op->yield->refuse)
            lh_sim_narrate(s, lock, "keeps %s", op->yield->name);
        else
            lh_sim_narrate(
                s, lock, "yields %s in %" PRIu64 " ms", op->yield->name, op->yield->in_ms);
        break;
    case LEASEHOLD__LEASE_OP__OP_READ:
        lh_sim_narrate(s, value, "reads %s%s", op->read->name,
            op->read->lease ? " and asks for a cache lease" : "");
        break;
    case LEASEHOLD__LEASE_OP__OP_DROPPED:
        lh_sim_narrate(s, value, "has dropped %s", op->dropped->name);
        break;
    default:
        break;
    }
}

void lh_sim_say_program(struct lh_sim_story *s, const struct lh_sim_sight *sight,
    const Leasehold__LeaseSessionRequest *m)
{
    char id[16];

    switch (m->body_case) {
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH:
        lh_sim_narrate(s, by(s, sight, LH_SIM_TOPIC_SESSION),
            "%s session %s, stream %" PRIu64 "%s%s", m->attach->opens ? "opens" : "attaches",
            id_of(id, &m->attach->session), m->attach->stream, m->attach->opens ? " of " : "",
            m->attach->opens ? m->attach->label : "");
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW:
        say_show(s, sight, m->show);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS:
        for (size_t i = 0; i < m->ops->n_ops; i++)
            say_op(s, sight, m->ops->ops[i]);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE:
        lh_sim_narrate(s, by(s, sight, LH_SIM_TOPIC_SESSION), "closes its session");
        break;
    default:
        break;
    }
}

/* ---- The master to a program ---- */

static void say_demand(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__Demand *m)
{
    struct lh_sim_transition t = to_peer(s, sight, LH_SIM_TOPIC_LOCK);

    if (m->cancel)
        lh_sim_narrate(s, t, "cancels the lock of %s", m->name);
    else
        lh_sim_narrate(s, t, "asks for the lock of %s: %" PRIu64 " wait", m->name, m->waiting);
}

static void say_answer(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__LeaseAnswer *a)
{
    struct lh_sim_transition lock = to_peer(s, sight, LH_SIM_TOPIC_LOCK);
    struct lh_sim_transition value = to_peer(s, sight, LH_SIM_TOPIC_VALUE);

    switch (a->answer_case) {
    case LEASEHOLD__LEASE_ANSWER__ANSWER_GRANTED:
        lh_sim_narrate(s, lock, "grants request %" PRIu64 ", token " NUMBER_FORMAT, a->granted->id,
            NUMBER_ARGS(a->granted->token));
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_QUEUED:
        lh_sim_narrate(s, lock, "request %" PRIu64 " waits, %" PRIu64 " before it", a->queued->id,
            a->queued->ahead);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_REFUSED:
        lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_REFUSAL), "%s%s request %" PRIu64 ": %s",
            a->refused->name, a->refused->name[0] != '\0' ? "," : "", a->refused->id,
            lh_sim_error_name(a->refused->error));
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_DEMAND:
        say_demand(s, sight, a->demand);
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE:
        lh_sim_narrate(s, value, "read %" PRIu64 ": revision %" PRIu64 "%s", a->value->id,
            a->value->revision,
            a->value->leased          ? ", with a lease"
            : a->value->changing != 0 ? ", it is changing"
                                      : "");
        break;
    case LEASEHOLD__LEASE_ANSWER__ANSWER_DROP:
        lh_sim_narrate(s, value, "has %s dropped", a->drop->name);
        break;
    default:
        break;
    }
}

void lh_sim_say_to_program(
    struct lh_sim_story *s, const struct lh_sim_sight *sight, const Leasehold__LeaseSessionReply *m)
{
    switch (m->body_case) {
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING:
        lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_SESSION),
            "greets, reign %" PRIu64 ", term %" PRIu64 " ms", m->greeting->reign,
            m->greeting->term_ms);
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN:
        lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_SESSION),
            "the session goes on; %zu locks do not, %zu values may not be served", m->shown->n_lost,
            m->shown->n_dropped);
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT:
        if (m->beat->error != LEASEHOLD__ERROR_CODE__OK)
            lh_sim_narrate(s, to_peer(s, sight, LH_SIM_TOPIC_REFUSAL), "%s",
                lh_sim_error_name(m->beat->error));
        break;
    case LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS:
        for (size_t i = 0; i < m->answers->n_answers; i++)
            say_answer(s, sight, m->answers->answers[i]);
        break;
    default:
        break;
    }
}

/* ---- Unary calls ---- */

bool lh_sim_say_lease_call(struct lh_sim_story *s, const struct lh_sim_sight *sight)
{
    struct lh_sim_transition t = by(s, sight, LH_SIM_TOPIC_VALUE);

    switch (sight->method) {
    case LH_METHOD_CHANGE: {
        const Leasehold__ChangeRequest *m = (const void *)sight->message;
        if (m->remove)
            lh_sim_narrate(s, t, "deletes %s", m->name);
        else
            lh_sim_narrate(s, t, "puts %zu bytes under %s%s%s", m->value.len, m->name,
                m->token != 0 ? ", with a token" : "", m->attach.len > 0 ? ", attached" : "");
        return true;
    }
    case LH_METHOD_CANCEL: {
        const Leasehold__CancelRequest *m = (const void *)sight->message;
        t.topic = LH_SIM_TOPIC_LOCK;
        lh_sim_narrate(s, t, "cancels the lock of %s", m->name);
        return true;
    }
    case LH_METHOD_SET_POLICY: {
        const Leasehold__SetPolicyRequest *m = (const void *)sight->message;
        if (m->policy != NULL)
            lh_sim_narrate(
                s, t, "%s the policy of %s", m->remove ? "removes" : "sets", m->policy->prefix);
        return true;
    }
    default:
        return false;
    }
}

bool lh_sim_say_lease_reply(struct lh_sim_story *s, const struct lh_sim_sight *sight)
{
    struct lh_sim_transition t = to_peer(s, sight, LH_SIM_TOPIC_VALUE);

    if (sight->method == LH_METHOD_CHANGE) {
        const Leasehold__ChangeReply *m = (const void *)sight->message;
        if (m->error == LEASEHOLD__ERROR_CODE__OK)
            lh_sim_narrate(s, t, "changed, revision %" PRIu64, m->revision);
        return m->error == LEASEHOLD__ERROR_CODE__OK;
    }
    if (sight->method == LH_METHOD_WATCH) {
        const Leasehold__WatchReply *m = (const void *)sight->message;
        if (m->n_locks > 0)
            lh_sim_narrate(s, t, "tells of %zu events of locks%s", m->n_locks,
                m->reset ? " after a reset" : "");
        else
            lh_sim_narrate(s, t, "tells of %zu changes%s, next is %" PRIu64, m->n_events,
                m->reset ? " after a reset" : "", m->next);
        return true;
    }
    return false;
}

/* ---- Who believes that he has which lock ---- */

/* From the program's own word on; a core tells it for how long. */
struct lock_held {
    struct lock_held *next;
    struct lh_sim_node *node;
    const struct lh_client_session *session;
    uint64_t lock;
    char *name;
    struct lh_instant end; /* on its clock */
    struct lh_sim_span span;
};

static void finish(struct lh_sim_story *s, struct lock_held **at, const char *how)
{
    struct lock_held *h = *at;

    *at = h->next;
    h->span.how = how;
    h->span.name = h->name;
    lh_sim_narrate_span(s, &h->span, lh_sim_now(s->sim));
    free(h->name);
    free(h);
}

/* All that are in that session, or that one lock; `session` NULL: all of the node's. */
static void finish_all(struct lh_sim_story *s, const struct lh_sim_node *node,
    const struct lh_client_session *session, uint64_t lock, const char *how)
{
    for (struct lock_held **at = &s->locks; *at != NULL;)
        if ((*at)->node == node && (session == NULL || (*at)->session == session) &&
            (lock == 0 || (*at)->lock == lock))
            finish(s, at, how);
        else
            at = &(*at)->next;
}

/* Calls of other nodes are no client's (sim/etcd). */
static bool is_client(const struct lh_sim_story *s, const struct lh_sim_node *node)
{
    for (size_t i = 1; i <= lh_sim_clients(s->cluster); i++)
        if (lh_sim_client(s->cluster, i) == node)
            return true;
    return false;
}

void lh_sim_locks_takes(struct lh_sim_story *s, const struct lh_sim_sight *sight)
{
    const struct lh_call *call = sight->input->call;

    if (!is_client(s, sight->node))
        return;
    if (call->kind == LH_CALL_RELEASE) {
        const struct lh_release_call *r = (const struct lh_release_call *)call;
        finish_all(s, sight->node, r->session, r->lock, "released");
    } else if (call->kind == LH_CALL_SESSION_CLOSE) {
        const struct lh_session_close_call *c = (const struct lh_session_close_call *)call;
        finish_all(s, sight->node, c->session, 0, "the session is closed");
    }
}

void lh_sim_locks_does(struct lh_sim_story *s, const struct lh_sim_sight *sight)
{
    const struct lh_acquire_call *a = sight->effect->call;

    if (!is_client(s, sight->node) || a->call.kind != LH_CALL_ACQUIRE ||
        sight->effect->error != LH_OK)
        return;
    struct lock_held *h = lh_alloc(sizeof *h);
    *h = (struct lock_held){.next = s->locks,
        .node = sight->node,
        .session = a->session,
        .lock = a->lock,
        .name = lh_strdup(a->name),
        .end = LH_INSTANT_NEVER,
        .span = {.kind = LH_SIM_SPAN_LOCK_HELD,
            .node = lh_sim_index(s, sight->node),
            .peer = LH_SIM_NOBODY,
            .number = a->token,
            .begin = lh_sim_now(s->sim)}};
    s->locks = h;
    lh_sim_narrate(s, by(s, sight, LH_SIM_TOPIC_LOCK), "holds %s, token " NUMBER_FORMAT, a->name,
        NUMBER_ARGS(a->token));
}

void lh_sim_locks_stepped(struct lh_sim_story *s, struct lh_sim_node *node)
{
    for (struct lock_held *h = s->locks; h != NULL; h = h->next)
        if (h->node == node && lh_sim_is_up(node))
            h->end = lh_instant_add(
                lh_sim_clock(node), lh_client_lock_left(h->session, h->lock, lh_sim_clock(node)));
}

void lh_sim_locks_poll(struct lh_sim_story *s)
{
    for (struct lock_held **at = &s->locks; *at != NULL;) {
        struct lock_held *h = *at;
        struct lh_sim_transition t = {
            .topic = LH_SIM_TOPIC_LOCK, .node = lh_sim_index(s, h->node), .peer = LH_SIM_NOBODY};
        if (lh_instant_before(lh_sim_clock(h->node), h->end)) {
            at = &h->next;
            continue;
        }
        lh_sim_narrate(s, t, "holds %s no more: it has run out", h->name);
        finish(s, at, "it has run out");
    }
}

void lh_sim_locks_process_ended(struct lh_sim_story *s, struct lh_sim_node *node)
{
    finish_all(s, node, NULL, 0, "its process ended");
}

void lh_sim_locks_end(struct lh_sim_story *s)
{
    while (s->locks != NULL) {
        s->locks->span.unfinished = true;
        s->locks->span.until = lh_sim_now(s->sim);
        finish(s, &s->locks, "");
    }
}
