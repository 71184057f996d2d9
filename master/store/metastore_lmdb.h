/* The embedded metadata store: LMDB in a directory of this machine.
 *
 *     LOCK       held under flock(2) by the process that uses the directory
 *     FORMAT     "leasehold-master 1": what the directory is, and in which format
 *     CLUSTER    whose metadata it is (cluster_file.h): a store that is missing, empty or of
 *                another cluster is refused
 *     data.mdb   LMDB's; lock.mdb is for its readers (mdb_dump and mdb_copy work at any time)
 *
 * One thread commits. What is begun while it is busy goes into its next transaction together, so
 * that one fdatasync serves all of it (group commit).
 *
 * A transaction for which there is no room or no memory is undone and tried again, each second:
 * none of the pages that it wrote belongs to what is stored, and it writes all of them again. While
 * that lasts at most LH_METASTORE_WAITING_MAX bytes of changes are kept; with more the store fails.
 * So it does after any other error. */
#pragma once

#include "master/store/metastore.h"

#define LH_METASTORE_WAITING_MAX (UINT64_C(64) << 20)

/* Opens `path`, creating the directory (not its parents) if it is missing. `on_committed` and `arg`
 * are for all commits. `map_bytes` of address space, not memory, are taken at first, or what the
 * store has, and twice as many whenever it is full; 0: 1 GiB.
 * On failure `why` names the directory and what to do:
 *   IN_USE        another process holds the directory
 *   WRONG_FORMAT  written by a newer release, or not a master's directory
 *   CORRUPT       LMDB cannot read its file, or the store of a directory that was in use is gone
 *   others        a call failed, which says nothing of what is stored: DISK_FULL, SHORTAGE, IO; if
 *                 the directory cannot be created, what lh_error_from_errno() says */
LH_MUST_USE int lh_metastore_lmdb_open(const char *path, uint64_t map_bytes,
    lh_metastore_committed *on_committed, void *arg, struct lh_metastore **store, char *why,
    size_t why_size);

extern const struct lh_metastore_kind lh_metastore_lmdb; /* `where`: the directory */
