/* The master's timers: one queue for all. */
#include "master/tables/timers.h"

#include "master/tables/tables.h"

static int compare_timers(const struct lh_m_timer *a, const struct lh_m_timer *b)
{
    if (a->at.ns != b->at.ns)
        return a->at.ns < b->at.ns ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

RB_GENERATE(lh_m_timers, lh_m_timer, node, compare_timers)

void lh_m_timer_arm(struct lh_master *m, struct lh_m_timer *t, struct lh_instant at)
{
    LH_ASSERT(t->fire != NULL);
    lh_m_timer_disarm(m, t);
    t->at = at;
    t->sequence = m->timer_sequence++;
    t->armed = true;
    RB_INSERT(lh_m_timers, &m->timers, t);
}

void lh_m_timer_disarm(struct lh_master *m, struct lh_m_timer *t)
{
    if (t->armed)
        RB_REMOVE(lh_m_timers, &m->timers, t);
    t->armed = false;
}

void lh_m_timers_fire(struct lh_master *m)
{
    struct lh_m_timer *t;
    /* A timer that is armed again for now has its turn in the next step. */
    uint64_t end = m->timer_sequence;

    while ((t = RB_MIN(lh_m_timers, &m->timers)) != NULL && lh_instant_reached(m->now, t->at) &&
           t->sequence < end) {
        lh_m_timer_disarm(m, t);
        t->fire(m, t);
    }
}

struct lh_instant lh_m_timers_deadline(const struct lh_master *m)
{
    struct lh_m_timer *first = RB_MIN(lh_m_timers, (struct lh_m_timers *)(uintptr_t)&m->timers);

    return first == NULL ? LH_INSTANT_NEVER : first->at;
}
