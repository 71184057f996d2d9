#include "lease/table.h"

#include "base/assert.h"

static uint32_t *chain_of(const void *g, uint32_t i)
{
    return &lh_record_at(g, i)->chain;
}

static uint64_t hash_of_share(uint64_t key, uint32_t session)
{
    return lh_mix64(lh_mix64(key) + session);
}

static uint64_t hash_of(const void *g, uint32_t i)
{
    const struct lh_record *r = lh_record_at(g, i);
    return r->kind == LH_RECORD_SHARED ? hash_of_share(r->key, r->session) : lh_hash_of_key(r->key);
}

/* Sessions. */

struct lh_session *lh_table_session(const struct lh_grantor *g, lh_session_id s)
{
    uint32_t slot = lh_session_slot(s);
    if (slot == 0 || slot > g->session_slots)
        return NULL;
    struct lh_session *session = lh_session_at(g, slot);
    bool is_there = session->state == LH_SESSION_OPEN || session->state == LH_SESSION_CLOSED;
    return is_there && session->id == s ? session : NULL;
}

uint32_t lh_table_session_add(struct lh_grantor *g, struct lh_instant end, void *context)
{
    uint32_t slot = g->session_free;
    struct lh_session *session;
    if (slot != 0) {
        session = lh_session_at(g, slot);
        g->session_free = session->next;
    } else {
        LH_ASSERT(g->session_slots < LH_SESSION_SLOT_MAX);
        slot = ++g->session_slots;
        lh_segments_reserve(&g->sessions, (uint64_t)slot + 1);
        session = lh_session_at(g, slot);
        session->id = slot;
    }
    /* A record is used 2^40 times before an id could come again. */
    lh_session_id id = session->id + (UINT64_C(1) << LH_SESSION_SLOT_BITS);
    *session =
        (struct lh_session){.id = id, .end = end, .context = context, .state = LH_SESSION_OPEN};
    lh_wheel_insert(&g->session_wheel, slot, end);
    g->session_count++;
    return slot;
}

void lh_table_session_to_ended(struct lh_grantor *g, uint32_t slot)
{
    struct lh_session *session = lh_session_at(g, slot);
    LH_ASSERT(session->state == LH_SESSION_OPEN || session->state == LH_SESSION_CLOSED);
    lh_wheel_remove(&g->session_wheel, slot);
    session->state = LH_SESSION_ENDED;
    session->next = 0;
    if (g->ended_last != 0)
        lh_session_at(g, g->ended_last)->next = slot;
    else
        g->ended_first = slot;
    g->ended_last = slot;
    g->session_count--;
}

void lh_table_session_free(struct lh_grantor *g, uint32_t slot)
{
    struct lh_session *session = lh_session_at(g, slot);
    LH_ASSERT(session->state != LH_SESSION_FREE && session->first == 0);
    session->state = LH_SESSION_FREE;
    session->context = NULL;
    session->next = g->session_free;
    g->session_free = slot;
}

static void session_push(struct lh_grantor *g, uint32_t slot, uint32_t i)
{
    struct lh_session *session = lh_session_at(g, slot);
    struct lh_links *links = lh_links_at(g, i);
    links->session_next = 0;
    links->session_prev = session->last;
    if (session->last != 0)
        lh_links_at(g, session->last)->session_next = i;
    else
        session->first = i;
    session->last = i;
}

static void session_drop(struct lh_grantor *g, uint32_t slot, uint32_t i)
{
    struct lh_session *session = lh_session_at(g, slot);
    struct lh_links *links = lh_links_at(g, i);
    if (links->session_next != 0)
        lh_links_at(g, links->session_next)->session_prev = links->session_prev;
    else
        session->last = links->session_prev;
    if (links->session_prev != 0)
        lh_links_at(g, links->session_prev)->session_next = links->session_next;
    else
        session->first = links->session_next;
}

/* Records. */

static uint32_t record_take(struct lh_grantor *g)
{
    uint32_t i = g->record_free;
    if (i != 0) {
        g->record_free = lh_record_at(g, i)->chain;
        return i;
    }
    LH_ASSERT(g->record_count < LH_WHEEL_HEAD - 1);
    i = ++g->record_count;
    lh_segments_reserve(&g->records, (uint64_t)i + 1);
    lh_segments_reserve(&g->links, (uint64_t)i + 1);
    return i;
}

static void record_give_back(struct lh_grantor *g, uint32_t i)
{
    struct lh_record *r = lh_record_at(g, i);
    r->kind = LH_RECORD_FREE;
    r->chain = g->record_free;
    g->record_free = i;
}

uint32_t lh_table_find(const struct lh_grantor *g, uint64_t key)
{
    uint32_t i = lh_index_first(&g->index, lh_hash_of_key(key));
    while (i != 0) {
        const struct lh_record *r = lh_record_at(g, i);
        if (r->key == key && r->kind != LH_RECORD_SHARED)
            break;
        i = r->chain;
    }
    return i;
}

uint32_t lh_table_find_share(const struct lh_grantor *g, uint64_t key, uint32_t session)
{
    uint32_t i = lh_index_first(&g->index, hash_of_share(key, session));
    while (i != 0) {
        const struct lh_record *r = lh_record_at(g, i);
        if (r->key == key && r->kind == LH_RECORD_SHARED && r->session == session)
            break;
        i = r->chain;
    }
    return i;
}

uint32_t lh_table_own(const struct lh_grantor *g, uint32_t of_key, uint32_t slot)
{
    const struct lh_record *r = lh_record_at(g, of_key);
    if (r->kind == LH_RECORD_GROUP)
        return lh_table_find_share(g, r->key, slot);
    return r->session == slot ? of_key : 0;
}

static void lease_link(struct lh_grantor *g, uint32_t i, uint64_t hash)
{
    const struct lh_record *r = lh_record_at(g, i);
    lh_index_add(&g->index, i, hash, g, chain_of, hash_of);
    session_push(g, r->session, i);
    lh_wheel_insert(&g->lease_wheel, i, r->end);
    g->lease_count++;
}

void lh_table_add_exclusive(struct lh_grantor *g, uint64_t key, uint64_t version, uint32_t session,
    struct lh_instant end, bool recalling)
{
    uint32_t i = record_take(g);
    *lh_record_at(g, i) = (struct lh_record){.key = key,
        .version = version,
        .end = end,
        .session = session & LH_SESSION_SLOT_MAX,
        .kind = LH_RECORD_EXCLUSIVE,
        .recalling = recalling};
    lease_link(g, i, lh_hash_of_key(key));
}

static uint32_t group_of(struct lh_grantor *g, uint64_t key)
{
    uint32_t i = lh_table_find(g, key);
    if (i == 0) {
        i = record_take(g);
        *lh_record_at(g, i) = (struct lh_record){.key = key, .kind = LH_RECORD_GROUP};
        lh_index_add(&g->index, i, lh_hash_of_key(key), g, chain_of, hash_of);
        g->group_count++;
    }
    LH_ASSERT(lh_record_at(g, i)->kind == LH_RECORD_GROUP);
    return i;
}

void lh_table_add_shared(
    struct lh_grantor *g, uint64_t key, uint64_t version, uint32_t session, struct lh_instant end)
{
    struct lh_record *group = lh_record_at(g, group_of(g, key));
    uint32_t i = record_take(g);
    *lh_record_at(g, i) = (struct lh_record){.key = key,
        .peer = {.next = 0, .prev = group->members.last},
        .end = end,
        .session = session & LH_SESSION_SLOT_MAX,
        .kind = LH_RECORD_SHARED};
    if (group->members.last != 0)
        lh_record_at(g, group->members.last)->peer.next = i;
    else
        group->members.first = i;
    group->members.last = i;
    group->version = version;
    lease_link(g, i, hash_of_share(key, session));
}

static void group_drop(struct lh_grantor *g, uint32_t i)
{
    const struct lh_record *r = lh_record_at(g, i);
    uint32_t group_number = lh_table_find(g, r->key);
    LH_ASSERT(group_number != 0);
    struct lh_record *group = lh_record_at(g, group_number);
    LH_ASSERT(group->kind == LH_RECORD_GROUP);
    if (r->peer.next != 0)
        lh_record_at(g, r->peer.next)->peer.prev = r->peer.prev;
    else
        group->members.last = r->peer.prev;
    if (r->peer.prev != 0)
        lh_record_at(g, r->peer.prev)->peer.next = r->peer.next;
    else
        group->members.first = r->peer.next;
    if (group->members.first == 0) {
        lh_index_remove(&g->index, group_number, lh_hash_of_key(r->key), g, chain_of);
        record_give_back(g, group_number);
        g->group_count--;
    }
}

void lh_table_remove(struct lh_grantor *g, uint32_t i)
{
    struct lh_record *r = lh_record_at(g, i);
    LH_ASSERT(r->kind == LH_RECORD_EXCLUSIVE || r->kind == LH_RECORD_SHARED);
    if (r->kind == LH_RECORD_SHARED)
        group_drop(g, i);
    lh_index_remove(&g->index, i, hash_of(g, i), g, chain_of);
    session_drop(g, r->session, i);
    lh_wheel_remove(&g->lease_wheel, i);
    record_give_back(g, i);
    g->lease_count--;
}

void lh_table_move(struct lh_grantor *g, uint32_t i, uint32_t session)
{
    struct lh_record *r = lh_record_at(g, i);
    if (r->session == session)
        return;
    if (r->kind == LH_RECORD_SHARED) {
        uint32_t other = lh_table_find_share(g, r->key, session);
        if (other != 0) {
            struct lh_record *kept = lh_record_at(g, other);
            kept->end = lh_instant_max(kept->end, r->end);
            lh_table_remove(g, i);
            return;
        }
    }
    /* A share is indexed by its session, too. */
    lh_index_remove(&g->index, i, hash_of(g, i), g, chain_of);
    session_drop(g, r->session, i);
    r->session = session & LH_SESSION_SLOT_MAX;
    session_push(g, session, i);
    lh_index_add(&g->index, i, hash_of(g, i), g, chain_of, hash_of);
}

void lh_table_share_to_last(struct lh_grantor *g, uint32_t i)
{
    struct lh_record *r = lh_record_at(g, i);
    struct lh_record *group = lh_record_at(g, lh_table_find(g, r->key));

    LH_ASSERT(r->kind == LH_RECORD_SHARED && group->kind == LH_RECORD_GROUP);
    if (r->peer.next == 0)
        return;
    lh_record_at(g, r->peer.next)->peer.prev = r->peer.prev;
    if (r->peer.prev != 0)
        lh_record_at(g, r->peer.prev)->peer.next = r->peer.next;
    else
        group->members.first = r->peer.next;
    r->peer.prev = group->members.last;
    r->peer.next = 0;
    lh_record_at(g, group->members.last)->peer.next = i;
    group->members.last = i;
}

struct lh_lease_info lh_table_info(const struct lh_grantor *g, uint32_t i)
{
    const struct lh_record *r = lh_record_at(g, i);
    bool is_shared = r->kind == LH_RECORD_SHARED;
    LH_ASSERT(is_shared || r->kind == LH_RECORD_EXCLUSIVE);
    const struct lh_record *of_key = is_shared ? lh_record_at(g, lh_table_find(g, r->key)) : r;
    return (struct lh_lease_info){.key = r->key,
        .version = of_key->version,
        .session = lh_session_at(g, r->session)->id,
        .context = lh_session_at(g, r->session)->context,
        .mode = is_shared ? LH_LEASE_SHARED : LH_LEASE_EXCLUSIVE,
        .recalling = of_key->recalling,
        .end = lh_record_end(g, r),
        .own_end = r->end};
}

/* What must hold between the parts, whatever was called. */

struct check {
    const struct lh_grantor *g;
    uint32_t exclusive, shared, groups, members;
};

static void check_lease_place(const void *arg, uint32_t i, struct lh_instant from)
{
    const struct lh_grantor *g = arg;
    const struct lh_record *r = lh_record_at(g, i);
    LH_ASSERT(r->kind == LH_RECORD_EXCLUSIVE || r->kind == LH_RECORD_SHARED);
    /* An end that lies before its slot would be slept past; one at or before the wheel's own time
     * is in the slot that begins there. */
    LH_ASSERT(from.ns <= r->end.ns || from.ns <= g->lease_wheel.time);
}

static void check_session_place(const void *arg, uint32_t i, struct lh_instant from)
{
    const struct lh_grantor *g = arg;
    const struct lh_session *s = lh_session_at(g, i);
    LH_ASSERT(s->state == LH_SESSION_OPEN || s->state == LH_SESSION_CLOSED);
    LH_ASSERT(from.ns <= s->end.ns || from.ns <= g->session_wheel.time);
}

static void check_record(struct check *c, uint32_t i)
{
    const struct lh_grantor *g = c->g;
    const struct lh_record *r = lh_record_at(g, i);
    if (r->kind == LH_RECORD_SHARED) {
        c->shared++;
        LH_ASSERT(lh_table_find_share(g, r->key, r->session) == i);
        return;
    }
    LH_ASSERT(lh_table_find(g, r->key) == i);
    if (r->kind == LH_RECORD_EXCLUSIVE) {
        c->exclusive++;
        return;
    }
    LH_ASSERT(r->kind == LH_RECORD_GROUP && r->members.first != 0);
    c->groups++;
    uint32_t before = 0;
    for (uint32_t m = r->members.first; m != 0; m = lh_record_at(g, m)->peer.next) {
        LH_ASSERT(lh_record_at(g, m)->kind == LH_RECORD_SHARED);
        LH_ASSERT(lh_record_at(g, m)->key == r->key);
        LH_ASSERT(lh_record_at(g, m)->peer.prev == before);
        before = m;
        c->members++;
    }
    LH_ASSERT(r->members.last == before);
}

static uint32_t check_session(const struct lh_grantor *g, uint32_t slot)
{
    const struct lh_session *session = lh_session_at(g, slot);
    uint32_t leases = 0;
    uint32_t before = 0;
    LH_ASSERT(lh_session_slot(session->id) == slot);
    for (uint32_t i = session->first; i != 0; i = lh_links_at(g, i)->session_next) {
        LH_ASSERT(session->state != LH_SESSION_FREE);
        LH_ASSERT(lh_record_at(g, i)->session == slot);
        LH_ASSERT(lh_links_at(g, i)->session_prev == before);
        before = i;
        leases++;
    }
    LH_ASSERT(session->last == before);
    return leases;
}

void lh_grantor_check(const struct lh_grantor *g)
{
    struct check c = {.g = g};
    for (uint32_t b = 0; b < g->index.buckets; b++)
        for (uint32_t i = *lh_index_head(&g->index, b); i != 0; i = lh_record_at(g, i)->chain)
            check_record(&c, i);
    LH_ASSERT(c.exclusive + c.shared == g->lease_count);
    LH_ASSERT(c.groups == g->group_count && c.members == c.shared);
    LH_ASSERT(g->index.records == g->lease_count + g->group_count);

    uint32_t leases = 0;
    uint32_t sessions = 0;
    for (uint32_t slot = 1; slot <= g->session_slots; slot++) {
        uint32_t state = lh_session_at(g, slot)->state;
        sessions += state == LH_SESSION_OPEN || state == LH_SESSION_CLOSED;
        leases += check_session(g, slot);
    }
    LH_ASSERT(leases == g->lease_count && sessions == g->session_count);

    uint32_t timed = lh_wheel_check(&g->lease_wheel, check_lease_place, g);
    LH_ASSERT(timed == g->lease_count);
    timed = lh_wheel_check(&g->session_wheel, check_session_place, g);
    LH_ASSERT(timed == g->session_count);
}
