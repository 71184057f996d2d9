/* Those who watch locks, and the events that are kept for them. */
#pragma once

#include "master/locks/internal.h"

/* Of an event and of one in a reply, beside its texts. */
#define LH_M_LOCK_EVENT_OVERHEAD 128u

struct lh_m_lock_event {
    Leasehold__LockEventKind kind;
    bool shared;
    uint64_t token;
    struct lh_instant end; /* CUT */
    uint8_t session[LH_M_SESSION_ID_BYTES];
    size_t size, info_size;
    const char *name, *label, *host, *process;
    const uint8_t *info;
    char bytes[];
};

/* What a watcher's pages have: all up to that name, and up to that session under it. */
struct lh_m_lock_cursor {
    char *name; /* NULL: nothing */
    bool whole; /* all of the name; else up to `session` */
    uint8_t session[LH_M_SESSION_ID_BYTES];
};

struct lh_m_lock_watcher {
    struct lh_link link;
    char *prefix;
    uint64_t next; /* the event that it is to hear of next */
    bool begins;   /* a reset is to be said */
    bool pages;    /* not all that is there was said */
    bool ends;     /* ... and now it was: that is to be said */
    bool busy, in_flight;
    struct lh_m_lock_cursor at; /* `pages` */
    TAILQ_ENTRY(lh_m_lock_watcher) queue;
};

struct lh_m_lock_watching {
    size_t count;                               /* of watchers */
    TAILQ_HEAD(, lh_m_lock_watcher) busy, idle; /* one with a reply in flight is in neither */
    struct lh_m_lock_event **ring; /* `config.lock_events` of them: number n is at n % that */
    uint64_t first, last;          /* numbers that are kept; none: first = last + 1 */
    size_t bytes;
    uint32_t work; /* left in this step */
};

/* The slot of the event with that number, which is kept, or is the next one. */
static inline struct lh_m_lock_event **lh_m_lock_event_slot(
    const struct lh_master *m, uint64_t number)
{
    return &m->locks.watching->ring[number % m->config.lock_events];
}

/* Forgets the first one that is kept. */
void lh_m_lock_event_drop(struct lh_master *m);
