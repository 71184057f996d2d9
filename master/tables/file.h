/* A file. */
#pragma once

#include "master/tables/common.h"
#include "master/tables/waiter.h"

/* What a file has only while something is going on with it; as struct lh_m_active. */
struct lh_m_file_active {
    struct lh_m_file *file;
    bool unsettled; /* in `m->unsettled_files` */
    bool dirty;
    bool in_work;
    struct lh_m_prealloc *prealloc; /* NULL: none */
    TAILQ_HEAD(, lh_m_waiter) waiters;
    uint32_t waiter_count;
    struct lh_instant place_in_full_until; /* its next chunk waits for all its replicas no longer;
                                              NEVER: it does not wait */
    struct lh_timer timer;                 /* for that */

    struct lh_instant consent_from;  /* its primary is not asked for consent before this */
    struct lh_duration consent_rest; /* after the last time */
    uint32_t consents;               /* times in a row */

    /* In the trash (KEEP-5). Durable but for the times, which go with the master's clock. */
    uint64_t trash_number;         /* files get rising ones as they are removed */
    struct lh_duration trash_left; /* as it is in the store, at `trash_from` */
    struct lh_instant trash_from;
    struct lh_timer trash_timer;

    /* Who may append (TOK-2). Durable. Written by grants/. */
    uint64_t fence;  /* the highest token that was admitted; 0: there is no fence */
    char *lock_name; /* whose token that is; NULL: there is none */

    STAILQ_ENTRY(lh_m_file_active) dirty_link;
    TAILQ_ENTRY(lh_m_file_active) waited_link; /* in `m->waited` while it has waiters */
    TAILQ_ENTRY(lh_m_file_active) work_link, unsettled_link;
};

struct lh_m_file {
    /* Durable. */
    uint64_t id;
    char *path;
    uint64_t created_unix_ms;
    uint64_t chunk_size;
    uint8_t replication, min_replicas;
    uint8_t durability, on_primary_loss; /* the wire's numbers */
    bool trashed : 1;                    /* KEEP-5 */

    bool removed : 1;
    uint64_t ticket; /* of the last commit with this file or one of its chunks */
    uint32_t pair;   /* pairs.h; here and in all other records */
    const struct lh_m_file_active *active; /* never NULL */
    uint32_t chunk_count, chunk_capacity;
    union {
        struct lh_m_chunk *only;  /* if `chunk_capacity` is 0 */
        struct lh_m_chunk **many; /* by index */
    } chunks;
    RB_ENTRY(lh_m_file) path_node; /* in `m->paths`, or in `m->trash` if trashed */
};
_Static_assert(sizeof(struct lh_m_file) <= 112, "there are millions of them");
RB_HEAD(lh_m_paths, lh_m_file);
RB_HEAD(lh_m_trash, lh_m_file); /* by path and id */

RB_PROTOTYPE(lh_m_paths, lh_m_file, path_node, )
RB_PROTOTYPE(lh_m_trash, lh_m_file, path_node, )

extern const struct lh_m_file_active lh_m_file_idle;

static inline struct lh_m_chunk *lh_m_file_chunk(const struct lh_m_file *f, size_t index)
{
    return f->chunk_capacity == 0 ? f->chunks.only : f->chunks.many[index];
}

/* Its last chunk; NULL: it has none. */
static inline struct lh_m_chunk *lh_m_tail(const struct lh_m_file *f)
{
    return f->chunk_count == 0 ? NULL : lh_m_file_chunk(f, f->chunk_count - 1);
}

struct lh_m_file *lh_m_file_by_path(const struct lh_master *m, const char *path);
struct lh_m_file *lh_m_file_by_id(const struct lh_master *m, uint64_t id);
/* What it was created with, which never changes; nothing else is filled in. */
void lh_m_file_attributes(const struct lh_m_file *f, Leasehold__FileInfo *info);
struct lh_m_file *lh_m_file_new(struct lh_master *m, uint64_t id, const char *path, bool trashed);
/* Into the index of its path, or of the trash if it is trashed, and out of it. No other file that
 * is there has the path. */
void lh_m_file_enter(struct lh_master *m, struct lh_m_file *f);
void lh_m_file_leave(struct lh_master *m, struct lh_m_file *f);
void lh_m_file_append(struct lh_m_file *f, struct lh_m_chunk *c);
/* In the place of another one. NULL: nothing is there, until the end of an amendment (amend.c). */
void lh_m_file_set_chunk(struct lh_m_file *f, uint32_t index, struct lh_m_chunk *c);
void lh_m_file_drop_last(struct lh_m_file *f);
void lh_m_file_free(struct lh_master *m, struct lh_m_file *f);
/* The file's record, to write into it; as lh_m_move(), and lh_m_actives_settle(). */
struct lh_m_file_active *lh_m_move_file(struct lh_master *m, struct lh_m_file *f);
void lh_m_file_actives_settle(struct lh_master *m);
/* The file of that path that was removed last; NULL: there is none. */
struct lh_m_file *lh_m_trash_find(const struct lh_master *m, const char *path);
