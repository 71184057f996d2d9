/* What holders say of their leases: confirmed, extended, released; and what ends by itself. */
#include "master/grants/answers.h"

#include "master/grants/leases.h"
#include "master/grants/owner.h"
#include "master/grants/refusals.h"
#include "master/inventory/health.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

void lh_m_extend(struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat,
    bool *extended)
{
    size_t count = heartbeat->n_active, asked = 0;
    struct lh_lease_name *names = lh_alloc_array(count, sizeof *names);
    size_t *places = lh_alloc_array(count, sizeof *places);
    int *results = lh_alloc_array(count, sizeof *results);

    for (size_t i = 0; i < count; i++) {
        const Leasehold__ChunkVersion *active = heartbeat->active[i];
        struct lh_m_chunk *c = lh_m_chunk_find(m, active->chunk);
        extended[i] = false;
        if (c == NULL || c->motion->grant.holder != s ||
            c->motion->grant.version != active->version ||
            (c->intent_to_seal && !LH_PLANTED("extended-after-intent")))
            continue; /* no extension after an intent to seal (FAIL-2a) */
        lh_m_move(m, c)->grant.appends = active->appends;
        names[asked] = (struct lh_lease_name){.key = c->id, .version = c->motion->grant.version};
        places[asked++] = i;
    }
    /* LEASE-4: the engine refuses those that are being recalled. */
    lh_grantor_extend_many(m->grantor, s->session.id, m->now, s->session.received_at,
        m->config.chunk_term, names, asked, results);
    for (size_t i = 0; i < asked; i++) {
        extended[places[i]] = results[i] == LH_OK;
        m->counts.extensions += extended[places[i]];
        if (results[i] == LH_OK)
            LH_MARK("lease-extended");
        else if (results[i] == LH_ERR_LEASE_HELD)
            LH_MARK("lease-not-extended-recalling");
    }
    free(names);
    free(places);
    free(results);
}

void lh_m_on_confirm(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__GrantConfirm *confirm)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, confirm->chunk);

    if (c == NULL || c->motion->grant.holder != s || c->motion->grant.session != s->session.id ||
        c->motion->grant.version != confirm->version || !c->motion->grant.sent)
        return;
    if (c->intent_to_seal) { /* it will not be this chunk's primary, whatever it says */
        if (confirm->error != LEASEHOLD__ERROR_CODE__OK)
            lh_m_lease_over(m, c, "was refused");
        return;
    }
    if (confirm->error == LEASEHOLD__ERROR_CODE__OK) {
        if (c->motion->grant.confirmed)
            return;
        LH_MARK("grant-confirmed");
        struct lh_m_grant *g = &lh_m_move(m, c)->grant;
        g->confirmed = true;
        lh_m_seen(m, c, s);
        lh_m_enqueue(m, c);
        lh_m_accepted(m, c);
        g->last_primary = s;
        lh_m_lease_changed(m, c);
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
        lh_m_lose(m, c, member);
    lh_m_refused(m, c, s, m->heartbeat);
    lh_m_lease_over(m, c, "was refused");
    lh_m_refused_version(m, c, s, confirm->adopted);
}

/* Is a lease that was recalled to be given to another member as soon as it is released, in the same
 * commit? Its writers will ask for that anyway, a round trip later. */
static bool handed_over(const struct lh_m_chunk *c)
{
    const struct lh_m_waiter *w;

    if (!c->motion->grant.recalling || c->motion->grant.appends == 0 || c->sealed ||
        c->intent_to_seal || c->file->trashed)
        return false;
    TAILQ_FOREACH(w, &c->file->motion->waiters, file_link)
        if (w->kind == LH_WAIT_RECALL && w->chunk == c->id && w->only_release)
            return false;
    return true;
}

void lh_m_given_back(struct lh_master *m, struct lh_m_chunk *c, const char *why)
{
    bool hand_over = handed_over(c);

    lh_m_lease_over(m, c, why);
    if (hand_over) {
        LH_MARK("lease-handed-over");
        lh_m_grant_free(m, c);
    }
}

void lh_m_ran_out(struct lh_master *m, struct lh_m_chunk *c)
{
    m->counts.expiries++;
    lh_m_lease_over(m, c, "has run out");
    m->grant_owner->ran_out(m, c);
}

void lh_m_lease_expired(struct lh_master *m, uint64_t chunk, lh_session_id session)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, chunk);

    if (c == NULL || c->motion->grant.holder == NULL || c->motion->grant.session != session)
        return;
    if (c->motion->grant.waiting &&
        !(c->motion->grant.session == c->motion->grant.holder->session.id &&
            c->motion->grant.holder->session.confirmed)) {
        /* Continued, and the answer may have been lost: what a former master promised runs on,
         * until the wait ends at the latest (LEASE-7). Who has the answer acts on no other term
         * than ours. */
        LH_MARK("lease-ended-in-restart-wait");
        struct lh_m_grant *g = &lh_m_move(m, c)->grant;
        g->session = 0;
        g->confirmed = g->sent = false;
        lh_m_lease_changed(m, c);
        lh_m_touch(m, c->file);
    } else {
        LH_MARK("lease-run-out");
        lh_m_ran_out(m, c);
    }
}

void lh_m_on_release(struct lh_master *m, struct lh_m_server *s, const Leasehold__Release *release)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, release->chunk);

    /* For exactly the version granted (LEASE-2), by the process that holds it (LEASE-6: it will
     * never act on that version again, whichever of its sessions the lease was in). */
    if (c == NULL || c->motion->grant.holder != s ||
        c->motion->grant.incarnation != s->incarnation ||
        (c->motion->grant.version != release->version && !LH_PLANTED("any-version-released"))) {
        LH_MARK("release-ignored");
        return;
    }
    if (release->ran_out && !c->motion->grant.recalling) {
        LH_MARK("lease-run-out-at-its-holder");
        lh_m_ran_out(m, c);
        return;
    }
    LH_MARK("lease-released");
    m->counts.releases++;
    bool at_once =
        !c->motion->grant.recalling &&
        lh_instant_before(m->now, lh_instant_add(c->motion->grant.at, m->config.refusal_rest_max));
    if (!release->ran_out &&
        !(c->motion->grant.recalling && LH_PLANTED("recall-returns-to-its-holder"))) {
        struct lh_m_grant *g = &lh_m_move(m, c)->grant;
        g->avoid = s;
        g->retry_at = m->now;
        if (at_once)
            lh_m_refused(m, c, s, lh_nanoseconds(0));
    }
    lh_m_given_back(m, c, "was released");
}

void lh_m_wait_ended(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    struct lh_m_motion *mo;

    for (size_t i = 0; i < m->config.step_work && (mo = TAILQ_FIRST(&m->waiting)) != NULL; i++) {
        struct lh_m_chunk *c = mo->chunk;
        TAILQ_REMOVE(&m->waiting, mo, grant.waiting_link);
        mo->grant.waiting = false;
        if (lh_m_in_force(m, c)) {
            LH_MARK("lease-outlives-restart-wait");
        } else {
            LH_MARK("lease-over-after-restart-wait");
            lh_m_lease_over(m, c, "is over: granted before this master started, not shown since");
        }
    }
    if (!TAILQ_EMPTY(&m->waiting)) {
        lh_timer_set(&m->timers, timer, m->now);
        return;
    }
    /* Every session of former masters is over; ours are not longer than the setting (LEASE-7). */
    if (m->longest_session_ns > m->config.session_term.ns) {
        LH_MARK("longest-session-lowered");
        m->longest_session_ns = m->config.session_term.ns;
        lh_m_dirty_master(m);
    }
    lh_m_touch_waited(m);
}
