/* Sums of what is stored. */
#include "master/tables/pairs.h"

#include "master/tables/tables.h"

#define FLAGS (LH_M_PAIR_STORED | LH_M_PAIR_BARE)

void lh_m_pair_drop(struct lh_master *m, uint32_t *word)
{
    if (word == NULL || *word == 0)
        return;
    m->pairs.count--;
    m->pairs.sum -= *word & ~FLAGS;
    m->pairs.bare -= (*word & LH_M_PAIR_BARE) != 0;
    *word = 0;
}

uint32_t lh_m_pair_word_of(uint64_t hash)
{
    return ((uint32_t)hash & ~FLAGS) | LH_M_PAIR_STORED;
}

void lh_m_pair_take(struct lh_master *m, uint32_t *word, uint64_t hash, bool bare)
{
    lh_m_pair_drop(m, word);
    *word = lh_m_pair_word_of(hash) | (bare ? LH_M_PAIR_BARE : 0);
    m->pairs.count++;
    m->pairs.sum += *word & ~FLAGS;
    m->pairs.bare += bare;
}
