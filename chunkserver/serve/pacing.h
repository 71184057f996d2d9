/* How fast something may go on average: so many bytes a second, with a burst of a tenth of a
 * second. What is taken is paid for afterwards, so one step may be larger than the burst. Pure,
 * over the core's clock. */
#pragma once

#include "base/time.h"

#include <stdint.h>

#define PACING_UNLIMITED UINT64_MAX
#define PACING_BURST_MS  100u

#define PACING_PIECE_MIN (UINT64_C(16) << 10)

/* A larger step counts as this one, so that nothing overflows. */
#define PACING_STEP_MAX (UINT64_C(1) << 33)

struct lh_pacing {
    uint64_t rate;          /* bytes a second, not 0; or PACING_UNLIMITED */
    struct lh_instant paid; /* when all that was taken is paid for */
};

static inline struct lh_duration lh_pacing_cost(const struct lh_pacing *p, uint64_t bytes)
{
    if (bytes > PACING_STEP_MAX)
        bytes = PACING_STEP_MAX;
    return lh_nanoseconds(bytes * UINT64_C(1000000000) / p->rate);
}

/* What goes at once, of at most `most` bytes: less where the pace is slow, so that it goes on
 * steadily. */
static inline uint64_t lh_pacing_piece(const struct lh_pacing *p, uint64_t most)
{
    uint64_t piece = p->rate / 4;

    piece = piece < PACING_PIECE_MIN ? PACING_PIECE_MIN : piece;
    return piece < most ? piece : most;
}

/* From when on more may be taken. */
static inline struct lh_instant lh_pacing_ready_at(const struct lh_pacing *p)
{
    return p->rate == PACING_UNLIMITED ? (struct lh_instant){0} : p->paid;
}

static inline void lh_pacing_take(struct lh_pacing *p, struct lh_instant now, uint64_t bytes)
{
    uint64_t burst = lh_milliseconds(PACING_BURST_MS).ns;
    struct lh_instant from = {now.ns > burst ? now.ns - burst : 0};

    if (p->rate != PACING_UNLIMITED)
        p->paid = lh_instant_add(lh_instant_max(p->paid, from), lh_pacing_cost(p, bytes));
}

/* So many of the bytes that were taken came to nothing. */
static inline void lh_pacing_give_back(struct lh_pacing *p, uint64_t bytes)
{
    uint64_t ns;

    if (p->rate == PACING_UNLIMITED)
        return;
    ns = lh_pacing_cost(p, bytes).ns;
    p->paid.ns = p->paid.ns > ns ? p->paid.ns - ns : 0;
}
