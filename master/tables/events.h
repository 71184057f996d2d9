/* What lately became of leases: the last `events_max` grants, recalls and ends, to be looked at
 * (ListEvents). Nothing depends on them, and a master that takes over has none of before.
 *
 * One ring for all. Events of one subject (a chunk, a name) are chained, so that looking at one
 * costs what it has. A renewal is no event: holders renew by the thousand. How many there were, and
 * when the last one was, is said when the lease ends, or when it is looked at. */
#pragma once

#include "master/tables/program.h"

#define LH_M_EVENT_HOLDER_BYTES 40u

struct lh_m_event {
    uint64_t subject;
    uint64_t before; /* number of the last one that shares its chain; 0: none */
    struct lh_instant at;
    struct lh_instant end; /* when the lease ended by then, unless it was renewed; 0: it says
                              nothing of that */
    uint64_t version;      /* or token, or revision; 0: that of the events before */
    uint64_t count;
    const char *why; /* static; NULL: there is no more to say */
    bool of_session; /* `session` is the holder's; of a name */
    uint8_t session[LH_M_SESSION_ID_BYTES];
    Leasehold__LeaseEventKind kind;
    char holder[LH_M_EVENT_HOLDER_BYTES]; /* cut to whole characters */
};

struct lh_m_events {
    struct lh_m_event *ring; /* event n at (n - 1) % size; NULL: nothing happened yet */
    uint64_t *last;          /* by subject % size: the number of the last one there */
    uint64_t size, count;    /* `count`: of events ever, so the number of the last one */
};

/* Subjects. A name's is a digest of its text, as its record goes when nobody uses it. */
uint64_t lh_m_event_of_chunk(uint64_t chunk);
uint64_t lh_m_event_of_name(const char *name);

/* Adds one; `at`, zero: now. `event->holder` and `before` are not read; `holder` may be "". */
void lh_m_note(struct lh_master *m, const struct lh_m_event *event, const char *holder);

/* The last event of the subject, and the last one before `number`, below; NULL: there is none, or
 * it has been overwritten. */
const struct lh_m_event *lh_m_event_last(
    const struct lh_master *m, uint64_t subject, uint64_t *number);
const struct lh_m_event *lh_m_event_before(
    const struct lh_master *m, const struct lh_m_event *event, uint64_t *number);

void lh_m_events_deinit(struct lh_master *m);
