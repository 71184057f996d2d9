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
static void sum_update(struct lh_m_chunk *c)
{
    uint64_t version = c->grant.holder != NULL && c->grant.confirmed && c->grant.session != 0 &&
                               c->grant.session == c->grant.holder->session.id
                           ? c->grant.version
                           : 0;

    if (version == c->grant.summed_version)
        return;
    if (c->grant.summed_version != 0)
        lh_lease_sum_remove(&c->grant.holder->leases.sum, c->id, c->grant.summed_version);
    if (version != 0)
        lh_lease_sum_add(&c->grant.holder->leases.sum, c->id, version);
    c->grant.summed_version = version;
}

static void todo_update(struct lh_m_chunk *c)
{
    /* After an intent to seal the holder hears of fences alone (FAIL-2a). */
    bool wanted = c->grant.holder != NULL && !c->intent_to_seal &&
                  (!c->grant.confirmed || c->grant.recalling);

    if (wanted == c->grant.in_todo)
        return;
    if (wanted)
        TAILQ_INSERT_TAIL(&c->grant.holder->leases.todo, c, grant.todo_link);
    else
        TAILQ_REMOVE(&c->grant.holder->leases.todo, c, grant.todo_link);
    c->grant.in_todo = wanted;
}

void lh_m_lease_changed(struct lh_m_chunk *c)
{
    todo_update(c);
    sum_update(c);
}

void lh_m_set_holder(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s)
{
    if (c->grant.holder != NULL) {
        if (c->grant.in_todo)
            TAILQ_REMOVE(&c->grant.holder->leases.todo, c, grant.todo_link);
        c->grant.in_todo = false;
        if (c->grant.summed_version != 0)
            lh_lease_sum_remove(&c->grant.holder->leases.sum, c->id, c->grant.summed_version);
        c->grant.summed_version = 0;
        TAILQ_REMOVE(&c->grant.holder->leases.held, c, grant.held_link);
        c->grant.holder->leases.count--;
        RB_REMOVE(lh_m_leased, &m->leased, c);
    }
    c->grant.holder = s;
    c->grant.incarnation = 0;
    if (s != NULL) {
        TAILQ_INSERT_TAIL(&s->leases.held, c, grant.held_link);
        s->leases.count++;
        RB_INSERT(lh_m_leased, &m->leased, c);
        c->grant.incarnation = s->incarnation;
    }
}

void lh_m_grant_forget(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->grant.waiting)
        TAILQ_REMOVE(&m->waiting, c, grant.waiting_link);
    c->grant.waiting = false;
    /* The engine keeps a lease that runs: nobody else will ever ask for this key. */
    lh_m_set_holder(m, c, NULL);
    c->grant.session = 0;
}

void lh_m_grant_load(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *holder,
    uint64_t incarnation, uint64_t version)
{
    lh_m_set_holder(m, c, holder);
    c->grant.incarnation = incarnation;
    c->grant.version = version;
    c->grant.waiting = true; /* LEASE-7 */
    TAILQ_INSERT_TAIL(&m->waiting, c, grant.waiting_link);
    lh_m_lease_changed(c);
}

bool lh_m_in_force(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_lease_info info;

    return c->grant.session != 0 && lh_grantor_find(m->grantor, c->id, m->now, &info) &&
           info.session == c->grant.session;
}

bool lh_m_held(const struct lh_master *m, const struct lh_m_chunk *c)
{
    return c->grant.waiting || lh_m_in_force(m, c);
}

struct lh_duration lh_m_lease_left(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_instant end = m->now;

    if (c->grant.waiting)
        end = m->wait_end;
    if (lh_m_in_force(m, c))
        end = lh_instant_max(end, lh_grantor_free_at(m->grantor, c->id, m->now));
    return lh_instant_until(m->now, end);
}

bool lh_m_has_primary(const struct lh_master *m, const struct lh_m_chunk *c)
{
    return c->grant.confirmed && !c->grant.recalling && !c->intent_to_seal &&
           c->grant.session == c->grant.holder->session.id && lh_m_in_force(m, c);
}

void lh_m_lease_over(struct lh_master *m, struct lh_m_chunk *c, const char *why)
{
    struct lh_m_server *s = c->grant.holder;

    LH_ASSERT(s != NULL);
    if (c->grant.session != 0) {
        /* Whether the engine still had it does not matter. */
        int error = lh_grantor_release(m->grantor, c->id, c->grant.version, c->grant.session);
        (void)error;
    }
    if (c->grant.waiting)
        TAILQ_REMOVE(&m->waiting, c, grant.waiting_link);
    c->grant.waiting = false;
    lh_m_set_holder(m, c, NULL);
    c->grant.session = 0;
    c->grant.sent = c->grant.confirmed = c->grant.recalling = false;
    if (!c->sealed) /* the store names no holder of a sealed one */
        lh_m_dirty_chunk(m, c);
    lh_m_touch(m, c->file);
    m->grant_owner->over(m, c, s);
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": lease of %s at version %" PRIu64 " %s",
        c->id, c->file->path, s->id, c->grant.version, why);
}

/* REC-1: full members of the newest durable version alone; SES-4 and SES-6: only those that hear us
 * and whose disk answers. */
bool lh_m_can_lead(const struct lh_master *m, const struct lh_m_member *member)
{
    return !member->joining && !member->lost && !member->server->room.failing &&
           lh_m_reachable(m, member->server);
}

/* What speaks against it, as a number: that it lately gave the lease up, or, worse, is drained. */
static unsigned reluctance(const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    return (lh_m_drained(s) ? 2u : 0u) + (s == c->grant.avoid ? 1u : 0u);
}

/* Who should have the free lease? */
static struct lh_m_server *choose_primary(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_m_server *best = NULL;

    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_server *s = c->members[i].server;
        if (!lh_m_can_lead(m, &c->members[i]))
            continue;
        if (s == c->grant.avoid && !lh_instant_reached(m->now, c->grant.retry_at))
            continue;
        if (best == NULL) {
            best = s;
        } else if (reluctance(c, s) != reluctance(c, best)) {
            if (reluctance(c, s) < reluctance(c, best))
                best = s;
        } else if (s->leases.count != best->leases.count) {
            if (s->leases.count < best->leases.count)
                best = s;
        } else if (s == c->grant.last_primary) {
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
    m->counts.expiries += c->grant.holder != NULL;
    if (c->grant.holder != NULL)
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
    else if (s == c->grant.last_primary)
        LH_MARK("grant-to-the-same");
    else
        LH_MARK("grant-to-another");
    m->counts.grants++;
    c->version = lh_m_next_version(c);
    if (!c->created)
        lh_m_creation_stop(m, c);
    c->created = true;
    lh_m_set_holder(m, c, s);
    c->grant.session = s->session.id;
    c->grant.version = c->version;
    c->grant.sent = c->grant.confirmed = c->grant.recalling = false;
    c->grant.appends = 0;
    lh_m_lease_changed(c);
    lh_m_dirty_chunk(m, c); /* LEASE-1: durable first; lh_m_chunk_durable() sends it */
    c->grant.ticket = c->ticket;
    c->grant.at = m->now;
    if (LH_PLANTED("grant-sent-before-durable")) {
        lh_m_send_grant(m, c);
        c->grant.sent = false; /* this time did not count */
    }
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": granting version %" PRIu64 " to %s",
        c->id, c->file->path, c->version, s->id);
    return true;
}

void lh_m_regrant(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_server *s = c->grant.holder;
    int error = lh_grantor_grant(m->grantor, c->id, lh_m_next_version(c), LH_LEASE_EXCLUSIVE,
        c->grant.session, m->now, s->session.received_at, m->config.chunk_term);

    /* The caller saw the lease in force in this very session. */
    LH_ASSERT(error == LH_OK);
    LH_MARK("grant-new-version-same-session");
    m->counts.regrants++;
    c->grant.version = c->version = lh_m_next_version(c);
    c->grant.sent = c->grant.confirmed = false; /* `recalling` carries over (LEASE-5) */
    lh_m_lease_changed(c);
    lh_m_dirty_chunk(m, c);
    c->grant.ticket = c->ticket;
    c->grant.at = m->now;
}

void lh_m_send_grant(struct lh_master *m, struct lh_m_chunk *c)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Grant grant = LEASEHOLD__GRANT__INIT;
    Leasehold__Member members[LH_REPLICATION_MAX];
    Leasehold__Member *pointers[LH_REPLICATION_MAX];
    struct lh_m_server *s = c->grant.holder;

    LH_ASSERT(!c->intent_to_seal); /* FAIL-2a */
    /* It counts from the last heartbeat's stamp, also when sent again: our end moves first. */
    if (lh_grantor_grant(m->grantor, c->id, c->version, LH_LEASE_EXCLUSIVE, c->grant.session,
            m->now, s->session.received_at, m->config.chunk_term) != LH_OK)
        return;
    for (uint32_t i = 0; i < c->member_count; i++) {
        leasehold__member__init(&members[i]);
        members[i].server_id = c->members[i].server->id;
        members[i].address = c->members[i].server->address;
        members[i].joining = c->members[i].joining;
        pointers[i] = &members[i];
    }
    grant.session = lh_m_wire_session(m, c->grant.session);
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
    if (c->grant.sent)
        LH_MARK("grant-sent-again");
    c->grant.sent = lh_m_send(m, s, &reply) || c->grant.sent;
}

static void send_recall(struct lh_master *m, struct lh_m_chunk *c)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__RecallLease recall = LEASEHOLD__RECALL_LEASE__INIT;

    recall.session = lh_m_wire_session(m, c->grant.session);
    recall.chunk = c->id;
    recall.version = c->version;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_RECALL;
    reply.recall = &recall;
    lh_m_send(m, c->grant.holder, &reply);
}

void lh_m_push(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_server *s = c->grant.holder;

    /* Only what is durable, and only in the session that the lease is in (SES-3). */
    if (s == NULL || c->removed || c->intent_to_seal || c->grant.session == 0 ||
        c->grant.session != s->session.id || !s->session.announced ||
        !lh_m_is_durable(m, c->ticket) || !lh_m_in_force(m, c))
        return;
    /* A grant that is being recalled is not prolonged by being sent again (LEASE-4). */
    if (!c->grant.confirmed && !(c->grant.recalling && c->grant.sent))
        lh_m_send_grant(m, c);
    if (c->grant.recalling && c->grant.sent) {
        LH_MARK("recall-sent");
        if (!c->grant.confirmed)
            LH_MARK("recall-before-confirm");
        send_recall(m, c);
    }
}

void lh_m_recall(struct lh_master *m, struct lh_m_chunk *c)
{
    int error;

    if (c->grant.recalling || c->intent_to_seal)
        return;
    if (c->grant.waiting)
        LH_MARK("recall-in-restart-wait");
    m->counts.recalls++;
    c->grant.recalling = true;
    error = lh_grantor_recall(m->grantor, c->id); /* NOT_LEASED while waiting: remembered here */
    (void)error;
    lh_m_lease_changed(c);
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": recalling version %" PRIu64 " from %s",
        c->id, c->file->path, c->version, c->grant.holder->id);
    lh_m_push(m, c);
}
