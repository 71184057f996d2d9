/* What the files of this folder know of each other. */
#pragma once

#include "chunkserver/log/active.h"
#include "chunkserver/log/disk.h"
#include "chunkserver/log/log.h"

/* A part of struct lh_cs_logs. */
struct lh_cs_logs_internal {
    struct lh_cs_logs *logs; /* that it belongs to */

    uint64_t *changed; /* active.c: chunks whose replicas are looked at when the step ends */
    size_t changed_count, changed_capacity;
    struct lh_cs_disk disk;
    size_t load_next; /* scan.c: index into config.chunks of the next one to load */

    struct { /* space.c: those written to lately, longest ago first */
        struct lh_cs_active *growing;
        struct lh_timer timer;
    } space;
    struct { /* frozen.c */
        struct lh_cs_active *list;
        struct lh_timer timer;
    } frozen;
    struct {                  /* suspects.c */
        uint32_t probe;       /* probes that began */
        uint32_t probed;      /* the last that succeeded, of these */
        uint32_t true_before; /* the one before: what was synced before it began is on the disk */
        bool synced;          /* a sync has succeeded since all were asked about last */
        uint64_t next;        /* the least chunk that was not asked about yet */
        struct lh_timer timer;
    } suspects;
    struct { /* tables.c: sealed ones, with their writer tables; asked longest ago first */
        struct lh_cs_active *kept;
        size_t count;
        struct lh_timer timer;
    } tables;
};

/* ---- replica.c */

void lh_cs_replica_free(struct lh_cs_replica *r);
/* Forgets what was accepted and not handed to the disk; `end` is the caller's business. */
void lh_cs_replica_drop_unwritten(struct lh_cs_replica *r);

/* Its log is damaged at `offset`, whatever its state is. */
void lh_cs_replica_condemn(struct lh_cs_replica *r, int error, uint64_t offset);

/* ---- suspects.c */

void lh_cs_suspects_init(struct lh_cs_logs *logs);
/* A sync of its file has succeeded. */
void lh_cs_suspects_synced(struct lh_cs_replica *r);
/* One has failed: what may not be there though a sync has said so is asked about. */
void lh_cs_suspects_ask(struct lh_cs_logs *logs);

/* ---- reports.c */

void lh_cs_report_lost(struct lh_cs_replica *r, int error);
