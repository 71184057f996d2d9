#include "base/timers.h"

#include "base/alloc.h"

#include <stdlib.h>

static bool earlier(const struct lh_timer *a, const struct lh_timer *b)
{
    return a->at.ns != b->at.ns ? a->at.ns < b->at.ns : a->sequence < b->sequence;
}

static void place(struct lh_timers *q, size_t i, struct lh_timer *t)
{
    q->heap[i] = t;
    t->index = i + 1;
}

static void sift_up(struct lh_timers *q, size_t i, struct lh_timer *t)
{
    while (i > 0 && earlier(t, q->heap[(i - 1) / 2])) {
        place(q, i, q->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(q, i, t);
}

static void sift_down(struct lh_timers *q, size_t i, struct lh_timer *t)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= q->count)
            break;
        if (child + 1 < q->count && earlier(q->heap[child + 1], q->heap[child]))
            child++;
        if (!earlier(q->heap[child], t))
            break;
        place(q, i, q->heap[child]);
        i = child;
    }
    place(q, i, t);
}

void lh_timer_unset(struct lh_timers *q, struct lh_timer *t)
{
    if (t->index == 0)
        return;
    size_t i = t->index - 1;
    t->index = 0;
    struct lh_timer *last = q->heap[--q->count];
    if (last == t)
        return;
    if (i > 0 && earlier(last, q->heap[(i - 1) / 2]))
        sift_up(q, i, last);
    else
        sift_down(q, i, last);
}

void lh_timer_set(struct lh_timers *q, struct lh_timer *t, struct lh_instant at)
{
    if (t->index != 0 && t->at.ns == at.ns)
        return;
    lh_timer_unset(q, t);
    if (at.ns == LH_INSTANT_NEVER.ns)
        return;
    LH_GROW(q->heap, q->capacity, q->count + 1);
    t->at = at;
    t->sequence = ++q->sequence;
    sift_up(q, q->count++, t);
}

void lh_timers_fire(struct lh_timers *q, void *core, struct lh_instant now)
{
    uint64_t last = q->bounded ? q->sequence : UINT64_MAX;

    while (
        q->count > 0 && lh_instant_reached(now, q->heap[0]->at) && q->heap[0]->sequence <= last) {
        struct lh_timer *t = q->heap[0];
        lh_timer_unset(q, t);
        t->fire(core, t);
    }
}

struct lh_instant lh_timers_next(const struct lh_timers *q)
{
    return q->count == 0 ? LH_INSTANT_NEVER : q->heap[0]->at;
}

void lh_timers_deinit(struct lh_timers *q)
{
    free(q->heap);
    *q = (struct lh_timers){0};
}
