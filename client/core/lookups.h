/* Which file has a path, remembered under cache leases (VAL-7): so that opening a file that was
 * opened before asks nobody. The leases are those of a session of the core's own, which is opened
 * when a file is opened for the first time. No opening waits for it: what is not remembered is
 * asked by Stat, and beside that on the session's stream. */
#pragma once

#include "client/core/leases.h"
#include "client/core/state.h"

/* What a file keeps for ever. */
struct lh_client_found {
    uint64_t file, chunk_size;
};

void lh_client_lookups_init(struct lh_client *c, const struct lh_client_config *config);
void lh_client_lookups_deinit(struct lh_client *c);
/* True: that is the file that has the path now. */
bool lh_client_lookup(struct lh_client *c, const char *path, struct lh_client_found *found);
/* LH_CALL_LOOKUPS_END. */
void lh_client_lookups_end(struct lh_client *c, struct lh_lookups_end_call *call);
/* The client stops; sessions end with it. */
void lh_client_lookups_stop(struct lh_client *c, bool complete);
/* True: the call is one of its own, and this is its end. */
bool lh_client_lookups_completed(struct lh_client *c, const struct lh_call *call, int error);
void lh_client_lookups_check(const struct lh_client *c);
