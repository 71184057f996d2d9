/* Who may take a chunk's appends: the lease of each chunk, between its durable grant and the lease
 * engine (LEASE-1 to LEASE-7).
 *
 *   FREE      no holder
 *   GRANTING  a holder, not `confirmed`: from the decision on it counts as held
 *   HELD      `confirmed`; RECALLING is the flag `recalling`
 *   WAITING   a holder and `waiting`: a former master's grant; whoever shows it continues it */
#include "master/grants/leases.h"

#include "master/grants/owner.h"
#include "master/grants/refusals.h"
#include "master/sessions/reach.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

/* LEASE-8: what the holder, by all that it has said in this session, may act on. What this master
 * means to do next, an intent to seal or a term of its own that ends, does not change it. */
static void sum_update(const struct lh_m_chunk *c, struct lh_m_grant *g)
{
    uint64_t version =
        g->holder != NULL && g->confirmed && g->session != 0 && g->session == g->holder->session.id
            ? g->version
            : 0;

    if (version == g->summed_version)
        return;
    if (g->summed_version != 0)
        lh_lease_sum_remove(&g->holder->leases.sum, c->id, g->summed_version);
    if (version != 0)
        lh_lease_sum_add(&g->holder->leases.sum, c->id, version);
    g->summed_version = version;
}

static void todo_update(const struct lh_m_chunk *c, struct lh_m_motion *mo)
{
    struct lh_m_grant *g = &mo->grant;
    /* After an intent to seal the holder hears of fences alone (FAIL-2a). */
    bool wanted = g->holder != NULL && !c->intent_to_seal && (!g->confirmed || g->recalling);

    if (wanted == g->in_todo)
        return;
    if (wanted)
        TAILQ_INSERT_TAIL(&g->holder->leases.todo, mo, grant.todo_link);
    else
        TAILQ_REMOVE(&g->holder->leases.todo, mo, grant.todo_link);
    g->in_todo = wanted;
}

void lh_m_lease_changed(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_motion *mo = lh_m_move(m, c);

    todo_update(c, mo);
    sum_update(c, &mo->grant);
}

void lh_m_set_holder(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s)
{
    struct lh_m_motion *mo = lh_m_move(m, c);
    struct lh_m_grant *g = &mo->grant;

    if (g->holder != NULL) {
        if (g->in_todo)
            TAILQ_REMOVE(&g->holder->leases.todo, mo, grant.todo_link);
        g->in_todo = false;
        if (g->summed_version != 0)
            lh_lease_sum_remove(&g->holder->leases.sum, c->id, g->summed_version);
        g->summed_version = 0;
        TAILQ_REMOVE(&g->holder->leases.held, mo, grant.held_link);
        g->holder->leases.count--;
        RB_REMOVE(lh_m_leased, &m->leased, mo);
    }
    g->holder = s;
    g->incarnation = 0;
    if (s != NULL) {
        TAILQ_INSERT_TAIL(&s->leases.held, mo, grant.held_link);
        s->leases.count++;
        RB_INSERT(lh_m_leased, &m->leased, mo);
        g->incarnation = s->incarnation;
    }
}

void lh_m_grant_forget(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_motion *mo = lh_m_move(m, c);
    struct lh_m_grant *g = &mo->grant;

    if (g->waiting)
        TAILQ_REMOVE(&m->waiting, mo, grant.waiting_link);
    g->waiting = false;
    /* The engine keeps a lease that runs: nobody else will ever ask for this key. */
    lh_m_set_holder(m, c, NULL);
    g->session = 0;
}

void lh_m_grant_load(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *holder,
    uint64_t incarnation, uint64_t version)
{
    struct lh_m_motion *mo = lh_m_move(m, c);
    struct lh_m_grant *g = &mo->grant;

    lh_m_set_holder(m, c, holder);
    g->incarnation = incarnation;
    g->version = version;
    g->waiting = true; /* LEASE-7 */
    TAILQ_INSERT_TAIL(&m->waiting, mo, grant.waiting_link);
    lh_m_lease_changed(m, c);
}

bool lh_m_in_force(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_lease_info info;

    return c->motion->grant.session != 0 && lh_grantor_find(m->grantor, c->id, m->now, &info) &&
           info.session == c->motion->grant.session;
}

bool lh_m_held(const struct lh_master *m, const struct lh_m_chunk *c)
{
    return c->motion->grant.waiting || lh_m_in_force(m, c);
}

struct lh_duration lh_m_lease_left(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_instant end = m->now;

    if (c->motion->grant.waiting)
        end = m->wait_end;
    if (lh_m_in_force(m, c))
        end = lh_instant_max(end, lh_grantor_free_at(m->grantor, c->id, m->now));
    return lh_instant_until(m->now, end);
}

bool lh_m_has_primary(const struct lh_master *m, const struct lh_m_chunk *c)
{
    return c->motion->grant.confirmed && !c->motion->grant.recalling && !c->intent_to_seal &&
           c->motion->grant.session == c->motion->grant.holder->session.id && lh_m_in_force(m, c);
}

void lh_m_lease_over(struct lh_master *m, struct lh_m_chunk *c, const char *why)
{
    struct lh_m_motion *mo = lh_m_move(m, c);
    struct lh_m_grant *g = &mo->grant;
    struct lh_m_server *s = g->holder;

    LH_ASSERT(s != NULL);
    if (g->session != 0) {
        /* Whether the engine still had it does not matter. */
        int error = lh_grantor_release(m->grantor, c->id, g->version, g->session);
        (void)error;
    }
    if (g->waiting)
        TAILQ_REMOVE(&m->waiting, mo, grant.waiting_link);
    g->waiting = false;
    lh_m_set_holder(m, c, NULL);
    g->session = 0;
    g->sent = g->confirmed = g->recalling = false;
    if (!c->sealed) /* the store names no holder of a sealed one */
        lh_m_dirty_chunk(m, c);
    lh_m_touch(m, c->file);
    m->grant_owner->over(m, c, s);
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": lease of %s at version %" PRIu64 " %s",
        c->id, c->file->path, s->id, g->version, why);
}

/* REC-1: full members of the newest durable version alone; SES-4 and SES-6: only those that hear us
 * and whose disk answers. */
bool lh_m_can_lead(const struct lh_master *m, const struct lh_m_member *member)
{
    return !member->joining && !member->lost && !lh_m_server_of(m, member)->room.failing &&
           lh_m_reachable(m, lh_m_server_of(m, member));
}

/* What speaks against it, as a number: that it lately gave the lease up, or, worse, is drained. */
static unsigned reluctance(const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    return (lh_m_drained(s) ? 2u : 0u) + (s == c->motion->grant.avoid ? 1u : 0u);
}

/* Who should have the free lease? */
static struct lh_m_server *choose_primary(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_m_server *best = NULL;

    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (!lh_m_can_lead(m, &c->members[i]))
            continue;
        if (s == c->motion->grant.avoid && !lh_instant_reached(m->now, c->motion->grant.retry_at))
            continue;
        if (best == NULL) {
            best = s;
        } else if (reluctance(c, s) != reluctance(c, best)) {
            if (reluctance(c, s) < reluctance(c, best))
                best = s;
        } else if (s->leases.count != best->leases.count) {
            if (s->leases.count < best->leases.count)
                best = s;
        } else if (s == c->motion->grant.last_primary) {
            best = s;
        }
    }
    return best;
}

/* LEASE-7: an older copy of the store does not name who holds a chunk now. What anybody may hold of
 * the history that it lacks is over with the longest session. */
static bool may_be_held_unknown(const struct lh_master *m, const struct lh_m_chunk *c)
{
    return (m->behind != NULL || m->config.restored) && c->version > 0 &&
           lh_instant_before(m->now, m->wait_end);
}

bool lh_m_grant_free(struct lh_master *m, struct lh_m_chunk *c)
{
    LH_ASSERT(!c->sealed && !c->intent_to_seal && !lh_m_held(m, c));
    if (lh_m_rests(m, c) || may_be_held_unknown(m, c))
        return false;
    m->counts.expiries += c->motion->grant.holder != NULL;
    if (c->motion->grant.holder != NULL)
        lh_m_lease_over(m, c, "has run out"); /* it ended, and was not collected yet */

    struct lh_m_server *s = choose_primary(m, c);
    if (s == NULL ||
        lh_grantor_grant(m->grantor, c->id, lh_m_next_version(c), LH_LEASE_EXCLUSIVE, s->session.id,
            m->now, s->session.received_at, m->config.chunk_term) != LH_OK) {
        LH_MARK("grant-to-nobody");
        return false;
    }
    if (c->version == 0)
        LH_MARK("grant-first");
    else if (s == c->motion->grant.last_primary)
        LH_MARK("grant-to-the-same");
    else
        LH_MARK("grant-to-another");
    struct lh_m_grant *g = &lh_m_move(m, c)->grant;
    m->counts.grants++;
    c->version = lh_m_next_version(c);
    if (!c->created)
        lh_m_creation_stop(m, c);
    c->created = true;
    lh_m_set_holder(m, c, s);
    g->session = s->session.id;
    g->version = c->version;
    g->sent = g->confirmed = g->recalling = false;
    g->appends = 0;
    lh_m_lease_changed(m, c);
    lh_m_dirty_chunk(m, c); /* LEASE-1: durable first; lh_m_chunk_durable() sends it */
    g->ticket = c->motion->ticket;
    g->at = m->now;
    if (LH_PLANTED("grant-sent-before-durable")) {
        lh_m_send_grant(m, c);
        g->sent = false; /* this time did not count */
    }
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": granting version %" PRIu64 " to %s",
        c->id, c->file->path, c->version, s->id);
    return true;
}

void lh_m_regrant(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_grant *g = &lh_m_move(m, c)->grant;
    struct lh_m_server *s = g->holder;
    int error = lh_grantor_grant(m->grantor, c->id, lh_m_next_version(c), LH_LEASE_EXCLUSIVE,
        g->session, m->now, s->session.received_at, m->config.chunk_term);

    /* The caller saw the lease in force in this very session. */
    LH_ASSERT(error == LH_OK);
    LH_MARK("grant-new-version-same-session");
    m->counts.regrants++;
    g->version = c->version = lh_m_next_version(c);
    g->sent = g->confirmed = false; /* `recalling` carries over (LEASE-5) */
    lh_m_lease_changed(m, c);
    lh_m_dirty_chunk(m, c);
    g->ticket = c->motion->ticket;
    g->at = m->now;
}

void lh_m_send_grant(struct lh_master *m, struct lh_m_chunk *c)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Grant grant = LEASEHOLD__GRANT__INIT;
    Leasehold__Member members[LH_REPLICATION_MAX];
    Leasehold__Member *pointers[LH_REPLICATION_MAX];
    struct lh_m_grant *g = &lh_m_move(m, c)->grant;
    struct lh_m_server *s = g->holder;

    LH_ASSERT(!c->intent_to_seal); /* FAIL-2a */
    /* It counts from the last heartbeat's stamp, also when sent again: our end moves first. */
    if (lh_grantor_grant(m->grantor, c->id, c->version, LH_LEASE_EXCLUSIVE, g->session, m->now,
            s->session.received_at, m->config.chunk_term) != LH_OK)
        return;
    for (uint32_t i = 0; i < c->member_count; i++) {
        leasehold__member__init(&members[i]);
        members[i].server_id = lh_m_server_of(m, &c->members[i])->id;
        members[i].address = lh_m_server_of(m, &c->members[i])->address;
        members[i].joining = c->members[i].joining;
        pointers[i] = &members[i];
    }
    grant.session = lh_m_wire_session(m, g->session);
    grant.chunk = c->id;
    grant.version = c->version;
    grant.stamp = s->session.stamp;
    grant.term_ns = m->holder_chunk_term.ns;
    grant.n_members = c->member_count;
    grant.members = pointers;
    grant.min_replicas = c->file->min_replicas;
    grant.durability = c->file->durability;
    grant.chunk_size = c->file->chunk_size;
    grant.master_term = m->term;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_GRANT;
    reply.grant = &grant;
    if (g->sent)
        LH_MARK("grant-sent-again");
    g->sent = lh_m_send(m, s, &reply) || g->sent;
}

static void send_recall(struct lh_master *m, struct lh_m_chunk *c)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__RecallLease recall = LEASEHOLD__RECALL_LEASE__INIT;

    recall.session = lh_m_wire_session(m, c->motion->grant.session);
    recall.chunk = c->id;
    recall.version = c->version;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_RECALL;
    reply.recall = &recall;
    lh_m_send(m, c->motion->grant.holder, &reply);
}

void lh_m_push(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_server *s = c->motion->grant.holder;

    /* Only what is durable, and only in the session that the lease is in (SES-3). */
    if (s == NULL || c->removed || c->intent_to_seal || c->motion->grant.session == 0 ||
        c->motion->grant.session != s->session.id || !s->session.announced ||
        !lh_m_is_durable(m, c->motion->ticket) || !lh_m_in_force(m, c))
        return;
    /* A grant that is being recalled is not prolonged by being sent again (LEASE-4). */
    if (!c->motion->grant.confirmed && !(c->motion->grant.recalling && c->motion->grant.sent))
        lh_m_send_grant(m, c);
    if (c->motion->grant.recalling && c->motion->grant.sent) {
        LH_MARK("recall-sent");
        if (!c->motion->grant.confirmed)
            LH_MARK("recall-before-confirm");
        send_recall(m, c);
    }
}

void lh_m_recall(struct lh_master *m, struct lh_m_chunk *c)
{
    int error;

    if (c->motion->grant.recalling || c->intent_to_seal)
        return;
    if (c->motion->grant.waiting)
        LH_MARK("recall-in-restart-wait");
    m->counts.recalls++;
    lh_m_move(m, c)->grant.recalling = true;
    error = lh_grantor_recall(m->grantor, c->id); /* NOT_LEASED while waiting: remembered here */
    (void)error;
    lh_m_lease_changed(m, c);
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": recalling version %" PRIu64 " from %s",
        c->id, c->file->path, c->version, c->motion->grant.holder->id);
    lh_m_push(m, c);
}
