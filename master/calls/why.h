#ifndef LH_MASTER_CALLS_WHY_H
#define LH_MASTER_CALLS_WHY_H

#include "master/tables/tables.h"

/* What the caller sent was sealed by a log that is on too few disks. */
void lh_m_say_unbacked(
    const struct lh_master *m, const struct lh_m_chunk *c, char *text, size_t text_size);
/* Why there is no primary now. `text` is where a sentence may be written. */
int lh_m_why_not(
    const struct lh_master *m, const struct lh_m_file *f, char *text, size_t text_size);

#endif
