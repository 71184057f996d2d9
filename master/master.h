/* The master's core: who is alive, what files there are, where their chunks lie, and who may take
 * their appends. It is a state machine as base/step.h describes: no I/O, no clock, no threads, no
 * randomness beyond `seed`.
 *
 * What memory holds may be ahead of the store by the commits under way; what is *said* never is: a
 * message that depends on a commit is emitted by that commit's LH_IN_PERSISTED or later. If a
 * commit fails, memory is ahead for good, so the core stops with the error (LH_FX_STOPPED).
 *
 * Life: lh_master_create(), lh_master_load() for every stored pair in the order of keys, then
 * steps. The first step is the master's start in the sense of LEASE-7: feed it without delay.
 *
 * Keys in the store: one letter, then numbers of 8 bytes, big-endian (see master/persist.c).
 *
 * Files, by concern:
 *   sessions.c   who is alive (SES-*)
 *   leases.c     who may take a chunk's appends (LEASE-*)
 *   chunks.c     a chunk's record, members and seal (SEAL-1, REC-3)
 *   creation.c   new chunks; spare.c: those made ahead of their need
 *   tail.c       calls that wait for a primary
 *   refusals.c   grants that are refused; consent.c: a primary that lives and serves nobody
 *   roll.c       going on without a lost primary (FAIL-2a); roll_length.c: what is sealed then
 *   health.c     what a member's replica is worth (KEEP-1)
 *   repair.c     what is to be copied, joined and dropped (REC-4, KEEP-2); copies.c: one copy
 *   moving.c     drains, an even load, failure domains
 *   placement.c  where replicas go
 *   trash.c      removed files (KEEP-5); garbage.c: replicas of no use, older stores (KEEP-3, -4)
 *   namespace.c  paths and files; listing.c, explain.c, states.c, metrics.c: what is told of it
 *   persist.c    what is written down */
#ifndef LH_MASTER_MASTER_H
#define LH_MASTER_MASTER_H

#include "base/error.h"
#include "base/metrics.h"
#include "base/step.h"
#include "base/time.h"
#include "batch/batch.h"
#include "master/bounds.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_master;

/* The format of the metadata store that this code reads and writes. */
#define LH_MASTER_FORMAT 1u

#define LH_PATH_BYTES_MAX        1024u
#define LH_REPLICATION_MAX       16u
#define LH_SESSION_TERM_MIN_NS   200000000ull
#define LH_SESSION_TERM_MAX_NS   3600000000000ull
#define LH_OPEN_TAIL_WAIT_MS_MAX 10000u
#define LH_REPAIR_STREAMS_MAX    64u
#define LH_TRASH_RETENTION_MAX_NS (UINT64_C(10) * 365 * 24 * LH_SESSION_TERM_MAX_NS)

/* What becomes of a file's appends when its tail's primary is lost (FAIL-2, FAIL-2a). The wire's
 * numbers. */
enum lh_on_primary_loss { LH_LOSS_ROLL = 1, LH_LOSS_WAIT = 2 };

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
    uint64_t seed;                     /* gives a new store its cluster id: draw it at random */
    uint32_t waiters_max;              /* calls that wait for a primary, all together */
    uint32_t waiters_file_max;         /* likewise, for one file */
    uint32_t servers_max;              /* chunkservers ever registered */
    bool balance; /* moves replicas and primaries from busy chunkservers to idle ones */
    struct lh_duration trash_retention; /* a removed file can be restored for this long of a running
                                           master's time; 0: it is gone at once */
    bool restored; /* the store was restored from a backup: it is older than the servers (KEEP-4) */
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

/* INVALID_ARGUMENT: a setting out of range; `text` says which, and what would do. */
LH_MUST_USE int lh_master_config_check(
    const struct lh_master_config *config, char *text, size_t text_size);

/* `config` was checked; it is copied. Never NULL. */
struct lh_master *lh_master_create(const struct lh_master_config *config);
void lh_master_destroy(struct lh_master *m);

/* Takes in one stored pair, in the order of keys and before the first step. On failure `text` says
 * what to do, and the core must not be stepped.
 *   CORRUPT       the pair does not fit what was loaded before
 *   WRONG_FORMAT  written by a newer release */
LH_MUST_USE int lh_master_load(struct lh_master *m, const void *key, size_t key_size,
    const void *value, size_t value_size, char *text, size_t text_size);

void lh_master_step(struct lh_master *m, struct lh_input *in, struct lh_effects *fx);
struct lh_instant lh_master_deadline(const struct lh_master *m);

/* Walks everything and asserts the core's own invariants; call it between steps (O(n)). */
void lh_master_check(const struct lh_master *m);

/* Appends all figures for Prometheus (docs/metrics.md). */
void lh_master_metrics(const struct lh_master *m, struct lh_metrics *out);

/* Does it do its work? If not, `why` says so in a sentence. */
bool lh_master_ready(const struct lh_master *m, char *why, size_t why_size);

/* For observers: what this master believes. */
struct lh_master_lease {
    const char *holder; /* server id; good until the next step */
    uint64_t version;
    struct lh_instant end; /* nobody else is given the chunk before this, unless it is released */
    bool confirmed;        /* HELD; else GRANTING */
    bool recalling;        /* LEASE-5 */
    bool waiting;          /* LEASE-7: granted by a former master and not shown since */
};

/* The chunk's lease at `now`. False: there is no such chunk, or nobody holds it any more. */
bool lh_master_lease_of(const struct lh_master *m, uint64_t chunk, struct lh_instant now,
    struct lh_master_lease *lease);

/* The number of the server's session as the wire has it, and its end unless it is renewed. False:
 * at `now` it has none. */
bool lh_master_session_of(const struct lh_master *m, const char *server, struct lh_instant now,
    uint64_t *session, struct lh_instant *end);

struct lh_core lh_master_core(struct lh_master *m);

#endif
