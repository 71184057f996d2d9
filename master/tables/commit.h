/* What is under way to the store, and what waits for that. */
#pragma once

#include "master/tables/common.h"

/* A chunk that was removed: its number is never used again, and replicas of it may go (FENCE-2). */
struct lh_m_tombstone {
    uint64_t chunk, version;
};

struct lh_m_mark {
    uint64_t chunk, version;
    bool put;
    STAILQ_ENTRY(lh_m_mark) link;
};

/* A pair that is to be written again, whatever the store has. */
struct lh_m_again {
    STAILQ_ENTRY(lh_m_again) link;
    size_t key_size;
    uint8_t key[]; /* which has a meaning (stored.h), or is to go */
};

struct lh_m_commit {
    uint64_t ticket;
    uint64_t *chunks;
    size_t chunk_count, chunk_capacity;
    struct lh_m_server **servers; /* servers are never freed */
    size_t server_count, server_capacity;
    struct lh_m_program **programs; /* freed when their records are durable, at the earliest */
    size_t program_count, program_capacity;
    TAILQ_ENTRY(lh_m_commit) link;
};

/* A reply that depends on commits under way. */
struct lh_m_reply {
    uint64_t ticket, link;
    struct lh_buf message;
    TAILQ_ENTRY(lh_m_reply) queue;
};
