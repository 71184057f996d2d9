/* What is reported to the master of leases and of chunks that were led: grants confirmed or
 * refused, leases released, chunks full, records that may be lost. */
#pragma once

#include "chunkserver/primary/primaries.h"

/* A seal that the master has not confirmed yet (SEAL-1: resent until confirmed). */
struct lh_cs_unconfirmed_seal {
    uint64_t chunk;
    uint64_t version;
    uint64_t length;
    uint64_t checksum;
    UT_hash_handle hh;
};

/* A possible loss (REC-2a) that the master perhaps has not heard of. Nothing answers its report; an
 * answer to a later heartbeat of the same session shows that it arrived. */
struct lh_cs_unreported_loss {
    struct lh_cs_unreported_loss *next;
    uint64_t chunk, version, length;
    uint64_t session;   /* in which it was sent last; 0: not yet */
    uint64_t heartbeat; /* the stamp of the last heartbeat sent before it */
};

void lh_cs_grant_confirm(struct lh_cs_primaries *room, uint64_t chunk, uint64_t version, int error);
/* This version is not acted on, now or later (LEASE-6): as a release of it. */
void lh_cs_grant_refuse(struct lh_cs_primaries *room, uint64_t chunk, uint64_t version, int error);

void lh_cs_lease_release(
    struct lh_cs_primaries *room, uint64_t chunk, uint64_t version, bool ran_out);
/* The message alone: whoever sends it has ended the lease here before. */
void lh_cs_lease_report_release(
    struct lh_cs_primaries *room, uint64_t chunk, uint64_t version, bool ran_out);

/* The chunk is full at this version: asks for its seal, and gives the lease up. */
void lh_cs_seal_report(struct lh_cs_primaries *room, struct lh_cs_replica *r, uint64_t version);
/* Reports of full chunks that the master has not answered (SEAL-1). */
void lh_cs_seals_resend(struct lh_cs_primaries *room);
bool lh_cs_seal_is_reported(const struct lh_cs_primaries *room, uint64_t chunk);
void lh_cs_seal_forget(struct lh_cs_primaries *room, uint64_t chunk);

/* Tells the master of a possible loss, in this session or, if that breaks first, in a later one. */
void lh_cs_loss_report(
    struct lh_cs_primaries *room, uint64_t chunk, uint64_t version, uint64_t length);
/* A session has begun: those that it has not heard of. */
void lh_cs_losses_resend(struct lh_cs_primaries *room);
/* The master has answered the heartbeat with this stamp: it has had what was sent before. */
void lh_cs_losses_reported(struct lh_cs_primaries *room, uint64_t stamp);
