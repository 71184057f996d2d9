/* Who hears of what: a package calls nobody above it, so what it has to tell goes to its owner, and
 * is passed on from here. */
#include "master/wiring.h"

#include "master/calls/explain.h"
#include "master/calls/garbage_call.h"
#include "master/calls/listing.h"
#include "master/calls/namespace.h"
#include "master/calls/set_server.h"
#include "master/calls/states.h"
#include "master/calls/tail.h"
#include "master/calls/trash.h"
#include "master/grants/answers.h"
#include "master/grants/leases.h"
#include "master/grants/owner.h"
#include "master/growth/created.h"
#include "master/growth/creation.h"
#include "master/growth/owner.h"
#include "master/growth/preallocated.h"
#include "master/inventory/extras.h"
#include "master/inventory/health.h"
#include "master/inventory/reports.h"
#include "master/keep/copies.h"
#include "master/keep/garbage.h"
#include "master/keep/moving.h"
#include "master/keep/recovered.h"
#include "master/keep/wanting.h"
#include "master/seal/failed.h"
#include "master/seal/roll.h"
#include "master/seal/seal.h"
#include "master/sessions/owner.h"
#include "master/sessions/sessions.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

static void began(struct lh_master *m, struct lh_m_server *s, const Leasehold__Register *request,
    struct lh_m_process process, struct lh_m_chunk **continued, size_t *count)
{
    lh_m_shows(m, s, request, process.same, process.proven, continued, count);
    lh_m_reports_keep(m, s, request);
}

/* Sends what the server has to hear of its leases. */
static void push_all(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_lease *lease;

    TAILQ_FOREACH(lease, &s->session.lessee.todo, todo_link)
        lh_m_push(m, lh_m_leased_motion(lease)->chunk);
}

static void announced(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_m_motion *mo;

    TAILQ_FOREACH(mo, &m->creating, creation.link)
        if (lh_m_member(mo->chunk, s) != NULL)
            lh_m_creation_send(m, mo->chunk, s);
    push_all(m, s);
    lh_m_roll_announced(m, s);
    if (s->report.count == 0)
        lh_m_server_changed(m, s);
}

static bool heard(struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat,
    bool *extended)
{
    lh_m_on_progress(m, s, heartbeat);
    lh_m_extend(m, s, heartbeat, extended);
    return lh_m_sum_differs(s, heartbeat);
}

static void answered(struct lh_master *m, struct lh_m_server *s)
{
    push_all(m, s);
}

static void stream_ended(struct lh_master *m, struct lh_m_server *s)
{
    const struct lh_lease *lease;

    while (LH_PLANTED("regrant-when-session-breaks") && s != NULL &&
           (lease = TAILQ_FIRST(&s->session.lessee.held)) != NULL)
        lh_m_lease_over(m, lh_m_leased_motion(lease)->chunk, "went with its session");
    lh_m_rolls_advance(m);
}

static void ended(struct lh_master *m, struct lh_m_server *s, bool replaced)
{
    lh_m_extras_forget(m, s);
    lh_m_copies_end(m, s);
    if (replaced)
        lh_m_reports_forget(m, s);
}

/* ---- Messages of a session. */

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

static const struct lh_m_session_handler handlers[] = {
#define X(BODY, field, function)                                                                   \
    [LEASEHOLD__SESSION_REQUEST__BODY_##BODY] = {field##_session, field##_take},
    MESSAGES(X)
#undef X
};

static const struct lh_m_session_owner session_owner = {
    .began = began,
    .announced = announced,
    .heard = heard,
    .answered = answered,
    .stream_ended = stream_ended,
    .ended = ended,
    .changed = lh_m_server_changed,
    .handlers = handlers,
    .handler_count = sizeof handlers / sizeof *handlers,
};

/* ---- Leases, and new chunks. */

static void confirmed(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_prealloc_want(m, c->file);
}

static void over(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s)
{
    lh_m_repair_pause(m, c);
    if (lh_m_drained(s))
        lh_m_moving_kick(m);
}

static void ran_out(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!c->intent_to_seal)
        lh_m_prealloc_drop(m, c->file); /* else it is another tail's, or about to be */
}

static const struct lh_m_grant_owner grant_owner = {
    .confirmed = confirmed,
    .over = over,
    .ran_out = ran_out,
};

static const struct lh_m_growth_owner growth_owner = {
    .changed = lh_m_roll_prealloc_changed,
};

/* ---- Unary calls. */

#define CALLS(X)                                                                                   \
    X(CREATE, lh_m_create)                                                                         \
    X(STAT, lh_m_stat)                                                                             \
    X(LIST, lh_m_list)                                                                             \
    X(RENAME, lh_m_rename)                                                                         \
    X(REMOVE, lh_m_remove)                                                                         \
    X(RESTORE, lh_m_restore)                                                                       \
    X(EXPLAIN, lh_m_explain)                                                                       \
    X(LIST_CHUNKS, lh_m_list_chunks)                                                               \
    X(GARBAGE, lh_m_garbage_call)                                                                  \
    X(LOCATE, lh_m_locate)                                                                         \
    X(OPEN_TAIL, lh_m_open_tail)                                                                   \
    X(LIST_LEASES, lh_m_list_leases)                                                               \
    X(LIST_SERVERS, lh_m_list_servers)                                                             \
    X(RECALL, lh_m_recall_call)                                                                    \
    X(SET_SERVER, lh_m_set_server)

#define X(METHOD, function)                                                                        \
    static void METHOD##_call(struct lh_master *m, uint64_t link, const void *message)             \
    {                                                                                              \
        function(m, link, message);                                                                \
    }
CALLS(X)
#undef X

typedef void call_function(struct lh_master *m, uint64_t link, const void *message);

static call_function *const calls[] = {
#define X(METHOD, function) [LH_METHOD_##METHOD] = METHOD##_call,
    CALLS(X)
#undef X
};

bool lh_m_call(struct lh_master *m, uint64_t link, enum lh_method method, const void *message)
{
    if ((size_t)method >= sizeof calls / sizeof *calls || calls[method] == NULL)
        return false;
    calls[method](m, link, message);
    return true;
}

static const struct lh_lessee_owner chunkservers = {.ended = lh_m_session_expired};

/* Every session of former masters is over; ours are not longer than the setting (LEASE-7). */
static void waited(void *core)
{
    struct lh_master *m = core;

    if (m->longest_session_ns > m->config.session_term.ns) {
        LH_MARK("longest-session-lowered");
        m->longest_session_ns = m->config.session_term.ns;
        lh_m_dirty_master(m);
    }
    lh_m_touch_waited(m);
}

void lh_m_wire(struct lh_master *m)
{
    lh_leases_init(&m->leases, m, &m->timers, waited);
    lh_leases_lessee_kind(&m->leases, LH_M_CHUNKSERVER, &chunkservers);
    lh_leases_kind(&m->leases, LH_M_LEASE_CHUNK, &lh_m_chunk_leases, m->config.chunk_term, false);
    m->session_owner = &session_owner;
    m->grant_owner = &grant_owner;
    m->growth_owner = &growth_owner;
}
