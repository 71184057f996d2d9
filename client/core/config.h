/* A client's settings. */
#pragma once

#include "base/step.h"
#include "finder/finder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Strings are copied. Zero takes the default that stands beside it. */
struct lh_client_config {
    const char *const *masters;     /* addresses; the others that there are are learned (HA-10) */
    size_t master_count;            /* 1 to LH_MASTERS_MAX, all different */
    uint64_t seed;                  /* from a true source of randomness: writers' ids come of it */
    struct lh_duration try_timeout; /* 5 s: one request of which nothing is answered, or no more */
    struct lh_duration ask_masters_after; /* 500 ms: a request to the master is unanswered so long
                                             before the other masters are asked who acts */
    struct lh_duration stall_timeout; /* 5 s: appends without an answer, and without any of their
                                         bytes arriving, before a new stream */
    struct lh_duration hang_timeout;  /* 700 ms: the same, without any sign of life either */
    struct lh_duration settle_try;    /* 300 ms: one unanswered SETTLE, the first time round */
    struct lh_duration tail_wait;     /* 5 s: for how long the master may wait for a primary, ... */
    struct lh_duration new_file_wait; /* 500 ms: ... when a new file is opened */
    struct lh_duration poll_wait;     /* 10 s: for how long a server may wait for new bytes */
    struct lh_duration arrival_timeout; /* 10 min: an answer that has begun to come is whole by
                                           then, or comes from another server */
    struct lh_duration backoff_min;     /* 10 ms: the pause after the second failure in a row ... */
    struct lh_duration backoff_max; /* 1 s: ... doubling up to this, less up to half by chance */
    struct lh_duration silent_min;  /* 5 s: a server that did not answer is asked last ... */
    struct lh_duration silent_max;  /* 1 min: ... for that long, doubling up to this */
    struct lh_duration repeat_for;  /* 5 min: a call that changes something and whose outcome is not
                                      known is repeated for no longer (HA-12) */
    /* A READ that is late is asked of another member too; the first sound answer counts. */
    struct lh_duration late_first; /* 300 ms: late, as long as none was answered yet; ... */
    struct lh_duration late_min;   /* 50 ms: ... then late by what is usual, at least this ... */
    struct lh_duration late_max;   /* 2 s: ... and at most this */
    uint32_t hedge_percent;        /* 10: such second READs, of all; ... */
    uint32_t hedge_burst;          /* 4: ... beyond it so many, saved up when there were fewer */
    uint32_t read_bytes;           /* 2 MiB: of one READ */
    uint32_t chunks_ahead;         /* 2: of a file that a reader reads at once */
    uint32_t silent_servers;       /* 64: remembered; more of them are asked in vain again */
    /* How the appends of a lane gather. */
    uint32_t messages;           /* 2: unanswered at a time while they are small */
    uint64_t full_message_bytes; /* 256 KiB: one that is as large need not wait for others ... */
    uint64_t unanswered_bytes;   /* 16 MiB: ... while less than that is unanswered */
    uint64_t message_bytes;      /* 1 MiB: of one with several batches of a stream's only lane */
    /* How lanes share a stream. */
    uint64_t shared_bytes;  /* 512 KiB: about so much in a message; a larger batch goes in parts */
    uint64_t small_bytes;   /* 16 KiB: lanes with no more than this go before others */
    uint32_t message_parts; /* 256: in a message, and one more */
    uint32_t stream_lanes;  /* 4096: on one stream; its server takes 16384 */
    struct lh_duration stream_idle; /* 10 s: without a lane, before it is closed */
    uint32_t stream_writers;        /* 256: that ever join one lane; its server takes 1024 */
    /* Leases of the program (leases.h). */
    struct lh_duration suspended_after; /* a third of the session's term: a heartbeat is unanswered
                                           so long before the program hears of it */
    uint32_t sessions;                  /* 4096: at a time */
    uint32_t session_locks;             /* 65536: locks and requests for some, of one session */
    uint32_t session_reads;             /* 65536: reads of one session that wait for answers */
    uint32_t session_ops;      /* 262144: operations that wait until they can be sent; more of them,
                                       and the session attaches again */
    uint32_t session_prefixes; /* 64: that are broadcast and used by one session */
    uint64_t
        session_message_bytes; /* 512 KiB: about so much of operations, or shown, in a message */
    uint32_t cached_values;    /* 65536: of one session; ... */
    uint64_t cached_bytes;     /* 64 MiB: ... those go first that nobody used lately */
    /* Lookups of files (VAL-7). */
    uint32_t lookups_max;   /* paths whose files are remembered, within `cached_bytes`; 0: none */
    uint32_t lookup_chunks; /* 256: of a file, that are remembered for its readers, likewise */
    const char *lookups_host, *lookups_process; /* what a person should know of their session */
    uint32_t watches;                           /* 4096: at a time */
    uint32_t watch_replies; /* 16: of a watch, that the program has not asked for */
    struct lh_duration
        watch_doubt; /* 5 s: after so long without a change others are asked who acts */
    void (*guard)(void *guard_arg, bool on); /* around changes of what others read; NULL: none */
    void *guard_arg;
    struct lh_finder_config finder; /* how the active master is found */
    const char *cluster; /* that it belongs to; NULL: that of the master that it chooses first */
};
