/* Streams of changes (VAL-6). */
#pragma once

#include "master/tables/tables.h"

enum lh_m_watching { LH_M_WATCH_BEGINS, LH_M_WATCH_PAGES, LH_M_WATCH_FOLLOWS };

/* A stream of Watch (VAL-6). */
struct lh_m_watcher {
    struct lh_link link;
    char *prefix;
    bool keys_only;
    bool in_flight; /* a reply has not left yet */
    bool resetting; /* what was sent is not whole before it has followed up to the present */
    enum lh_m_watching state;
    uint64_t next; /* the revision from which on it follows */
    char *after;   /* PAGES: the last name that was looked at; NULL: none yet */
    bool busy;     /* in `busy`; else in `idle`, unless a reply is in flight */
    TAILQ_ENTRY(lh_m_watcher) queue;
};
TAILQ_HEAD(lh_m_watcher_list, lh_m_watcher);
extern const struct lh_link_user lh_m_watch_links;

void lh_m_watch_wake(struct lh_master *m); /* there are new changes, durably */
void lh_m_watch_step(struct lh_master *m);
void lh_m_watch_end(struct lh_master *m, int error, const char *text);
