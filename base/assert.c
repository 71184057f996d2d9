#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void lh_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "leasehold: assertion failed: %s at %s:%d\n", condition, file, line);
    abort();
}
