/* The chunkserver's core: one session with the master and any number of replicas. Pure: see
 * base/step.h for how it is driven.
 *
 * Rooms, lowest first; each is a package that knows only those before it, by their doors (the
 * header with the folder's name):
 *   host/     the step under way, counts, links, the way to the master
 *   log/      what is on the disk: one chunk's header and log, changes of them, reading them back
 *   primary/  the order of appends, their commit, recovery, reports of leases to the master
 *   serve/    everybody else's requests to a replica, copies of it, the scrub
 *   session/  the session with the master, and its commands
 * This file's own .c composes them: it makes the rooms known to each other, takes an input to the
 * room that it concerns, and runs what is due. */
#pragma once

#include "base/metrics.h"
#include "base/step.h"
#include "chunkserver/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_chunkserver;

struct lh_chunkserver *lh_chunkserver_create(const struct lh_chunkserver_config *config);
void lh_chunkserver_destroy(struct lh_chunkserver *cs);

/* The first input (any kind; usually LH_IN_TIMER) starts the scan of the data directory; the server
 * registers when it is done. After LH_IN_STOP it orders nothing more, lets what is under way
 * commit, releases its leases and says LH_FX_STOPPED. */
void lh_chunkserver_step(struct lh_chunkserver *cs, struct lh_input *in, struct lh_effects *fx);
struct lh_instant lh_chunkserver_deadline(const struct lh_chunkserver *cs);
struct lh_core lh_chunkserver_core(struct lh_chunkserver *cs);

/* What the disk says of itself; reported in the next heartbeat. */
void lh_chunkserver_set_space(
    struct lh_chunkserver *cs, uint64_t capacity_bytes, uint64_t free_bytes);

/* Walks the core's own invariants and asserts them. */
void lh_chunkserver_check(const struct lh_chunkserver *cs);

/* For observers and operators. */
struct lh_replica_status {
    uint64_t version;
    uint64_t length;    /* accepted bytes of the log */
    uint64_t committed; /* as far as known here */
    uint64_t checksum;  /* running checksum at `length` */
    bool sealed;
    bool unverified;
    bool lost;
    bool copying;     /* incomplete: nobody's full member (REC-4) */
    bool primary;     /* has a primary part at all (recovering included) */
    bool open;        /* takes appends as primary */
    uint64_t appends; /* ordered since the grant */
};

/* What this server copied and scrubbed since its start. */
struct lh_chunkserver_stats {
    uint64_t copies;       /* replicas that are being copied to, now */
    uint64_t copied_in;    /* bytes that copies brought */
    uint64_t copied_out;   /* bytes read for copies elsewhere */
    uint64_t scrub_passes; /* ended */
    uint64_t scrub_read;   /* bytes */
    uint64_t scrub_found;  /* replicas that had rotted */
    uint64_t scrub_chunk;  /* the last one read in this pass; 0: none yet */
    uint64_t scrub_rate;   /* bytes a second; 0: it is off */
};

void lh_chunkserver_stats(const struct lh_chunkserver *cs, struct lh_chunkserver_stats *stats);

/* Appends all figures for Prometheus (docs/metrics.md). */
void lh_chunkserver_metrics(
    const struct lh_chunkserver *cs, struct lh_instant now, struct lh_metrics *out);

/* Does it do its work: in session, its disk well? If not, `why` says so in a sentence. */
bool lh_chunkserver_ready(
    const struct lh_chunkserver *cs, struct lh_instant now, char *why, size_t why_size);

/* False: no such replica. */
bool lh_chunkserver_replica(
    const struct lh_chunkserver *cs, uint64_t chunk, struct lh_replica_status *status);

/* Does this node believe at `now` that it may act as primary of `chunk` (INV-1)? */
bool lh_chunkserver_may_act(
    const struct lh_chunkserver *cs, uint64_t chunk, struct lh_instant now, uint64_t *version);

/* Its session with the master is live on its own clock at `now`. */
bool lh_chunkserver_in_session(const struct lh_chunkserver *cs, struct lh_instant now);
