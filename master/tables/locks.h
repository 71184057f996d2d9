/* What the master remembers of all locks together. What it knows of one is locks/'s. */
#pragma once

#include "master/tables/common.h"

struct lh_m_locking;
struct lh_m_cancel;

struct lh_m_locks {
    uint64_t tokens, queued;         /* given out in this reign, of each (NL-1, NL-2) */
    TAILQ_HEAD(, lh_m_locking) work; /* somebody may be granted, or is to be asked */
    TAILQ_HEAD(lh_m_locked, lh_m_locking) waited; /* the others with requests */
    struct lh_timer work_timer;                   /* the rest of `work` */
    size_t requests;                              /* that wait, of all programs */
    struct lh_m_cancel *cancels;                  /* hash, by link */
    size_t cancel_count;
};

/* Who hears of programs: values/, and locks/ of what values/ does. Filled in by wiring.c. */
struct lh_m_programs_owner {
    /* The session is over (VAL-4, VAL-5). */
    void (*over)(struct lh_master *m, struct lh_m_program *p);
    /* Adds what is known of the name's value, and of its caches. */
    void (*describe)(
        const struct lh_master *m, const struct lh_m_name *name, Leasehold__NameInfo *info);
};
