/* The order of what was loaded. */
#include "master/order.h"

#include "lease/restart.h"
#include "master/tables/chunk.h"

static int compare_servers(const void *a, const void *b)
{
    const struct lh_m_server *const *left = a, *const *right = b;

    return strcmp((*left)->id, (*right)->id);
}

static void order_servers(struct lh_master *m)
{
    size_t count = HASH_COUNT(m->servers);
    struct lh_m_server **sorted = lh_alloc_array(count + 1, sizeof *sorted);

    for (size_t i = 0; i < count; i++)
        sorted[i] = m->server_list[i];
    qsort(sorted, count, sizeof *sorted, compare_servers);
    TAILQ_INIT(&m->all_servers);
    for (size_t i = 0; i < count; i++)
        TAILQ_INSERT_TAIL(&m->all_servers, sorted[i], all_link);
    free(sorted);
}

/* Nothing becomes idle by its place in a list: lh_m_move() would have all of them looked at. */
static struct lh_m_grant *writable_grant(const struct lh_m_active *mo)
{
    return (struct lh_m_grant *)(uintptr_t)mo->grant;
}

static struct lh_m_creation *writable_creation(const struct lh_m_active *mo)
{
    return (struct lh_m_creation *)(uintptr_t)mo->creation;
}

/* Attached values, by name. */
static void order_values(struct lh_master *m)
{
    struct lh_m_program *p;
    struct lh_m_name *n;

    RB_FOREACH(p, lh_m_programs, &m->programs.tree) {
        TAILQ_INIT(&p->attached);
    }
    TAILQ_INIT(&m->values.orphans);
    RB_FOREACH_REVERSE(n, lh_m_name_tree, &m->names.tree)
    {
        struct lh_m_value *v = n->more->value;
        if (v == NULL || !v->attached)
            continue;
        if (v->program != NULL)
            TAILQ_INSERT_HEAD(&v->program->attached, v, attached_link);
        else
            TAILQ_INSERT_HEAD(&m->values.orphans, v, orphan_link);
    }
}

void lh_m_order(struct lh_master *m)
{
    struct lh_m_active *mo;
    const struct lh_m_chunk *c;

    order_servers(m);
    order_values(m);
    RB_FOREACH(mo, lh_m_leased, &m->leased) {
        lh_lease_reorder(&m->leases, &writable_grant(mo)->lease);
    }
    TAILQ_INIT(&m->creating);
    TAILQ_INIT(&m->rolls);
    LH_IDMAP_FOREACH(c, &m->open) {
        if (c->active->creation->under_way)
            TAILQ_INSERT_TAIL(&m->creating, writable_creation(c->active), link);
        if (c->active->seal->roll != NULL)
            TAILQ_INSERT_TAIL(&m->rolls, c->active->seal->roll, link);
    }
}
