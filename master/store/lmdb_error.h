/* What LMDB's errors say of the store, and of what to do. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* `code`: LMDB's, or errno's. */
int lh_lmdb_error(int code);

/* The transaction was undone, and may succeed later. `directory`: the store's, open. */
bool lh_lmdb_is_shortage(int directory, int code);

/* A sentence for the operator on a commit that failed. `again`: it is tried again. */
void lh_lmdb_explain(const char *path, int code, bool again, char *why, size_t why_size);
