/* What the files of this folder know of each other. */
#pragma once

#include "master/programs/programs.h"

/* ---- attach.c */

void lh_m_on_attach(struct lh_master *m, struct lh_m_link *l, const Leasehold__Attach *attach);
/* Says that the session is over, and ends the stream. */
void lh_m_refuse_unknown(struct lh_master *m, struct lh_m_link *l);
/* Ends the stream, and forgets it. The session goes on. */
void lh_m_end_stream(struct lh_master *m, struct lh_m_link *l, int error, const char *text);

/* ---- showing.c */

void lh_m_on_show(struct lh_master *m, struct lh_m_link *l, const Leasehold__Show *show);
void lh_m_showing_free(void *pieces);

/* ---- programs.c */

/* It is back, or over: what it may have cached of files is known (VAL-7). */
void lh_m_program_heard(struct lh_master *m, struct lh_m_program *p);
/* The last session on record may be back or over. */
void lh_m_programs_look(struct lh_master *m);
