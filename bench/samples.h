/* Times of many operations, and what is said of them. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LH_BENCH_SAMPLES_MAX (1u << 20) /* later ones are not counted */

struct lh_bench_samples {
    uint32_t *ns;
    uint64_t count;
};

static inline uint64_t lh_bench_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* `since_ns`: when it began. */
static inline void lh_bench_sample(struct lh_bench_samples *s, uint64_t since_ns)
{
    uint64_t took = lh_bench_now_ns() - since_ns;

    if (s->ns == NULL)
        s->ns = malloc(LH_BENCH_SAMPLES_MAX * sizeof *s->ns);
    if (s->ns != NULL && s->count < LH_BENCH_SAMPLES_MAX)
        s->ns[s->count++] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
}

static inline int lh_bench_by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Prints two members of a JSON object, in microseconds, and forgets the samples. */
static inline void lh_bench_print_samples(const char *name, struct lh_bench_samples *s)
{
    if (s->count > 0) {
        qsort(s->ns, s->count, sizeof *s->ns, lh_bench_by_value);
        printf("\"%s_p50_us\": %.2f, \"%s_p99_us\": %.2f, ", name,
            (double)s->ns[s->count / 2] / 1e3, name, (double)s->ns[s->count * 99 / 100] / 1e3);
    }
    free(s->ns);
    *s = (struct lh_bench_samples){0};
}
