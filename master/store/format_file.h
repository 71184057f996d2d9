/* The file FORMAT of a master's directory. */
#pragma once

#include "base/error.h"

#include <stddef.h>

/* Whose directory is it, and can we read it? An empty one becomes ours. `directory` is open, and at
 * `path`. WRONG_FORMAT, or what lh_disk_error() says; `why` says what to do. */
LH_MUST_USE int lh_format_file_check(int directory, const char *path, char *why, size_t why_size);
