#ifndef LH_MASTER_GROWTH_CREATION_H
#define LH_MASTER_GROWTH_CREATION_H

#include "master/tables/tables.h"

/* Allocates the file's next chunk. On failure nothing changed; the waiters' deadline says why. */
int lh_m_create_chunk(struct lh_master *m, struct lh_m_file *f);
void lh_m_creation_start(struct lh_master *m, struct lh_m_chunk *c);
bool lh_m_creation_done(const struct lh_m_chunk *c);
/* CreateReplica to the members that have not confirmed; to `only` if not NULL. */
void lh_m_creation_send(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *only);
/* Member `i` did not create its replica. Another server takes its place, or nobody if enough are
 * left; else it stays and has another chance. True: the members changed. */
bool lh_m_creation_replace(
    struct lh_master *m, struct lh_m_chunk *c, uint32_t i, const char *why);

#endif
