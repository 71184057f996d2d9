/* What changed, and is looked at in this step or soon. */
#include "master/tables/changed.h"

#include "master/tables/chunk.h"
#include "master/tables/tables.h"

void lh_m_touch(struct lh_master *m, struct lh_m_file *f)
{
    if (f == NULL || f->in_work || TAILQ_EMPTY(&f->waiters))
        return;
    TAILQ_INSERT_TAIL(&m->work, f, work_link);
    f->in_work = true;
}

void lh_m_touch_waited(struct lh_master *m)
{
    struct lh_m_file *f;

    TAILQ_FOREACH(f, &m->waited, waited_link)
    lh_m_touch(m, f);
}

void lh_m_attend(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->attended || c->removed)
        return;
    c->attended = true;
    TAILQ_INSERT_TAIL(&m->attention, c, attention_link);
}

void lh_m_patrol(struct lh_master *m)
{
    if (m->repair.patrolling && m->repair.patrol_next > 0) {
        m->repair.patrol_again = true;
        return;
    }
    m->repair.patrolling = true;
    m->repair.patrol_next = 0;
}
