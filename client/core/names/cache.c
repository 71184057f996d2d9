/* The table of cached values: found by name; those go first that nobody used lately. */
#include "client/core/names/cache.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "client/core/names/values.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 64u

/* ---- Values. */

struct lh_client_value *lh_client_value_create(
    uint64_t revision, const void *bytes, size_t size, uint64_t ttl_ms)
{
    struct lh_client_value *v = lh_alloc(sizeof *v + size + 1);

    atomic_init(&v->references, 1);
    v->view = (struct lh_value){v->bytes, size, revision, ttl_ms};
    if (size > 0)
        memcpy(v->bytes, bytes, size);
    return v;
}

struct lh_client_value *lh_client_value_ref(struct lh_client_value *v)
{
    if (v != NULL)
        atomic_fetch_add_explicit(&v->references, 1, memory_order_relaxed);
    return v;
}

void lh_client_value_unref(struct lh_client_value *v)
{
    if (v != NULL && atomic_fetch_sub_explicit(&v->references, 1, memory_order_acq_rel) == 1)
        free(v);
}

const struct lh_value *lh_client_value_view(const struct lh_client_value *v)
{
    return &v->view;
}

struct lh_client_value *lh_client_value_of(const struct lh_value *view)
{
    return LH_OWNER((uintptr_t)view, struct lh_client_value, view);
}

/* ---- The table. */

/* The last word overlaps the one before it: no byte is read by itself. */
static uint64_t hash_of(const char *name, size_t size)
{
    uint64_t hash = size * UINT64_C(0x9e3779b97f4a7c15), word = 0;

    if (size < sizeof word) {
        memcpy(&word, name, size);
        return lh_mix64(hash ^ word);
    }
    for (; size > sizeof word; name += sizeof word, size -= sizeof word) {
        memcpy(&word, name, sizeof word);
        hash = (hash ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
        hash ^= hash >> 32;
    }
    memcpy(&word, name + size - sizeof word, sizeof word);
    return lh_mix64(hash ^ word);
}

static struct lh_client_cached **bucket(const struct lh_client_session *s, uint64_t hash)
{
    return &s->names->cache.buckets[hash & (s->names->cache.bucket_count - 1)];
}

static struct lh_client_cached *find(
    const struct lh_client_session *s, const char *name, size_t size, uint64_t hash)
{
    if (s->names->cache.bucket_count == 0)
        return NULL;
    struct lh_client_cached *e = *bucket(s, hash);
    while (e != NULL && (e->hash != hash || e->size != size || memcmp(e->name, name, size) != 0))
        e = e->next;
    return e;
}

struct lh_client_cached *lh_client_cache_find(const struct lh_client_session *s, const char *name)
{
    size_t size = strlen(name);

    return find(s, name, size, hash_of(name, size));
}

static size_t weight(const struct lh_client_cached *e)
{
    return sizeof *e + e->size + (e->value == NULL ? 0 : sizeof *e->value + e->value->view.size);
}

static void grow(struct lh_client_session *s)
{
    struct lh_client_cache *cache = &s->names->cache;
    struct lh_client_cached **old = cache->buckets;
    size_t count = cache->bucket_count;

    if (cache->count < count)
        return;
    cache->bucket_count = count == 0 ? FIRST_BUCKETS : 2 * count;
    cache->buckets = lh_alloc_array(cache->bucket_count, sizeof(struct lh_client_cached *));
    for (size_t i = 0; i < count; i++)
        for (struct lh_client_cached *e = old[i], *next; e != NULL; e = next) {
            next = e->next;
            e->next = *bucket(s, e->hash);
            *bucket(s, e->hash) = e;
        }
    free(old);
}

static void add_to_ring(struct lh_client_cache *cache, struct lh_client_cached *e)
{
    if (cache->hand == NULL) {
        cache->hand = e->ring_prev = e->ring_next = e;
        return;
    }
    e->ring_next = cache->hand; /* the hand comes to it last */
    e->ring_prev = cache->hand->ring_prev;
    e->ring_prev->ring_next = e->ring_next->ring_prev = e;
}

void lh_client_cache_remove(struct lh_client_session *s, struct lh_client_cached *e)
{
    struct lh_client_cache *cache = &s->names->cache;
    struct lh_client_cached **at = bucket(s, e->hash);

    lh_client_guard(s->client);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (cache->hand == e)
        cache->hand = e->ring_next == e ? NULL : e->ring_next;
    e->ring_prev->ring_next = e->ring_next;
    e->ring_next->ring_prev = e->ring_prev;
    cache->count--;
    cache->bytes -= weight(e);
    lh_client_unguard(s->client);
    lh_client_value_unref(e->value);
    free(e);
}

static size_t count_max(const struct lh_client_session *s)
{
    return s->lookups ? s->client->config.lookups_max : s->client->config.cached_values;
}

/* One that was used gets another round. */
static void make_room(struct lh_client_session *s, const struct lh_client_cached *keep)
{
    struct lh_client_cache *cache = &s->names->cache;

    while (cache->count > 1 &&
           (cache->count > count_max(s) || cache->bytes > s->client->config.cached_bytes)) {
        struct lh_client_cached *e = cache->hand;
        cache->hand = e->ring_next;
        if (e == keep || atomic_exchange_explicit(&e->used, false, memory_order_relaxed))
            continue;
        LH_MARK("cached-value-evicted");
        lh_client_cache_remove(s, e);
    }
}

struct lh_client_cached *lh_client_cache_put(
    struct lh_client_session *s, const char *name, struct lh_client_value *value)
{
    size_t size = strlen(name);
    uint64_t hash = hash_of(name, size);
    struct lh_client_cached *e;

    lh_client_guard(s->client);
    e = find(s, name, size, hash);
    if (e != NULL)
        lh_client_cache_remove(s, e);
    grow(s);
    e = lh_alloc(sizeof *e + size + 1);
    memcpy(e->name, name, size);
    e->size = size;
    e->hash = hash;
    e->value = value;
    e->next = *bucket(s, hash);
    *bucket(s, hash) = e;
    add_to_ring(&s->names->cache, e);
    s->names->cache.count++;
    s->names->cache.bytes += weight(e);
    make_room(s, e);
    lh_client_unguard(s->client);
    return e;
}

void lh_client_cache_clear(struct lh_client_session *s)
{
    lh_client_guard(s->client);
    while (s->names->cache.hand != NULL)
        lh_client_cache_remove(s, s->names->cache.hand);
    free(s->names->cache.buckets);
    s->names->cache.buckets = NULL;
    s->names->cache.bucket_count = 0;
    lh_client_unguard(s->client);
}

void lh_client_cache_each_leased(struct lh_client_session *s, struct lh_instant now,
    void (*visit)(void *arg, struct lh_client_cached *e), void *arg)
{
    struct lh_client_cached *e = s->names->cache.hand;

    for (size_t i = 0; i < s->names->cache.count; i++, e = e->ring_next)
        if (lh_instant_before(now, e->end))
            visit(arg, e);
}

/* ---- What may be served. */

bool lh_client_cached_is_current(const struct lh_client_cached *e, struct lh_instant now)
{
    return lh_instant_before(now, e->end) ||
           (e->prefix != NULL && lh_client_prefix_is_promised(e->prefix, e->prefix_revision, now));
}

bool lh_client_cached(const struct lh_client_session *s, const char *name, struct lh_instant now,
    struct lh_client_value **value)
{
    struct lh_client_cached *e;

    if (!lh_instant_before(now, s->valid_until))
        return false;
    e = lh_client_cache_find(s, name);
    if (e == NULL || !lh_client_cached_is_current(e, now))
        return false;
    /* The last third of its lease: the core is to hear of the read, and renews it. */
    if (e->prefix == NULL && lh_instant_reached(now, e->renew_at))
        return false;
    if (!atomic_load_explicit(&e->used, memory_order_relaxed))
        atomic_store_explicit(&e->used, true, memory_order_relaxed);
    *value = lh_client_value_ref(e->value);
    return true;
}

void lh_client_cache_check(const struct lh_client_session *s)
{
    const struct lh_client_cached *e = s->names->cache.hand;
    size_t bytes = 0;

    for (size_t i = 0; i < s->names->cache.count; i++, e = e->ring_next) {
        LH_ASSERT(e->ring_next->ring_prev == e);
        LH_ASSERT(find(s, e->name, e->size, e->hash) == e);
        bytes += weight(e);
    }
    LH_ASSERT(e == s->names->cache.hand && bytes == s->names->cache.bytes);
    LH_ASSERT(s->names->cache.count <= 1 ||
              (s->names->cache.count <= count_max(s) && bytes <= s->client->config.cached_bytes));
}
