/* How far drains are, and what is void when a server leaves. */
#include "master/keep/keep.h"

#include "base/plural.h"
#include "master/inventory/inventory.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

bool lh_m_counted(const struct lh_master *m, const struct lh_m_server *s)
{
    return !s->census.unseen && m->moving.complete >= s->census.first;
}

bool lh_m_safe_to_stop(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_m_drained(s) && lh_m_counted(m, s) && s->census.needed == 0 &&
           s->session.client.count == 0;
}

uint64_t lh_m_replicas_to_move(const struct lh_master *m, const struct lh_m_server *s)
{
    if (!lh_m_drained(s))
        return 0;
    return lh_m_counted(m, s) ? s->census.needed : s->space.replicas;
}

bool lh_m_draining(const struct lh_master *m, const struct lh_m_server *s)
{
    if (!lh_m_drained(s) || lh_m_forgotten(s))
        return false;
    return !lh_m_safe_to_stop(m, s) || s->admin == LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING;
}

bool lh_m_anybody_drains(const struct lh_master *m)
{
    const struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
        if (lh_m_draining(m, s))
            return true;
    return false;
}

bool lh_m_too_few_left(
    const struct lh_master *m, const struct lh_m_server *s, char *text, size_t text_size)
{
    const struct lh_m_server *other;
    unsigned left = 0;

    TAILQ_FOREACH(other, &m->all_servers, all_link)
        left += !lh_m_drained(other) && lh_m_live(m, other);
    if (!lh_m_drained(s) || !lh_m_counted(m, s) || s->census.needed == 0 ||
        left >= m->moving.wanted)
        return false;
    snprintf(text, text_size,
        "%" PRIu64 " replica%s on chunkserver %s %s nowhere to go: %u chunkserver%s %s left, and "
        "files ask for %u; add chunkservers, or take the drain of one back",
        s->census.needed, lh_plural(s->census.needed), s->id,
        lh_one_or_many(s->census.needed, "has", "have"), left, lh_plural(left),
        lh_one_or_many(left, "is", "are"), m->moving.wanted);
    return true;
}

void lh_m_server_left(struct lh_master *m, struct lh_m_server *s, bool replaced)
{
    lh_m_extras_forget(m, s);
    lh_m_copies_end(m, s);
    lh_m_reports_end(m, s);
    if (!replaced)
        return;
    lh_m_reports_forget(m, s);
    s->census.unseen = true;
}

void lh_m_dismiss(struct lh_master *m, struct lh_m_server *s)
{
    LH_ASSERT(s->session.client.count == 0);
    lh_m_session_replace(m, &s->session, 0, LH_ERR_WRONG_IDENTITY, "the server was decommissioned");
    lh_m_server_left(m, s, true);
    s->census.unseen = false; /* it has nothing any more */
    s->session.away_since = m->now;
    lh_m_server_changed(m, s);
    s->incarnation = s->session.client.process = s->registration = 0;
    s->machine_id[0] = s->address[0] = s->failure_domain[0] = 0;
    s->space.capacity_bytes = s->space.free_bytes = s->space.replicas = s->space.placed_bytes = 0;
    s->space.failing = s->space.read_only = false;
    lh_m_dirty_server(m, s);
}
