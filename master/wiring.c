/* Who hears of what: a package calls nobody above it, so what it has to tell goes to its owner, and
 * is passed on from here. */
#include "master/wiring.h"

#include "master/calls/calls.h"
#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/keep/keep.h"
#include "master/locks/locks.h"
#include "master/policies/policies.h"
#include "master/programs/programs.h"
#include "master/seal/seal.h"
#include "master/servers/servers.h"
#include "master/sessions/sessions.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/promised.h"
#include "master/tables/tables.h"
#include "master/values/values.h"

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

/* ---- Tokens. */

static bool in_force(const struct lh_master *m, const char *name, uint64_t token)
{
    return lh_m_lock_in_force(m, name, token) || LH_PLANTED("token-without-its-lock");
}

static const struct lh_m_token_owner token_owner = {
    .in_force = in_force,
    .awaited = lh_m_programs_awaited,
};

/* ---- Lookups. */

static const struct lh_m_lookup_owner lookup_owner = {
    .path_changes = lh_m_path_changes,
    .caches = lh_m_path_caches,
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
    X(MASTERS, lh_m_masters_call)                                                                  \
    X(LOCATE, lh_m_locate)                                                                         \
    X(OPEN_TAIL, lh_m_open_tail)                                                                   \
    X(LIST_LEASES, lh_m_list_leases)                                                               \
    X(LIST_EVENTS, lh_m_list_events)                                                               \
    X(LIST_SERVERS, lh_m_list_servers)                                                             \
    X(RECALL, lh_m_recall_call)                                                                    \
    X(SET_SERVER, lh_m_set_server)                                                                 \
    X(CANCEL, lh_m_cancel)                                                                         \
    X(LIST_NAMES, lh_m_list_names)                                                                 \
    X(LIST_SESSIONS, lh_m_list_sessions)                                                           \
    X(GET, lh_m_get)                                                                               \
    X(CHANGE, lh_m_change)                                                                         \
    X(SET_POLICY, lh_m_set_policy)                                                                 \
    X(LIST_POLICIES, lh_m_list_policies)

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
    if (lh_m_once_begin(m, link, method, message))
        return true;
    calls[method](m, link, message);
    lh_m_once_end(m);
    return true;
}

static void promised(void *core, struct lh_lease_client *client)
{
    lh_m_promise_to_server(core, lh_m_client_server(client));
}

static const struct lh_lease_client_owner sessions = {
    .ended = lh_m_session_expired, .promised = promised};

/* ---- Programs. */

static const struct lh_m_values_owner values_owner = {
    .read = lh_m_value_read,
    .dropped = lh_m_value_dropped,
    .broadcast = lh_m_broadcast,
    .shown = lh_m_values_shown,
    .broadcasts = lh_m_broadcasts,
    .session_over = lh_m_values_session_over,
    .all_back = lh_m_values_all_back,
    .durable = lh_m_values_durable,
    .start = lh_m_values_start,
    .describe = lh_m_value_describe,
};

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
    lh_leases_client_kind(&m->leases, LH_M_CHUNKSERVER, &sessions);
    lh_leases_kind(&m->leases, LH_M_LEASE_CHUNK, &lh_m_chunk_leases, m->config.chunk_term, false);
    lh_leases_client_kind(&m->leases, LH_M_PROGRAM, &lh_m_program_sessions);
    lh_leases_light_kind(&m->leases, LH_M_LEASE_LOCK, &lh_m_lock_leases, true);
    lh_leases_light_kind(&m->leases, LH_M_LEASE_VALUE, &lh_m_cache_leases, false);
    m->session_kinds[LH_M_CHUNKSERVER] = &lh_m_chunkservers;
    m->session_kinds[LH_M_PROGRAM] = &lh_m_programs;
    m->grant_owner = &grant_owner;
    m->growth_owner = &growth_owner;
    m->token_owner = &token_owner;
    m->lookup_owner = &lookup_owner;
    m->values_owner = &values_owner;
}
