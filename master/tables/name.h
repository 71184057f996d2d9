/* A name of a lock, of a value, or of both. There are as many of these as leases on different
 * names, so they are small: what few names have is in a record of its own. Who holds a lock, and
 * who caches the value, the engine alone knows: leases of the kinds LH_M_LEASE_LOCK and
 * LH_M_LEASE_VALUE with the name's number as their id, and the token as a lock's version. */
#pragma once

#include "master/tables/program.h"

#define LH_M_NAME_BYTES_MAX  1024u
#define LH_M_KEPT_BYTES_MAX  (LH_KEY_BYTES_MAX - 1) /* of a name or prefix that is part of a key */
#define LH_M_VALUE_BYTES_MAX 65536u
#define LH_M_INFO_BYTES_MAX  256u

/* The value under a name. */
struct lh_m_value {
    struct lh_m_name *name;
    /* Durable. */
    uint64_t revision;   /* of its last change */
    struct lh_buf bytes; /* in one piece */
    uint64_t token;      /* that it was changed with last (VAL-3); 0: with none */
    bool attached;       /* to `session` (VAL-4) */
    uint8_t session[LH_M_SESSION_ID_BYTES];

    struct lh_m_program *program; /* of that session; NULL: it has no record, or none is attached */
    TAILQ_ENTRY(lh_m_value) attached_link; /* with `program` */
    TAILQ_ENTRY(lh_m_value) orphan_link;   /* attached, without `program` */
    uint64_t ticket;                       /* of the commit with its last change */
    struct lh_instant changed_at;          /* zero: before this master's start (NL-5) */
    uint32_t pair;
    bool leaving; /* its session is over, and the change that deletes it waits */
};

struct lh_m_lock_state;      /* of locks/: who waits, who shares, recalls */
struct lh_m_pending_changes; /* of values/: changes and reads that wait (VAL-2) */

/* What few names have. */
struct lh_m_name_more {
    struct lh_m_value *value; /* NULL: there is none */
    struct lh_m_lock_state *lock_state;
    struct lh_m_pending_changes *changing;
};
extern const struct lh_m_name_more lh_m_name_nothing;

struct lh_m_name {
    RB_ENTRY(lh_m_name) place;         /* by bytes */
    const struct lh_m_name_more *more; /* lh_m_name_nothing: nothing of it */
    uint32_t number;                   /* in `m->names.by_number`: the id of its leases */
    uint32_t leases;                   /* of the engine's, of both kinds */
    uint32_t caches : 31;              /* of these, on the value */
    uint32_t noted : 1;                /* its lock's grant is among the events */
    uint32_t held_since; /* an exclusive lock without a record: seconds of the clock */
    char text[];
};
RB_HEAD(lh_m_name_tree, lh_m_name);
RB_PROTOTYPE(lh_m_name_tree, lh_m_name, place, lh_m_compare_names)
int lh_m_compare_names(const struct lh_m_name *a, const struct lh_m_name *b);

/* In pages, which are not moved: with a million names an array that doubles would cost as much as
 * what it points to. */
#define LH_M_NAME_PAGE 4096u

/* Of the names that were looked up last, by a hash: what is acquired is soon released, and
 * a walk down a tree of a million names misses the processor's caches at every step. */
#define LH_M_NAMES_RECENT 1024u

struct lh_m_names {
    struct lh_m_name_tree tree;
    struct lh_m_name ***by_number; /* pages; 0 is none's */
    uint32_t *free_numbers;        /* the one that was freed last goes first */
    size_t number_count, page_count, page_capacity, free_count, free_capacity;
    size_t count;
    size_t lookups;                              /* of these, lookups of files (VAL-7) */
    struct lh_m_name *recent[LH_M_NAMES_RECENT]; /* NULL: none */
};

/* Is it one? The text says what is wrong. */
int lh_m_name_check(const char *text, char *why, size_t why_size);
/* TOO_LARGE if nothing can be kept under it: `what` names it in the text. What older releases kept
 * in etcd under longer names can be read and deleted. */
int lh_m_name_check_kept(const char *what, const char *text, char *why, size_t why_size);
/* Of a file's path (VAL-7), and no name that a program can give anything: these begin with "/". */
static inline bool lh_m_is_lookup(const char *text)
{
    return text[0] == ':';
}
/* NULL: nobody has used it. */
struct lh_m_name *lh_m_name_find(const struct lh_master *m, const char *text);
struct lh_m_name *lh_m_name_get(struct lh_master *m, const char *text); /* made if unknown */
struct lh_m_name *lh_m_name_by_number(const struct lh_master *m, uint64_t number);
/* The first name that is not before `text`; NULL: none. And the next one. */
struct lh_m_name *lh_m_name_from(const struct lh_master *m, const char *text);
struct lh_m_name *lh_m_name_next(struct lh_m_name *name);
/* To be written to. */
struct lh_m_name_more *lh_m_name_more(struct lh_m_name *name);
/* Frees it if nobody has a use for it any more: no value, no lease, nothing that waits. */
void lh_m_name_settle(struct lh_master *m, struct lh_m_name *name);

static inline uint64_t lh_m_lock_key(const struct lh_m_name *name)
{
    return lh_untracked_key(LH_M_LEASE_LOCK, name->number);
}

static inline uint64_t lh_m_cache_key(const struct lh_m_name *name)
{
    return lh_untracked_key(LH_M_LEASE_VALUE, name->number);
}
