#include "sim/smallscope/seen.h"

#include "base/alloc.h"

#include <stdlib.h>

#define CAPACITY_FIRST 4096

void lh_seen_init(struct lh_seen *s)
{
    *s = (struct lh_seen){.capacity = CAPACITY_FIRST};
    s->places = lh_alloc_array(s->capacity, sizeof *s->places);
}

void lh_seen_deinit(struct lh_seen *s)
{
    free(s->places);
}

/* Where it is, or the free place where it belongs. */
static uint64_t *place_of(const struct lh_seen *s, uint64_t fingerprint)
{
    size_t i = fingerprint & (s->capacity - 1);

    while (s->places[i] != 0 && s->places[i] != fingerprint)
        i = (i + 1) & (s->capacity - 1);
    return &s->places[i];
}

static void grow(struct lh_seen *s)
{
    struct lh_seen bigger = {.capacity = s->capacity * 2, .count = s->count};

    bigger.places = lh_alloc_array(bigger.capacity, sizeof *bigger.places);
    for (size_t i = 0; i < s->capacity; i++)
        if (s->places[i] != 0)
            *place_of(&bigger, s->places[i]) = s->places[i];
    free(s->places);
    *s = bigger;
}

bool lh_seen_add(struct lh_seen *s, uint64_t fingerprint)
{
    if (fingerprint == 0)
        fingerprint = 1; /* 0 marks a free place */
    if (s->count >= s->capacity / 4 * 3)
        grow(s);
    uint64_t *place = place_of(s, fingerprint);
    if (*place == fingerprint)
        return false;
    *place = fingerprint;
    s->count++;
    return true;
}
