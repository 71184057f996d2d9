/* What a master does with the granting side of the engine. */
#include "base/assert.h"
#include "base/probe.h"
#include "sim/smallscope/engine_world.h"

#include <string.h>

static struct lh_duration session_term(void)
{
    return lh_milliseconds(SESSION_TERM_MS);
}

static struct lh_duration lease_term(void)
{
    return lh_milliseconds(LEASE_TERM_MS);
}

static lh_session_id id_of(const struct grantor *g, uint32_t holder, uint32_t session)
{
    return g->sessions[holder][session];
}

static void forget_sessions(struct grantor *g, uint32_t holder)
{
    for (uint32_t s = 1; s < SESSIONS_MAX; s++) {
        if (g->sessions[holder][s] == 0)
            continue;
        lh_grantor_session_end(g->table, g->sessions[holder][s], NULL, NULL);
        g->sessions[holder][s] = 0;
    }
}

/* A table that holds nothing is as good as a new one, and is not to be paid for. */
static void lose_memory(struct grantor *g)
{
    struct lh_expired expired;

    while (lh_grantor_expire(g->table, g->now, &expired))
        ;
    for (uint32_t i = 0; i < HOLDERS; i++) {
        forget_sessions(g, i);
        g->seen[i].session = 0;
        g->seen[i].received_at = g->seen[i].stamp = (struct lh_instant){0};
    }
    LH_ASSERT(lh_grantor_lease_count(g->table) == 0 && lh_grantor_session_count(g->table) == 0);
}

void grantor_begin(struct grantor *g)
{
    lose_memory(g);
    memset(g->seen, 0, sizeof g->seen);
    g->version = g->incarnation = 0;
    g->to = NOBODY;
    g->waiting = false;
}

void grantor_restart(struct lh_engine *e)
{
    struct grantor *g = &e->grantor;

    lose_memory(g);
    if (g->to != NOBODY && !LH_PLANTED("leases-forgotten-on-restart")) {
        g->waiting = true;
        g->wait_end = lh_term_grantor_end(g->now, session_term());
    }
    say(e, "the grantor crashes and starts again%s\n",
        g->waiting ? ", and waits for one session term (LEASE-7)" : "");
}

/* The lease, if one is in force in this life. */
static bool find(const struct grantor *g, struct lh_lease_info *info)
{
    return lh_grantor_find(g->table, CHUNK, g->now, info);
}

/* Is the lease in force in the present session of the one it was granted to? */
static bool is_held_in_session(const struct grantor *g, struct lh_lease_info *info)
{
    return g->to != NOBODY && find(g, info) && g->seen[g->to].session != 0 &&
           info->session == id_of(g, g->to, g->seen[g->to].session);
}

static void lease_over(struct grantor *g)
{
    g->to = NOBODY;
    g->waiting = false;
}

static bool is_waiting(const struct grantor *g)
{
    return g->waiting && lh_instant_before(g->now, g->wait_end);
}

/* ---- Its own ideas. */

static void send_grant(struct lh_engine *e)
{
    const struct grantor *g = &e->grantor;
    const struct registration *r = &g->seen[g->to];

    emit(e, (struct message){.kind = GRANT,
                .holder = g->to,
                .session = r->session,
                .version = g->version,
                .stamp = r->stamp,
                .lease_term = lh_term_for_holder(lease_term(), DRIFT_PPM)});
}

void grantor_grant(struct lh_engine *e, uint32_t to)
{
    struct grantor *g = &e->grantor;
    const struct registration *r = &g->seen[to];
    uint32_t other = 1 - to;
    struct lh_lease_info info;
    int error = LH_ERR_LEASE_HELD;

    bool goes_on = g->to == to && is_held_in_session(g, &info); /* LEASE-3 */
    if (goes_on || !is_waiting(g))
        error = lh_grantor_grant(g->table, CHUNK, g->version + 1, LH_LEASE_EXCLUSIVE,
            id_of(g, to, r->session), g->now, r->received_at, lease_term());
    if (error != LH_OK) {
        say(e, "the grantor grants %s nothing: %s\n", holder_name(to), lh_error_text(error));
        return;
    }
    g->version++;
    g->to = to;
    g->incarnation = r->incarnation;
    g->waiting = g->waiting && goes_on;
    say(e, "the grantor grants version %u to %s\n", g->version, holder_name(to));
    if (acts(e, other))
        e->violation = "INV-2: granted while the other holder may still act";
    send_grant(e);
}

bool grantor_can_repeat(const struct grantor *g)
{
    struct lh_lease_info info;

    /* A grant that is being recalled is not prolonged by being sent again (LEASE-4). */
    return is_held_in_session(g, &info) && !info.recalling;
}

void grantor_repeat(struct lh_engine *e)
{
    struct grantor *g = &e->grantor;
    const struct registration *r = &g->seen[g->to];

    /* It counts from the last heartbeat: our end moves first. */
    int error = lh_grantor_grant(g->table, CHUNK, g->version, LH_LEASE_EXCLUSIVE,
        id_of(g, g->to, r->session), g->now, r->received_at, lease_term());
    say(e, "the grantor sends version %u to %s again\n", g->version, holder_name(g->to));
    if (error == LH_OK)
        send_grant(e);
}

bool grantor_can_recall(const struct grantor *g)
{
    struct lh_lease_info info;

    return find(g, &info) && !info.recalling;
}

void grantor_recall(struct lh_engine *e)
{
    /* The message need not be sent: a holder may release at any time. */
    int error = lh_grantor_recall(e->grantor.table, CHUNK);

    say(e, "the grantor recalls the lease%s\n", error == LH_OK ? "" : ", in vain");
}

/* The wait or the lease is over and nobody has noticed. */
static bool is_over(const struct grantor *g)
{
    struct lh_lease_info info;

    return g->to != NOBODY && !is_waiting(g) && !find(g, &info);
}

bool grantor_has_timer(const struct grantor *g)
{
    return lh_instant_reached(g->now, lh_grantor_deadline(g->table)) || is_over(g);
}

void grantor_timer(struct lh_engine *e)
{
    struct grantor *g = &e->grantor;
    struct lh_expired expired;

    say(e, "the grantor looks at what has run out\n");
    while (lh_grantor_expire(g->table, g->now, &expired)) {
        if (!expired.is_session)
            continue;
        for (uint32_t i = 0; i < HOLDERS; i++) {
            for (uint32_t s = 1; s < SESSIONS_MAX; s++) {
                if (g->sessions[i][s] != expired.session)
                    continue;
                say(e, "     session %u of %s is over\n", s, holder_name(i));
                g->sessions[i][s] = 0;
                if (g->seen[i].session == s)
                    g->seen[i].session = 0;
            }
        }
    }
    if (is_over(g)) {
        say(e, "     the lease of %s at version %u is over\n", holder_name(g->to), g->version);
        lease_over(g);
    }
}

/* ---- What it is told. */

/* Does the lease that a registration shows go on in the session that it opens? */
static bool continues(struct grantor *g, const struct message *m, uint32_t from, uint32_t to)
{
    const struct registration *r = &g->seen[m->holder];
    lh_session_id session = id_of(g, m->holder, to);
    int error;

    if (m->version == 0 || g->to != m->holder || g->incarnation != m->incarnation ||
        g->version != m->version)
        return false;
    error = lh_grantor_continue(g->table, CHUNK, m->version, id_of(g, m->holder, from), session,
        g->now, r->received_at, lease_term());
    if (error != LH_OK && is_waiting(g)) /* LEASE-7: the durable grant is all that is known of it */
        error = lh_grantor_grant(g->table, CHUNK, m->version, LH_LEASE_EXCLUSIVE, session, g->now,
            r->received_at, lease_term());
    return error == LH_OK;
}

/* The numbers of sessions are the world's, so that no life of the grantor names one twice. */
static void on_register(struct lh_engine *e, const struct message *m)
{
    struct grantor *g = &e->grantor;
    struct registration *r = &g->seen[m->holder];
    uint32_t former = r->session;

    if (m->incarnation < r->incarnation ||
        (m->incarnation == r->incarnation && m->number <= r->number)) {
        say(e, "; the grantor has seen a later one (SES-1)\n");
        return;
    }
    if (m->incarnation > r->incarnation || LH_PLANTED("leases-freed-on-reregistration")) {
        /* SES-5: the old process is dead. */
        forget_sessions(g, m->holder);
        if (g->to == m->holder)
            lease_over(g);
    } else if (former != 0) {
        lh_grantor_session_close(g->table, id_of(g, m->holder, former));
    }
    uint32_t session = ++e->sessions[m->holder];
    LH_ASSERT(session < SESSIONS_MAX);
    g->sessions[m->holder][session] =
        lh_grantor_session_open(g->table, g->now, session_term(), NULL);
    *r = (struct registration){.incarnation = m->incarnation,
        .number = m->number,
        .session = session,
        .received_at = g->now,
        .stamp = m->stamp};
    bool goes_on = continues(g, m, former, session);
    say(e, "; the grantor opens session %u", session);
    say(e, goes_on ? ", in which version %u goes on\n" : "\n", m->version);
    emit(e, (struct message){.kind = REGISTERED,
                .holder = m->holder,
                .incarnation = m->incarnation,
                .number = m->number,
                .session = session,
                .version = goes_on ? m->version : 0,
                .stamp = m->stamp,
                .session_term = lh_term_for_holder(session_term(), DRIFT_PPM),
                .lease_term = lh_term_for_holder(lease_term(), DRIFT_PPM)});
}

static void on_heartbeat(struct lh_engine *e, const struct message *m)
{
    struct grantor *g = &e->grantor;
    struct registration *r = &g->seen[m->holder];
    lh_session_id session = id_of(g, m->holder, m->session);

    if (lh_grantor_session_renew(g->table, session, g->now, session_term()) != LH_OK) {
        say(e, "; the grantor knows no such session\n");
        return;
    }
    /* One that was overtaken carries an older stamp, and what counts from it ends earlier for the
     * holder: stamp and reading stay together. */
    r->received_at = g->now;
    r->stamp = m->stamp;
    bool extended = m->version != 0 && lh_grantor_extend(g->table, CHUNK, m->version, session,
                                           g->now, r->received_at, lease_term()) == LH_OK;
    say(e, "; the grantor renews the session%s\n", extended ? " and extends the lease" : "");
    emit(e, (struct message){.kind = ANSWER,
                .holder = m->holder,
                .session = m->session,
                .version = extended ? m->version : 0,
                .stamp = m->stamp,
                .session_term = lh_term_for_holder(session_term(), DRIFT_PPM),
                .lease_term = lh_term_for_holder(lease_term(), DRIFT_PPM)});
}

static void on_release(struct lh_engine *e, const struct message *m)
{
    struct grantor *g = &e->grantor;
    lh_session_id session = id_of(g, m->holder, m->session);
    int error = lh_grantor_release(g->table, CHUNK, m->version, session);

    say(e, "; the grantor: %s\n", error == LH_OK ? "the lease is free" : lh_error_text(error));
    if (error == LH_OK)
        lease_over(g);
}

void grantor_receive(struct lh_engine *e, const struct message *m)
{
    if (m->kind == REGISTER)
        on_register(e, m);
    else if (m->kind == HEARTBEAT)
        on_heartbeat(e, m);
    else
        on_release(e, m);
}
