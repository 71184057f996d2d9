/* For observers: what this master believes. */
#include "lease/restart.h"
#include "master/inventory/inventory.h"
#include "master/master.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

bool lh_master_lease_of(
    const struct lh_master *m, uint64_t chunk, struct lh_instant now, struct lh_master_lease *lease)
{
    const struct lh_m_chunk *c = lh_m_chunk_find(m, chunk);
    struct lh_lease_info info;
    bool waiting, engine;

    if (c == NULL || lh_m_holder(c) == NULL)
        return false;
    const struct lh_lease *granted = &c->active->grant->lease;
    struct lh_instant wait_end = lh_lease_wait_end(&m->leases, granted);
    waiting = granted->waiting && lh_instant_before(now, wait_end);
    engine = c->active->grant->lease.session != 0 &&
             lh_grantor_find(m->leases.engine, c->id, now, &info) &&
             info.session == c->active->grant->lease.session;
    if (!waiting && !engine)
        return false;
    *lease = (struct lh_master_lease){.holder = lh_m_holder(c)->id,
        .version = c->active->grant->lease.version,
        .end = waiting ? wait_end : info.end,
        .confirmed = c->active->grant->lease.confirmed,
        .recalling = c->active->grant->lease.recalling,
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
    if (s == NULL || s->session.client.session == 0 ||
        !lh_grantor_session_live(m->leases.engine, s->session.client.session, now))
        return false;
    *session = lh_m_wire_session(m, s->session.client.session);
    *end = lh_lease_client_until(&m->leases, &s->session.client);
    return true;
}
