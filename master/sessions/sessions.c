/* The life of sessions, and their streams. */
#include "master/sessions/sessions.h"

#include <inttypes.h>

static const struct lh_m_session_kind *kind_of(
    const struct lh_master *m, const struct lh_m_session *session)
{
    return m->session_kinds[session->client.kind];
}

/* ---- Streams. */

struct lh_m_link *lh_m_stream(const struct lh_master *m, uint64_t link)
{
    struct lh_link *l = lh_link_find(&m->links, link);

    return l == NULL || l->user != &lh_m_stream_links ? NULL : LH_OWNER(l, struct lh_m_link, link);
}

void lh_m_stream_opened(struct lh_master *m, const struct lh_input *in, enum lh_m_client kind)
{
    struct lh_m_link *l = lh_alloc(sizeof *l);

    l->id = in->link;
    l->kind = kind;
    if (in->identity != NULL && in->identity[0] != 0)
        l->identity = lh_strdup(in->identity);
    if (kind == LH_M_CHUNKSERVER)
        l->peer = lh_strdup(in->text == NULL ? "" : in->text);
    l->link.user = &lh_m_stream_links;
    lh_link_serve(&m->links, &l->link, l->id);
}

void lh_m_stream_forget(struct lh_master *m, struct lh_m_link *l)
{
    if (l->session != NULL && l->session->link == l->id)
        l->session->link = 0;
    lh_m_stream_forget_pieces(m, l);
    lh_link_forget(&m->links, &l->link);
    free(l->identity);
    free(l->peer);
    free(l);
}

void lh_m_stream_forget_pieces(struct lh_master *m, struct lh_m_link *l)
{
    if (l->pieces != NULL)
        m->session_kinds[l->kind]->forget_pieces(l->pieces);
    l->pieces = NULL;
}

/* `ended`: by whom, in words; NULL: the stream broke. */
static void stream_over(struct lh_master *m, struct lh_m_link *l, const char *ended)
{
    const struct lh_m_session_kind *kind = m->session_kinds[l->kind];
    struct lh_m_session *session =
        l->session != NULL && l->session->link == l->id ? l->session : NULL;
    if (session != NULL && session->client.session != 0)
        lh_fx_log(m->fx,
            kind->many      ? LH_DEBUG
            : ended != NULL ? LH_INFO
                            : LH_WARN,
            "%s %s: %s; its session runs for another %" PRIu64 " ms", kind->what, session->name,
            ended != NULL ? ended : "its session stream broke",
            lh_duration_ms(
                lh_instant_until(m->now, lh_lease_client_until(&m->leases, &session->client))));
    if (session != NULL)
        LH_MARK("session-stream-broke");
    lh_m_stream_forget(m, l);
    kind->stream_ended(m, session);
}

static void message(void *core, struct lh_link *link, const void *any, struct lh_buf *payload)
{
    struct lh_m_link *l = LH_OWNER(link, struct lh_m_link, link);
    struct lh_master *m = core;

    (void)payload;
    m->session_kinds[l->kind]->message(m, l, any);
}

static void sent(void *core, struct lh_link *link)
{
    struct lh_m_link *l = LH_OWNER(link, struct lh_m_link, link);
    struct lh_master *m = core;
    const struct lh_m_session_kind *kind = m->session_kinds[l->kind];

    if (kind->sent != NULL && l->session != NULL && l->session->link == l->id)
        kind->sent(m, l->session);
}

static void half_closed(void *core, struct lh_link *link)
{
    struct lh_m_link *l = LH_OWNER(link, struct lh_m_link, link);
    struct lh_master *m = core;

    lh_fx_close(m->fx, l->id, LH_OK, NULL);
    stream_over(m, l, "it has ended its session stream");
}

static void closed(void *core, struct lh_link *link, int error, const char *text)
{
    (void)error;
    (void)text;
    stream_over(core, LH_OWNER(link, struct lh_m_link, link), NULL);
}

const struct lh_link_user lh_m_stream_links = {
    .message = message, .sent = sent, .half_closed = half_closed, .closed = closed};

void lh_m_streams_end(struct lh_master *m, int error, const char *text, const char *ended)
{
    struct lh_link *l, *next;

    LH_LINKS_FOREACH(&m->links, &lh_m_stream_links, l, next) {
        lh_fx_close(m->fx, l->id, error, text);
        stream_over(m, LH_OWNER(l, struct lh_m_link, link), ended);
    }
}

/* ---- The life of a session. */

void lh_m_session_replace(
    struct lh_master *m, struct lh_m_session *session, uint64_t stays, int error, const char *why)
{
    lh_lease_client_close(&m->leases, &session->client);
    if (session->link != 0 && session->link != stays) {
        struct lh_m_link *old = lh_m_stream(m, session->link);
        lh_fx_close(m->fx, session->link, error, why);
        if (old != NULL)
            lh_m_stream_forget(m, old);
    }
    lh_buf_clear(&session->announcement);
    session->announcing = session->announced = false;
    memset(session->answers, 0, sizeof session->answers);
    session->answer_next = 0;
}

void lh_m_session_begin(struct lh_master *m, struct lh_m_session *session, struct lh_m_link *l,
    struct lh_duration term, uint64_t stamp)
{
    if (l->session != NULL && l->session != session && l->session->link == l->id)
        l->session->link = 0; /* a stream that speaks for another client now */
    lh_lease_client_open(&m->leases, &session->client, term);
    session->number++;
    session->link = l->id;
    session->registered_at = m->now;
    session->stamp = stamp;
    l->session = session;
    l->registered = session->client.session;
}

void lh_m_session_bind(struct lh_master *m, struct lh_m_session *session, struct lh_m_link *l)
{
    struct lh_m_link *old = session->link == 0 ? NULL : lh_m_stream(m, session->link);

    if (old != NULL && old != l && !LH_PLANTED("old-showing-believed"))
        lh_m_stream_forget(m, old);
    lh_buf_clear(&session->announcement);
    session->announcing = session->announced = false;
    memset(session->answers, 0, sizeof session->answers);
    session->answer_next = 0;
    session->link = l->id;
    session->registered_at = m->now;
    l->session = session;
}

void lh_m_session_confirmed(struct lh_m_session *session, struct lh_instant at)
{
    session->confirmed_at =
        session->client.confirmed ? lh_instant_max(session->confirmed_at, at) : at;
    session->client.confirmed = true;
}

void lh_m_session_answer(struct lh_m_session *session, const ProtobufCMessage *answer)
{
    session->announcement = lh_wire_pack(answer);
    session->announcing = true;
}

void lh_m_session_announce(struct lh_master *m, struct lh_m_session *session)
{
    if (!session->announcing)
        return;
    session->announcing = false;
    if (session->link == 0) {
        lh_buf_clear(&session->announcement);
        return;
    }
    session->announced = true;
    struct lh_effect *e = lh_effects_add(m->fx, LH_FX_SEND);
    e->link = session->link;
    e->header = lh_buf_take(&session->announcement);
    lh_m_session_answered(m, session, session->stamp);
    kind_of(m, session)->announced(m, session);
}

void lh_m_session_answered(const struct lh_master *m, struct lh_m_session *session, uint64_t stamp)
{
    session->answers[session->answer_next].stamp = stamp;
    session->answers[session->answer_next].at = m->now;
    session->answers[session->answer_next].sent = true;
    session->answer_next = (session->answer_next + 1) % LH_ANSWERS;
}

/* Which of our answers has the client received? (SES-4) */
static void note_confirmed(struct lh_m_session *session, uint64_t last_stamp)
{
    for (unsigned i = 0; i < LH_ANSWERS; i++) {
        if (!session->answers[i].sent || session->answers[i].stamp != last_stamp)
            continue;
        lh_m_session_confirmed(session, session->answers[i].at);
    }
}

struct lh_m_session *lh_m_session_named(
    const struct lh_master *m, const struct lh_m_link *l, uint64_t named)
{
    struct lh_m_session *session = l->session;

    if (session == NULL || session->link != l->id || l->registered != session->client.session ||
        !session->announced || named != lh_m_wire_session(m, session->client.session) ||
        !lh_lease_client_live(&m->leases, &session->client))
        return NULL;
    /* It knows the session's number: it has received the answer to its registration. */
    if (!session->client.confirmed)
        note_confirmed(session, session->answers[0].stamp);
    return session;
}

bool lh_m_session_beat(
    struct lh_master *m, struct lh_m_session *session, uint64_t stamp, uint64_t last_stamp)
{
    struct lh_instant received_at = m->now; /* TIME-4 */

    if (LH_PLANTED("grantor-clock-read-before-receipt"))
        received_at = session->client.received_at;
    if (lh_lease_client_renew(&m->leases, &session->client, received_at) != LH_OK)
        return false;
    session->stamp = stamp;
    note_confirmed(session, last_stamp);
    return true;
}

void lh_m_session_expired(void *core, struct lh_lease_client *client)
{
    struct lh_master *m = core;
    struct lh_m_session *session = LH_OWNER(client, struct lh_m_session, client);

    LH_MARK("session-ended");
    session->away_since = m->now;
    kind_of(m, session)->ended(m, session);
    lh_fx_log(m->fx, LH_WARN, "%s %s: no heartbeat for %" PRIu64 " ms; its session is over",
        kind_of(m, session)->what, session->name,
        lh_duration_ms(lh_instant_until(client->received_at, m->now)));
}

/* ---- Who can be reached. */

/* Session numbers start again with each master; with the master's term in front no two masters give
 * the same one, and what was meant for a former session cannot be taken for this one's. */
uint64_t lh_m_wire_session(const struct lh_master *m, lh_session_id s)
{
    return (m->term << 40) | (s & ((UINT64_C(1) << 40) - 1));
}

bool lh_m_session_send(
    struct lh_master *m, const struct lh_m_session *session, const ProtobufCMessage *message)
{
    if (session->link == 0 || !session->announced)
        return false;
    lh_fx_send(m->fx, session->link, message, NULL);
    return true;
}

bool lh_m_session_hears(
    const struct lh_master *m, const struct lh_m_session *session, struct lh_instant now)
{
    return lh_lease_client_live(&m->leases, &session->client) && session->client.confirmed &&
           lh_instant_before(now, lh_instant_add(session->confirmed_at, session->client.term));
}

bool lh_m_session_reachable(const struct lh_master *m, const struct lh_m_session *session)
{
    if (!lh_lease_client_live(&m->leases, &session->client) || session->link == 0 ||
        !session->announced)
        return false;
    if (LH_PLANTED("one-way-partition-is-health") || lh_m_session_hears(m, session, m->now))
        return true;
    if (session->client.confirmed)
        LH_MARK("server-hears-nothing");
    return false;
}

bool lh_m_session_looks_alive(const struct lh_master *m, const struct lh_m_session *session)
{
    struct lh_duration two = lh_nanoseconds(session->client.term.ns / 3 * 2);

    return lh_lease_client_live(&m->leases, &session->client) && session->link != 0 &&
           lh_instant_before(m->now, lh_instant_add(session->client.received_at, two));
}

void lh_m_session_inquired(const struct lh_master *m, struct lh_m_session *session)
{
    if (!lh_m_session_is_asked(session))
        session->silent_since = m->said_at;
    session->inquired = true;
    session->inquired_at = m->said_at;
}

bool lh_m_session_is_asked(const struct lh_m_session *session)
{
    return session->inquired &&
           lh_instant_before(session->client.received_at, session->silent_since);
}
