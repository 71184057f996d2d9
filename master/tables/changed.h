/* Marks what changed; core shows it to those concerned at the end of the step. */
#pragma once

#include "master/tables/tables.h"

/* The chunk is looked at in this step or soon: something of it changed that repair may act on. */
void lh_m_enqueue(struct lh_master *m, struct lh_m_chunk *c);
/* The chunk that has waited longest for that; NULL: none waits. And: it waits no longer. */
struct lh_m_chunk *lh_m_dequeue(struct lh_master *m);
void lh_m_enqueued_forget(struct lh_master *m, struct lh_m_chunk *c);
/* All chunks are: something changed that concerns many. */
void lh_m_sweep(struct lh_master *m);
void lh_m_touch(struct lh_master *m, struct lh_m_file *f);
void lh_m_touch_waited(struct lh_master *m);
