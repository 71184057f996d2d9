/* What is stored, as far as it can be checked without being read (PAIR-1): how many pairs there
 * are besides the master's record, and the sum of a hash of each. The master's record says both, in
 * the commit that changes them.
 *
 * A record keeps a word of its pair, so that nothing is read back when it changes. Whoever frees a
 * record drops the word first, in the step whose commit deletes the pair. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_master;

/* Of a pair's word: it is stored; ... without a seal, as an earlier release wrote it. The rest is
 * of its hash. 0: there is no pair. */
#define LH_M_PAIR_STORED 1u
#define LH_M_PAIR_BARE   2u

struct lh_m_pairs {
    uint64_t count, sum;
    uint64_t bare; /* of them, those without a seal */
};

/* What a record keeps of its pair, which has that hash and a seal. */
uint32_t lh_m_pair_word_of(uint64_t hash);
/* The record's pair is stored now, or is in this step's commit: with that hash of it. */
void lh_m_pair_take(struct lh_master *m, uint32_t *word, uint64_t hash, bool bare);
/* It is not, or not any more; nothing if it was not before. NULL is allowed. */
void lh_m_pair_drop(struct lh_master *m, uint32_t *word);
