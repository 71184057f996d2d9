/* The tables of planted bugs. Inside sim/run only. */
#pragma once

#include "sim/run/bugs.h"

#define LH_SIM_CORE_BUGS    131u
#define LH_SIM_SESSION_BUGS 10u
#define LH_SIM_DISK_BUGS    7u
#define LH_SIM_LEASE_BUGS   48u
#define LH_SIM_ACCESS_BUGS  14u
#define LH_SIM_CHECK_BUGS   19u

extern const struct lh_sim_bug lh_sim_core_bugs[LH_SIM_CORE_BUGS];
extern const struct lh_sim_bug lh_sim_session_bugs[LH_SIM_SESSION_BUGS];
extern const struct lh_sim_bug lh_sim_disk_bugs[LH_SIM_DISK_BUGS];     /* of errors of disks */
extern const struct lh_sim_bug lh_sim_lease_bugs[LH_SIM_LEASE_BUGS];   /* of leases for programs */
extern const struct lh_sim_bug lh_sim_check_bugs[LH_SIM_CHECK_BUGS];   /* what is left out */
extern const struct lh_sim_bug lh_sim_access_bugs[LH_SIM_ACCESS_BUGS]; /* who is who */
