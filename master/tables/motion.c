/* What a chunk has only while something is going on with it, and when that is over. */
#include "master/tables/motion.h"

#include "master/tables/chunk.h"
#include "master/tables/tables.h"

static const struct lh_m_grant no_grant;
static const struct lh_m_creation no_creation;
const struct lh_m_motion lh_m_idle = {.grant = &no_grant, .creation = &no_creation};

static int compare_motions(const struct lh_m_motion *a, const struct lh_m_motion *b)
{
    return a->chunk->id < b->chunk->id ? -1 : a->chunk->id > b->chunk->id;
}

static int compare_wanting(const struct lh_m_motion *a, const struct lh_m_motion *b)
{
    if (a->repair.want_good != b->repair.want_good)
        return a->repair.want_good < b->repair.want_good ? -1 : 1;
    return compare_motions(a, b);
}

RB_GENERATE(lh_m_open, lh_m_motion, open_node, compare_motions)
RB_GENERATE(lh_m_leased, lh_m_motion, held_node, compare_motions)
RB_GENERATE(lh_m_wanting, lh_m_motion, repair.wanting_node, compare_wanting)

/* ---- When a part has nothing that anybody will ask for. The chunk is sealed. */

static bool grant_idle(const struct lh_m_grant *g)
{
    return g->lease.holder == NULL;
}

static bool creation_idle(const struct lh_m_creation *creation)
{
    return !creation->under_way && !lh_timer_is_set(&creation->timer);
}

/* Until the seal is backed it counts when it was made; see lh_m_backed(). */
static bool seal_idle(const struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_m_seal *seal = &c->motion->seal;

    return seal->roll == NULL && !seal->urgent && seal->bad_source == NULL &&
           (c->seal_backed || seal->rolled_at.ns == 0 ||
               lh_instant_reached(m->now, lh_instant_add(seal->rolled_at, m->config.grace)));
}

static bool repair_idle(const struct lh_master *m, const struct lh_m_repair *r)
{
    return !r->wanting && r->copy_count == 0 && r->failures == 0 && r->avoid == NULL &&
           !r->granted && !r->tell_full && lh_instant_reached(m->now, r->at);
}

static bool is_idle(const struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_m_motion *mo = c->motion;

    return c->sealed && !c->removed && !mo->dirty && lh_m_is_durable(m, mo->ticket) &&
           mo->seen_version <= c->version && TAILQ_EMPTY(&mo->extras) && grant_idle(mo->grant) &&
           creation_idle(mo->creation) && seal_idle(m, c) && repair_idle(m, &mo->repair);
}

/* ---- Records. */

struct lh_m_motion *lh_m_move(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_motion *mo = (struct lh_m_motion *)(uintptr_t)c->motion;

    if (c->motion == &lh_m_idle) {
        mo = lh_alloc(sizeof *mo);
        mo->chunk = c;
        mo->grant = &no_grant;
        mo->creation = &no_creation;
        TAILQ_INIT(&mo->extras);
        TAILQ_INIT(&mo->repair.copies);
        c->motion = mo;
    }
    if (!mo->stirred)
        TAILQ_INSERT_TAIL(&m->stirred, mo, stirred_link);
    mo->stirred = true;
    return mo;
}

struct lh_m_grant *lh_m_grant(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_motion *mo = lh_m_move(m, c);

    if (mo->grant == &no_grant) {
        struct lh_m_grant *g = lh_alloc(sizeof *g);
        lh_lease_init(&g->lease, LH_M_LEASE_CHUNK, c->id);
        g->motion = mo;
        mo->grant = g;
    }
    return (struct lh_m_grant *)(uintptr_t)mo->grant;
}

struct lh_m_creation *lh_m_creation(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_motion *mo = lh_m_move(m, c);

    if (mo->creation == &no_creation) {
        struct lh_m_creation *creation = lh_alloc(sizeof *creation);
        creation->chunk = c;
        mo->creation = creation;
    }
    return (struct lh_m_creation *)(uintptr_t)mo->creation;
}

/* Both at once: a refused grant arms the timer of the creation. */
static void forget_lease(struct lh_m_motion *mo)
{
    if (mo->grant != &no_grant)
        free((void *)(uintptr_t)mo->grant);
    mo->grant = &no_grant;
    if (mo->creation != &no_creation)
        free((void *)(uintptr_t)mo->creation);
    mo->creation = &no_creation;
}

void lh_m_motion_free(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_motion *mo = (struct lh_m_motion *)(uintptr_t)c->motion;

    if (c->motion == &lh_m_idle)
        return;
    if (mo->stirred)
        TAILQ_REMOVE(&m->stirred, mo, stirred_link);
    c->motion = &lh_m_idle;
    forget_lease(mo);
    free(mo);
}

void lh_m_motions_settle(struct lh_master *m)
{
    struct lh_m_motion *mo;

    while ((mo = TAILQ_FIRST(&m->stirred)) != NULL) {
        TAILQ_REMOVE(&m->stirred, mo, stirred_link);
        mo->stirred = false;
        if (mo->chunk->sealed && grant_idle(mo->grant) && creation_idle(mo->creation))
            forget_lease(mo);
        if (is_idle(m, mo->chunk))
            lh_m_motion_free(m, mo->chunk);
    }
}
