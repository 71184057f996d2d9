#include "base/alloc.h"

#include "base/say.h"

#include <stdlib.h>
#include <string.h>

static _Noreturn void out_of_memory(size_t count, size_t size)
{
    lh_say_last("leasehold: out of memory (%zu x %zu bytes)\n", count, size);
    abort();
}

void *lh_alloc(size_t size)
{
    return lh_alloc_array(1, size);
}

void *lh_alloc_array(size_t count, size_t size)
{
    void *p = calloc(count == 0 ? 1 : count, size == 0 ? 1 : size);
    if (p == NULL)
        out_of_memory(count, size);
    return p;
}

void *lh_realloc_array(void *old, size_t count, size_t size)
{
    void *p = reallocarray(old, count == 0 ? 1 : count, size == 0 ? 1 : size);
    if (p == NULL)
        out_of_memory(count, size);
    return p;
}

char *lh_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = lh_alloc(n);
    memcpy(copy, s, n);
    return copy;
}
