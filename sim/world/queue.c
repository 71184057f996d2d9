/* A heap of four children a node, of keys alone; what is going to happen lies still in a slab. Four
 * keys are about a cache line, and a heap of four is half as deep as one of two. */
#include "sim/world/queue.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>

#define CHILDREN 4

static bool before(const struct lh_sim_queue_key *a, const struct lh_sim_queue_key *b)
{
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

static uint32_t take_slot(struct lh_sim_queue *q)
{
    if (q->free_count > 0)
        return q->free_slots[--q->free_count];
    LH_ASSERT(q->slot_count < UINT32_MAX);
    LH_GROW(q->slots, q->slot_capacity, q->slot_count + 1);
    return (uint32_t)q->slot_count++;
}

void lh_sim_queue_push(struct lh_sim_queue *q, struct lh_sim_event e)
{
    e.sequence = ++q->sequence;
    struct lh_sim_queue_key key = {e.at, e.sequence, take_slot(q)};
    q->slots[key.slot] = e;
    LH_GROW(q->heap, q->capacity, q->count + 1);
    size_t i = q->count++;
    while (i > 0 && before(&key, &q->heap[(i - 1) / CHILDREN])) {
        q->heap[i] = q->heap[(i - 1) / CHILDREN];
        i = (i - 1) / CHILDREN;
    }
    q->heap[i] = key;
}

static size_t earliest_child(const struct lh_sim_queue *q, size_t i)
{
    size_t first = CHILDREN * i + 1, best = first;

    for (size_t k = first + 1; k < first + CHILDREN && k < q->count; k++)
        if (before(&q->heap[k], &q->heap[best]))
            best = k;
    return best;
}

struct lh_sim_event lh_sim_queue_pop(struct lh_sim_queue *q)
{
    LH_ASSERT(q->count > 0);
    uint32_t slot = q->heap[0].slot;
    struct lh_sim_queue_key last = q->heap[--q->count];
    size_t i = 0;

    while (CHILDREN * i + 1 < q->count) {
        size_t child = earliest_child(q, i);
        if (!before(&q->heap[child], &last))
            break;
        q->heap[i] = q->heap[child];
        i = child;
    }
    if (q->count > 0)
        q->heap[i] = last;
    LH_GROW(q->free_slots, q->free_capacity, q->free_count + 1);
    q->free_slots[q->free_count++] = slot;
    return q->slots[slot];
}

void lh_sim_queue_deinit(struct lh_sim_queue *q)
{
    free(q->heap);
    free(q->slots);
    free(q->free_slots);
    *q = (struct lh_sim_queue){0};
}
