/* Tags of completion queues. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

/* What a completion queue's event names. `done` runs once, with the result of its batch. */
struct tag {
    void (*done)(struct tag *tag, bool success);
    /* gRPC orders the start of a batch before its event. Stated here again, since thread
     * sanitizers do not see into gRPC: written before the start, read before `done`. */
    _Atomic unsigned posts;
};

static inline void tag_post(struct tag *tag)
{
    atomic_fetch_add_explicit(&tag->posts, 1, memory_order_release);
}

static inline void tag_take(struct tag *tag)
{
    (void)atomic_load_explicit(&tag->posts, memory_order_acquire);
}
