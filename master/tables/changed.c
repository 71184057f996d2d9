/* What changed, and is looked at in this step or soon. */
#include "master/tables/changed.h"

#include "master/tables/chunk.h"
#include "master/tables/tables.h"

void lh_m_touch(struct lh_master *m, struct lh_m_file *f)
{
    if (f == NULL || f->motion->waiter_count == 0 || f->motion->in_work)
        return;
    struct lh_m_file_motion *fm = lh_m_move_file(m, f);
    TAILQ_INSERT_TAIL(&m->work, fm, work_link);
    fm->in_work = true;
}

void lh_m_touch_waited(struct lh_master *m)
{
    struct lh_m_file_motion *fm;

    TAILQ_FOREACH(fm, &m->waited, waited_link)
        lh_m_touch(m, fm->file);
}

void lh_m_enqueue(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->motion->enqueued || c->removed)
        return;
    struct lh_m_motion *mo = lh_m_move(m, c);
    mo->enqueued = true;
    TAILQ_INSERT_TAIL(&m->enqueued, mo, enqueued_link);
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
