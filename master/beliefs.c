/* For observers: what this master believes. */
#include "master/master.h"
#include "master/sessions/reach.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

bool lh_master_lease_of(
    const struct lh_master *m, uint64_t chunk, struct lh_instant now, struct lh_master_lease *lease)
{
    const struct lh_m_chunk *c = lh_m_chunk_find(m, chunk);
    struct lh_lease_info info;
    bool waiting, engine;

    if (c == NULL || c->motion->grant.holder == NULL)
        return false;
    waiting = c->motion->grant.waiting && lh_instant_before(now, m->wait_end);
    engine = c->motion->grant.session != 0 && lh_grantor_find(m->grantor, c->id, now, &info) &&
             info.session == c->motion->grant.session;
    if (!waiting && !engine)
        return false;
    *lease = (struct lh_master_lease){.holder = c->motion->grant.holder->id,
        .version = c->motion->grant.version,
        .end = waiting ? m->wait_end : info.end,
        .confirmed = c->motion->grant.confirmed,
        .recalling = c->motion->grant.recalling,
        .waiting = !engine};
    if (engine)
        lease->end = lh_instant_max(lease->end, info.end);
    return true;
}

bool lh_master_session_of(const struct lh_master *m, const char *server, struct lh_instant now,
    uint64_t *session, struct lh_instant *end)
{
    const struct lh_m_server *s;

    HASH_FIND_STR(m->servers, server, s);
    if (s == NULL || s->session.id == 0 || !lh_grantor_session_live(m->grantor, s->session.id, now))
        return false;
    *session = lh_m_wire_session(m, s->session.id);
    *end = lh_grantor_session_end_of(m->grantor, s->session.id);
    return true;
}
