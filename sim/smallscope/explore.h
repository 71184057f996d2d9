/* Everything that can happen, up to a number of moves.
 *
 * A space is a small world with a first state and, in each state, a list of moves. The exploration
 * goes breadth first: all states that one move leads to, then all that two lead to, and so on.
 * The first violation that it meets is therefore one that takes the fewest moves.
 *
 * The worlds are made of real code, whose state nobody can copy. So a state is kept as the moves
 * that lead to it, and is brought about again by making them again ("stateless search": Godefroid,
 * "Model Checking for Programming Languages using VeriSoft", POPL 1997). Two ways to what is the
 * same state are recognized by its fingerprint, 64 bits: of n states, one is wrongly taken for
 * another with odds of about n^2 / 2^65 (a million states: one in 37 million).
 *
 * Memory: 20 to 40 bytes a state. 25 million take half a gigabyte; at 25.2 million the set of
 * fingerprints grows, for which there must be a whole one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LH_EXPLORE_DEPTH_MAX 64
#define LH_EXPLORE_MOVES_MAX 256 /* from one state */

/* What a move is, is the space's own business. */
typedef uint16_t lh_move;

struct lh_fingerprint {
    uint64_t exact; /* equal for equal states */
    uint64_t kind;  /* equal also for states that differ in names alone: all that can happen from
                       the one can happen from the other, to somebody else */
};

/* A small world. It is in one state at a time. Deterministic: the same moves from the first state
 * lead to the same state. */
struct lh_space {
    void *self;
    /* Goes to the first state. With `words`, that state and every move made from now on are told
     * there, a line or a few each. */
    void (*begin)(void *self, FILE *words);
    /* The moves that can be made now: at most LH_EXPLORE_MOVES_MAX. Their number. */
    size_t (*moves)(void *self, lh_move *moves);
    void (*make)(void *self, lh_move move);
    struct lh_fingerprint (*fingerprint)(void *self);
    /* What is wrong in this state, or was wrong in the move that led to it; NULL: nothing. A
     * string that begins with the rule's name. */
    const char *(*violation)(void *self);
};

enum lh_explore_end {
    LH_EXPLORE_DEPTH,     /* everything was seen to the depth asked for */
    LH_EXPLORE_EXHAUSTED, /* no state beyond `depth` exists: all that can ever happen was seen */
    LH_EXPLORE_VIOLATION, /* `moves` lead to it */
    LH_EXPLORE_FULL,      /* the limit of states was reached; everything was seen to `depth` */
};

struct lh_explore_result {
    enum lh_explore_end end;
    unsigned depth;    /* everything was seen to this many moves */
    uint64_t visited;  /* states, counted each time that a move led to one */
    uint64_t distinct; /* of them */
    const char *violation;
    lh_move moves[LH_EXPLORE_DEPTH_MAX];
    unsigned move_count;
};

/* Explores all that `depth` (at most LH_EXPLORE_DEPTH_MAX) moves can lead to, as long as that is
 * not more than `states_max` distinct states. A line to `progress` for each depth; NULL: none.
 * `violation` is the space's string. */
void lh_explore(const struct lh_space *space, unsigned depth, uint64_t states_max, FILE *progress,
    struct lh_explore_result *result);

/* Makes the moves, with words. */
void lh_explore_narrate(
    const struct lh_space *space, const lh_move *moves, unsigned move_count, FILE *words);
