/* What lately became of leases: grants, recalls and ends, to be looked at (ListEvents). Nothing
 * depends on them, and a master that takes over has none of before.
 *
 * Each kind of them has a ring of its own in the order of time: a session's end removes as many
 * values as are attached to it, and the history of chunks and of locks stays. Whoever lists walks
 * all of a ring; so noting one is a line that is written behind the last one, and nothing that is
 * read. Programs take locks a million times in a second, and a ring of that would have nothing but
 * the last moment of the busiest: so a session's requests for locks are noted up to a number in a
 * second, each with all that becomes of it, and those beyond are counted (lh_m_note_due()). A
 * renewal is no event either, as holders renew by the thousand: how many there were, and when the
 * last one was, is noted when the lease ends, or told when it is looked at. */
#pragma once

#include "master/tables/program.h"

#define LH_M_TITLE_BYTES 40u

/* One line of the processor's cache. */
struct lh_m_event {
    uint64_t subject;
    struct lh_instant at;
    uint64_t version;                       /* or token, or revision; 0: that of those before */
    uint8_t session[LH_M_SESSION_ID_BYTES]; /* `of_session`: the holder's */
    const char *why;                        /* static; NULL: there is no more to say */
    uint32_t server;                        /* else: the holder's number, plus 1; 0: it has none */
    uint32_t left_ms;                       /* then: until the lease ended, unless it was renewed */
    uint32_t count;
    uint8_t kind; /* Leasehold__LeaseEventKind */
    bool of_session;
};
_Static_assert(sizeof(struct lh_m_event) <= 64, "an event is one line");

/* Of a session that is over: whose it was. */
struct lh_m_former {
    uint8_t session[LH_M_SESSION_ID_BYTES];
    char title[LH_M_TITLE_BYTES]; /* cut to whole characters */
};

enum lh_m_event_ring { LH_M_RING_CHUNKS, LH_M_RING_LOCKS, LH_M_RING_VALUES, LH_M_RINGS };

struct lh_m_ring {
    struct lh_m_event *items; /* as many as the configuration says; NULL: nothing happened yet */
    size_t next;              /* where the next one goes */
    uint64_t count;           /* ever */
};

struct lh_m_events {
    struct lh_m_ring rings[LH_M_RINGS];
    struct lh_m_former *formers; /* at (n - 1) % formers_max; NULL: there are none yet */
    uint64_t former_count;       /* ever */
};

/* Subjects. A name's is a digest of its text, as its record goes when nobody uses it. The digest
 * has a secret key: nobody can make a name that he may read collide with one that he may not. */
uint64_t lh_m_event_of_chunk(uint64_t chunk);
uint64_t lh_m_event_of_name(const struct lh_master *m, const char *name);

/* Adds one; `at`, zero: now. */
void lh_m_note(struct lh_master *m, const struct lh_m_event *event);
/* May a request of the session be noted, with all that becomes of it? */
bool lh_m_note_due(struct lh_master *m, struct lh_m_program *p);
/* The session is over: its title is kept for those who look at its events. */
void lh_m_note_over(struct lh_master *m, const struct lh_m_program *p);
/* A server's id, or a session's title; "": nobody's, or it is forgotten. */
const char *lh_m_event_holder(const struct lh_master *m, const struct lh_m_event *event);
/* For `left_ms`, until `end`. */
uint32_t lh_m_event_left(const struct lh_master *m, struct lh_instant end);

/* Where in the events of a subject one is; zeros: before the last one. */
struct lh_m_event_cursor {
    size_t back[LH_M_RINGS];                    /* events that were passed */
    const struct lh_m_event *found[LH_M_RINGS]; /* and not returned */
};

/* The subject's next older event. NULL: there is none that is remembered. */
const struct lh_m_event *lh_m_event_next(
    const struct lh_master *m, uint64_t subject, struct lh_m_event_cursor *cursor);
/* Were there events that are not remembered any more, of a subject of this kind? */
bool lh_m_events_forgotten(const struct lh_master *m, uint64_t subject);

void lh_m_events_deinit(struct lh_master *m);
