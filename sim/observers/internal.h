/* What the observers share: who is who, what the master's store says, and what is known of each
 * chunk and of each replica. Inside sim/observers only.
 *
 * Each part has functions that observers.c calls for what was seen, in the order in which they
 * stand there: first the models, then the invariants. */
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

enum part { PART_MASTER, PART_SERVER, PART_CLIENT };

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
    bool unverified;
    bool primary;   /* its length is what it had committed as the primary */
    bool truncated; /* FAIL-3 */
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
    bool header_damaged; /* and that befell its header */
    /* A sync failed while its process died: nobody was told, and what the kernel calls clean may
     * not be on the platter, until the file is another or the machine loses power. */
    bool astray;
    bool sync_failed;    /* and the process that runs was told (FAIL-5) */
    bool missing;        /* its server has registered without it, and the master knows */
    uint64_t copy_ordered_at; /* true ns: when its server last took a CopyReplica */
    struct fenced fenced, fenced_heard; /* as its server said last, and as the master heard */
    bool lost;                          /* its server has said so, or its header does */
    bool truncated;                     /* and not synced since (FAIL-3) ... */
    uint64_t truncated_at;              /* ... true ns: it counts for the process that did it */
    uint64_t logged_at;                 /* true ns: when its log was last written to */
    bool seal_seen;                     /* its header says sealed (SEAL-1) */
    uint64_t seal_told; /* the version at which the process that runs was told of a seal */
    /* LEASE-4: when its primary last listed the chunk in a heartbeat, true ns; and whether it has
     * ordered and answered something since. */
    uint64_t listed_at;
    bool ordered;
    /* INV-10: at how many heartbeats, each after the answer to the one before, the master held its
     * lease and it did not; the last one's stamp and session. */
    unsigned unheld;
    uint64_t unheld_stamp, unheld_session;
    uint64_t floor;    /* the highest version that it confirmed (FENCE-1) */
    uint64_t told;     /* the version that its last registration told */
    uint64_t said;     /* the highest version that it named in this life */
    uint64_t released; /* the highest version that it gave up in this life (LEASE-6) */
};

/* A lease that the master has promised to a server (model.c). */
struct promise {
    uint32_t server;
    uint64_t incarnation, session, version;
    bool confirmed;                /* by its holder: the stream has carried its word (LEASE-8) */
    struct lh_instant holder_end;  /* on the holder's clock */
    struct lh_instant grantor_end; /* on the master's */
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
    size_t logs_at_seal;    /* so many full members there were to answer, when that was decided, as
                              are needed */
    bool sealed_by_primary; /* and it was the primary that said at which length */
    int32_t holder;         /* server; -1: nobody */
    uint64_t holder_incarnation;
    struct member members[MEMBERS_MAX];
    size_t member_count;

    uint64_t highest; /* version ever durable (INV-3) */

    /* What the master has decided and perhaps not yet made durable. */
    uint64_t decided_version, decided_granted;
    int32_t decided_holder;
    bool decided_intent, decided_sealed;
    struct lh_instant intent_at; /* on the master's clock: when it decided that */
    struct lh_instant refused_at[REFUSALS_A_SECOND]; /* likewise, the last grants that were refused:
                                                        a ring */
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
    bool loss_told;        /* the master's log has it: for a seal that is to come (FAIL-2a) */
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
    bool loss_reported;   /* of some chunk of it (REC-2a) */
    uint64_t recalled_at; /* true ns: an operator asked for its tail's lease last; 0: never */
    uint64_t consent_at; /* true ns: when a primary of it was last asked to let another; 0: never */
};

/* ---- Links ---- */

/* What a served link was asked for, until it ends. */
struct note {
    uint64_t link;
    UT_hash_handle hh;
    uint32_t actor; /* who serves it */
    enum lh_method method;
    uint64_t chunk, version;
    uint64_t writer;          /* SETTLE */
    bool require_primary;     /* READ */
    bool recovery;            /* READ */
    uint64_t offset;          /* READ */
    uint64_t acknowledged_at; /* READ: chunk.acknowledged when it was asked */
    struct fed *fed;          /* REPLICATE: one for each chunk */
    struct laned *lanes;      /* APPEND */
    uint64_t rest_lane;       /* APPEND: of the batch that came in part */
    struct lh_buf rest;
};

/* A lane of an append link. */
struct laned {
    struct laned *next;
    uint64_t lane, chunk, version;
    bool over; /* the server has said so: what still comes is ignored */
};

/* What a replicate link feeds. */
struct fed {
    struct fed *next;
    uint64_t chunk, version, feed;
    /* CONFIRMs that were taken and not answered. */
    struct confirm {
        uint64_t length, checksum;
    } * confirms;
    size_t confirm_first, confirm_count, confirm_capacity;
};

/* ---- All together ---- */

struct lh_sim_observers {
    struct lh_sim_observers_config config;
    struct lh_sim_cluster *cluster;
    struct lh_sim *sim;

    struct actor actors[LH_SIM_NODES_MAX];
    size_t actor_count;
    struct actor *master;
    uint32_t server_count;
    struct actor **servers;  /* by number */
    uint8_t by_address[256]; /* actor + 1, open addressing by the node's address */

    struct chunk *chunks;
    struct file *files;
    struct note *notes;
    struct pieces *pieces;
    Leasehold__Register *whole; /* the registration that ends with what is seen now (pieces.c) */
    struct pending *pending_first, *pending_last; /* commits under way (ledger.c) */

    struct lease_model *model;
    struct history *history;
    struct lease_watch *inv1;
    struct health *health;
    struct causes *causes;

    uint64_t master_term;
    bool restored;    /* the store is an older copy: nothing is known any more but KEEP-4 */
    bool resumed;     /* and the operator has looked */
    bool ruin;        /* more damage than the protocol survives: no answer is due */
    bool nobody_left; /* some chunk had no good member left to look at */
    bool over;        /* faults are */
    uint64_t over_at, next_due;      /* true ns */
    struct lh_duration longest_term; /* that any master has had */
    uint64_t seen_inv1, seen_inv2;
    uint64_t copies; /* of chunks, that servers called done */
};

/* Has something gone wrong already? Then models may be incomplete: nothing is checked any more. */
static inline bool failed(const struct lh_sim_observers *o)
{
    return lh_sim_failure(o->sim) != NULL || o->restored;
}

struct actor *lh_ob_actor(struct lh_sim_observers *o, const struct lh_sim_node *node);

/* Does the master listen to what this server says in that session? It is over, and counts for
 * nothing (SES-3), when the master says so. */
bool lh_ob_said_in_session(
    const struct lh_sim_observers *o, const struct actor *server, uint64_t session);

/* -1: no chunkserver is called so. */
int32_t lh_ob_server_named(const struct lh_sim_observers *o, const char *name);

/* The chunk of that id, made when it is first heard of. */
struct chunk *lh_ob_chunk(struct lh_sim_observers *o, uint64_t id);
struct chunk *lh_ob_chunk_find(const struct lh_sim_observers *o, uint64_t id);
struct file *lh_ob_file_find(const struct lh_sim_observers *o, uint64_t id);

/* The note of a link; NULL: there is none. */
struct note *lh_ob_note(const struct lh_sim_observers *o, uint64_t link);
/* NULL: the link has had no such lane. */
struct laned *lh_ob_lane(const struct note *n, uint64_t lane);
/* What a primary asks for (inv3.c). */
void lh_ob_note_replicate(struct note *n, const Leasehold__ReplicateRequest *m);
/* NULL: the answer is to no feed that the link has. */
struct fed *lh_ob_fed(const struct note *n, const Leasehold__ReplicateAnswer *answer);

/* Something is wrong that may be wrong while clocks are beyond rho: then it is counted (INV-7). */
void lh_ob_fail_unless_excused(struct lh_sim_observers *o, const char *rule, uint64_t chunk,
    uint64_t *seen, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- pieces.c ---- */

/* Sets `whole`: before all others look at what is seen. */
void lh_ob_pieces_note(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_pieces_deinit(struct lh_sim_observers *o);

/* ---- ledger.c: the master's store ---- */

void lh_ob_ledger_does(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_ledger_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_ledger_committed(struct lh_sim_observers *o);
void lh_ob_ledger_ended(struct lh_sim_observers *o);
void lh_ob_ledger_deinit(struct lh_sim_observers *o);

/* ---- model.c ---- */

void lh_ob_model_init(struct lh_sim_observers *o);
void lh_ob_model_deinit(struct lh_sim_observers *o);
void lh_ob_model_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_model_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_model_stepped(struct lh_sim_observers *o, const struct actor *a);
void lh_ob_model_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what);

/* A chunk about which the master has promised something in its present step; false: no (other) one.
 * Each is told of once. */
bool lh_ob_model_promised(struct lh_sim_observers *o, uint64_t *chunk);

/* What the server was told that it holds, and has not given up; `end` on its own clock. */
bool lh_ob_model_right(const struct lh_sim_observers *o, const struct actor *server, uint64_t chunk,
    uint64_t *version, struct lh_instant *end);

/* The session term of the master that runs. */
struct lh_duration lh_ob_model_session_term(const struct lh_sim_observers *o);

/* Until when the master has to keep that session, on its clock. */
struct lh_instant lh_ob_model_session_until(
    const struct lh_sim_observers *o, const struct actor *server, uint64_t session);

/* How many chunks that is, and which. */
size_t lh_ob_model_held(const struct lh_sim_observers *o, const struct actor *server);
uint64_t lh_ob_model_held_chunk(
    const struct lh_sim_observers *o, const struct actor *server, size_t index);

struct lh_ob_promised {
    struct lh_instant holder, grantor; /* both zero: long over */
    struct lh_duration session_term;   /* of the master that promised it */
    bool this_master;                  /* which is the one that runs */
};

void lh_ob_model_promise(
    const struct lh_sim_observers *o, const struct promise *p, struct lh_ob_promised *ends);

/* ---- replicas.c: what disks hold ---- */

struct replica *lh_ob_replica(struct chunk *c, uint32_t server);
const struct lh_sim_header *lh_ob_kernel(
    struct lh_sim_observers *o, struct chunk *c, uint32_t server);
const struct lh_sim_header *lh_ob_platter(
    struct lh_sim_observers *o, struct chunk *c, uint32_t server);

/* The log's bytes; NULL: there is no file. */
const uint8_t *lh_ob_log(struct lh_sim_observers *o, const struct chunk *c, uint32_t server,
    bool platter, uint64_t *size);

/* REC-2a, by what its header says. */
bool lh_ob_unverified(struct lh_sim_observers *o, struct chunk *c, uint32_t server);

/* Has its server gone back on it for good? */
bool lh_ob_lost(struct lh_sim_observers *o, struct chunk *c, uint32_t server);

/* Has the disk of any member done something by itself? Then it may serve a whole batch that belongs
 * elsewhere. */
bool lh_ob_touched(const struct chunk *c);

bool lh_ob_full_member(const struct chunk *c, uint32_t server);

/* Where must its bytes be: on the platter, or in the kernel's hands? */
bool lh_ob_on_platter(struct lh_sim_observers *o, struct chunk *c, uint32_t server);

/* Something has befallen one of its members, or the members are others now: is it hopeless? */
void lh_ob_reconsider(struct lh_sim_observers *o, struct chunk *c);

/* A full, verified member of the newest durable set whose disk did nothing by itself: INV-4 and
 * INV-5 speak of it. */
bool lh_ob_good(struct lh_sim_observers *o, struct chunk *c, uint32_t server);

void lh_ob_replicas_disk(struct lh_sim_observers *o, struct actor *a, uint64_t file,
    enum lh_disk_op op, uint64_t offset, uint64_t length, int error);
void lh_ob_replicas_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what);

/* ---- committed.c ---- */

/* Somebody was told that the chunk is committed up to `length`: it must be so at every good member,
 * and what lies there is remembered. False: it was not, and the run has failed by `rule`. */
bool lh_ob_commit(struct lh_sim_observers *o, struct chunk *c, uint64_t length, const char *rule,
    const char *who, const char *what);

/* A server has told its operator of an error of this chunk. If no good member is left, what none of
 * the others has is lost, and that was the report. */
void lh_ob_commit_reported(struct lh_sim_observers *o, struct chunk *c);

/* Is the member's log what was committed, in [from, to)? */
void lh_ob_commit_check(struct lh_sim_observers *o, struct chunk *c, uint32_t server, uint64_t from,
    uint64_t to, const char *why);

/* The committed batch at that offset; NULL: none begins there. */
const struct lh_sim_batch *lh_ob_committed_at(const struct chunk *c, uint64_t offset);

/* Somebody was told that the batch at `offset` is committed. As lh_ob_commit(). */
bool lh_ob_commit_batch(struct lh_sim_observers *o, struct chunk *c, uint64_t offset,
    const char *rule, const char *who, const char *what);

/* The running checksum of what is committed. */
uint64_t lh_ob_checksum(const struct chunk *c);

/* REC-2a: the loss of what lies behind `length` was reported. */
void lh_ob_commit_lost(struct lh_sim_observers *o, struct chunk *c, uint64_t length);

/* ---- history.c ---- */

void lh_ob_history_init(struct lh_sim_observers *o);
void lh_ob_history_deinit(struct lh_sim_observers *o);
void lh_ob_history_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_history_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_history_stranger(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_history_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what);

/* True ns: when the program submitted it; 0: nobody did. */
uint64_t lh_ob_submitted_at(const struct lh_sim_observers *o, const struct lh_sim_batch *b);

/* From now on the path names that file; 0: none. */
void lh_ob_names_changed(struct lh_sim_observers *o, const char *path, uint64_t file);

/* ---- Invariants ---- */

void lh_ob_inv1_init(struct lh_sim_observers *o);
void lh_ob_inv1_deinit(struct lh_sim_observers *o);
void lh_ob_inv1_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_inv1_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_inv1_stepped(struct lh_sim_observers *o, struct actor *a);
void lh_ob_inv1_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what);

/* Until when the master that runs has to wait for a promise, on its clock. */
struct lh_instant lh_ob_grantor_waits_until(
    const struct lh_sim_observers *o, const struct lh_ob_promised *ends);

/* Does the server believe that it may act on the chunk `at` a reading of its clock? */
bool lh_ob_believes(const struct actor *a, uint64_t chunk, struct lh_instant at, uint64_t *version);

/* The master has decided that `server` shall hold the chunk. */
void lh_ob_inv2_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_inv2_stepped(struct lh_sim_observers *o);

/* The master has decided that nobody holds the chunk any more; `decided_*` are as before. */
void lh_ob_inv2_freed(struct lh_sim_observers *o, struct chunk *c);

void lh_ob_inv2_decided(
    struct lh_sim_observers *o, struct chunk *c, uint32_t server, uint64_t version);

void lh_ob_inv3_master_term(struct lh_sim_observers *o, uint64_t term);
void lh_ob_inv3_stored(struct lh_sim_observers *o, struct chunk *c, uint64_t version);
void lh_ob_inv3_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_inv3_header(struct lh_sim_observers *o, struct chunk *c, uint32_t server);

void lh_ob_inv4_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_inv4_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_inv4_sealed(struct lh_sim_observers *o, struct chunk *c);
void lh_ob_inv4_seal_recorded(struct lh_sim_observers *o, struct chunk *c, uint32_t server);
void lh_ob_inv4_header_written(struct lh_sim_observers *o, struct chunk *c, uint32_t server);

/* All replicas that have to be equal are; else `text` says which are not, and `chunk` where. A tail
 * whose members are being made equal is not yet; with `but_recovering` it is left out. */
/* Servers that can and should hold replicas. */
uint32_t lh_ob_fit_servers(const struct lh_sim_observers *o);

/* Every chunk that can be repaired has as many good members as it should, and none on a server that
 * is to be emptied (KEEP-1, KEEP-2); else as lh_ob_inv5_equal(). */
bool lh_ob_keep_whole(struct lh_sim_observers *o, uint64_t *chunk, char *text, size_t text_size);

void lh_ob_keep_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_keep_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);

/* The file's record is gone (KEEP-5). */
void lh_ob_keep_purged(struct lh_sim_observers *o, const struct file *f);

/* The server has become a full member (REC-4). */
void lh_ob_keep_joined(struct lh_sim_observers *o, struct chunk *c, uint32_t server);

/* FAIL-2a: the master has decided to seal the chunk by fences, at this length and version. */
void lh_ob_roll_sealed(struct lh_sim_observers *o, struct chunk *c, uint64_t version,
    uint64_t length, uint64_t checksum);
void lh_ob_roll_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_roll_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);

/* Is a seal whose length the master decided in force for this member: has it recorded it, or
 * answered the fence with enough? */
bool lh_ob_roll_covers(struct lh_sim_observers *o, struct chunk *c, uint32_t server);

bool lh_ob_inv5_equal(
    struct lh_sim_observers *o, bool but_recovering, uint64_t *chunk, char *text, size_t text_size);

/* A batch is committed where it stands now. False: it cannot be, and the run has failed. */
bool lh_ob_inv6_placed(struct lh_sim_observers *o, struct chunk *c, const struct lh_sim_batch *b);

/* Its loss was reported (REC-2a). */
void lh_ob_inv6_lost(struct lh_sim_observers *o, const struct lh_sim_batch *b);

void lh_ob_inv8_takes(struct lh_sim_observers *o);
void lh_ob_inv8_end(struct lh_sim_observers *o);

/* Does damage leave one of the file's chunks without a member that could bring it back? */
bool lh_ob_inv8_exempt(struct lh_sim_observers *o, struct file *f);

void lh_ob_health_init(struct lh_sim_observers *o);
void lh_ob_health_deinit(struct lh_sim_observers *o);
void lh_ob_health_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_health_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_health_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what);

/* The master has decided to grant the chunk to that server (SES-4). */
void lh_ob_health_granted(
    struct lh_sim_observers *o, const struct chunk *c, const struct actor *server);

/* The master intends to seal a chunk without its holder (FAIL-2a). */
void lh_ob_inv9_rolls(struct lh_sim_observers *o, const struct chunk *c);

void lh_ob_inv9_init(struct lh_sim_observers *o);
void lh_ob_inv9_deinit(struct lh_sim_observers *o);
void lh_ob_inv9_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_inv9_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_inv9_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what);

void lh_ob_inv10_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);

/* The server told a client that this batch is stored (LEASE-4). */
void lh_ob_inv9_stored(
    struct lh_sim_observers *o, struct chunk *c, uint32_t server, const struct lh_sim_batch *b);
