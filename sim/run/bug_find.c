/* All planted bugs, and one by its name. */
#include "sim/run/bugs_internal.h"

#include <string.h>

#define BUGS                                                                                       \
    (LH_SIM_CORE_BUGS + LH_SIM_SESSION_BUGS + LH_SIM_DISK_BUGS + LH_SIM_LEASE_BUGS +               \
        LH_SIM_ACCESS_BUGS + LH_SIM_CHECK_BUGS)

const struct lh_sim_bug *lh_sim_bugs(size_t *count)
{
    static struct lh_sim_bug all[BUGS];
    const struct {
        const struct lh_sim_bug *bugs;
        size_t count;
    } tables[] = {{lh_sim_core_bugs, LH_SIM_CORE_BUGS}, {lh_sim_session_bugs, LH_SIM_SESSION_BUGS},
        {lh_sim_disk_bugs, LH_SIM_DISK_BUGS}, {lh_sim_lease_bugs, LH_SIM_LEASE_BUGS},
        {lh_sim_access_bugs, LH_SIM_ACCESS_BUGS}, {lh_sim_check_bugs, LH_SIM_CHECK_BUGS}};
    size_t at = 0;

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; at += tables[i++].count)
        memcpy(all + at, tables[i].bugs, tables[i].count * sizeof *all);
    *count = at;
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
