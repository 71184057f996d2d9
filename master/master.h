/* The master's core: who is alive, what files there are, where their chunks lie, and who may take
 * their appends. It is a state machine as base/step.h describes: no I/O, no clock, no threads, no
 * randomness beyond `seed`.
 *
 * What memory holds may be ahead of the store by the commits under way; what is *said* never is: a
 * message that depends on a commit is emitted by that commit's LH_IN_PERSISTED or later. If a
 * commit fails, memory is ahead for good, so the core stops with the error (LH_FX_STOPPED).
 *
 * Life: lh_master_create(); lh_master_load() for every stored pair in the order of keys, and
 * lh_master_loaded(); if it then follows another master (HA-8), lh_master_amend() for each of that
 * one's commits, in their order; and, once it is to act, lh_master_set_reign() and steps. The first
 * step is the master's start in the sense of LEASE-7: feed it without delay. What it does from then
 * on depends on what is stored, not on the way by which that came in.
 *
 * Keys in the store: one letter, then numbers of 8 bytes, big-endian (see master/tables/put.c).
 *
 * Packages, each above the next; none calls one above it:
 *   master.c, durable.c, wiring.c   one step; what follows from a commit; who hears of what
 *   calls/      what clients and operators ask
 *   keep/       repair, copies, moving, garbage (REC-4, KEEP-2, KEEP-3)
 *   seal/       going on without a lost primary (FAIL-2a), what is sealed then, who recorded it
 *   growth/     new chunks, and those created ahead of their need
 *   grants/     who may take a chunk's appends (LEASE-*)
 *   inventory/  what servers have: what a replica is worth (KEEP-1), where one can go (KEEP-4)
 *   programs/   programs with sessions: what they show and ask (PS-*)
 *   locks/      their locks (NL-*)
 *   sessions/   who is alive (SES-*)
 *   tables/     records, their indexes, what is dirty, what changed */
#pragma once

#include "base/error.h"
#include "base/metrics.h"
#include "base/step.h"
#include "base/time.h"
#include "master/config.h"
#include "proto/leasehold.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_master;

/* Key of an Elsewhere record (proto/stored.proto), before all others: a store that has it is
 * refused when it is loaded, since its content is in another one, or it is not whole. */
#define LH_MASTER_ELSEWHERE_KEY "@"

/* `config` was checked; it is copied. Never NULL. */
struct lh_master *lh_master_create(const struct lh_master_config *config);
void lh_master_destroy(struct lh_master *m);

/* Takes in one stored pair, in the order of keys and before the first step. On failure `text` says
 * what to do, and the core must not be stepped.
 *   WRONG_IDENTITY  the store is not to be used: LH_MASTER_ELSEWHERE_KEY
 *   CORRUPT       the pair does not fit what was loaded before
 *   WRONG_FORMAT  written by a newer release */
LH_MUST_USE int lh_master_load(struct lh_master *m, const void *key, size_t key_size,
    const void *value, size_t value_size, char *text, size_t text_size);

/* When all pairs are there: whether that is all. CORRUPT: a pair was lost, or is another one than a
 * master has written (PAIR-2); as lh_master_load(). */
LH_MUST_USE int lh_master_loaded(const struct lh_master *m, char *text, size_t text_size);

/* A master's record by itself, and its value again, malloc'd, with its seal if its format has
 * seals. NULL: it cannot be read. */
struct LeaseholdStored__Master *lh_master_record_read(const void *value, size_t value_size);
uint8_t *lh_master_record_write(const struct LeaseholdStored__Master *record, uint32_t *value_size);

/* Takes in one whole commit of another master, after loading and before the first step: puts, and
 * deletes (`value` is NULL), in any order, a key at most once. They stay the caller's. The cost is
 * proportional to the commit, times the logarithm of what is stored.
 *   LH_OK         the core is as if the store that results had been loaded
 *   CORRUPT, WRONG_FORMAT   as lh_master_load(): the core must not be used any more. CORRUPT also
 *                 if the record of the master or of a chunkserver is deleted: no master does it */
LH_MUST_USE int lh_master_amend(struct lh_master *m, const struct lh_change *changes, size_t count,
    char *text, size_t text_size);

/* The master term as it was loaded, or its own, which may rise while it acts (SES-9). 0: nothing
 * was loaded. */
uint64_t lh_master_term(const struct lh_master *m);
/* The name that this store has of that reign (SES-9); 0: none. */
uint64_t lh_master_reign_name(const struct lh_master *m, uint64_t reign);
/* The cluster's id, as it was loaded or has begun; NULL: there is none yet. */
const char *lh_master_cluster(const struct lh_master *m);

/* With its end. */
#define LH_CLUSTER_ID_BYTES 33u

/* The id of a cluster that begins with that random number. */
void lh_master_draw_cluster(uint64_t seed, char id[LH_CLUSTER_ID_BYTES]);

/* The key of the pair that has it: the master's record. */
#define LH_MASTER_KEY "M"

/* Sets the config's `reign`, `reign_name` and `reign_followed`, before the first step: a standby
 * learns them only when it begins. */
void lh_master_set_reign(struct lh_master *m, uint64_t reign, uint64_t name, bool followed);

/* Whoever asks which master acts has seen these reigns (SES-9): the next step sees to it. Call it
 * between steps. */
void lh_master_hears(struct lh_master *m, const Leasehold__MastersRequest *request);

/* ---- Whom this master reaches (HA-9a; reached.c). Between steps. */

/* Whoever asks so is a chunkserver that has registered and would be registered again, as far as a
 * copy of the store shows it. */
bool lh_master_would_register(
    const struct lh_master *m, const char *identity, const Leasehold__MastersRequest *request);
/* Chunkservers in session at `now` that have received an answer within the session's term. */
uint64_t lh_master_reached(const struct lh_master *m, struct lh_instant now);
/* Of the registered chunkservers of these names those that are not; NULL: of all of them. */
uint64_t lh_master_missed(
    const struct lh_master *m, struct lh_instant now, char *const *names, size_t count);

/* Between steps: answers a call of that method from what is durable, and does nothing else. No
 * timer fires and time stands still, so that a master may do this that does not act (HA-2a). */
bool lh_master_is_read(enum lh_method method);
void lh_master_read(struct lh_master *m, struct lh_input *in, struct lh_effects *fx);

/* The next steps' inputs have waited and are taken as of when they came (HA-2), and `now` is a
 * reading of the present: what these steps say leaves after it. Not below an earlier one. */
void lh_master_say_at(struct lh_master *m, struct lh_instant now);

/* All that is durable, as one LH_FX_PERSIST with ticket 0: puts, in no particular order. For tests;
 * the core is between steps, and no commit is under way. O(n). */
void lh_master_records(struct lh_master *m, struct lh_effects *fx);

/* While the store is filling up (HA-11) no file is created, and no file gets another chunk
 * (DISK_FULL). `why`: a sentence for whoever is refused; copied. NULL: it has room, as at first.
 * Who waits for a chunk learns of the end by asking again. Call it between steps. */
void lh_master_store_fills(struct lh_master *m, const char *why);

/* Somebody else has changed or deleted the pair of that key in the store: the next step puts it
 * again as it should be, or deletes it, in a commit of its own (PAIR-5). Call it between steps, of
 * a core that was stepped. */
void lh_master_write_again(struct lh_master *m, const void *key, size_t key_size);

/* Addresses of all masters of the cluster, this one's too: from now on answers list them (HA-10).
 * They are copied, and replace the list before. `count` 0, as at first: this is the only master,
 * and no list is sent. Call it between steps. */
void lh_master_know_masters(struct lh_master *m, const char *const *addresses, size_t count);

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
