#ifndef LH_MASTER_CALLS_NAMESPACE_H
#define LH_MASTER_CALLS_NAMESPACE_H

#include "master/tables/tables.h"

/* Out of memory and store, with its chunks. It may be in the trash. */
void lh_m_file_purge(struct lh_master *m, struct lh_m_file *f);
void lh_m_create(struct lh_master *m, uint64_t link, const Leasehold__CreateRequest *request);
void lh_m_stat(struct lh_master *m, uint64_t link, const Leasehold__StatRequest *request);
void lh_m_rename(struct lh_master *m, uint64_t link, const Leasehold__RenameRequest *request);

#endif
