/* A run as a narrative (sim/report/narrative.h) on stdout. */
#pragma once

#include "sim/command/subject.h"
#include "sim/report/narrative.h"

/* Runs the subject in a process of its own and tells what happens; `trace`: every input and effect
 * instead. Returns the exit code that its verdict stands for. When the run killed its process, what
 * was held back is told all the same, if that is possible, and then of what it died. */
int lh_sim_show(const struct lh_sim_subject *subject,
    const struct lh_sim_narrative_options *options, bool trace);
