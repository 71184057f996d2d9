/* Which cluster's metadata a directory holds (SES-10). From the first durable commit on the file
 * CLUSTER has its id. A start that failed leaves all others behind, so none of them proves that
 * there was one. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define LH_CLUSTER_FILE "CLUSTER"

/* With its end. */
#define LH_CLUSTER_TEXT_BYTES 129u

/* The pair that has the id (docs/formats.md). */
#define LH_CLUSTER_KEY "M"

/* The id in that pair's value; "": it has none. False: its seal is broken; whoever loads the store
 * says what to do (PAIR-2). */
bool lh_cluster_in_pair(const void *value, size_t size, char id[LH_CLUSTER_TEXT_BYTES]);

/* `directory` is open, and at `path`. The id in the file; "": there is none. CORRUPT: it has
 * none, or the store beside it is missing or of no bytes. What lh_disk_error() says: it could not
 * be read. `why` says what to do. */
LH_MUST_USE int lh_cluster_file_read(
    int directory, const char *path, char id[LH_CLUSTER_TEXT_BYTES], char *why, size_t why_size);

/* Is the store that LMDB reads the file's? `stored`: the id in it. WRONG_IDENTITY, CORRUPT. */
LH_MUST_USE int lh_cluster_file_check(
    const char *path, const char *id, const char *stored, char *why, size_t why_size);

/* Durably. False: it is to be tried again. */
bool lh_cluster_file_write(int directory, const char *id);
