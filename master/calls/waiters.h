#ifndef LH_MASTER_CALLS_WAITERS_H
#define LH_MASTER_CALLS_WAITERS_H

#include "master/tables/tables.h"

void lh_m_waiter_closed(struct lh_master *m, uint64_t link);
/* Ends every call that waits for `f` (NULL: for any file) with `error`. */
void lh_m_fail_waiters(struct lh_master *m, struct lh_m_file *f, int error, const char *text);
void lh_m_waiter_free(struct lh_master *m, struct lh_m_waiter *w);
/* The sealed chunk in which the caller has to settle and cannot yet, as what is sealed there is on
 * too few disks (FAIL-2a); NULL: none. */
struct lh_m_chunk *lh_m_unbacked_for(const struct lh_master *m, const struct lh_m_waiter *w);
/* Answers and frees it. */
void lh_m_answer(struct lh_master *m, struct lh_m_waiter *w, int error, const char *text);

#endif
