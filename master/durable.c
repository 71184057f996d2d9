/* A commit is durable: what follows from it is decided again from the records as they are now. */
#include "master/durable.h"

#include "master/grants/grants.h"
#include "master/growth/growth.h"
#include "master/inventory/inventory.h"
#include "master/keep/keep.h"
#include "master/programs/programs.h"
#include "master/seal/seal.h"
#include "master/sessions/sessions.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/promised.h"
#include "master/tables/replies.h"
#include "master/tables/tables.h"
#include "master/values/values.h"

void lh_m_chunk_durable(struct lh_master *m, struct lh_m_chunk *c)
{
    const struct lh_m_extra *e;
    const struct lh_m_copy *copy;

    if (!lh_m_is_durable(m, c->active->ticket))
        return; /* a newer change is under way; its commit comes here again */
    if (c->removed) {
        for (uint32_t i = 0; i < c->member_count; i++)
            lh_m_send_remove(m, lh_m_server_of(m, &c->members[i]), c->id, c->version);
        TAILQ_FOREACH(e, &c->active->extras, link)
            lh_m_send_remove(m, e->server, c->id, c->version);
        TAILQ_FOREACH(copy, &c->active->repair.copies, chunk_link)
            if (lh_m_member(c, copy->target) == NULL)
                lh_m_send_remove(m, copy->target, c->id, c->version);
        lh_m_chunk_free(m, c);
        return;
    }
    lh_m_seal_durable(m, c);
    if (c->active->creation->under_way)
        lh_m_creation_send(m, c, NULL);
    lh_m_push(m, c);
    lh_m_notify_full(m, c);
    lh_m_roll_durable(m, c);
    lh_m_enqueue(m, c);
    lh_m_touch(m, c->file);
}

void lh_m_on_persisted(struct lh_master *m, uint64_t ticket, int error)
{
    struct lh_m_commit *commit = TAILQ_FIRST(&m->commit.under_way);

    if (commit == NULL || commit->ticket != ticket)
        return;
    if (error == LH_ERR_SHORTAGE && LH_PLANTED("shortage-taken-for-commit"))
        error = LH_OK;
    if (error == LH_ERR_SHORTAGE) {
        LH_MARK("commit-without-room");
        m->starved = true;
        lh_m_replies_starved(m);
        return;
    }
    if (error != LH_OK) {
        /* Memory is ahead of the store for good: say nothing any more. */
        lh_fx_log(m->fx, LH_ERROR,
            "the metadata store could not commit (%s); the master stops: make room or repair the "
            "disk, then start it again",
            lh_error_text(error));
        m->stopped = true;
        lh_fx_stopped(m->fx, error);
        return;
    }
    TAILQ_REMOVE(&m->commit.under_way, commit, link);
    m->commit.durable = ticket;
    m->starved = false;
    m->counts.commits++;
    lh_m_promises_durable(m);
    lh_m_replies_durable(m);
    lh_m_preallocs_durable(m);
    lh_m_garbage_durable(m);
    for (size_t i = 0; i < commit->server_count; i++)
        if (lh_m_is_durable(m, commit->servers[i]->ticket))
            lh_m_session_announce(m, &commit->servers[i]->session);
    for (size_t i = 0; i < commit->chunk_count; i++) {
        struct lh_m_chunk *c = lh_idmap_find(&m->chunks, commit->chunks[i]);
        if (c != NULL)
            lh_m_chunk_durable(m, c);
    }
    lh_m_programs_durable(m, commit);
    if (m->values_owner != NULL)
        m->values_owner->durable(m);
    free(commit->chunks);
    free(commit->servers);
    free(commit->programs);
    free(commit);
}
