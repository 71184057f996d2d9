#include "sim/world/queue.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>

static bool before(const struct lh_sim_event *a, const struct lh_sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

void lh_sim_queue_push(struct lh_sim_queue *q, struct lh_sim_event e)
{
    e.sequence = ++q->sequence;
    LH_GROW(q->heap, q->capacity, q->count + 1);
    size_t i = q->count++;
    while (i > 0 && before(&e, &q->heap[(i - 1) / 2])) {
        q->heap[i] = q->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->heap[i] = e;
}

struct lh_sim_event lh_sim_queue_pop(struct lh_sim_queue *q)
{
    LH_ASSERT(q->count > 0);
    struct lh_sim_event first = q->heap[0], last = q->heap[--q->count];
    size_t i = 0;

    while (2 * i + 1 < q->count) {
        size_t child = 2 * i + 1;
        if (child + 1 < q->count && before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!before(&q->heap[child], &last))
            break;
        q->heap[i] = q->heap[child];
        i = child;
    }
    if (q->count > 0)
        q->heap[i] = last;
    return first;
}

void lh_sim_queue_deinit(struct lh_sim_queue *q)
{
    free(q->heap);
    *q = (struct lh_sim_queue){0};
}
