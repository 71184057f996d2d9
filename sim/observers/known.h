/* What the observers know of nodes, chunks and replicas. Inside sim/observers only. */
#pragma once

#include "sim/observers/observers.h"

#include "sim/observers/log_reader.h"
#include "sim/world/watch.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "proto/leasehold.pb-c.h"
#include "uthash.h"

struct observed;

/* ---- Who is who ---- */

/* Who runs etcd is nobody's concern; of a shared store it is known what becomes durable. */
enum part { PART_MASTER, PART_SERVER, PART_CLIENT, PART_STORE, PART_OTHER };

struct actor {
    struct lh_sim_node *node;
    const char *name;
    enum part part;
    uint32_t number;            /* among its likes, from 0 */
    bool alive;                 /* a process runs on it */
    bool stopping;              /* it was asked to end */
    bool dark;                  /* lost power and has not been booted since */
    struct lh_instant clock;    /* the reading that the present step was fed with */
    uint64_t stepped_at;        /* true ns of the same */
    struct lh_instant started;  /* its clock when its process was started */
    uint64_t started_at;        /* true ns of the same */
    uint64_t ended_at;          /* true ns: since then no process runs on it */
    uint64_t notified_at;       /* true ns: when a master's word on its session last reached it */
    struct lh_instant heard_at; /* the master's clock when it last heard of it ... */
    uint64_t heard_life;        /* ... in that life of the master's */
    bool showing;               /* pieces of its registration have not come to it yet (SES-1a) */
    uint64_t asked_to_drain_at; /* true ns: an operator last asked the master to empty it, or not */
};

/* ---- Chunks and replicas ---- */

#define MEMBERS_MAX 16

struct member {
    uint32_t server;
    bool joining, lost;
};

/* What a server answered to a Fence (FAIL-2a). */
struct fenced {
    uint64_t version; /* 0: nothing */
    uint64_t length, checksum, committed;
    uint64_t heard_at; /* true ns */
    /* True ns: from then on it counts for a decision, for certain. It may have come when the master
     * had decided, and that decision may have been taken back. UINT64_MAX: nobody knows. */
    uint64_t counted_at;
    bool unverified;
    bool primary;   /* its length is what it had committed as the primary */
    bool truncated; /* FAIL-3 */
    bool damaged;   /* FAIL-4: how far it is known to have gone (REC-9) */
};

/* One chunk's replica at one server, from its creation to its removal. */
struct replica {
    struct lh_sim_header kernel, platter; /* as last read */
    bool kernel_known, platter_known;     /* they are still true */
    bool header_written;                  /* since the last sync */
    /* Bytes changed by themselves, or an operation of the disk failed: what is there now is not the
     * server's fault, only what it makes of it. */
    bool damaged;
    uint64_t damaged_at; /* true ns, the last time */
    bool misled;         /* by a sync that had succeeded in words alone, and by nothing else */
    bool header_damaged, anew_damaged; /* its header was; its new file was, which stands beside */
    bool astray; /* a sync failed, and nobody was told: what counts as clean may not be there */
    bool in_doubt, sync_failed; /* a sync has failed (FAIL-5), and the process was told */
    bool refused;               /* a change of it was, in this process (REC-6) */
    bool missing, to_go;        /* the master was told that it is not there; has it removed */
    bool copied;                /* ... that it was copied there, since its server's leases came */
    uint64_t copy_ordered_at;   /* true ns: when its server last took a CopyReplica */
    struct fenced fenced, fenced_heard; /* as its server said last, and as the master heard */
    bool lost;                          /* its server has said so, or its header does */
    bool truncated;                     /* and not synced since (FAIL-3) ... */
    uint64_t truncated_at;              /* ... true ns: it counts for the process that did it */
    uint64_t logged_at;                 /* true ns: when its log was last written to */
    bool seal_seen, seal_kept; /* its header says sealed (SEAL-1); the master heard REC-7's word */
    uint64_t seal_notified;    /* the version at which the process that runs was told of a seal */
    /* LEASE-4: when its primary last listed it, true ns; and whether it has ordered since. */
    uint64_t listed_at;
    bool ordered;
    /* INV-10: at how many heartbeats, each after the answer to the one before, the master held its
     * lease and it did not; the last one's stamp and session. */
    unsigned unheld;
    uint64_t unheld_stamp, unheld_session;
    uint64_t floor;    /* the highest version that it confirmed (FENCE-1) */
    uint64_t notified; /* the version that its last registration told */
    uint64_t said;     /* the highest version that it named in this life */
    uint64_t released; /* the highest version that it gave up in this life (LEASE-6) */
};

/* A lease that the master has promised to a server (model.c). */
struct promise {
    uint32_t server;
    uint64_t incarnation, process, session, version;
    bool confirmed;                /* by its holder: the stream has carried its word (LEASE-8) */
    struct lh_instant holder_end;  /* on the holder's clock */
    struct lh_instant grantor_end; /* on the master's */
    bool waited; /* a master has freed the chunk or given it away since, and had waited for this */
};

/* What the master has heard against a primary that lives (INV-9). */
struct words {
    uint64_t version;
    uint64_t first_at, last_at; /* true ns */
    unsigned count;
};

/* More refused grants of a chunk within a second are a storm (LEASE-6). */
#define REFUSALS_A_SECOND 24

struct chunk {
    uint64_t id;
    UT_hash_handle hh;

    /* As the master's store has it. */
    bool known, removed;
    uint64_t file, index, start, version, length, checksum;
    bool created, sealed;
    bool intent;             /* to seal (FAIL-2a) */
    uint64_t seal_recorders; /* servers that recorded its seal, a bit each, also if lost since */
    uint64_t seal_logs;     /* servers whose log reached the seal when it was decided, a bit each */
    size_t logs_at_seal;    /* so many full members as are needed were there to answer then */
    bool sealed_by_primary; /* and it was the primary that said at which length */
    int32_t holder;         /* server; -1: nobody */
    uint64_t holder_incarnation;
    struct member members[MEMBERS_MAX];
    size_t member_count;

    uint64_t highest; /* version ever durable (INV-3) */

    /* What the master has decided and perhaps not yet made durable. */
    uint64_t decided_version, decided_granted;
    int32_t decided_holder;
    bool decided, decided_intent, decided_sealed;
    struct lh_instant intent_at; /* on the master's clock: when it decided that */
    struct lh_instant refused_at[REFUSALS_A_SECOND]; /* likewise: the last refused grants, a ring */
    size_t refusals;
    uint64_t refused_version; /* the newest one */

    /* The last SealReport that the master has heard, and when a primary last told it that too few
     * members are left (true ns; 0: never). */
    uint64_t report_version, report_length, report_checksum;
    uint64_t member_failed_at;
    uint64_t sure_version; /* at this one its primary said that it can do without some (REC-2a) */

    struct promise *promises;
    size_t promise_count, promise_capacity;

    /* What is committed, as far as anybody was told (committed.c). */
    struct lh_sim_batch *log;
    size_t log_count, log_capacity;
    uint64_t committed;
    uint64_t acknowledged; /* what clients were told is stored ends here */
    bool loss_reported;    /* REC-2a */
    uint64_t kept;         /* then: the length that no such loss went below */
    uint64_t loss_reported_version, loss_reported_length; /* FAIL-2a: by the log; 0: none */
    /* There was a moment without a good member, and not by loss of power alone. Rot behind the
     * length at which equality was confirmed last cannot be told from a torn tail
     * (docs/formats.md), so what was committed may be gone and nobody can know. Such a chunk is
     * judged no more. */
    bool hopeless;

    uint64_t recovered;        /* the highest version at which all members were equal (REC-2) */
    uint64_t acknowledged_at;  /* true ns: when clients were last told so */
    uint64_t recalled_at;      /* true ns: an operator asked for its lease last; 0: never */
    struct words lost, lonely; /* by clients, by the primary itself */
    uint64_t consent_at;       /* true ns: since then it is asked to let another one; 0: never */
    int32_t consent_holder;

    struct replica *replicas; /* by server */
};

struct file {
    uint64_t id;
    UT_hash_handle hh;
    char *path;
    bool removed, synced;
    bool trashed;
    uint64_t trashed_at; /* true ns */
    bool purge_asked;    /* for good, by an operator */
    bool removal_asked;  /* of the master; it may be carried out much later (VAL-7) */
    uint64_t short_at;   /* true ns: when too few members were last left for appends; 0: never */
    uint32_t replication, min_replicas;
    struct chunk **chunks; /* by index */
    size_t chunk_count, chunk_capacity;
    /* What was acknowledged by when, in the order of time: the furthest batch begins at `begin`,
     * all of it ends at `end`. */
    struct ack {
        uint64_t at; /* true ns */
        uint64_t begin, end;
    } * acks;
    size_t ack_count, ack_capacity;
    uint64_t token;       /* the highest that a committed batch was appended with (TOK-2) ... */
    uint64_t token_begin; /* ... the first of which lies there */
    bool loss_reported;   /* of some chunk of it (REC-2a) */
    uint64_t recalled_at; /* true ns: an operator asked for its tail's lease last; 0: never */
    uint64_t consent_at; /* true ns: when a primary of it was last asked to let another; 0: never */
};

/* ---- All together ---- */

struct lh_sim_observers {
    struct lh_sim_observers_config config;
    struct lh_sim_cluster *cluster;
    struct lh_sim *sim;

    struct actor actors[LH_SIM_NODES_MAX];
    size_t actor_count;
    struct actor *master;      /* who acts, or did last */
    struct lh_sim_node *store; /* whose store is the master's */
    uint64_t master_life;      /* counts starts of the one master, or reigns of many */
    uint64_t reign;            /* of several masters: the newest that has begun to act; else 0 */
    uint64_t quiet_reign;      /* one that was confirmed when nothing was broken any more */
    struct deferred *deferred, *deferred_last; /* inputs that wait until it is confirmed (HA-2) */
    uint32_t server_count;
    struct actor **servers;  /* by number */
    uint8_t by_address[256]; /* actor + 1, open addressing by the node's address */

    struct chunk *chunks;
    struct file *files;
    struct note *notes;
    struct pieces *pieces;
    /* The registration whose last lease, and whose last replica, is in what is seen now (pieces.c).
     * The first counts, with the replicas that came until then. */
    Leasehold__Register *leases_whole, *whole;
    bool follows; /* what is seen now is a piece of one behind its last lease */
    struct pending *pending_first, *pending_last; /* commits under way (ledger.c) */
    uint64_t mixed_at;    /* true ns of the master's last step with many inputs (HA-2) ... */
    uint64_t mixed_since; /* ... and when the first of them came, as of which it was taken */
    uint64_t ticket;      /* of several masters: the last commit of the reign that was seen */
    struct lease_model *model;
    struct history *history;
    struct lease_watch *inv1;
    struct health *health;
    struct causes *causes;
    struct leases *leases; /* of programs */
    struct capabilities *capabilities;
    struct decided *decided; /* access.c */
    struct foreign *foreign; /* foreign.c */
    struct own_logs *own_logs;
    struct heads *heads;
    struct tokens *tokens;
    uint64_t master_term;
    bool restored;    /* the store is an older copy: nothing is known any more but KEEP-4 */
    bool resumed;     /* and the operator has looked */
    bool ruin;        /* more damage than the protocol survives: no answer is due */
    bool nobody_left; /* some chunk had no good member left to look at */
    bool over;        /* faults are */
    uint64_t over_at, next_due;      /* true ns */
    struct lh_duration longest_term; /* that any master has had */
    uint64_t seen_inv1, seen_inv2, seen_inv11, seen_inv13, seen_inv14, seen_inv15;
    bool blurred;    /* what is being read has several calls of a master that is gone */
    uint64_t copies; /* of chunks, that servers called done */
};
/* Has something gone wrong already? Then models may be incomplete: nothing is checked any more. */
static inline bool failed(const struct lh_sim_observers *o)
{
    return lh_sim_failure(o->sim) != NULL || o->restored;
}

/* Has the master taken, just now, what had waited for its confirmation (HA-2)? What it decided
 * among that, it decided before it took the rest. */
static inline bool lh_ob_is_mixed(const struct lh_sim_observers *o)
{
    return o->mixed_at == lh_sim_now(o->sim);
}
