/* All planted bugs, and one by its name. */
#include "sim/run/bugs_internal.h"

#include "base/assert.h"

#include <string.h>

#define BUGS_MAX 1024u

const struct lh_sim_bug *lh_sim_bugs(size_t *count)
{
    static struct lh_sim_bug all[BUGS_MAX];
    const struct lh_sim_bug *const tables[] = {lh_sim_core_bugs, lh_sim_session_bugs,
        lh_sim_disk_bugs, lh_sim_lease_bugs, lh_sim_access_bugs, lh_sim_check_bugs,
        lh_sim_wire_bugs};
    size_t at = 0;

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const struct lh_sim_bug *bug = tables[i]; bug->name != NULL; bug++) {
            LH_ASSERT(at < BUGS_MAX);
            all[at++] = *bug;
        }
    }
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
