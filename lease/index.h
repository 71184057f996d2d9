/* A hash index over records that are named by number: linear hashing (Litwin, "Linear Hashing: A
 * New Tool for File and Table Addressing", VLDB 1980). The table grows by one bucket at a time,
 * each record that is added pays for two, so that no single operation rehashes the table. Chains
 * run through the records themselves; 0 ends a chain and is no record. Inside lease/ only.
 *
 * The functions are inline and take the owner's two accessors, so that the compiler sees through
 * them:
 *   chain(owner, i)  where record i keeps the number of the next one in its bucket
 *   hash(owner, i)   the hash that record i was added with */
#pragma once

#include "base/assert.h"
#include "lease/segments.h"

#include <stdint.h>

#define LH_INDEX_BUCKETS_PER_RECORD 2
#define LH_INDEX_BUCKETS_MIN        64
#define LH_INDEX_BUCKETS_MAX        (UINT32_C(1) << 31)
#define LH_INDEX_PREFETCH           16 /* buckets */

struct lh_index {
    struct lh_segments heads; /* uint32_t: the first record of each bucket */
    uint32_t buckets;         /* in use */
    uint32_t round;           /* the largest power of two not above `buckets` */
    uint32_t records;
};

typedef uint32_t *lh_index_chain_fn(const void *owner, uint32_t i);
typedef uint64_t lh_index_hash_fn(const void *owner, uint32_t i);

static inline void lh_index_init(struct lh_index *x, uint64_t records)
{
    uint64_t buckets = LH_INDEX_BUCKETS_MIN;
    if (records > LH_INDEX_BUCKETS_MAX / LH_INDEX_BUCKETS_PER_RECORD)
        buckets = LH_INDEX_BUCKETS_MAX;
    else if (records * LH_INDEX_BUCKETS_PER_RECORD > buckets)
        buckets = records * LH_INDEX_BUCKETS_PER_RECORD;
    *x = (struct lh_index){.buckets = (uint32_t)buckets, .round = 1};
    while (x->round <= x->buckets / 2)
        x->round *= 2;
    lh_segments_init(&x->heads, sizeof(uint32_t));
    lh_segments_reserve(&x->heads, buckets);
}

static inline uint32_t *lh_index_head(const struct lh_index *x, uint32_t bucket)
{
    return lh_segments_at(&x->heads, bucket, sizeof(uint32_t));
}

static inline uint32_t lh_index_bucket(const struct lh_index *x, uint64_t hash)
{
    /* Buckets from `buckets` to 2 * round are not split off yet:
     * their records are one half below. */
    uint64_t b = hash & (2 * (uint64_t)x->round - 1);
    return (uint32_t)(b < x->buckets ? b : b - x->round);
}

/* The first record that may have `hash`: compare, then follow chain(). */
static inline uint32_t lh_index_first(const struct lh_index *x, uint64_t hash)
{
    return *lh_index_head(x, lh_index_bucket(x, hash));
}

/* Divides the next bucket in turn between itself and a new one. */
static inline __attribute__((always_inline)) void lh_index_split(
    struct lh_index *x, const void *owner, lh_index_chain_fn *chain, lh_index_hash_fn *hash)
{
    uint32_t from = x->buckets - x->round;
    lh_segments_reserve(&x->heads, (uint64_t)x->buckets + 1);
    uint32_t *low = lh_index_head(x, from);
    uint32_t *high = lh_index_head(x, x->buckets);
    uint32_t i = *low;
    *low = 0;
    while (i != 0) {
        uint32_t *link = chain(owner, i);
        uint32_t next = *link;
        uint32_t *to = (hash(owner, i) & x->round) != 0 ? high : low;
        *link = *to;
        *to = i;
        i = next;
    }
    x->buckets++;
    if (x->buckets == 2 * x->round) {
        x->round = x->buckets;
    } else if (from + LH_INDEX_PREFETCH < x->round) {
        /* The order of splits is known ahead, so the misses need not be waited for. */
        uint32_t ahead = *lh_index_head(x, from + LH_INDEX_PREFETCH);
        if (ahead != 0)
            __builtin_prefetch(chain(owner, ahead), 1);
    }
}

static inline __attribute__((always_inline)) void lh_index_add(struct lh_index *x, uint32_t i,
    uint64_t h, const void *owner, lh_index_chain_fn *chain, lh_index_hash_fn *hash)
{
    uint32_t *head = lh_index_head(x, lh_index_bucket(x, h));
    *chain(owner, i) = *head;
    *head = i;
    x->records++;
    for (int n = 0; n < LH_INDEX_BUCKETS_PER_RECORD; n++)
        if (x->buckets / LH_INDEX_BUCKETS_PER_RECORD < x->records &&
            x->buckets < LH_INDEX_BUCKETS_MAX)
            lh_index_split(x, owner, chain, hash);
}

static inline __attribute__((always_inline)) void lh_index_remove(
    struct lh_index *x, uint32_t i, uint64_t h, const void *owner, lh_index_chain_fn *chain)
{
    uint32_t *link = lh_index_head(x, lh_index_bucket(x, h));
    while (*link != i) {
        LH_ASSERT(*link != 0);
        link = chain(owner, *link);
    }
    *link = *chain(owner, i);
    x->records--;
}
