/* Spares: chunks that are created before they are needed.
 *
 * A file that has filled a chunk will fill the next one, too, and its writers stand still from the
 * full chunk's seal until the next one has a primary. Creating replicas (preallocation and a sync
 * at each member) is the longest part of that, so it is done ahead: while the tail takes appends,
 * its file has a spare, which is nothing but a chunk id that is durably used up and empty replicas
 * that have adopted version 1. When the tail is sealed, seal, next chunk and its first grant go
 * into the store in one commit: whoever sees the next chunk sees the seal (SEAL-1). If the spare's
 * replicas are not all there by then, the grant comes later, as with any chunk that is created.
 *
 * In the store a spare counts as removed from the beginning: it has a tombstone at version 0, which
 * goes when it becomes a chunk. So a restarted master, which forgets spares, has their replicas
 * removed when servers report them; servers do so only if they never held a byte. */
#include "master/growth/preallocated.h"

#include "master/grants/leases.h"
#include "master/growth/creation.h"
#include "master/growth/owner.h"
#include "master/inventory/commands.h"
#include "master/inventory/placement.h"
#include "master/sessions/reach.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

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

static bool rolling(const struct lh_m_file *f)
{
    return f->chunk_count > 0 && f->chunks[f->chunk_count - 1]->seal.roll != NULL;
}

static void remove_member(struct lh_master *m, struct lh_m_spare *spare, uint32_t i)
{
    /* What it made goes again, if it hears of it: it never held a byte. */
    if (spare->asked)
        lh_m_send_remove(m, spare->members[i].server, spare->id, 0);
    spare->members[i] = spare->members[--spare->member_count];
}

static bool all_created(const struct lh_m_spare *spare)
{
    for (uint32_t i = 0; i < spare->member_count; i++)
        if (!spare->members[i].created)
            return false;
    return true;
}

/* `unable` (NULL: whoever has not yet) does not create its replica. A spare that a roll waits for
 * goes on without it, or elsewhere. */
static void without(struct lh_master *m, struct lh_m_spare *spare, const struct lh_m_server *unable)
{
    struct lh_m_member suspects[LH_REPLICATION_MAX];
    struct lh_m_file *f = spare->file;

    if (!rolling(f)) {
        lh_m_spare_drop(m, f);
        return;
    }
    LH_MARK("roll-next-chunk-without-a-member");
    for (uint32_t i = spare->member_count; i-- > 0;) {
        struct lh_m_server *s = spare->members[i].server;
        if (unable == NULL ? spare->members[i].created : s != unable)
            continue;
        s->avoid_until = lh_instant_add(
            m->now, lh_duration_add(m->config.create_timeout, m->config.create_timeout));
        remove_member(m, spare, i);
    }
    uint32_t count = lh_m_suspects(f->chunks[f->chunk_count - 1], suspects);
    if (spare->member_count < f->min_replicas)
        lh_m_spare_for_roll(m, f, suspects, count);
    else if (all_created(spare))
        lh_m_timer_disarm(m, &spare->timer);
    m->growth_owner->changed(m, f);
}

static void not_in_time(struct lh_master *m, struct lh_m_timer *timer)
{
    without(m, LH_M_OWNER(timer, struct lh_m_spare, timer), NULL);
}

/* In this step's commit: an id that is used up, and a tombstone for it. */
static void spare_new(
    struct lh_master *m, struct lh_m_file *f, struct lh_m_server *const *chosen, uint32_t count)
{
    struct lh_m_spare *spare = lh_alloc(sizeof *spare);

    spare->id = m->next_chunk++;
    spare->file = f;
    spare->member_count = count;
    spare->members = lh_alloc_array(count, sizeof *spare->members);
    for (uint32_t i = 0; i < count; i++) {
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

void lh_m_spare_want(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_server *chosen[LH_REPLICATION_MAX];

    if (f->spare != NULL || f->chunk_count < 2 || f->trashed)
        return;
    if (lh_m_place(m, f->chunk_size, f->replication, NULL, 0, chosen) < f->replication)
        return;
    spare_new(m, f, chosen, f->replication);
}

/* ---- For a file that rolls over (FAIL-2a). */

static bool fit(const struct lh_master *m, const struct lh_m_server *s,
    const struct lh_m_member *suspects, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (suspects[i].server == s)
            return false;
    return lh_m_reachable(m, s) && !s->failing;
}

uint32_t lh_m_spare_fit(const struct lh_master *m, const struct lh_m_file *f,
    const struct lh_m_member *suspects, uint32_t count)
{
    uint32_t left = 0;

    for (uint32_t i = 0; f->spare != NULL && i < f->spare->member_count; i++)
        left += fit(m, f->spare->members[i].server, suspects, count);
    return left;
}

void lh_m_spare_for_roll(
    struct lh_master *m, struct lh_m_file *f, const struct lh_m_member *suspects, uint32_t count)
{
    struct lh_m_server *chosen[LH_REPLICATION_MAX];
    struct lh_m_spare *spare = f->spare;

    if (f->trashed)
        return; /* it does not go on */
    if (lh_m_spare_fit(m, f, suspects, count) >= f->min_replicas) {
        LH_MARK("roll-keeps-spare");
        for (uint32_t i = spare->member_count; i-- > 0;)
            if (!fit(m, spare->members[i].server, suspects, count))
                remove_member(m, spare, i);
        if (all_created(spare))
            lh_m_timer_disarm(m, &spare->timer);
        return;
    }
    lh_m_spare_drop(m, f);
    uint32_t found = lh_m_place(m, f->chunk_size, f->replication, suspects, count, chosen);
    if (found < f->min_replicas)
        return;
    LH_MARK("roll-makes-spare");
    spare_new(m, f, chosen, found);
}

bool lh_m_spare_ready(const struct lh_master *m, const struct lh_m_file *f)
{
    for (uint32_t i = 0; i < f->spare->member_count; i++)
        if (!f->spare->members[i].created || !lh_m_reachable(m, f->spare->members[i].server))
            return false;
    return true;
}

bool lh_m_spare_shrink(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_spare *spare = f->spare;
    uint32_t ready = 0;

    for (uint32_t i = 0; i < spare->member_count; i++)
        ready += spare->members[i].created && lh_m_reachable(m, spare->members[i].server);
    if (ready < f->min_replicas)
        return false;
    for (uint32_t i = spare->member_count; i-- > 0;)
        if (!spare->members[i].created || !lh_m_reachable(m, spare->members[i].server))
            remove_member(m, spare, i);
    return true;
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

    HASH_FIND(hh, m->spares, &report->chunk, sizeof report->chunk, spare);
    if (spare == NULL)
        return false;
    if (report->error != LEASEHOLD__ERROR_CODE__OK) {
        without(m, spare, s);
        return true;
    }
    bool wanted = false;
    for (uint32_t i = 0; i < spare->member_count; i++)
        if (spare->members[i].server == s) {
            spare->members[i].created = true;
            spare->members[i].seen = s->session;
            wanted = true;
        }
    if (!wanted) {
        LH_MARK("spare-created-by-former-member");
        lh_m_send_remove(m, s, spare->id, 0); /* the first one came before there was anything */
    }
    if (all_created(spare)) {
        lh_m_timer_disarm(m, &spare->timer);
        m->growth_owner->changed(m, spare->file);
    }
    return true;
}

/* Its replicas are there, or are being made, by servers that can be reached. */
static bool comes_soon(const struct lh_master *m, const struct lh_m_spare *spare)
{
    for (uint32_t i = 0; i < spare->member_count; i++)
        if (!lh_m_reachable(m, spare->members[i].server) || lh_m_missed(spare->members[i].server))
            return false;
    return true;
}

void lh_m_spare_take(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_spare *spare = f->spare;

    if (spare == NULL)
        return;
    if (!comes_soon(m, spare)) {
        LH_MARK("spare-not-ready");
        lh_m_spare_drop(m, f);
        return;
    }
    LH_MARK("spare-taken");
    bool ready = all_created(spare);
    struct lh_instant until = spare->timer.at;
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
    if (ready) {
        lh_m_grant_free(m, c);
        return;
    }
    LH_MARK("spare-taken-while-created");
    lh_m_timer_arm(m, &c->creation.timer, until); /* as any other chunk's creation */
}
