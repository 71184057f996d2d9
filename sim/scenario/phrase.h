/* Lines of words, and the phrases that they may be. A phrase is written once, as a pattern, and is
 * both how a struct is printed and how it is read: the two cannot drift apart.
 *
 *   pause <who> [in its next step <in_step>] [for <hold>]
 *
 * A word stands for itself. `<name>` is a slot: one or more words that are a member of the struct.
 * `[...]` begins with a word and may be left out; it is left out in print when all of its slots
 * are as in the defaults. Groups that stand side by side may come in any order. There is no
 * backtracking: a group whose first word is there must be there as a whole.
 *
 * Whatever was tried adds to what would have been possible at the furthest word that anybody got
 * to; a line that is no phrase at all gets all of that as its error. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_SIM_LINE_MAX     1023 /* bytes of a line */
#define LH_SIM_WORDS_MAX    96   /* words of a line */
#define LH_SIM_EXPECTED_MAX 96   /* different things that one place may be */

/* One line, and how far it has been read. */
struct lh_sim_words {
    char storage[LH_SIM_LINE_MAX + 1];
    const char *word[LH_SIM_WORDS_MAX];
    size_t count;
    size_t at; /* the next word */
    size_t furthest;
    struct {
        const char *what; /* static */
        size_t length;
        bool literal; /* a word, shown in quotes */
    } expected[LH_SIM_EXPECTED_MAX];
    size_t expected_count;
};

/* Splits a line of `size` bytes at its spaces, up to a word that begins with '#'. INVALID_ARGUMENT:
 * it is too long, has too many words, or bytes that are no printable ASCII; `text` says which. */
LH_MUST_USE int lh_sim_words_split(
    struct lh_sim_words *w, const char *line, size_t size, char *text, size_t text_size);

/* NULL after the last one. */
const char *lh_sim_words_peek(const struct lh_sim_words *w);

/* Takes the next word if it is this one. */
bool lh_sim_words_take(struct lh_sim_words *w, const char *word);

/* True if no word is left. */
bool lh_sim_words_end(struct lh_sim_words *w);

/* `what` (static) would have been possible at the present word. */
void lh_sim_words_expected(struct lh_sim_words *w, const char *what);

/* "found X, expected A, B or C", of the furthest word that was reached. */
void lh_sim_words_error(const struct lh_sim_words *w, char *text, size_t text_size);

/* What is printed so far. Text that does not fit is left out, never half a word's terminator. */
struct lh_sim_text {
    char *to;
    size_t size, used;
};

struct lh_sim_text lh_sim_text_at(char *to, size_t size);
/* Adds a word, with a space before it unless it is the first. */
void lh_sim_text_add(struct lh_sim_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A word for a value of an enumeration or another int. */
struct lh_sim_choice {
    const char *word;
    int value;
};

struct lh_sim_slot_type {
    /* Takes one or more words into `*to`. False: it said what would have been possible. */
    bool (*parse)(struct lh_sim_words *w, void *to);
    void (*print)(struct lh_sim_text *t, const void *from); /* NULL: it has no words */
    size_t size;                         /* of the member, which has no padding that is not zero */
    const struct lh_sim_choice *choices; /* instead of both functions; ends with a NULL word */
};

/* A member of the struct that a phrase is about. A list of them ends with a NULL name. */
struct lh_sim_slot {
    const char *name;
    const struct lh_sim_slot_type *type;
    size_t offset;
};

#define LH_SIM_SLOT(name, type, container, member)                                                 \
    {                                                                                              \
        name, &(type), offsetof(container, member)                                                 \
    }

/* Reads words into the members of `to`, which holds the defaults. Words may be left after it. */
bool lh_sim_phrase_parse(
    const struct lh_sim_slot *slots, const char *pattern, struct lh_sim_words *w, void *to);

void lh_sim_phrase_print(const struct lh_sim_slot *slots, const char *pattern, const void *from,
    const void *defaults, struct lh_sim_text *t);

/* A slot of the pattern is not as in the defaults. */
bool lh_sim_phrase_differs(
    const struct lh_sim_slot *slots, const char *pattern, const void *from, const void *defaults);

/* For slots that are strings. */
void lh_sim_print_string(struct lh_sim_text *t, const void *from);

/* ---- Slots of plain types ---- */

extern const struct lh_sim_slot_type lh_sim_slot_flag;     /* bool; no words: it is there or not */
extern const struct lh_sim_slot_type lh_sim_slot_number;   /* uint64_t; "unlimited" */
extern const struct lh_sim_slot_type lh_sim_slot_seed;     /* uint64_t */
extern const struct lh_sim_slot_type lh_sim_slot_small;    /* uint32_t */
extern const struct lh_sim_slot_type lh_sim_slot_size;     /* uint64_t bytes: 64KiB; "unlimited" */
extern const struct lh_sim_slot_type lh_sim_slot_rate;     /* int32_t, with its sign: +9000 */
extern const struct lh_sim_slot_type lh_sim_slot_duration; /* struct lh_duration: 3.25s; "ever" */
extern const struct lh_sim_slot_type lh_sim_slot_range;    /* struct lh_sim_range: 1ms..5ms */
extern const struct lh_sim_slot_type lh_sim_slot_span;     /* two uint32_t: 1..5 */
extern const struct lh_sim_slot_type lh_sim_slot_path;     /* char[LH_SIM_PATH_MAX + 1] */
extern const struct lh_sim_slot_type lh_sim_slot_label;    /* char[LH_SIM_PROGRAM_NAME_MAX + 1] */
extern const struct lh_sim_slot_type lh_sim_slot_error;    /* int, an LH_ERR_*: IO */
