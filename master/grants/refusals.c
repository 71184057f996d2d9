/* Grants that are refused: whom the lease is offered to next, and when.
 *
 * Who refuses is passed over for the next best member at once; that is how a chunk gets away from a
 * disk that hangs. Once each member has refused, or has given the lease back as soon as it had it,
 * nothing is learnt by asking on at the speed of the network: the chunk rests, each time for twice
 * as long. */
#include "master/grants/grants.h"

#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

bool lh_m_rests(const struct lh_master *m, const struct lh_m_chunk *c)
{
    if (!lh_instant_before(m->now, c->active->doubts->rest_until))
        return false;
    /* A member that has come, or whose disk answers again, may say something else. */
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (lh_instant_before(c->active->doubts->refused_at, s->session.registered_at) ||
            (!s->space.failing &&
                lh_instant_before(c->active->doubts->refused_at, s->space.failing_since)))
            return false;
    }
    return true;
}

static void offer_again(void *core, struct lh_timer *timer)
{
    lh_m_touch(core, LH_OWNER(timer, struct lh_m_doubts, timer)->chunk->file);
}

void lh_m_refused(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, struct lh_duration pause)
{
    struct lh_m_doubts *doubts = lh_m_doubts(m, c);

    doubts->avoid = s;
    doubts->retry_at = lh_instant_add(m->now, pause);
    doubts->refusals++;
    doubts->refused_at = m->now;
    if (doubts->refusals >= c->member_count && !LH_PLANTED("refusals-without-rest")) {
        LH_MARK("grants-rest");
        doubts->rest_until =
            lh_instant_add(m->now, lh_m_backoff(m->config.refusal_rest, m->config.refusal_rest_max,
                                       doubts->refusals - c->member_count));
        doubts->retry_at =
            doubts->rest_until; /* who refused last may be asked as well as others then */
    }
    doubts->timer.fire = offer_again;
    lh_timer_set(&m->timers, &doubts->timer, doubts->retry_at);
}

void lh_m_refusals_end(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->active->doubts->refusals > 0)
        lh_m_doubts(m, c)->refusals = 0;
}

void lh_m_accepted(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->active->doubts->adopted_above == 0 && c->active->doubts->avoid == NULL)
        return;
    struct lh_m_doubts *doubts = lh_m_doubts(m, c);
    doubts->adopted_above = 0;
    doubts->avoid = NULL;
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
    if (c->version < adopted && lh_m_seen_version(c) < adopted)
        lh_m_doubts(m, c)->adopted_above = adopted; /* too high to go above */
}
