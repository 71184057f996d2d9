#ifndef LH_MASTER_REPAIR_H
#define LH_MASTER_REPAIR_H

#include "master/tables/tables.h"

/* The server has copied the whole sealed chunk: a good member from now on. */
void lh_m_complete(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s);
/* Does what can be done for `c` without a copy, and says whether copies or a grant are wanting.
 * `patrol`: nothing special was heard of it. */
void lh_m_repair_look(struct lh_master *m, struct lh_m_chunk *c, bool patrol);
void lh_m_repair_start(struct lh_master *m);
/* The lease is over: whoever wants it for appends comes before repair. */
void lh_m_repair_pause(struct lh_master *m, struct lh_m_chunk *c);
/* Begins a round over all that are wanting. */
void lh_m_repair_round(struct lh_master *m);
void lh_m_repair_step(struct lh_master *m);
void lh_m_repair_forget(struct lh_master *m, struct lh_m_chunk *c);
/* REC-4: the primary has made all members equal at this version. */
void lh_m_on_recovered(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Recovered *report);
/* The primary hears of members that became full, once that is durable. */
void lh_m_tell_full(struct lh_master *m, struct lh_m_chunk *c);

#endif
