/* What a process before left behind. A write of the page that names the newest transaction may have
 * failed: then the kernel's memory has one state, and the disk that one or another. This one goes
 * on from what it has read, and writes pages that are free in that state and not in the other one.
 * So the disk gets what was read before anything else is written: a crash of the machine cannot
 * bring the other one back. */
#pragma once

#include <lmdb.h>

/* Before the first transaction that writes. Gives 0 or errno's code; then it is to be done again,
 * or given up. */
int lh_lmdb_settle(MDB_env *env);
