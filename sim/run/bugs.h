/* The mistakes that the simulator can switch on in the cores (LH_PLANTED in base/probe.h), to see
 * that its observers find them. Each is a rule of docs/protocol.md that somebody did not read to
 * the end. A test sees to it that this table and the places in the cores agree, and that no product
 * binary contains any of them. */
#pragma once

#include <stddef.h>

struct lh_sim_bug {
    const char *name;     /* of LH_PLANTED and lh_plant() */
    const char *rule;     /* that it breaks: "TIME-4" */
    const char *mistake;  /* one line; and when it does harm */
    const char *expected; /* what should notice it: "INV-2", "history", ... */
};

/* All of them, in the order of the protocol's rules. */
const struct lh_sim_bug *lh_sim_bugs(size_t *count);

/* NULL: none is called so. */
const struct lh_sim_bug *lh_sim_bug_find(const char *name);
