/* What one side believes of the leases in a session, in few bytes: how many there are, and the sum
 * of a hash of each. A change costs O(1), in any order, and both sides arrive at the same sum if
 * they believe the same (LEASE-8). Nobody who could profit chooses keys and versions: it is a
 * check, not a proof. */
#pragma once

#include "base/prng.h"

#include <stdbool.h>
#include <stdint.h>

struct lh_lease_sum {
    uint64_t count, hash;
};

static inline uint64_t lh_lease_hash(uint64_t key, uint64_t version)
{
    return lh_mix64(key + 0x9e3779b97f4a7c15u * lh_mix64(version));
}

static inline void lh_lease_sum_add(struct lh_lease_sum *s, uint64_t key, uint64_t version)
{
    s->count++;
    s->hash += lh_lease_hash(key, version);
}

static inline void lh_lease_sum_remove(struct lh_lease_sum *s, uint64_t key, uint64_t version)
{
    s->count--;
    s->hash -= lh_lease_hash(key, version);
}

static inline bool lh_lease_sum_equal(struct lh_lease_sum one, struct lh_lease_sum other)
{
    return one.count == other.count && one.hash == other.hash;
}
