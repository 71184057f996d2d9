#include "sim/run/bugs_internal.h"

const struct lh_sim_bug lh_sim_lease_bugs[LH_SIM_LEASE_BUGS] = {
    /* Appenders with tokens. */
    {"token-without-its-lock", "TOK-2",
        "a token above the fence is admitted though nobody holds its lock; who lost the lock long "
        "ago shuts out whoever has it",
        "story"},
    {"lower-token-admitted-after-roll", "TOK-2",
        "once the file has rolled over its fence is not compared with any more; a former owner "
        "appends behind its successor",
        "INV-16"},
    {"fence-not-in-grant", "TOK-2",
        "grants say nothing of the fence; the primary refuses the very owner of the file, and "
        "takes "
        "who names no token",
        "INV-8"},
    {"fence-forgotten-at-restart", "TOK-2",
        "a master that starts does not load the fence; a former owner is admitted again", "INV-16"},
    {"lane-without-token-admitted", "TOK-2",
        "a primary looks at tokens only if there is one; a program that names none appends beside "
        "the owner",
        "INV-16"},
};
