/* New chunks: the record with its members is made durable at version 0, every member creates an
 * empty replica, and the first grant (grants/) makes the chunk one that exists. A server that does
 * not manage in time is replaced. */
#include "master/growth/growth.h"

#include "master/inventory/inventory.h"
#include "master/tables/changed.h"
#include "master/tables/chunk.h"
#include "master/tables/dirty.h"
#include "master/tables/tables.h"

#include <inttypes.h>

static void chunk_timer(void *core, struct lh_timer *timer);

bool lh_m_creation_done(const struct lh_m_chunk *c)
{
    for (uint32_t i = 0; i < c->member_count; i++)
        if (!c->members[i].created)
            return false;
    return true;
}

void lh_m_creation_start(struct lh_master *m, struct lh_m_chunk *c)
{
    if (c->created)
        return;
    struct lh_m_creation *creation = lh_m_creation(m, c);
    creation->timer.fire = chunk_timer;
    creation->under_way = true;
    TAILQ_INSERT_TAIL(&m->creating, creation, link);
}

int lh_m_create_chunk(struct lh_master *m, struct lh_m_file *f)
{
    struct lh_m_server *chosen[LH_REPLICATION_MAX];

    if (m->store_fills != NULL) {
        LH_MARK("creation-while-the-store-fills");
        return LH_ERR_DISK_FULL;
    }
    uint32_t count = lh_m_place(m, f->chunk_size, f->replication, NULL, 0, chosen);

    if (count < f->min_replicas) {
        LH_MARK("creation-too-few-servers");
        lh_m_move_file(m, f)->place_in_full_until = LH_INSTANT_NEVER;
        return LH_ERR_NOT_ENOUGH_SERVERS;
    }
    struct lh_m_file_active *fm = lh_m_move_file(m, f);
    if (count < f->replication) {
        /* Enough to go on with; but while servers come and go, give the others a moment. */
        if (fm->place_in_full_until.ns == LH_INSTANT_NEVER.ns)
            fm->place_in_full_until = lh_instant_add(m->now, m->config.create_timeout);
        struct lh_instant until = lh_instant_min(fm->place_in_full_until, m->unsettled_until);
        if (!lh_instant_reached(m->now, until)) {
            lh_timer_set(&m->timers, &fm->timer, until);
            return LH_ERR_NOT_ENOUGH_SERVERS;
        }
        LH_MARK("creation-with-fewer");
        lh_fx_log(m->fx, LH_WARN,
            "\"%s\": its next chunk gets %u replicas instead of %u: no more chunkservers are "
            "fit for it",
            f->path, count, f->replication);
    }
    fm->place_in_full_until = LH_INSTANT_NEVER;
    lh_timer_unset(&m->timers, &fm->timer);

    struct lh_m_chunk *c = lh_m_chunk_new(m, f, m->next_chunk++);
    for (uint32_t i = 0; i < count; i++) {
        lh_m_member_add(c, lh_m_member_at(chosen[i]));
        lh_m_reserve(chosen[i], lh_m_likely(m, f));
    }
    lh_m_creation_start(m, c);
    lh_timer_set(&m->timers, &lh_m_creation(m, c)->timer,
        lh_instant_add(m->said_at, m->config.create_timeout));
    lh_m_dirty_master(m);
    lh_m_dirty_chunk(m, c);
    lh_fx_log(m->fx, LH_INFO,
        "chunk %" PRIu64 " of \"%s\": creating %u replicas, file offset %" PRIu64, c->id, f->path,
        count, c->start);
    return LH_OK;
}

void lh_m_creation_send(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *only)
{
    if (!lh_m_is_durable(m, c->active->ticket))
        return;
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct lh_m_server *s = lh_m_server_of(m, &c->members[i]);
        if (!c->members[i].created && (only == NULL || only == s))
            lh_m_send_create(m, c->file, c->id, s);
    }
}

bool lh_m_creation_replace(struct lh_master *m, struct lh_m_chunk *c, uint32_t i, const char *why)
{
    struct lh_m_server *old = lh_m_server_of(m, &c->members[i]), *fresh;

    lh_m_avoid(m, old, lh_duration_add(m->config.create_timeout, m->config.create_timeout));
    if (lh_m_place(m, c->file->chunk_size, 1, c->members, c->member_count, &fresh) == 1) {
        LH_MARK("creation-elsewhere");
        lh_fx_log(m->fx, LH_WARN, "chunk %" PRIu64 ": %s %s; %s takes its place", c->id, old->id,
            why, fresh->id);
        c->members[i] = lh_m_member_at(fresh);
        lh_m_reserve(fresh, lh_m_likely(m, c->file));
    } else if (c->member_count > c->file->min_replicas) {
        lh_fx_log(m->fx, LH_WARN, "chunk %" PRIu64 ": %s %s; it goes on with %u replicas", c->id,
            old->id, why, c->member_count - 1);
        c->members[i] = c->members[c->member_count - 1];
        lh_m_member_remove(c, &c->members[c->member_count - 1]);
    } else {
        lh_fx_log(m->fx, LH_WARN, "chunk %" PRIu64 ": %s %s, and no other server can", c->id,
            old->id, why);
        return false;
    }
    lh_m_dirty_chunk(m, c);
    lh_m_touch(m, c->file);
    return true;
}

static void chunk_timer(void *core, struct lh_timer *timer)
{
    struct lh_master *m = core;
    struct lh_m_chunk *c = LH_OWNER(timer, struct lh_m_creation, timer)->chunk;

    if (!c->active->creation->under_way || lh_m_creation_done(c)) {
        lh_m_touch(m, c->file);
        return;
    }
    /* From the end: replace() may fill a gap with the last member. */
    for (uint32_t i = c->member_count; i-- > 0;)
        if (!c->members[i].created)
            lh_m_creation_replace(m, c, i, "did not create its replica in time");
    lh_m_creation_send(m, c, NULL);
    lh_timer_set(&m->timers, &lh_m_creation(m, c)->timer,
        lh_instant_add(m->said_at, m->config.create_timeout));
}
