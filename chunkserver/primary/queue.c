/* The queue of ordered, uncommitted batches of a primary. */
#include "chunkserver/primary/queue.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>

struct lh_cs_uncommitted *lh_cs_queue_at(struct lh_cs_primary *p, size_t index)
{
    LH_ASSERT(index < p->queue.count);
    return &p->queue.items[(p->queue.first + index) % p->queue.capacity];
}

/* Index of the first batch that begins at `offset` or behind it; `queue_count` if there is none. */
static size_t queue_search(struct lh_cs_primary *p, uint64_t offset)
{
    size_t low = 0, high = p->queue.count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (lh_cs_queue_at(p, mid)->offset < offset)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

size_t lh_cs_queue_index(struct lh_cs_primary *p, uint64_t offset)
{
    size_t i = queue_search(p, offset);

    if (i == p->queue.count || lh_cs_queue_at(p, i)->offset > offset) {
        LH_ASSERT(i > 0);
        i--;
    }
    return i;
}

bool lh_cs_queue_batch_ends(struct lh_cs_primary *p, uint64_t offset)
{
    if (p->queue.count == 0 || offset <= lh_cs_queue_at(p, 0)->offset || offset == p->replica->end)
        return true;
    size_t i = queue_search(p, offset);
    return i < p->queue.count && lh_cs_queue_at(p, i)->offset == offset;
}

struct lh_cs_uncommitted *lh_cs_queue_push(struct lh_cs_primary *p)
{
    if (p->queue.count == p->queue.capacity) {
        size_t capacity = p->queue.capacity == 0 ? 4 : p->queue.capacity * 2;
        struct lh_cs_uncommitted *queue = lh_alloc_array(capacity, sizeof *queue);
        for (size_t i = 0; i < p->queue.count; i++)
            queue[i] = *lh_cs_queue_at(p, i);
        free(p->queue.items);
        p->queue.items = queue;
        p->queue.first = 0;
        p->queue.capacity = capacity;
    }
    return &p->queue.items[(p->queue.first + p->queue.count++) % p->queue.capacity];
}

void lh_cs_queue_pop(struct lh_cs_primary *p)
{
    struct lh_cs_uncommitted *u = lh_cs_queue_at(p, 0);

    p->primaries->streams.pending_bytes -= u->bytes.size;
    lh_buf_clear(&u->bytes);
    p->queue.first = (p->queue.first + 1) % p->queue.capacity;
    p->queue.count--;
}

void lh_cs_queue_shrink(struct lh_cs_primary *p)
{
    if (p->queue.count > 0)
        return;
    free(p->queue.items);
    p->queue.items = NULL;
    p->queue.first = p->queue.capacity = 0;
}

void lh_cs_queue_free(struct lh_cs_primary *p)
{
    while (p->queue.count > 0)
        lh_cs_queue_pop(p);
    free(p->queue.items);
}
