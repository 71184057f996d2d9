/* A node's monotonic clock, as true time sees it: it has an offset of its own and runs fast or slow
 * by a rate that may change (TIME-3). Exact integers: a clock at +rho gains exactly rho. */
#pragma once

#include "base/time.h"

#include <stdint.h>

#define LH_SIM_MILLION 1000000

struct lh_sim_clock {
    uint64_t true_ns;  /* the moment at which the rate was set last */
    uint64_t local_ns; /* what the clock showed then */
    uint32_t fraction; /* and the millionths of a ns that it was further on */
    int32_t rate_ppm;  /* it runs (1,000,000 + rate_ppm) / 1,000,000 as fast as true time */
};

/* `rate_ppm` lies above -1,000,000. */
void lh_sim_clock_init(
    struct lh_sim_clock *c, uint64_t true_ns, struct lh_instant shows, int32_t rate_ppm);

/* What the clock shows at `true_ns`, which is not before the last change of rate. */
struct lh_instant lh_sim_clock_read(const struct lh_sim_clock *c, uint64_t true_ns);

void lh_sim_clock_set_rate(struct lh_sim_clock *c, uint64_t true_ns, int32_t rate_ppm);

/* The first true moment, not before the last change of rate, at which the clock shows at least
 * `local`; UINT64_MAX if it never will. */
uint64_t lh_sim_clock_when(const struct lh_sim_clock *c, struct lh_instant local);
