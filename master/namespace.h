#ifndef LH_MASTER_NAMESPACE_H
#define LH_MASTER_NAMESPACE_H

#include "master/tables/tables.h"

/* Out of memory and store, with its chunks. It may be in the trash. */
void lh_m_file_purge(struct lh_master *m, struct lh_m_file *f);
/* By id if that is not 0, else by path. NULL: `*error` and `text` say why. */
struct lh_m_file *lh_m_file_named(const struct lh_master *m, uint64_t id, const char *path,
    int *error, char *text, size_t text_size);
void lh_m_file_info(const struct lh_m_file *f, Leasehold__FileInfo *info);
void lh_m_create(struct lh_master *m, uint64_t link, const Leasehold__CreateRequest *request);
void lh_m_stat(struct lh_master *m, uint64_t link, const Leasehold__StatRequest *request);
void lh_m_rename(struct lh_master *m, uint64_t link, const Leasehold__RenameRequest *request);

#endif
