/* The chunkserver's core: one session with the master and any number of replicas. Pure: see
 * base/step.h for how it is driven.
 *
 * Files, by concern:
 *   session.c    registration and heartbeats (SES-*, LEASE-4, LEASE-7)
 *   orders.c     what the master asks for: grants, recalls, seals, replicas (LEASE-6, SEAL-1)
 *   fencing.c    adopting a version at the master's word (FAIL-2a)
 *   disk.c       operations under way, and those that a shortage makes wait
 *   replica.c    one chunk's log and header on disk (FENCE-1, FAIL-3, FAIL-5)
 *   jobs.c       changes of a header, of a file's length or existence, each alone
 *   copying.c    a replica copied from other servers (REC-4, REC-5)
 *   scrub.c      reading every log once in a while (FAIL-4)
 *   space.c      room reserved ahead of a log's end
 *   scan.c       reading a log back at start: torn tails, writers, checksum (FAIL-3)
 *   secondary.c  what a primary asks of this replica (APP-2, FENCE-1)
 *   primary.c    the order of appends, commit, seal, recall (APP-*, SEAL-1)
 *   recovery.c   a new primary's: the longest log, and every member equal to it (REC-2, REC-2a)
 *   members.c    a primary's connection to each other member: adopt, copy, confirm (REC-2, APP-2)
 *   appending.c  the clients' append streams (APP-4, APP-5)
 *   links.c      links, and messages that arrive slowly
 *   reading.c    reads (APP-6, FAIL-4)
 *   settling.c   what of a writer is in a sealed chunk (APP-5a)
 *   writers.c    the writer table (APP-5)
 *   header.c     the header slots' bytes */
#ifndef LH_CHUNKSERVER_CHUNKSERVER_H
#define LH_CHUNKSERVER_CHUNKSERVER_H

#include "base/metrics.h"
#include "base/step.h"
#include "chunkserver/bounds.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_BOOT_ID_BYTES 16

struct lh_chunkserver;

/* Strings and arrays are copied. A duration of 0 takes the default that stands beside it. */
struct lh_chunkserver_config {
    const char *server_id;      /* stable; 1 to 64 bytes */
    const char *address;        /* where others reach this server */
    const char *failure_domain; /* may be "" */
    const char *machine_id;
    const char *cluster_id;            /* "" before the first registration */
    uint64_t master_term;              /* the highest seen (LEASE-7); 0 at first */
    uint64_t incarnation;              /* durable before the core is created (SES-1) */
    uint64_t process;                  /* random, not 0: no other process has it (SES-5a) */
    uint8_t boot_id[LH_BOOT_ID_BYTES]; /* changes when the machine goes down (REC-2a) */
    const char *const *masters;        /* addresses, tried in turn */
    size_t master_count;               /* at least 1 */
    const uint64_t *chunks;            /* the files that the data directory holds; 0 is skipped */
    size_t chunk_count;
    uint64_t capacity_bytes;
    uint64_t free_bytes;

    struct lh_duration member_timeout; /* 1 s: a member without progress is reported (REC-3) */
    struct lh_duration drain_timeout;  /* 2 s: appends under way may take this long to commit
                                          before a recalled lease is released regardless */
    struct lh_duration reconnect_min;  /* 50 ms: backoff towards master and members */
    struct lh_duration reconnect_max;  /* 500 ms */
    struct lh_duration notice_delay;   /* 5 ms: an idle primary tells the committed length */
    struct lh_duration disk_stall;     /* 500 ms: the least time for SES-6 */
    struct lh_duration alive_interval; /* 200 ms: append streams with something unanswered hear of
                                          this server at least this often */
    struct lh_duration settle_wait;    /* 500 ms: a settling waits for the seal this long */
    uint64_t pending_bytes_max;        /* 512 MiB: uncommitted bytes before streams are held */
    uint64_t repair_rate;              /* 64 MiB: bytes a second that copies of replicas bring, and
                                          as many that they take away; UINT64_MAX: no limit */
    struct lh_duration scrub_period;   /* 14 days: each log is read once in it; FOREVER: never */
    uint64_t scrub_rate;               /* 16 MiB: bytes a second that the scrub reads at most */
    const char *scrub_position;        /* what LH_SCRUB_KEY was last given; "" or NULL at first */
    struct lh_chunkserver_bounds bounds;
};

/* The file that the core writes to see whether the disk answers (SES-6). Chunk ids start at 1. */
#define LH_PROBE_FILE 0u

/* The keys of what this core persists, to be kept in the data directory and given back in the
 * config: the cluster's id, learnt at the first registration, the highest master's term, in digits,
 * and how far the scrub has come, in at most LH_SCRUB_TEXT_MAX printable characters. */
#define LH_MASTER_TERM_KEY "master_term"
#define LH_CLUSTER_ID_KEY  "cluster_id"
#define LH_SCRUB_KEY       "scrub"
#define LH_SCRUB_TEXT_MAX  48u

struct lh_chunkserver *lh_chunkserver_create(const struct lh_chunkserver_config *config);
void lh_chunkserver_destroy(struct lh_chunkserver *cs);

/* The first input (any kind; usually LH_IN_TIMER) starts the scan of the data directory; the server
 * registers when it is done. After LH_IN_STOP it orders nothing more, lets what is under way
 * commit, releases its leases and says LH_FX_STOPPED. */
void lh_chunkserver_step(struct lh_chunkserver *cs, struct lh_input *in, struct lh_effects *fx);
struct lh_instant lh_chunkserver_deadline(const struct lh_chunkserver *cs);
struct lh_core lh_chunkserver_core(struct lh_chunkserver *cs);

/* What the disk says of itself; reported in the next heartbeat. */
void lh_chunkserver_set_space(
    struct lh_chunkserver *cs, uint64_t capacity_bytes, uint64_t free_bytes);

/* Walks the core's own invariants and asserts them. */
void lh_chunkserver_check(const struct lh_chunkserver *cs);

/* For observers and operators. */
struct lh_replica_status {
    uint64_t version;
    uint64_t length;    /* accepted bytes of the log */
    uint64_t committed; /* as far as known here */
    uint64_t checksum;  /* running checksum at `length` */
    bool sealed;
    bool doubted;
    bool lost;
    bool copying;     /* incomplete: nobody's full member (REC-4) */
    bool primary;     /* has a primary part at all (recovering included) */
    bool open;        /* takes appends as primary */
    uint64_t appends; /* ordered since the grant */
};

/* What this server copied and scrubbed since its start. */
struct lh_chunkserver_stats {
    uint64_t copies;        /* replicas that are being copied to, now */
    uint64_t copied_in;     /* bytes that copies brought */
    uint64_t copied_out;    /* bytes read for copies elsewhere */
    uint64_t scrub_passes;  /* ended */
    uint64_t scrub_read;    /* bytes */
    uint64_t scrub_found;   /* replicas that had rotted */
    uint64_t scrub_chunk;   /* the last one read in this pass; 0: none yet */
    uint64_t scrub_rate;    /* bytes a second; 0: it is off */
};

void lh_chunkserver_stats(const struct lh_chunkserver *cs, struct lh_chunkserver_stats *stats);

/* Appends all figures for Prometheus (docs/metrics.md). */
void lh_chunkserver_metrics(
    const struct lh_chunkserver *cs, struct lh_instant now, struct lh_metrics *out);

/* Does it do its work: in session, its disk well? If not, `why` says so in a sentence. */
bool lh_chunkserver_ready(
    const struct lh_chunkserver *cs, struct lh_instant now, char *why, size_t why_size);

/* False: no such replica. */
bool lh_chunkserver_replica(
    const struct lh_chunkserver *cs, uint64_t chunk, struct lh_replica_status *status);

/* Does this node believe at `now` that it may act as primary of `chunk` (INV-1)? */
bool lh_chunkserver_may_act(
    const struct lh_chunkserver *cs, uint64_t chunk, struct lh_instant now, uint64_t *version);

/* Its session with the master is live on its own clock at `now`. */
bool lh_chunkserver_in_session(const struct lh_chunkserver *cs, struct lh_instant now);

/* Where a chunk's log begins in its file. */
#define LH_LOG_START 8192u

#endif
