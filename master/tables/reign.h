/* The reigns that this store has seen (SES-9): a number alone does not say which history it is of.
 */
#pragma once

#include "master/tables/common.h"

struct lh_m_reign {
    uint64_t number; /* the master term */
    uint64_t name;   /* drawn for it; not 0 */
    bool restored;   /* it began with --restored */
    uint32_t pair;
};

struct lh_m_reigns {
    struct lh_m_reign *items; /* by number; the last one is the present reign's */
    size_t count, capacity;
    uint64_t restored; /* the last reign that began with --restored; 0: none */
    uint64_t above;    /* seen elsewhere: this step begins a reign above it; 0: none is due */
    struct {
        uint64_t number, name; /* 0: without a name */
    } heard[2];                /* from whoever asks which master acts, before this step */
    bool dirty;                /* the last one is written with this step's commit ... */
    uint64_t forgotten;        /* ... and this one's record deleted; 0: none */
};

/* NULL: the store has none of that number. */
struct lh_m_reign *lh_m_reign_find(const struct lh_master *m, uint64_t number);
/* The name that the store has at that number; 0: none. */
uint64_t lh_m_reign_name(const struct lh_master *m, uint64_t number);
/* The reign `m->term` begins: its name, in memory and with this step's commit. */
void lh_m_reign_begin(struct lh_master *m, uint64_t name, bool restored);

/* ---- Loading, in memory alone. */

void lh_m_reign_load(struct lh_master *m, uint64_t number, uint64_t name, bool restored);
void lh_m_reign_forget(struct lh_master *m, uint64_t number); /* nothing if there is none */
