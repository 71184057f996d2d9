/* Who may take a chunk's appends: the lease of each chunk, between its durable grant and the lease
 * service (LEASE-1 to LEASE-7). */
#include "master/grants/grants.h"

#include "lease/restart.h"
#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

void lh_m_grant_forget(struct lh_master *m, struct lh_m_chunk *c)
{
    if (lh_m_holder(c) == NULL)
        return;
    RB_REMOVE(lh_m_leased, &m->leased, lh_m_move(m, c));
    lh_lease_forget(&m->leases, &lh_m_grant(m, c)->lease);
}

void lh_m_grant_load(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *holder,
    uint64_t incarnation, uint64_t version, uint64_t fence)
{
    struct lh_m_grant *g = lh_m_grant(m, c);
    struct lh_lease *lease = &g->lease;

    g->fence = fence;
    lh_lease_restore(&m->leases, lease, &holder->session.client, incarnation, version);
    if (c->intent_to_seal)
        lh_lease_let_end(lease);
    RB_INSERT(lh_m_leased, &m->leased, lh_m_move(m, c));
}

bool lh_m_held(const struct lh_master *m, const struct lh_m_chunk *c)
{
    return lh_lease_held(&m->leases, &c->active->grant->lease);
}

struct lh_duration lh_m_lease_left(const struct lh_master *m, const struct lh_m_chunk *c)
{
    return lh_instant_until(m->now, lh_lease_free_at(&m->leases, &c->active->grant->lease));
}

bool lh_m_has_primary(const struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_lease *lease = &c->active->grant->lease;

    return lease->confirmed && !lease->recalling && lh_lease_current(&m->leases, lease);
}

void lh_m_lease_over(struct lh_master *m, struct lh_m_chunk *c, const char *why)
{
    lh_lease_over(&m->leases, &lh_m_grant(m, c)->lease, LH_LEASE_ENDED, why);
}

/* REC-1: full members of the newest durable version alone; SES-4 and SES-6: only those that hear us
 * and whose disk answers. */
bool lh_m_can_lead(const struct lh_master *m, const struct lh_m_member *member)
{
    return !member->joining && !member->lost && !lh_m_server_of(m, member)->space.failing &&
           lh_m_reachable(m, lh_m_server_of(m, member));
}

/* What speaks against it, as a number: that it lately gave the lease up, or, worse, is drained, or
 * is not heard at its address (SES-8). */
static unsigned reluctance(const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    return (lh_m_reached(s) ? 0u : 4u) + (lh_m_drained(s) ? 2u : 0u) +
           (s == c->active->doubts->avoid ? 1u : 0u);
}

/* Who should have the free lease? */
static struct lh_m_server *choose_primary(const struct lh_master *m, const struct lh_m_chunk *c)
{
    struct lh_m_server *best = NULL;

    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (!lh_m_can_lead(m, &c->members[i]))
            continue;
        if (s == c->active->doubts->avoid &&
            !lh_instant_reached(m->now, c->active->doubts->retry_at))
            continue;
        if (best == NULL) {
            best = s;
        } else if (reluctance(c, s) != reluctance(c, best)) {
            if (reluctance(c, s) < reluctance(c, best))
                best = s;
        } else if (s->session.client.count != best->session.client.count) {
            if (s->session.client.count < best->session.client.count)
                best = s;
        } else if (c->members[i].led) {
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
           lh_instant_before(m->now, m->leases.wait_end);
}

void lh_m_send_grant(struct lh_master *m, struct lh_m_chunk *c)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__Grant grant = LEASEHOLD__GRANT__INIT;
    Leasehold__Member members[LH_REPLICATION_MAX];
    Leasehold__Member *pointers[LH_REPLICATION_MAX];
    ProtobufCBinaryData leads[LH_REPLICATION_MAX];
    uint8_t lead_bytes[LH_REPLICATION_MAX][LH_CAPABILITY_BYTES];
    struct lh_m_grant *g = lh_m_grant(m, c);
    struct lh_m_server *s = lh_m_holder(c);

    if (!lh_lease_renew(&m->leases, &g->lease))
        return;
    for (uint32_t i = 0; i < c->member_count; i++) {
        leasehold__member__init(&members[i]);
        const struct lh_m_server *member = lh_m_server_of(m, &c->members[i]);
        members[i].server_id = member->id;
        members[i].address = member->address;
        members[i].joining = c->members[i].joining;
        leads[i] = member == s ? (ProtobufCBinaryData){0} : lh_m_lead(m, c, member, lead_bytes[i]);
        pointers[i] = &members[i];
    }
    grant.session = lh_m_wire_session(m, g->lease.session);
    grant.chunk = c->id;
    grant.version = c->version;
    grant.stamp = s->session.stamp;
    grant.term_ns = m->holder_chunk_term.ns;
    grant.n_members = c->member_count;
    grant.members = pointers;
    grant.n_leads = m->config.capabilities ? c->member_count : 0;
    grant.leads = leads;
    grant.min_replicas = c->file->min_replicas;
    grant.durability = c->file->durability;
    grant.chunk_size = c->file->chunk_size;
    grant.master_term = m->term;
    grant.fence = LH_PLANTED("fence-not-in-grant") ? 0 : g->fence;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_GRANT;
    reply.grant = &grant;
    if (g->lease.sent)
        LH_MARK("grant-sent-again");
    if (lh_m_send(m, s, &reply))
        lh_lease_sent(&g->lease);
}

/* What happened to the chunk's lease, which is `holder`'s. */
static void note(struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_server *holder,
    Leasehold__LeaseEventKind kind, const char *why)
{
    const struct lh_lease *lease = &c->active->grant->lease;
    const struct lh_m_event event = {
        .subject = lh_m_event_of_chunk(c->id),
        .kind = kind,
        .version = lease->version,
        .server = holder->number + 1u,
        .left_ms =
            lease->holder == NULL ? 0 : lh_m_event_left(m, lh_lease_free_at(&m->leases, lease)),
        .why = why,
    };

    lh_m_note(m, &event);
}

/* Renewals since the grant, as one event. */
static void note_extensions(
    struct lh_master *m, struct lh_m_chunk *c, const struct lh_m_server *holder)
{
    struct lh_m_grant *g = lh_m_grant(m, c);
    const struct lh_m_event event = {
        .subject = lh_m_event_of_chunk(c->id),
        .kind = LEASEHOLD__LEASE_EVENT_KIND__LEASE_RENEWED,
        .at = g->extended_at,
        .version = g->lease.version,
        .server = holder->number + 1u,
        .count = g->extensions,
    };

    if (g->extensions > 0)
        lh_m_note(m, &event);
    g->extensions = 0;
}

bool lh_m_grant_free(struct lh_master *m, struct lh_m_chunk *c)
{
    LH_ASSERT(!c->sealed && !c->intent_to_seal && !lh_m_held(m, c));
    if (lh_m_rests(m, c) || may_be_held_unknown(m, c))
        return false;
    m->counts.expiries += lh_m_holder(c) != NULL;
    if (lh_m_holder(c) != NULL)
        lh_m_lease_over(m, c, "has run out"); /* it ended, and was not collected yet */

    struct lh_m_active *mo = lh_m_move(m, c);
    struct lh_m_grant *g = lh_m_grant(m, c);
    struct lh_m_server *s = choose_primary(m, c);
    if (s == NULL || lh_lease_grant(&m->leases, &g->lease, &s->session.client, lh_m_next_version(c),
                         LH_LEASE_EXCLUSIVE) != LH_OK) {
        LH_MARK("grant-to-nobody");
        return false;
    }
    if (c->version == 0)
        LH_MARK("grant-first");
    else if (lh_m_member(c, s)->led)
        LH_MARK("grant-to-the-same");
    else
        LH_MARK("grant-to-another");
    m->counts.grants++;
    c->version = lh_m_next_version(c);
    if (!c->created)
        lh_m_creation_stop(m, c);
    c->created = true;
    RB_INSERT(lh_m_leased, &m->leased, mo);
    g->appends = 0;
    g->fence = c->file->active->fence;
    lh_m_dirty_chunk(m, c); /* LEASE-1: durable first; lh_m_chunk_durable() sends it */
    g->ticket = c->active->ticket;
    g->at = m->now;
    g->extensions = 0;
    note(m, c, s, LEASEHOLD__LEASE_EVENT_KIND__LEASE_GRANTED, NULL);
    if (LH_PLANTED("grant-sent-before-durable")) {
        lh_m_send_grant(m, c);
        g->lease.sent = false; /* this time did not count */
    }
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": granting version %" PRIu64 " to %s",
        c->id, c->file->path, c->version, s->id);
    return true;
}

void lh_m_regrant(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_grant *g = lh_m_grant(m, c);

    LH_MARK("grant-new-version-same-session");
    m->counts.regrants++;
    note_extensions(m, c, lh_m_holder(c)); /* of the version before */
    c->version = lh_m_next_version(c);
    /* The caller saw the lease in force in this very session. */
    lh_lease_raise(&m->leases, &g->lease, c->version);
    g->fence = c->file->active->fence;
    lh_m_dirty_chunk(m, c);
    g->ticket = c->active->ticket;
    g->at = m->now;
    note(m, c, lh_m_holder(c), LEASEHOLD__LEASE_EVENT_KIND__LEASE_GRANTED,
        "a new version for its holder");
}

void lh_m_send_recall(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__RecallLease recall = LEASEHOLD__RECALL_LEASE__INIT;

    recall.session = lh_m_wire_session(m, s->session.client.session);
    recall.chunk = chunk;
    recall.version = version;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_RECALL;
    reply.recall = &recall;
    lh_m_send(m, s, &reply);
}

void lh_m_push(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_lease *lease = &lh_m_grant(m, c)->lease;

    /* Only what is durable, and only in the session that the lease is in (SES-3). */
    if (c->removed || !lh_lease_current(&m->leases, lease) || !lh_m_holder(c)->session.announced ||
        !lh_m_is_durable(m, c->active->ticket))
        return;
    /* A grant that is being recalled is not prolonged by being sent again (LEASE-4). */
    if (!lease->confirmed && !(lease->recalling && lease->sent))
        lh_m_send_grant(m, c);
    if (lease->recalling && lease->sent) {
        LH_MARK("recall-sent");
        if (!lease->confirmed)
            LH_MARK("recall-before-confirm");
        lh_m_send_recall(m, lh_m_holder(c), c->id, c->version);
    }
}

void lh_m_recall(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!lh_lease_recall(&m->leases, &lh_m_grant(m, c)->lease))
        return;
    m->counts.recalls++;
    lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": recalling version %" PRIu64 " from %s",
        c->id, c->file->path, c->version, lh_m_holder(c)->id);
    note(m, c, lh_m_holder(c), LEASEHOLD__LEASE_EVENT_KIND__LEASE_RECALLED, NULL);
    lh_m_push(m, c);
}

void lh_m_note_confirmed(struct lh_master *m, struct lh_m_chunk *c)
{
    note(m, c, lh_m_holder(c), LEASEHOLD__LEASE_EVENT_KIND__LEASE_CONFIRMED, NULL);
}

/* ---- What the lease service reports. */

static struct lh_lease *find(void *core, uint64_t chunk, const struct lh_lease_client *client)
{
    struct lh_master *m = core;
    struct lh_m_chunk *c = lh_m_chunk_find(m, chunk);

    (void)client; /* it is exclusive */
    return c != NULL && lh_m_holder(c) != NULL ? &lh_m_grant(m, c)->lease : NULL;
}

static void touch(void *core, struct lh_lease *lease)
{
    lh_m_touch(core, lh_m_leased_active(lease)->chunk->file);
}

static void continued(void *core, struct lh_lease *lease)
{
    struct lh_m_chunk *c = lh_m_leased_active(lease)->chunk;

    note(core, c, lh_m_client_server(lease->holder), LEASEHOLD__LEASE_EVENT_KIND__LEASE_CONTINUED,
        NULL);
    touch(core, lease);
}

static void disowned(void *core, struct lh_lease *lease)
{
    struct lh_m_chunk *c = lh_m_leased_active(lease)->chunk;

    if (!c->sealed) /* the store names no holder of a sealed one */
        lh_m_dirty_chunk(core, c);
}

/* Is a lease that was recalled to be given to another member as soon as it is released, in the same
 * commit? Its writers will ask for that anyway, a round trip later. */
static bool handed_over(const struct lh_m_chunk *c, const struct lh_lease_past *past)
{
    const struct lh_m_waiter *w;

    if (!past->recalling || c->active->grant->appends == 0 || c->sealed || c->intent_to_seal ||
        c->file->trashed)
        return false;
    TAILQ_FOREACH(w, &c->file->active->waiters, file_link)
        if (w->kind == LH_WAIT_RECALL && w->chunk == c->id && w->only_release)
            return false;
    return true;
}

static void note_over(struct lh_master *m, struct lh_m_chunk *c, const struct lh_lease_past *past)
{
    const struct lh_m_server *s = lh_m_client_server(past->holder);
    bool expired = past->end == LH_LEASE_EXPIRED || past->end == LH_LEASE_WAITED;
    bool released = past->end == LH_LEASE_RELEASED;

    note_extensions(m, c, s);
    note(m, c, s,
        expired    ? LEASEHOLD__LEASE_EVENT_KIND__LEASE_EXPIRED
        : released ? LEASEHOLD__LEASE_EVENT_KIND__LEASE_RELEASED
                   : LEASEHOLD__LEASE_EVENT_KIND__LEASE_ENDED,
        expired || released ? NULL : past->why);
}

static void over(void *core, struct lh_lease *lease, const struct lh_lease_past *past)
{
    struct lh_master *m = core;
    struct lh_m_chunk *c = lh_m_leased_active(lease)->chunk;
    struct lh_m_server *s = lh_m_client_server(past->holder);
    bool given_back = past->end == LH_LEASE_RELEASED || past->end == LH_LEASE_UNSHOWN ||
                      past->end == LH_LEASE_DIFFERED;

    m->counts.expiries += past->end == LH_LEASE_EXPIRED;
    m->counts.unshown += past->end == LH_LEASE_UNSHOWN;
    m->counts.differences += past->end == LH_LEASE_DIFFERED;
    note_over(m, c, past);
    RB_REMOVE(lh_m_leased, &m->leased, lh_m_move(m, c));
    if (!c->sealed)
        lh_m_dirty_chunk(m, c);
    lh_m_touch(m, c->file);
    m->grant_owner->over(m, c, s);
    lh_fx_log(m->fx, past->end == LH_LEASE_DIFFERED ? LH_WARN : LH_INFO,
        "chunk %" PRIu64 " of \"%s\": lease of %s at version %" PRIu64 " %s", c->id, c->file->path,
        s->id, lease->version, past->why);
    if (past->end == LH_LEASE_EXPIRED)
        m->grant_owner->ran_out(m, c);
    if (given_back && handed_over(c, past)) {
        LH_MARK("lease-handed-over");
        lh_m_grant_free(m, c);
    }
}

const struct lh_lease_owner lh_m_chunk_leases = {
    .find = find,
    .continued = continued,
    .disowned = disowned,
    .lost_session = touch,
    .over = over,
};
