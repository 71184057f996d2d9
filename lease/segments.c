#include "lease/segments.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdlib.h>

void lh_segments_init(struct lh_segments *s, size_t element)
{
    *s = (struct lh_segments){.element = element};
}

void lh_segments_deinit(struct lh_segments *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        free(s->segment[i]);
    free(s->segment);
    *s = (struct lh_segments){0};
}

void lh_segments_reserve(struct lh_segments *s, uint64_t needed)
{
    uint64_t segments = (needed + LH_SEGMENT_SIZE - 1) >> LH_SEGMENT_SHIFT;
    LH_ASSERT(segments <= UINT32_MAX >> LH_SEGMENT_SHIFT);
    LH_GROW(s->segment, s->capacity, segments);
    while (s->count < segments)
        s->segment[s->count++] = lh_alloc_array(LH_SEGMENT_SIZE, s->element);
}

size_t lh_segments_memory(const struct lh_segments *s)
{
    return s->count * (LH_SEGMENT_SIZE * s->element) + s->capacity * sizeof *s->segment;
}
