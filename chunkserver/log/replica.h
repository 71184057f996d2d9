/* One chunk's log and header on this server's disk, and what rooms above may do to it. A part of
 * log.h. */
#pragma once

#include "batch/batch.h"
#include "chunkserver/log/header.h"
#include "chunkserver/log/writers.h"

#include <stdbool.h>
#include <stdint.h>

struct lh_cs_host;
struct lh_cs_job;
struct lh_cs_logs;
struct lh_cs_active;
struct lh_cs_replica;

/* Rooms above keep a record of their own with a replica, each in its slot. */
enum lh_cs_slot { LH_CS_SLOT_PRIMARY, LH_CS_SLOT_SERVED, LH_CS_SLOTS };

enum lh_cs_replica_state {
    LH_CS_REPLICA_CREATING,
    LH_CS_REPLICA_LOADING,    /* its header is being read */
    LH_CS_REPLICA_SCANNING,   /* its log is being read back */
    LH_CS_REPLICA_TRUNCATING, /* its file is being cut; then it is read back again */
    LH_CS_REPLICA_READY,
    LH_CS_REPLICA_FROZEN, /* its disk has refused a change, or a sync: what it has is read, and
                             nothing of it changes before the disk does again (REC-6) */
    LH_CS_REPLICA_LOST,   /* damaged (FAIL-4): its whole batches are read until a copy takes its
                             place. Without a header nothing is */
    LH_CS_REPLICA_REMOVING
};

struct lh_cs_replica {
    uint64_t chunk; /* the first field: see base/idmap.h */
    struct lh_cs_logs *logs;
    void *slots[LH_CS_SLOTS];

    /* Of log/ alone. */
    const struct lh_cs_active *active; /* what goes on with the log: active.h */
    struct lh_writers *writers;        /* tables.c: of what is accepted, or was read so far */
    /* clang-format off */
    unsigned outstanding;     /* tickets under way: disk.c */
    int unreported_loss;      /* reports.c: why, after a registration that called it good */
    uint16_t refused_reads;   /* in a row, while it is read back: scan.c */
    bool read_waits : 1;      /* the last one of these is asked for again later */
    bool headless : 1;        /* no valid header was found */
    bool in_doubt : 1;        /* a sync of its file has failed: that is never written to again
                                 (FAIL-5) */
    bool torn : 1;            /* FAIL-3: its end is to be marked as truncated, and cut */
    bool unrecorded : 1;      /* the seal is not in the header that the disk has */
    bool anew : 1;            /* it is written to the file that is to take its place (REC-9) */
    bool returning : 1;       /* that came to nothing: once nothing goes on there, the old one is
                                 read */
    bool header_unsynced : 1; /* it was written, not synced; the other slot is on the disk */
    bool header_refused : 1;  /* a write of one was, and may have changed its slot all the same */
    bool loading : 1;         /* registration waits for its header and log to be read: scan.c */
    bool changed : 1;         /* it is looked at when the step ends: active.c */
    bool writers_known : 1;   /* false for a sealed log that was not read back lately */
    bool sync_began : 1;      /* of a buffered log: replica.c, active.h */
    bool unreported_creation : 1; /* reports.c: after a registration that did not name it */

    bool added_up : 1;        /* serve/: a copy of this life has compared it with the seal */
    bool incomplete : 1;      /* REC-4: nobody's full member until it is copied or has joined; on
                                 the disk before the first foreign byte is */
    /* clang-format on */
    enum lh_cs_replica_state state;

    /* The header: replica.c, jobs.c. */
    struct lh_chunk_header header; /* as durable, or being written by the running job */
    uint64_t adopting;             /* the highest version adopted or being adopted */

    /* The log: replica.c. */
    uint64_t end;       /* bytes accepted */
    uint64_t checksum;  /* running checksum at `end` */
    uint64_t written;   /* bytes in the operating system's hands */
    uint64_t synced;    /* bytes known to be on the disk */
    uint64_t committed; /* as far as known here (APP-6) */
};

/* An open chunk at which nothing happens has this and its writer table, a sealed one has this. */
_Static_assert(sizeof(struct lh_cs_replica) <= 192, "there are millions of them");

/* ---- replica.c: what it is. */

uint64_t lh_cs_replica_durable(const struct lh_cs_replica *r);
/* REC-2a: bytes of it may have gone with the machine. */
bool lh_cs_replica_unverified(const struct lh_cs_replica *r);
/* The master has sealed the chunk (SEAL-1); recorded here or about to be. */
bool lh_cs_replica_sealing(const struct lh_cs_replica *r);
/* The seal is recorded, and its header is on the disk. */
bool lh_cs_replica_sealed_durably(const struct lh_cs_replica *r);
/* FAIL-3: its end was no whole batch at a start. */
bool lh_cs_replica_truncated(const struct lh_cs_replica *r);
/* Its header has already what LH_CS_JOB_CONFIRM at its end would write (REC-2). */
bool lh_cs_replica_is_vouched_for(const struct lh_cs_replica *r);
/* What it has can be read, batch by batch, though it may change nothing, or is damaged. */
bool lh_cs_replica_is_kept(const struct lh_cs_replica *r);
/* READY and not sealed or being sealed */
bool lh_cs_replica_usable(const struct lh_cs_replica *r);
/* It is sealed, and no job runs that may change that. */
bool lh_cs_replica_sealed_now(const struct lh_cs_replica *r);
/* Jobs wait or run, or its log is read back. */
bool lh_cs_replica_changes(const struct lh_cs_replica *r);
/* Bytes are to be written, or jobs to be done. */
bool lh_cs_replica_has_work(const struct lh_cs_replica *r);
/* Nothing but a file that could not be removed: another replica may be created in place of it. */
bool lh_cs_replica_is_left_over(const struct lh_cs_replica *r);
/* The largest committed length that is known here, even if the log does not reach it any more. */
uint64_t lh_cs_replica_known_committed(const struct lh_cs_replica *r);
/* Walks its invariants and asserts them. */
void lh_cs_replica_check(const struct lh_cs_replica *r);

/* At the end of the step it is seen whether anything still goes on with this replica, here and in
 * the rooms above. */
void lh_cs_stir(struct lh_cs_replica *r);

/* ---- tables.c: its writers (APP-5). */

/* Of what its log holds, as far as that is in memory. */
const struct lh_writers *lh_cs_replica_writers(const struct lh_cs_replica *r);
/* False for a sealed log that was not read back lately. */
bool lh_cs_table_known(const struct lh_cs_replica *r);
/* The writer table of a sealed log was asked for: it stays in memory for a while. */
void lh_cs_table_asked(struct lh_cs_replica *r);
/* Reads the sealed log back for it; the users' `read_back` says when that is done. */
void lh_cs_table_read(struct lh_cs_replica *r);

/* ---- replica.c: its log. */

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
/* The committed length that this replica may show rises to `committed`, if it has that much. */
void lh_cs_replica_note_committed(struct lh_cs_replica *r, uint64_t committed);
/* Another operation that lets more be read: whoever reads looks again. */
void lh_cs_replica_readable(struct lh_cs_replica *r);
/* Writes, syncs and begins jobs, as far as that may be done now. The replica may be freed here. */
void lh_cs_replica_pump(struct lh_cs_replica *r);
/* Damaged (FAIL-4): ends every role of it, marks it, reports it. One that is frozen or damaged
 * stays as it is. */
void lh_cs_replica_lose(struct lh_cs_replica *r, int error, uint64_t offset);

/* ---- jobs.c: changes of its header, of its file's length or of its existence. A job runs alone,
 * after every byte that was accepted before it has been written and before any byte after it. */

enum lh_cs_job_kind {
    LH_CS_JOB_CREATE,
    LH_CS_JOB_ADOPT,
    LH_CS_JOB_CONFIRM,
    LH_CS_JOB_COMPARE, /* with a seal, changing nothing (REC-5) */
    LH_CS_JOB_SEAL,
    LH_CS_JOB_TRUNCATE,
    LH_CS_JOB_COPY, /* says that it is incomplete, then cuts the log to `length` (REC-4) */
    LH_CS_JOB_TRIM, /* gives back what is reserved behind the log's end */
    LH_CS_JOB_LOSE,
    LH_CS_JOB_REMOVE,
    LH_CS_JOB_KEEP,   /* after a change that was refused: syncs what is there (REC-6) */
    LH_CS_JOB_REWRITE /* after a sync that failed: writes a new file (FAIL-5) */
};

/* True: nothing is left to do. */
typedef bool lh_cs_job_step(struct lh_cs_replica *r, struct lh_cs_job *j);

/* Who wanted it. Called once, when it is done or cannot be done any more. */
typedef void lh_cs_job_owner(struct lh_cs_replica *r, const struct lh_cs_job *j, int error);

struct lh_cs_job {
    enum lh_cs_job_kind kind;
    lh_cs_job_owner *owner; /* NULL: nobody waits for it */
    uint64_t feed;          /* its owner's: whom to answer */
    uint64_t session;       /* its owner's: in which session it was asked */
    uint64_t version;
    uint64_t length;
    uint64_t checksum;
    bool matches; /* COMPARE: the log has this running checksum at `length` */

    /* Of log/ alone. */
    bool at_start;        /* TRUNCATE: what goes was no whole batch when the log was read back */
    uint64_t barrier;     /* the log's end when it was submitted */
    lh_cs_job_step *next; /* steps.c */
    enum lh_disk_op done; /* the operation that was completed last */
    struct lh_chunk_header before;     /* the header as it was when the job began */
    bool unsynced_before;              /* so was that one's `header_unsynced` */
    struct lh_cs_rewriting *rewriting; /* REWRITE */
    struct lh_cs_job *after;
};

void lh_cs_replica_submit(struct lh_cs_replica *r, struct lh_cs_job job);
/* Is this job submitted already, by its kind, owner and version? Then its answer goes to the
 * session that asks now. */
bool lh_cs_job_asked_again(struct lh_cs_replica *r, const struct lh_cs_job *job);
/* Its jobs were asked for again: their answers go to this session. */
void lh_cs_jobs_asked_again(struct lh_cs_replica *r, uint64_t session);

/* ---- changes.c: the replica as a whole. */

/* Writes an empty replica with this header, in place of what is there if that has none. */
void lh_cs_replica_create(
    struct lh_cs_replica *r, const struct lh_chunk_header *h, struct lh_cs_job job);
enum lh_cs_clearing {
    LH_CS_CLEAR_NEW,     /* there is no file */
    LH_CS_CLEAR_REPLACE, /* its file goes first */
    LH_CS_CLEAR_ANEW     /* its file stays until the new one adds up to the seal (REC-9) */
};

/* Nothing of its log counts any more, also what is to be written: it is to be created again. */
void lh_cs_replica_clear(struct lh_cs_replica *r, enum lh_cs_clearing how);
/* The file that was to take its place is given up: what was there before is read again. */
void lh_cs_replica_put_back(struct lh_cs_replica *r);
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
/* A frozen one is told the seal, which its log adds up to: it is read as a sealed one from now on,
 * and the job records the seal once the disk takes it. */
void lh_cs_replica_seal_kept(struct lh_cs_replica *r, const struct lh_cs_job *job);
/* The same seal is told again: who is to hear that it is recorded. */
void lh_cs_replica_seal_session(struct lh_cs_replica *r, uint64_t session);
/* Another server's log does not fit this one: whoever can reads this one back. */
void lh_cs_replica_differs(struct lh_cs_replica *r);
