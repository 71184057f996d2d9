/* What holders say of their leases: confirmed, extended, released, shown. What follows from that
 * for any kind of lease is the lease service's. */
#include "master/grants/grants.h"

#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

#include <inttypes.h>

void lh_m_extend(struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat,
    bool *extended)
{
    size_t count = heartbeat->n_active, asked = 0;
    struct lh_lease **leases = lh_alloc_array(count, sizeof(struct lh_lease *));
    size_t *places = lh_alloc_array(count, sizeof *places);
    int *results = lh_alloc_array(count, sizeof *results);

    for (size_t i = 0; i < count; i++) {
        const Leasehold__ChunkVersion *active = heartbeat->active[i];
        struct lh_m_chunk *c = lh_m_chunk_find(m, active->chunk);
        extended[i] = false;
        if (c == NULL ||
            !lh_lease_extendable(&c->active->grant->lease, &s->session.client, active->version))
            continue;
        struct lh_m_grant *g = lh_m_grant(m, c);
        g->appends = active->appends;
        leases[asked] = &g->lease;
        places[asked++] = i;
    }
    lh_lease_extend_many(&m->leases, &s->session.client, leases, asked, results);
    for (size_t i = 0; i < asked; i++) {
        extended[places[i]] = results[i] == LH_OK;
        m->counts.extensions += extended[places[i]];
        if (extended[places[i]]) {
            struct lh_m_grant *g = LH_OWNER(leases[i], struct lh_m_grant, lease);
            g->extensions++;
            g->extended_at = m->now;
        }
        if (results[i] == LH_OK)
            LH_MARK("lease-extended");
        else if (results[i] == LH_ERR_LEASE_HELD)
            LH_MARK("lease-not-extended-recalling");
    }
    free(leases);
    free(places);
    free(results);
}

void lh_m_on_confirm(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__GrantConfirm *confirm)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, confirm->chunk);

    if (c == NULL || lh_m_holder(c) != s ||
        c->active->grant->lease.session != s->session.client.session ||
        c->active->grant->lease.version != confirm->version || !c->active->grant->lease.sent)
        return;
    if (c->intent_to_seal) { /* it will not be this chunk's primary, whatever it says */
        if (confirm->error != LEASEHOLD__ERROR_CODE__OK)
            lh_m_lease_over(m, c, "was refused");
        return;
    }
    if (confirm->error == LEASEHOLD__ERROR_CODE__OK) {
        if (c->active->grant->lease.confirmed)
            return;
        LH_MARK("grant-confirmed");
        struct lh_m_grant *g = lh_m_grant(m, c);
        lh_m_seen(m, c, s);
        lh_m_enqueue(m, c);
        lh_m_accepted(m, c);
        for (uint32_t i = 0; i < c->member_count; i++)
            c->members[i].led = lh_m_server_of(m, &c->members[i]) == s;
        lh_lease_confirm(&g->lease);
        lh_m_note_confirmed(m, c);
        lh_m_touch(m, c->file);
        lh_fx_log(m->fx, LH_INFO, "chunk %" PRIu64 " of \"%s\": %s is primary at version %" PRIu64,
            c->id, c->file->path, s->id, c->version);
        m->grant_owner->confirmed(m, c);
        return;
    }
    /* It will never act on this version: as a release of it. */
    LH_MARK("grant-refused");
    m->counts.grants_refused++;
    int error = lh_error_from_wire((unsigned)confirm->error);
    lh_fx_log(m->fx, LH_WARN, "chunk %" PRIu64 ": %s refused version %" PRIu64 ": %s", c->id, s->id,
        c->version, lh_error_text(error));
    struct lh_m_member *member = lh_m_member(c, s);
    /* IO is a disk that does not answer now (SES-6): the replica may be as good as ever. */
    if (member != NULL && (error == LH_ERR_NO_REPLICA || error == LH_ERR_CORRUPT))
        lh_m_lose(m, c, member, lh_m_is_kept(m, member));
    lh_m_refused(m, c, s, m->heartbeat);
    lh_m_lease_over(m, c, "was refused");
    lh_m_refused_version(m, c, s, confirm->adopted);
}

void lh_m_on_release(struct lh_master *m, struct lh_m_server *s, const Leasehold__Release *release)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, release->chunk);

    /* For exactly the version granted (LEASE-2), by the process that holds it (LEASE-6: it will
     * never act on that version again, whichever of its sessions the lease was in). */
    if (c == NULL || !lh_lease_is_of(&c->active->grant->lease, &s->session.client) ||
        (c->active->grant->lease.version != release->version &&
            !LH_PLANTED("any-version-released"))) {
        LH_MARK("release-ignored");
        return;
    }
    struct lh_m_grant *g = lh_m_grant(m, c);
    if (release->ran_out && !g->lease.recalling) {
        LH_MARK("lease-run-out-at-its-holder");
        lh_lease_over(&m->leases, &g->lease, LH_LEASE_EXPIRED, "has run out");
        return;
    }
    LH_MARK("lease-released");
    m->counts.releases++;
    bool at_once = !g->lease.recalling &&
                   lh_instant_before(m->now, lh_instant_add(g->at, m->config.refusal_rest_max));
    if (!release->ran_out && !(g->lease.recalling && LH_PLANTED("recall-returns-to-its-holder"))) {
        struct lh_m_doubts *doubts = lh_m_doubts(m, c);
        doubts->avoid = s;
        doubts->retry_at = m->now;
        if (at_once)
            lh_m_refused(m, c, s, lh_nanoseconds(0));
    }
    lh_lease_over(&m->leases, &g->lease, LH_LEASE_RELEASED, "was released");
}

/* ---- What they show. */

void lh_m_shows(struct lh_master *m, struct lh_m_server *s, const struct lh_m_shown *held,
    size_t held_count, bool same_process, bool proven, struct lh_m_chunk **continued, size_t *count)
{
    struct lh_lease_client *client = &s->session.client;

    *count = 0;
    lh_lease_client_show_begin(&m->leases, client);
    for (size_t i = 0; i < held_count; i++) {
        const struct lh_lease *lease = lh_lease_client_shows(
            &m->leases, client, LH_M_LEASE_CHUNK, held[i].chunk, held[i].version, true);
        if (lease != NULL)
            continued[(*count)++] = lh_m_leased_active(lease)->chunk;
    }
    lh_lease_client_registered(&m->leases, client,
        (struct lh_lease_process){
            .same = same_process, .proven = proven, .numbered = s->process != 0});
}

bool lh_m_sum_differs(const struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat)
{
    const Leasehold__LeaseSum *theirs = heartbeat->leases;

    if (theirs == NULL || LH_PLANTED("difference-not-resolved"))
        return false; /* a server of before LEASE-8 */
    return lh_lease_client_differs(
        &s->session.client, (struct lh_lease_sum){theirs->count, theirs->hash});
}

/* It acts on what is not its: asked to stop. */
static void recall_unknown(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ChunkVersion *shown)
{
    m->counts.differences++;
    lh_fx_log(m->fx, LH_WARN,
        "chunk %" PRIu64 ": %s may act on it at version %" PRIu64
        ", and has no lease of it here: asked to give it up",
        shown->chunk, s->id, shown->version);
    lh_m_send_recall(m, s, shown->chunk, shown->version);
}

void lh_m_on_shown(struct lh_master *m, struct lh_m_server *s, const Leasehold__ShownLeases *shown)
{
    struct lh_lease_client *client = &s->session.client;

    lh_lease_client_show_begin(&m->leases, client);
    for (size_t i = 0; i < shown->n_leases; i++)
        lh_lease_client_shows(&m->leases, client, LH_M_LEASE_CHUNK, shown->leases[i]->chunk,
            shown->leases[i]->version, false);
    lh_lease_client_resolved(&m->leases, client);
    for (size_t i = 0; i < shown->n_leases; i++) {
        const struct lh_m_chunk *c = lh_m_chunk_find(m, shown->leases[i]->chunk);
        if (c == NULL || lh_m_holder(c) != s) /* else a newer grant may be on its way */
            recall_unknown(m, s, shown->leases[i]);
    }
}
