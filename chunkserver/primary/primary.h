/* The primary parts of a server's replicas: the order of appends and their commit, recovery at a
 * new version, streams of clients and to other members, and what is reported to the master about
 * leases. */
#pragma once

#include "chunkserver/log/log.h"

struct lh_cs_primaries; /* all of a server's, and what they share */
struct lh_cs_primary;   /* of one replica, at one version */

/* ---- primaries.c: all of them. */

struct lh_cs_primaries *lh_cs_primaries_create(struct lh_cs_host *cs, struct lh_cs_logs *logs);
/* All primary parts have ended before. */
void lh_cs_primaries_destroy(struct lh_cs_primaries *primaries);

/* Links that clients opened to append; their room is the primaries'. */
extern const struct lh_cs_link_user lh_cs_append_links;

/* End a step: send what gathered in it, to other servers and to clients. The latter ends streams of
 * which nothing more will come once all that came is answered. */
void lh_cs_pairs_flush(struct lh_cs_primaries *primaries);
void lh_cs_streams_flush(struct lh_cs_primaries *primaries);

/* This process has slept: members were not silent for as long as the clock says. */
void lh_cs_primaries_discount_pause(struct lh_cs_primaries *primaries, struct lh_duration slept);
/* The disk does not answer (SES-6): gives up every lease. */
void lh_cs_primaries_abandon(struct lh_cs_primaries *primaries, int error);
/* A session has begun, and the holder knows which leases go on in it: primary parts without one
 * end. The others report that they have recovered, if they have. */
void lh_cs_primaries_continue(struct lh_cs_primaries *primaries);
/* The terms of leases are new. */
void lh_cs_primaries_extended(struct lh_cs_primaries *primaries);

struct lh_cs_primary_figures {
    uint64_t primaries, open; /* `open`: of these, that take appends */
    uint64_t pending_bytes;   /* ordered and not committed */
};

struct lh_cs_primary_figures lh_cs_primaries_figures(const struct lh_cs_primaries *primaries);

/* ---- primary.c: one of them. */

/* NULL: this server is not its primary, nor becoming it. */
static inline struct lh_cs_primary *lh_cs_primary_of(const struct lh_cs_replica *r)
{
    return r->slots[LH_CS_SLOT_PRIMARY];
}

uint64_t lh_cs_primary_version(const struct lh_cs_primary *p);
/* Batches ordered since the grant. */
uint64_t lh_cs_primary_appends(const struct lh_cs_primary *p);
/* It takes appends. */
bool lh_cs_primary_is_open(const struct lh_cs_primary *p);
/* Its recovery is complete: it takes appends, or has taken them and ends. */
bool lh_cs_primary_has_recovered(const struct lh_cs_primary *p);
/* The running checksum at the replica's committed length. Only once it has recovered. */
uint64_t lh_cs_primary_committed_checksum(const struct lh_cs_primary *p);
bool lh_cs_primary_may_act(const struct lh_cs_primary *p);

/* Does the grant name this server as a full member? Another one is refused (REC-4). */
bool lh_cs_grant_names(const struct lh_cs_host *cs, const Leasehold__Grant *g);
/* A new primary part begins; one of an older version has ended before. */
void lh_cs_primary_grant(
    struct lh_cs_primaries *primaries, struct lh_cs_replica *r, const Leasehold__Grant *g);
/* The grant of this version was sent again: its term is new, members may be found elsewhere by now,
 * or have become full ones. It is confirmed again if the version is durable by now. */
void lh_cs_primary_grant_again(struct lh_cs_primary *p, const Leasehold__Grant *g);
/* Ends the primary part and says nothing of its lease: a new version of it begins, or a seal report
 * gives it up. Lanes end with `error`. Every other end is one of those below. */
void lh_cs_primary_discard(struct lh_cs_primary *p, int error);
/* Stops ordering; commits what is under way, then releases the lease. */
void lh_cs_primary_recall(struct lh_cs_primary *p);
/* Gives the lease up at once, whatever is under way (its outcome is unknown to the clients). */
void lh_cs_primary_abandon(struct lh_cs_primary *p, int error);
/* A primary of this newer version has asked for the replica. */
void lh_cs_primary_fenced(struct lh_cs_primary *p, uint64_t version);
/* More of the replica's log is durable. */
void lh_cs_primary_local_durable(struct lh_cs_primary *p);
/* Walks its invariants and asserts them. */
void lh_cs_primary_check(const struct lh_cs_primary *p);

/* ---- leases.c: what is reported to the master of leases and of chunks that were led. */

void lh_cs_grant_confirm(
    struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version, int error);
/* This version is not acted on, now or later (LEASE-6): as a release of it. */
void lh_cs_grant_refuse(
    struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version, int error);
/* The master wants the lease of that version back: its primary part drains. If there is none, and
 * no seal report of the chunk that says so, it is released at once. */
void lh_cs_lease_recall(struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version);
void lh_cs_lease_release(
    struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version, bool ran_out);

/* Reports of full chunks that the master has not answered (SEAL-1). */
void lh_cs_seals_resend(struct lh_cs_primaries *primaries);
/* The master has sealed the chunk, or its replica goes. */
void lh_cs_seal_forget(struct lh_cs_primaries *primaries, uint64_t chunk);
/* A session has begun: reports possible losses (REC-2a) that it has not heard of. */
void lh_cs_losses_resend(struct lh_cs_primaries *primaries);
/* The master has answered the heartbeat with this stamp: it has had what was sent before. */
void lh_cs_losses_reported(struct lh_cs_primaries *primaries, uint64_t stamp);

/* ---- showing.c: what the master is shown of the leases that this server may act on. */

/* What has run out ends: first, before leases are shown. */
void lh_cs_showing_end_run_out(struct lh_cs_primaries *primaries);
/* The lease that this server may act on with this replica; false: there is none. */
bool lh_cs_showing_lease(const struct lh_cs_replica *r, Leasehold__ChunkVersion *lease);
/* The chunks of all that are to be shown: an array for the caller to free. */
uint64_t *lh_cs_showing_chunks(const struct lh_cs_primaries *primaries, size_t *count);
/* For a heartbeat: the sum of the leases that were reported to the master (LEASE-8), and the leases
 * that want an extension (LEASE-4), which are freed with lh_cs_showing_active_free(). */
void lh_cs_showing_sum(struct lh_cs_primaries *primaries, Leasehold__LeaseSum *sum);
void lh_cs_showing_active(struct lh_cs_primaries *primaries, Leasehold__Heartbeat *hb);
void lh_cs_showing_active_free(Leasehold__Heartbeat *hb);
/* The master believes otherwise. */
void lh_cs_showing_answer(struct lh_cs_primaries *primaries);
