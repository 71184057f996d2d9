/* What the two files of this package know of each other: copy.c works with etcd, directory.c with
 * LMDB. */
#pragma once

#include "master/copy/copy.h"
#include "master/reigns/reigns.h"
#include "master/store/metastore.h"
#include "proto/stored.pb-c.h"
#include "runtime/loop.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

struct lh_copy {
    const struct lh_store_copy *wanted;
    const char *directory;
    char where[PATH_MAX + 300]; /* the directory, as etcd's head names it */
    struct lh_reign_config config;
    struct lh_metastore *store;
    struct lh_master *check; /* while a store is loaded that is to be copied */
    struct lh_reigns *reigns;
    struct lh_loop *loop;

    /* What the directory had at first; of a store that is filled, without the values. */
    struct lh_change *pairs;
    size_t count, capacity;
    LeaseholdStored__Elsewhere *mark; /* NULL: none */
    LeaseholdStored__Master *record;  /* NULL: no metadata */
    uint64_t copy;                    /* of one that is filled: as its mark says */

    bool claimed;    /* etcd's store may not be what it was */
    bool unanswered; /* etcd has said nothing for too long: the core was asked to stop */

    atomic_bool marked;       /* the mark is not what it was, and may become that again */
    atomic_bool undecided;    /* whether the directory is a store now is not known */
    atomic_bool persisting;   /* a commit of the core's is under way, ... */
    atomic_bool starved;      /* ... for which there is no room */
    pthread_mutex_t mutex;    /* guards what follows, once other threads run */
    pthread_cond_t committed; /* the mark is */
    bool closed;              /* the store takes no more commits */
    bool mark_done;
    int mark_error;
    char why[1200];
};

/* Says why; returns `error`. */
int lh_copy_refuse(struct lh_copy *c, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline bool lh_copy_is_interrupted(const struct lh_copy *c)
{
    return c->wanted->interrupted(c->wanted->arg);
}

/* Opens the directory, reads and checks what it has; one that is to be filled gets its mark. */
int lh_copy_open(struct lh_copy *c);
/* The directory's mark is this one, durably; NULL: none. */
int lh_copy_set_mark(struct lh_copy *c, const LeaseholdStored__Elsewhere *mark);
/* The loop's `persist`. In etcd all pairs are there, and the directory is marked; or these are the
 * pairs, instead of what the directory has. Its mark is taken away when they are durable. */
void lh_copy_persist(void *arg, uint64_t ticket, struct lh_change *changes, size_t count);
/* The core may still want commits; what is under way completes. */
void lh_copy_close_store(struct lh_copy *c);
