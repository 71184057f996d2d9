/* What a failed run prints: what broke, when, what led to it, and how to see it again. */
#pragma once

#include "sim/command/subject.h"

/* Prints the block to stdout. Runs the subject again, in a process of its own, to show the events
 * before the failure. */
void lh_sim_failure_print(
    const struct lh_sim_subject *subject, const struct lh_sim_outcome *outcome);
