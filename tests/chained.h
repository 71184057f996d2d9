/* Batches with their chain, as servers store and send them. */
#pragma once

#include "base/assert.h"
#include "batch/batch.h"

/* `batches` as they are stored behind a log whose running checksum is `*checksum`, which is brought
 * to their end. Takes `batches`. */
static inline struct lh_buf chained(struct lh_buf *batches, uint64_t *checksum)
{
    struct lh_batch_stamper stamper = {0};
    struct lh_buf log = {0};

    for (size_t at = 0; at < batches->size;) {
        struct lh_batch_header h;
        struct lh_buf one = {0};
        int error = lh_batch_check(batches, at, LH_BATCH_BYTES_LIMIT, &h);
        LH_ASSERT(error == LH_OK);
        lh_buf_append(&one, batches, at, h.size);
        *checksum = lh_log_checksum(*checksum, &h);
        lh_batch_stamp(&stamper, &one, &h, *checksum);
        lh_buf_append(&log, &one, 0, one.size);
        lh_buf_clear(&one);
        at += h.size;
    }
    lh_batch_stamper_deinit(&stamper);
    lh_buf_clear(batches);
    return log;
}
