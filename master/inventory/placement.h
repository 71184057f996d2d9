#ifndef LH_MASTER_INVENTORY_PLACEMENT_H
#define LH_MASTER_INVENTORY_PLACEMENT_H

#include "master/tables/tables.h"

/* Counts on room at a server until it next tells how much it has. */
void lh_m_reserve(struct lh_m_server *s, uint64_t bytes);
/* Chooses up to `wanted` servers for a replica of `bytes`, none of the `exclude`d; how many it
 * found. */
uint32_t lh_m_place(struct lh_master *m, uint64_t bytes, uint32_t wanted,
    const struct lh_m_member *exclude, uint32_t exclude_count, struct lh_m_server **chosen);
/* A server for one more copy of `bytes`; NULL: none. */
struct lh_m_server *lh_m_place_copy(
    struct lh_master *m, uint64_t bytes, const struct lh_m_member *exclude, uint32_t exclude_count);
/* Has the server given no sign of life since others last missed it? No new chunk is put there: who
 * waits for the chunk would wait for the server. */
bool lh_m_missed(const struct lh_m_server *s);
/* Could the server take a replica of `bytes` now? */
bool lh_m_fits(const struct lh_master *m, const struct lh_m_server *s, uint64_t bytes);
/* Are both in one failure domain? A server that names none is one of its own. */
bool lh_m_same_domain(const struct lh_m_server *a, const struct lh_m_server *b);
/* The server cannot take a replica: nothing is put there for so long. */
void lh_m_avoid(struct lh_master *m, struct lh_m_server *s, struct lh_duration pause);
/* Others miss the server now (lh_m_missed()). */
void lh_m_note_missed(struct lh_master *m, struct lh_m_server *s);

#endif
