/* What goes elsewhere although nothing is broken: what lies on servers that are drained, replicas
 * that share a failure domain, and what makes one server fuller or busier than another.
 *
 * This file decides *what* leaves (a member's `leaving`) and asks primaries to give their leases up
 * (LEASE-5: what is under way commits, and the holder releases). The copying, and that nothing goes
 * before its replacement is there (KEEP-2), is repair.c's.
 *
 * Whether a drained server is still needed is found out by a census: a walk over all chunks, in
 * pieces, every second while something is drained. What a census says holds if it began after the
 * operator's word. The same walk finds what had better lie elsewhere. */
#include "master/keep/keep.h"

#include "master/keep/internal.h"
#include "master/tables/tables.h"

void lh_m_moving_advance(struct lh_master *m)
{
    struct lh_m_moving *v = &m->moving;

    if (!v->counting && lh_instant_reached(m->now, v->next_census))
        lh_m_census_begin(m);
    if (v->counting) {
        lh_m_census_go_on(m);
        if (!v->counting)
            lh_m_balance_primaries(m);
    }
    lh_m_recall_from_drained(m);
    lh_timer_set(&m->timers, &v->timer, v->counting ? m->now : v->next_census);
}

static void on_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    (void)timer;
    lh_m_moving_advance(m);
}

void lh_m_moving_start(struct lh_master *m)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
        s->census.first = 1;
    m->moving.next_census = m->now;
    m->moving.timer.fire = on_timer;
    lh_timer_set(&m->timers, &m->moving.timer, m->now);
}

void lh_m_moving_kick(struct lh_master *m)
{
    lh_timer_set(&m->timers, &m->moving.timer, m->now);
}

void lh_m_moving_restart(struct lh_master *m, struct lh_m_server *s)
{
    /* What was counted so far was counted under other orders. */
    s->census.first = m->moving.begun + 1;
    free(s->census.obstacle);
    s->census.obstacle = NULL;
    m->moving.counting = false;
    m->moving.next_census = m->now;
}
