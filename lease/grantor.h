/* The granting side of leases: sessions, and leases held in them.
 *
 * A lease has a key (64 bits, chosen by the caller), a version (the fencing token), a mode and a
 * session. It is in force only while both its own term and its session's run. Renewing a session
 * therefore renews every lease in it, at once and in constant time. The table knows nothing of
 * chunks, of files or of networks.
 *
 * Guarantees, on the caller's clock: an exclusive lease is never granted while another session's
 * lease on the key is in force (LEASE-2, INV-1, INV-2); a running term is never shortened (TIME-4);
 * the version of a key never falls while the key is in the table (INV-3; the caller's durable state
 * keeps it beyond that).
 *
 * Readings of the caller's clock do not go back: one that is earlier than the latest `now` seen
 * counts as that. What was over once stays over.
 *
 * Cost: every operation is O(1), and none scans the table or rehashes it (each grant pays its own
 * share of the table's growth). The exceptions say so: lh_grantor_session_end(), which hands out
 * what it frees, and questions about all holders of one shared key. A renewal only writes an end;
 * what was filed under the old one is looked at when that comes. An exclusive lease costs at most
 * 64 bytes all told. Memory that was needed once is kept for later leases.
 *
 * Deterministic: the same calls give the same results in the same order. Not thread-safe: one
 * thread at a time. */
#pragma once

#include "base/error.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lh_lease_mode { LH_LEASE_EXCLUSIVE, LH_LEASE_SHARED };

/* Names a session; never reused within one table. 0 names none. */
typedef uint64_t lh_session_id;

struct lh_lease_info {
    uint64_t key;
    uint64_t version;
    lh_session_id session;
    void *context; /* of the session */
    enum lh_lease_mode mode;
    bool recalling;
    struct lh_instant end;     /* the earlier of the lease's own end and its session's */
    struct lh_instant own_end; /* the lease's own: what it is when the session is renewed */
};

struct lh_grantor;

/* `capacity_hint`: leases to make room for at once; 0 for a small table. Never NULL. */
struct lh_grantor *lh_grantor_create(size_t capacity_hint);
void lh_grantor_destroy(struct lh_grantor *g);

/* Opens a session whose first term counts from `received_at` (TIME-4).
 * `context` is the caller's. */
lh_session_id lh_grantor_session_open(
    struct lh_grantor *g, struct lh_instant received_at, struct lh_duration term, void *context);

/* Renews it.
 *   UNKNOWN_SESSION  no such session, or it has ended or been closed (SES-3: such a session is
 *                    never renewed) */
LH_MUST_USE int lh_grantor_session_renew(
    struct lh_grantor *g, lh_session_id s, struct lh_instant received_at, struct lh_duration term);

/* The session will not be renewed, nor a lease granted or extended in it, any more (its server
 * registered again). Its leases stay in force until they run out: closing frees nothing (SES-5,
 * LEASE-2). Its end is still reported by lh_grantor_expire(). Nothing happens if there is none. */
void lh_grantor_session_close(struct lh_grantor *g, lh_session_id s);

/* The holder gave everything up: the session is over at `now`, and lh_grantor_expire() reports it
 * and its leases as if it had run out. Nothing happens if there is none. O(1). */
void lh_grantor_session_stop(struct lh_grantor *g, lh_session_id s, struct lh_instant now);

/* The holder is known to be dead, or gave everything up: every lease of the session is over now
 * (SES-5 with a higher incarnation). `on_freed` may be NULL; it must not call into the table. The
 * session's end is not reported by lh_grantor_expire(). O(leases of the session). */
void lh_grantor_session_end(struct lh_grantor *g, lh_session_id s,
    void (*on_freed)(void *arg, const struct lh_lease_info *lease), void *arg);

/* May it be renewed and be granted leases? False when it has ended or was closed, too. */
bool lh_grantor_session_live(const struct lh_grantor *g, lh_session_id s, struct lh_instant now);

/* Zero when there is no such session (any more). */
struct lh_instant lh_grantor_session_end_of(const struct lh_grantor *g, lh_session_id s);

/* Grants `key` at `version` to session `s`; the term counts from `received_at`, a reading taken
 * after the holder's last heartbeat was received, and not later than `now`.
 *  - Nobody holds it: granted.
 *  - `s` itself holds it: the version must not be lower than the present one; an end never moves
 *    back. The recall flag carries over (LEASE-5). A shared lease becomes an exclusive one if
 *    nobody else shares it; an exclusive one stays exclusive, whatever is asked for, until it is
 *    released: its holder may still believe itself alone.
 *  - Shared, and all others in force are shared: granted beside them (all leases of one key have
 *    one version; a higher version from a new shared holder raises it for the key). Not while they
 *    are being recalled.
 * A lease that had ended but was not collected is replaced; lh_grantor_expire() will not report it.
 * O(holders) when exclusive is asked for what is shared. On error nothing changed.
 *   LEASE_HELD       another session's lease is in force; ask lh_grantor_free_at()
 *   STALE_VERSION    `version` is lower than one in the table
 *   UNKNOWN_SESSION  `s` is not live at `now` */
LH_MUST_USE int lh_grantor_grant(struct lh_grantor *g, uint64_t key, uint64_t version,
    enum lh_lease_mode mode, lh_session_id s, struct lh_instant now, struct lh_instant received_at,
    struct lh_duration term);

/* The holder of session `from` registered again, as session `to`, within one life of its process,
 * and showed that it holds exactly `version`: the lease goes on there, with its recall flag. For
 * the holder nothing is ever shortened by this (TIME-4): should `to` end before the lease did in
 * `from`, it is prolonged until then, since the holder may act on its old session until it hears of
 * the new. On error nothing changed.
 *   NOT_LEASED       `from` does not hold the key, or not any more
 *   STALE_VERSION    it holds another version
 *   UNKNOWN_SESSION  `to` is not live */
LH_MUST_USE int lh_grantor_continue(struct lh_grantor *g, uint64_t key, uint64_t version,
    lh_session_id from, lh_session_id to, struct lh_instant now, struct lh_instant received_at,
    struct lh_duration term);

/* Extends the lease that `s` holds at exactly `version`; an end never moves back.
 *   NOT_LEASED     it holds none, or it has ended, or its session is not live
 *   STALE_VERSION  it holds another version
 *   LEASE_HELD     it is being recalled (LEASE-4) */
LH_MUST_USE int lh_grantor_extend(struct lh_grantor *g, uint64_t key, uint64_t version,
    lh_session_id s, struct lh_instant now, struct lh_instant received_at, struct lh_duration term);

/* One of many leases to extend. */
struct lh_lease_name {
    uint64_t key;
    uint64_t version;
};

/* lh_grantor_extend() for each of the `count` leases that a heartbeat lists; `results[i]` is what
 * it would have returned for `leases[i]`. In a large table several times as fast as one by one,
 * because the leases are fetched from memory while others are being worked on. */
void lh_grantor_extend_many(struct lh_grantor *g, lh_session_id s, struct lh_instant now,
    struct lh_instant received_at, struct lh_duration term, const struct lh_lease_name *leases,
    size_t count, int *results);

/* The holder gave up exactly `version` (LEASE-2).
 *   STALE_VERSION  it holds another one, which stays
 *   NOT_LEASED     nothing to release */
LH_MUST_USE int lh_grantor_release(
    struct lh_grantor *g, uint64_t key, uint64_t version, lh_session_id s);

/* The lease that `s` holds ends by itself: at its present end, which is its session's if that is
 * earlier, or at `at` if that is earlier still and not before `now`. No later renewal of the
 * session covers it (NL-4). The caller answers for it that the holder does not count on more.
 *   NOT_LEASED  it holds none, or not any more */
LH_MUST_USE int lh_grantor_cut(struct lh_grantor *g, uint64_t key, lh_session_id s,
    struct lh_instant now, struct lh_instant at);

/* Cuts the shared lease of the key that is held longest among those that it has not cut yet, and
 * says whose it is: for a caller that tells all holders, a few at a time. False: all are cut.
 * O(1). Until nobody shares the key any more, nobody is given a share in it. A lease that has
 * ended and was not collected yet is treated likewise. */
bool lh_grantor_cut_next(
    struct lh_grantor *g, uint64_t key, struct lh_instant now, struct lh_lease_info *info);

/* Takes a lease of the key that has ended out of the table, as lh_grantor_expire() would do some
 * time: the exclusive one, the shared one held longest, or that of session `s` (0: none). False:
 * none of these has ended. A caller that keeps count calls this before it grants. */
bool lh_grantor_collect(struct lh_grantor *g, uint64_t key, lh_session_id s, struct lh_instant now,
    struct lh_lease_info *info);

/* Marks the lease (every lease of the key when shared) as being recalled.
 *   NOT_LEASED  the key is free */
LH_MUST_USE int lh_grantor_recall(struct lh_grantor *g, uint64_t key);

/* The exclusive lease of `key`, or the shared one held longest. False: free. A lease that has ended
 * but was not collected yet is not reported. O(holders) if shared. */
bool lh_grantor_find(
    const struct lh_grantor *g, uint64_t key, struct lh_instant now, struct lh_lease_info *info);

/* The lease of `key` that session `s` has, exclusive or shared. False: none in force. */
bool lh_grantor_find_of(const struct lh_grantor *g, uint64_t key, lh_session_id s,
    struct lh_instant now, struct lh_lease_info *info);

/* When another session may have `key` exclusively at the latest, if nobody extends; `now` if it is
 * free. O(holders) if shared. */
struct lh_instant lh_grantor_free_at(
    const struct lh_grantor *g, uint64_t key, struct lh_instant now);

/* What lh_grantor_expire() found. */
struct lh_expired {
    bool is_session; /* a session ended: `session`, `context`; its leases follow one by
                        one in later calls */
    lh_session_id session;
    void *context;
    struct lh_lease_info lease; /* otherwise: this lease ended and is no longer in the table */
};

/* Takes one ended lease or session out of the table. False when there is nothing (more) to report.
 * Call it until it says so; a caller that must bound its step may stop earlier and call again. One
 * call's own work is bounded, too: where very many renewed leases come up for a look at once, it
 * says false and lh_grantor_deadline() is not after `now` until a later call has seen the rest. */
bool lh_grantor_expire(struct lh_grantor *g, struct lh_instant now, struct lh_expired *what);

/* Before this nothing expires; at it, something may have: lh_grantor_expire() then reports it, or
 * the deadline has moved on afterwards. LH_INSTANT_NEVER: nothing is held. */
struct lh_instant lh_grantor_deadline(const struct lh_grantor *g);

size_t lh_grantor_lease_count(const struct lh_grantor *g);
size_t lh_grantor_session_count(const struct lh_grantor *g);

/* Bytes allocated for everything in the table. */
size_t lh_grantor_memory(const struct lh_grantor *g);

/* The leases of one session: start with `*cursor = 0`; false at the end. No change of the table
 * between calls. */
bool lh_grantor_session_next(
    const struct lh_grantor *g, lh_session_id s, uint64_t *cursor, struct lh_lease_info *info);

/* Walks the whole table and asserts its own invariants (for tests and the simulator; O(n)). */
void lh_grantor_check(const struct lh_grantor *g);
