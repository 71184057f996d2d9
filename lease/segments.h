/* An array that grows without moving: equal segments and a small directory of them. Growth costs
 * one segment, never a copy of what is there, and leaves at most one segment unused. Elements keep
 * their address and start zeroed. Inside lease/ only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define LH_SEGMENT_SHIFT 14
#define LH_SEGMENT_SIZE  (UINT32_C(1) << LH_SEGMENT_SHIFT) /* elements */

struct lh_segments {
    unsigned char **segment;
    uint32_t count;    /* segments in the directory */
    uint32_t capacity; /* of the directory */
    size_t element;    /* bytes of one element */
};

void lh_segments_init(struct lh_segments *s, size_t element);
void lh_segments_deinit(struct lh_segments *s);

/* Makes the elements [0, needed) usable. */
void lh_segments_reserve(struct lh_segments *s, uint64_t needed);

size_t lh_segments_memory(const struct lh_segments *s);

/* `element` is the size given to lh_segments_init(); a constant here saves a multiplication. */
static inline void *lh_segments_at(const struct lh_segments *s, uint32_t i, size_t element)
{
    return s->segment[i >> LH_SEGMENT_SHIFT] + (i & (LH_SEGMENT_SIZE - 1)) * element;
}
