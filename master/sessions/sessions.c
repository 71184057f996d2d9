/* Sessions: their messages and their end (SES-1 to SES-6). */
#include "master/sessions/sessions.h"

#include "master/sessions/heartbeat.h"
#include "master/sessions/links.h"
#include "master/sessions/owner.h"
#include "master/sessions/reach.h"
#include "master/sessions/registration.h"
#include "master/tables/changed.h"
#include "master/tables/tables.h"

#include <inttypes.h>

void lh_m_sessions_start(struct lh_master *m)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
        s->session.away_since = m->now;
}

void lh_m_session_closed(struct lh_master *m, uint64_t link, const char *ended)
{
    struct lh_m_link *l = lh_m_link_find(m, link);
    struct lh_m_server *s;

    if (l == NULL)
        return;
    s = l->server != NULL && l->server->session.link == l->id ? l->server : NULL;
    if (s != NULL && s->session.lessee.session != 0)
        lh_fx_log(m->fx, ended != NULL ? LH_INFO : LH_WARN,
            "chunkserver %s: %s; its session runs for another %" PRIu64 " ms", s->id,
            ended != NULL ? ended : "its session stream broke",
            lh_duration_ms(
                lh_instant_until(m->now, lh_lessee_until(&m->leases, &s->session.lessee))));
    if (s != NULL)
        LH_MARK("session-stream-broke");
    lh_m_unsettled(m);
    lh_m_link_forget(m, l);
    m->session_owner->stream_ended(m, s);
    lh_m_touch_waited(m);
}

void lh_m_session_expired(void *core, struct lh_lessee *lessee)
{
    struct lh_master *m = core;
    struct lh_m_server *s = lh_m_lessee_server(lessee);

    LH_MARK("session-ended");
    m->counts.sessions_ended++;
    s->session.away_since = m->now;
    m->session_owner->ended(m, s, false);
    m->session_owner->changed(m, s);
    lh_m_unsettled(m);
    lh_fx_log(m->fx, LH_WARN,
        "chunkserver %s: no heartbeat for %" PRIu64 " ms; its session is over", s->id,
        lh_duration_ms(lh_instant_until(s->session.lessee.received_at, m->now)));
    lh_m_touch_waited(m);
}

static const struct lh_m_session_handler *handler_of(
    const struct lh_master *m, const Leasehold__SessionRequest *r)
{
    const struct lh_m_session_owner *owner = m->session_owner;
    size_t body = (size_t)r->body_case;

    if (body >= owner->handler_count || owner->handlers[body].take == NULL)
        return NULL;
    return &owner->handlers[body];
}

/* The session that a message names; false: the message has none. */
static bool named_session(
    const struct lh_master *m, const Leasehold__SessionRequest *r, uint64_t *session)
{
    if (r->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT)
        *session = r->heartbeat->session;
    else if (handler_of(m, r) != NULL)
        *session = handler_of(m, r)->session(r);
    else
        return false;
    return true;
}

void lh_m_session_message(
    struct lh_master *m, uint64_t link, const Leasehold__SessionRequest *request)
{
    struct lh_m_link *l = lh_m_link_find(m, link);
    uint64_t session = 0;

    if (l == NULL)
        return;
    if (request->body_case == LEASEHOLD__SESSION_REQUEST__BODY_REGISTER) {
        lh_m_on_register(m, l, request->register_);
        return;
    }
    if (!named_session(m, request, &session)) {
        lh_fx_close(m->fx, link, LH_ERR_MALFORMED, "a session message without a known body");
        lh_m_link_forget(m, l);
        return;
    }
    /* SES-3: what is said counts only in the session that it names, while that session lives. */
    struct lh_m_server *s = l->server;
    if (s == NULL || s->session.link != link || l->session != s->session.lessee.session ||
        !s->session.announced || session != lh_m_wire_session(m, s->session.lessee.session) ||
        !lh_m_live(m, s)) {
        if (request->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT)
            lh_m_unknown_session(m, link, request->heartbeat);
        return;
    }
    /* It knows the session's number: it has received Registered. */
    if (!s->session.lessee.confirmed)
        lh_m_note_confirmed(s, s->session.answers[0].stamp);

    if (request->body_case == LEASEHOLD__SESSION_REQUEST__BODY_HEARTBEAT)
        lh_m_on_heartbeat(m, s, request->heartbeat);
    else
        handler_of(m, request)->take(m, s, request);
}
