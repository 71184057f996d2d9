/* The kinds of metadata stores that a master can use. */
#pragma once

#include "master/store/metastore.h"

/* Opens the store of that kind, by its name, at `where`. INVALID_ARGUMENT: there is no such kind;
 * `why` names those that there are. */
LH_MUST_USE int lh_metastore_open(const char *kind, const char *where,
    lh_metastore_committed *on_committed, void *arg, struct lh_metastore **store, char *why,
    size_t why_size);
