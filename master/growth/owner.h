/* What new chunks report to those above them, who fill this in. */
#ifndef LH_MASTER_GROWTH_OWNER_H
#define LH_MASTER_GROWTH_OWNER_H

#include "master/tables/tables.h"

struct lh_m_growth_owner {
    /* The file's preallocated chunk has all its replicas, or others than before. */
    void (*changed)(struct lh_master *m, struct lh_m_file *f);
};

#endif
