/* Which records the step's commit writes. */
#include "master/tables/dirty.h"

#include "master/tables/chunk.h"
#include "master/tables/tables.h"

void lh_m_dirty_master(struct lh_master *m)
{
    m->dirty = true;
}

void lh_m_dirty_server(struct lh_master *m, struct lh_m_server *s)
{
    s->ticket = m->commit.next_ticket;
    if (!s->dirty)
        STAILQ_INSERT_TAIL(&m->commit.dirty_servers, s, dirty_link);
    s->dirty = true;
}

void lh_m_dirty_chunk(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_active *mo = lh_m_move(m, c);

    mo->ticket = m->commit.next_ticket;
    if (c->file != NULL)
        c->file->ticket = m->commit.next_ticket;
    if (!mo->dirty)
        STAILQ_INSERT_TAIL(&m->commit.dirty_chunks, mo, dirty_link);
    mo->dirty = true;
}

void lh_m_dirty_file(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_file_active *fm = lh_m_move_file(m, f);

    f->ticket = m->commit.next_ticket;
    m->commit.namespace_ticket = m->commit.next_ticket;
    if (!fm->dirty)
        STAILQ_INSERT_TAIL(&m->commit.dirty_files, fm, dirty_link);
    fm->dirty = true;
}

void lh_m_dirty_program(struct lh_master *m, struct lh_m_program *p)
{
    p->ticket = m->commit.next_ticket;
    if (!p->dirty)
        STAILQ_INSERT_TAIL(&m->commit.dirty_programs, p, dirty_link);
    p->dirty = true;
}

void lh_m_dirty_policy(struct lh_master *m, struct lh_m_policy *policy)
{
    policy->ticket = m->commit.next_ticket;
    if (!policy->dirty)
        STAILQ_INSERT_TAIL(&m->commit.dirty_policies, policy, dirty_link);
    policy->dirty = true;
}

void lh_m_dirty_change(struct lh_master *m, struct lh_m_value_change *c)
{
    c->ticket = m->commit.next_ticket;
    if (!c->dirty)
        STAILQ_INSERT_TAIL(&m->commit.dirty_changes, c, dirty_link);
    c->dirty = true;
}

const struct lh_m_tombstone *lh_m_tombstone_find(const struct lh_master *m, uint64_t chunk)
{
    return lh_idmap_find(&m->tombstones, chunk);
}

void lh_m_tombstone_put(struct lh_master *m, uint64_t chunk, uint64_t version)
{
    struct lh_m_tombstone *t = lh_idmap_find(&m->tombstones, chunk);

    if (t == NULL) {
        t = lh_alloc(sizeof *t);
        t->chunk = chunk;
        lh_idmap_add(&m->tombstones, t);
    }
    t->version = version;
}

void lh_m_tombstone_forget(struct lh_master *m, uint64_t chunk)
{
    struct lh_m_tombstone *t = lh_idmap_find(&m->tombstones, chunk);

    if (t == NULL)
        return;
    lh_m_pair_drop(m, lh_idmap_word(&m->tombstones, chunk));
    lh_idmap_remove(&m->tombstones, t);
    free(t);
}

void lh_m_bury(struct lh_master *m, uint64_t chunk, uint64_t version)
{
    struct lh_m_mark *mark = lh_alloc(sizeof *mark);

    lh_m_tombstone_put(m, chunk, version);
    *mark = (struct lh_m_mark){.chunk = chunk, .version = version, .put = true};
    STAILQ_INSERT_TAIL(&m->commit.dirty_tombstones, mark, link);
}

void lh_m_dirty_tombstone(struct lh_master *m, uint64_t chunk, bool put)
{
    struct lh_m_mark *mark = lh_alloc(sizeof *mark);

    mark->chunk = chunk;
    mark->put = put;
    STAILQ_INSERT_TAIL(&m->commit.dirty_tombstones, mark, link);
}
