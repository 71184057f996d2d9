/* All of values together: their life with the master's, and the work of a step. */
#include "master/values/values.h"

#include "master/values/internal.h"

void lh_m_values_init(struct lh_master *m)
{
    struct lh_m_value_state *v = lh_alloc(sizeof *v);

    TAILQ_INIT(&v->all);
    TAILQ_INIT(&v->work);
    TAILQ_INIT(&v->committed);
    STAILQ_INIT(&v->late_drops);
    STAILQ_INIT(&v->ended);
    RB_INIT(&v->broadcasts);
    TAILQ_INIT(&v->idle);
    TAILQ_INIT(&v->busy);
    m->value_state = v;
}

void lh_m_values_deinit(struct lh_master *m)
{
    struct lh_m_value_state *v = m->value_state;
    struct lh_m_pending_changes *g;
    struct lh_m_late_drop *d;
    struct lh_m_ended *e;
    struct lh_m_program *p;

    while ((g = TAILQ_FIRST(&v->all)) != NULL)
        lh_m_pending_changes_free(m, g);
    while ((d = STAILQ_FIRST(&v->late_drops)) != NULL) {
        STAILQ_REMOVE_HEAD(&v->late_drops, next);
        free(d);
    }
    while ((e = STAILQ_FIRST(&v->ended)) != NULL) {
        STAILQ_REMOVE_HEAD(&v->ended, next);
        free(e);
    }
    RB_FOREACH(p, lh_m_programs, &m->programs.tree) {
        lh_m_subscriptions_free(p);
    }
    lh_m_broadcasts_deinit(m);
    lh_m_watch_end(m, LH_OK, NULL);
    free(v);
    m->value_state = NULL;
}

void lh_m_values_start(struct lh_master *m)
{
    m->value_state->durable = m->history.last;
    lh_m_broadcasts_start(m);
    lh_m_attached_start(m);
}

void lh_m_values_all_back(struct lh_master *m)
{
    struct lh_m_pending_changes *g;

    TAILQ_FOREACH(g, &m->value_state->all, all_link)
        lh_m_pending_changes_work(m, g);
}

void lh_m_values_session_over(struct lh_master *m, struct lh_m_program *p)
{
    lh_m_subscriptions_free(p);
    lh_m_attached_over(m, p);
    lh_m_program_settle(m, p);
}

void lh_m_values_durable(struct lh_master *m)
{
    lh_m_pending_changes_durable(m);
}

void lh_m_values_stop(struct lh_master *m, int error, const char *text)
{
    struct lh_m_pending_changes *g;
    struct lh_m_change *c;

    lh_m_watch_end(m, error, text);
    TAILQ_FOREACH(g, &m->value_state->all, all_link) {
        while ((c = TAILQ_FIRST(&g->changes)) != NULL) {
            if (!c->follows)
                lh_m_pending_fail(m, &c->call, error, text);
            lh_m_change_free(m, c);
        }
    }
}

void lh_m_values_step(struct lh_master *m)
{
    if (!m->stopping)
        lh_m_attached_step(m);
    m->value_state->left.work = m->config.step_work;
    m->value_state->left.commits = m->config.changes_step;
    m->value_state->left.bytes = m->config.changes_step_bytes;
    lh_m_pending_changes_step(m);
    m->value_state->left.work =
        m->config.step_work; /* each has its own: neither starves the other */
    lh_m_watch_step(m);
}

bool lh_m_values_busy(const struct lh_master *m)
{
    return !TAILQ_EMPTY(&m->value_state->work) || !TAILQ_EMPTY(&m->value_state->busy) ||
           !STAILQ_EMPTY(&m->value_state->late_drops) || (!m->stopping && lh_m_attached_waiting(m));
}

/* ---- For figures. */

void lh_m_values_figures(const struct lh_master *m, struct lh_m_values_figures *figures)
{
    *figures = (struct lh_m_values_figures){.changes_waiting = m->value_state->change_count,
        .reads_waiting = m->value_state->read_count,
        .watchers = m->value_state->watcher_count + lh_m_lock_watchers(m)};
}

/* ---- What must hold. */

static void check_pending_changes(const struct lh_master *m, const struct lh_m_pending_changes *g)
{
    const struct lh_m_waiting_read *r;
    const struct lh_m_change *c;
    size_t changes = 0;

    LH_ASSERT(g->name->more->changing == g && lh_m_name_by_number(m, g->name->number) == g->name);
    TAILQ_FOREACH(c, &g->changes, link) {
        LH_ASSERT(
            c->changing == g && (c->follows || c->carry_out != NULL || lh_timer_is_set(&c->timer)));
        changes++;
    }
    LH_ASSERT(changes == g->change_count);
    LH_ASSERT(g->phase != LH_M_COMMITTED || !lh_m_is_durable(m, g->ticket));
    STAILQ_FOREACH(r, &g->reads, next)
        LH_ASSERT(g->phase != LH_M_DROPPING);
}

static void check_counts(const struct lh_master *m)
{
    const struct lh_m_value_state *v = m->value_state;
    size_t changes = 0, reads = 0, follows = 0;
    const struct lh_m_waiting_read *r;
    const struct lh_m_pending_changes *g;
    const struct lh_m_change *c;

    TAILQ_FOREACH(g, &v->all, all_link) {
        check_pending_changes(m, g);
        changes += g->change_count;
        TAILQ_FOREACH(c, &g->changes, link)
            follows += c->follows;
        STAILQ_FOREACH(r, &g->reads, next)
            reads++;
    }
    LH_ASSERT(changes == v->change_count && reads == v->read_count && follows == v->follow_count);
}

/* Each name has as many cache leases as the engine has, and so has each program. */
static void check_leases(const struct lh_master *m)
{
    struct lh_m_program *p;
    struct lh_m_name *n;
    size_t by_name = 0, by_program = 0, bytes = 0, values = 0;

    RB_FOREACH(n, lh_m_name_tree, (struct lh_m_name_tree *)(uintptr_t)&m->names.tree) {
        LH_ASSERT(n->caches <= n->leases);
        by_name += n->caches;
        values += n->more->value != NULL;
        bytes += n->more->value == NULL ? 0 : n->more->value->bytes.size;
    }
    RB_FOREACH(p, lh_m_programs, (struct lh_m_programs *)(uintptr_t)&m->programs.tree) {
        by_program += p->caches;
    }
    LH_ASSERT(by_name == by_program);
    LH_ASSERT(values == m->values.count && bytes == m->values.bytes);
}

static void check_watchers(const struct lh_master *m)
{
    const struct lh_m_watcher *w;
    struct lh_link *l, *next;
    size_t queued = 0, in_flight = 0;

    TAILQ_FOREACH(w, &m->value_state->idle, queue) {
        LH_ASSERT(!w->busy && !w->in_flight);
        queued++;
    }
    TAILQ_FOREACH(w, &m->value_state->busy, queue) {
        LH_ASSERT(w->busy && !w->in_flight);
        queued++;
    }
    LH_LINKS_FOREACH(&m->links, &lh_m_watch_links, l, next)
        in_flight += LH_OWNER(l, struct lh_m_watcher, link)->in_flight;
    LH_ASSERT(queued + in_flight == m->value_state->watcher_count);
}

void lh_m_values_check(const struct lh_master *m)
{
    check_counts(m);
    check_leases(m);
    check_watchers(m);
}
