/* The chunk table: what becomes of a chunk's record, its members and its seal. */
#include "master/chunks.h"

#include "master/copies.h"
#include "master/grants/leases.h"
#include "master/growth/creation.h"
#include "master/health.h"
#include "master/inventory/commands.h"
#include "master/inventory/extras.h"
#include "master/repair.h"
#include "master/seal/roll.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

void lh_m_chunk_free(struct lh_master *m, struct lh_m_chunk *c)
{
    lh_m_copies_free(m, c);
    if (c->attended)
        TAILQ_REMOVE(&m->attention, c, attention_link);
    lh_m_extras_free(m, c);
    lh_m_roll_free(m, c);
    HASH_DELETE(hh, m->chunks, c);
    free(c->members);
    free(c);
}

void lh_m_chunk_remove(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->holder != NULL)
        LH_MARK("remove-while-held");
    else
        LH_MARK("remove-while-free");
    lh_m_creation_stop(m, c);
    lh_m_roll_free(m, c);
    lh_m_timer_disarm(m, &c->timer);
    if (c->waiting)
        TAILQ_REMOVE(&m->waiting, c, waiting_link);
    c->waiting = false;
    RB_REMOVE(lh_m_all, &m->all, c);
    if (!c->sealed)
        RB_REMOVE(lh_m_open, &m->open, c);
    /* The engine keeps a lease that runs: nobody else will ever ask for this key. */
    lh_m_set_holder(m, c, NULL);
    c->session = 0;
    lh_m_dirty_chunk(m, c);
    lh_m_health_forget(m, c);
    c->removed = true;

    struct lh_m_tombstone *t = lh_alloc(sizeof *t);
    t->chunk = c->id;
    t->version = c->version;
    HASH_ADD(hh, m->tombstones, chunk, sizeof t->chunk, t);
}

void lh_m_chunk_durable(struct lh_master *m, struct lh_m_chunk *c)
{
    const struct lh_m_extra *e;
    const struct lh_m_copy *copy;

    if (!lh_m_is_durable(m, c->ticket))
        return; /* a newer change is under way; its commit comes here again */
    if (c->removed) {
        for (uint32_t i = 0; i < c->member_count; i++)
            lh_m_send_remove(m, c->members[i].server, c->id, c->version);
        TAILQ_FOREACH(e, &c->extras, link)
        lh_m_send_remove(m, e->server, c->id, c->version);
        TAILQ_FOREACH(copy, &c->copies, chunk_link)
        if (lh_m_member(c, copy->target) == NULL)
            lh_m_send_remove(m, copy->target, c->id, c->version);
        lh_m_chunk_free(m, c);
        return;
    }
    if (c->sealed && !c->seal_told) {
        c->seal_told = true;
        lh_m_record_seal(m, c, NULL);
    }
    if (c->creating)
        lh_m_creation_send(m, c, NULL);
    lh_m_push(m, c);
    lh_m_tell_full(m, c);
    lh_m_roll_durable(m, c);
    lh_m_attend(m, c);
    lh_m_touch(m, c->file);
}
