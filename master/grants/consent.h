#ifndef LH_MASTER_GRANTS_CONSENT_H
#define LH_MASTER_GRANTS_CONSENT_H

#include "master/tables/tables.h"

/* A client has said once more that it cannot reach the primary of the chunk's newest version. */
void lh_m_consent_client(struct lh_master *m, struct lh_m_chunk *c);
/* The primary, for which appends wait, has said once more that it cannot go on without these. True:
 * it is being asked to let another one. */
bool lh_m_consent_primary(
    struct lh_master *m, struct lh_m_chunk *c, char *const *ids, size_t count);

#endif
