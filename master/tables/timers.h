/* Timers with a callback, in one queue. */
#ifndef LH_MASTER_TABLES_TIMERS_H
#define LH_MASTER_TABLES_TIMERS_H

#include "master/tables/common.h"

struct lh_m_timer {
    RB_ENTRY(lh_m_timer) node;
    struct lh_instant at;
    uint64_t sequence; /* equal times fire in the order of arming */
    void (*fire)(struct lh_master *m, struct lh_m_timer *timer);
    bool armed;
};
RB_HEAD(lh_m_timers, lh_m_timer);

RB_PROTOTYPE(lh_m_timers, lh_m_timer, node, )

#define LH_M_OWNER(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

/* What is waited for after the `n`-th failure in a row, from 0: `first`, and twice as long each
 * time, up to `most`. */
static inline struct lh_duration lh_m_backoff(
    struct lh_duration first, struct lh_duration most, uint32_t n)
{
    return lh_duration_min(lh_nanoseconds(first.ns << (n < 16 ? n : 16)), most);
}

void lh_m_timer_arm(struct lh_master *m, struct lh_m_timer *t, struct lh_instant at);
void lh_m_timer_disarm(struct lh_master *m, struct lh_m_timer *t);
/* Fires those whose time has come, each once. */
void lh_m_timers_fire(struct lh_master *m);
/* When the next one is due; NEVER: none is armed. */
struct lh_instant lh_m_timers_deadline(const struct lh_master *m);

#endif
