#ifndef LH_MASTER_SEAL_ROLL_LENGTH_H
#define LH_MASTER_SEAL_ROLL_LENGTH_H

#include "master/tables/tables.h"

/* REC-4, FAIL-5: does its log count? */
bool lh_m_log_counts(const struct lh_master *m, const struct lh_m_member *member);
/* What `s` answered to the fence; NULL: nothing yet. */
const struct lh_m_fenced *lh_m_roll_answer(
    const struct lh_m_roll *roll, const struct lh_m_server *s);
/* For how many logs a roll does not wait in vain: as many as acknowledge an append; those that are
 * gone count no more. */
uint32_t lh_m_logs_needed(const struct lh_master *m, const struct lh_m_chunk *c);
/* Is what the seal covers on as many disks as an append (or is the chunk open)? What is found there
 * counts as stored (APP-5a), so before that nobody is told to settle. */
bool lh_m_backed(const struct lh_master *m, const struct lh_m_chunk *c);
/* How many members have recorded the seal? */
uint32_t lh_m_recorded(const struct lh_m_chunk *c);
/* Do the logs that were shown not vouch for all that was acknowledged, so that the rest has to be
 * waited for, however long (REC-2a, FAIL-3)? */
bool lh_m_roll_unsure(const struct lh_m_roll *roll);
/* When, with what is known now, the rest is waited for no longer. NEVER: not enough is known. */
struct lh_instant lh_m_roll_patience_end(const struct lh_master *m, const struct lh_m_roll *roll);
/* Decides what will be sealed, if enough is known and nobody is waited for any more; and takes that
 * back if a log that was shown is gone. */
void lh_m_roll_decide(struct lh_master *m, struct lh_m_roll *roll);
/* Somebody waits until the seal of `c` is backed; and: is that still so? */
void lh_m_set_urgent(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_urgent_update(struct lh_master *m, struct lh_m_chunk *c);

#endif
