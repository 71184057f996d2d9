/* Inside sim/run/ only. */
#ifndef LH_SIM_SIZES_H
#define LH_SIM_SIZES_H

#include "sim/run/run.h"

/* Draws the bounds of the cores into the plan's settings. */
void lh_sim_sizes_draw(struct lh_sim_plan *plan, uint64_t seed);

#endif
