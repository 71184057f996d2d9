/* What a chunk has only while something is going on with it, and when that is over. */
#include "master/tables/active.h"

#include "master/tables/chunk.h"
#include "master/tables/tables.h"

static const struct lh_m_grant no_grant;
static const struct lh_m_doubts no_doubts;
static const struct lh_m_creation no_creation;
static const struct lh_m_seal no_seal;
const struct lh_m_active lh_m_idle = {
    .grant = &no_grant, .doubts = &no_doubts, .creation = &no_creation, .seal = &no_seal};

static int compare_actives(const struct lh_m_active *a, const struct lh_m_active *b)
{
    return a->chunk->id < b->chunk->id ? -1 : a->chunk->id > b->chunk->id;
}

static int compare_wanting(const struct lh_m_active *a, const struct lh_m_active *b)
{
    if (a->repair.want_good != b->repair.want_good)
        return a->repair.want_good < b->repair.want_good ? -1 : 1;
    return compare_actives(a, b);
}

RB_GENERATE(lh_m_leased, lh_m_active, held_node, compare_actives)
RB_GENERATE(lh_m_wanting, lh_m_active, repair.wanting_node, compare_wanting)

/* ---- When a part has nothing that anybody will ask for.
 *
 * Of an open chunk without a lease: the next grant has a version above the present one. So what was
 * said at a version (who did not answer, who is recovered, what clients complain of) is over with
 * the lease. Who had it is with the members (`led`). */

/* A free lease is in no list of the service of leases, nor in the engine. */
static bool grant_idle(const struct lh_m_grant *g)
{
    return g->lease.holder == NULL;
}

static bool words_over(const struct lh_m_chunk *c, const struct lh_m_words *words)
{
    return lh_m_holder(c) == NULL || words->version != c->version;
}

/* The lease of a sealed chunk is offered to nobody any more. Else whom to pass over is remembered
 * until one has it, and how often it was refused until one has recovered. */
static bool doubts_idle(const struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_m_doubts *d = c->active->doubts;

    if (lh_timer_is_set(&d->timer))
        return false;
    return c->sealed ||
           (d->avoid == NULL && d->refusals == 0 && d->adopted_above == 0 &&
               lh_instant_reached(m->now, d->rest_until) && words_over(c, &d->lost_by_clients) &&
               words_over(c, &d->short_by_primary));
}

static bool creation_idle(const struct lh_m_creation *creation)
{
    return !creation->under_way && !lh_timer_is_set(&creation->timer);
}

/* Until the seal is backed it counts when it was made; see lh_m_backed(). */
static bool seal_idle(const struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_m_seal *seal = c->active->seal;

    if (seal->roll != NULL || seal->urgent || seal->bad_source != NULL)
        return false;
    if (c->sealed)
        return c->seal_backed || seal->rolled_at.ns == 0 ||
               lh_instant_reached(m->now, lh_instant_add(seal->rolled_at, m->config.grace));
    return lh_m_holder(c) == NULL ||
           (seal->short_version != c->version && seal->unsure_version != c->version);
}

static bool any_joins(const struct lh_m_chunk *c)
{
    for (uint32_t i = 0; i < c->member_count; i++)
        if (c->members[i].joining)
            return true;
    return false;
}

static bool repair_idle(const struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_m_repair *r = &c->active->repair;

    if (r->wanting || r->copy_count > 0 || r->failures > 0 || r->avoid != NULL || r->granted ||
        r->notify_full || !lh_instant_reached(m->now, r->at))
        return false;
    /* Who is granted it for a repair, and where from the one was copied that fails to join. */
    return c->sealed || (r->grants == 0 && lh_instant_reached(m->now, r->grant_at) &&
                            (r->joined_from == NULL || !any_joins(c)));
}

/* A version below the record's own is remembered without this one, a seal that was shown is not. */
static bool is_idle(const struct lh_master *m, const struct lh_m_chunk *c)
{
    const struct lh_m_active *mo = c->active;

    return !c->removed && !mo->dirty && lh_m_is_durable(m, mo->ticket) &&
           mo->seen_version <= c->version && (c->sealed || mo->shown_seal.version == 0) &&
           TAILQ_EMPTY(&mo->extras) && mo->grant == &no_grant && mo->doubts == &no_doubts &&
           mo->creation == &no_creation && mo->seal == &no_seal && repair_idle(m, c);
}

/* ---- Records. */

struct lh_m_active *lh_m_move(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_active *mo = (struct lh_m_active *)(uintptr_t)c->active;

    if (c->active == &lh_m_idle) {
        mo = lh_alloc(sizeof *mo);
        mo->chunk = c;
        mo->seen_version = lh_m_seen_version(c);
        mo->grant = &no_grant;
        mo->doubts = &no_doubts;
        mo->creation = &no_creation;
        mo->seal = &no_seal;
        TAILQ_INIT(&mo->extras);
        TAILQ_INIT(&mo->repair.copies);
        c->active = mo;
        c->seen_behind = 0;
    }
    if (!mo->unsettled)
        TAILQ_INSERT_TAIL(&m->unsettled, mo, unsettled_link);
    mo->unsettled = true;
    return mo;
}

struct lh_m_grant *lh_m_grant(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_active *mo = lh_m_move(m, c);

    if (mo->grant == &no_grant) {
        struct lh_m_grant *g = lh_alloc(sizeof *g);
        lh_lease_init(&g->lease, LH_M_LEASE_CHUNK, c->id);
        g->active = mo;
        mo->grant = g;
    }
    return (struct lh_m_grant *)(uintptr_t)mo->grant;
}

struct lh_m_doubts *lh_m_doubts(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_active *mo = lh_m_move(m, c);

    if (mo->doubts == &no_doubts) {
        struct lh_m_doubts *d = lh_alloc(sizeof *d);
        d->chunk = c;
        mo->doubts = d;
    }
    return (struct lh_m_doubts *)(uintptr_t)mo->doubts;
}

struct lh_m_creation *lh_m_creation(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_active *mo = lh_m_move(m, c);

    if (mo->creation == &no_creation) {
        struct lh_m_creation *creation = lh_alloc(sizeof *creation);
        creation->chunk = c;
        mo->creation = creation;
    }
    return (struct lh_m_creation *)(uintptr_t)mo->creation;
}

struct lh_m_seal *lh_m_seal(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_active *mo = lh_m_move(m, c);

    if (mo->seal == &no_seal)
        mo->seal = lh_alloc(sizeof *mo->seal);
    return (struct lh_m_seal *)(uintptr_t)mo->seal;
}

/* Frees a part, unless it is the constant one, which takes its place. */
static const void *part_freed(const void *part, const void *none)
{
    if (part != none)
        free((void *)(uintptr_t)part);
    return none;
}

/* What is remembered of `seen_version` without the record. */
static uint8_t seen_behind(const struct lh_m_chunk *c)
{
    uint64_t seen = c->active->seen_version;

    if (c->sealed || seen == 0 || seen > c->version)
        return 0;
    return c->version - seen < UINT8_MAX ? (uint8_t)(c->version - seen + 1) : UINT8_MAX;
}

void lh_m_active_free(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_active *mo = (struct lh_m_active *)(uintptr_t)c->active;

    if (c->active == &lh_m_idle)
        return;
    if (mo->unsettled)
        TAILQ_REMOVE(&m->unsettled, mo, unsettled_link);
    c->seen_behind = seen_behind(c);
    c->active = &lh_m_idle;
    mo->grant = part_freed(mo->grant, &no_grant);
    mo->doubts = part_freed(mo->doubts, &no_doubts);
    mo->creation = part_freed(mo->creation, &no_creation);
    mo->seal = part_freed(mo->seal, &no_seal);
    free(mo);
}

void lh_m_actives_settle(struct lh_master *m)
{
    struct lh_m_active *mo;

    while ((mo = TAILQ_FIRST(&m->unsettled)) != NULL) {
        const struct lh_m_chunk *c = mo->chunk;
        TAILQ_REMOVE(&m->unsettled, mo, unsettled_link);
        mo->unsettled = false;
        if (doubts_idle(m, c))
            mo->doubts = part_freed(mo->doubts, &no_doubts);
        if (creation_idle(mo->creation))
            mo->creation = part_freed(mo->creation, &no_creation);
        if (seal_idle(m, c))
            mo->seal = part_freed(mo->seal, &no_seal);
        if (grant_idle(mo->grant))
            mo->grant = part_freed(mo->grant, &no_grant);
        if (is_idle(m, c))
            lh_m_active_free(m, mo->chunk);
    }
}
