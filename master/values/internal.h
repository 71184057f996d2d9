/* What the files of this folder know of each other. What is about one thing has a header of its
 * own. */
#pragma once

#include "master/values/broadcasts.h"
#include "master/values/changing.h"
#include "master/values/watch.h"

/* A session that is over, with values that are attached to it. */
struct lh_m_ended {
    uint8_t session[LH_M_SESSION_ID_BYTES];
    STAILQ_ENTRY(lh_m_ended) next;
};

/* A program that attached again shows a value that is changing: once it has heard what became of
 * its showing, it is told to drop it. */
struct lh_m_late_drop {
    uint64_t link;
    uint32_t name; /* number */
    STAILQ_ENTRY(lh_m_late_drop) next;
};

/* All that this folder remembers. */
struct lh_m_value_state {
    uint64_t last_number;              /* of a changing */
    uint64_t durable;                  /* the last change that is */
    size_t change_count, change_bytes; /* that wait */
    size_t follow_count;               /* of these, for sessions that are over */
    size_t read_count;                 /* that wait */
    TAILQ_HEAD(lh_m_pending_changes_list, lh_m_pending_changes) all, work, committed;
    STAILQ_HEAD(, lh_m_late_drop) late_drops;
    size_t late_drop_count;
    STAILQ_HEAD(, lh_m_ended) ended;
    struct lh_m_broadcast_tree broadcasts;
    size_t watcher_count;
    struct lh_m_watcher_list idle, busy;
    struct {
        Leasehold__BroadcastState *items, **pointers;
        size_t capacity;
    } states;                      /* of lh_m_broadcasts() */
    const struct lh_m_name *clear; /* a lookup that nobody caches: its path may change now */
    struct {
        uint32_t work, commits, bytes;
    } left; /* for this step */
};

/* Something was looked at. Who is looked at in a step makes some progress in it, however little is
 * left of it: so each costs something once it has been done. */
static inline void lh_m_spend(struct lh_m_value_state *v)
{
    v->left.work -= v->left.work > 0;
}

/* The value's revision; 0: there is none. */
static inline uint64_t lh_m_revision_of(const struct lh_m_name *name)
{
    return name == NULL || name->more->value == NULL ? 0 : name->more->value->revision;
}

/* ---- terms.c: for how long a value may be cached (NL-5). */

struct lh_duration lh_m_value_term(
    const struct lh_master *m, const struct lh_m_name *name, const struct lh_m_policy *policy);
struct lh_duration lh_m_lookup_term(const struct lh_master *m);
/* No cache lease is given: there are as many leases as there may be. */
bool lh_m_leases_full(const struct lh_master *m);
/* The lease of this program's on the name is in the engine, with that term from its last heartbeat
 * on; false: it cannot be. */
bool lh_m_cache_grant(
    struct lh_master *m, struct lh_m_program *p, struct lh_m_name *name, struct lh_duration term);
/* It is given up. */
void lh_m_cache_release(struct lh_master *m, struct lh_m_program *p, struct lh_m_name *name);

/* ---- reads.c */

/* Answers it now, but for the moment between commit and durability. */
void lh_m_answer_read(struct lh_master *m, struct lh_m_program *p, const Leasehold__ReadValue *read,
    struct lh_m_name *name);

void lh_m_value_info(const struct lh_m_value *v, bool with_bytes, Leasehold__ValueInfo *info);

/* ---- attached.c */

/* The session is over; a reign begins. */
void lh_m_attached_over(struct lh_master *m, const struct lh_m_program *p);
void lh_m_attached_start(struct lh_master *m);
/* Begins to delete values of sessions that are over, a few at a time. */
void lh_m_attached_step(struct lh_master *m);
bool lh_m_attached_waiting(const struct lh_master *m);
