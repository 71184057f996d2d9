/* What other threads may read while the core steps (leases.h): changes of it stand between these
 * two. They nest. */
#pragma once

#include "client/core/state.h"

static inline void lh_client_guard(struct lh_client *c)
{
    if (c->guards++ == 0 && c->config.guard != NULL)
        c->config.guard(c->config.guard_arg, true);
}

static inline void lh_client_unguard(struct lh_client *c)
{
    if (--c->guards == 0 && c->config.guard != NULL)
        c->config.guard(c->config.guard_arg, false);
}
