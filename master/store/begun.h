/* Whether a directory has ever held a cluster's metadata: the file BEGUN says so. A start that
 * failed leaves all others behind, so none of them proves it. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define LH_BEGUN_FILE "BEGUN"

/* `directory` is open, and at `path`. `*begun`: it has that file. CORRUPT: it has, and its store is
 * missing or empty; `why` says what to do. */
LH_MUST_USE int lh_begun_look(
    int directory, const char *path, bool *begun, char *why, size_t why_size);

/* The same where LMDB can read the store, and finds nothing in it. */
LH_MUST_USE int lh_begun_refuse_empty(const char *path, char *why, size_t why_size);

/* Durably. False: it is to be tried again. */
bool lh_begun_write(int directory);
