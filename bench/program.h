/* What the programs that use the public C API have in common. */
#pragma once

#include "bench/samples.h"

#include "client/library/leasehold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static inline double lh_bench_now_s(void)
{
    return (double)lh_bench_now_ns() * 1e-9;
}

/* Ends the program, and says what failed, after an error. */
static inline void lh_bench_check(const char *what, int error)
{
    if (error == LH_OK)
        return;
    fprintf(stderr, "%s: %s: %s: %s\n", program_invocation_short_name, what, lh_error_name(error),
        lh_last_error());
    exit(1);
}
