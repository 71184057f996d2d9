/* Scrubbing (FAIL-4). */
#pragma once

#include "chunkserver/log/log.h"
#include "chunkserver/serve/pacing.h"

struct lh_cs_scrub {
    struct lh_cs_host *cs;
    struct lh_cs_logs *logs;
    struct lh_timer timer;
    struct lh_pacing pace;
    bool stopped;
    uint64_t *chunks; /* of this pass, ascending */
    size_t count, next;
    struct lh_instant pass_began;
    struct lh_duration age; /* of the pass at that moment: an earlier process began it */
    uint64_t finished;      /* the last chunk of the pass that was read; 0: none */
    unsigned unsaved;       /* chunks since the position was kept */
    struct lh_instant saved_at;

    uint64_t soon; /* this chunk's log is read before all others; 0: none */
    bool in_turn; /* the one under way, or the last one, is the pass's next, and not one of those */
    uint64_t rate;              /* of the pass, bytes a second */
    struct lh_instant paced_at; /* when that was found */

    struct lh_cs_replica *replica; /* under way; NULL: none */
    uint64_t at;                   /* log offset behind the last whole batch that was checked */
    uint64_t checksum;             /* running checksum there */
    uint64_t asked;                /* bytes of the read under way */
    struct lh_buf rest;            /* read, not yet a whole batch: it begins at `at` */
    struct lh_cs_ticket *ticket;
    uint32_t refused; /* reads of this piece, in a row; the next one at `again_at` */
    struct lh_instant again_at;
    uint64_t passes, read, found;
};

/* Something is wrong with its log, or another server's: it is read before all others. Only one
 * waits for that; who finds that it was not read asks again. */
void lh_cs_scrub_soon(struct lh_cs_scrub *s, struct lh_cs_replica *r);
/* The replica's log is not, or no longer, what is being read: it is left alone in this pass. */
void lh_cs_scrub_turn_away(struct lh_cs_scrub *s, struct lh_cs_replica *r);
