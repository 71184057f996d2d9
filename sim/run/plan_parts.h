/* What the files that draw a plan share. Inside sim/run only. */
#pragma once

#include "sim/run/run.h"

#include "base/alloc.h"

/* Small numbers more often than large ones. */
uint32_t lh_sim_few(struct lh_prng *random, uint32_t min, uint32_t max);

static inline struct lh_sim_range lh_sim_up_to(struct lh_duration min, struct lh_duration max)
{
    return (struct lh_sim_range){min, max};
}

void lh_sim_plan_add(struct lh_sim_plan *plan, const struct lh_sim_action *a);

/* Adds programs with leases, and leaves few of the others. */
void lh_sim_plan_leases(struct lh_sim_plan *plan, struct lh_prng *random);
