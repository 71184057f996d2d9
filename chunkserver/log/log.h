/* What is on the disk: the replicas of a server with their headers and logs, changes of them, and
 * reading them back. Rooms above hear of what happens to a replica by functions that the server's
 * top fills in. */
#pragma once

#include "base/buf.h"
#include "base/idmap.h"
#include "chunkserver/host/host.h"
#include "chunkserver/log/replica.h"

#include <utlist.h>

struct lh_cs_logs_internal;
struct lh_cs_ticket;

/* ---- The room. */

/* Who does something with replicas: filled in by the server's top. Each function is called where it
 * says and may do whatever asks for a replica's doors, but not free it. */
struct lh_cs_log_users {
    /* All that was found at the start is read back. */
    void (*loaded)(void *self);
    /* Less waits to be written. */
    void (*pressure_fell)(void *self);
    /* It ends: what rooms above keep with it ends as well. */
    void (*removed)(struct lh_cs_replica *r);
    /* The step ends: what they keep with it ends if it is idle. */
    void (*settled)(struct lh_cs_replica *r);
    /* Something was done or written: whoever waited for that goes on. */
    void (*pumped)(struct lh_cs_replica *r);
    /* More of it may be read: committed, written or sealed. */
    void (*readable)(struct lh_cs_replica *r);
    /* More of it is durable, in the meaning of lh_cs_replica_durable(). */
    void (*durable)(struct lh_cs_replica *r);
    /* Its log is cut back to what was written. */
    void (*cut_back)(struct lh_cs_replica *r, int error);
    /* It is about to be lost: every role of it ends. */
    void (*lost)(struct lh_cs_replica *r, int error);
    /* Another server's log does not fit it. */
    void (*differs)(struct lh_cs_replica *r);
    /* A sealed log was read back again, or turned out to be rotten. */
    void (*read_back)(struct lh_cs_replica *r);
};

struct lh_cs_logs {
    struct lh_cs_host *cs;
    const struct lh_cs_log_users *users;
    void *self;               /* theirs */
    void *rooms[LH_CS_SLOTS]; /* theirs, as they keep something with replicas */

    struct lh_idmap replicas;
    uint64_t unwritten; /* bytes accepted in all replicas and not written */
    size_t loading;     /* replicas whose header or log is still being read at start */

    struct lh_cs_logs_internal *internal; /* what nobody else asks for: internal.h */
};

void lh_cs_logs_init(struct lh_cs_logs *logs, struct lh_cs_host *cs,
    const struct lh_cs_log_users *users, void *self);
/* Frees all replicas; nothing is reported to anybody. */
void lh_cs_logs_deinit(struct lh_cs_logs *logs);
/* Loads what the data directory holds, some files at once; more when some are done. */
void lh_cs_logs_load(struct lh_cs_logs *logs);
/* Ends a step: of replicas that something happened to it is seen whether anything still goes on. */
void lh_cs_logs_settle(struct lh_cs_logs *logs);

/* How long a disk that has refused `before` times in a row, and again, is left alone. */
static inline struct lh_duration lh_cs_refusal_pause(
    const struct lh_chunkserver_bounds *b, uint32_t before)
{
    uint64_t pause = b->thaw_ms, most = b->thaw_most_ms;

    while (before-- > 0 && pause < most)
        pause *= 2;
    return lh_milliseconds(pause < most ? pause : most);
}

/* This process has slept: the disk was not silent for as long as the clock says. */
void lh_cs_logs_discount_pause(struct lh_cs_logs *logs, struct lh_duration slept);

/* A probe of the disk, which writes and syncs (SES-6), begins, and has ended. If it has failed,
 * what may not be there though a sync has said so is asked about (FAIL-5). */
void lh_cs_logs_probe_begins(struct lh_cs_logs *logs);
void lh_cs_logs_probe_ended(struct lh_cs_logs *logs, bool well);

struct lh_cs_replica *lh_cs_replica_find(struct lh_cs_logs *logs, uint64_t chunk);
struct lh_cs_replica *lh_cs_replica_add(
    struct lh_cs_logs *logs, uint64_t chunk, enum lh_cs_replica_state state);

/* What all replicas are by now, for operators. */
struct lh_cs_log_figures {
    uint64_t bytes; /* in their logs */
    uint64_t lost, sealed, copying;
    uint64_t writers;       /* in all tables in memory */
    uint64_t settle_tables; /* of sealed logs that are in memory */
    uint64_t starved;       /* operations that met a shortage and are not complete */
    uint64_t promised;      /* bytes that growing logs may still take */
};

struct lh_cs_log_figures lh_cs_logs_figures(const struct lh_cs_logs *logs);
/* Bytes that are offered to the master: free, and not promised to growing logs. */
uint64_t lh_cs_logs_free_bytes(const struct lh_cs_logs *logs);

/* ---- disk.c: operations on the disk, and whom a completion concerns. */

/* What an operation is for. */
struct lh_cs_disk_user {
    /* `t` is a copy. */
    void (*done)(const struct lh_cs_ticket *t, int error, struct lh_buf *bytes);
    bool owned;     /* a read of an old log: without its owner nobody needs it, and `done` is
                       not called */
    bool impatient; /* its owner rather hears of a shortage than waits for long */
    bool unleased;  /* no lease depends on it, as on none that is owned (SES-6) */
    bool frees;     /* the replica may be gone when it is done: `done` goes on with it by itself */
};

/* An operation under way, or waiting because the machine was short of what it needs. An owner that
 * dies before it completes sets `owner` to NULL. */
struct lh_cs_ticket {
    struct lh_cs_replica *replica; /* NULL: it is of the probe's file */
    void *owner;
    enum lh_disk_op op;
    uint64_t length;
};

struct lh_cs_disk_request {
    enum lh_disk_op op;
    uint64_t offset, length;
    struct lh_buf *data; /* NULL: none */
    bool anew;           /* of the file that is to take the replica's place */
    bool for_reply;
};

struct lh_cs_ticket *lh_cs_disk_ask(struct lh_cs_logs *logs, const struct lh_cs_disk_user *user,
    struct lh_cs_replica *r, void *owner, const struct lh_cs_disk_request *request);
void lh_cs_disk_done(struct lh_cs_logs *logs, struct lh_input *in);
/* SES-6: has nothing been completed, or something not been begun, for so long? */
bool lh_cs_disk_stands_still(const struct lh_cs_logs *logs, struct lh_duration limit);
/* For so long has nothing been completed. */
struct lh_duration lh_cs_disk_silence(const struct lh_cs_logs *logs);

/* ---- piece.c: a piece of a log that is read from the disk for a reader, a member or a copy. */

/* What was read, as far as it is whole batches. */
struct lh_cs_piece {
    bool for_copy; /* whoever asked checks where the first batch stands, too */
    bool placed;   /* where the first batch stands was proved (REC-9a) */
    struct lh_buf batches;
    uint64_t before, behind; /* running checksums */
};

/* The read that brings the log's bytes [offset, offset + bytes). */
void lh_cs_piece_request(struct lh_cs_disk_request *request, uint64_t offset, uint64_t bytes);
/* What that read brought, of at most `most` bytes and the batch that goes beyond. A part of a batch
 * at the end is no error if anything is before it. `piece->batches` is the caller's, also then.
 *   WOULD_BLOCK  not even one whole batch
 *   others       as lh_log_check(): of the batch behind `piece->batches` */
LH_MUST_USE int lh_cs_piece_check(const struct lh_cs_replica *r, uint64_t offset,
    const struct lh_buf *bytes, size_t most, struct lh_cs_piece *piece);

/* ---- reports.c: what is reported to the master of replicas that come and go. */

void lh_cs_report_created(struct lh_cs_host *cs, uint64_t chunk, int error);
/* It was created, or could not be, whoever asked for it: a registration does not show what is being
 * created. */
void lh_cs_report_creation(struct lh_cs_replica *r, int error);
/* A registration says what it is: nothing of before is left to be reported. */
void lh_cs_report_registered(struct lh_cs_replica *r);
/* A session has begun: reports replicas that were lost, or created, after its registration was
 * sent. */
void lh_cs_report_unreported(struct lh_cs_logs *logs);
