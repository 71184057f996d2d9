#ifndef LH_MASTER_KEEP_COPIES_H
#define LH_MASTER_KEEP_COPIES_H

#include "master/tables/tables.h"

/* Copies to `target` if a source has room for that. */
bool lh_m_copy_begin(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *target);
/* It is forgotten here; `cancel`: and what is at the target becomes an extra, as not needed. */
void lh_m_copy_end(struct lh_master *m, struct lh_m_copy *copy);
void lh_m_copy_cancel(struct lh_master *m, struct lh_m_copy *copy);
/* The chunk is sealed: copies that were to join go on as copies of the whole of it. */
void lh_m_copies_finish(struct lh_master *m, struct lh_m_chunk *c);
/* Ends the copies to that server: its session is over. */
void lh_m_copies_end(struct lh_master *m, struct lh_m_server *target);
void lh_m_copies_free(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_on_copied(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCopied *report);
void lh_m_on_progress(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat);
void lh_m_repair_info(const struct lh_master *m, Leasehold__RepairInfo *info);

#endif
