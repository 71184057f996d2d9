/* Local time: instants and durations that cannot be mixed up.
 *
 * An instant is a reading of one node's monotonic clock (CLOCK_BOOTTIME, TIME-2). It means nothing
 * on any other node, so it is a type of its own: the compiler refuses to subtract two instants or
 * to send one where a duration belongs. All arithmetic saturates: a term that would pass the end of
 * time becomes "never", it does not wrap around into the past. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lh_instant {
    uint64_t ns; /* since an unspecified start of this node's clock */
};

struct lh_duration {
    uint64_t ns;
};

#define LH_INSTANT_NEVER    ((struct lh_instant){UINT64_MAX})
#define LH_DURATION_FOREVER ((struct lh_duration){UINT64_MAX})

static inline struct lh_duration lh_nanoseconds(uint64_t ns)
{
    return (struct lh_duration){ns};
}

static inline struct lh_duration lh_milliseconds(uint64_t ms)
{
    return (struct lh_duration){ms > UINT64_MAX / 1000000u ? UINT64_MAX : ms * 1000000u};
}

static inline struct lh_duration lh_seconds(uint64_t s)
{
    return (struct lh_duration){s > UINT64_MAX / 1000000000u ? UINT64_MAX : s * 1000000000u};
}

/* Rounds up: a deadline shown in milliseconds is never shown too early. */
static inline uint64_t lh_duration_ms(struct lh_duration d)
{
    return d.ns / 1000000u + (d.ns % 1000000u != 0);
}

static inline struct lh_instant lh_instant_add(struct lh_instant t, struct lh_duration d)
{
    return (struct lh_instant){t.ns > UINT64_MAX - d.ns ? UINT64_MAX : t.ns + d.ns};
}

/* How long from `from` until `to`; zero when `to` is not later. Both of the same node's clock. */
static inline struct lh_duration lh_instant_until(struct lh_instant from, struct lh_instant to)
{
    return (struct lh_duration){to.ns > from.ns ? to.ns - from.ns : 0};
}

static inline bool lh_instant_before(struct lh_instant a, struct lh_instant b)
{
    return a.ns < b.ns;
}

/* True once `deadline` has come: at the deadline itself it has. */
static inline bool lh_instant_reached(struct lh_instant now, struct lh_instant deadline)
{
    return now.ns >= deadline.ns;
}

static inline struct lh_instant lh_instant_min(struct lh_instant a, struct lh_instant b)
{
    return a.ns < b.ns ? a : b;
}

static inline struct lh_instant lh_instant_max(struct lh_instant a, struct lh_instant b)
{
    return a.ns > b.ns ? a : b;
}

static inline struct lh_duration lh_duration_add(struct lh_duration a, struct lh_duration b)
{
    return (struct lh_duration){a.ns > UINT64_MAX - b.ns ? UINT64_MAX : a.ns + b.ns};
}

static inline struct lh_duration lh_duration_max(struct lh_duration a, struct lh_duration b)
{
    return a.ns > b.ns ? a : b;
}

static inline struct lh_duration lh_duration_min(struct lh_duration a, struct lh_duration b)
{
    return a.ns < b.ns ? a : b;
}
