/* The table of roles (access/access.h), from a file. */
#pragma once

#include "access/access.h"

/* Reads it; *access is the caller's, for lh_access_free(). An error of the file, TOO_LARGE or
 * MALFORMED: `why` says it in a sentence. */
LH_MUST_USE int lh_roles_read(
    const char *path, struct lh_access **access, char *why, size_t why_size);
