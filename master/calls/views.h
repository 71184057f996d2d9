#ifndef LH_MASTER_CALLS_VIEWS_H
#define LH_MASTER_CALLS_VIEWS_H

#include "master/tables/tables.h"

/* A chunk as readers see it. Owns its arrays. */
struct lh_m_chunk_view {
    Leasehold__ChunkInfo info;
    Leasehold__Member members[LH_REPLICATION_MAX];
    Leasehold__Member *pointers[LH_REPLICATION_MAX];
};

void lh_m_chunk_view(
    const struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_chunk_view *view);
void lh_m_server_view(
    const struct lh_master *m, const struct lh_m_server *s, Leasehold__ServerInfo *info);
/* FREE, GRANTING, ...: as ListLeases has it. */
const char *lh_m_lease_state(const struct lh_master *m, const struct lh_m_chunk *c);

#endif
