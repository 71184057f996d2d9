/* What a program has under names: locks (NL), cached values (VAL-1), which file has a path (VAL-7),
 * and watches (VAL-6). All but watches are kept in sessions, and shown and asked for on their
 * streams.
 *
 * Which file has a path is remembered under cache leases: so that opening a file that was opened
 * before asks nobody. The leases are those of a session of the core's own, which is opened when a
 * file is opened for the first time. No opening waits for it: what is not remembered is asked by
 * Stat, and beside that on the session's stream. */
#pragma once

#include "client/core/session/session.h"

struct lh_client_names;

struct lh_client_names *lh_client_names_create(struct lh_client_host *c,
    struct lh_client_sessions *sessions, const struct lh_client_config *config);
/* The sessions have ended, and the watches. */
void lh_client_names_destroy(struct lh_client_names *n);
void lh_client_names_check(const struct lh_client_names *n);

/* ---- locks.c: locks of a session, and its requests for some (NL-1 to NL-4). */

void lh_client_acquire(struct lh_acquire_call *call);
void lh_client_acquire_withdraw(struct lh_withdraw_call *call);
void lh_client_release(struct lh_release_call *call);
void lh_client_yield(struct lh_yield_call *call);

/* ---- values.c: reads with cache leases. */

void lh_client_get(struct lh_get_call *call);

/* ---- lookups.c: which file has a path (VAL-7). */

/* What a file keeps for ever. */
struct lh_client_found {
    uint64_t file, chunk_size;
};

/* True: that is the file that has the path now. */
bool lh_client_lookup(struct lh_client_names *n, const char *path, struct lh_client_found *found);
/* The same at `now`; it asks for nothing. Other threads may call it, too (leases.h). */
bool lh_client_lookups_know(const struct lh_client_names *n, const char *path,
    struct lh_instant now, struct lh_client_found *found);
/* LH_CALL_LOOKUPS_END. */
void lh_client_lookups_end(struct lh_client_names *n, struct lh_lookups_end_call *call);
/* The client stops; sessions end with it. */
void lh_client_lookups_stop(struct lh_client_names *n, bool complete);

/* ---- hints.c: which chunks a file has, as far as the master has said (VAL-7). */

/* The master lists these of the file's chunks; readers can begin with them. */
void lh_client_hint_keep(struct lh_client_names *n, uint64_t file, const Leasehold__LocateReply *m);
/* True: `*list` has chunks from the one on that holds the offset; good until the next call. */
bool lh_client_hint(
    struct lh_client_names *n, uint64_t file, uint64_t offset, Leasehold__LocateReply *list);

/* ---- watch.c: watches (VAL-6, NL-6). */

void lh_client_watch_open(struct lh_client_names *n, struct lh_watch_open_call *call);
void lh_client_watch_next(struct lh_watch_next_call *call);
void lh_client_watch_close(struct lh_watch_close_call *call);
void lh_client_watches_end(struct lh_client_names *n, bool complete);
