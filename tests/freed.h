/* How many bytes this thread has given back to jemalloc, with which the servers are linked. Taken
 * before and after a core is destroyed, that is what the core has cost: records, indexes, and what
 * the allocator rounds up. */
#pragma once

#include "base/assert.h"

#include <stdint.h>

/* Not there under a sanitizer: then mallctl is NULL. */
extern int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size)
    __attribute__((weak));

static inline uint64_t freed(void)
{
    uint64_t bytes = 0;
    size_t size = sizeof bytes;
    int error = mallctl("thread.deallocated", &bytes, &size, NULL, 0);

    LH_ASSERT(error == 0);
    return bytes;
}
