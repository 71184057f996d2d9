/* What a chunkserver counts since its start, for its operator. Nothing here decides anything. */
#pragma once

#include "base/error.h"
#include "base/metrics.h"

#include <stdint.h>

/* One more than the highest error number. */
#define LH_COUNTED_ERRORS 36u

struct lh_chunkserver_counts {
    uint64_t registrations, heartbeats;
    uint64_t grants, grants_refused, releases, expiries, fenced, recoveries;
    uint64_t batches_ordered, bytes_ordered, batches_committed, repeats;
    uint64_t append_errors[LH_COUNTED_ERRORS]; /* streams and writers refused, by number */
    uint64_t reads, bytes_read, settles;
    uint64_t read_errors[LH_COUNTED_ERRORS];
    uint64_t replicas_lost[LH_COUNTED_ERRORS]; /* by why */
    uint64_t copies, copies_failed;
    uint64_t scrub_replicas;
    uint64_t pauses;                           /* of this process or its machine, noticed */
    uint64_t disk_shortages;                   /* operations that could not be begun */
    struct lh_histogram append;                /* from the order of a batch to its commit */
    struct lh_histogram disk_write, disk_sync; /* of chunk files */
};
