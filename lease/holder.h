/* The holding side of leases: what this node may do now, and until when.
 *
 * One holder table stands for one session with one grantor. A lease may be used only while both
 * its own term and the session's run on this node's clock (SES-3), which stops before the
 * grantor's does (TIME-4). The table never looks at a clock: ask lh_holder_may_act() with a fresh
 * reading before each step that needs the lease (TIME-5).
 *
 * O(1) per operation; not thread-safe. */
#pragma once

#include "base/error.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_holder;

struct lh_holder *lh_holder_create(void);
void lh_holder_destroy(struct lh_holder *h);

/* A new session begins: its first request was sent at `sent_at`; `session` is not 0. Every lease of
 * the session before is dropped, except those that lh_holder_continue() names afterwards (LEASE-7):
 * until lh_holder_session_settle() is called they are kept aside, not held and not usable. The
 * released marks of LEASE-6 stay. */
void lh_holder_session_begin(struct lh_holder *h, uint64_t session, struct lh_instant sent_at,
    struct lh_duration holder_term);

/* An answer to a request sent at `sent_at`. An older request's answer never shortens the session.
 *   UNKNOWN_SESSION  `session` is not the present one */
LH_MUST_USE int lh_holder_session_renew(struct lh_holder *h, uint64_t session,
    struct lh_instant sent_at, struct lh_duration holder_term);

/* The session is over (the grantor said so, or this node gives everything up). No lease can be used
 * any more; they are still listed until the next session begins, so that a registration can show
 * them (LEASE-7). */
void lh_holder_session_end(struct lh_holder *h);

uint64_t lh_holder_session(const struct lh_holder *h); /* 0: none */
bool lh_holder_session_live(const struct lh_holder *h, struct lh_instant now);
struct lh_instant lh_holder_session_end_of(const struct lh_holder *h);

/* A grant of `key` at `version` in `session`. The same version again may only extend.
 *   STALE_VERSION    the version was released or superseded here (LEASE-6), or is 0
 *   UNKNOWN_SESSION  not the present session */
LH_MUST_USE int lh_holder_grant(struct lh_holder *h, uint64_t session, uint64_t key,
    uint64_t version, struct lh_instant sent_at, struct lh_duration holder_term);

/* After a restart of the grantor: the lease goes on in the new session; its term counts from the
 * registration's stamp and *replaces* the old end (LEASE-7).
 *   NOT_LEASED  this node did not hold exactly that version before the new session began */
LH_MUST_USE int lh_holder_continue(struct lh_holder *h, uint64_t session, uint64_t key,
    uint64_t version, struct lh_instant sent_at, struct lh_duration holder_term);

/* Drops what was kept aside by lh_holder_session_begin() and was not continued. `on_lost` may be
 * NULL; it must not call into the table. */
void lh_holder_session_settle(
    struct lh_holder *h, void (*on_lost)(void *arg, uint64_t key, uint64_t version), void *arg);

/* The grantor extended exactly `version`. Others are ignored with STALE_VERSION / NOT_LEASED. An
 * end never moves back. */
LH_MUST_USE int lh_holder_extend(struct lh_holder *h, uint64_t session, uint64_t key,
    uint64_t version, struct lh_instant sent_at, struct lh_duration holder_term);

/* Gives the lease up: after this no grant of a version <= `version` is accepted for `key`
 * (LEASE-6). Keeps the mark until lh_holder_forget(). A lease of a higher version stays. */
void lh_holder_release(struct lh_holder *h, uint64_t key, uint64_t version);

/* The chunk is gone from this node: drops lease and mark. */
void lh_holder_forget(struct lh_holder *h, uint64_t key);

/* May this node act as holder of `key` at `version` at `now`? */
bool lh_holder_may_act(
    const struct lh_holder *h, uint64_t key, uint64_t version, struct lh_instant now);

/* The version held (in force or run out but not released), 0 if none. */
uint64_t lh_holder_version(const struct lh_holder *h, uint64_t key);

/* When lh_holder_may_act() turns false if nothing is renewed; zero if not held or without
 * session. */
struct lh_instant lh_holder_end_of(const struct lh_holder *h, uint64_t key);

/* The lease's own end, whatever the session's; zero if not held. */
struct lh_instant lh_holder_own_end_of(const struct lh_holder *h, uint64_t key);

/* Every lease that is held (not marks), in a defined order: start with `*cursor = 0`. */
bool lh_holder_next(const struct lh_holder *h, uint64_t *cursor, uint64_t *key, uint64_t *version,
    struct lh_instant *end);

/* How many are held. */
size_t lh_holder_count(const struct lh_holder *h);

/* Walks the whole table and asserts its own invariants (for tests and the simulator; O(n)). */
void lh_holder_check(const struct lh_holder *h);
