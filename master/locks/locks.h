/* Locks of programs: who holds a name, who waits, recalls and cuts (NL-1 to NL-4).
 *
 * Who holds a lock the engine knows. A lock of which more is to be remembered (it is shared, has a
 * text for others, or its holder wants to be asked) has a record (struct lh_m_lock_request), and so
 * has each request that waits. Releases and ends only mark a name; who gets it is decided at the
 * end of the step, so what a message says after a release is done before anybody is granted
 * (NL-1). */
#pragma once

#include "master/tables/tables.h"

/* ---- From the session stream; programs/ calls these, in the order of the operations. What is to
 * be said to the program goes through master/tables/answers.h. */

void lh_m_lock_acquire(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__Acquire *acquire);
void lh_m_lock_release(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__ReleaseLock *release);
void lh_m_lock_withdraw(struct lh_master *m, struct lh_m_program *p, uint64_t id);
void lh_m_lock_yield(struct lh_master *m, struct lh_m_program *p, const Leasehold__Yield *yield);

/* A program has shown all that it has (PS-2), and its session has just been renewed, or begun: then
 * its `former` one is still there, and what it shows goes on. What this master knows of the session
 * and it did not show is over. Names of locks that do not go on, or are cut, are added to `shown`:
 * two arrays for the caller to free, of strings of the pieces'. */
void lh_m_locks_shown(struct lh_master *m, struct lh_m_program *p,
    const Leasehold__Show *const *pieces, size_t count, Leasehold__Shown *shown);
/* ... and once that is answered, since the program takes nothing before: what it waits for. */
void lh_m_requests_shown(struct lh_master *m, struct lh_m_program *p,
    const Leasehold__Show *const *pieces, size_t count);
/* Nothing can be granted to the program until lh_m_locks_unpark(): its requests keep their places,
 * and are passed over. */
void lh_m_locks_park(struct lh_master *m, struct lh_m_program *p);
void lh_m_locks_unpark(struct lh_master *m, struct lh_m_program *p);
/* Back, with a stream, and it lately received an answer (SES-4). */
bool lh_m_program_reachable(const struct lh_master *m, const struct lh_m_program *p);

/* ---- For others. */

/* Is the lock on that name in force with exactly this token? (VAL-3, TOK-2.) Also while its session
 * attaches again: nobody has been given a higher token. While sessions are awaited `false` means
 * that it is not known yet. */
bool lh_m_lock_in_force(const struct lh_master *m, const char *name, uint64_t token);
/* Sessions on record are not back yet: nothing is granted, no change completes (PS-3). */
bool lh_m_programs_awaited(const struct lh_master *m);
/* When that is over at the latest. O(sessions). */
struct lh_instant lh_m_programs_back_by(const struct lh_master *m);

/* ---- The master's step. */

/* Leases of the kind LH_M_LEASE_LOCK. */
extern const struct lh_untracked_owner lh_m_lock_leases;
void lh_m_locks_init(struct lh_master *m);
void lh_m_locks_deinit(struct lh_master *m);
/* The store has a history, and this master has seen nothing of it (NL-2a). */
void lh_m_cold_start(struct lh_master *m);
/* The end of a step: whoever can be granted is, as far as `step_work` goes. */
void lh_m_locks_step(struct lh_master *m);
/* A reign begins: says so if it has no tokens to give (NL-2). */
void lh_m_locks_start(struct lh_master *m);
/* The last session on record is back or over: grants what waits. */
void lh_m_locks_all_back(struct lh_master *m);
/* The program's session is over: its requests leave their queues. Its locks follow by
 * themselves. */
void lh_m_locks_session_over(struct lh_master *m, struct lh_m_program *p);
/* The master stops: calls that wait end. */
void lh_m_locks_stop(struct lh_master *m);
/* Asserts what must hold between steps. */
void lh_m_locks_check(const struct lh_master *m);

/* ---- Unary. */

void lh_m_cancel(struct lh_master *m, uint64_t link, const Leasehold__CancelRequest *request);
/* A stream of Watch that asks for locks. */
void lh_m_lock_watch(struct lh_master *m, uint64_t link, const char *prefix);
size_t lh_m_lock_watchers(const struct lh_master *m);
/* The end of a step: watchers are told, as far as `step_work` goes. */
void lh_m_lock_watch_step(struct lh_master *m);
/* The master stops. */
void lh_m_lock_watch_end(struct lh_master *m, int error, const char *text);
void lh_m_list_names(
    struct lh_master *m, uint64_t link, const Leasehold__ListNamesRequest *request);
