/* Whether LMDB can use a file: its own reading trusts every number in it, so one that was changed
 * or cut short ends the process by a signal, or makes it write over what is stored. Read with
 * read(2), before anything is mapped.
 *
 * What is looked at: both meta pages, and that their transactions are a pair; each page of the two
 * trees, once; that keys rise, in leaves and in what leads to them; that no page is used twice, or
 * is used and free. What is not: the bytes of keys and values, for which seals and sum stand
 * (PAIR-2), and counts that LMDB only shows. */
#pragma once

#include "base/error.h"

#include <stddef.h>

/* Looks at data.mdb in the directory that is open, and at `path`. None, and an empty one, are
 * sound. On failure `why` says what to do: CORRUPT, or what lh_disk_error() says. */
LH_MUST_USE int lh_lmdb_check(int directory, const char *path, char *why, size_t why_size);
