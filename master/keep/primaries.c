/* Primaries that are asked to let another one: on drained servers, and on the busiest (LEASE-5:
 * what is under way commits, and the holder releases). */
#include "master/keep/internal.h"

#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

/* Could another member than its primary take the chunk over, one with fewer than `below` leases? */
static bool another_can(const struct lh_master *m, const struct lh_m_chunk *c, size_t below)
{
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (s != lh_m_holder(c) && !lh_m_drained(s) && s->session.client.count < below &&
            lh_m_can_lead(m, &c->members[i]))
            return true;
    }
    return false;
}

static unsigned being_recalled(const struct lh_m_server *s)
{
    const struct lh_lease *lease;
    unsigned count = 0;

    TAILQ_FOREACH(lease, &s->session.client.todo, todo_link)
        count += lease->recalling;
    return count;
}

/* Asks a draining server for a few of its leases. One that nobody else could take stays. */
static void recall_some(struct lh_master *m, struct lh_m_server *s)
{
    unsigned asked = being_recalled(s);
    size_t looked = 0, held = s->session.client.count;

    while (asked < m->config.drain_recalls && looked < held && looked < m->config.step_work) {
        struct lh_lease *lease = TAILQ_FIRST(&s->session.client.held);
        struct lh_m_chunk *c = lh_m_leased_active(lease)->chunk;
        /* So that those which stay do not keep the others from being looked at. */
        lh_lease_to_last(lease);
        looked++;
        if (c->active->grant->lease.recalling || c->sealed || c->intent_to_seal)
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
        if (lh_m_drained(s) && s->session.client.count > 0)
            recall_some(m, s);
}

/* The busiest server with fewer than `below` leases, and how many the least busy one has. */
static struct lh_m_server *busiest(const struct lh_master *m, size_t below, size_t *least)
{
    struct lh_m_server *most = NULL, *s;

    *least = SIZE_MAX;
    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        if (lh_m_drained(s) || s->space.failing || !lh_m_reachable(m, s))
            continue;
        if (s->session.client.count < *least)
            *least = s->session.client.count;
        if (s->session.client.count < below &&
            (most == NULL || s->session.client.count > most->session.client.count))
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
        size_t slack = s->session.client.count / 5 > 2 ? s->session.client.count / 5 : 2;
        const struct lh_lease *lease;
        if (s->session.client.count - least <= slack || being_recalled(s) > 0)
            return;
        TAILQ_FOREACH(lease, &s->session.client.held, held_link) {
            struct lh_m_chunk *c = lh_m_leased_active(lease)->chunk;
            if (++looked > m->config.step_work)
                return;
            if (c->sealed || c->intent_to_seal || !lh_m_has_primary(m, c) ||
                !another_can(m, c, s->session.client.count - 1))
                continue;
            LH_MARK("balance-recalls");
            lh_m_recall(m, c);
            return;
        }
        below = s->session.client.count;
    }
}
