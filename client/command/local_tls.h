/* The certificates of `leasehold local --tls`: an authority, one for each server, and one for the
 * command. */
#pragma once

#include <stdbool.h>

/* The authority, in "tls" of the directory: made, unless it is there from an earlier run. False:
 * that cannot be, which was said on stderr. */
bool lh_local_tls_begin(const char *dir);

/* A new certificate of that role and name on this machine. Its directory, to be freed; NULL as
 * above. */
char *lh_local_tls_issue(const char *dir, const char *role, const char *name);
