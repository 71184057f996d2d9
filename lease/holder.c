#include "lease/holder.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/prng.h"
#include "base/probe.h"
#include "lease/index.h"
#include "lease/segments.h"
#include "lease/term.h"

#include <stdlib.h>

enum standing {
    STANDING_NONE, /* only the released mark */
    STANDING_HELD, /* granted in the present session, or in one that ended with no other after it */
    STANDING_ASIDE, /* held before the present session began; may yet be continued (LEASE-7) */
    STANDINGS,
};

struct entry {
    uint64_t key;
    uint64_t version;  /* HELD, ASIDE */
    uint64_t released; /* LEASE-6: nothing up to this version is accepted */
    struct lh_instant end;
    uint32_t chain; /* of the index; of the free list */
    uint32_t next;  /* of the list of its standing, oldest first */
    uint32_t prev;
    uint32_t standing;
};

struct list {
    uint32_t first;
    uint32_t last;
    size_t count;
};

/* Entries are numbered from 1. NONE's list is not kept: nobody walks it. */
struct lh_holder {
    uint64_t session;
    struct lh_instant session_end;
    struct lh_segments entries;
    struct lh_index index;
    struct list lists[STANDINGS];
    uint32_t entry_count; /* numbers handed out so far, freed ones included */
    uint32_t entry_free;
};

static struct entry *entry_at(const struct lh_holder *h, uint32_t i)
{
    return lh_segments_at(&h->entries, i, sizeof(struct entry));
}

static uint32_t *chain_of(const void *h, uint32_t i)
{
    return &entry_at(h, i)->chain;
}

static uint64_t hash_of(const void *h, uint32_t i)
{
    return lh_mix64(entry_at(h, i)->key);
}

static uint32_t find(const struct lh_holder *h, uint64_t key)
{
    uint32_t i = lh_index_first(&h->index, lh_mix64(key));
    while (i != 0 && entry_at(h, i)->key != key)
        i = entry_at(h, i)->chain;
    return i;
}

static uint32_t find_or_add(struct lh_holder *h, uint64_t key)
{
    uint32_t i = find(h, key);
    if (i != 0)
        return i;
    i = h->entry_free;
    if (i != 0) {
        h->entry_free = entry_at(h, i)->chain;
    } else {
        i = ++h->entry_count;
        lh_segments_reserve(&h->entries, (uint64_t)i + 1);
    }
    *entry_at(h, i) = (struct entry){.key = key};
    lh_index_add(&h->index, i, lh_mix64(key), h, chain_of, hash_of);
    return i;
}

static void list_push(struct lh_holder *h, struct list *list, uint32_t i)
{
    struct entry *e = entry_at(h, i);
    e->next = 0;
    e->prev = list->last;
    if (list->last != 0)
        entry_at(h, list->last)->next = i;
    else
        list->first = i;
    list->last = i;
    list->count++;
}

static void list_drop(struct lh_holder *h, struct list *list, uint32_t i)
{
    const struct entry *e = entry_at(h, i);
    if (e->next != 0)
        entry_at(h, e->next)->prev = e->prev;
    else
        list->last = e->prev;
    if (e->prev != 0)
        entry_at(h, e->prev)->next = e->next;
    else
        list->first = e->next;
    list->count--;
}

static void set_standing(struct lh_holder *h, uint32_t i, enum standing standing)
{
    struct entry *e = entry_at(h, i);
    if (e->standing == standing)
        return;
    if (e->standing != STANDING_NONE)
        list_drop(h, &h->lists[e->standing], i);
    if (standing != STANDING_NONE)
        list_push(h, &h->lists[standing], i);
    e->standing = standing;
}

static void entry_free(struct lh_holder *h, uint32_t i)
{
    struct entry *e = entry_at(h, i);
    set_standing(h, i, STANDING_NONE);
    lh_index_remove(&h->index, i, lh_mix64(e->key), h, chain_of);
    e->chain = h->entry_free;
    h->entry_free = i;
}

struct lh_holder *lh_holder_create(void)
{
    struct lh_holder *h = lh_alloc(sizeof *h);
    lh_segments_init(&h->entries, sizeof(struct entry));
    lh_index_init(&h->index, 0);
    return h;
}

void lh_holder_destroy(struct lh_holder *h)
{
    if (h == NULL)
        return;
    lh_segments_deinit(&h->entries);
    lh_segments_deinit(&h->index.heads);
    free(h);
}

/* The session. */

void lh_holder_session_begin(struct lh_holder *h, uint64_t session, struct lh_instant sent_at,
    struct lh_duration holder_term)
{
    LH_ASSERT(session != 0);
    while (h->lists[STANDING_HELD].first != 0)
        set_standing(h, h->lists[STANDING_HELD].first, STANDING_ASIDE);
    h->session = session;
    h->session_end = lh_term_holder_end(sent_at, holder_term);
}

int lh_holder_session_renew(struct lh_holder *h, uint64_t session, struct lh_instant sent_at,
    struct lh_duration holder_term)
{
    if (session == 0 || session != h->session)
        return LH_ERR_UNKNOWN_SESSION;
    h->session_end = lh_instant_max(h->session_end, lh_term_holder_end(sent_at, holder_term));
    return LH_OK;
}

void lh_holder_session_end(struct lh_holder *h)
{
    h->session = 0;
    h->session_end = (struct lh_instant){0};
}

uint64_t lh_holder_session(const struct lh_holder *h)
{
    return h->session;
}

bool lh_holder_session_live(const struct lh_holder *h, struct lh_instant now)
{
    return h->session != 0 && !lh_instant_reached(now, h->session_end);
}

struct lh_instant lh_holder_session_end_of(const struct lh_holder *h)
{
    return h->session_end;
}

/* Leases. */

int lh_holder_grant(struct lh_holder *h, uint64_t session, uint64_t key, uint64_t version,
    struct lh_instant sent_at, struct lh_duration holder_term)
{
    if (session == 0 || session != h->session)
        return LH_ERR_UNKNOWN_SESSION; /* SES-3 */
    if (version == 0)
        return LH_ERR_STALE_VERSION;
    uint32_t i = find(h, key);
    if (i != 0) {
        const struct entry *e = entry_at(h, i);
        if (version <= e->released) /* LEASE-6 */
            return LH_ERR_STALE_VERSION;
        if (e->standing != STANDING_NONE && version < e->version) /* INV-3 */
            return LH_ERR_STALE_VERSION;
    } else {
        i = find_or_add(h, key);
    }
    struct entry *e = entry_at(h, i);
    struct lh_instant end = lh_term_holder_end(sent_at, holder_term);
    /* An end from within this session stands: the grantor's never moves back either. One from
     * another session means nothing here. */
    e->end = e->standing == STANDING_HELD ? lh_instant_max(e->end, end) : end;
    e->version = version;
    set_standing(h, i, STANDING_HELD);
    return LH_OK;
}

int lh_holder_continue(struct lh_holder *h, uint64_t session, uint64_t key, uint64_t version,
    struct lh_instant sent_at, struct lh_duration holder_term)
{
    if (session == 0 || session != h->session)
        return LH_ERR_UNKNOWN_SESSION;
    uint32_t i = find(h, key);
    if (i == 0)
        return LH_ERR_NOT_LEASED;
    struct entry *e = entry_at(h, i);
    if (e->standing == STANDING_NONE || e->version != version)
        return LH_ERR_NOT_LEASED;
    struct lh_instant end = lh_term_holder_end(sent_at, holder_term);
    /* LEASE-7: the old end was another master's promise. Already continued (a repeated answer):
     * as an extension. */
    bool repeated = e->standing == STANDING_HELD || LH_PLANTED("old-end-kept-on-continue");
    e->end = repeated ? lh_instant_max(e->end, end) : end;
    set_standing(h, i, STANDING_HELD);
    return LH_OK;
}

/* The lease is over; the mark, if there is one, stays. */
static void drop_lease(struct lh_holder *h, uint32_t i)
{
    if (entry_at(h, i)->released == 0)
        entry_free(h, i);
    else
        set_standing(h, i, STANDING_NONE);
}

void lh_holder_session_settle(
    struct lh_holder *h, void (*on_lost)(void *arg, uint64_t key, uint64_t version), void *arg)
{
    uint32_t i;
    while ((i = h->lists[STANDING_ASIDE].first) != 0) {
        struct entry lost = *entry_at(h, i);
        drop_lease(h, i);
        if (on_lost != NULL)
            on_lost(arg, lost.key, lost.version);
    }
}

int lh_holder_extend(struct lh_holder *h, uint64_t session, uint64_t key, uint64_t version,
    struct lh_instant sent_at, struct lh_duration holder_term)
{
    if (session == 0 || session != h->session)
        return LH_ERR_UNKNOWN_SESSION;
    uint32_t i = find(h, key);
    if (i == 0 || entry_at(h, i)->standing != STANDING_HELD)
        return LH_ERR_NOT_LEASED;
    struct entry *e = entry_at(h, i);
    if (e->version != version)
        return LH_ERR_STALE_VERSION;
    e->end = lh_instant_max(e->end, lh_term_holder_end(sent_at, holder_term));
    return LH_OK;
}

void lh_holder_release(struct lh_holder *h, uint64_t key, uint64_t version)
{
    if (version == 0)
        return;
    if (LH_PLANTED("delayed-grant-revives-lease") && lh_holder_version(h, key) <= version) {
        lh_holder_forget(h, key);
        return;
    }
    uint32_t i = find_or_add(h, key);
    struct entry *e = entry_at(h, i);
    if (version > e->released)
        e->released = version;
    if (e->standing != STANDING_NONE && e->version <= version)
        set_standing(h, i, STANDING_NONE);
}

void lh_holder_forget(struct lh_holder *h, uint64_t key)
{
    uint32_t i = find(h, key);
    if (i != 0)
        entry_free(h, i);
}

/* Questions. */

static const struct entry *held(const struct lh_holder *h, uint64_t key)
{
    uint32_t i = find(h, key);
    if (i == 0 || entry_at(h, i)->standing != STANDING_HELD)
        return NULL;
    return entry_at(h, i);
}

bool lh_holder_may_act(
    const struct lh_holder *h, uint64_t key, uint64_t version, struct lh_instant now)
{
    const struct entry *e = held(h, key);
    return e != NULL && e->version == version && !lh_instant_reached(now, e->end) &&
           (lh_holder_session_live(h, now) || /* SES-3 */
               LH_PLANTED("chunk-lease-outlives-session"));
}

uint64_t lh_holder_version(const struct lh_holder *h, uint64_t key)
{
    const struct entry *e = held(h, key);
    return e == NULL ? 0 : e->version;
}

struct lh_instant lh_holder_end_of(const struct lh_holder *h, uint64_t key)
{
    const struct entry *e = held(h, key);
    if (e == NULL)
        return (struct lh_instant){0};
    if (LH_PLANTED("chunk-lease-outlives-session"))
        return e->end;
    return lh_instant_min(e->end, h->session_end);
}

struct lh_instant lh_holder_own_end_of(const struct lh_holder *h, uint64_t key)
{
    const struct entry *e = held(h, key);
    return e == NULL ? (struct lh_instant){0} : e->end;
}

#define CURSOR_END UINT64_MAX

bool lh_holder_next(const struct lh_holder *h, uint64_t *cursor, uint64_t *key, uint64_t *version,
    struct lh_instant *end)
{
    if (*cursor == CURSOR_END)
        return false;
    uint32_t i = *cursor == 0 ? h->lists[STANDING_HELD].first : (uint32_t)*cursor;
    if (i == 0)
        return false;
    const struct entry *e = entry_at(h, i);
    *key = e->key;
    *version = e->version;
    *end = lh_instant_min(e->end, h->session_end);
    *cursor = e->next == 0 ? CURSOR_END : e->next;
    return true;
}

size_t lh_holder_count(const struct lh_holder *h)
{
    return h->lists[STANDING_HELD].count;
}

void lh_holder_check(const struct lh_holder *h)
{
    size_t standing[STANDINGS] = {0};
    for (uint32_t b = 0; b < h->index.buckets; b++) {
        for (uint32_t i = *lh_index_head(&h->index, b); i != 0; i = entry_at(h, i)->chain) {
            const struct entry *e = entry_at(h, i);
            LH_ASSERT(find(h, e->key) == i);
            LH_ASSERT(e->standing < STANDINGS);
            /* An entry without a lease is there for its mark; a lease lies above the mark. */
            LH_ASSERT(e->standing != STANDING_NONE || e->released != 0);
            LH_ASSERT(e->standing == STANDING_NONE || e->version > e->released);
            standing[e->standing]++;
        }
    }
    LH_ASSERT(standing[STANDING_NONE] + standing[STANDING_HELD] + standing[STANDING_ASIDE] ==
              h->index.records);
    for (int s = STANDING_HELD; s < STANDINGS; s++) {
        size_t count = 0;
        uint32_t before = 0;
        for (uint32_t i = h->lists[s].first; i != 0; i = entry_at(h, i)->next) {
            LH_ASSERT(entry_at(h, i)->standing == (uint32_t)s);
            LH_ASSERT(entry_at(h, i)->prev == before);
            before = i;
            count++;
        }
        LH_ASSERT(h->lists[s].last == before);
        LH_ASSERT(count == h->lists[s].count && count == standing[s]);
    }
    LH_ASSERT(h->session != 0 || h->session_end.ns == 0);
}
