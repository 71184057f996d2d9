/* A small deterministic generator for cores and tests: splitmix64 (Steele, Lea, Flood: "Fast
 * Splittable Pseudorandom Number Generators", 2014). The seed comes from outside, so the same seed
 * gives the same run. Not for secrets. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lh_prng {
    uint64_t state;
};

static inline uint64_t lh_mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Of a text, begun with `z`. Not for what others choose. */
static inline uint64_t lh_mix_text(uint64_t z, const char *text)
{
    for (; *text != 0; text++)
        z = lh_mix64(z ^ (uint8_t)*text);
    return z;
}

static inline uint64_t lh_prng_next(struct lh_prng *p)
{
    p->state += 0x9e3779b97f4a7c15u;
    return lh_mix64(p->state);
}

/* Uniform in [0, bound); 0 when bound is 0. */
static inline uint64_t lh_prng_below(struct lh_prng *p, uint64_t bound)
{
    return bound == 0 ? 0 : (uint64_t)(((unsigned __int128)lh_prng_next(p) * bound) >> 64);
}

/* Uniform in [min, max]. */
static inline uint64_t lh_prng_between(struct lh_prng *p, uint64_t min, uint64_t max)
{
    return min + lh_prng_below(p, max - min + 1);
}

static inline bool lh_prng_chance(struct lh_prng *p, uint32_t of_hundred)
{
    return lh_prng_below(p, 100) < of_hundred;
}
