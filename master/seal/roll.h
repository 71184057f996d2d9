#ifndef LH_MASTER_SEAL_ROLL_H
#define LH_MASTER_SEAL_ROLL_H

#include "master/tables/tables.h"

/* Does the file roll over when the primary of its tail is lost? */
bool lh_m_rolls(const struct lh_master *m, const struct lh_m_file *f);
/* Somebody waits for the file's tail: rolls it over if its primary is lost, or asks whether it
 * is. */
void lh_m_roll_consider(struct lh_master *m, struct lh_m_file *f);
/* The tail's primary, which lives, reports that appends wait and too few of its members answer:
 * rolls the file over. True: it does. */
bool lh_m_roll_short(struct lh_master *m, struct lh_m_chunk *c);
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

#endif
