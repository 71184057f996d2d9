/* Which paths a file may have: "/part/part", each part non-empty and not "." or "..", valid UTF-8
 * without control bytes, at most LH_PATH_BYTES_MAX bytes in all. */
#pragma once

#include "base/error.h"

#include <stddef.h>

/* INVALID_ARGUMENT or TOO_LARGE: `text` names the offending part (printable, whatever the path). */
LH_MUST_USE int lh_path_check(const char *path, char *text, size_t text_size);

/* A prefix of a path, for listings: any beginning of a path, also the empty one. */
LH_MUST_USE int lh_path_prefix_check(const char *prefix, char *text, size_t text_size);

/* A name that a server gives itself or is given: 1 to `size_max` printable ASCII bytes, no space;
 * `what` it is goes into the error's text. */
LH_MUST_USE int lh_name_check(
    const char *what, const char *name, size_t size_max, char *text, size_t text_size);
