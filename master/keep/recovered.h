#ifndef LH_MASTER_KEEP_RECOVERED_H
#define LH_MASTER_KEEP_RECOVERED_H

#include "master/tables/tables.h"

/* REC-4: the primary has made all members equal at this version. */
void lh_m_on_recovered(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Recovered *report);
/* The primary hears of members that became full, once that is durable. */
void lh_m_tell_full(struct lh_master *m, struct lh_m_chunk *c);

#endif
