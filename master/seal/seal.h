/* Rolling over, which log counts, recording a seal. */
#pragma once

#include "master/tables/tables.h"

/* ---- roll.c */

/* Of a chunk that was loaded with an intent to seal; goes on with lh_m_rolls_start(). */
void lh_m_roll_resume(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_rolls_start(struct lh_master *m);
void lh_m_roll_free(struct lh_master *m, struct lh_m_chunk *c); /* nothing if there is none */
/* A commit with the chunk is durable, its server registered, a stream broke, the chunk preallocated
 * for its file changed. */
void lh_m_roll_durable(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_roll_announced(struct lh_master *m, struct lh_m_server *s);
void lh_m_rolls_advance(struct lh_master *m);
void lh_m_roll_prealloc_changed(struct lh_master *m, struct lh_m_file *f);
void lh_m_on_fenced(struct lh_master *m, struct lh_m_server *s, const Leasehold__Fenced *report);
/* Is there what a roll needs: a log to seal by, and servers to go on with? */
bool lh_m_roll_possible(struct lh_master *m, const struct lh_m_chunk *c);
/* Begins it, if nobody has. */
void lh_m_roll_begin(struct lh_master *m, struct lh_m_chunk *c, const char *why);

/* ---- causes.c */

/* Does the file roll over when the primary of its tail is lost? */
bool lh_m_rolls(const struct lh_master *m, const struct lh_m_file *f);
/* Somebody waits for the file's tail: rolls it over if its primary is lost, or asks whether it
 * is. */
void lh_m_roll_consider(struct lh_master *m, struct lh_m_file *f);
/* The tail's primary, which lives, reports that appends wait and too few of its members answer:
 * rolls the file over. True: it does. */
bool lh_m_roll_short(struct lh_master *m, struct lh_m_chunk *c);
/* REC-9: nobody holds the open chunk, and no member has a log that is not damaged: seals it by what
 * there is. True: it does. */
bool lh_m_roll_damaged(struct lh_master *m, struct lh_m_chunk *c);
/* The tail's primary cannot recover, since no log is evidence, and there are damaged ones, which it
 * does not hear: the same, or that is waited for. False: there are none. */
bool lh_m_roll_unsure_primary(struct lh_master *m, struct lh_m_chunk *c);

/* ---- roll_length.c */

/* REC-4, FAIL-5: does its log count? */
bool lh_m_log_counts(const struct lh_master *m, const struct lh_m_member *member);
/* REC-9: may it have a damaged log, which can say how far it went? */
bool lh_m_log_is_damaged(const struct lh_master *m, const struct lh_m_member *member);
/* What `s` answered to the fence; NULL: nothing yet. */
const struct lh_m_fenced *lh_m_roll_answer(
    const struct lh_m_roll *roll, const struct lh_m_server *s);
/* Has it answered that its disk refuses the fence? */
bool lh_m_roll_unfenced(const struct lh_m_roll *roll, const struct lh_m_server *s);
/* For how many logs a roll does not wait in vain: as many as acknowledge an append; those that are
 * gone count no more. */
uint32_t lh_m_logs_needed(const struct lh_master *m, const struct lh_m_chunk *c);
/* Is what the seal covers on as many disks as an append (or is the chunk open)? What is found there
 * counts as stored (APP-5a), so before that nobody is told to settle. */
bool lh_m_backed(const struct lh_master *m, const struct lh_m_chunk *c);
/* How many members have recorded the seal? */
uint32_t lh_m_recorded(const struct lh_m_chunk *c);
/* Are the logs that were reported no evidence for all that was acknowledged, so that the rest has
 * to be waited for, however long (REC-2a, FAIL-3)? */
bool lh_m_roll_unsure(const struct lh_master *m, const struct lh_m_roll *roll);
/* When, with what is known now, the rest is waited for no longer. NEVER: not enough is known. */
struct lh_instant lh_m_roll_patience_end(const struct lh_master *m, const struct lh_m_roll *roll);
/* Decides what will be sealed, if enough is known and nobody is waited for any more; and takes that
 * back if a log that was shown is gone. */
void lh_m_roll_decide(struct lh_master *m, struct lh_m_roll *roll);
/* Somebody waits until the seal of `c` is backed; and: is that still so? */
void lh_m_set_urgent(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_urgent_update(struct lh_master *m, struct lh_m_chunk *c);

/* ---- seal.c */

void lh_m_on_seal(struct lh_master *m, struct lh_m_server *s, const Leasehold__SealReport *report);
void lh_m_on_seal_recorded(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__SealRecorded *report);
/* The store says that the chunk is sealed. */
void lh_m_seal_load(struct lh_master *m, struct lh_m_chunk *c);
/* A commit with the chunk is durable: its members hear of the seal, if it has one. */
void lh_m_seal_durable(struct lh_master *m, struct lh_m_chunk *c);

/* ---- found.c */

/* KEEP-4: takes on the seal that the servers have and the record has not, if nothing speaks against
 * it. True: the chunk is sealed now. */
bool lh_m_seal_found(struct lh_master *m, struct lh_m_chunk *c);

/* ---- failed.c */

void lh_m_on_member_failed(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__MemberFailed *report);
