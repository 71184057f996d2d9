/* Values that go with a session (VAL-4). When it is over, each is deleted by a change like any
 * other, so its caches are told first. There may be thousands: a few wait at a time. */
#include "master/values/internal.h"

static void follow(struct lh_master *m, struct lh_m_value *v)
{
    struct lh_m_change *c = lh_alloc(sizeof *c);

    c->follows = c->remove = true;
    c->revision = v->revision;
    lh_m_value_leaves(m, v);
    lh_m_change_add(m, v->name, c);
}

/* The next value that is to go and that no change waits for yet; NULL: none is left. */
static struct lh_m_value *next_value(struct lh_master *m)
{
    struct lh_m_value *v = TAILQ_FIRST(&m->values.orphans);
    struct lh_m_ended *e;

    if (v != NULL && !v->leaving)
        return v;
    while ((e = STAILQ_FIRST(&m->value_state->ended)) != NULL) {
        struct lh_m_program *p = lh_m_program_find(m, e->session);
        if (p != NULL && !p->over && !LH_PLANTED("attached-value-removed-early"))
            p = NULL; /* a later session with that id */
        v = p == NULL ? NULL : TAILQ_FIRST(&p->attached);
        if (v != NULL && !v->leaving)
            return v;
        STAILQ_REMOVE_HEAD(&m->value_state->ended, next);
        free(e);
    }
    return NULL;
}

bool lh_m_attached_waiting(const struct lh_master *m)
{
    const struct lh_m_value *v = TAILQ_FIRST(&m->values.orphans);

    return m->value_state->follow_count < m->config.follows_max &&
           (!STAILQ_EMPTY(&m->value_state->ended) || (v != NULL && !v->leaving));
}

void lh_m_attached_step(struct lh_master *m)
{
    struct lh_m_value *v;

    while (m->value_state->follow_count < m->config.follows_max && (v = next_value(m)) != NULL)
        follow(m, v);
}

static void ended(struct lh_master *m, const struct lh_m_program *p)
{
    struct lh_m_ended *e = lh_alloc(sizeof *e);

    memcpy(e->session, p->id, sizeof e->session);
    STAILQ_INSERT_TAIL(&m->value_state->ended, e, next);
}

void lh_m_attached_over(struct lh_master *m, const struct lh_m_program *p)
{
    if (!TAILQ_EMPTY(&p->attached) && !LH_PLANTED("attached-value-kept"))
        ended(m, p);
}

void lh_m_attached_start(struct lh_master *m)
{
    struct lh_m_program *p;

    if (LH_PLANTED("attached-value-removed-early")) /* nobody is back yet */
        RB_FOREACH(p, lh_m_programs, &m->programs.tree) {
            ended(m, p);
        }
}
