/* The streams of sessions. */
#include "master/sessions/links.h"

#include "master/tables/tables.h"

void lh_m_session_opened(struct lh_master *m, uint64_t link)
{
    struct lh_m_link *l = lh_alloc(sizeof *l);

    l->id = link;
    HASH_ADD(hh, m->links, id, sizeof l->id, l);
}

struct lh_m_link *lh_m_link_find(const struct lh_master *m, uint64_t link)
{
    struct lh_m_link *l;

    HASH_FIND(hh, m->links, &link, sizeof link, l);
    return l;
}

void lh_m_link_forget(struct lh_master *m, struct lh_m_link *l)
{
    if (l->server != NULL && l->server->session.link == l->id)
        l->server->session.link = 0;
    HASH_DELETE(hh, m->links, l);
    free(l);
}
