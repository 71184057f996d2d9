#ifndef LH_MASTER_GRANTS_REFUSALS_H
#define LH_MASTER_GRANTS_REFUSALS_H

#include "master/tables/tables.h"

/* The server does not act, or not any more, on what it was granted just now. It is asked again
 * after `pause` at the earliest. */
void lh_m_refused(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, struct lh_duration pause);
/* And has adopted this version, by its own word. The chunk's lease is over. */
void lh_m_refused_version(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, uint64_t adopted);
void lh_m_accepted(struct lh_master *m, struct lh_m_chunk *c);
/* Is it offered to nobody for now, because everybody has refused? */
bool lh_m_rests(const struct lh_master *m, const struct lh_m_chunk *c);
/* A primary has recovered: who refuses after that begins a new row of refusals. */
void lh_m_refusals_end(struct lh_master *m, struct lh_m_chunk *c);

#endif
