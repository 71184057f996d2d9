/* The room of the primaries: all primary parts of a server, and what they share. */
#pragma once

#include "chunkserver/log/replica.h"

struct lh_cs_lane;
struct lh_cs_pair;
struct lh_cs_primary;
struct lh_cs_stream;
struct lh_cs_unconfirmed_seal;
struct lh_cs_unreported_loss;

struct lh_cs_primaries {
    struct lh_cs_host *cs;
    struct lh_cs_logs *logs;
    struct lh_cs_primary *all;
    struct lh_cs_pair *pairs;         /* pair.c: by the other server's address */
    struct lh_cs_pair *touched_pairs; /* by this step */
    uint64_t feeds;                   /* the number of the last one */

    struct {                          /* streams.c */
        struct lh_cs_stream *all;     /* that clients opened */
        struct lh_cs_stream *touched; /* by this step */
        struct lh_cs_lane *lanes;     /* of all of them, by key */
        uint64_t pending_bytes;       /* uncommitted, in all primaries */
        uint64_t arriving_bytes;      /* of batches that have come in part */
        size_t held;                  /* streams that are not read for now */
        struct lh_timer alive; /* signs of life; set while an append stream waits for an answer, and
                                  while bytes arrive */
    } streams;

    struct lh_batch_stamper stamper; /* primary.c: what it orders gets its chain */

    struct { /* leases.c: what the master perhaps has not heard of */
        struct lh_cs_unconfirmed_seal *seals;
        struct lh_cs_unreported_loss *losses;
    } unreported;
};

void lh_cs_primaries_init(
    struct lh_cs_primaries *room, struct lh_cs_host *cs, struct lh_cs_logs *logs);
/* All primary parts have ended before. */
void lh_cs_primaries_deinit(struct lh_cs_primaries *room);
