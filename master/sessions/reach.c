/* Who can be reached, and sending (SES-3, SES-4). */
#include "master/sessions/reach.h"

#include "master/tables/tables.h"

/* Session numbers start anew with each master; with the master's term in front no two masters give
 * the same one, and what was meant for a former session cannot be taken for this one's. */
uint64_t lh_m_wire_session(const struct lh_master *m, lh_session_id s)
{
    return (m->term << 40) | (s & ((UINT64_C(1) << 40) - 1));
}

bool lh_m_live(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_lessee_live(&m->leases, &s->session.lessee);
}

bool lh_m_reachable(const struct lh_master *m, const struct lh_m_server *s)
{
    if (!lh_m_live(m, s) || s->session.link == 0 || !s->session.announced)
        return false;
    if (LH_PLANTED("one-way-partition-is-health"))
        return true;
    if (!s->session.lessee.confirmed)
        return false;
    if (lh_instant_before(m->now, lh_instant_add(s->session.confirmed_at, m->config.session_term)))
        return true;
    LH_MARK("server-hears-nothing");
    return false;
}

bool lh_m_looks_alive(const struct lh_master *m, const struct lh_m_server *s)
{
    struct lh_duration two = lh_duration_add(m->heartbeat, m->heartbeat);

    return lh_m_live(m, s) && s->session.link != 0 &&
           lh_instant_before(m->now, lh_instant_add(s->session.lessee.received_at, two));
}

bool lh_m_send(struct lh_master *m, struct lh_m_server *s, Leasehold__SessionReply *reply)
{
    if (s->session.link == 0 || !s->session.announced)
        return false;
    lh_fx_send(m->fx, s->session.link, &reply->base, NULL);
    return true;
}

void lh_m_unsettled(struct lh_master *m)
{
    m->unsettled_until = lh_instant_add(m->now, m->config.create_timeout);
}

bool lh_m_is_asked(const struct lh_m_server *s)
{
    return s->session.inquired &&
           lh_instant_before(s->session.lessee.received_at, s->session.silent_since);
}

void lh_m_inquire(struct lh_master *m, struct lh_m_server *s)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Inquiry inquiry = LEASEHOLD__INQUIRY__INIT;

    LH_MARK("inquiry-sent");
    m->counts.inquiries++;
    inquiry.session = lh_m_wire_session(m, s->session.lessee.session);
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_INQUIRY;
    reply.inquiry = &inquiry;
    if (!lh_m_send(m, s, &reply))
        return; /* its registration is not answered yet: when it is, it has shown life */
    if (!lh_m_is_asked(s))
        s->session.silent_since = m->now;
    s->session.inquired = true;
    s->session.inquired_at = m->now;
}
