#ifndef LH_MASTER_CALLS_EXPLAIN_REPLICAS_H
#define LH_MASTER_CALLS_EXPLAIN_REPLICAS_H

#include "master/calls/sentences.h"

/* Why the chunkservers that are there do not suffice. */
void lh_m_say_servers(struct lh_master *m, struct lh_m_sentences *out, uint64_t bytes,
    const struct lh_m_chunk *without);
/* What each replica of the chunk is worth, and what is done about it. */
void lh_m_say_replicas(
    struct lh_master *m, struct lh_m_sentences *out, const struct lh_m_chunk *c);

#endif
