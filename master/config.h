/* What a master's core is configured with: the settings, their limits, and what bounds its work. */
#pragma once

#include "access/access.h"
#include "access/capability.h"
#include "base/error.h"
#include "base/time.h"
#include "batch/batch.h"
#include "master/bounds.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_promises;

/* The format of the metadata store that this code reads and writes. */
#define LH_MASTER_FORMAT      5u
#define LH_MASTER_FORMAT_BARE 4u /* the last one whose pairs had no seals (PAIR-1) */

#define LH_PATH_BYTES_MAX         1024u
#define LH_REPLICATION_MAX        16u
#define LH_EVENT_SECRET_BYTES     16u
#define LH_SESSION_TERM_MIN_NS    200000000ull
#define LH_SESSION_TERM_MAX_NS    3600000000000ull
#define LH_OPEN_TAIL_WAIT_MS_MAX  10000u
#define LH_REPAIR_STREAMS_MAX     64u
#define LH_TRASH_RETENTION_MAX_NS (UINT64_C(10) * 365 * 24 * LH_SESSION_TERM_MAX_NS)

/* What becomes of a file's appends when its tail's primary is lost (FAIL-2, FAIL-2a). The wire's
 * numbers. */
enum lh_on_primary_loss { LH_LOSS_ROLL = 1, LH_LOSS_WAIT = 2 };

/* What a restored master skips of every kind of number but its term: more than can have been given
 * out since the backup (KEEP-4). */
#define LH_MASTER_RESTORED_LEAP (UINT64_C(1) << 20)
/* ... and of revisions: of these there may be a million in a minute. */
#define LH_MASTER_RESTORED_REVISIONS (UINT64_C(1) << 40)

/* Set in the number of each link that a master's core opens: those without it are free for whatever
 * is around the core. */
#define LH_MASTER_LINK (UINT64_C(1) << 62)

struct lh_master_config {
    struct lh_duration session_term;         /* T_session: 200 ms to an hour */
    struct lh_duration chunk_term;           /* T_chunk: at least T_session */
    uint32_t drift_ppm;                      /* TIME-3; at most LH_DRIFT_PPM_MAX */
    uint32_t replication;                    /* of files that do not say; 1 to LH_REPLICATION_MAX */
    uint32_t min_replicas;                   /* likewise; 1 to `replication` */
    uint64_t chunk_size;                     /* bytes; likewise; LH_CHUNK_BYTES_MIN to _MAX */
    enum lh_on_primary_loss on_primary_loss; /* likewise */
    struct lh_duration suspect_after;        /* a primary that a client lost is taken for lost if it
                                                does not show within this that it lives; at least
                                                1 ms */
    struct lh_duration create_timeout; /* a server that has not created a replica within this is
                                          replaced by another one */
    struct lh_duration grace; /* a chunkserver without a session for longer than this does not count
                                 any more: what it has is copied elsewhere (KEEP-1) */
    uint32_t repair_streams;  /* replicas that are copied to one chunkserver at a time; at most
                                 LH_REPAIR_STREAMS_MAX; 0: none are */
    uint64_t seed;            /* gives a new store its cluster id, and reigns their names: draw it
                                 at random for each start */
    uint32_t waiters_max;     /* calls that wait for a primary, all together */
    uint32_t waiters_file_max; /* likewise, for one file */
    uint32_t servers_max;      /* chunkservers ever registered */
    uint32_t replicas_max;     /* of a chunkserver; it is refused with more */
    bool balance; /* moves replicas and primaries from busy chunkservers to idle ones */
    struct lh_duration trash_retention; /* a removed file can be restored for this long of a running
                                           master's time; 0: it is gone at once */
    bool refuse_loopback; /* of an address that a chunkserver gives: this master is not on it */
    bool restored; /* the store was restored from a backup: it is older than the servers (KEEP-4) */
    struct lh_promises *promises;   /* what this machine remembers of former starts (LEASE-9), which
                                     outlives the core; NULL: nothing */
    const struct lh_access *access; /* the table of roles (ACC-2), which outlives the core; NULL:
                                       none */
    bool capabilities; /* gives them out, and its keys to chunkservers (ACC-5, ACC-6) */
    uint8_t
        capability_secret[LH_CAPABILITY_SECRET_BYTES]; /* then: drawn at random for this process,
                                                              and nobody else knows it */
    uint8_t event_secret[LH_EVENT_SECRET_BYTES]; /* likewise: the key of names among the events. Not
                                                    made of `seed`: the cluster id shows that */
    uint64_t reign; /* the master term that the first step takes; the caller sees to it that it is
                       not below the stored one (HA-3). 0: the stored one, plus one */
    uint64_t reign_name; /* of the reign `reign` (SES-9); 0: made of `seed` */
    bool reign_followed; /* this process has seen another master act on this store (NL-2a) */
    struct lh_duration lone_log_after; /* a single log seals a chunk if no other one was shown for
                                          this long; 0: a session term and a heartbeat */
    /* What bounds the core's work (bounds.h); 0: the default. */
#define X(name, preset_ms, what) struct lh_duration name;
    LH_MASTER_TIMES(X)
#undef X
#define X(name, preset, what) uint32_t name;
    LH_MASTER_COUNTS(X)
#undef X
};

/* The documented defaults; `seed` is left 0. */
struct lh_master_config lh_master_config_default(void);

/* Bounds that are 0 become their default. */
void lh_master_config_fill(struct lh_master_config *config);

/* INVALID_ARGUMENT: a setting out of range; `text` says which, and what would do. */
LH_MUST_USE int lh_master_config_check(
    const struct lh_master_config *config, char *text, size_t text_size);
