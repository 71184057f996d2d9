#ifndef LH_MASTER_KEEP_MOVES_H
#define LH_MASTER_KEEP_MOVES_H

#include "master/tables/tables.h"

/* The move of the chunk's replica from there; NULL: there is none. */
const struct lh_m_move *lh_m_move_of(
    const struct lh_master *m, uint64_t chunk, const struct lh_m_server *from);
/* Of moves that ended: their places are free again. */
void lh_m_moves_settle(struct lh_master *m);
/* Per mille of the capacity that are in use. */
unsigned lh_m_used(const struct lh_m_server *s);
/* A chunk that is as it should be: may one of its replicas lie better elsewhere? */
void lh_m_move_look(struct lh_master *m, struct lh_m_chunk *c);

#endif
