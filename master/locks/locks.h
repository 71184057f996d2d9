/* Locks of programs: who holds a name, who waits, recalls and cuts (NL-1 to NL-4). */
#pragma once

#include "master/tables/name.h"

/* ---- From the session stream; programs/ calls these, in the order of the operations. What is to
 * be said to the program goes through lh_m_program_say_...() of master/tables/answers.h, which
 * gathers the answers of a step into messages. */

void lh_m_lock_acquire(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__Acquire *acquire);
void lh_m_lock_release(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__ReleaseLock *release);
void lh_m_lock_withdraw(struct lh_master *m, struct lh_m_program *p, uint64_t id);
void lh_m_lock_yield(struct lh_master *m, struct lh_m_program *p, const Leasehold__Yield *yield);

/* A program has shown all that it has (PS-2), and its session has just been renewed or begun. Locks
 * that go on are engaged; those of this session that it did not show are over. Names of locks that
 * do not go on, or are cut, are added to `shown`. */
void lh_m_locks_shown(struct lh_master *m, struct lh_m_program *p, const Leasehold__Show *const *pieces,
    size_t count, Leasehold__Shown *shown);

/* ---- For others. */

/* Is the lock on that name in force with exactly this token, in a session that is back? (VAL-3,
 * TOK-2.) */
bool lh_m_lock_in_force(const struct lh_master *m, const char *name, uint64_t token);
/* Sessions on record are not back yet: nothing is granted, no change completes (PS-3). */
bool lh_m_programs_awaited(const struct lh_master *m);
/* The last of them is back or over: grants what waits, in steps of bounded work. */
void lh_m_locks_all_back(struct lh_master *m);
/* A lease of the engine's on that name has run out. */
void lh_m_lock_expired(struct lh_master *m, struct lh_m_name *name, struct lh_m_program *p);
/* The program's session is over: its requests leave their queues. */
void lh_m_locks_session_over(struct lh_master *m, struct lh_m_program *p);

/* Unary. */
void lh_m_cancel(struct lh_master *m, uint64_t link, const Leasehold__CancelRequest *request);
