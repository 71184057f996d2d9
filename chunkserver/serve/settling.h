/* What of a writer is in a sealed chunk (APP-5a). */
#pragma once

#include "chunkserver/serve/internal.h"

struct lh_cs_settling {
    uint64_t link;
    struct lh_cs_replica *replica;
    uint64_t version;
    uint64_t writer;
    struct lh_instant until; /* waits for the seal until then */
    struct lh_timer timer;
    struct lh_cs_settling *prev, *next;
};

/* The chunk was sealed, or the replica has changed: look again. */
void lh_cs_settlings_look(struct lh_cs_replica *r);
void lh_cs_settlings_refuse_all(struct lh_cs_replica *r, int error);
