/* Makes a failing plan small: drops what was done to the cluster while the run still fails in the
 * same way, then shortens and rounds what is left, takes servers, clients and files away, and
 * brings settings back to their defaults (after Zeller and Hildebrandt, "Simplifying and Isolating
 * Failure-Inducing Input", 2002).
 *
 * A change anywhere shifts what the world draws for its network and disks, and a failure that hung
 * on one delay is then gone by accident. So each smaller plan is tried with some other seeds of the
 * world too before it is given up. */
#pragma once

#include "sim/run/run.h"

struct lh_sim_minimizer {
    void *arg;

    /* Runs the plan. True: it fails in the way that matters, at `*failed_at` of true time. */
    bool (*fails)(void *arg, const struct lh_sim_plan *plan, uint64_t *failed_at);

    /* The plan has become smaller; `doing` says what is being tried. May be NULL. */
    void (*smaller)(void *arg, const char *doing, const struct lh_sim_plan *plan, uint64_t runs);

    /* True: that will do. Asked before each run; may be NULL. */
    bool (*enough)(void *arg);

    uint32_t seeds; /* tried for each smaller plan; at least 1 */
};

/* `plan` fails, with its nemesis at rest. It is replaced by the smallest that was found, which
 * fails too. Returns how many runs that took, the first of which made sure that `plan` fails: 0,
 * and nothing was done, if it does not. */
uint64_t lh_sim_minimize(struct lh_sim_plan *plan, const struct lh_sim_minimizer *minimizer);
