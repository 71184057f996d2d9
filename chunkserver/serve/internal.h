/* The room, and what it keeps with a replica: what the files of this folder know of each other. */
#pragma once

#include "chunkserver/serve/pacing.h"
#include "chunkserver/serve/scrub.h"
#include "chunkserver/serve/serve.h"
#include "flow/outbox.h"

struct lh_cs_copying;
struct lh_cs_feed;
struct lh_cs_feeder;
struct lh_cs_reading;
struct lh_cs_settling;

struct lh_cs_serving {
    struct lh_cs_host *cs;
    struct lh_cs_logs *logs;

    struct lh_outbox *touched_feeders; /* feeder.c: by this step */
    uint64_t feeds;                    /* the number of the last one, of all streams */
    uint64_t arriving_bytes;           /* of batches that are not whole, of all feeds */

    struct lh_cs_copying *copies;       /* copying.c */
    struct lh_pacing copy_in, copy_out; /* bytes received and served (REC-4) */
    uint64_t copied_in, copied_out;
    struct lh_cs_scrub scrub;
};

/* What a primary had committed when it ceased to be one: all that was ever acknowledged. */
struct lh_cs_word {
    uint64_t version;
    uint64_t length, checksum;
};

/* What this room keeps with a replica, as long as any of it is in use. Else the replica has a
 * constant one. */
struct lh_cs_served {
    struct lh_cs_feed *feed;  /* feeder.h: from its primary; NULL: none */
    struct lh_cs_word fenced; /* fencing.c: by which version; 0: it was not, or not the primary */
    struct lh_cs_word word;   /* it was the primary at that version when it was frozen */

    struct lh_cs_copying *copying; /* not NULL: it is being copied to */
    bool diverged;                 /* incomplete, and it was no prefix of the primary's log */

    struct lh_cs_reading *readings;   /* waiting for more committed bytes */
    struct lh_cs_settling *settlings; /* waiting for the seal or for the writer table */
};

extern const struct lh_cs_served lh_cs_unserved;

static inline const struct lh_cs_served *lh_cs_served(const struct lh_cs_replica *r)
{
    const struct lh_cs_served *s = r->slots[LH_CS_SLOT_SERVED];

    return s == NULL ? &lh_cs_unserved : s;
}

/* The record to write into: made if it has none. */
struct lh_cs_served *lh_cs_serve(struct lh_cs_replica *r);

static inline struct lh_cs_serving *lh_cs_serving_of(const struct lh_cs_replica *r)
{
    return r->logs->rooms[LH_CS_SLOT_SERVED];
}
