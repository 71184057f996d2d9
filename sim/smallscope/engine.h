/* The lease engine in a small world: one grantor, two holders, one chunk, three clocks, and a
 * network that does what it likes.
 *
 * What is real: lease/grantor.h and lease/holder.h. Around them, in engine_grantor.c and
 * engine_holder.c, stands what master and chunkserver do with them, in its shortest form:
 * registrations, heartbeats, a durable grant, the wait after a restart. (The real master and
 * chunkserver have a small world of their own, in cores.h. It does not go as deep.)
 *
 * A state is
 *   - at the grantor: the table of leases and sessions with their ends; what it keeps over a
 *     restart (SES-1: the registration last seen of each holder; LEASE-1: the last grant's version,
 *     holder and incarnation); the wait of LEASE-7;
 *   - at each holder: the table with session and lease and their ends, the incarnation, the number
 *     of the last registration, the version that was released last (LEASE-6);
 *   - the rate of each clock;
 *   - every message that was ever sent.
 * Times count relative to the clock of the node that they belong to, versions and sessions relative
 * to the newest, and all ends that have passed are the same: it is what the future can depend on,
 * and nothing else. Exchanging the holders' names makes no other state.
 *
 * In the first state both holders have just registered, nothing has been granted, and the rates are
 * those that endanger leases most: the holders' clocks slow, the grantor's fast.
 *
 * The moves:
 *   - time goes on, by one step for everybody; each clock moves as much as its rate says;
 *   - a clock changes its rate: from the slowest that TIME-3 allows to the fastest, or back;
 *   - the grantor grants the next version to a holder (another one, or the one that has the lease:
 *     LEASE-3); sends an unreleased grant again; begins a recall; looks at what has run out;
 *     crashes and starts again;
 *   - a holder registers (again); releases the lease, asked or not; crashes and starts again;
 *   - a message that was sent arrives, however long ago that was.
 * That a message never arrives is its loss; that it arrives twice, its duplication; that it arrives
 * after others, its delay. So every loss, every duplication and every order of arrival is among the
 * moves. A heartbeat changes nothing at its sender. Therefore a holder sends one whenever anything
 * has happened, with a wish for extension and without, and the moves choose those that matter: the
 * ones that arrive.
 *
 * What is checked in each state:
 *   INV-1  at most one holder believes that it may act;
 *   INV-2  when a version was just granted to another holder, the one before does not believe that
 *          it may act;
 *   INV-3  nobody acts at a lower version than was acted at before.
 *
 * What is left out:
 *   - time that does not pass in whole steps (a session's term is two long, a lease's three), rates
 *     between the extremes, clocks beyond the bound (INV-7);
 *   - a reboot, which sets a clock back; a change of settings;
 *   - a crash in the middle of a durable write. One between the write and the message that tells of
 *     it is there: the message never arrives;
 *   - shared leases, more chunks than one. */
#pragma once

#include "sim/smallscope/explore.h"

struct lh_engine;

/* One at a time may be explored. Never NULL. */
struct lh_engine *lh_engine_create(void);
void lh_engine_destroy(struct lh_engine *e);

/* Good as long as the engine is. */
struct lh_space lh_engine_space(struct lh_engine *e);
