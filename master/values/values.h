/* Values under names: reads with cache leases, changes that wait for the caches, values that go
 * with a session, broadcasts, watching, and the policies of names (NL-5, VAL-1 to VAL-6). */
#pragma once

#include "master/locks/locks.h"
#include "master/tables/tables.h"

/* ---- From the session stream. */

void lh_m_value_read(struct lh_master *m, struct lh_m_program *p, const Leasehold__ReadValue *read);
void lh_m_value_dropped(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__Dropped *dropped);
void lh_m_broadcast(struct lh_master *m, struct lh_m_program *p, const Leasehold__Broadcast *b);

/* As lh_m_locks_shown(): which of the values may still be served. */
void lh_m_values_shown(struct lh_master *m, struct lh_m_program *p,
    const Leasehold__Show *const *pieces, size_t count, Leasehold__Shown *shown);
/* What the answer to a heartbeat says of the prefixes that the program subscribed to: an array that
 * is good until the next call. The promise is kept from now on (VAL-5). */
size_t lh_m_broadcasts(
    struct lh_master *m, struct lh_m_program *p, Leasehold__BroadcastState ***states);

/* ---- For others. */

/* VAL-7. A call that came on `link` is to take the path away from its file. False: it may do so
 * now, nobody caches which file that is. True: it was refused, or waits: then it is carried out by
 * `carry_out` later. */
typedef void lh_m_carry_out(struct lh_master *m, uint64_t link, const void *request);
bool lh_m_path_changes(struct lh_master *m, uint64_t link, const char *path, enum lh_method method,
    const ProtobufCMessage *request, lh_m_carry_out *carry_out);
/* How many sessions may have cached which file has the path; `*changing`: a call waits for them. */
size_t lh_m_path_caches(const struct lh_master *m, const char *path, bool *changing);
/* Leases of the kind LH_M_LEASE_VALUE. */
extern const struct lh_untracked_owner lh_m_cache_leases;
/* The session is over: what is attached to it is deleted (VAL-4), its broadcasts end. */
void lh_m_values_session_over(struct lh_master *m, struct lh_m_program *p);
/* All sessions are back or over: changes may complete. */
void lh_m_values_all_back(struct lh_master *m);
/* A commit is durable: changes in it are complete. */
void lh_m_values_durable(struct lh_master *m);
/* Adds what is known of the name's value, of its caches and changes. `info->value` is the
 * caller's to free; what it names is the tables'. Sentences of explain go to `sentence`, if it
 * is not NULL. */
void lh_m_value_describe(struct lh_master *m, struct lh_m_name *name, Leasehold__NameInfo *info,
    void (*sentence)(void *arg, const char *sentence), void *arg);

/* ---- The master's. */

void lh_m_values_init(struct lh_master *m);
void lh_m_values_deinit(struct lh_master *m);
/* The first step of a reign: values whose session has no record are deleted. */
void lh_m_values_start(struct lh_master *m);
/* The end of a step: changes that can go on do, and watchers are told. Bounded; what is left makes
 * lh_m_values_busy(): the next step is due at once. */
void lh_m_values_step(struct lh_master *m);
bool lh_m_values_busy(const struct lh_master *m);
/* The master stops: calls that wait and streams of watchers end. */
void lh_m_values_stop(struct lh_master *m, int error, const char *text);
/* Asserts what must hold between steps. */
void lh_m_values_check(const struct lh_master *m);

struct lh_m_values_figures {
    size_t changes_waiting, reads_waiting, watchers;
};
void lh_m_values_figures(const struct lh_master *m, struct lh_m_values_figures *figures);

/* The policy of that prefix is as it is now: are the names under it broadcast? */
void lh_m_broadcast_policy(struct lh_master *m, const char *prefix);

/* ---- Unary, and the stream of a watcher. */

void lh_m_get(struct lh_master *m, uint64_t link, const Leasehold__GetRequest *request);
void lh_m_change(struct lh_master *m, uint64_t link, const Leasehold__ChangeRequest *request);
void lh_m_watch_message(struct lh_master *m, uint64_t link, const Leasehold__WatchRequest *request);
