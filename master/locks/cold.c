/* A master that has seen nothing of its store's history gives no token before servers have shown
 * that the store is no older copy (NL-2a). */
#include "master/locks/internal.h"
#include "master/locks/locks.h"

/* It has shown that what it has seen fits, and holds this reign's name since (SES-9): another
 * master of an older copy would hear of it. */
static bool servers_show_it(const struct lh_master *m, bool *any)
{
    const struct lh_m_server *s;
    size_t known = 0, here = 0;

    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        if (s->incarnation == 0)
            continue; /* forgotten, or not registered yet */
        known++;
        here += s->session.client.session != 0 && s->session.client.confirmed;
    }
    *any = known > 0;
    return here * 2 > known;
}

static bool a_program_shows_it(struct lh_master *m)
{
    struct lh_m_program *p;

    RB_FOREACH(p, lh_m_programs, &m->programs.tree) {
        if (p->back && p->reign_name_seen != 0)
            return true;
    }
    return false;
}

static void look(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    bool any_server, shown = servers_show_it(m, &any_server);

    if (!any_server)
        shown = a_program_shows_it(m);
    if (!shown && lh_instant_before(m->now, m->leases.wait_end)) {
        lh_timer_set(&m->timers, timer,
            lh_instant_min(lh_instant_add(m->now, m->config.cold_look), m->leases.wait_end));
        return;
    }
    if (shown)
        LH_MARK("cold-start-is-shown-to-fit");
    else
        LH_MARK("cold-start-trusted");
    m->locks.cold = false;
    lh_m_locks_all_back(m);
}

void lh_m_cold_start(struct lh_master *m)
{
    m->locks.cold = !LH_PLANTED("token-at-a-cold-start");
    m->locks.cold_timer.fire = look;
    if (m->locks.cold)
        lh_timer_set(&m->timers, &m->locks.cold_timer, m->now);
}
