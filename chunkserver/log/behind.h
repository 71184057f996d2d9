/* Where a damaged log ends (REC-9). An open log in which damage is found while it is read back is
 * read on behind it, as REC-9a reads: only batches count whose place is proved. Then the replica is
 * lost, and knows how far its log went: the chunk can be sealed there. */
#pragma once

#include "batch/search.h"
#include "chunkserver/log/replica.h"

struct lh_cs_behind {
    int error;           /* the first damage: what it was, */
    uint64_t damaged_at; /* and where in the log */

    bool searching;              /* for the next whole batch behind damage; else batches are read */
    struct lh_log_search search; /* where it begins */
    uint64_t next;               /* there the next batch begins */
    bool placed;                 /* ... whatever lies before it */

    uint64_t left;       /* bytes that may still be read */
    uint64_t at;         /* the present read begins here in the log ... */
    uint64_t asked;      /* ... and is to bring so many bytes, */
    uint64_t front;      /* of which so many lie before what is wanted */
    uint64_t unreadable; /* so many bytes from there the disk could not read; 0: none */
    unsigned skipped;    /* pieces in a row that it could not read, and that were passed */
};

/* The log is damaged at `offset`, and whole up to its `end`: looks how far it goes, and calls
 * lh_cs_scan_lost(). */
void lh_cs_behind_begin(struct lh_cs_replica *r, int error, uint64_t offset);
/* Reads again what was refused. */
void lh_cs_behind_again(struct lh_cs_replica *r);
