/* Heartbeats and their answers (SES-3, SES-4). */
#include "master/sessions/heartbeat.h"

#include "master/sessions/owner.h"
#include "master/sessions/reach.h"
#include "master/tables/changed.h"
#include "master/tables/tables.h"

void lh_m_unknown_session(struct lh_master *m, uint64_t link, const Leasehold__Heartbeat *heartbeat)
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

void lh_m_remember_answer(struct lh_master *m, struct lh_m_server *s, uint64_t stamp)
{
    s->session.answers[s->session.answer_next].stamp = stamp;
    s->session.answers[s->session.answer_next].at = m->now;
    s->session.answers[s->session.answer_next].sent = true;
    s->session.answer_next = (s->session.answer_next + 1) % LH_ANSWERS;
}

/* Which of our answers has the server received? (SES-4) */
void lh_m_note_confirmed(struct lh_m_server *s, uint64_t last_stamp)
{
    for (unsigned i = 0; i < LH_ANSWERS; i++) {
        if (!s->session.answers[i].sent || s->session.answers[i].stamp != last_stamp)
            continue;
        s->session.confirmed_at =
            s->session.lessee.confirmed
                ? lh_instant_max(s->session.confirmed_at, s->session.answers[i].at)
                : s->session.answers[i].at;
        s->session.lessee.confirmed = true;
    }
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

    answer.show_leases = m->session_owner->heard(m, s, heartbeat, extended);
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
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_HEARTBEAT;
    reply.heartbeat = &answer;
    lh_m_send(m, s, &reply);
    lh_m_remember_answer(m, s, heartbeat->stamp);
    free(items);
    free(pointers);
    free(extended);
}

void lh_m_on_heartbeat(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat)
{
    struct lh_instant received_at = m->now; /* TIME-4 */
    if (LH_PLANTED("grantor-clock-read-before-receipt"))
        received_at = s->session.lessee.received_at;
    if (lh_lessee_renew(&m->leases, &s->session.lessee, received_at) != LH_OK) {
        lh_m_unknown_session(m, s->session.link, heartbeat);
        return;
    }
    m->counts.heartbeats++;
    s->session.stamp = heartbeat->stamp;
    lh_m_note_confirmed(s, heartbeat->last_stamp);
    s->room.free_bytes = heartbeat->free_bytes;
    s->room.replicas = heartbeat->replicas;
    s->room.placed_bytes = 0;
    if (heartbeat->failing)
        LH_MARK("heartbeat-failing");
    if (s->room.failing != (heartbeat->failing != 0)) {
        lh_fx_log(m->fx, heartbeat->failing ? LH_WARN : LH_INFO, "chunkserver %s: its disk %s",
            s->id,
            heartbeat->failing ? "does not answer; it gets no leases and no replicas"
                               : "answers again");
        s->room.failing = heartbeat->failing;
        s->room.failing_since = m->now;
        m->session_owner->changed(m, s);
    }
    answer_heartbeat(m, s, heartbeat);
    m->session_owner->answered(m, s);
    lh_m_touch_waited(m);
}
