/* Inside sim/run/ only. */
#pragma once

#include "sim/run/run.h"

/* Draws the bounds of the cores into the plan's settings. */
void lh_sim_sizes_draw(struct lh_sim_plan *plan, uint64_t seed);
/* The bound of that name, to be set; as shipped if it was not. */
uint64_t *lh_sim_bound_of(struct lh_sim_settings *s, const char *core, const char *name);
