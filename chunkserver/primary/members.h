/* A primary's connection to each other member. */
#pragma once

#include "chunkserver/primary/internal.h"
#include "chunkserver/primary/pair.h"

enum lh_cs_member_state {
    LH_CS_MEMBER_DOWN,       /* no link; tried again at `retry_at` */
    LH_CS_MEMBER_ADOPTING,   /* ADOPT sent */
    LH_CS_MEMBER_ADOPTED,    /* reported; the target is not known yet */
    LH_CS_MEMBER_COPYING,    /* being sent [sent, target), then CONFIRM */
    LH_CS_MEMBER_CONFIRMING, /* CONFIRM sent */
    LH_CS_MEMBER_EQUAL       /* confirmed equality at this version, or reported it */
};

struct lh_cs_member {
    struct lh_cs_primary *primary;
    uint64_t chunk; /* the primary's */
    char *server_id;
    char *address;                     /* lh_server_at() */
    uint8_t lead[LH_CAPABILITY_BYTES]; /* what it is shown (ACC-9), ... */
    size_t lead_size;                  /* ... as the grant has it; 0: nothing */
    enum lh_cs_member_state state;
    struct lh_cs_pair *pair; /* the stream that its feed is on; NULL: it has none */
    uint64_t feed;           /* its number there */
    bool adopt_sent;         /* the feed has begun */
    struct lh_turn turn;     /* of the pair's: it may have something to send */
    bool unreported;         /* in the pair's list of those */
    struct lh_cs_member *unreported_prev, *unreported_next;
    UT_hash_handle hh;                /* of the pair, by chunk */
    uint64_t length;                  /* durable there, as last reported */
    uint64_t sent;                    /* log bytes sent */
    uint64_t checksum;                /* ADOPT's report */
    uint64_t committed;               /* ADOPT's report */
    bool unverified;                  /* REC-2a */
    bool truncated;                   /* FAIL-3 */
    bool vouched;                     /* ADOPT's report: it needs no CONFIRM at `length` */
    bool joining;                     /* not a full member yet (REC-4) */
    uint64_t target, target_checksum; /* CONFIRM is due at this length */
    uint64_t run_ends[2]; /* of the last two runs: whole batches that go without a wait */
    uint64_t committed_sent;
    bool notice;               /* it is to be told the committed length */
    struct lh_cs_ticket *copy; /* a read of old bytes under way */
    struct lh_buf old;         /* whole batches that were read, of the log from `old_from` on */
    uint64_t old_from;
    uint64_t from;                 /* log length that it reported: copying begins there */
    struct lh_instant progress_at; /* last sign of progress, or when there began to be something
                                      to wait for */
    struct lh_instant advanced_at; /* when its length last grew, or something began to be owed */
    struct lh_instant discounted;  /* `progress_at` as a pause of ours has moved it */
    struct lh_instant retry_at;
    struct lh_duration backoff;
    struct lh_instant reported_at; /* MemberFailed sent; zero: not */
    bool reported;                 /* its failing was logged */
    bool refused;                  /* it answered with an error that waiting does not mend */
};

/* `lead`: what shows it that this server leads. */
void lh_cs_member_init(struct lh_cs_member *m, struct lh_cs_primary *p,
    const Leasehold__Member *info, const ProtobufCBinaryData *lead);
void lh_cs_member_deinit(struct lh_cs_member *m);
void lh_cs_member_connect(struct lh_cs_member *m);
/* What the grant says of it by now: where it is to be reached ("" is ignored), whether it has
 * joined for good, and what it is shown. */
void lh_cs_member_update(
    struct lh_cs_member *m, const Leasehold__Member *info, const ProtobufCBinaryData *lead);
/* May its log decide anything in a recovery? Not while it is joining (REC-4). */
bool lh_cs_member_counts(const struct lh_cs_member *m);
/* An answer to its feed. The member may be gone after it. */
void lh_cs_member_answered(struct lh_cs_member *m, const Leasehold__ReplicateAnswer *answer);
void lh_cs_member_set_target(struct lh_cs_member *m, uint64_t length, uint64_t checksum);
/* So many bytes of the log it has not been sent, and should have. */
uint64_t lh_cs_member_waiting(const struct lh_cs_member *m);
/* Makes the next part for it that may go now, with at most `most` bytes, which are put behind
 * `bytes`: sending.c. False: there is none. */
bool lh_cs_member_next(
    struct lh_cs_member *m, Leasehold__ReplicatePart *part, struct lh_buf *bytes, uint64_t most);
/* Makes the part that tells it the committed length. False: it knows. */
bool lh_cs_member_notify(struct lh_cs_member *m, Leasehold__ReplicatePart *part);
void lh_cs_member_timer(struct lh_cs_member *m);
struct lh_instant lh_cs_member_deadline(const struct lh_cs_member *m);
/* Tells the committed length to one that does not know it. */
void lh_cs_member_notice(struct lh_cs_member *m);

/* Is something owed by the member? Then its silence counts. */
bool lh_cs_member_awaited(const struct lh_cs_member *m);
/* A grant, or an answer to one, has come that it is tried with at once; its time begins now. */
void lh_cs_member_try_now(struct lh_cs_member *m);
/* Back to nothing; tried again after a while. */
void lh_cs_member_down(struct lh_cs_member *m);
/* It cannot go on, and waiting does not mend it. */
void lh_cs_member_refused(struct lh_cs_member *m, int error, const char *text);
/* Its log is no prefix of this one, nor the other way round; this one has that running checksum at
 * `length`. No protocol leads there (INV-5): one of the two has rotted, and its server finds that
 * when it reads it back (FAIL-4). */
void lh_cs_member_differs(struct lh_cs_member *m, uint64_t length, uint64_t checksum);

static inline struct lh_cs_host *lh_cs_member_host(const struct lh_cs_member *m)
{
    return m->primary->replica->logs->cs;
}

static inline const struct lh_chunkserver_bounds *lh_cs_member_bounds(const struct lh_cs_member *m)
{
    return &lh_cs_member_host(m)->config.bounds;
}
