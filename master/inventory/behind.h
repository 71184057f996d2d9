#ifndef LH_MASTER_INVENTORY_BEHIND_H
#define LH_MASTER_INVENTORY_BEHIND_H

#include "master/tables/tables.h"

/* May anything be deleted now? Not while the store looks like an older copy (KEEP-4). */
bool lh_m_deleting(const struct lh_master *m);
/* The operator says that the store was restored from a backup: raises what may be in use. */
void lh_m_restored(struct lh_master *m);
/* KEEP-4: the store is older than what a server has; the first sentence is kept. */
__attribute__((format(printf, 2, 3))) void lh_m_set_behind(
    struct lh_master *m, const char *format, ...);
/* Looks for signs of that in a report; `c` is NULL if there is no such chunk. True: it is one. */
bool lh_m_report_evidence(struct lh_master *m, struct lh_m_server *s, struct lh_m_chunk *c,
    const struct lh_m_report *r);

#endif
