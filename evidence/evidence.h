/* Whose log counts. Members of a chunk report their logs, to a new primary (REC-2) or to the master
 * that seals the chunk without one (FAIL-2a). Is that evidence for everything that was ever
 * acknowledged, and which log decides?
 *
 *   A log is *verified* if its machine did not go down since it was last equal, and it is not below
 *   a committed length that anybody knows (REC-2a). It has everything that was acknowledged.
 *   A truncated log may have been longer (FAIL-3): alone it is no evidence, two of them are.
 *   A damaged log (REC-9) is none either. It is not waited for beside evidence.
 *   Without such evidence everybody is heard, the longest counts, and the loss is reported.
 *
 * Pure: who looks alive and whether patience is over is the caller's to say. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum lh_log_state {
    LH_LOG_NONE,    /* it has nothing that counts: joining (REC-4), missing or given up */
    LH_LOG_AWAY,    /* it has not reported, and may come back with its log */
    LH_LOG_AWAITED, /* it has not reported, and looks alive */
    LH_LOG_REPORTED
};

/* A full member's log. */
struct lh_log {
    enum lh_log_state state;
    uint64_t length;    /* durable */
    uint64_t committed; /* the most that it knows to be committed */
    bool unverified;
    bool truncated;
    bool damaged; /* FAIL-4: in any state but NONE; `length` is how far it is known to have gone */
    bool reachable; /* its server could give it to others now */
    bool primary; /* FAIL-2a: it was the primary until now, and `length` is what it has committed */
};

enum lh_verdict {
    LH_VERDICT_WAIT,   /* for those that have not reported */
    LH_VERDICT_ENOUGH, /* the log `which` decides */
    LH_VERDICT_LOSS    /* so it does, and acknowledged bytes behind it may be lost (REC-2a) */
};

struct lh_evidence {
    enum lh_verdict verdict;
    uint32_t which; /* of the logs; not with WAIT */
    bool sure;      /* what was reported is evidence for everything that was acknowledged */
    bool many;      /* as many verified logs as acknowledge an append; or the primary's own word */
};

/* REC-2: the longest log decides, once all have reported. `committed`: is known besides. */
struct lh_evidence lh_evidence_longest(
    const struct lh_log *logs, uint32_t count, uint64_t committed);

/* What a seal is decided by. */
struct lh_seal_question {
    const struct lh_log *logs;
    uint32_t count;
    uint64_t committed; /* known besides, from logs that are gone */
    uint32_t needed;    /* so many logs acknowledge an append, or fewer if no more are left */
    bool found;         /* whoever looks alive had time to be found by the caller */
    bool patience_over; /* who has not reported was waited for long enough */
    bool lone_may;      /* a reachable log may decide alone, if nobody is awaited */
};

/* FAIL-2a: the shortest verified log decides, or the longest of those that were all truncated. */
struct lh_evidence lh_evidence_shortest(const struct lh_seal_question *q);

/* Do as many of the logs reach `length` as acknowledge an append? The primary's own word is as
 * good. */
bool lh_evidence_backed(
    const struct lh_log *logs, uint32_t count, uint64_t length, uint32_t needed);
