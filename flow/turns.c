#include "flow/turns.h"

#include "base/assert.h"

#include <stddef.h>
#include <utlist.h>

void lh_turns_enlist(struct lh_turns *turns, struct lh_turn *turn, bool little)
{
    LH_ASSERT(turn->list == NULL);
    turn->list = little ? &turns->little : &turns->much;
    DL_APPEND(*turn->list, turn);
}

void lh_turns_unlist(struct lh_turn *turn)
{
    if (turn->list != NULL)
        DL_DELETE(*turn->list, turn);
    turn->list = NULL;
}

static struct lh_turn *take(struct lh_turn *turn)
{
    lh_turns_unlist(turn);
    return turn;
}

static uint64_t half(const struct lh_turns_message *m)
{
    return m->bytes_most - m->bytes_most / 2;
}

static struct lh_turn *of_little(struct lh_turns *turns, struct lh_turns_message *m, uint64_t *most)
{
    uint64_t limit = turns->much == NULL ? m->bytes_most : half(m);

    if (turns->little == NULL || m->parts >= m->parts_most || m->bytes >= limit)
        return NULL;
    *most = m->little_bytes < m->bytes_most ? m->little_bytes : m->bytes_most;
    return take(turns->little);
}

static struct lh_turn *of_much(struct lh_turns *turns, struct lh_turns_message *m, uint64_t *most)
{
    struct lh_turn *turn = turns->much;
    bool first = m->parts == m->parts_of_little;

    if (turn == NULL || (!first && (m->parts >= m->parts_most || m->bytes >= half(m))))
        return NULL;
    *most = first || m->bytes >= m->bytes_most ? m->bytes_most : m->bytes_most - m->bytes;
    if (turn == m->last)
        m->now = LH_TURNS_OVER;
    return take(turn);
}

struct lh_turn *lh_turns_next(
    struct lh_turns *turns, struct lh_turns_message *message, uint64_t *most)
{
    if (message->now == LH_TURNS_OF_LITTLE) {
        struct lh_turn *turn = of_little(turns, message, most);
        if (turn != NULL)
            return turn;
        message->now = LH_TURNS_OF_MUCH;
        message->parts_of_little = message->parts;
        message->last = turns->much == NULL ? NULL : turns->much->prev;
    }
    return message->now == LH_TURNS_OF_MUCH ? of_much(turns, message, most) : NULL;
}
