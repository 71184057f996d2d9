/* The grantor's records: where a lease or a session lies, and how it is found. What may be granted
 * to whom is decided in grantor.c; this part only keeps the books straight. Inside lease/ only.
 *
 * A lease is one `struct lh_record` (what a lookup reads: half a cache line) and one `struct
 * lh_links` (what only a change of membership writes), both under one number. Three kinds:
 *   EXCLUSIVE  the one lease of a key
 *   GROUP      stands for a key that is leased in shared mode: version, recall flag, its members
 *   SHARED     one session's share in a group
 * EXCLUSIVE and GROUP are indexed by key, so one lookup tells the state of a key; SHARED by key and
 * session, so that a holder among very many finds its own at once. A GROUP has at least one member;
 * it is in no session and in no wheel. */
#pragma once

#include "base/prng.h"
#include "lease/grantor.h"
#include "lease/index.h"
#include "lease/segments.h"
#include "lease/wheel.h"

#define LH_SESSION_SLOT_BITS 24
#define LH_SESSION_SLOT_MAX  ((UINT32_C(1) << LH_SESSION_SLOT_BITS) - 1)

enum lh_record_kind { LH_RECORD_FREE, LH_RECORD_EXCLUSIVE, LH_RECORD_GROUP, LH_RECORD_SHARED };

struct lh_record {
    uint64_t key;
    union {
        uint64_t version; /* EXCLUSIVE, GROUP */
        struct {
            uint32_t next; /* SHARED: the group's members, the one that holds longest first */
            uint32_t prev;
        } peer;
    };
    union {
        struct lh_instant end; /* EXCLUSIVE, SHARED: the lease's own */
        struct {
            uint32_t first;
            uint32_t last;
        } members; /* GROUP */
    };
    uint32_t chain;                          /* of the index; of the free list */
    uint32_t session : LH_SESSION_SLOT_BITS; /* EXCLUSIVE, SHARED: number of the session's record */
    uint32_t kind : 2;
    uint32_t recalling : 1; /* EXCLUSIVE, GROUP; SHARED: lh_grantor_cut_next() has cut it */
};

struct lh_links {
    struct lh_wheel_link wheel;
    uint32_t session_next; /* the leases of one session, oldest first */
    uint32_t session_prev;
};

enum lh_session_state {
    LH_SESSION_FREE,
    LH_SESSION_OPEN,
    LH_SESSION_CLOSED, /* runs out */
    LH_SESSION_ENDED,  /* reported as ended; its leases are being handed out */
};

struct lh_session {
    lh_session_id id; /* the number of this record, and above it how often it was used */
    struct lh_instant end;
    void *context;
    struct lh_wheel_link wheel;
    uint32_t first;
    uint32_t last;
    uint32_t next; /* of the free list; of the list of ended ones */
    uint32_t state;
};

/* Numbers of records and sessions start at 1: 0 is none. */
struct lh_grantor {
    struct lh_segments records;
    struct lh_segments links;
    struct lh_segments sessions;
    struct lh_index index;
    uint32_t record_count; /* numbers handed out so far, freed ones included */
    uint32_t record_free;
    uint32_t lease_count; /* EXCLUSIVE and SHARED */
    uint32_t group_count;
    uint32_t session_slots;
    uint32_t session_free;
    uint32_t session_count; /* OPEN and CLOSED */
    uint32_t ended_first;
    uint32_t ended_last;
    /* The latest reading that the caller named: what was over then, stays so. */
    struct lh_instant seen;
    struct lh_wheel lease_wheel; /* by the leases' own ends */
    struct lh_wheel session_wheel;
};

static inline struct lh_record *lh_record_at(const struct lh_grantor *g, uint32_t i)
{
    return lh_segments_at(&g->records, i, sizeof(struct lh_record));
}

static inline struct lh_links *lh_links_at(const struct lh_grantor *g, uint32_t i)
{
    return lh_segments_at(&g->links, i, sizeof(struct lh_links));
}

static inline struct lh_session *lh_session_at(const struct lh_grantor *g, uint32_t slot)
{
    return lh_segments_at(&g->sessions, slot, sizeof(struct lh_session));
}

static inline uint32_t lh_session_slot(lh_session_id s)
{
    return (uint32_t)(s & LH_SESSION_SLOT_MAX);
}

/* When the lease (EXCLUSIVE or SHARED) is over: with its session at the latest (SES-3). */
static inline struct lh_instant lh_record_end(const struct lh_grantor *g, const struct lh_record *r)
{
    return lh_instant_min(r->end, lh_session_at(g, r->session)->end);
}

static inline bool lh_record_in_force(
    const struct lh_grantor *g, const struct lh_record *r, struct lh_instant now)
{
    return !lh_instant_reached(now, lh_record_end(g, r));
}

static inline uint64_t lh_hash_of_key(uint64_t key)
{
    return lh_mix64(key);
}

/* Asks for what lh_table_find() will read first, and then, the bucket having come, for what it will
 * read next. Always inline: gcc takes a function that does nothing but prefetch for one without
 * effect and drops the calls. */
static inline __attribute__((always_inline)) void lh_table_prefetch_bucket(
    const struct lh_grantor *g, uint64_t key)
{
    __builtin_prefetch(lh_index_head(&g->index, lh_index_bucket(&g->index, lh_hash_of_key(key))));
}

static inline __attribute__((always_inline)) void lh_table_prefetch_record(
    const struct lh_grantor *g, uint64_t key)
{
    uint32_t i = lh_index_first(&g->index, lh_hash_of_key(key));
    if (i != 0)
        __builtin_prefetch(lh_record_at(g, i), 1);
}

/* The session, open or closed; NULL if there is none (any more). */
struct lh_session *lh_table_session(const struct lh_grantor *g, lh_session_id s);

/* A new open session with its end in the wheel. Returns its number. */
uint32_t lh_table_session_add(struct lh_grantor *g, struct lh_instant end, void *context);

/* An open or closed session becomes an ended one, out of the wheel, last in the ended list. */
void lh_table_session_to_ended(struct lh_grantor *g, uint32_t slot);

/* The session (without leases, in no list and no wheel) is gone. */
void lh_table_session_free(struct lh_grantor *g, uint32_t slot);

/* The EXCLUSIVE or GROUP record of the key; 0 if nobody has a lease. */
uint32_t lh_table_find(const struct lh_grantor *g, uint64_t key);

/* The SHARED record of this session; 0 if it has none. */
uint32_t lh_table_find_share(const struct lh_grantor *g, uint64_t key, uint32_t session);

/* What the caller has once treated as over must not come back to life because a later call names an
 * earlier reading. */
static inline void lh_table_note_time(struct lh_grantor *g, struct lh_instant now)
{
    g->seen = lh_instant_max(g->seen, now);
}

/* The record of the lease that session `slot` has on the key of record `of_key`; 0 if none. */
uint32_t lh_table_own(const struct lh_grantor *g, uint32_t of_key, uint32_t slot);

/* The key must be free. */
void lh_table_add_exclusive(struct lh_grantor *g, uint64_t key, uint64_t version, uint32_t session,
    struct lh_instant end, bool recalling);

/* The key must be free or a group's, without a share of this session. Sets the group's version. */
void lh_table_add_shared(
    struct lh_grantor *g, uint64_t key, uint64_t version, uint32_t session, struct lh_instant end);

/* Gives the EXCLUSIVE or SHARED record to another session. If that has a share in the group
 * already, the longer of the two is kept. */
void lh_table_move(struct lh_grantor *g, uint32_t i, uint32_t session);

/* The SHARED record becomes the last one of its group. */
void lh_table_share_to_last(struct lh_grantor *g, uint32_t i);

/* Takes an EXCLUSIVE or SHARED record out of everything, and a group with its last member. */
void lh_table_remove(struct lh_grantor *g, uint32_t i);

/* Brings all numbers of the EXCLUSIVE or SHARED record together. */
struct lh_lease_info lh_table_info(const struct lh_grantor *g, uint32_t i);
