/* Which chunks are looked at, and when.
 *
 * A change that concerns one chunk puts it into `attention`. One that concerns many (a server came,
 * went, or was away for too long) begins a *sweep*, a walk over all chunks by id; if nothing
 * happens there is one a minute. A step looks at `step_work` chunks at most, `patrol_share` of them
 * for the sweep; the rest follows in steps of its own. */
#include "master/keep/sweep.h"

#include "master/inventory/health.h"
#include "master/keep/repair.h"
#include "master/keep/wanting.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

/* ---- Who is looked at, and when. */

static void patrol_timer(struct lh_master *m, struct lh_m_timer *timer)
{
    lh_m_timer_arm(m, timer, lh_instant_add(m->now, m->config.patrol));
    lh_m_patrol(m);
}

void lh_m_health_start(struct lh_master *m)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
    {
        s->away_since = m->now;
        lh_m_server_changed(m, s);
    }
    m->repair.meter_from = m->now;
    m->repair.patrol_timer.fire = patrol_timer;
    lh_m_timer_arm(m, &m->repair.patrol_timer, lh_instant_add(m->now, m->config.patrol));
    lh_m_repair_start(m);
    lh_m_patrol(m);
}

static size_t attend(struct lh_master *m, size_t left)
{
    struct lh_m_chunk *c;

    for (; left > 0 && (c = TAILQ_FIRST(&m->attention)) != NULL; left--) {
        TAILQ_REMOVE(&m->attention, c, attention_link);
        c->attended = false;
        lh_m_repair_look(m, c, false);
    }
    return left;
}

static void go_on_patrol(struct lh_master *m, size_t left)
{
    struct lh_m_chunk key = {.id = m->repair.patrol_next};
    struct lh_m_chunk *c = RB_NFIND(lh_m_all, &m->all, &key);

    for (; left > 0 && c != NULL; left--, c = RB_NEXT(lh_m_all, &m->all, c)) {
        m->repair.patrol_next = c->id + 1;
        lh_m_repair_look(m, c, true);
    }
    if (c != NULL)
        return;
    m->repair.patrolling = m->repair.patrol_again;
    m->repair.patrol_again = false;
    m->repair.patrol_next = 0;
    if (!m->repair.patrolling)
        lh_m_repair_round(m);
}

void lh_m_health_step(struct lh_master *m)
{
    size_t share = m->config.patrol_share, work = m->config.step_work;
    size_t left = attend(m, work > share ? work - share : 1);

    if (m->repair.patrolling)
        go_on_patrol(m, left + share);
    lh_m_repair_step(m);
}

bool lh_m_health_busy(const struct lh_master *m)
{
    return !TAILQ_EMPTY(&m->attention) || m->repair.patrolling || m->repair.round;
}

void lh_m_health_forget(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->attended)
        TAILQ_REMOVE(&m->attention, c, attention_link);
    c->attended = false;
    m->repair.conditions[c->repair.condition]--;
    lh_m_repair_forget(m, c);
}
