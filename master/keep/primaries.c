/* Primaries that are asked to let another one: on drained servers, and on the busiest (LEASE-5:
 * what is under way commits, and the holder releases). */
#include "master/keep/primaries.h"

#include "master/grants/leases.h"
#include "master/keep/census.h"
#include "master/sessions/reach.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

/* Could another member than its primary take the chunk over, one with fewer than `below` leases? */
static bool another_can(const struct lh_master *m, const struct lh_m_chunk *c, size_t below)
{
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (s != c->motion->grant.holder && !lh_m_drained(s) && s->leases.count < below &&
            lh_m_can_lead(m, &c->members[i]))
            return true;
    }
    return false;
}

static unsigned being_recalled(const struct lh_m_server *s)
{
    const struct lh_m_motion *mo;
    unsigned count = 0;

    TAILQ_FOREACH(mo, &s->leases.todo, grant.todo_link)
        count += mo->grant.recalling;
    return count;
}

/* Asks a draining server for a few of its leases. One that nobody else could take stays. */
static void recall_some(struct lh_master *m, struct lh_m_server *s)
{
    unsigned asked = being_recalled(s);
    size_t looked = 0, held = s->leases.count;

    while (asked < m->config.drain_recalls && looked < held && looked < m->config.step_work) {
        struct lh_m_motion *mo = TAILQ_FIRST(&s->leases.held);
        struct lh_m_chunk *c = mo->chunk;
        /* To the end, so that those which stay do not keep the others from being looked at. */
        TAILQ_REMOVE(&s->leases.held, mo, grant.held_link);
        TAILQ_INSERT_TAIL(&s->leases.held, mo, grant.held_link);
        looked++;
        if (c->motion->grant.recalling || c->sealed || c->intent_to_seal)
            continue;
        if (!another_can(m, c, SIZE_MAX)) {
            LH_MARK("drain-lease-stays");
            continue;
        }
        LH_MARK("drain-recalls");
        lh_m_recall(m, c);
        asked++;
    }
}

void lh_m_recall_from_drained(struct lh_master *m)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
    if (lh_m_drained(s) && s->leases.count > 0)
        recall_some(m, s);
}

/* The busiest server with fewer than `below` leases, and how many the least busy one has. */
static struct lh_m_server *busiest(const struct lh_master *m, size_t below, size_t *least)
{
    struct lh_m_server *most = NULL, *s;

    *least = SIZE_MAX;
    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        if (lh_m_drained(s) || s->room.failing || !lh_m_reachable(m, s))
            continue;
        if (s->leases.count < *least)
            *least = s->leases.count;
        if (s->leases.count < below && (most == NULL || s->leases.count > most->leases.count))
            most = s;
    }
    return most;
}

/* One lease of the busiest server that has one which a less busy server could have. Afterwards the
 * two are nearer to each other and in the same order, so nothing goes to and fro. */
void lh_m_balance_primaries(struct lh_master *m)
{
    size_t below = SIZE_MAX, least, looked = 0;
    struct lh_m_server *s;

    if (!lh_m_may_balance(m))
        return;
    while (looked < m->config.step_work && (s = busiest(m, below, &least)) != NULL) {
        size_t slack = s->leases.count / 5 > 2 ? s->leases.count / 5 : 2;
        struct lh_m_motion *mo;
        if (s->leases.count - least <= slack || being_recalled(s) > 0)
            return;
        TAILQ_FOREACH(mo, &s->leases.held, grant.held_link) {
            struct lh_m_chunk *c = mo->chunk;
            if (++looked > m->config.step_work)
                return;
            if (c->sealed || c->intent_to_seal || !lh_m_has_primary(m, c) ||
                !another_can(m, c, s->leases.count - 1))
                continue;
            LH_MARK("balance-recalls");
            lh_m_recall(m, c);
            return;
        }
        below = s->leases.count;
    }
}
