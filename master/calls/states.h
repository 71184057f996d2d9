#ifndef LH_MASTER_CALLS_STATES_H
#define LH_MASTER_CALLS_STATES_H

#include "master/calls/views.h"

/* A chunk as the operator sees it. Owns its arrays; its strings are the tables'. */
struct lh_m_chunk_state {
    Leasehold__ChunkState state;
    struct lh_m_chunk_view view;
    Leasehold__ReplicaInfo *replicas, **pointers;
    size_t capacity;
};

/* Fills `s`, which must stay where it is; release it with lh_m_chunk_state_free(). */
void lh_m_chunk_state(
    const struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_chunk_state *s);
void lh_m_chunk_state_free(struct lh_m_chunk_state *s); /* nothing if it is all zero */
void lh_m_list_chunks(
    struct lh_master *m, uint64_t link, const Leasehold__ListChunksRequest *request);

#endif
