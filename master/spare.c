/* Spares: chunks that are created before they are needed.
 *
 * A file that has filled a chunk will fill the next one, too, and its writers stand still from the
 * full chunk's seal until the next one has a primary. Creating replicas (preallocation and a sync
 * at each member) is the longest part of that, so it is done ahead: while the tail takes appends,
 * its file has a spare, which is nothing but a chunk id that is durably used up and empty replicas
 * that have adopted version 1. When the tail is sealed, seal, next chunk and its first grant go
 * into the store in one commit: whoever sees the next chunk sees the seal (SEAL-1).
 *
 * In the store a spare counts as removed from the beginning: it has a tombstone at version 0, which
 * goes when it becomes a chunk. So a restarted master, which forgets spares, has their replicas
 * removed when servers report them; servers do so only if they never held a byte. */
#include "master/state.h"

#include <inttypes.h>

void lh_m_spare_free(struct lh_master *m, struct lh_m_spare *spare)
{
    spare->file->spare = NULL;
    lh_m_timer_disarm(m, &spare->timer);
    if (!spare->asked)
        TAILQ_REMOVE(&m->new_spares, spare, link);
    HASH_DELETE(hh, m->spares, spare);
    free(spare->members);
    free(spare);
}

void lh_m_spare_drop(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_spare *spare = f->spare;

    if (spare == NULL)
        return;
    for (uint32_t i = 0; spare->asked && i < spare->member_count; i++)
        lh_m_send_remove(m, spare->members[i].server, spare->id, 0);
    struct lh_m_tombstone *t = lh_alloc(sizeof *t);
    t->chunk = spare->id;
    t->version = 0;
    HASH_ADD(hh, m->tombstones, chunk, sizeof t->chunk, t);
    lh_m_spare_free(m, spare);
}

static void not_in_time(struct lh_master *m, struct lh_m_timer *timer)
{
    struct lh_m_spare *spare = LH_M_OWNER(timer, struct lh_m_spare, timer);

    lh_m_spare_drop(m, spare->file);
}

void lh_m_spare_want(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_server *chosen[LH_REPLICATION_MAX];

    if (f->spare != NULL || f->chunk_count < 2)
        return;
    if (lh_m_place(m, f->chunk_size, f->replication, NULL, 0, chosen) < f->replication)
        return;
    struct lh_m_spare *spare = lh_alloc(sizeof *spare);
    spare->id = m->next_chunk++;
    spare->file = f;
    spare->member_count = f->replication;
    spare->members = lh_alloc_array(f->replication, sizeof *spare->members);
    for (uint32_t i = 0; i < f->replication; i++) {
        spare->members[i].server = chosen[i];
        lh_m_reserve(chosen[i], f->chunk_size);
    }
    lh_m_dirty_master(m);
    lh_m_dirty_tombstone(m, spare->id, true);
    spare->ticket = m->next_ticket;
    spare->timer.fire = not_in_time;
    lh_m_timer_arm(m, &spare->timer, lh_instant_add(m->now, m->config.create_timeout));
    HASH_ADD(hh, m->spares, id, sizeof spare->id, spare);
    TAILQ_INSERT_TAIL(&m->new_spares, spare, link);
    f->spare = spare;
}

/* Only when its id can never be used for another chunk again. */
void lh_m_spares_durable(struct lh_master *m)
{
    struct lh_m_spare *spare;

    while ((spare = TAILQ_FIRST(&m->new_spares)) != NULL && lh_m_is_durable(m, spare->ticket)) {
        TAILQ_REMOVE(&m->new_spares, spare, link);
        spare->asked = true;
        for (uint32_t i = 0; i < spare->member_count; i++)
            lh_m_send_create(
                m, spare->file, spare->id, LH_M_SPARE_VERSION, spare->members[i].server);
    }
}

bool lh_m_spare_created(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report)
{
    struct lh_m_spare *spare;
    bool all = true;

    HASH_FIND(hh, m->spares, &report->chunk, sizeof report->chunk, spare);
    if (spare == NULL)
        return false;
    if (report->error != LEASEHOLD__ERROR_CODE__OK) {
        lh_m_spare_drop(m, spare->file);
        return true;
    }
    for (uint32_t i = 0; i < spare->member_count; i++) {
        if (spare->members[i].server == s)
            spare->members[i].created = true;
        all = all && spare->members[i].created;
    }
    if (all)
        lh_m_timer_disarm(m, &spare->timer);
    return true;
}

bool lh_m_spare_known(const struct lh_master *m, uint64_t chunk)
{
    struct lh_m_spare *spare;

    HASH_FIND(hh, m->spares, &chunk, sizeof chunk, spare);
    return spare != NULL;
}

void lh_m_spare_take(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_spare *spare = f->spare;

    if (spare == NULL)
        return;
    for (uint32_t i = 0; i < spare->member_count; i++)
        if (!spare->members[i].created || !lh_m_reachable(m, spare->members[i].server)) {
            LH_MARK("spare-not-ready");
            lh_m_spare_drop(m, f);
            return;
        }
    LH_MARK("spare-taken");
    struct lh_m_chunk *c = lh_m_chunk_new(m, f, spare->id);
    lh_m_dirty_tombstone(m, c->id, false);
    c->members = spare->members;
    c->member_count = spare->member_count;
    spare->members = NULL;
    lh_m_spare_free(m, spare);
    lh_m_creation_start(m, c);
    lh_m_dirty_chunk(m, c);
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": a spare takes its place at file offset "
        "%" PRIu64,
        c->id, f->path, c->start);
    lh_m_grant_free(m, c);
}
