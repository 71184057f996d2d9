/* What changed, and is looked at in this step or soon. */
#include "master/tables/changed.h"

#include "master/tables/chunk.h"
#include "master/tables/tables.h"

void lh_m_touch(struct lh_master *m, struct lh_m_file *f)
{
    if (f == NULL || f->active->waiter_count == 0 || f->active->in_work)
        return;
    struct lh_m_file_active *fm = lh_m_move_file(m, f);
    TAILQ_INSERT_TAIL(&m->work, fm, work_link);
    fm->in_work = true;
}

void lh_m_touch_waited(struct lh_master *m)
{
    struct lh_m_file_active *fm;

    TAILQ_FOREACH(fm, &m->waited, waited_link)
        lh_m_touch(m, fm->file);
}

void lh_m_enqueue(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->enqueued || c->removed)
        return;
    c->enqueued = true;
    m->enqueued.count++;
    if (m->enqueued.end == m->enqueued.capacity && m->enqueued.next > m->enqueued.end / 2) {
        m->enqueued.end -= m->enqueued.next;
        memmove(m->enqueued.chunks, m->enqueued.chunks + m->enqueued.next,
            m->enqueued.end * sizeof *m->enqueued.chunks);
        m->enqueued.next = 0;
    }
    LH_GROW(m->enqueued.chunks, m->enqueued.capacity, m->enqueued.end + 1);
    m->enqueued.chunks[m->enqueued.end++] = c->id;
}

void lh_m_enqueued_forget(struct lh_master *m, struct lh_m_chunk *c)
{
    m->enqueued.count -= c->enqueued;
    c->enqueued = false;
}

struct lh_m_chunk *lh_m_dequeue(struct lh_master *m)
{
    while (m->enqueued.next < m->enqueued.end) {
        struct lh_m_chunk *c = lh_m_chunk_find(m, m->enqueued.chunks[m->enqueued.next++]);
        if (c == NULL || !c->enqueued)
            continue;
        lh_m_enqueued_forget(m, c);
        return c;
    }
    m->enqueued.next = m->enqueued.end = 0;
    return NULL;
}

void lh_m_sweep(struct lh_master *m)
{
    if (m->repair.sweeping && m->repair.sweep_next > 0) {
        m->repair.sweep_again = true;
        return;
    }
    m->repair.sweeping = true;
    m->repair.sweep_next = 0;
}
