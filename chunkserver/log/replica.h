/* One chunk's log and header on this server's disk. */
#pragma once

#include "batch/batch.h"
#include "chunkserver/log/header.h"
#include "chunkserver/log/logs.h"
#include "chunkserver/log/motion.h"

#include <utlist.h>

enum lh_cs_replica_state {
    LH_CS_REPLICA_CREATING,
    LH_CS_REPLICA_LOADING,    /* its header is being read */
    LH_CS_REPLICA_SCANNING,   /* its log is being read back */
    LH_CS_REPLICA_TRUNCATING, /* its file is being cut; then it is read back again */
    LH_CS_REPLICA_READY,
    LH_CS_REPLICA_LOST, /* unreadable, failed or marked so (FAIL-4, FAIL-5) */
    LH_CS_REPLICA_REMOVING
};

struct lh_cs_replica {
    uint64_t chunk; /* the first field: see base/idmap.h */
    struct lh_cs_logs *logs;
    struct lh_cs_host *cs; /* theirs */
    void *slots[LH_CS_SLOTS];
    const struct lh_cs_motion *motion; /* what goes on with the log: motion.h */
    enum lh_cs_replica_state state;
    unsigned outstanding; /* tickets under way: disk.c */

    /* The header: replica.c, jobs.c; who begins or copies a replica writes it, too. */
    struct lh_chunk_header header; /* as durable, or being written by the running job */
    uint64_t adopting;             /* the highest version adopted or being adopted */
    bool headless;                 /* no valid header was found */
    bool header_unsynced;          /* it was written, not synced; the other slot is on the disk */
    bool incomplete;               /* REC-4: nobody's full member until it is copied or has joined;
                                      on the disk before the first foreign byte is */
    bool added_up;                 /* serve/: a copy of this life has compared it with the seal */

    bool loading;      /* registration waits for its header and log to be read: scan.c */
    bool stirred;      /* it is looked at when the step ends: motion.c */
    struct {           /* reports.c: what a registration did not report */
        bool creation; /* it was created after a registration that did not name it */
        int loss;      /* why it was lost, after a registration that called it good */
    } unreported;

    /* The log: replica.c. */
    uint64_t end;       /* bytes accepted */
    uint64_t checksum;  /* running checksum at `end` */
    uint64_t written;   /* bytes in the operating system's hands */
    uint64_t synced;    /* bytes known to be on the disk */
    uint64_t committed; /* as far as known here (APP-6) */
};

struct lh_cs_replica *lh_cs_replica_find(struct lh_cs_logs *logs, uint64_t chunk);
struct lh_cs_replica *lh_cs_replica_add(
    struct lh_cs_logs *logs, uint64_t chunk, enum lh_cs_replica_state state);
void lh_cs_replica_free(struct lh_cs_replica *r);

uint64_t lh_cs_replica_durable(const struct lh_cs_replica *r);
/* REC-2a: bytes of it may have gone with the machine. */
bool lh_cs_replica_unverified(const struct lh_cs_replica *r);
/* The master has sealed the chunk (SEAL-1); recorded here or about to be. */
bool lh_cs_replica_sealing(const struct lh_cs_replica *r);
/* The seal is recorded, and its header is on the disk. */
bool lh_cs_replica_sealed_durably(const struct lh_cs_replica *r);
/* READY and not sealed or being sealed */
bool lh_cs_replica_usable(const struct lh_cs_replica *r);

/* Writes an empty replica with this header, in place of what is there if that has none. */
void lh_cs_replica_create(
    struct lh_cs_replica *r, const struct lh_chunk_header *h, struct lh_cs_job job);
/* Nothing of its log counts any more, also what is to be written: it is to be created anew.
 * `replace`: there is a file, which goes first. */
void lh_cs_replica_clear(struct lh_cs_replica *r, bool replace);
/* Nobody's full member from now on (REC-4); a job says so on the disk. */
void lh_cs_replica_mark_incomplete(struct lh_cs_replica *r);
/* Nothing below this version is taken from now on (FENCE-1). */
void lh_cs_replica_fence(struct lh_cs_replica *r, uint64_t version);
/* Records the seal: the log is cut to its length. */
void lh_cs_replica_seal(struct lh_cs_replica *r, struct lh_cs_job job);
/* It goes, with its file. Every role of it has ended. The replica may be freed here. */
void lh_cs_replica_remove(struct lh_cs_replica *r, struct lh_cs_job job);
/* For "shortest-log-wins": what the primary has not is taken away here. */
void lh_cs_replica_take_away(struct lh_cs_replica *r, uint64_t length, uint64_t checksum);

/* Accepts one checked batch at the log's end, which has that running checksum then. False: it
 * breaks its writer's sequence. */
bool lh_cs_replica_accept(struct lh_cs_replica *r, const struct lh_batch_header *h,
    uint64_t checksum, struct lh_buf *bytes);
/* Accepts the batches that another server has stored, one after another, as long as the log gets no
 * longer than `limit`. So many bytes of them as `*taken` says.
 *   WOULD_BLOCK      the last one is not whole; those before it were taken
 *   CORRUPT          one is damaged
 *   CHUNK_FULL       one ends behind `limit`
 *   OUT_OF_SEQUENCE  one is sound and does not continue this log */
LH_MUST_USE int lh_cs_replica_take(
    struct lh_cs_replica *r, const struct lh_buf *batches, uint64_t limit, size_t *taken);
/* Forgets what was accepted and not handed to the disk; `end` is the caller's business. */
void lh_cs_replica_drop_unwritten(struct lh_cs_replica *r);
/* Writes, syncs and begins jobs, as far as that may be done now. The replica may be freed here. */
void lh_cs_replica_pump(struct lh_cs_replica *r);
/* Of no use any more (FAIL-4, FAIL-5): ends every role of it, marks it, reports it. */
void lh_cs_replica_lose(struct lh_cs_replica *r, int error, uint64_t offset);

/* Another server's log does not fit this one: whoever can reads this one back. */
void lh_cs_replica_differs(struct lh_cs_replica *r);

/* The largest committed length that is known here, even if the log does not reach it any more. */
uint64_t lh_cs_replica_known_committed(const struct lh_cs_replica *r);
/* The committed length that this replica may show rises to `committed`, if it has that much. */
void lh_cs_replica_note_committed(struct lh_cs_replica *r, uint64_t committed);
/* Another operation that lets more be read: whoever reads looks again. */
void lh_cs_replica_readable(struct lh_cs_replica *r);
