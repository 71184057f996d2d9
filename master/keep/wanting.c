/* Chunks that wait for repair, and when the next round over them begins.
 *
 * They are ordered by how many good replicas are left. A *round* walks that order and begins what
 * the limits allow; it starts over when a copy ended or something new is wanting, and every few
 * seconds. */
#include "master/keep/keep.h"

#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

void lh_m_unwant(struct lh_master *m, struct lh_m_chunk *c)
{
    if (!c->active->repair.wanting)
        return;
    struct lh_m_active *mo = lh_m_move(m, c);
    RB_REMOVE(lh_m_wanting, &m->wanting, mo);
    m->repair.waiting--;
    m->repair.want_bytes -= mo->repair.want_bytes;
    mo->repair.wanting = false;
}

void lh_m_want(struct lh_master *m, struct lh_m_chunk *c, uint32_t good, uint64_t bytes)
{
    bool sooner = !c->active->repair.wanting || good < c->active->repair.want_good;

    lh_m_unwant(m, c);
    struct lh_m_active *mo = lh_m_move(m, c);
    mo->repair.wanting = true;
    mo->repair.want_good = good;
    mo->repair.want_bytes = bytes;
    RB_INSERT(lh_m_wanting, &m->wanting, mo);
    m->repair.waiting++;
    m->repair.want_bytes += bytes;
    if (sooner)
        lh_m_repair_round(m);
}

void lh_m_repair_round(struct lh_master *m)
{
    if (m->repair.round) {
        m->repair.round_again = true;
        return;
    }
    m->repair.round = true;
    m->repair.round_good = 0;
    m->repair.round_chunk = 0;
    m->repair.round_retry = LH_INSTANT_NEVER;
}

/* Has somebody copied it, and only lacks a primary to join? */
static bool is_awaited(const struct lh_m_chunk *c)
{
    const struct lh_m_copy *copy = TAILQ_FIRST(&c->active->repair.copies);

    return copy != NULL && copy->caught_up;
}

void lh_m_repair_pause(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_repair *repair = &lh_m_move(m, c)->repair;

    /* A copy may take longer than an idle lease lasts. It is given up soon, too: nothing is granted
     * again and again. */
    if (is_awaited(c) && !LH_PLANTED("join-waits-for-the-next-grant")) {
        LH_MARK("grant-for-a-join");
        repair->grant_at = m->now;
    } else {
        repair->grant_at =
            lh_instant_max(repair->grant_at, lh_instant_add(m->now, m->config.repair_pause));
    }
    lh_m_enqueue(m, c);
}
