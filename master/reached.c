/* Which chunkservers this master reaches, and which it would register (HA-9a). */
#include "access/access.h"
#include "master/master.h"
#include "master/sessions/sessions.h"
#include "master/tables/tables.h"

bool lh_master_would_register(
    const struct lh_master *m, const char *identity, const Leasehold__MastersRequest *request)
{
    char refusal[LH_ACCESS_TEXT_MAX];
    struct lh_m_server *s;

    HASH_FIND_STR(m->servers, request->server_id, s);
    return s != NULL && !lh_m_forgotten(s) &&
           (request->cluster_id[0] == 0 || strcmp(request->cluster_id, m->cluster_id) == 0) &&
           lh_m_reign_fits(m, request->reign_seen, request->reign_name_seen) &&
           lh_access_server(m->config.access, identity, request->server_id, refusal) == LH_OK;
}

static bool is_reached(
    const struct lh_master *m, const struct lh_m_server *s, struct lh_instant now)
{
    return lh_m_session_hears(m, &s->session, now);
}

uint64_t lh_master_reached(const struct lh_master *m, struct lh_instant now)
{
    const struct lh_m_server *s;
    uint64_t count = 0;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
        count += is_reached(m, s, now);
    return count;
}

uint64_t lh_master_missed(
    const struct lh_master *m, struct lh_instant now, char *const *names, size_t count)
{
    struct lh_m_server *s;
    uint64_t missed = 0;

    for (size_t i = 0; names != NULL && i < count; i++) {
        HASH_FIND_STR(m->servers, names[i], s);
        missed += s != NULL && !is_reached(m, s, now);
    }
    if (names == NULL) {
        TAILQ_FOREACH(s, &m->all_servers, all_link)
            missed += !lh_m_forgotten(s) && !is_reached(m, s, now);
    }
    return missed;
}
