/* Which chunks are looked at, and when.
 *
 * A change that concerns one chunk puts it into `enqueued`. One that concerns many (a server came,
 * went, or was away for too long) begins a *sweep*, a walk over all chunks by id; if nothing
 * happens there is one a minute, or later with very many chunks. A step looks at `step_work` chunks
 * at most, and walks over `walk_share` of all: inputs take turns with short steps, so a thousand
 * servers that register each begin a sweep, and none waits for it. */
#include "master/keep/keep.h"

#include "master/inventory/inventory.h"
#include "master/keep/internal.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

/* ---- Who is looked at, and when. */

struct lh_duration lh_m_walk_pause(
    const struct lh_master *m, struct lh_duration pause, uint64_t chunk_ns)
{
    return lh_duration_add(pause, lh_nanoseconds((uint64_t)m->chunks.count * chunk_ns));
}

static void set_sweep_timer(struct lh_master *m)
{
    lh_timer_set(&m->timers, &m->repair.sweep_timer,
        lh_instant_add(m->now, lh_m_walk_pause(m, m->config.sweep, m->config.sweep_chunk_ns)));
}

static void sweep_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;

    (void)timer;
    set_sweep_timer(m);
    lh_m_sweep(m);
}

void lh_m_sweep_start(struct lh_master *m)
{
    struct lh_m_server *s;

    TAILQ_FOREACH(s, &m->all_servers, all_link)
        lh_m_server_changed(m, s);
    m->repair.meter_from = m->now;
    m->repair.sweep_timer.fire = sweep_timer;
    set_sweep_timer(m);
    lh_m_repair_start(m);
    lh_m_sweep(m);
}

static void look_at_enqueued(struct lh_master *m)
{
    struct lh_m_chunk *c;

    for (size_t left = m->config.step_work; left > 0 && (c = lh_m_dequeue(m)) != NULL; left--)
        lh_m_repair_look(m, c, false);
}

static void go_on_sweeping(struct lh_master *m)
{
    struct lh_m_chunk *c = lh_m_chunk_from(m, m->repair.sweep_next);

    for (size_t left = m->config.walk_share; left > 0 && c != NULL;
         left--, c = lh_m_chunk_from(m, c->id + 1)) {
        m->repair.sweep_next = c->id + 1;
        lh_m_repair_look(m, c, true);
    }
    if (c != NULL)
        return;
    m->repair.sweeping = m->repair.sweep_again;
    m->repair.sweep_again = false;
    m->repair.sweep_next = 0;
    if (!m->repair.sweeping)
        lh_m_repair_round(m);
}

void lh_m_sweep_step(struct lh_master *m)
{
    look_at_enqueued(m);
    if (m->repair.sweeping)
        go_on_sweeping(m);
    lh_m_repair_step(m);
}

bool lh_m_sweep_busy(const struct lh_master *m)
{
    return m->enqueued.count > 0 || m->repair.sweeping || m->repair.round;
}

void lh_m_sweep_forget(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_enqueued_forget(m, c);
    m->repair.conditions[c->condition]--;
    lh_m_repair_forget(m, c);
}
