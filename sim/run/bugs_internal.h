/* The tables of planted bugs. Inside sim/run only. */
#pragma once

#include "sim/run/bugs.h"

#define LH_SIM_CORE_BUGS   138u
#define LH_SIM_LEASE_BUGS  42u
#define LH_SIM_ACCESS_BUGS 12u

extern const struct lh_sim_bug lh_sim_core_bugs[LH_SIM_CORE_BUGS];
extern const struct lh_sim_bug lh_sim_lease_bugs[LH_SIM_LEASE_BUGS];   /* of leases for programs */
extern const struct lh_sim_bug lh_sim_access_bugs[LH_SIM_ACCESS_BUGS]; /* who may do what */
