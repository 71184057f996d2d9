/* Messages of programs, and what happens to their sessions. */
#include "master/programs/programs.h"

#include "lease/restart.h"
#include "lease/term.h"
#include "master/locks/locks.h"
#include "master/programs/internal.h"
#include "master/tables/answers.h"
#include "master/tables/changed.h"
#include "master/tables/promised.h"
#include "master/tables/replies.h"

#include <inttypes.h>

/* ---- Heartbeats. */

static void answer_beat(struct lh_master *m, struct lh_m_program *p, uint64_t stamp)
{
    Leasehold__LeaseSessionReply reply = LEASEHOLD__LEASE_SESSION_REPLY__INIT;
    Leasehold__BeatReply beat = LEASEHOLD__BEAT_REPLY__INIT;

    beat.stamp = stamp;
    beat.term_ns = lh_term_for_holder(p->term, m->config.drift_ppm).ns;
    if (p->subscriptions != NULL && p->back)
        beat.n_broadcasts = m->values_owner->broadcasts(m, p, &beat.broadcasts);
    reply.body_case = LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT;
    reply.beat = &beat;
    lh_m_reply_message(m, p, &reply);
    lh_m_session_answered(m, &p->session, stamp);
}

/* PS-2a: it shows what it has to this master, which has granted nothing yet. */
static void on_beat_before_shown(struct lh_master *m, struct lh_m_program *p, uint64_t stamp)
{
    struct lh_lease_client *client = &p->session.client;
    struct lh_instant until = lh_instant_add(m->started_at, m->config.showing_max);
    bool awaited = client->former != 0 && lh_instant_before(m->now, until);

    LH_MARK("beat-before-shown");
    if (!p->session.announced)
        return;
    if (LH_PLANTED("renewed-while-it-shows") && client->former == 0)
        awaited = lh_lease_client_renew(&m->leases, client, m->now) == LH_OK;
    else
        awaited = awaited && lh_lease_client_await(&m->leases, client, p->term) == LH_OK;
    if (!awaited)
        return;
    LH_MARK("session-awaited-while-it-shows");
    m->counts.program_beats++;
    answer_beat(m, p, stamp);
}

static void on_beat(struct lh_master *m, struct lh_m_link *l, const Leasehold__Beat *beat)
{
    struct lh_m_program *p = lh_m_session_program(l->session);

    if (!p->back) {
        on_beat_before_shown(m, p, beat->stamp);
        return;
    }
    if (!lh_m_session_beat(m, &p->session, beat->stamp, beat->last_stamp)) {
        if (p->session.client.former == 0)
            lh_m_refuse_unknown(m, l);
        return;
    }
    m->counts.program_beats++;
    if (beat->last_stamp == 0) /* the program does not say what it has received */
        lh_m_session_confirmed(&p->session, m->now);
    answer_beat(m, p, beat->stamp);
    if (p->parked && lh_m_program_reachable(m, p))
        lh_m_locks_unpark(m, p);
}

/* ---- Operations. */

static void refuse_values(
    struct lh_master *m, struct lh_m_program *p, uint64_t id, const char *name)
{
    lh_m_reply_refused(m, p, id, name, LH_ERR_UNIMPLEMENTED, "this master has no values");
}

/* May the program's owner ask that (ACC-3)? Else it is refused here. What gives something back
 * needs no right. The revision of a prefix is for whoever reaches a name under it. */
static bool may(struct lh_master *m, struct lh_m_program *p, const Leasehold__LeaseOp *op)
{
    bool acquires = op->op_case == LEASEHOLD__LEASE_OP__OP_ACQUIRE;
    bool reads = op->op_case == LEASEHOLD__LEASE_OP__OP_READ;
    char text[LH_ACCESS_TEXT_MAX];

    if (p->identity != NULL && op->op_case == LEASEHOLD__LEASE_OP__OP_BROADCAST &&
        !op->broadcast->end &&
        lh_m_access_prefix(m, p->identity, op->broadcast->prefix, text) != LH_OK) {
        lh_m_reply_refused(m, p, op->broadcast->id, op->broadcast->prefix, LH_ERR_PERMISSION, text);
        return false;
    }
    if (p->identity == NULL || !(acquires || reads))
        return true;
    const char *name = acquires ? op->acquire->name : op->read->name;
    uint64_t id = acquires ? op->acquire->id : op->read->id;
    if (lh_m_access_name(
            m, p->identity, acquires ? LH_RIGHT_WRITE : LH_RIGHT_READ, name, false, text) == LH_OK)
        return true;
    lh_m_reply_refused(m, p, id, name, LH_ERR_PERMISSION, text);
    return false;
}

static void operate(struct lh_master *m, struct lh_m_program *p, const Leasehold__LeaseOp *op)
{
    const struct lh_m_values_owner *values = m->values_owner;

    switch (op->op_case) {
    case LEASEHOLD__LEASE_OP__OP_ACQUIRE:
        lh_m_lock_acquire(m, p, op->acquire);
        break;
    case LEASEHOLD__LEASE_OP__OP_RELEASE:
        lh_m_lock_release(m, p, op->release);
        break;
    case LEASEHOLD__LEASE_OP__OP_WITHDRAW:
        lh_m_lock_withdraw(m, p, op->withdraw->id);
        break;
    case LEASEHOLD__LEASE_OP__OP_YIELD:
        lh_m_lock_yield(m, p, op->yield);
        break;
    case LEASEHOLD__LEASE_OP__OP_READ:
        if (p->out.in_flight > 2 * m->config.program_sends)
            lh_m_reply_refused(m, p, op->read->id, op->read->name, LH_ERR_WOULD_BLOCK,
                "too many values are on their way to this program: read fewer at a time");
        else if (values != NULL)
            values->read(m, p, op->read);
        else
            refuse_values(m, p, op->read->id, op->read->name);
        break;
    case LEASEHOLD__LEASE_OP__OP_DROPPED:
        if (values != NULL)
            values->dropped(m, p, op->dropped);
        break;
    case LEASEHOLD__LEASE_OP__OP_BROADCAST:
        if (values != NULL)
            values->broadcast(m, p, op->broadcast);
        else
            refuse_values(m, p, op->broadcast->id, op->broadcast->prefix);
        break;
    case LEASEHOLD__LEASE_OP__OP__NOT_SET:
    default: /* of a newer program: it hears nothing, and asks */
        break;
    }
}

static void on_ops(struct lh_master *m, struct lh_m_link *l, const Leasehold__LeaseOps *ops)
{
    struct lh_m_program *p = lh_m_session_program(l->session);

    if (!p->back) {
        lh_m_end_stream(
            m, l, LH_ERR_MALFORMED, "an operation before all was shown that the session has");
        return;
    }
    if (!lh_lease_client_live(&m->leases, &p->session.client)) {
        lh_m_refuse_unknown(m, l);
        return;
    }
    for (size_t i = 0; i < ops->n_ops; i++) {
        if (lh_m_takes_too_little(m, p)) {
            lh_m_end_stream(m, l, LH_ERR_NO_MEMORY,
                "too much has not been taken by programs, and this one has not taken its share");
            return;
        }
        if (may(m, p, ops->ops[i]))
            operate(m, p, ops->ops[i]);
    }
}

/* PS-1. Its locks and values follow in the next steps, as if it had run out. The program is
 * answered when no later master will wait for it. */
static void on_close(struct lh_master *m, struct lh_m_link *l)
{
    struct lh_m_program *p = lh_m_session_program(l->session);

    LH_MARK("program-closed");
    p->closed = true;
    lh_lease_client_stop(&m->leases, &p->session.client);
    lh_m_reply_nothing(m, p);
    lh_m_locks_park(m, p);
    if (LH_PLANTED("close-answered-early"))
        lh_m_end_stream(m, l, LH_OK, NULL);
}

static void message(struct lh_master *m, struct lh_m_link *l, const void *any)
{
    const Leasehold__LeaseSessionRequest *request = any;
    bool attached = l->session != NULL;

    if (attached && l->session->link != l->id && !LH_PLANTED("old-showing-believed"))
        return;
    if (attached && lh_m_session_program(l->session)->closed)
        return; /* it has said that this is the end */
    if (request->body_case == LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH && !attached) {
        lh_m_on_attach(m, l, request->attach);
        return;
    }
    if (!attached || request->body_case == LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH) {
        lh_m_end_stream(m, l, LH_ERR_MALFORMED, "the first message of a stream is its one Attach");
        return;
    }
    switch (request->body_case) {
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_SHOW:
        lh_m_on_show(m, l, request->show);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_BEAT:
        on_beat(m, l, request->beat);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_OPS:
        on_ops(m, l, request->ops);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE:
        on_close(m, l);
        break;
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH:
    case LEASEHOLD__LEASE_SESSION_REQUEST__BODY__NOT_SET:
    default:
        lh_m_end_stream(m, l, LH_ERR_MALFORMED, "a session message without a known body");
        break;
    }
}

/* ---- What happens to their sessions. */

static void announced(struct lh_master *m, struct lh_m_session *session)
{
    (void)m;
    (void)session; /* the program shows what it has next */
}

static void stream_ended(struct lh_master *m, struct lh_m_session *session)
{
    if (session == NULL)
        return;
    lh_m_reply_nothing(m, lh_m_session_program(session));
    lh_m_locks_park(m, lh_m_session_program(session));
    lh_m_program_settle(m, lh_m_session_program(session));
}

static void log_end(struct lh_master *m, const struct lh_m_program *p)
{
    if (p->closed)
        lh_fx_log(m->fx, LH_DEBUG, "the session of %s is closed", p->title);
    else
        lh_fx_log(m->fx, LH_INFO,
            "the session of %s (%s, %s) is over: no heartbeat for its term; %zu locks are free",
            p->title, p->host, p->process, p->locks);
}

static void end_stream_of(struct lh_master *m, struct lh_m_program *p, int error, const char *text)
{
    struct lh_m_link *l = lh_m_stream(m, p->session.link);

    if (l != NULL)
        lh_m_end_stream(m, l, error, text);
}

/* It has run out, or was closed; its leases follow. */
static void run_out(void *core, struct lh_lease_client *client)
{
    struct lh_master *m = core;
    struct lh_m_program *p = lh_m_client_program(client);

    LH_MARK("program-session-over");
    m->counts.programs_ended++;
    log_end(m, p);
    if (!p->closed)
        end_stream_of(m, p, LH_ERR_UNKNOWN_SESSION, "the session is over");
    lh_m_program_over(m, p);
    lh_m_program_heard(m, p);
    lh_m_locks_session_over(m, p);
    if (m->values_owner != NULL)
        m->values_owner->session_over(m, p);
    lh_m_program_settle(m, p);
    lh_m_programs_look(m);
}

static void promised(void *core, struct lh_lease_client *client)
{
    lh_m_promise_to_program(core, lh_m_client_program(client));
}

/* LEASE-9: it holds nothing any more. Its session goes on if it comes back within its term. */
static void settled(void *core, struct lh_lease_client *client)
{
    struct lh_master *m = core;

    lh_m_program_heard(m, lh_m_client_program(client));
    lh_m_programs_look(m);
}

const struct lh_lease_client_owner lh_m_program_sessions = {
    .ended = run_out, .promised = promised, .settled = settled};

static void sent(struct lh_master *m, struct lh_m_session *session)
{
    lh_m_reply_left(m, lh_m_session_program(session));
}

const struct lh_m_session_kind lh_m_programs = {
    .what = "program",
    .many = true,
    .message = message,
    .sent = sent,
    .announced = announced,
    .stream_ended = stream_ended,
    .forget_pieces = lh_m_showing_free,
};

/* VAL-7. All is known of what it has cached. */
void lh_m_program_heard(struct lh_master *m, struct lh_m_program *p)
{
    if (!p->awaited_for_lookups)
        return;
    p->awaited_for_lookups = false;
    m->programs.lookups_away--;
    if (m->programs.lookups_away == 0 && m->values_owner != NULL)
        m->values_owner->all_back(m);
}

void lh_m_programs_look(struct lh_master *m)
{
    if (m->programs.all_back || lh_m_programs_awaited(m))
        return;
    m->programs.all_back = true;
    LH_MARK("programs-all-back");
    lh_fx_log(m->fx, LH_INFO,
        "all sessions of programs are back, or over: locks are granted, values change");
    lh_m_locks_all_back(m);
    lh_m_touch_waited(m); /* appenders whose lock was not known to be held or not (TOK-2) */
    if (m->values_owner != NULL)
        m->values_owner->all_back(m);
}

void lh_m_programs_start(struct lh_master *m)
{
    struct lh_m_program *p;

    lh_m_locks_start(m);
    RB_FOREACH(p, lh_m_programs, &m->programs.tree) {
        p->parked = true;
        p->ticket = m->commit.next_ticket; /* of this reign */
        p->awaited_for_lookups = p->lookups;
        m->programs.lookups_away += p->lookups;
        lh_lease_client_restore(
            &m->leases, &p->session.client, lh_m_promised_to_program(m, p), p->term);
    }
    if (m->values_owner != NULL)
        m->values_owner->start(m);
    if (m->programs.count == 0) {
        m->programs.all_back = true;
        if (m->values_owner != NULL)
            m->values_owner->all_back(m);
    }
}

static void durable(struct lh_master *m, struct lh_m_program *p)
{
    if (!lh_m_is_durable(m, p->ticket))
        return;
    lh_m_session_announce(m, &p->session);
    if (p->closed && p->over && !p->dirty)
        end_stream_of(m, p, LH_OK, NULL);
    lh_m_program_settle(m, p);
}

void lh_m_programs_durable(struct lh_master *m, const struct lh_m_commit *commit)
{
    struct lh_m_program *p;

    for (size_t i = 0; i < commit->program_count; i++)
        durable(m, commit->programs[i]);
    if (commit->ticket != 1)
        return;
    /* The reign is: those of former reigns that have attached are greeted. */
    RB_FOREACH(p, lh_m_programs, &m->programs.tree) {
        durable(m, p);
    }
}

/* ---- Listing. */

static void view(const struct lh_master *m, struct lh_m_program *p, Leasehold__ProgramInfo *info)
{
    const struct lh_lease_client *client = &p->session.client;
    lh_session_id s = client->session != 0 ? client->session : client->former;

    leasehold__program_info__init(info);
    info->session = (ProtobufCBinaryData){.data = p->id, .len = sizeof p->id};
    info->label = p->label;
    info->host = p->host;
    info->process = p->process;
    info->term_ms = lh_duration_ms(p->term);
    info->left_ms =
        lh_duration_ms(lh_instant_until(m->now, lh_grantor_session_end_of(m->leases.engine, s)));
    info->back = p->back;
    info->linked = p->session.link != 0;
    info->locks = p->locks;
    info->waiting = p->request_count;
    info->values = p->caches;
    info->attached = p->attached_count;
}

static struct lh_m_program *first_of(
    const struct lh_master *m, const Leasehold__ListSessionsRequest *request)
{
    uint8_t id[LH_M_SESSION_ID_BYTES] = {0};
    struct lh_m_program *p;

    if (request->after.len > 0)
        memcpy(id, request->after.data, sizeof id);
    p = lh_m_program_from(m, id);
    return p != NULL && memcmp(p->id, id, sizeof id) == 0 ? RB_NEXT(lh_m_programs, NULL, p) : p;
}

void lh_m_list_sessions(
    struct lh_master *m, uint64_t link, const Leasehold__ListSessionsRequest *request)
{
    Leasehold__ListSessionsReply reply = LEASEHOLD__LIST_SESSIONS_REPLY__INIT;
    uint32_t limit = lh_m_page_size(request->limit, m->config.list_default, m->config.list_max);
    Leasehold__ProgramInfo *items, **pointers;
    size_t count = 0, bytes = 0;

    if (request->after.len != 0 && request->after.len != LH_M_SESSION_ID_BYTES) {
        reply.error = lh_m_wire_error(LH_ERR_INVALID_ARGUMENT);
        reply.error_text = "a session's id has 16 bytes";
        lh_m_reply(m, link, 1, &reply.base);
        return;
    }
    items = lh_alloc_array((size_t)limit + 1, sizeof *items);
    pointers = lh_alloc_array((size_t)limit + 1, sizeof *pointers);
    for (struct lh_m_program *p = first_of(m, request); p != NULL;
         p = RB_NEXT(lh_m_programs, NULL, p)) {
        if (p->over)
            continue;
        view(m, p, &items[count]);
        if (count == limit || !lh_m_page_takes(m, &bytes, &items[count].base)) {
            reply.more = true;
            break;
        }
        pointers[count] = &items[count];
        count++;
    }
    reply.n_sessions = count;
    reply.sessions = pointers;
    lh_m_reply(m, link, 1, &reply.base);
    free(pointers);
    free(items);
}
