/* How a program comes: a new session, or another stream of the one that it has (PS-1, PS-2). */
#include "master/locks/locks.h"
#include "master/programs/internal.h"
#include "master/tables/answers.h"
#include "master/tables/dirty.h"

#include "base/text.h"

#include <inttypes.h>

void lh_m_end_stream(struct lh_master *m, struct lh_m_link *l, int error, const char *text)
{
    struct lh_m_session *session = l->session;
    bool current = session != NULL && session->link == l->id;

    lh_fx_close(m->fx, l->id, error, text);
    lh_m_stream_forget(m, l);
    if (!current)
        return;
    lh_m_reply_nothing(m, lh_m_session_program(session));
    lh_m_locks_park(m, lh_m_session_program(session));
    lh_m_program_settle(m, lh_m_session_program(session));
}

static void refuse(struct lh_master *m, struct lh_m_link *l, int error, const char *text)
{
    m->counts.programs_refused++;
    lh_m_end_stream(m, l, error, text);
}

void lh_m_refuse_unknown(struct lh_master *m, struct lh_m_link *l)
{
    Leasehold__LeaseSessionReply reply = LEASEHOLD__LEASE_SESSION_REPLY__INIT;
    Leasehold__BeatReply beat = LEASEHOLD__BEAT_REPLY__INIT;

    LH_MARK("program-session-unknown");
    beat.error = lh_m_wire_error(LH_ERR_UNKNOWN_SESSION);
    reply.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT;
    reply.beat = &beat;
    lh_fx_send(m->fx, l->id, &reply.base, NULL);
    refuse(m, l, LH_ERR_UNKNOWN_SESSION, "the session is over, or was never opened");
}

/* ---- What may come. */

static bool is_sound(const char *text)
{
    size_t size = strlen(text);

    if (size > LH_NAME_BYTES_MAX)
        return false;
    for (size_t at = 0; at < size;) {
        uint32_t c;
        size_t n = lh_utf8_char(text + at, size - at, &c);
        if (n == 0 || !lh_char_is_plain(c))
            return false;
        at += n;
    }
    return true;
}

static int check(const Leasehold__Attach *a, char *text, size_t text_size)
{
    static const uint8_t none[LH_M_SESSION_ID_BYTES];

    if (a->session.len != LH_M_SESSION_ID_BYTES ||
        memcmp(a->session.data, none, sizeof none) == 0 || a->stream == 0) {
        snprintf(text, text_size,
            "a session's id has %u bytes, not all 0, and its streams are counted from 1",
            LH_M_SESSION_ID_BYTES);
        return LH_ERR_INVALID_ARGUMENT;
    }
    if (!is_sound(a->host) || !is_sound(a->process) || !is_sound(a->label)) {
        snprintf(text, text_size,
            "host, process and label of a session have at most %u bytes each, and nothing that a "
            "terminal does not show",
            LH_NAME_BYTES_MAX);
        return LH_ERR_INVALID_ARGUMENT;
    }
    return LH_OK;
}

static struct lh_m_program *begin(
    struct lh_master *m, const struct lh_m_link *l, const Leasehold__Attach *a)
{
    struct lh_duration term =
        a->term_ms == 0 ? m->config.program_term : lh_milliseconds(a->term_ms);

    term = lh_duration_max(term, m->config.program_term_min);
    term = lh_duration_min(term, m->config.program_term_max);
    struct lh_m_program *p =
        lh_m_program_new(m, a->session.data, term, a->host, a->process, a->label);
    p->lookups = a->lookups;
    if (l->identity != NULL)
        p->identity = lh_strdup(l->identity);
    lh_m_dirty_program(m, p);
    lh_lease_client_open(&m->leases, &p->session.client, term);
    p->session.number++;
    p->parked = true;
    m->counts.programs_opened++;
    return p;
}

/* ---- The greeting. */

static void greet(struct lh_master *m, struct lh_m_program *p)
{
    Leasehold__LeaseSessionReply reply = LEASEHOLD__LEASE_SESSION_REPLY__INIT;
    Leasehold__Greeting greeting = LEASEHOLD__GREETING__INIT;

    greeting.reign = m->term;
    greeting.reign_name = lh_m_reign_name(m, m->term);
    greeting.reign_name_seen = p->reign_name_seen;
    greeting.term_ms = lh_duration_ms(p->term);
    greeting.beat_ns = p->term.ns / 3; /* SES-2 */
    greeting.masters = m->masters;
    greeting.n_masters = m->master_count;
    greeting.cluster_id = m->cluster_id;
    reply.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING;
    reply.greeting = &greeting;
    lh_m_session_answer(&p->session, &reply.base);
    if (lh_m_is_durable(m, p->ticket)) /* PS-1; and this reign is (LEASE-7) */
        lh_m_session_announce(m, &p->session);
}

/* The session is on record, and may still be gone on with. */
static bool goes_on(const struct lh_master *m, const struct lh_m_program *p)
{
    return !p->over && !p->closed &&
           (p->session.client.former != 0 || lh_lease_client_live(&m->leases, &p->session.client));
}

void lh_m_on_attach(struct lh_master *m, struct lh_m_link *l, const Leasehold__Attach *a)
{
    char text[LH_TEXT_BYTES], refusal[LH_ACCESS_TEXT_MAX];
    int error = check(a, text, sizeof text);

    if (error != LH_OK) {
        refuse(m, l, error, text);
        return;
    }
    struct lh_m_program *p = lh_m_program_find(m, a->session.data);
    /* First: also one that is not known has seen what it has seen. */
    int seen =
        lh_m_reign_check(m, "a program", a->reign_seen, a->reign_name_seen, 0, text, sizeof text);
    if (p != NULL && p->closed && (!p->over || p->dirty || !lh_m_is_durable(m, p->ticket))) {
        LH_MARK("attached-while-it-closes");
        refuse(m, l, LH_ERR_UNAVAILABLE, "the session is being closed");
        return;
    }
    if (p == NULL ? !a->opens : !goes_on(m, p)) {
        lh_m_refuse_unknown(m, l);
        return;
    }
    if (p != NULL && p->identity == NULL && l->identity != NULL) {
        lh_m_refuse_unknown(m, l); /* opened where nobody had a certificate: nobody's */
        return;
    }
    if (p != NULL && p->identity != NULL &&
        lh_m_access_session(m, l->identity, p->identity, refusal) != LH_OK) {
        refuse(m, l, LH_ERR_PERMISSION, refusal);
        return;
    }
    if (seen != LH_OK) {
        refuse(m, l, seen, text);
        return;
    }
    if (p == NULL && m->programs.count >= m->config.programs_max) {
        refuse(m, l, LH_ERR_NO_MEMORY, "there are too many sessions");
        return;
    }
    if (p != NULL && a->stream <= p->stream) {
        LH_MARK("program-stream-late");
        refuse(m, l, LH_ERR_STALE_REGISTRATION, "a later stream of this session has attached");
        return;
    }
    if (p == NULL)
        p = begin(m, l, a);
    else
        LH_MARK("program-attached-again");
    m->counts.programs_attached++;
    p->stream = a->stream;
    p->reign_name_seen = a->reign_name_seen;
    if (p->session.link != 0 && !LH_PLANTED("old-showing-believed"))
        lh_fx_close(m->fx, p->session.link, LH_ERR_STALE_REGISTRATION,
            "a later stream of this session has attached");
    lh_m_reply_nothing(m, p);
    p->back = false;
    lh_m_locks_park(m, p);
    lh_m_session_bind(m, &p->session, l);
    greet(m, p);
    if (LH_PLANTED("showing-wipes-newer-grant"))
        lh_m_locks_unpark(m, p);
}
