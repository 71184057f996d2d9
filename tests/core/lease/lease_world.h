/* A grantor and several holders with clocks of their own, and a network that delays, loses,
 * repeats and reorders what they say to each other, in a time that only the test knows. It plays
 * the parts of the master and of the chunkservers as far as leases are concerned (sessions,
 * heartbeats, grants, recalls, restarts) and watches INV-1, INV-2, INV-3 and INV-9 from outside.
 *
 * The rules that live in the players, not in lease/, can be broken on purpose: a watcher that does
 * not see a broken rule is worth nothing. */
#pragma once

#include <stdint.h>

enum lease_world_fault {
    FAULT_NONE,
    FAULT_NO_DRIFT_MARGIN,    /* holders are told the grantor's own term (TIME-4) */
    FAULT_COUNT_FROM_RECEIPT, /* holders count from the answer's arrival (TIME-4) */
    FAULT_COUNT_BEFORE_READ, /* the grantor counts from a reading older than the request (TIME-4) */
    FAULT_FREE_ON_SUSPICION, /* a silent server's leases are taken for free (LEASE-2) */
    FAULT_NO_RELEASE_MARK,   /* holders forget what they released (LEASE-6) */
    FAULT_NO_RESTART_WAIT,   /* a restarted grantor grants at once (LEASE-7) */
    FAULT_NO_SESSION_NAMES,  /* answers count in whatever session the holder is in (SES-3) */
    FAULT_RARE_HEARTBEATS,   /* once a term instead of three times (SES-2) */
    FAULTS,
};

struct lease_world_result {
    const char *violation; /* NULL: all invariants held */
    uint64_t at_ns;        /* true time of the first violation */
    uint64_t trace;        /* hash of everything that happened */
    uint64_t grants, takeovers, continued, restarts, expiries, releases, refused;
};

struct lease_world_result lease_world_run(
    uint64_t seed, uint32_t drift_ppm, enum lease_world_fault fault);
