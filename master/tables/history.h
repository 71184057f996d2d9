/* Values and the last changes of them (VAL-6). Here is what is stored; when a value changes is
 * values/'s to decide. */
#pragma once

#include "master/tables/name.h"

/* A change. Its bytes are shared with the value's while that is the same. */
struct lh_m_value_change {
    uint64_t revision;
    struct lh_buf bytes; /* of a put; in one piece */
    bool removed;        /* there is no value any more */
    bool attached;       /* to `session` */
    uint8_t session[LH_M_SESSION_ID_BYTES];
    uint64_t ticket;
    uint32_t pair;
    bool dirty;
    STAILQ_ENTRY(lh_m_value_change) dirty_link;
    char name[];
};

struct lh_m_history {
    struct lh_idmap changes; /* by revision: the last ones, without a gap but for leaps */
    size_t bytes;            /* of memory, about */
    uint64_t last;           /* revision: the next change gets the next one */
    uint64_t floor;    /* durable with the master's record: none at or below is given out again */
    uint64_t *dropped; /* revisions whose records this step's commit deletes */
    size_t dropped_count, dropped_capacity;
};

struct lh_m_values {
    size_t count;
    size_t bytes;                     /* of all values */
    TAILQ_HEAD(, lh_m_value) orphans; /* attached to a session without a record */
};

/* The value under the name becomes `bytes`, which are taken over, with this step's commit.
 * `program` NULL: attached to no session. A name changes once in a step at most. Returns the
 * revision. */
uint64_t lh_m_value_put(struct lh_master *m, struct lh_m_name *name, struct lh_buf *bytes,
    uint64_t token, struct lh_m_program *program);
/* The value, which is there, is deleted with this step's commit. The name is not settled. */
uint64_t lh_m_value_remove(struct lh_master *m, struct lh_m_name *name);

/* The value, which is attached, is looked at last of those of its session, or of those without. */
void lh_m_value_leaves(struct lh_master *m, struct lh_m_value *v);

/* The first change that is kept and is not before `revision`; NULL: none. */
struct lh_m_value_change *lh_m_history_from(const struct lh_master *m, uint64_t revision);

/* ---- Loading, in memory alone. */

/* `session` NULL: attached to none. */
void lh_m_value_load(struct lh_master *m, const char *name, uint64_t revision, const uint8_t *bytes,
    size_t size, const uint8_t *session, uint64_t token);
/* The session has a record again: values of it that were loaded before are its. */
void lh_m_values_adopt(struct lh_master *m, struct lh_m_program *p);
void lh_m_value_unload(struct lh_master *m, const char *name); /* nothing if there is none */
void lh_m_history_load(struct lh_master *m, uint64_t revision, const char *name, bool removed,
    const uint8_t *bytes, size_t size, const uint8_t *session);
void lh_m_history_forget(struct lh_master *m, uint64_t revision); /* nothing if there is none */

/* ---- The master's. */

/* The end of a step: some changes go that are beyond `history_events` or `history_bytes`. */
void lh_m_history_step(struct lh_master *m);
void lh_m_history_deinit(struct lh_master *m);
