/* A name of a lock, of a value, or of both. There are as many of these as leases on different names,
 * so they are small: what few names have is in structs of their own. Who holds a lock, and who
 * caches the value, the engine alone knows: leases of the kinds LH_M_LEASE_LOCK and
 * LH_M_LEASE_VALUE with the name's number as their id, and the token as a lock's version. */
#pragma once

#include "master/tables/program.h"

#define LH_M_NAME_BYTES_MAX  1024u
#define LH_M_VALUE_BYTES_MAX 65536u
#define LH_M_INFO_BYTES_MAX  256u

/* The value under a name. */
struct lh_m_value {
    struct lh_m_name *name;
    /* Durable. */
    uint64_t revision; /* of its last change */
    struct lh_buf bytes;
    uint64_t token;               /* that it was changed with last (VAL-3); 0: with none */
    struct lh_m_program *program; /* that it is attached to (VAL-4); NULL: to none */
    TAILQ_ENTRY(lh_m_value) attached_link;

    struct lh_instant changed_at; /* or this reign's start (NL-5) */
};

struct lh_m_name {
    RB_ENTRY(lh_m_name) place; /* by bytes */
    struct lh_m_value *value;  /* NULL: there is none */
    struct lh_m_locking *locking;   /* of locks/: who waits, recalls; NULL: nothing of it */
    struct lh_m_changing *changing; /* of values/: a change waits (VAL-2); NULL: none */
    uint32_t number;                /* in `m->names.by_number`: the id of its leases */
    uint32_t references;            /* it goes when nothing of all this is left */
    uint16_t size;
    char text[]; /* ends in NUL */
};
RB_HEAD(lh_m_name_tree, lh_m_name);

struct lh_m_names {
    struct lh_m_name_tree tree;
    struct lh_m_name **by_number; /* 0 is none's */
    uint32_t *free_numbers;       /* the one that was freed last goes first */
    size_t number_count, number_capacity, free_count, free_capacity;
    size_t count;
};

struct lh_master;

/* NULL: nobody has used it. */
struct lh_m_name *lh_m_name_find(const struct lh_master *m, const char *text);
struct lh_m_name *lh_m_name_get(struct lh_master *m, const char *text); /* made if unknown */
struct lh_m_name *lh_m_name_by_number(const struct lh_master *m, uint64_t number);
/* The first name that is not before `text`; NULL: none. And the next one. */
struct lh_m_name *lh_m_name_from(const struct lh_master *m, const char *text);
struct lh_m_name *lh_m_name_next(struct lh_m_name *name);
/* Frees it if nobody has a use for it any more: no value, no lease, nothing that waits. */
void lh_m_name_settle(struct lh_master *m, struct lh_m_name *name);
