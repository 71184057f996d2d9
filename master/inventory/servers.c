/* Chunkservers as they come and go. */
#include "master/inventory/inventory.h"

#include "master/tables/tables.h"

void lh_m_servers_start(struct lh_master *m)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
        s->session.away_since = s->report.since = m->now;
    lh_m_unsettled(m);
}

void lh_m_unsettled(struct lh_master *m)
{
    m->unsettled_until = lh_instant_add(m->now, m->config.create_timeout);
}
