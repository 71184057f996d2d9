/* Fair turns: many flows share the messages of one stream.
 *
 * A flow with little to send goes first, in half of a message if others have much. Those with much
 * take turns in the rest, one after the other, and the next message goes on where this one ended.
 * So what is small waits for the message in flight and for other small ones, however much others
 * have to send. How much of one flow may be unanswered is its own affair: one that waits holds up
 * no other.
 *
 * A flow is whatever has a struct lh_turn as a part of it. Turns own nothing, and know nothing of
 * what is sent. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_turns;

/* A flow's place; all zeros: it waits for no turn. */
struct lh_turn {
    struct lh_turn **list; /* NULL: it waits for none */
    struct lh_turn *prev, *next;
};

/* Those that wait, the first is next; all zeros: nobody does. */
struct lh_turns {
    struct lh_turn *little, *much;
};

/* Takes its place behind the others with little, or with much. It has none yet. */
void lh_turns_enlist(struct lh_turns *turns, struct lh_turn *turn, bool little);
/* Gives its place up; also if it has none. */
void lh_turns_unlist(struct lh_turn *turn);

static inline bool lh_turn_waits(const struct lh_turn *turn)
{
    return turn->list != NULL;
}

static inline bool lh_turns_are_over(const struct lh_turns *turns)
{
    return turns->little == NULL && turns->much == NULL;
}

/* A message that is being made. */
struct lh_turns_message {
    /* What it may have; the user says it at the beginning. */
    uint64_t parts_most, bytes_most;
    uint64_t little_bytes; /* so much is little */
    /* What it has; the user counts. */
    uint64_t parts, bytes;
    /* Of turns.c. */
    enum { LH_TURNS_OF_LITTLE, LH_TURNS_OF_MUCH, LH_TURNS_OVER } now;
    uint64_t parts_of_little;
    struct lh_turn *last; /* of those that had much when their turns began */
};

/* Whose turn it is; NULL: the message is full, or there is nobody left. The flow has lost its
 * place. It may put a part of `*most` bytes or so into the message, which the user then counts, and
 * takes a place again if it has more. One that puts nothing and takes its place again has its next
 * turn in the next message; with little it must not.
 * Of those with much the first that puts something has a whole message's bytes, however full that
 * is: what cannot be divided would never go. And each has one turn. */
struct lh_turn *lh_turns_next(
    struct lh_turns *turns, struct lh_turns_message *message, uint64_t *most);
