#ifndef LH_MASTER_INVENTORY_EXTRAS_H
#define LH_MASTER_INVENTORY_EXTRAS_H

#include "master/tables/tables.h"

/* A replica of `c` lies at `s`, which is not a member: reported at, or dropped at, `version`. */
void lh_m_extra_note(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s,
    uint64_t version, bool sealed, bool copying);
/* A chunkserver's session ended or is replaced: its next registration tells anew. */
void lh_m_extras_forget(struct lh_master *m, struct lh_m_server *s);
void lh_m_extras_free(struct lh_master *m, struct lh_m_chunk *c);
/* A live server with room that has a replica of `c`, which a copy can begin with; NULL: none. */
struct lh_m_server *lh_m_extra_fit(struct lh_master *m, const struct lh_m_chunk *c);
/* The one at that server; NULL: none. */
struct lh_m_extra *lh_m_extra_find(const struct lh_m_chunk *c, const struct lh_m_server *s);
void lh_m_extra_forget(struct lh_master *m, struct lh_m_extra *e);
/* There may be something to delete: it is looked at before long. */
void lh_m_garbage_soon(struct lh_master *m);

#endif
