#ifndef LH_MASTER_CALLS_TRASH_H
#define LH_MASTER_CALLS_TRASH_H

#include "master/tables/tables.h"

void lh_m_remove(struct lh_master *m, uint64_t link, const Leasehold__RemoveRequest *request);
void lh_m_restore(struct lh_master *m, uint64_t link, const Leasehold__RestoreRequest *request);
/* The clocks of what was loaded begin, or go on once deletion was resumed. */
void lh_m_trash_start(struct lh_master *m);

#endif
