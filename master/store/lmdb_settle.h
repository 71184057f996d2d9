/* What a process before left behind. A write of the page that names the newest transaction may have
 * failed: then the kernel's memory has one state, and the disk that one or another. This one goes
 * on from what it has read, and writes pages that are free in that state and not in the other one.
 * So the disk gets what was read before anything else is written: a crash of the machine cannot
 * bring the other one back. */
#pragma once

#include <lmdb.h>
#include <stdbool.h>

/* Before the first transaction that writes. Gives 0 or errno's code; then it is to be done again,
 * or given up. */
int lh_lmdb_settle(MDB_env *env);

/* Whether the transaction, which writes, follows the newest one in the file. LMDB takes its number
 * from lock.mdb if it could not have that alone: with a number of another state, as a crash of the
 * machine leaves it, it would go on from an older one. */
bool lh_lmdb_follows(MDB_env *env, MDB_txn *txn);
