#ifndef LH_MASTER_GROWTH_PREALLOCATED_H
#define LH_MASTER_GROWTH_PREALLOCATED_H

#include "master/tables/tables.h"

/* The file's tail takes appends: sees to it that it has a spare, if it is of the growing kind. */
void lh_m_spare_want(struct lh_master *m, struct lh_m_file *f);
void lh_m_spares_durable(struct lh_master *m);
/* True: the report was about a spare. */
bool lh_m_spare_created(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report);
/* The file's tail was sealed in this step: the spare becomes the next chunk in the seal's own
 * commit, and is granted in it if all its replicas are there. */
void lh_m_spare_take(struct lh_master *m, struct lh_m_file *f);
void lh_m_spare_free(struct lh_master *m, struct lh_m_spare *spare);
/* How many members of the file's spare could be used, none of the `count` suspects counted. */
uint32_t lh_m_spare_fit(const struct lh_master *m, const struct lh_m_file *f,
    const struct lh_m_member *suspects, uint32_t count);
/* Sees to it that the file has a spare without the suspects, in this step's commit. Too few servers
 * for that: it has none afterwards. */
void lh_m_spare_for_roll(
    struct lh_master *m, struct lh_m_file *f, const struct lh_m_member *suspects, uint32_t count);
/* Every member has created its replica and can be granted the lease. */
bool lh_m_spare_ready(const struct lh_master *m, const struct lh_m_file *f);
/* Leaves only members out of the spare that are ready, if they are enough; false: they are not. */
bool lh_m_spare_shrink(struct lh_master *m, struct lh_m_file *f);
/* The file is idle or gone: gives the room back. */
void lh_m_spare_drop(struct lh_master *m, struct lh_m_file *f);

#endif
