/* What the files of names know of each other: the room's state, and what it keeps in a session. */
#pragma once

#include "client/core/names/names.h"
#include "lease/term.h"

#include <uthash.h>

/* lookups.c: which file has a path (VAL-7). */
struct lh_client_lookups {
    enum {
        LH_LOOKUPS_NONE, /* no session */
        LH_LOOKUPS_OPENING,
        LH_LOOKUPS_UP,
        LH_LOOKUPS_CLOSING
    } state;
    struct lh_client_session *session; /* UP */
    struct lh_session_open_call opening;
    struct lh_session_close_call closing;
    struct lh_instant rest_until; /* none is opened before */
    bool ended;                   /* none is opened any more */
    struct lh_lookups_end_call *ending;
    char *host, *process;

    /* hints.c: by file, and by their last use. */
    struct lh_client_hint *hints, *hints_by_use;
    size_t hint_bytes;
};

struct lh_client_names {
    struct lh_client_host *client;
    struct lh_client_sessions *sessions;
    struct lh_client_lookups lookups;
    struct lh_client_watch *watches; /* watch.c */
    size_t watch_count;
};

/* The cached values of a session, and those that were read under a promise (cache.h). */
struct lh_client_cache {
    struct lh_client_cached **buckets; /* a power of two of them */
    size_t bucket_count;
    struct lh_client_cached
        *hand; /* a ring: the next one that is looked at when there are too many */
    size_t count, bytes;
};

/* What is kept in a session. */
struct lh_client_session_names {
    struct lh_client_names *all;
    uint64_t last_id; /* of requests and locks */

    /* locks.c. Guarded. */
    struct lh_client_lock *by_name, *by_id;
    struct lh_client_withdrawn *withdrawn, *withdrawn_ids; /* by name, by id; not guarded */

    /* values.c */
    struct lh_client_cache cache;            /* guarded */
    struct lh_client_prefix *prefixes;       /* guarded; broadcast.c */
    struct lh_client_read *reads, *read_ids; /* under way, by name and by id */
    size_t get_count;                        /* calls that wait for them */
    Leasehold__ValueRead *aside;             /* a planted bug's */
};

/* ---- showing.c: all that there is. */

void lh_client_names_show(struct lh_client_session *s, struct lh_client_showing *w);

/* ---- lookups.c */

void lh_client_lookups_init(struct lh_client_names *n, const struct lh_client_config *config);
void lh_client_lookups_deinit(struct lh_client_names *n);
void lh_client_lookups_check(const struct lh_client_names *n);

/* ---- hints.c */

void lh_client_hints_clear(struct lh_client_names *n);
void lh_client_hints_check(const struct lh_client_names *n);

/* ---- watch.c */

void lh_client_watches_check(const struct lh_client_names *n);
