/* The configuration of a chunkserver's core, and the names that it shares with whoever runs it. */
#pragma once

#include "access/access.h"
#include "base/step.h"
#include "base/time.h"
#include "chunkserver/bounds.h"
#include "finder/finder.h"
#include "lease/service.h"

#include <stddef.h>
#include <stdint.h>

#define LH_BOOT_ID_BYTES 16

/* Strings and arrays are copied. A duration of 0 takes the default that stands beside it. */
struct lh_chunkserver_config {
    const char *server_id;      /* stable; 1 to 64 bytes */
    const char *address;        /* where others reach this server */
    const char *failure_domain; /* may be "" */
    const char *machine_id;
    const char *cluster_id;            /* "" before the first registration */
    uint64_t master_term;              /* the highest seen (LEASE-7); 0 at first */
    uint64_t reign_name;               /* of that reign (SES-9); 0: not known */
    uint64_t incarnation;              /* durable before the core is created (SES-1) ... */
    bool read_only;                    /* ... or an earlier process's: the disk cannot be written
                                          (REC-8) */
    uint64_t process;                  /* random, not 0: no other process has it (SES-5a) */
    uint8_t boot_id[LH_BOOT_ID_BYTES]; /* changes when the machine goes down (REC-2a) */
    const char *const *masters;        /* addresses; the others are learned (HA-10) */
    size_t master_count;               /* 1 to LH_MASTERS_MAX, all different */
    const uint64_t *chunks;            /* the files that the data directory holds; 0 is skipped */
    size_t chunk_count;
    uint64_t capacity_bytes;
    uint64_t free_bytes;

    const struct lh_access *access; /* the table of roles (ACC-2), which outlives the core */

    bool capabilities; /* asks peers for them (ACC-5); the master gives them out */

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
    struct lh_duration ask_masters_after; /* 500 ms: a heartbeat is unanswered for so long, then
                                             other masters are asked, if there are any */
    struct lh_finder_config finder;       /* how the active master is found */
    struct lh_chunkserver_bounds bounds;
};

/* The numbers that chunks have. */
#define LH_CS_IS_CHUNK(id) ((id) != LH_PROBE_FILE && (id) <= LH_LEASE_ID_LAST)

/* The keys of what this core persists, to be kept in the data directory and given back in the
 * config: the cluster's id, learnt at the first registration, the highest master's term, in digits,
 * with its name, in hexadecimal digits (lh_cs_term_read()), and how far the scrub has come, in at
 * most LH_SCRUB_TEXT_MAX printable characters. */
#define LH_MASTER_TERM_KEY "master_term"
#define LH_CLUSTER_ID_KEY  "cluster_id"
#define LH_SCRUB_KEY       "scrub"
#define LH_SCRUB_TEXT_MAX  48u

/* Where a chunk's log begins in its file. */
#define LH_LOG_START 8192u

/* What is stored under LH_MASTER_TERM_KEY; 0 for what is not there. */
void lh_cs_term_read(const char *text, uint64_t *master_term, uint64_t *reign_name);

/* A copy with defaults in place; strings and arrays are its own. */
void lh_cs_config_init(struct lh_chunkserver_config *c, const struct lh_chunkserver_config *config);
void lh_cs_config_deinit(struct lh_chunkserver_config *c);
