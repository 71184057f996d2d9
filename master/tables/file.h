/* A file. */
#ifndef LH_MASTER_TABLES_FILE_H
#define LH_MASTER_TABLES_FILE_H

#include "master/tables/common.h"
#include "master/tables/timers.h"
#include "master/tables/waiter.h"

struct lh_m_file {
    /* Durable. */
    uint64_t id;
    char *path;
    Leasehold__Durability durability;
    uint32_t replication, min_replicas;
    uint64_t chunk_size;
    uint64_t created_unix_ms;
    Leasehold__OnPrimaryLoss on_primary_loss;

    bool dirty, removed;
    uint64_t ticket; /* of the last commit with this file or one of its chunks */
    STAILQ_ENTRY(lh_m_file) dirty_link;

    struct lh_m_chunk **chunks; /* by index */
    struct lh_m_prealloc *prealloc; /* NULL: none */
    size_t chunk_count, chunk_capacity;

    TAILQ_HEAD(, lh_m_waiter) waiters;
    uint32_t waiter_count;
    TAILQ_ENTRY(lh_m_file) waited_link; /* in `m->waited` while it has waiters */
    TAILQ_ENTRY(lh_m_file) work_link;
    bool in_work;
    struct lh_instant place_in_full_until; /* its next chunk waits for all its replicas no longer;
                                              NEVER: it does not wait */
    struct lh_m_timer timer;               /* for that */

    struct lh_instant consent_from;   /* its primary is not asked for consent before this */
    struct lh_duration consent_rest;  /* after the last time */
    uint32_t consents;                /* times in a row */

    /* In the trash (KEEP-5). Durable but for the times, which go with the master's clock. */
    bool trashed;
    uint64_t trash_number;         /* files get rising ones as they are removed */
    struct lh_duration trash_left; /* as it is in the store, at `trash_from` */
    struct lh_instant trash_from;
    struct lh_m_timer trash_timer;

    RB_ENTRY(lh_m_file) path_node; /* in `m->paths`, or in `m->trash` if trashed */
};
RB_HEAD(lh_m_paths, lh_m_file);
RB_HEAD(lh_m_trash, lh_m_file); /* by path and id */

RB_PROTOTYPE(lh_m_paths, lh_m_file, path_node, )
RB_PROTOTYPE(lh_m_trash, lh_m_file, path_node, )

/* Its last chunk; NULL: it has none. */
static inline struct lh_m_chunk *lh_m_tail(const struct lh_m_file *f)
{
    return f->chunk_count == 0 ? NULL : f->chunks[f->chunk_count - 1];
}

struct lh_m_file *lh_m_file_by_path(const struct lh_master *m, const char *path);
struct lh_m_file *lh_m_file_by_id(const struct lh_master *m, uint64_t id);
struct lh_m_file *lh_m_file_new(
    struct lh_master *m, uint64_t id, const char *path, bool trashed);
void lh_m_file_free(struct lh_m_file *f);
/* The file of that path that was removed last; NULL: there is none. */
struct lh_m_file *lh_m_trash_find(const struct lh_master *m, const char *path);

#endif
