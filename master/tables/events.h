/* What lately became of leases: grants, recalls and ends, to be looked at (ListEvents). Nothing
 * depends on them, and a master that takes over has none of before.
 *
 * They are one ring in the order of time. Whoever lists walks all of it; so noting one is a line
 * that is written behind the last one, and nothing that is read. Programs take locks a million
 * times in a second, and a ring of that would have nothing but the last moment of the busiest: so
 * a session's requests for locks are noted up to a number in a second, each with all that becomes
 * of it, and those beyond are counted (lh_m_note_due()). A renewal is no event either, as holders
 * renew by the thousand: how many there were, and when the last one was, is noted when the lease
 * ends, or told when it is looked at. */
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

struct lh_m_events {
    struct lh_m_event *items;    /* `events_max` of them; NULL: nothing happened yet */
    size_t next;                 /* where the next one goes */
    uint64_t count;              /* ever */
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

/* The subject's next older event; `*cursor` is 0 for the last one, and this function's. NULL: there
 * is none that is remembered. */
const struct lh_m_event *lh_m_event_next(
    const struct lh_master *m, uint64_t subject, size_t *cursor);
/* Were there events that are not remembered any more, of whatever subject? */
bool lh_m_events_forgotten(const struct lh_master *m);

void lh_m_events_deinit(struct lh_master *m);
