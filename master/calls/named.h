#ifndef LH_MASTER_CALLS_NAMED_H
#define LH_MASTER_CALLS_NAMED_H

#include "master/tables/tables.h"

/* By id if that is not 0, else by path. NULL: `*error` and `text` say why. */
struct lh_m_file *lh_m_file_named(const struct lh_master *m, uint64_t id, const char *path,
    int *error, char *text, size_t text_size);
void lh_m_file_info(const struct lh_m_file *f, Leasehold__FileInfo *info);
/* How long a trashed file can still be restored. */
struct lh_duration lh_m_trash_left(const struct lh_master *m, const struct lh_m_file *f);
/* As lh_m_file_info(), with the time that is left. */
void lh_m_trash_info(
    const struct lh_master *m, const struct lh_m_file *f, Leasehold__FileInfo *info);

#endif
