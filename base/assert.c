#include "base/assert.h"

#include "base/say.h"

#include <stdlib.h>

void lh_assert_failed(const char *condition, const char *file, int line)
{
    lh_say_last("leasehold: assertion failed: %s at %s:%d\n", condition, file, line);
    abort();
}
