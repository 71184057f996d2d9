/* The tables of planted bugs, each ended by one without a name. Inside sim/run only. */
#pragma once

#include "sim/run/bugs.h"

extern const struct lh_sim_bug lh_sim_core_bugs[];
extern const struct lh_sim_bug lh_sim_session_bugs[];
extern const struct lh_sim_bug lh_sim_disk_bugs[];   /* of errors of disks */
extern const struct lh_sim_bug lh_sim_lease_bugs[];  /* of leases for programs */
extern const struct lh_sim_bug lh_sim_check_bugs[];  /* what is left out */
extern const struct lh_sim_bug lh_sim_access_bugs[]; /* who is who */
extern const struct lh_sim_bug lh_sim_wire_bugs[];   /* of the machine that carries links */
