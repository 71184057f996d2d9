/* What the observers' parts offer each other. Inside sim/observers only.
 *
 * Each part has functions that observers.c calls for what was seen, in the order in which they
 * stand there: first the models, then the invariants. */
#pragma once

#include "sim/observers/known.h"
#include "sim/observers/links.h"

/* The core of the master that acts; NULL: none does. */
const struct lh_master *lh_ob_master_core(const struct lh_sim_observers *o);

struct actor *lh_ob_actor(struct lh_sim_observers *o, const struct lh_sim_node *node);

/* -1: no chunkserver is called so. */
int32_t lh_ob_server_named(const struct lh_sim_observers *o, const char *name);

/* The chunk of that id, made when it is first heard of. */
struct chunk *lh_ob_chunk(struct lh_sim_observers *o, uint64_t id);
struct chunk *lh_ob_chunk_find(const struct lh_sim_observers *o, uint64_t id);
struct file *lh_ob_file_find(const struct lh_sim_observers *o, uint64_t id);

/* Something is wrong that may be wrong while clocks are beyond rho: then it is counted (INV-7). */
void lh_ob_fail_unless_excused(struct lh_sim_observers *o, const char *rule, uint64_t chunk,
    uint64_t *seen, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- pieces.c ---- */

/* Sets `leases_whole`, `whole` and `follows`: before all others look at what is seen. */
void lh_ob_pieces_note(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_pieces_deinit(struct lh_sim_observers *o);

/* ---- decided.c ---- */

/* A chunk's record, as the master wants it. */
void lh_ob_decided(struct lh_sim_observers *o, const struct lh_change *change);
void lh_ob_decided_removal(struct lh_sim_observers *o, uint64_t file, uint64_t index);

/* ---- ledger.c: the master's store ---- */

void lh_ob_ledger_does(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_ledger_takes(struct lh_sim_observers *o, const struct lh_sim_sight *s);
/* After a step of a master among others that acts. */
void lh_ob_ledger_looks(struct lh_sim_observers *o);
/* A master that was not confirmed takes many inputs in one step: has it decided something about the
 * chunk in the present one? Then what it says in that step may be of before or of after. */
bool lh_ob_ledger_deciding(const struct lh_sim_observers *o, const struct chunk *c);
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
    struct lh_instant wait_end;        /* for the one that runs it is over then (LEASE-9) */
    bool this_master;                  /* which is the one that runs */
    bool waited;                       /* a master between these two has waited for it */
    const struct lh_sim_node *clock;   /* `grantor` is a reading of its clock */
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
/* Called before that is noted: a decision by its log may be taken back. Others are asked again. */
void lh_ob_roll_log_goes(struct lh_sim_observers *o, struct chunk *c, uint32_t server);
void lh_ob_roll_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_roll_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);

/* Is a seal whose length the master decided in force for this member: has it recorded it, or
 * answered the fence with enough? */
bool lh_ob_roll_covers(struct lh_sim_observers *o, struct chunk *c, uint32_t server);

/* All replicas that have to be equal are; else `text` says which are not, and `chunk` where. A tail
 * whose members are being made equal is not yet; with `but_recovering` it is left out. */
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
/* The master has decided to have the chunk created there (SES-8), or to grant it (SES-4). */
void lh_ob_health_placed(struct lh_sim_observers *o, const struct chunk *c, const struct actor *a);
void lh_ob_health_granted(
    struct lh_sim_observers *o, const struct chunk *c, const struct actor *server);

/* The master intends to seal a chunk without its holder (FAIL-2a). */
void lh_ob_inv9_rolls(struct lh_sim_observers *o, const struct chunk *c);

void lh_ob_inv9_init(struct lh_sim_observers *o);
void lh_ob_inv9_deinit(struct lh_sim_observers *o);
void lh_ob_inv9_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_inv9_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_inv9_lives(struct lh_sim_observers *o, struct actor *a, enum lh_sim_life what);

/* Does the master listen to what this server says in that session? It is over, and counts for
 * nothing (SES-3), when the master says so. */
bool lh_ob_said_in_session(
    const struct lh_sim_observers *o, const struct actor *server, uint64_t session);
void lh_ob_inv10_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);

/* The server told a client that this batch is stored (LEASE-4). */
void lh_ob_inv9_stored(
    struct lh_sim_observers *o, struct chunk *c, uint32_t server, const struct lh_sim_batch *b);
