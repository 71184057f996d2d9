/* What a log has only while something goes on with it.
 *
 * A log that grows or has grown lately has this record, and so does one that is read back or
 * changed, waits for its disk, or is sealed and was asked about its writers. Any other has a
 * constant one, in which all is idle: of nearly all replicas, sealed or open, nobody wants
 * anything. So it can be read at any time, and whoever writes asks lh_cs_move() for it. Nothing
 * here is missed once all is idle.
 * The fields are written by the file that is named with them. */
#pragma once

#include "base/buf.h"
#include "base/time.h"
#include "chunkserver/log/replica.h"

#include <stdbool.h>
#include <stdint.h>

/* Whole batches that were accepted and go to the disk with one write. */
struct lh_cs_log_write {
    struct lh_buf bytes;
    uint64_t checksum; /* running checksum behind them */
    struct lh_cs_log_write *prev, *next;
};

/* Who is to hear that a seal is recorded: frozen.c. */
struct lh_cs_sealing {
    lh_cs_job_owner *owner;
    uint64_t session;
};

/* The log is being read back: scan.c. */
struct lh_cs_scan {
    uint64_t at;                 /* log offset of the next read */
    uint64_t checksum;           /* running checksum where `rest` begins */
    struct lh_buf rest;          /* read, not yet a whole batch */
    struct lh_cs_behind *behind; /* the log is damaged, and read on: behind.h; or NULL */
};

struct lh_cs_active {
    struct lh_cs_replica *replica;

    /* Writing: replica.c. */
    struct lh_cs_log_write
        *writes; /* not yet handed to the disk, in order: [end - unwritten, end) */
    struct lh_cs_log_write *filling; /* the last of them, if it may grow */
    uint64_t unwritten;
    uint64_t writing; /* bytes of the write under way, 0: none */
    /* Running checksums behind these, and behind what was written before them. The latter while
     * there is more than that; else it is the replica's. */
    uint64_t writing_checksum, written_checksum;
    uint64_t syncing; /* the sync under way covers this length; 0: none */
    /* Of a buffered log: when the last one began, or the first bytes were written. 0 once the log
     * was idle: that is a while ago then, if the replica says that it `sync_began`. */
    struct lh_instant sync_begun_at;

    /* Changes that run alone: jobs.c. */
    struct lh_cs_job *jobs; /* the first is running if `job_running` */
    bool job_running;

    struct lh_cs_scan *scan; /* NULL: no reads of one are under way */

    struct {               /* space.c: room reserved ahead */
        uint64_t reserved; /* bytes of the log that have room for sure */
        uint64_t tried;    /* up to here a reservation was tried: a full disk gives a part of it */
        bool reserving;    /* and is under way */
        uint64_t again_at; /* the length at which more is to be reserved */
        bool growing;      /* it was created or written to lately: in the room's list of those */
        struct lh_instant grown_at;
        struct lh_instant since; /* a time begins in which its growth is counted ... */
        uint64_t from;           /* ... from that length on */
        uint64_t grew;           /* in the one before */
        struct lh_cs_active *before, *after;
    } space;

    struct { /* frozen.c: it is in the room's list of those */
        bool listed;
        uint32_t waits; /* so often it was made to wait */
        struct lh_instant again_at;
        struct lh_cs_sealing seal; /* `unrecorded`: recorded then */
        struct lh_cs_active *before, *after;
    } frozen;

    struct {       /* tables.c */
        bool kept; /* sealed: its writer table is in memory, and in the room's list of those */
        struct lh_instant asked_at;
        struct lh_cs_active *before, *after;
    } table;
};

extern const struct lh_cs_active lh_cs_idle;

/* The log's record, to write into it: made if it has none, and looked at when the step ends. */
struct lh_cs_active *lh_cs_move(struct lh_cs_replica *r);
/* Has it nothing that anybody will ask for? */
bool lh_cs_is_idle(const struct lh_cs_replica *r);
/* Frees what all of this is about, and the record. */
void lh_cs_active_free(struct lh_cs_replica *r);
