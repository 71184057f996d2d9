/* Replicas that nobody needs, and when they are deleted (KEEP-3, KEEP-4).
 *
 * An *extra* (inventory/extras.c) may be the last copy of something, or what a repair can begin
 * with, so it goes only when the chunk is in perfect health without it. While nothing is deleted
 * (inventory/behind.c), removals are kept. */
#include "master/keep/internal.h"
#include "master/keep/keep.h"

#include "master/inventory/inventory.h"
#include "master/tables/behind.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static void garbage_timer(void *core, struct lh_timer *timer);

void lh_m_garbage_init(struct lh_master *m)
{
    TAILQ_INIT(&m->garbage.extras);
    m->garbage.timer.fire = garbage_timer;
}

/* ---- Extras. */

static void look_at_extra(struct lh_master *m, struct lh_m_extra *e)
{
    struct lh_m_chunk *c = e->chunk;

    if (lh_m_member(c, e->server) != NULL && !LH_PLANTED("garbage-deletes-newest")) {
        LH_MARK("extra-is-member-again");
        lh_m_extra_forget(m, e);
        return;
    }
    if (e->asked)
        return;
    if (!lh_m_extra_goes(m, e)) {
        LH_MARK("extra-kept");
        return;
    }
    LH_MARK("extra-deleted");
    /* A half-made copy has no version yet; 0 would spare it for the bytes that it has. */
    uint64_t version = e->version == 0 ? 1 : e->version < c->version ? e->version : c->version;
    if (LH_PLANTED("garbage-deletes-newest"))
        version = c->version;
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": %u good replicas; the one at %s (version %" PRIu64
        ") is of no use and goes",
        c->id, c->file->path, c->member_count, e->server->id, version);
    e->asked = e->going = true;
    lh_m_send_remove(m, e->server, c->id, version);
}

/* It was to be a member of a chunk that is preallocated, and is none any more. */
static bool is_left_out(const struct lh_master *m, const struct lh_m_server *s, uint64_t chunk)
{
    struct lh_m_prealloc *prealloc = lh_idmap_find(&m->preallocs, chunk);

    return prealloc != NULL && lh_m_prealloc_member(prealloc, s) == NULL &&
           !LH_PLANTED("left-out-replica-forgotten");
}

/* A replica that was made while the chunk was preallocated, at no member. */
static void note_unused(struct lh_master *m, struct lh_m_server *s, struct lh_m_chunk *c)
{
    if (lh_m_member(c, s) == NULL && lh_m_extra_find(c, s) == NULL)
        lh_m_extra_note(m, c, s, LH_M_FIRST_VERSION, false, false);
}

/* What is at its server, or its disk, passes; the replica would be there until it registers. */
static void ask_again(
    struct lh_master *m, struct lh_m_server *s, struct lh_m_extra *e, uint64_t chunk)
{
    const struct lh_m_tombstone *t = lh_m_tombstone_find(m, chunk);
    struct lh_m_chunk *c = lh_m_chunk_find(m, chunk);

    if (e != NULL)
        e->asked = false;
    else if (c != NULL)
        note_unused(m, s, c);
    else if (t != NULL || is_left_out(m, s, chunk))
        lh_m_keep_order(m, s, chunk, t != NULL ? t->version : LH_M_FIRST_VERSION);
    if (!lh_timer_is_set(&m->garbage.timer))
        lh_timer_set(
            &m->timers, &m->garbage.timer, lh_instant_add(m->now, m->config.garbage_again));
}

void lh_m_on_removed(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaRemoved *report)
{
    struct lh_m_chunk *c = lh_m_chunk_find(m, report->chunk);
    struct lh_m_extra *e = c == NULL ? NULL : lh_m_extra_find(c, s);

    m->counts.replicas_deleted += report->error == LEASEHOLD__ERROR_CODE__OK;
    if (e != NULL && e->going) {
        e->going = false;
        lh_m_enqueue(m, c); /* a copy may go there again */
    }
    if (report->error != LEASEHOLD__ERROR_CODE__OK) {
        LH_MARK("removal-refused");
        if (report->error != LEASEHOLD__ERROR_CODE__STALE_VERSION)
            ask_again(m, s, e, report->chunk);
        lh_fx_log(m->fx, LH_WARN, "chunk %" PRIu64 ": %s keeps its replica: %s", report->chunk,
            s->id, lh_error_text(lh_error_from_wire((unsigned)report->error)));
        return;
    }
    m->garbage.deleted++;
    if (e != NULL && e->asked)
        lh_m_extra_forget(m, e);
}

/* ---- An older copy of the metadata (KEEP-4). */

/* What was kept may go, all of it, once that is durable: what the operator looked at includes
 * replicas that this metadata knows nothing of. */
static void bury_kept(struct lh_master *m)
{
    struct lh_m_server *s;
    struct lh_m_kept *k;

    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        TAILQ_FOREACH(k, &s->kept, link) {
            const struct lh_m_tombstone *t = lh_m_tombstone_find(m, k->chunk);
            if (lh_m_chunk_find(m, k->chunk) == NULL && !lh_m_prealloc_known(m, k->chunk) &&
                (t == NULL || t->version < k->version))
                lh_m_bury(m, k->chunk, k->version);
        }
    }
}

/* Meanwhile a preallocated chunk may be in use. */
static void send_again(struct lh_master *m, struct lh_m_server *s, uint64_t chunk)
{
    const struct lh_m_tombstone *t = lh_m_tombstone_find(m, chunk);
    struct lh_m_chunk *c = lh_m_chunk_find(m, chunk);

    if (c != NULL)
        note_unused(m, s, c);
    else if (t != NULL)
        lh_m_send_remove(m, s, chunk, t->version);
    else if (is_left_out(m, s, chunk))
        lh_m_send_remove(m, s, chunk, 0);
}

static size_t send_kept(struct lh_master *m, size_t left)
{
    struct lh_m_server *s;
    struct lh_m_kept *k;

    TAILQ_FOREACH(s, &m->all_servers, all_link) {
        while (left > 0 && !s->space.failing && (k = TAILQ_FIRST(&s->kept)) != NULL) {
            send_again(m, s, k->chunk);
            TAILQ_REMOVE(&s->kept, k, link);
            m->garbage.kept_count--;
            free(k);
            left--;
        }
    }
    return left;
}

static void garbage_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    size_t left = m->config.step_work;
    struct lh_m_extra *e;

    if (!lh_m_deleting(m) || !lh_m_is_durable(m, m->garbage.resume_ticket))
        return; /* armed again by the operator's word, and when that is durable */
    left = send_kept(m, left);
    if (m->garbage.round == 0)
        m->garbage.round = m->garbage.extra_count;
    for (; left > 0 && m->garbage.round > 0; left--, m->garbage.round--) {
        e = TAILQ_FIRST(&m->garbage.extras);
        if (e == NULL) {
            m->garbage.round = 0;
            break;
        }
        TAILQ_REMOVE(&m->garbage.extras, e, all_link);
        TAILQ_INSERT_TAIL(&m->garbage.extras, e, all_link);
        look_at_extra(m, e);
    }
    if (left == 0)
        lh_timer_set(&m->timers, timer, m->now);
    else if (m->garbage.extra_count > 0 || m->garbage.kept_count > 0)
        lh_timer_set(&m->timers, timer, lh_instant_add(m->now, m->config.garbage_again));
}

void lh_m_garbage_durable(struct lh_master *m)
{
    if (!m->garbage.resumed || !lh_m_is_durable(m, m->garbage.resume_ticket))
        return;
    m->garbage.resumed = false;
    lh_m_garbage_soon(m);
}

void lh_m_garbage_resume(struct lh_master *m)
{
    LH_MARK("garbage-resumed");
    lh_fx_log(m->fx, LH_WARN, "deletion is resumed; it was stopped because %s", m->behind);
    free(m->behind);
    m->behind = NULL;
    lh_m_dirty_master(m);
    bury_kept(m);
    m->garbage.resumed = true;
    m->garbage.resume_ticket = m->commit.next_ticket;
}
