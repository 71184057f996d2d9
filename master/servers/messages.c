/* Chunkservers as clients with sessions: their messages, and what follows when a session is
 * answered, broken or over. */
#include "master/servers/servers.h"

#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/seal/seal.h"
#include "master/servers/pieces.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

/* ---- Heartbeats and their answers (SES-3, SES-4). */

/* Says that the session which the heartbeat names is not (any more). */
static void unknown_session(
    struct lh_master *m, uint64_t link, const Leasehold__Heartbeat *heartbeat)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__HeartbeatReply answer = LEASEHOLD__HEARTBEAT_REPLY__INIT;

    if (!lh_m_is_durable(m, 1))
        return; /* our term is not */
    answer.error = LEASEHOLD__ERROR_CODE__UNKNOWN_SESSION;
    answer.session = heartbeat->session;
    answer.master_term = m->term;
    answer.stamp = heartbeat->stamp;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT;
    reply.heartbeat = &answer;
    lh_fx_send(m->fx, link, &reply.base, NULL);
}

static void answer_heartbeat(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__HeartbeatReply answer = LEASEHOLD__HEARTBEAT_REPLY__INIT;
    Leasehold__Continued *items = lh_alloc_array(heartbeat->n_active + 1, sizeof *items);
    Leasehold__Continued **pointers = lh_alloc_array(heartbeat->n_active + 1, sizeof *pointers);
    bool *extended = lh_alloc_array(heartbeat->n_active, sizeof *extended);
    size_t count = 0;
    struct lh_m_wire_keys keys;

    lh_m_on_progress(m, s, heartbeat);
    lh_m_extend(m, s, heartbeat, extended);
    answer.show_leases = lh_m_sum_differs(s, heartbeat);
    for (size_t i = 0; i < heartbeat->n_active; i++) {
        if (!extended[i])
            continue;
        leasehold__continued__init(&items[count]);
        items[count].chunk = heartbeat->active[i]->chunk;
        items[count].version = heartbeat->active[i]->version;
        items[count].term_ns = m->holder_chunk_term.ns;
        pointers[count] = &items[count];
        count++;
    }
    answer.session = heartbeat->session;
    answer.master_term = m->term;
    answer.stamp = heartbeat->stamp;
    answer.term_ns = m->holder_session_term.ns;
    answer.n_extended = count;
    answer.extended = pointers;
    lh_m_capability_keys(m, &keys);
    answer.keys = keys.pointers;
    answer.n_keys = keys.count;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT;
    reply.heartbeat = &answer;
    lh_m_send(m, s, &reply);
    lh_m_session_answered(m, &s->session, heartbeat->stamp);
    free(items);
    free(pointers);
    free(extended);
}

/* Sends what the server has to hear of its leases. */
static void push_all(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_lease *lease;

    TAILQ_FOREACH(lease, &s->session.client.todo, todo_link)
        lh_m_push(m, lh_m_leased_active(lease)->chunk);
}

static void on_heartbeat(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat)
{
    if (!lh_m_session_beat(m, &s->session, heartbeat->stamp, heartbeat->last_stamp)) {
        unknown_session(m, s->session.link, heartbeat);
        return;
    }
    m->counts.heartbeats++;
    s->space.free_bytes = heartbeat->free_bytes;
    s->space.replicas = heartbeat->replicas;
    s->space.placed_bytes = 0;
    s->ordered.batches = heartbeat->batches_ordered;
    s->ordered.bytes = heartbeat->bytes_ordered;
    s->ordered.at = m->now;
    if (heartbeat->failing)
        LH_MARK("heartbeat-failing");
    lh_m_disk_fails(m, s, heartbeat->failing, heartbeat->failing && heartbeat->read_only);
    answer_heartbeat(m, s, heartbeat);
    push_all(m, s);
    lh_m_touch_waited(m);
}

/* ---- Messages. */

#define MESSAGES(X)                                                                                \
    X(CONFIRM, confirm, lh_m_on_confirm)                                                           \
    X(RELEASE, release, lh_m_on_release)                                                           \
    X(SEAL, seal, lh_m_on_seal)                                                                    \
    X(RECOVERED, recovered, lh_m_on_recovered)                                                     \
    X(MEMBER_FAILED, member_failed, lh_m_on_member_failed)                                         \
    X(CREATED, created, lh_m_on_created)                                                           \
    X(LOST, lost, lh_m_on_lost)                                                                    \
    X(POSSIBLE_LOSS, possible_loss, lh_m_on_possible_loss)                                         \
    X(SEAL_RECORDED, seal_recorded, lh_m_on_seal_recorded)                                         \
    X(FENCED, fenced, lh_m_on_fenced)                                                              \
    X(COPIED, copied, lh_m_on_copied)                                                              \
    X(REMOVED, removed, lh_m_on_removed)                                                           \
    X(SHOWN, shown, lh_m_on_shown)

#define X(BODY, field, function)                                                                   \
    static uint64_t field##_session(const Leasehold__SessionRequest *request)                      \
    {                                                                                              \
        return request->field->session;                                                            \
    }                                                                                              \
    static void field##_take(                                                                      \
        struct lh_master *m, struct lh_m_server *s, const Leasehold__SessionRequest *request)      \
    {                                                                                              \
        function(m, s, request->field);                                                            \
    }
MESSAGES(X)
#undef X

static const struct {
    uint64_t (*session)(const Leasehold__SessionRequest *request); /* that it names */
    void (*take)(
        struct lh_master *m, struct lh_m_server *s, const Leasehold__SessionRequest *request);
} handlers[] = {
#define X(BODY, field, function)                                                                   \
    [LEASEHOLD__SESSION_REQUEST__BODY_##BODY] = {field##_session, field##_take},
    MESSAGES(X)
#undef X
};

/* The session that a message names; false: the message has none. */
static bool named_session(const Leasehold__SessionRequest *r, uint64_t *session)
{
    size_t body = (size_t)r->body_case;

    if (body == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT)
        *session = r->heartbeat->session;
    else if (body < sizeof handlers / sizeof *handlers && handlers[body].take != NULL)
        *session = handlers[body].session(r);
    else
        return false;
    return true;
}

static void message(struct lh_master *m, struct lh_m_link *l, const void *any)
{
    const Leasehold__SessionRequest *request = any;
    struct lh_m_session *session;
    uint64_t named;

    if (request->body_case == LEASEHOLD__SESSION_REQUEST__BODY_REGISTER) {
        lh_m_on_register(m, l, request->register_);
    } else if (!named_session(request, &named)) {
        lh_fx_close(m->fx, l->id, LH_ERR_MALFORMED, "a session message without a known body");
        lh_m_stream_forget(m, l);
    } else if ((session = lh_m_session_named(m, l, named)) == NULL) {
        if (request->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT)
            unknown_session(m, l->id, request->heartbeat);
    } else if (request->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT) {
        on_heartbeat(m, lh_m_session_server(session), request->heartbeat);
    } else {
        handlers[request->body_case].take(m, lh_m_session_server(session), request);
    }
}

/* ---- What happens to their sessions. */

static void announced(struct lh_master *m, struct lh_m_session *session)
{
    struct lh_m_server *s = lh_m_session_server(session);
    struct lh_m_creation *creation;

    TAILQ_FOREACH(creation, &m->creating, link)
        if (lh_m_member(creation->chunk, s) != NULL)
            lh_m_creation_send(m, creation->chunk, s);
    push_all(m, s);
    lh_m_roll_announced(m, s);
    lh_m_reports_follow(m, s);
    lh_m_touch_waited(m);
}

static void stream_ended(struct lh_master *m, struct lh_m_session *session)
{
    const struct lh_lease *lease;

    lh_m_unsettled(m);
    while (LH_PLANTED("regrant-when-session-breaks") && session != NULL &&
           (lease = TAILQ_FIRST(&session->client.held)) != NULL)
        lh_m_lease_over(m, lh_m_leased_active(lease)->chunk, "went with its session");
    lh_m_rolls_advance(m);
    lh_m_touch_waited(m);
}

static void ended(struct lh_master *m, struct lh_m_session *session)
{
    struct lh_m_server *s = lh_m_session_server(session);

    m->counts.sessions_ended++;
    lh_m_server_left(m, s, false);
    lh_m_reach_end(m, s);
    lh_m_server_changed(m, s);
    lh_m_unsettled(m);
    lh_m_touch_waited(m);
}

const struct lh_m_session_kind lh_m_chunkservers = {
    .what = "chunkserver",
    .message = message,
    .announced = announced,
    .stream_ended = stream_ended,
    .ended = ended,
    .forget_pieces = lh_m_registration_free,
};
