/* A planted bug by its name. */
#include "sim/run/bugs.h"

#include <string.h>

const struct lh_sim_bug *lh_sim_bug_find(const char *name)
{
    size_t count;
    const struct lh_sim_bug *bugs = lh_sim_bugs(&count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(bugs[i].name, name) == 0)
            return &bugs[i];
    return NULL;
}
