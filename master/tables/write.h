/* Emits the step's commit. */
#pragma once

#include "master/tables/tables.h"

/* Emits the step's commit if anything was marked. */
void lh_m_flush(struct lh_master *m);
/* A commit with the pairs that are to be written again, as memory has them. Before anything is
 * marked. */
void lh_m_flush_again(struct lh_master *m);
/* Puts everything that is durable into an effect PERSIST of its own, with ticket 0. */
void lh_m_write_all(struct lh_master *m);
