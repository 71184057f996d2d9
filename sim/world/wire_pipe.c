/* Pipes of bytes. One delivers in order what was written, in other pieces, and ends: with all of
 * it, or at any byte. */
#include "sim/world/wire.h"

#include "base/alloc.h"

#include <stdlib.h>

void lh_sim_wire_schedule(struct connection *c, int which, enum happening what, uint64_t at)
{
    c->references++;
    lh_sim_schedule(c->sim, at,
        (struct lh_sim_event){.kind = LH_SIM_EV_WIRE,
            .node = c->sides[which].node->index,
            .which = (uint32_t)which,
            .number = what,
            .about = c});
}

void lh_sim_wire_advance(struct connection *c, int to)
{
    struct pipe *p = &c->sides[to].in;

    if (p->arriving || p->lost || p->first == NULL ||
        lh_sim_network_is_blocked(c->sim, c->sides[!to].node, c->sides[to].node))
        return;
    p->arriving = true;
    lh_sim_wire_schedule(c, to, ARRIVES, p->first->at > c->sim->now ? p->first->at : c->sim->now);
}

uint64_t lh_sim_wire_one_way(struct connection *c, int to)
{
    return lh_sim_network_one_way(c->sim, c->sides[!to].node, c->sides[to].node);
}

struct chunk *lh_sim_wire_put_chunk(
    struct connection *c, int to, enum chunk_kind kind, uint64_t delay)
{
    struct pipe *p = &c->sides[to].in;
    struct chunk *chunk = lh_alloc(sizeof *chunk);

    chunk->kind = kind;
    chunk->at = c->sim->now + delay;
    if (chunk->at < p->stalled_until)
        chunk->at = p->stalled_until;
    if (p->last != NULL && p->last->at > chunk->at)
        chunk->at = p->last->at; /* in order */
    if (p->last != NULL)
        p->last->next = chunk;
    else
        p->first = chunk;
    p->last = chunk;
    return chunk;
}

void lh_sim_wire_put_end(struct connection *c, int to, const char *text)
{
    lh_sim_wire_put_chunk(c, to, CHUNK_END, lh_sim_wire_one_way(c, to))->text = text;
    lh_sim_wire_advance(c, to);
}

static void free_chunk(struct pipe *p, struct chunk *chunk)
{
    p->bytes -= chunk->size - chunk->taken;
    free(chunk->bytes);
    free(chunk);
}

void lh_sim_wire_pop_chunk(struct pipe *p)
{
    struct chunk *chunk = p->first;

    p->first = chunk->next;
    if (p->first == NULL)
        p->last = NULL;
    free_chunk(p, chunk);
}

void lh_sim_wire_empty(struct pipe *p)
{
    while (p->first != NULL)
        lh_sim_wire_pop_chunk(p);
}

/* Bytes behind the first `keep` of them are lost, and the news of an end. */
static void lose_behind(struct pipe *p, uint64_t keep)
{
    struct chunk **at = &p->first, *chunk;

    p->last = NULL;
    while ((chunk = *at) != NULL) {
        uint64_t size = chunk->size - chunk->taken;
        /* What was written behind an earlier break does not join what that one has left. */
        if (chunk->kind == CHUNK_END)
            keep = 0;
        if (chunk->kind == CHUNK_CONNECT || (size > 0 && keep > 0)) {
            if (size > keep) {
                p->bytes -= size - keep;
                chunk->size = chunk->taken + keep;
                size = keep;
            }
            keep -= size;
            p->last = chunk;
            at = &chunk->next;
        } else {
            *at = chunk->next;
            free_chunk(p, chunk);
        }
    }
}

void lh_sim_wire_lose_suffix(struct connection *c, int to)
{
    struct pipe *p = &c->sides[to].in;

    lose_behind(p, lh_prng_below(&c->sim->streams[LH_SIM_WIRE], p->bytes + 1));
}
