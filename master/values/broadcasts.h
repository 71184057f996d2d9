/* Prefixes whose changes all subscribers hear of, so that names under them are cached without a
 * lease each (VAL-5). */
#pragma once

#include "master/tables/tables.h"

/* A prefix whose names are broadcast, or were lately (VAL-5). */
struct lh_m_broadcasting {
    char *prefix;
    bool wanted;                /* its policy says so */
    uint64_t revision;          /* of the last change under it, or a higher one */
    size_t changing;            /* names under it: while there are any, nothing is promised */
    struct lh_instant promised; /* until then, at the latest */
    struct lh_timer timer;      /* to be freed, if it is not `wanted` */
    RB_ENTRY(lh_m_broadcasting) place;
};
RB_HEAD(lh_m_broadcast_tree, lh_m_broadcasting);
RB_PROTOTYPE(lh_m_broadcast_tree, lh_m_broadcasting, place, lh_m_compare_broadcasts)
int lh_m_compare_broadcasts(const struct lh_m_broadcasting *a, const struct lh_m_broadcasting *b);

struct lh_m_subscriptions {
    char **prefixes;
    size_t count, capacity;
};

/* A name begins, or has ended, to change: what covers it promises nothing meanwhile. */
void lh_m_broadcast_pending(struct lh_master *m, const char *name, int by);
/* When the last promise about the name is over. */
struct lh_instant lh_m_broadcast_promised(struct lh_master *m, const char *name);
void lh_m_broadcast_changed(struct lh_master *m, const char *name, uint64_t revision);
/* The longest broadcast prefix that covers the name, and its revision; "" and 0: none does. */
const char *lh_m_broadcast_of(const struct lh_master *m, const char *name, uint64_t *revision);
/* True: it is subscribed. False: `*why` says why not. */
bool lh_m_subscribe(
    struct lh_master *m, struct lh_m_program *p, const char *prefix, const char **why);
void lh_m_subscriptions_free(struct lh_m_program *p);
void lh_m_broadcasts_start(struct lh_master *m);
void lh_m_broadcasts_deinit(struct lh_master *m);
