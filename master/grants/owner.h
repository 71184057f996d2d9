/* What leases report to those above them, who fill this in. */
#ifndef LH_MASTER_GRANTS_OWNER_H
#define LH_MASTER_GRANTS_OWNER_H

#include "master/tables/tables.h"

struct lh_m_grant_owner {
    /* Its holder has confirmed the newest version: the chunk has a primary. */
    void (*confirmed)(struct lh_master *m, struct lh_m_chunk *c);
    /* The lease is over; `s` was its holder. */
    void (*over)(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s);
    /* Its term was over, so nobody has been using the chunk. */
    void (*ran_out)(struct lh_master *m, struct lh_m_chunk *c);
};

#endif
