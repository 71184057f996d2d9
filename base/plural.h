/* Words beside a number in a sentence: "1 record is stored", "2 records are stored". */
#pragma once

#include <stdint.h>

static inline const char *lh_one_or_many(uint64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

/* What a noun ends in behind `n`. */
static inline const char *lh_plural(uint64_t n)
{
    return lh_one_or_many(n, "", "s");
}
