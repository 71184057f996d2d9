/* What the master perhaps has not heard of: chunks that are full, records that may be lost. */
#pragma once

#include "chunkserver/primary/internal.h"

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

/* The message alone: whoever sends it has ended the lease here before. */
void lh_cs_lease_report_release(
    struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version, bool ran_out);
/* The chunk is full at this version: asks for its seal, and gives the lease up. */
void lh_cs_seal_report(
    struct lh_cs_primaries *primaries, struct lh_cs_replica *r, uint64_t version);
/* Tells the master of a possible loss, in this session or, if that breaks first, in a later one. */
void lh_cs_loss_report(
    struct lh_cs_primaries *primaries, uint64_t chunk, uint64_t version, uint64_t length);
void lh_cs_leases_deinit(struct lh_cs_primaries *primaries);
