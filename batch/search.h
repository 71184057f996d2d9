/* Behind a damaged batch: where in a log does the next whole batch begin (REC-9a)?
 *
 * Bytes that look like a batch are none yet: a record may hold a part of another log. A batch
 * counts only if its place is proved:
 *   - from the left: it follows, by the running checksum, what lies before the damage. The batches
 *     between may have damaged records, as long as header and chain are what they were; or
 *   - from the right: the batches from it on follow each other to the end of the log, or for longer
 *     than the largest batch. What is inside a record does neither.
 * Pure: the caller reads the bytes that a search wants. What a search costs has a bound, whatever
 * is stored: nothing is found once that is spent. */
#pragma once

#include "batch/batch.h"

/* Damaged batches that are described; behind them the search goes on all the same. */
#define LH_SEARCH_DAMAGED 64u

/* A damaged batch whose header is known to be right. */
struct lh_damaged {
    uint64_t offset;
    struct lh_batch_header header;
};

struct lh_log_search {
    uint64_t chunk, limit; /* the log's end, as far as it may be read */
    uint32_t batch_max;    /* bytes */
    uint64_t left;         /* bytes that may still be read and checked */
    bool begun, following, anchored;
    uint64_t checksum; /* followed: of the log in front of `at` */
    uint64_t at;       /* the bytes that are wanted begin here ... */
    uint64_t bytes;    /* ... and are so many at least; 0: as is convenient */
    uint64_t start;    /* of the batches that are followed; found: the answer */
    struct lh_damaged damaged[LH_SEARCH_DAMAGED];
    size_t damaged_count;
};

/* From the batch at `offset` on, below `limit`. Twice the bytes up to there may be read and
 * checked, and `more`. */
void lh_log_search_init(struct lh_log_search *s, uint64_t chunk, uint64_t offset, uint64_t limit,
    uint32_t batch_max, uint64_t more);

/* Goes on with the log's bytes from `s->at` on; `front` bytes before them are at the beginning of
 * `b`: at the first call those that have the running checksum there.
 *   OK           a whole batch begins at `s->start`
 *   WOULD_BLOCK  give it the bytes from `s->at` on, at least `s->bytes` of them
 *   NOT_FOUND    no whole batch can be shown to begin below `limit` */
LH_MUST_USE int lh_log_search(struct lh_log_search *s, const struct lh_buf *b, size_t front);

/* Goes on behind so many bytes from `s->at` on, which cannot be read. WOULD_BLOCK or NOT_FOUND. */
LH_MUST_USE int lh_log_search_unreadable(struct lh_log_search *s, uint64_t bytes);
