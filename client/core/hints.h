/* Which chunks a file has, as far as the master has said (VAL-7). */
#pragma once

#include "client/core/state.h"

/* The master lists these of the file's chunks; readers can begin with them. */
void lh_client_hint_keep(struct lh_client *c, uint64_t file, const Leasehold__LocateReply *m);
/* True: `*list` has chunks from the one on that holds the offset; good until the next call. */
bool lh_client_hint(
    struct lh_client *c, uint64_t file, uint64_t offset, Leasehold__LocateReply *list);
void lh_client_hints_clear(struct lh_client *c);
void lh_client_hints_check(const struct lh_client *c);
