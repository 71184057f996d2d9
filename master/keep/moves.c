/* Replicas that go elsewhere although their servers are well: for a failure domain, for space. */
#include "master/keep/internal.h"

#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/tables.h"

#include <inttypes.h>

const struct lh_m_move *lh_m_move_of(
    const struct lh_master *m, uint64_t chunk, const struct lh_m_server *from)
{
    for (unsigned i = 0; i < m->moving.move_count; i++) {
        const struct lh_m_move *move = &m->moving.moves[i];
        if (move->chunk == chunk && move->from == from && !move->moved)
            return move;
    }
    return NULL;
}

void lh_m_moves_settle(struct lh_master *m)
{
    struct lh_m_moving *v = &m->moving;
    unsigned left = 0;

    for (unsigned i = 0; i < v->move_count; i++) {
        struct lh_m_move move = v->moves[i];
        const struct lh_m_chunk *c = lh_m_chunk_find(m, move.chunk);
        bool member = c != NULL && lh_m_member(c, move.from) != NULL;
        if (!move.moved && !member) {
            LH_MARK("move-done");
            move.moved = true;
            move.until = lh_instant_add(m->now, m->config.move_settle);
        } else if (!move.moved && lh_m_drained(move.from)) {
            continue;
        } else if (lh_instant_reached(m->now, move.until)) {
            if (!move.moved)
                LH_MARK("move-given-up");
            continue;
        }
        v->moves[left++] = move;
    }
    v->move_count = left;
}

static unsigned space_moves(const struct lh_master *m)
{
    unsigned count = 0;

    for (unsigned i = 0; i < m->moving.move_count; i++)
        count += m->moving.moves[i].for_space;
    return count;
}

static uint64_t bytes_of(const struct lh_m_chunk *c)
{
    return c->sealed ? c->length : c->file->chunk_size;
}

unsigned lh_m_used(const struct lh_m_server *s)
{
    uint64_t most = s->space.capacity_bytes,
             free_bytes = s->space.free_bytes < most ? s->space.free_bytes : most;

    return most == 0 ? 1000u : (unsigned)((unsigned __int128)(most - free_bytes) * 1000 / most);
}

/* Is `s` in a failure domain that no member but `leaving` lies in? */
static bool apart(const struct lh_master *m, const struct lh_m_chunk *c,
    const struct lh_m_member *leaving, const struct lh_m_server *s)
{
    for (uint32_t i = 0; i < c->member_count; i++)
        if (&c->members[i] != leaving && lh_m_same_domain(lh_m_server_of(m, &c->members[i]), s))
            return false;
    return true;
}

/* Sees to it that `member` leaves if a better place is there now: one in a domain of its own and,
 * for the sake of space, on a server that is clearly emptier. */
static void try_move(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member, bool for_space)
{
    struct lh_m_moving *v = &m->moving;
    struct lh_m_server *to;

    if (v->tries == 0 || v->move_count >= m->config.moves_max || v->move_count == LH_M_MOVES)
        return;
    v->tries--;
    member->leaving = true; /* it does not keep its domain from others then */
    bool better = lh_m_place(m, bytes_of(c), 1, c->members, c->member_count, &to) == 1 &&
                  apart(m, c, member, to) &&
                  (!for_space || lh_m_used(to) + m->config.space_band / 2 <
                                     lh_m_used(lh_m_server_of(m, member)));
    if (!better) {
        member->leaving = false;
        return;
    }
    if (for_space)
        LH_MARK("move-for-space");
    v->moves[v->move_count++] = (struct lh_m_move){
        .chunk = c->id,
        .from = lh_m_server_of(m, member),
        .for_space = for_space,
        .until = lh_instant_add(m->now, m->config.move_timeout),
    };
    lh_m_enqueue(m, c);
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": its replica on %s is to go elsewhere, for the sake of %s",
        c->id, c->file->path, lh_m_server_of(m, member)->id,
        for_space ? "space" : "failure domains");
}

/* A member that shares its failure domain with another one; of the two the newer, but rather not
 * the primary. NULL: there is none. */
static struct lh_m_member *crowded(const struct lh_master *m, const struct lh_m_chunk *c)
{
    for (uint32_t i = 1; i < c->member_count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (lh_m_same_domain(
                    lh_m_server_of(m, &c->members[i]), lh_m_server_of(m, &c->members[j])))
                return &c->members[lh_m_holder(c) == lh_m_server_of(m, &c->members[i]) ? j : i];
    return NULL;
}

/* In how many failure domains are the chunk's members? */
static size_t domains_of(const struct lh_master *m, const struct lh_m_chunk *c)
{
    size_t count = 0;

    for (uint32_t i = 0; i < c->member_count; i++) {
        bool first = true;
        for (uint32_t j = 0; j < i && first; j++)
            first = !lh_m_same_domain(
                lh_m_server_of(m, &c->members[i]), lh_m_server_of(m, &c->members[j]));
        count += first;
    }
    return count;
}

void lh_m_move_look(struct lh_master *m, struct lh_m_chunk *c)
{
    struct lh_m_moving *v = &m->moving;
    struct lh_m_member *member = crowded(m, c);

    if (member != NULL && domains_of(m, c) < v->domains) {
        try_move(m, c, member, false);
        return;
    }
    if (v->fullest == NULL || !c->sealed || space_moves(m) >= m->config.space_moves)
        return;
    member = lh_m_member(c, v->fullest);
    if (member != NULL)
        try_move(m, c, member, true);
}
