/* What must hold of locks between any two steps. */
#include "master/locks/internal.h"

static void check_lock_request(
    const struct lh_master *m, struct lh_m_lock_state *g, struct lh_m_lock_request *c)
{
    LH_ASSERT(c->lock_state == g && !c->kept);
    LH_ASSERT(c->queued == (RB_FIND(lh_m_queue, &g->queue, c) == c));
    if (c->state == LH_M_LOCK_REQUEST_WAITS) {
        LH_ASSERT(RB_FIND(lh_m_lock_requests, &c->program->requests, c) == c);
        LH_ASSERT(c->queued == !c->program->parked && !c->program->over);
        return;
    }
    LH_ASSERT(!c->queued && c->program->locks > 0 && g->name->leases > 0);
    LH_ASSERT(m->locks.held > 0);
}

static void check_lock_state(const struct lh_master *m, struct lh_m_lock_state *g)
{
    struct lh_m_lock_request *c;
    const struct lh_m_cancel *cancel;
    size_t waiting = 0, sharers = 0, recallable = 0, holders = 0, held = 0;

    RB_FOREACH(c, lh_m_lock_requests_here, &g->requests) {
        bool shares = c->state == LH_M_LOCK_REQUEST_HELD && c->shared;
        check_lock_request(m, g, c);
        waiting += c->state == LH_M_LOCK_REQUEST_WAITS;
        sharers += shares;
        recallable += c->state == LH_M_LOCK_REQUEST_HELD && c->recallable;
        held += c->state == LH_M_LOCK_REQUEST_HELD;
        LH_ASSERT((shares && c->slots != 0) == (RB_FIND(lh_m_slotted, &g->slotted, c) == c));
    }
    TAILQ_FOREACH(c, &g->holders, turn) {
        LH_ASSERT(c->state == LH_M_LOCK_REQUEST_HELD);
        holders++;
    }
    TAILQ_FOREACH(cancel, &g->cancels, place)
        LH_ASSERT(cancel->lock_state == g && lh_timer_is_set(&cancel->timer));
    LH_ASSERT(waiting == g->waiting && sharers == g->sharers && held == holders);
    LH_ASSERT(recallable == g->recallable && (!g->asking || g->works));
    LH_ASSERT(!RB_EMPTY(&g->requests) || !TAILQ_EMPTY(&g->cancels));
    /* INV-18: what can be granted is, but for what is left for the next step. */
    c = RB_MIN(lh_m_queue, &g->queue);
    if (c != NULL && !g->works && !lh_m_programs_awaited(m) && m->locks.tokens > 0 && !m->stopping)
        LH_ASSERT(g->name->leases > 0);
}

void lh_m_locks_check(const struct lh_master *m)
{
    struct lh_m_name *n;
    struct lh_m_program *p;
    size_t held = 0, waiting = 0, caches = 0, leases = 0, names = 0;

    LH_ASSERT(m->locks.in_hand == NULL);
    RB_FOREACH(n, lh_m_name_tree, (struct lh_m_name_tree *)(uintptr_t)&m->names.tree) {
        LH_ASSERT(lh_m_name_by_number(m, n->number) == n);
        LH_ASSERT(n->leases > 0 || n->more != &lh_m_name_nothing);
        leases += n->leases;
        names++;
        if (n->more->lock_state != NULL)
            check_lock_state(m, n->more->lock_state);
    }
    RB_FOREACH(p, lh_m_programs, (struct lh_m_programs *)(uintptr_t)&m->programs.tree) {
        struct lh_m_lock_request *c;
        size_t requests = 0;
        RB_FOREACH(c, lh_m_lock_requests, &p->requests) {
            requests++;
        }
        LH_ASSERT(requests == p->request_count);
        held += p->locks;
        caches += p->caches;
        waiting += requests;
    }
    LH_ASSERT(held == m->locks.held && waiting == m->locks.waiting && names == m->names.count);
    LH_ASSERT(leases == held + caches);
    lh_m_lock_watch_check(m);
}
