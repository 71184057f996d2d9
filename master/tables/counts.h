/* What the master counts since its start, for its operator. Nothing here decides anything. */
#pragma once

#include "base/error.h"
#include "base/metrics.h"
#include "base/step.h"

#include <stdint.h>

struct lh_master_counts {
    uint64_t registrations, registrations_refused, sessions_ended;
    uint64_t heartbeats;
    uint64_t grants;   /* to a new holder */
    uint64_t regrants; /* a new version for the same one (LEASE-3) */
    uint64_t grants_refused;
    uint64_t extensions, recalls, releases, expiries, unshown, differences;
    uint64_t seals, rolls;
    /* Of programs. */
    uint64_t programs_opened, programs_attached, programs_refused, programs_ended;
    uint64_t program_beats;
    uint64_t locks_granted, locks_queued, locks_released, locks_expired;
    uint64_t locks_recalled, locks_cancelled;
    uint64_t inquiries;
    uint64_t members_dropped, members_added;
    uint64_t replicas_lost, replicas_deleted, possible_losses;
    uint64_t commits;
    uint64_t value_reads, changes, changes_refused;
    uint64_t caches_granted, caches_dropped, caches_expired; /* cache leases; told to drop */
    uint64_t lookups, path_changes_waited;                   /* VAL-7 */
    uint64_t watch_events, watch_resets;
    uint64_t access_refused;
    uint64_t calls_repeated;  /* and answered as before (HA-12) */
    uint64_t calls_forgotten; /* refused, as they may have been carried out */
    uint64_t calls[LH_METHOD_COUNT];
    uint64_t errors[LH_ERROR_NUMBERS]; /* calls answered with it, by number */
    struct lh_histogram tail_wait;     /* OpenTail, from its arrival to its answer with a primary */
    struct lh_histogram roll;          /* from the intent to the seal */
};
