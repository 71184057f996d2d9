/* New chunks, and those created ahead of their need. */
#pragma once

#include "master/tables/tables.h"

/* ---- What new chunks report to those above them, who fill this in. */

struct lh_m_growth_owner {
    /* The file's preallocated chunk has all its replicas, or others than before. */
    void (*changed)(struct lh_master *m, struct lh_m_file *f);
};

/* ---- creation.c */

/* Allocates the file's next chunk. On failure nothing changed; the waiters' deadline says why. */
int lh_m_create_chunk(struct lh_master *m, struct lh_m_file *f);
void lh_m_creation_start(struct lh_master *m, struct lh_m_chunk *c);
bool lh_m_creation_done(const struct lh_m_chunk *c);
/* CreateReplica to the members that have not confirmed; to `only` if not NULL. */
void lh_m_creation_send(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *only);
/* Member `i` did not create its replica. Another server takes its place, or nobody if enough are
 * left; else it stays and has another chance. True: the members changed. */
bool lh_m_creation_replace(struct lh_master *m, struct lh_m_chunk *c, uint32_t i, const char *why);

/* ---- created.c */

void lh_m_on_created(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report);

/* ---- preallocated.c */

/* The file's tail takes appends: sees to it that the next chunk is preallocated, if the file is of
 * the growing kind. */
void lh_m_prealloc_want(struct lh_master *m, struct lh_m_file *f);
void lh_m_preallocs_durable(struct lh_master *m);
/* True: the report was about a preallocated chunk. */
bool lh_m_prealloc_created(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report);
/* The file's tail was sealed in this step: the preallocated chunk becomes its next one in the
 * seal's own commit, and is granted in it if all its replicas are there. */
void lh_m_prealloc_take(struct lh_master *m, struct lh_m_file *f);
void lh_m_prealloc_free(struct lh_master *m, struct lh_m_prealloc *prealloc);
/* How many members of the file's preallocated chunk could be used; the `count` excluded servers do
 * not count. */
uint32_t lh_m_prealloc_fit(const struct lh_master *m, const struct lh_m_file *f,
    const struct lh_m_member *excluded, uint32_t count);
/* Sees to it that the file has a preallocated chunk without the excluded servers, in this step's
 * commit. Too few servers for that: it has none afterwards. */
void lh_m_prealloc_for_roll(
    struct lh_master *m, struct lh_m_file *f, const struct lh_m_member *excluded, uint32_t count);
/* Every member has created its replica and can be granted the lease. */
bool lh_m_prealloc_ready(const struct lh_master *m, const struct lh_m_file *f);
/* Drops the members that are not ready, if the others are enough; false: they are not. */
bool lh_m_prealloc_shrink(struct lh_master *m, struct lh_m_file *f);
/* The file is idle or gone: gives the room back. */
void lh_m_prealloc_drop(struct lh_master *m, struct lh_m_file *f);
