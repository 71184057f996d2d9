#ifndef LH_MASTER_TRASH_H
#define LH_MASTER_TRASH_H

#include "master/tables/tables.h"

void lh_m_remove(struct lh_master *m, uint64_t link, const Leasehold__RemoveRequest *request);
void lh_m_restore(struct lh_master *m, uint64_t link, const Leasehold__RestoreRequest *request);
/* How long a trashed file can still be restored. */
struct lh_duration lh_m_trash_left(const struct lh_master *m, const struct lh_m_file *f);
/* As lh_m_file_info(), with the time that is left. */
void lh_m_trash_info(
    const struct lh_master *m, const struct lh_m_file *f, Leasehold__FileInfo *info);
/* The clocks of what was loaded begin, or go on once deletion was resumed. */
void lh_m_trash_start(struct lh_master *m);

#endif
