/* The room of the primaries: all primary parts of a server, and what they share. */
#pragma once

#include "chunkserver/log/replica.h"

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

    struct {                              /* appending.c */
        uint64_t pending_bytes;           /* uncommitted, in all primaries */
        bool holding;                     /* streams are held because of it */
        struct lh_cs_stream *half_closed; /* that wait for the last answers */
        struct lh_timer alive; /* signs of life; set while an append stream waits for an answer, and
                                  while messages arrive */
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
