/* How far drains are. */
#include "master/keep/drain.h"

#include "master/sessions/reach.h"
#include "master/tables/tables.h"

#include <inttypes.h>

bool lh_m_counted(const struct lh_master *m, const struct lh_m_server *s)
{
    return m->moving.complete >= s->census.first;
}

bool lh_m_safe_to_stop(const struct lh_master *m, const struct lh_m_server *s)
{
    return lh_m_drained(s) && lh_m_counted(m, s) && s->census.needed == 0 &&
           s->session.lessee.count == 0;
}

uint64_t lh_m_replicas_to_move(const struct lh_master *m, const struct lh_m_server *s)
{
    if (!lh_m_drained(s))
        return 0;
    return lh_m_counted(m, s) ? s->census.needed : s->room.replicas;
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
        "%" PRIu64 " replicas on chunkserver %s have nowhere to go: %u chunkservers are left, and "
        "files ask for %u; add chunkservers, or take the drain of one back",
        s->census.needed, s->id, left, m->moving.wanted);
    return true;
}
