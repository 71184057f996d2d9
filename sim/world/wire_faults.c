/* What befalls connections: processes end, ways are blocked and free again, what is between
 * forgets. */
#include "sim/world/wire.h"

static struct connection *hold(struct connection *c)
{
    if (c != NULL)
        c->references++;
    return c;
}

/* The next one, while this one is let go of. */
static struct connection *next_of(struct connection *c)
{
    struct connection *next = hold(c->next);

    lh_sim_wire_unref(c);
    return next;
}

#define EACH(c, sim)                                                                               \
    struct connection *c = hold((sim)->network.connections);                                       \
    c != NULL;                                                                                     \
    c = next_of(c)

/* Which side is at `a`, of a connection between the two; -1: it is none. */
static int side_at(
    const struct connection *c, const struct lh_sim_node *a, const struct lh_sim_node *b)
{
    if (c->sides[0].node == a && c->sides[1].node == b)
        return 0;
    return c->sides[0].node == b && c->sides[1].node == a ? 1 : -1;
}

void lh_sim_wire_drop(struct lh_sim_node *node, bool machine)
{
    for (EACH(c, node->sim))
        for (int i = 0; i < 2; i++)
            if (c->sides[i].node == node && c->sides[i].mux != NULL)
                lh_sim_wire_close_side(c, i, !machine);
}

void lh_sim_wire_move_on(struct lh_sim_node *a, struct lh_sim_node *b)
{
    for (EACH(c, a->sim)) {
        if (side_at(c, a, b) < 0)
            continue;
        for (int i = 0; i < 2; i++) {
            uint64_t soonest = c->sim->now + lh_sim_wire_one_way(c, i);
            for (struct chunk *chunk = c->sides[i].in.first; chunk != NULL; chunk = chunk->next)
                chunk->at = chunk->at > soonest ? chunk->at : soonest; /* sent again */
            lh_sim_wire_advance(c, i);
        }
    }
}

static void break_side(struct connection *c, int which)
{
    if (c->sides[which].over)
        return;
    lh_sim_wire_lose_suffix(c, which);
    lh_sim_wire_put_end(c, which, "connection broken");
}

void lh_sim_wire_break(struct lh_sim_node *a, struct lh_sim_node *b)
{
    for (EACH(c, a->sim))
        for (int i = 0; i < 2 && side_at(c, a, b) >= 0; i++)
            break_side(c, i);
}

void lh_sim_wire_break_at(struct lh_sim_node *at, struct lh_sim_node *other)
{
    for (EACH(c, at->sim)) {
        int which = side_at(c, at, other);
        if (which < 0 || c->sides[which].mux == NULL)
            continue; /* or it has not heard of the connection yet */
        break_side(c, which);
        c->sides[!which].in.lost = true;
    }
}

void lh_sim_wire_hurry(struct lh_sim *sim)
{
    for (EACH(c, sim)) {
        for (int i = 0; i < 2; i++) {
            struct pipe *p = &c->sides[i].in;
            uint64_t soonest = sim->now + lh_sim_wire_one_way(c, i);
            for (struct chunk *chunk = p->first; chunk != NULL; chunk = chunk->next)
                chunk->at = chunk->at < soonest ? chunk->at : soonest;
            p->free_at = p->stalled_until = 0;
            p->arriving = false; /* the scheduled event finds nothing, or the next one */
            lh_sim_wire_advance(c, i);
        }
    }
}
