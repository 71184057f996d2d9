/* A chunk. */
#pragma once

#include "master/tables/active.h"
#include "master/tables/preallocated.h"
#include "master/tables/server.h"
#include "master/tables/waiter.h"

/* Nearly all chunks have at most so many members. */
#define LH_M_FEW 3u

struct lh_m_chunk {
    /* Durable. */
    uint64_t id;
    uint64_t start, length;
    uint64_t version, checksum;
    struct lh_m_file *file;           /* NULL once the file was removed */
    const struct lh_m_active *active; /* never NULL; see there */
    struct lh_m_member *members;      /* `few`, if these suffice */
    struct lh_m_member few[LH_M_FEW];
    uint32_t index;
    uint8_t member_count;
    bool created : 1, sealed : 1, intent_to_seal : 1; /* durable, too */

    bool removed : 1;
    bool enqueued : 1;      /* in `m->enqueued` */
    bool seal_reported : 1; /* RecordSeal went out once since the seal is durable */
    bool seal_backed : 1;   /* this master has seen enough logs for the seal; see lh_m_backed() */
    unsigned condition : 2; /* enum lh_m_condition: as it was when the chunk was last looked at */
    uint8_t seen_behind;    /* without a record of what goes on: see lh_m_seen_version() */
};
_Static_assert(sizeof(struct lh_m_chunk) == 96, "there are millions of them");

/* The holder of its lease; NULL: none. */
static inline struct lh_m_server *lh_m_holder(const struct lh_m_chunk *c)
{
    const struct lh_lease_client *holder = c->active->grant->lease.holder;

    return holder == NULL ? NULL : lh_m_client_server(holder);
}

/* The highest version that any server reported of the open chunk; 0: none. If nothing goes on with
 * it that is at most its own, and remembered by the distance. A distance that is too long for that
 * is remembered as a shorter one: who reported the version then seems to know more. */
static inline uint64_t lh_m_seen_version(const struct lh_m_chunk *c)
{
    if (c->active != &lh_m_idle)
        return c->active->seen_version;
    return c->seen_behind == 0 ? 0 : c->version + 1 - c->seen_behind;
}

/* The version of the chunk's next grant: above every one that was ever heard of (KEEP-4). */
static inline uint64_t lh_m_next_version(const struct lh_m_chunk *c)
{
    uint64_t seen = lh_m_seen_version(c);

    return (c->version > seen ? c->version : seen) + 1;
}

struct lh_m_chunk *lh_m_chunk_find(const struct lh_master *m, uint64_t id); /* not removed ones */
/* The first one from that number on; not removed ones. */
struct lh_m_chunk *lh_m_chunk_from(const struct lh_master *m, uint64_t id);
/* Is it removed, and that not durable yet? */
bool lh_m_chunk_leaves(const struct lh_master *m, uint64_t id);
/* Could this caller not reach the primary that the chunk had when it called? */
bool lh_m_chunk_is_lost_to(const struct lh_m_chunk *c, const struct lh_m_waiter *w);
/* The file's next one. */
struct lh_m_chunk *lh_m_chunk_new(struct lh_master *m, struct lh_m_file *f, uint64_t id);
/* At that place, which is behind the last one or free. */
struct lh_m_chunk *lh_m_chunk_new_at(
    struct lh_master *m, struct lh_m_file *f, uint32_t index, uint64_t id);
void lh_m_set_sealed(struct lh_master *m, struct lh_m_chunk *c);
/* Writes the set of members. Pointers to members do not outlive a change of it. */
void lh_m_members_set(struct lh_m_chunk *c, const struct lh_m_member *members, uint32_t count);
struct lh_m_member *lh_m_member_add(struct lh_m_chunk *c, struct lh_m_member member);
void lh_m_member_remove(struct lh_m_chunk *c, const struct lh_m_member *member);
struct lh_m_member *lh_m_member(const struct lh_m_chunk *c, const struct lh_m_server *s);
struct lh_m_member *lh_m_prealloc_member(
    const struct lh_m_prealloc *prealloc, const struct lh_m_server *s);
void lh_m_creation_stop(struct lh_master *m, struct lh_m_chunk *c);
bool lh_m_prealloc_known(const struct lh_master *m, uint64_t chunk);
/* The members that the next chunk is placed without; how many. */
uint32_t lh_m_excluded(const struct lh_m_chunk *c, struct lh_m_member *excluded);
/* The one to that server; NULL: none. */
struct lh_m_copy *lh_m_copy_find(const struct lh_m_chunk *c, const struct lh_m_server *s);
/* Is a replica of `c` being copied to the server? */
bool lh_m_copy_at(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_server *s);
