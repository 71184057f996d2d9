/* What the master remembers of all locks together, and who hears of programs. What is known of one
 * lock is locks/'s. */
#pragma once

#include "master/tables/common.h"

struct lh_m_lock_state;
struct lh_m_lock_watching;
struct lh_m_name;
struct lh_m_program;

struct lh_m_locks {
    uint64_t tokens, queued;             /* given out in this reign, of each (NL-1, NL-2) */
    TAILQ_HEAD(, lh_m_lock_state) work;  /* somebody may be granted, or is to be asked */
    struct lh_timer work_timer;          /* the rest of `work` */
    bool cold;                           /* no token is given yet (NL-2a) ... */
    struct lh_timer cold_timer;          /* ... and when it is looked whether one may be */
    const struct lh_m_name *in_hand;     /* it is not freed now */
    size_t held, waiting;                /* locks, and requests that wait */
    uint64_t unnoted;                    /* requests that are not among the events (events.h) */
    size_t cancels;                      /* calls that wait for the end of a lock */
    struct lh_m_lock_watching *watching; /* NULL: nobody watches locks */
};

/* values/, as programs/ and the master's step call it; filled in by wiring.c. */
struct lh_m_values_owner {
    /* From the session stream. */
    void (*read)(struct lh_master *m, struct lh_m_program *p, const Leasehold__ReadValue *read);
    void (*dropped)(struct lh_master *m, struct lh_m_program *p, const Leasehold__Dropped *dropped);
    void (*broadcast)(struct lh_master *m, struct lh_m_program *p, const Leasehold__Broadcast *b);
    void (*shown)(struct lh_master *m, struct lh_m_program *p, const Leasehold__Show *const *pieces,
        size_t count, Leasehold__Shown *shown);
    size_t (*broadcasts)(
        struct lh_master *m, struct lh_m_program *p, Leasehold__BroadcastState ***states);
    /* What happens. */
    void (*session_over)(struct lh_master *m, struct lh_m_program *p);
    void (*all_back)(struct lh_master *m);
    void (*durable)(struct lh_master *m);
    void (*start)(struct lh_master *m);
    /* Adds what is known of the name's value and its caches; sentences of explain are appended with
     * `say`. */
    void (*describe)(struct lh_master *m, struct lh_m_name *name, Leasehold__NameInfo *info,
        void (*say)(void *arg, const char *sentence), void *arg);
};
