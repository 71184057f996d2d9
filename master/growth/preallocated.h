#ifndef LH_MASTER_GROWTH_PREALLOCATED_H
#define LH_MASTER_GROWTH_PREALLOCATED_H

#include "master/tables/tables.h"

/* The file's tail takes appends: sees to it that the next chunk is preallocated, if the file is of
 * the growing kind. */
void lh_m_prealloc_want(struct lh_master *m, struct lh_m_file *f);
void lh_m_preallocs_durable(struct lh_master *m);
/* True: the report was about a preallocated chunk. */
bool lh_m_prealloc_created(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report);
/* The file's tail was sealed in this step: the preallocated chunk becomes its next one in the
 * seal's own commit, and is granted in it if all its replicas are there. */
void lh_m_prealloc_take(struct lh_master *m, struct lh_m_file *f);
void lh_m_prealloc_free(struct lh_master *m, struct lh_m_prealloc *prealloc);
/* How many members of the file's preallocated chunk could be used; the `count` excluded servers do
 * not count. */
uint32_t lh_m_prealloc_fit(const struct lh_master *m, const struct lh_m_file *f,
    const struct lh_m_member *excluded, uint32_t count);
/* Sees to it that the file has a preallocated chunk without the excluded servers, in this step's
 * commit. Too few servers for that: it has none afterwards. */
void lh_m_prealloc_for_roll(
    struct lh_master *m, struct lh_m_file *f, const struct lh_m_member *excluded, uint32_t count);
/* Every member has created its replica and can be granted the lease. */
bool lh_m_prealloc_ready(const struct lh_master *m, const struct lh_m_file *f);
/* Drops the members that are not ready, if the others are enough; false: they are not. */
bool lh_m_prealloc_shrink(struct lh_master *m, struct lh_m_file *f);
/* The file is idle or gone: gives the room back. */
void lh_m_prealloc_drop(struct lh_master *m, struct lh_m_file *f);

#endif
