/* What holders show of their leases, and what follows: when they register (SES-5, SES-5a, LEASE-7),
 * and within a session when their sum is not ours (LEASE-8). */
#include "master/grants/holders.h"

#include "master/grants/answers.h"
#include "master/grants/leases.h"
#include "master/sessions/reach.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

/* Marks the chunks that are shown; `m->shows` tells this time from former ones. */
static void note_shown(struct lh_master *m, Leasehold__ChunkVersion *const *leases, size_t count)
{
    m->shows++;
    for (size_t i = 0; i < count; i++) {
        struct lh_m_chunk *c = lh_m_chunk_find(m, leases[i]->chunk);
        if (c == NULL)
            continue;
        struct lh_m_grant *g = &lh_m_move(m, c)->grant;
        g->shown = m->shows;
        g->shown_version = leases[i]->version;
    }
}

/* ---- At a registration. */

/* Puts the lease, in the engine or not, into the server's new session. */
static void enter_session(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s)
{
    struct lh_m_grant *g = &lh_m_move(m, c)->grant;
    int error = LH_ERR_NOT_LEASED;

    /* Never shorter than what the old session promised: the holder may act on that until it hears
     * of the new one (TIME-4). */
    LH_ASSERT(!c->intent_to_seal || LH_PLANTED("continued-after-intent"));
    if (g->session != 0)
        error = lh_grantor_continue(m->grantor, c->id, g->version, g->session, s->session.id,
            m->now, s->session.received_at, m->config.chunk_term);
    if (error != LH_OK) /* it is `waiting` alone */
        error = lh_grantor_grant(m->grantor, c->id, g->version, LH_LEASE_EXCLUSIVE, s->session.id,
            m->now, s->session.received_at, m->config.chunk_term);
    LH_ASSERT(error == LH_OK);
    if (g->recalling) {
        error = lh_grantor_recall(m->grantor, c->id);
        LH_ASSERT(error == LH_OK);
    }
    g->session = s->session.id;
}

/* Exactly the lease of the durable grant goes on in the session, if no intent to seal exists. */
static bool go_on(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, chunk);

    if (c == NULL || c->motion->grant.holder != s ||
        c->motion->grant.incarnation != s->incarnation || c->motion->grant.version != version ||
        c->sealed || c->motion->grant.session == s->session.id ||
        (c->intent_to_seal && !LH_PLANTED("continued-after-intent")) || !lh_m_held(m, c))
        return false;
    struct lh_m_motion *mo = lh_m_move(m, c);
    struct lh_m_grant *g = &mo->grant;
    enter_session(m, c, s);
    if (g->waiting) {
        LH_MARK("lease-continued-after-restart");
        /* What the former master was told we do not know; the holder acts on it, that is enough. It
         * stays in `waiting`: if the answer is lost the old term runs on, so it is held until the
         * wait ends, whatever becomes of this session (LEASE-7). */
        g->sent = g->confirmed = true;
        if (LH_PLANTED("term-shortened-by-setting")) {
            TAILQ_REMOVE(&m->waiting, mo, grant.waiting_link);
            g->waiting = false;
        }
    } else if (!g->confirmed) {
        g->sent = false;
    } else {
        LH_MARK("lease-continued");
    }
    lh_m_lease_changed(m, c);
    lh_m_touch(m, c->file);
    return true;
}

/* LEASE-1: a grant is sent again until it is confirmed. Server, incarnation and version stay the
 * same. Whether a former master's grant arrived nobody knows; a holder that shows a lower version
 * of the chunk acts on that one, and takes this one next (LEASE-3). */
static void carry_grants(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_m_motion *mo;

    TAILQ_FOREACH(mo, &s->leases.todo, grant.todo_link) {
        struct lh_m_chunk *c = mo->chunk;
        struct lh_m_grant *g = &mo->grant;
        bool lower = g->shown == m->shows && g->shown_version < c->version;
        if (g->session == s->session.id || g->confirmed || g->incarnation != s->incarnation ||
            (g->waiting ? !lower : !lh_m_held(m, c)))
            continue;
        LH_MARK("grant-carried-over");
        if (g->waiting)
            LH_MARK("grant-of-former-master-carried-over");
        enter_session(m, c, s);
        g->sent = false;
    }
}

/* SES-5a: what this very process does not show it does not act on, now or later. Of a chunk of
 * which it shows any version nothing is freed: it may act on that one until it has the answer. */
static void free_unshown(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_m_motion *mo, *next;

    for (mo = TAILQ_FIRST(&s->leases.held); mo != NULL; mo = next) {
        const struct lh_m_grant *g = &mo->grant;
        next = TAILQ_NEXT(mo, grant.held_link);
        if (g->session == s->session.id || g->shown == m->shows ||
            g->incarnation != s->incarnation || LH_PLANTED("unshown-lease-kept"))
            continue;
        LH_MARK("unshown-lease-freed");
        if (g->waiting)
            LH_MARK("unshown-lease-freed-in-restart-wait");
        m->counts.unshown++;
        lh_m_given_back(m, mo->chunk, "is free: its holder does not show it");
    }
}

static void disown(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_move(m, c)->grant.incarnation = LH_M_NOBODY;
    if (!c->sealed) /* the store names no holder of a sealed one */
        lh_m_dirty_chunk(m, c);
}

static void disown_unshown(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_m_motion *mo;

    TAILQ_FOREACH(mo, &s->leases.held, grant.held_link) {
        const struct lh_m_grant *g = &mo->grant;
        if (g->session != s->session.id && g->shown != m->shows && g->incarnation == s->incarnation)
            disown(m, mo->chunk);
    }
}

void lh_m_disown(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_m_motion *mo;

    lh_fx_log(m->fx, LH_WARN,
        "chunkserver %s: another process says that it is incarnation %" PRIu64
        ", as one from a copy of its data directory does; %zu leases are held until they run out",
        s->id, s->incarnation, s->leases.count);
    TAILQ_FOREACH(mo, &s->leases.held, grant.held_link) {
        if (mo->grant.incarnation == s->incarnation)
            disown(m, mo->chunk);
    }
}

void lh_m_shows(struct lh_master *m, struct lh_m_server *s, const Leasehold__Register *request,
    bool same_process, bool proven, struct lh_m_chunk **continued, size_t *count)
{
    note_shown(m, request->held, request->n_held);
    *count = 0;
    for (size_t i = 0; i < request->n_held; i++)
        if (go_on(m, s, request->held[i]->chunk, request->held[i]->version))
            continued[(*count)++] = lh_m_chunk_find(m, request->held[i]->chunk);
    if (same_process)
        carry_grants(m, s);
    if (proven)
        free_unshown(m, s);
    else if (same_process && s->process != 0)
        disown_unshown(m, s); /* granted to one that gave no number: this may be another */
}

void lh_m_free_dead(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_m_motion *mo, *next;

    for (mo = TAILQ_FIRST(&s->leases.held); mo != NULL; mo = next) {
        next = TAILQ_NEXT(mo, grant.held_link);
        if (mo->grant.incarnation < s->incarnation ||
            LH_PLANTED("leases-freed-on-reregistration")) {
            LH_MARK("lease-freed-with-its-process");
            lh_m_lease_over(m, mo->chunk, "is free: its process is dead");
        }
    }
}

void lh_m_sum_begin(struct lh_m_server *s)
{
    struct lh_m_motion *mo;

    TAILQ_FOREACH(mo, &s->leases.held, grant.held_link)
        mo->grant.summed_version = 0;
    s->leases.sum = (struct lh_lease_sum){0};
}

/* ---- Within a session. */

bool lh_m_sum_differs(const struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat)
{
    const Leasehold__LeaseSum *theirs = heartbeat->leases;

    if (theirs == NULL || LH_PLANTED("difference-not-resolved"))
        return false; /* a server of before LEASE-8 */
    return !lh_lease_sum_equal(s->leases.sum, (struct lh_lease_sum){theirs->count, theirs->hash});
}

/* It acts on what is not its: asked to stop. */
static void recall_unknown(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ChunkVersion *shown)
{
    Leasehold__SessionReply reply = LEASEHOLD__SESSION_REPLY__INIT;
    Leasehold__RecallLease recall = LEASEHOLD__RECALL_LEASE__INIT;

    m->counts.differences++;
    lh_fx_log(m->fx, LH_WARN,
        "chunk %" PRIu64 ": %s may act on it at version %" PRIu64
        ", and has no lease of it here: asked to give it up",
        shown->chunk, s->id, shown->version);
    recall.session = lh_m_wire_session(m, s->session.id);
    recall.chunk = shown->chunk;
    recall.version = shown->version;
    reply.body_case = LEASEHOLD__SESSION_REPLY__BODY_RECALL;
    reply.recall = &recall;
    lh_m_send(m, s, &reply);
}

void lh_m_on_shown(struct lh_master *m, struct lh_m_server *s, const Leasehold__ShownLeases *shown)
{
    struct lh_m_motion *mo, *next;

    note_shown(m, shown->leases, shown->n_leases);
    /* The stream is ordered: it confirmed the lease before it sent this, and has ended it since. A
     * grant that it has not confirmed may still be on its way; that is sent again until it is
     * answered (LEASE-1). */
    for (mo = TAILQ_FIRST(&s->leases.held); mo != NULL; mo = next) {
        next = TAILQ_NEXT(mo, grant.held_link);
        if (mo->grant.summed_version == 0 || mo->grant.shown == m->shows)
            continue;
        m->counts.differences++;
        lh_fx_log(m->fx, LH_WARN,
            "chunk %" PRIu64 ": %s has ended its lease at version %" PRIu64
            " and it was not heard here",
            mo->chunk->id, s->id, mo->grant.version);
        lh_m_given_back(m, mo->chunk, "is over: its holder does not show it");
    }
    for (size_t i = 0; i < shown->n_leases; i++) {
        const struct lh_m_chunk *c = lh_m_chunk_find(m, shown->leases[i]->chunk);
        if (c == NULL || c->motion->grant.holder !=
                             s) /* else, at another version: a newer grant is on its way */
            recall_unknown(m, s, shown->leases[i]);
    }
}
