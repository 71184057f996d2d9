/* Extras: replicas of chunks that exist, at servers that are no members of them: they were reported
 * so, or the server was dropped from the set. When they go, keep/garbage.c decides. */
#include "master/inventory/inventory.h"

#include "master/tables/behind.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

void lh_m_garbage_soon(struct lh_master *m)
{
    if (!lh_timer_is_set(&m->garbage.timer) && lh_m_deleting(m) &&
        (m->garbage.extra_count > 0 || m->garbage.kept_count > 0))
        lh_timer_set(
            &m->timers, &m->garbage.timer, lh_instant_add(m->now, m->config.garbage_first));
}

struct lh_m_extra *lh_m_extra_find(const struct lh_m_chunk *c, const struct lh_m_server *s)
{
    struct lh_m_extra *e;

    TAILQ_FOREACH(e, &c->active->extras, link)
        if (e->server == s)
            return e;
    return NULL;
}

void lh_m_extra_forget(struct lh_master *m, struct lh_m_extra *e)
{
    TAILQ_REMOVE(&lh_m_move(m, e->chunk)->extras, e, link);
    TAILQ_REMOVE(&e->server->extras, e, of_link);
    TAILQ_REMOVE(&m->garbage.extras, e, all_link);
    m->garbage.extra_count--;
    free(e);
}

void lh_m_extra_note(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s,
    uint64_t version, bool sealed, bool copying)
{
    struct lh_m_extra *e = lh_m_extra_find(c, s);

    if (!lh_m_live(m, s))
        return; /* it tells when it registers */
    if (e == NULL) {
        e = lh_alloc(sizeof *e);
        e->chunk = c;
        e->server = s;
        TAILQ_INSERT_TAIL(&lh_m_move(m, c)->extras, e, link);
        TAILQ_INSERT_TAIL(&s->extras, e, of_link);
        TAILQ_INSERT_TAIL(&m->garbage.extras, e, all_link);
        m->garbage.extra_count++;
    }
    e->version = version;
    e->sealed = sealed;
    e->copying = copying;
    e->asked = false;
    lh_m_garbage_soon(m);
}

void lh_m_extras_forget(struct lh_master *m, struct lh_m_server *s)
{
    struct lh_m_extra *e;
    struct lh_m_kept *k;

    while ((e = TAILQ_FIRST(&s->extras)) != NULL)
        lh_m_extra_forget(m, e);
    while ((k = TAILQ_FIRST(&s->kept)) != NULL) {
        TAILQ_REMOVE(&s->kept, k, link);
        m->garbage.kept_count--;
        free(k);
    }
}

void lh_m_extras_free(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_extra *e;

    while ((e = TAILQ_FIRST(&c->active->extras)) != NULL)
        lh_m_extra_forget(m, e);
}

struct lh_m_server *lh_m_extra_fit(struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_m_extra *e, *best = NULL;

    TAILQ_FOREACH(e, &c->active->extras, link) {
        /* One that was told to go is no start for a copy. */
        if (e->asked || lh_m_member(c, e->server) != NULL ||
            !lh_m_fits(m, e->server, c->file->chunk_size))
            continue;
        if (best == NULL || e->version > best->version)
            best = e;
    }
    return best == NULL ? NULL : best->server;
}
