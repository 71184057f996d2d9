/* Grants that are refused: whom the lease is offered to next, and when.
 *
 * Who refuses is passed over for the next best member at once; that is how a chunk gets away from a
 * disk that hangs. Once each member has refused, or has given the lease back as soon as it had it,
 * nothing is learnt by asking on at the speed of the network: the chunk rests, each time for twice
 * as long. */
#include "master/grants/grants.h"

#include "master/inventory/inventory.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

bool lh_m_rests(const struct lh_master *m, const struct lh_m_chunk *c)
{
    if (!lh_instant_before(m->now, c->motion->grant->rest_until))
        return false;
    /* A member that has come, or whose disk answers again, may say something else. */
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (lh_instant_before(c->motion->grant->refused_at, s->session.registered_at) ||
            (!s->room.failing &&
                lh_instant_before(c->motion->grant->refused_at, s->room.failing_since)))
            return false;
    }
    return true;
}

void lh_m_refused(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, struct lh_duration pause)
{
    struct lh_m_grant *g = lh_m_grant(m, c);

    g->avoid = s;
    g->retry_at = lh_instant_add(m->now, pause);
    g->refusals++;
    g->refused_at = m->now;
    if (g->refusals >= c->member_count && !LH_PLANTED("refusals-without-rest")) {
        LH_MARK("grants-rest");
        g->rest_until =
            lh_instant_add(m->now, lh_m_backoff(m->config.refusal_rest, m->config.refusal_rest_max,
                                       g->refusals - c->member_count));
        g->retry_at = g->rest_until; /* who refused last may be asked as well as others then */
    }
    lh_timer_set(&m->timers, &lh_m_creation(m, c)->timer, g->retry_at);
}

void lh_m_refusals_end(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_grant(m, c)->refusals = 0;
}

void lh_m_accepted(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_grant *g = lh_m_grant(m, c);

    g->adopted_above = 0;
    g->avoid = NULL;
}

/* KEEP-4: no version that a server has in use is handed out. One that it has adopted above the
 * record proves that the record is older; the next grant goes above it, and is durable before it is
 * sent. */
void lh_m_refused_version(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, uint64_t adopted)
{
    const struct lh_m_report report = {.chunk = c->id, .version = adopted};

    if (adopted <= c->version || LH_PLANTED("refusals-without-rest"))
        return;
    LH_MARK("grant-below-adopted-version");
    lh_m_report_evidence(m, s, c, &report);
    if (c->version < adopted && c->motion->seen_version < adopted)
        lh_m_grant(m, c)->adopted_above = adopted; /* too high to go above */
}
