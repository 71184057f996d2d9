/* The end of a chunk: out of all tables and queues. */
#include "master/keep/keep.h"

#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/seal/seal.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

void lh_m_chunk_free(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_copies_free(m, c);
    lh_m_extras_free(m, c);
    lh_m_roll_free(m, c);
    lh_m_active_free(m, c);
    lh_m_pair_drop(m, lh_idmap_word(&m->chunks, c->id));
    lh_idmap_remove(&m->chunks, c);
    lh_m_members_set(c, NULL, 0);
    free(c);
}

/* Out of everything that acts on it. */
static void leave(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_creation_stop(m, c);
    lh_m_roll_free(m, c);
    if (lh_timer_is_set(&c->active->doubts->timer))
        lh_timer_unset(&m->timers, &lh_m_doubts(m, c)->timer);
    if (!c->sealed)
        lh_idmap_remove(&m->open, c);
    lh_m_grant_forget(m, c);
    lh_m_sweep_forget(m, c);
}

void lh_m_chunk_unload(struct lh_master *m, struct lh_m_chunk *c)
{
    LH_ASSERT(!m->started);
    leave(m, c);
    lh_m_chunk_free(m, c);
}

void lh_m_chunk_remove(struct lh_master *m, struct lh_m_chunk *c)
{
    if (lh_m_holder(c) != NULL)
        LH_MARK("remove-while-held");
    else
        LH_MARK("remove-while-free");
    leave(m, c);
    lh_m_dirty_chunk(m, c);
    c->removed = true;

    lh_m_tombstone_put(m, c->id, c->version);
}
