/* The table of chunkservers. */
#include "master/tables/server.h"

#include "master/tables/tables.h"

struct lh_m_server *lh_m_server_find(struct lh_master *m, const char *id)
{
    struct lh_m_server *s;

    HASH_FIND_STR(m->servers, id, s);
    return s;
}

struct lh_m_server *lh_m_server_get(struct lh_master *m, const char *id)
{
    struct lh_m_server *s = lh_m_server_find(m, id);

    if (s != NULL)
        return s;
    s = lh_alloc(sizeof *s);
    s->id = lh_strdup(id);
    s->machine_id = lh_strdup("");
    s->address = lh_strdup("");
    s->failure_domain = lh_strdup("");
    lh_lease_client_init(&s->session.client, LH_M_CHUNKSERVER);
    s->session.name = s->id;
    TAILQ_INIT(&s->extras);
    TAILQ_INIT(&s->kept);
    s->number = HASH_COUNT(m->servers);
    LH_ASSERT(s->number < 1u << LH_M_SERVER_BITS);
    LH_GROW(m->server_list, m->server_capacity, s->number + 1u);
    m->server_list[s->number] = s;
    TAILQ_INSERT_TAIL(&m->all_servers, s, all_link);
    HASH_ADD_KEYPTR(hh, m->servers, s->id, strlen(s->id), s);
    return s;
}
