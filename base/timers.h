/* The queue of timers of a core: an intrusive binary heap, as libuv's. Equal instants fire in the
 * order in which they were set, so the same inputs give the same effects. Not thread-safe. */
#pragma once

#include "base/alloc.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>

/* Lives inside its owner; all-zero is an unset timer. */
struct lh_timer {
    struct lh_instant at;
    uint64_t sequence;
    size_t index; /* place in the heap plus one; 0: not set */
    void (*fire)(void *core, struct lh_timer *timer);
};

struct lh_timers {
    struct lh_timer **heap;
    size_t count, capacity;
    uint64_t sequence;
    bool bounded; /* a timer that is set while others fire has its turn in the next step at the
                     earliest: so work can be split by setting a timer for now */
};

/* Sets or moves it. LH_INSTANT_NEVER unsets it. O(log n). */
void lh_timer_set(struct lh_timers *q, struct lh_timer *t, struct lh_instant at);
void lh_timer_unset(struct lh_timers *q, struct lh_timer *t);

static inline bool lh_timer_is_set(const struct lh_timer *t)
{
    return t->index != 0;
}

/* Takes out those whose instant has been reached, and calls their functions with `core`. */
void lh_timers_fire(struct lh_timers *q, void *core, struct lh_instant now);

/* When the earliest one is due, or LH_INSTANT_NEVER. */
struct lh_instant lh_timers_next(const struct lh_timers *q);

void lh_timers_deinit(struct lh_timers *q);
