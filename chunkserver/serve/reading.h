/* Reads. */
#pragma once

#include "batch/search.h"
#include "chunkserver/serve/internal.h"

struct lh_cs_reading {
    uint64_t link;
    struct lh_cs_replica *replica;
    uint64_t version;
    uint64_t offset;
    uint64_t max_bytes;
    bool recovery;
    bool paced; /* a replica is being copied (REC-4) */
    bool require_primary;
    struct lh_log_search *search; /* it begins behind damage; NULL: where it says (REC-9a) */
    bool searching;               /* ... and the search has begun */
    bool found;                   /* ... and that is known to be at `offset` */
    uint64_t unreadable;          /* so many bytes from `offset` the disk could not read; 0: none */
    unsigned refused;             /* so often a search has asked for the smallest piece in vain */
    bool some_read;               /* the disk has read something for it */
    uint64_t limit;               /* the read under way stops here */
    uint64_t asked;               /* bytes that it is to bring */
    struct lh_instant until;      /* waits for more until then */
    struct lh_cs_ticket *ticket;
    struct lh_timer timer;
    struct lh_cs_reading *prev, *next;
};

/* The committed length rose, the chunk was sealed, or the replica changed: look again. */
void lh_cs_readings_look(struct lh_cs_replica *r);
void lh_cs_readings_refuse_all(struct lh_cs_replica *r, int error);
