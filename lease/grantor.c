#include "lease/grantor.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/probe.h"
#include "lease/table.h"
#include "lease/term.h"

#include <stddef.h>
#include <stdlib.h>

struct lh_grantor *lh_grantor_create(size_t capacity_hint)
{
    struct lh_grantor *g = lh_alloc(sizeof *g);
    lh_segments_init(&g->records, sizeof(struct lh_record));
    lh_segments_init(&g->links, sizeof(struct lh_links));
    lh_segments_init(&g->sessions, sizeof(struct lh_session));
    lh_index_init(&g->index, capacity_hint);
    if (capacity_hint > 0) {
        lh_segments_reserve(&g->records, (uint64_t)capacity_hint + 1);
        lh_segments_reserve(&g->links, (uint64_t)capacity_hint + 1);
    }
    lh_wheel_init(&g->lease_wheel, &g->links, offsetof(struct lh_links, wheel));
    lh_wheel_init(&g->session_wheel, &g->sessions, offsetof(struct lh_session, wheel));
    return g;
}

void lh_grantor_destroy(struct lh_grantor *g)
{
    if (g == NULL)
        return;
    lh_segments_deinit(&g->records);
    lh_segments_deinit(&g->links);
    lh_segments_deinit(&g->sessions);
    lh_segments_deinit(&g->index.heads);
    free(g);
}

static bool is_live(const struct lh_session *session, struct lh_instant now)
{
    return session != NULL && session->state == LH_SESSION_OPEN &&
           !lh_instant_reached(now, session->end);
}

/* Sessions. */

lh_session_id lh_grantor_session_open(
    struct lh_grantor *g, struct lh_instant received_at, struct lh_duration term, void *context)
{
    uint32_t slot = lh_table_session_add(g, lh_term_grantor_end(received_at, term), context);
    return lh_session_at(g, slot)->id;
}

int lh_grantor_session_renew(
    struct lh_grantor *g, lh_session_id s, struct lh_instant received_at, struct lh_duration term)
{
    struct lh_session *session = lh_table_session(g, s);
    if (!is_live(session, lh_instant_max(g->seen, received_at)))
        return LH_ERR_UNKNOWN_SESSION;
    /* The wheel is not told: it finds the new end when the old one comes due. */
    session->end = lh_instant_max(session->end, lh_term_grantor_end(received_at, term));
    return LH_OK;
}

void lh_grantor_session_close(struct lh_grantor *g, lh_session_id s)
{
    struct lh_session *session = lh_table_session(g, s);
    if (session != NULL)
        session->state = LH_SESSION_CLOSED;
}

void lh_grantor_session_end(struct lh_grantor *g, lh_session_id s,
    void (*on_freed)(void *arg, const struct lh_lease_info *lease), void *arg)
{
    struct lh_session *session = lh_table_session(g, s);
    if (session == NULL)
        return;
    while (session->first != 0) {
        struct lh_lease_info info = lh_table_info(g, session->first);
        lh_table_remove(g, session->first);
        if (on_freed != NULL)
            on_freed(arg, &info);
    }
    uint32_t slot = lh_session_slot(s);
    lh_wheel_remove(&g->session_wheel, slot);
    g->session_count--;
    lh_table_session_free(g, slot);
}

bool lh_grantor_session_live(const struct lh_grantor *g, lh_session_id s, struct lh_instant now)
{
    return is_live(lh_table_session(g, s), lh_instant_max(g->seen, now));
}

struct lh_instant lh_grantor_session_end_of(const struct lh_grantor *g, lh_session_id s)
{
    const struct lh_session *session = lh_table_session(g, s);
    return session == NULL ? (struct lh_instant){0} : session->end;
}

/* Leases. */

/* The first member of the group that is in force, other than the one in `except` (0: any). */
static uint32_t member_in_force(const struct lh_grantor *g, const struct lh_record *group,
    uint32_t except, struct lh_instant now)
{
    uint32_t i = group->members.first;
    while (i != 0) {
        const struct lh_record *r = lh_record_at(g, i);
        if (r->session != except && lh_record_in_force(g, r, now))
            break;
        i = r->peer.next;
    }
    return i;
}

static int grant_over_exclusive(struct lh_grantor *g, uint32_t i, uint64_t version,
    enum lh_lease_mode mode, uint32_t slot, struct lh_instant now, struct lh_instant end)
{
    struct lh_record *r = lh_record_at(g, i);
    bool in_force = lh_record_in_force(g, r, now);
    if (in_force && r->session != slot)
        return LH_ERR_LEASE_HELD; /* LEASE-2 */
    if (in_force) {
        /* LEASE-3. Asked for a shared lease, it stays an exclusive one: until it has heard of the
         * change the holder believes itself alone, so nobody may be let in beside it (INV-1). */
        r->version = version;
        r->end = lh_instant_max(r->end, end);
        return LH_OK;
    }
    uint64_t key = r->key;
    lh_table_remove(g, i);
    if (mode == LH_LEASE_EXCLUSIVE)
        lh_table_add_exclusive(g, key, version, slot, end, false);
    else
        lh_table_add_shared(g, key, version, slot, end);
    return LH_OK;
}

static int grant_exclusive_over_group(struct lh_grantor *g, struct lh_record *group,
    uint64_t version, uint32_t slot, struct lh_instant now, struct lh_instant end)
{
    if (member_in_force(g, group, slot, now) != 0)
        return LH_ERR_LEASE_HELD; /* LEASE-2 */
    uint64_t key = group->key;
    uint32_t own = lh_table_find_share(g, key, slot);
    bool recalling = false;
    if (own != 0 && lh_record_in_force(g, lh_record_at(g, own), now)) {
        end = lh_instant_max(end, lh_record_at(g, own)->end);
        recalling = group->recalling;
    }
    for (uint32_t next, i = group->members.first; i != 0; i = next) {
        next = lh_record_at(g, i)->peer.next;
        lh_table_remove(g, i);
    }
    lh_table_add_exclusive(g, key, version, slot, end, recalling);
    return LH_OK;
}

static int grant_shared_in_group(struct lh_grantor *g, struct lh_record *group, uint64_t version,
    uint32_t slot, struct lh_instant now, struct lh_instant end)
{
    uint32_t own = lh_table_find_share(g, group->key, slot);
    if (own != 0 && lh_record_in_force(g, lh_record_at(g, own), now)) {
        struct lh_record *r = lh_record_at(g, own);
        r->end = lh_instant_max(r->end, end);
        group->version = version;
        return LH_OK;
    }
    if (group->recalling) {
        /* A recall that others may still join would not end. */
        if (member_in_force(g, group, 0, now) != 0)
            return LH_ERR_LEASE_HELD;
        group->recalling = false;
    }
    uint64_t key = group->key;
    if (own != 0)
        lh_table_remove(g, own); /* and the group, if it was the last one */
    lh_table_add_shared(g, key, version, slot, end);
    return LH_OK;
}

int lh_grantor_grant(struct lh_grantor *g, uint64_t key, uint64_t version, enum lh_lease_mode mode,
    lh_session_id s, struct lh_instant now, struct lh_instant received_at, struct lh_duration term)
{
    LH_ASSERT(received_at.ns <= now.ns);
    lh_table_note_time(g, now);
    now = g->seen;
    if (!is_live(lh_table_session(g, s), now))
        return LH_ERR_UNKNOWN_SESSION;

    uint32_t slot = lh_session_slot(s);
    struct lh_instant end = lh_term_grantor_end(received_at, term);
    uint32_t i = lh_table_find(g, key);
    if (i == 0) {
        if (mode == LH_LEASE_EXCLUSIVE)
            lh_table_add_exclusive(g, key, version, slot, end, false);
        else
            lh_table_add_shared(g, key, version, slot, end);
        return LH_OK;
    }
    struct lh_record *r = lh_record_at(g, i);
    if (version < r->version)
        return LH_ERR_STALE_VERSION; /* INV-3 */
    if (r->kind == LH_RECORD_EXCLUSIVE)
        return grant_over_exclusive(g, i, version, mode, slot, now, end);
    if (mode == LH_LEASE_EXCLUSIVE)
        return grant_exclusive_over_group(g, r, version, slot, now, end);
    return grant_shared_in_group(g, r, version, slot, now, end);
}

int lh_grantor_continue(struct lh_grantor *g, uint64_t key, uint64_t version, lh_session_id from,
    lh_session_id to, struct lh_instant now, struct lh_instant received_at, struct lh_duration term)
{
    LH_ASSERT(received_at.ns <= now.ns);
    lh_table_note_time(g, now);
    now = g->seen;
    struct lh_session *session = lh_table_session(g, to);
    if (!is_live(session, now))
        return LH_ERR_UNKNOWN_SESSION;
    uint32_t of_key = lh_table_find(g, key);
    if (of_key == 0 || lh_table_session(g, from) == NULL)
        return LH_ERR_NOT_LEASED;
    uint32_t own = lh_table_own(g, of_key, lh_session_slot(from));
    if (own == 0 || !lh_record_in_force(g, lh_record_at(g, own), now))
        return LH_ERR_NOT_LEASED;
    if (lh_record_at(g, of_key)->version != version)
        return LH_ERR_STALE_VERSION;
    struct lh_record *r = lh_record_at(g, own);
    session->end = lh_instant_max(session->end, lh_record_end(g, r));
    r->end = lh_instant_max(r->end, lh_term_grantor_end(received_at, term));
    lh_table_move(g, own, lh_session_slot(to));
    return LH_OK;
}

int lh_grantor_extend(struct lh_grantor *g, uint64_t key, uint64_t version, lh_session_id s,
    struct lh_instant now, struct lh_instant received_at, struct lh_duration term)
{
    LH_ASSERT(received_at.ns <= now.ns);
    lh_table_note_time(g, now);
    now = g->seen;
    uint32_t of_key = lh_table_find(g, key);
    if (of_key == 0 || !is_live(lh_table_session(g, s), now))
        return LH_ERR_NOT_LEASED;
    uint32_t own = lh_table_own(g, of_key, lh_session_slot(s));
    if (own == 0 || !lh_record_in_force(g, lh_record_at(g, own), now))
        return LH_ERR_NOT_LEASED;
    const struct lh_record *state = lh_record_at(g, of_key);
    if (state->version != version)
        return LH_ERR_STALE_VERSION;
    if (state->recalling)
        return LH_ERR_LEASE_HELD; /* LEASE-4 */
    struct lh_record *r = lh_record_at(g, own);
    r->end = lh_instant_max(r->end, lh_term_grantor_end(received_at, term));
    return LH_OK;
}

/* How many leases ahead of the one in hand its bucket, and then its record, is asked for. */
#define BUCKET_AHEAD 24
#define RECORD_AHEAD 12

void lh_grantor_extend_many(struct lh_grantor *g, lh_session_id s, struct lh_instant now,
    struct lh_instant received_at, struct lh_duration term, const struct lh_lease_name *leases,
    size_t count, int *results)
{
    for (size_t i = 0; i < count && i < BUCKET_AHEAD; i++)
        lh_table_prefetch_bucket(g, leases[i].key);
    for (size_t i = 0; i < count && i < RECORD_AHEAD; i++)
        lh_table_prefetch_record(g, leases[i].key);
    for (size_t i = 0; i < count; i++) {
        if (count - i > BUCKET_AHEAD)
            lh_table_prefetch_bucket(g, leases[i + BUCKET_AHEAD].key);
        if (count - i > RECORD_AHEAD)
            lh_table_prefetch_record(g, leases[i + RECORD_AHEAD].key);
        results[i] =
            lh_grantor_extend(g, leases[i].key, leases[i].version, s, now, received_at, term);
    }
}

int lh_grantor_release(struct lh_grantor *g, uint64_t key, uint64_t version, lh_session_id s)
{
    uint32_t of_key = lh_table_find(g, key);
    if (of_key == 0 || lh_table_session(g, s) == NULL)
        return LH_ERR_NOT_LEASED;
    uint32_t own = lh_table_own(g, of_key, lh_session_slot(s));
    if (own == 0)
        return LH_ERR_NOT_LEASED;
    if (lh_record_at(g, of_key)->version != version && !LH_PLANTED("any-version-released"))
        return LH_ERR_STALE_VERSION;
    lh_table_remove(g, own);
    return LH_OK;
}

int lh_grantor_recall(struct lh_grantor *g, uint64_t key)
{
    struct lh_lease_info info;
    if (!lh_grantor_find(g, key, g->seen, &info))
        return LH_ERR_NOT_LEASED;
    lh_record_at(g, lh_table_find(g, key))->recalling = true;
    return LH_OK;
}

bool lh_grantor_find(
    const struct lh_grantor *g, uint64_t key, struct lh_instant now, struct lh_lease_info *info)
{
    now = lh_instant_max(g->seen, now);
    uint32_t i = lh_table_find(g, key);
    if (i == 0)
        return false;
    const struct lh_record *r = lh_record_at(g, i);
    if (r->kind == LH_RECORD_GROUP)
        i = member_in_force(g, r, 0, now);
    else if (!lh_record_in_force(g, r, now))
        i = 0;
    if (i == 0)
        return false;
    *info = lh_table_info(g, i);
    return true;
}

bool lh_grantor_find_of(const struct lh_grantor *g, uint64_t key, lh_session_id s,
    struct lh_instant now, struct lh_lease_info *info)
{
    uint32_t of_key = lh_table_find(g, key);
    if (of_key == 0 || lh_table_session(g, s) == NULL)
        return false;
    uint32_t own = lh_table_own(g, of_key, lh_session_slot(s));
    if (own == 0 || !lh_record_in_force(g, lh_record_at(g, own), lh_instant_max(g->seen, now)))
        return false;
    *info = lh_table_info(g, own);
    return true;
}

struct lh_instant lh_grantor_free_at(
    const struct lh_grantor *g, uint64_t key, struct lh_instant now)
{
    uint32_t i = lh_table_find(g, key);
    if (i == 0)
        return now;
    const struct lh_record *r = lh_record_at(g, i);
    if (r->kind == LH_RECORD_EXCLUSIVE)
        return lh_instant_max(now, lh_record_end(g, r));
    struct lh_instant end = now;
    for (i = r->members.first; i != 0; i = lh_record_at(g, i)->peer.next)
        end = lh_instant_max(end, lh_record_end(g, lh_record_at(g, i)));
    return end;
}

/* What is there. */

size_t lh_grantor_lease_count(const struct lh_grantor *g)
{
    return g->lease_count;
}

size_t lh_grantor_session_count(const struct lh_grantor *g)
{
    return g->session_count;
}

size_t lh_grantor_memory(const struct lh_grantor *g)
{
    return sizeof *g + lh_segments_memory(&g->records) + lh_segments_memory(&g->links) +
           lh_segments_memory(&g->sessions) + lh_segments_memory(&g->index.heads);
}

#define CURSOR_END UINT64_MAX

bool lh_grantor_session_next(
    const struct lh_grantor *g, lh_session_id s, uint64_t *cursor, struct lh_lease_info *info)
{
    const struct lh_session *session = lh_table_session(g, s);
    if (session == NULL || *cursor == CURSOR_END)
        return false;
    uint32_t i = *cursor == 0 ? session->first : (uint32_t)*cursor;
    if (i == 0)
        return false;
    *info = lh_table_info(g, i);
    uint32_t next = lh_links_at(g, i)->session_next;
    *cursor = next == 0 ? CURSOR_END : next;
    return true;
}
