/* Preallocated chunks: they are created before they are needed.
 *
 * A file that has filled a chunk will fill the next one, too, and its writers stand still from the
 * full chunk's seal until the next one has a primary. Creating replicas (preallocation and a sync
 * at each member) is the longest part of that, so it is done ahead. While the tail takes appends,
 * its file has a preallocated chunk: a chunk id that is durably used up, and empty replicas that
 * have adopted version 1. When the tail is sealed, seal, next chunk and its first grant go into the
 * store in one commit: whoever sees the next chunk sees the seal (SEAL-1). If the replicas are not
 * all there by then, the grant comes later, as with any chunk that is created.
 *
 * In the store a preallocated chunk counts as removed from the beginning: it has a tombstone at
 * version 0, which goes when it becomes a chunk of the file. So a restarted master, which forgets
 * preallocated chunks, has their replicas removed when servers report them; servers do so only if
 * they never held a byte. */
#include "master/growth/growth.h"

#include "master/grants/grants.h"
#include "master/inventory/inventory.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

void lh_m_prealloc_free(struct lh_master *m, struct lh_m_prealloc *prealloc)
{
    lh_m_move_file(m, prealloc->file)->prealloc = NULL;
    lh_timer_unset(&m->timers, &prealloc->timer);
    if (!prealloc->asked)
        TAILQ_REMOVE(&m->new_preallocs, prealloc, link);
    lh_idmap_remove(&m->preallocs, prealloc);
    free(prealloc->members);
    free(prealloc);
}

void lh_m_prealloc_drop(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_prealloc *prealloc = f->active->prealloc;

    if (prealloc == NULL)
        return;
    for (uint32_t i = 0; prealloc->asked && i < prealloc->member_count; i++)
        lh_m_send_remove(m, lh_m_server_of(m, &prealloc->members[i]), prealloc->id, 0);
    lh_m_tombstone_put(m, prealloc->id, 0);
    *lh_idmap_word(&m->tombstones, prealloc->id) = prealloc->pair; /* 0: this commit puts it */
    lh_m_prealloc_free(m, prealloc);
}

static bool rolling(const struct lh_m_file *f)
{
    return f->chunk_count > 0 && lh_m_tail(f)->active->seal->roll != NULL;
}

static void remove_member(struct lh_master *m, struct lh_m_prealloc *prealloc, uint32_t i)
{
    /* What it made goes again, if it hears of it: it never held a byte. */
    if (prealloc->asked)
        lh_m_send_remove(m, lh_m_server_of(m, &prealloc->members[i]), prealloc->id, 0);
    prealloc->members[i] = prealloc->members[--prealloc->member_count];
}

static bool all_created(const struct lh_m_prealloc *prealloc)
{
    for (uint32_t i = 0; i < prealloc->member_count; i++)
        if (!prealloc->members[i].created)
            return false;
    return true;
}

/* `unable` (NULL: whoever has not yet) does not create its replica. A
 * preallocated chunk that a roll waits for goes on without it, or elsewhere. */
static void without(
    struct lh_master *m, struct lh_m_prealloc *prealloc, const struct lh_m_server *unable)
{
    struct lh_m_member excluded[LH_REPLICATION_MAX];
    struct lh_m_file *f = prealloc->file;

    if (!rolling(f)) {
        lh_m_prealloc_drop(m, f);
        return;
    }
    LH_MARK("roll-next-chunk-without-a-member");
    for (uint32_t i = prealloc->member_count; i-- > 0;) {
        struct lh_m_server *s = lh_m_server_of(m, &prealloc->members[i]);
        if (unable == NULL ? prealloc->members[i].created : s != unable)
            continue;
        lh_m_avoid(m, s, lh_duration_add(m->config.create_timeout, m->config.create_timeout));
        remove_member(m, prealloc, i);
    }
    uint32_t count = lh_m_excluded(lh_m_tail(f), excluded);
    if (prealloc->member_count < f->min_replicas)
        lh_m_prealloc_for_roll(m, f, excluded, count);
    else if (all_created(prealloc))
        lh_timer_unset(&m->timers, &prealloc->timer);
    m->growth_owner->changed(m, f);
}

static void not_in_time(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    without(m, LH_OWNER(timer, struct lh_m_prealloc, timer), NULL);
}

/* In this step's commit: an id that is used up, and a tombstone for it. */
static void prealloc_new(
    struct lh_master *m, struct lh_m_file *f, struct lh_m_server *const *chosen, uint32_t count)
{
    struct lh_m_prealloc *prealloc = lh_alloc(sizeof *prealloc);

    prealloc->id = m->next_chunk++;
    prealloc->file = f;
    prealloc->member_count = count;
    prealloc->members = lh_alloc_array(count, sizeof *prealloc->members);
    for (uint32_t i = 0; i < count; i++) {
        prealloc->members[i] = lh_m_member_at(chosen[i]);
        lh_m_reserve(chosen[i], lh_m_likely(m, f));
    }
    lh_m_dirty_master(m);
    lh_m_dirty_tombstone(m, prealloc->id, true);
    prealloc->ticket = m->commit.next_ticket;
    prealloc->timer.fire = not_in_time;
    lh_timer_set(
        &m->timers, &prealloc->timer, lh_instant_add(m->said_at, m->config.create_timeout));
    lh_idmap_add(&m->preallocs, prealloc);
    TAILQ_INSERT_TAIL(&m->new_preallocs, prealloc, link);
    lh_m_move_file(m, f)->prealloc = prealloc;
}

void lh_m_prealloc_want(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_server *chosen[LH_REPLICATION_MAX];

    if (f->active->prealloc != NULL || f->chunk_count < 2 || f->trashed || m->store_fills != NULL)
        return;
    if (lh_m_place(m, f->chunk_size, f->replication, NULL, 0, chosen) < f->replication)
        return;
    prealloc_new(m, f, chosen, f->replication);
}

/* ---- For a file that rolls over (FAIL-2a). */

static bool fit(const struct lh_master *m, const struct lh_m_server *s,
    const struct lh_m_member *excluded, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (lh_m_server_of(m, &excluded[i]) == s)
            return false;
    return lh_m_reachable(m, s) && lh_m_reached(s) && !s->space.failing;
}

uint32_t lh_m_prealloc_fit(const struct lh_master *m, const struct lh_m_file *f,
    const struct lh_m_member *excluded, uint32_t count)
{
    uint32_t left = 0;

    for (uint32_t i = 0; f->active->prealloc != NULL && i < f->active->prealloc->member_count; i++)
        left += fit(m, lh_m_server_of(m, &f->active->prealloc->members[i]), excluded, count);
    return left;
}

void lh_m_prealloc_for_roll(
    struct lh_master *m, struct lh_m_file *f, const struct lh_m_member *excluded, uint32_t count)
{
    struct lh_m_server *chosen[LH_REPLICATION_MAX];
    struct lh_m_prealloc *prealloc = f->active->prealloc;

    if (f->trashed)
        return; /* it does not go on */
    /* A roll that began before the store filled up: the file goes on when there is room. */
    if (lh_m_prealloc_fit(m, f, excluded, count) >= f->min_replicas) {
        LH_MARK("roll-keeps-preallocated");
        for (uint32_t i = prealloc->member_count; i-- > 0;)
            if (!fit(m, lh_m_server_of(m, &prealloc->members[i]), excluded, count))
                remove_member(m, prealloc, i);
        if (all_created(prealloc))
            lh_timer_unset(&m->timers, &prealloc->timer);
        return;
    }
    lh_m_prealloc_drop(m, f);
    if (m->store_fills != NULL)
        return;
    uint32_t found = lh_m_place(m, f->chunk_size, f->replication, excluded, count, chosen);
    if (found < f->min_replicas)
        return;
    LH_MARK("roll-makes-preallocated");
    prealloc_new(m, f, chosen, found);
}

bool lh_m_prealloc_ready(const struct lh_master *m, const struct lh_m_file *f)
{
    for (uint32_t i = 0; i < f->active->prealloc->member_count; i++)
        if (!f->active->prealloc->members[i].created ||
            !lh_m_reachable(m, lh_m_server_of(m, &f->active->prealloc->members[i])))
            return false;
    return true;
}

bool lh_m_prealloc_shrink(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_prealloc *prealloc = f->active->prealloc;
    uint32_t ready = 0;

    for (uint32_t i = 0; i < prealloc->member_count; i++)
        ready += prealloc->members[i].created &&
                 lh_m_reachable(m, lh_m_server_of(m, &prealloc->members[i]));
    if (ready < f->min_replicas)
        return false;
    for (uint32_t i = prealloc->member_count; i-- > 0;)
        if (!prealloc->members[i].created ||
            !lh_m_reachable(m, lh_m_server_of(m, &prealloc->members[i])))
            remove_member(m, prealloc, i);
    return true;
}

/* Only when its id can never be used for another chunk again. */
void lh_m_preallocs_durable(struct lh_master *m)
{
    struct lh_m_prealloc *prealloc;

    while ((prealloc = TAILQ_FIRST(&m->new_preallocs)) != NULL &&
           lh_m_is_durable(m, prealloc->ticket)) {
        TAILQ_REMOVE(&m->new_preallocs, prealloc, link);
        prealloc->asked = true;
        for (uint32_t i = 0; i < prealloc->member_count; i++)
            lh_m_send_create(
                m, prealloc->file, prealloc->id, lh_m_server_of(m, &prealloc->members[i]));
    }
}

bool lh_m_prealloc_created(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report)
{
    struct lh_m_prealloc *prealloc = lh_idmap_find(&m->preallocs, report->chunk);

    if (prealloc == NULL)
        return false;
    if (report->error != LEASEHOLD__ERROR_CODE__OK) {
        without(m, prealloc, s);
        return true;
    }
    struct lh_m_member *member = lh_m_prealloc_member(prealloc, s);
    if (member != NULL) {
        member->created = true;
        member->seen = lh_m_session_of(s);
    } else {
        LH_MARK("preallocated-created-by-former-member");
        lh_m_send_remove(m, s, prealloc->id, 0); /* the first one came before there was anything */
    }
    if (all_created(prealloc)) {
        lh_timer_unset(&m->timers, &prealloc->timer);
        m->growth_owner->changed(m, prealloc->file);
    }
    return true;
}

/* Its replicas are there, or are being made, by servers that can be reached. */
static bool comes_soon(const struct lh_master *m, const struct lh_m_prealloc *prealloc)
{
    for (uint32_t i = 0; i < prealloc->member_count; i++)
        if (!lh_m_reachable(m, lh_m_server_of(m, &prealloc->members[i])) ||
            !lh_m_reached(lh_m_server_of(m, &prealloc->members[i])) ||
            lh_m_missed(lh_m_server_of(m, &prealloc->members[i])))
            return false;
    return true;
}

void lh_m_prealloc_take(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_prealloc *prealloc = f->active->prealloc;

    if (prealloc == NULL)
        return;
    if (!comes_soon(m, prealloc)) {
        LH_MARK("preallocated-not-ready");
        lh_m_prealloc_drop(m, f);
        return;
    }
    LH_MARK("preallocated-taken");
    bool ready = all_created(prealloc);
    struct lh_instant until = prealloc->timer.at;
    struct lh_m_chunk *c = lh_m_chunk_new(m, f, prealloc->id);
    lh_m_dirty_tombstone(m, c->id, false);
    lh_m_members_set(c, prealloc->members, prealloc->member_count);
    lh_m_prealloc_free(m, prealloc);
    lh_m_creation_start(m, c);
    lh_m_dirty_chunk(m, c);
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": a preallocated chunk takes its place at file offset "
        "%" PRIu64,
        c->id, f->path, c->start);
    if (ready) {
        lh_m_grant_free(m, c);
        return;
    }
    LH_MARK("preallocated-taken-while-created");
    lh_timer_set(
        &m->timers, &lh_m_creation(m, c)->timer, until); /* as any other chunk's creation */
}
