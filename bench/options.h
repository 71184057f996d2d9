/* What main() of a bench does with its options. */
#pragma once

#include "runtime/flags.h"

#include <stdlib.h>

/* Sets what the table says. Ends the program after --help, and with status 64 after a mistake. */
static inline void lh_bench_options(const struct lh_flags *flags, int argc, char **argv)
{
    static const struct lh_flags_binary binary = {.version = "1", .usage_code = 64};
    struct lh_flags_result result; /* strings stay valid until the program ends */
    int code;

    if (!lh_flags_accept(flags, &binary, argc, argv, 0, 0, &result, &code))
        exit(code);
}
