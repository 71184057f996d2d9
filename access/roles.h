/* The operator's table of roles, as it was read. */
#pragma once

#include "access/access.h"

struct lh_access_line {
    char *identity;
    enum lh_role role;
    /* Of readers and writers: prefixes of what they reach; of a chunkserver: its --server-id. 0:
     * everything; the name of its URI. */
    size_t scope_count;
    char **scope;
};

/* The line that names this identity, or NULL. */
const struct lh_access_line *lh_access_find(const struct lh_access *access, const char *identity);
/* The role of that name; LH_ROLES: there is none. */
enum lh_role lh_role_named(const char *name, size_t size);
