/* A chunk. */
#ifndef LH_MASTER_TABLES_CHUNK_H
#define LH_MASTER_TABLES_CHUNK_H

#include "master/tables/motion.h"

struct lh_m_chunk {
    /* Durable. */
    uint64_t id;
    struct lh_m_file *file; /* NULL once the file was removed */
    uint64_t index, start;
    uint64_t version;
    struct lh_m_member *members;
    uint32_t member_count;
    bool created, sealed, intent_to_seal;
    uint64_t length, checksum;

    bool removed;
    bool seal_reported; /* RecordSeal went out once since the seal is durable */
    bool seal_backed;   /* this master has seen enough logs for the seal; see lh_m_backed() */
    enum lh_m_condition condition;    /* as it was when the chunk was last looked at */
    const struct lh_m_motion *motion; /* never NULL; see there */

    RB_ENTRY(lh_m_chunk) all_node; /* all chunks that are not removed, by id */
    UT_hash_handle hh;             /* by id */
};
RB_HEAD(lh_m_all, lh_m_chunk);

RB_PROTOTYPE(lh_m_all, lh_m_chunk, all_node, )

/* The version of the chunk's next grant: above every one that was ever heard of (KEEP-4). */
static inline uint64_t lh_m_next_version(const struct lh_m_chunk *c)
{
    return (c->version > c->motion->seen_version ? c->version : c->motion->seen_version) + 1;
}

struct lh_m_chunk *lh_m_chunk_find(const struct lh_master *m, uint64_t id); /* not removed ones */
struct lh_m_chunk *lh_m_chunk_new(struct lh_master *m, struct lh_m_file *f, uint64_t id);
void lh_m_set_sealed(struct lh_master *m, struct lh_m_chunk *c);
struct lh_m_member *lh_m_member(const struct lh_m_chunk *c, const struct lh_m_server *s);
void lh_m_creation_stop(struct lh_master *m, struct lh_m_chunk *c);
bool lh_m_prealloc_known(const struct lh_master *m, uint64_t chunk);
/* The members that the next chunk is placed without; how many. */
uint32_t lh_m_excluded(const struct lh_m_chunk *c, struct lh_m_member *excluded);
/* The one to that server; NULL: none. */
struct lh_m_copy *lh_m_copy_find(const struct lh_m_chunk *c, const struct lh_m_server *s);
/* Is a replica of `c` being copied to the server? */
bool lh_m_copy_at(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_server *s);

#endif
