/* All planted bugs, and one by its name. */
#include "sim/run/bugs_internal.h"

#include <string.h>

#define BUGS (LH_SIM_CORE_BUGS + LH_SIM_SESSION_BUGS + LH_SIM_LEASE_BUGS + LH_SIM_ACCESS_BUGS)

const struct lh_sim_bug *lh_sim_bugs(size_t *count)
{
    static struct lh_sim_bug all[BUGS];
    struct lh_sim_bug *to = all;

    memcpy(to, lh_sim_core_bugs, sizeof lh_sim_core_bugs);
    to += LH_SIM_CORE_BUGS;
    memcpy(to, lh_sim_session_bugs, sizeof lh_sim_session_bugs);
    to += LH_SIM_SESSION_BUGS;
    memcpy(to, lh_sim_lease_bugs, sizeof lh_sim_lease_bugs);
    to += LH_SIM_LEASE_BUGS;
    memcpy(to, lh_sim_access_bugs, sizeof lh_sim_access_bugs);
    *count = BUGS;
    return all;
}

const struct lh_sim_bug *lh_sim_bug_find(const char *name)
{
    size_t count;
    const struct lh_sim_bug *bugs = lh_sim_bugs(&count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(bugs[i].name, name) == 0)
            return &bugs[i];
    return NULL;
}
