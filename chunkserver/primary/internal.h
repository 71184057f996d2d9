/* The primary part of a replica, and the room of all of them: what the files of this folder know of
 * each other. */
#pragma once

#include "chunkserver/primary/primary.h"
#include "flow/outbox.h"

struct lh_cs_lane;
struct lh_cs_lane_writer;
struct lh_cs_member;
struct lh_cs_pair;
struct lh_cs_stream;
struct lh_cs_unconfirmed_seal;
struct lh_cs_unreported_loss;

struct lh_cs_primaries {
    struct lh_cs_host *cs;
    struct lh_cs_logs *logs;
    struct lh_cs_primary *all;
    struct lh_cs_pair *pairs;        /* pair.c: by the other server's address */
    struct lh_outbox *touched_pairs; /* by this step */
    uint64_t feeds;                  /* the number of the last one */

    struct {                       /* streams.c */
        struct lh_cs_stream *all;  /* that clients opened */
        struct lh_outbox *touched; /* by this step */
        struct lh_cs_lane *lanes;  /* of all of them, by key */
        uint64_t pending_bytes;    /* uncommitted, in all primaries */
        uint64_t arriving_bytes;   /* of batches that have come in part */
        size_t held;               /* streams that are not read for now */
        struct lh_timer alive; /* signs of life; set while an append stream waits for an answer, and
                                  while bytes arrive */
    } streams;

    struct lh_batch_stamper stamper; /* primary.c: what it orders gets its chain */

    struct { /* leases.c: what the master perhaps has not heard of */
        struct lh_cs_unconfirmed_seal *seals;
        struct lh_cs_unreported_loss *losses;
    } unreported;
};

enum lh_cs_primary_state {
    LH_CS_PRIMARY_ADOPTING,   /* its own header is being written */
    LH_CS_PRIMARY_GATHERING,  /* members adopt and report (REC-2) */
    LH_CS_PRIMARY_FETCHING,   /* a member's log is longer: get the rest */
    LH_CS_PRIMARY_EQUALIZING, /* members are brought to the same end and confirm it */
    LH_CS_PRIMARY_OPEN,       /* takes appends */
    LH_CS_PRIMARY_SEALING,    /* orders no more; what is under way commits, every member has it all,
                                 then SEAL-1 */
    LH_CS_PRIMARY_RECALLED    /* orders no more; what is under way commits, then Release */
};

/* The name of a client's lane. */
struct lh_cs_lane_key {
    uint64_t link, number;
};

/* A batch that was ordered and is not committed. */
struct lh_cs_uncommitted {
    uint64_t offset;
    uint64_t writer;
    uint64_t sequence;
    uint32_t count;
    struct lh_cs_lane_key lane; /* to answer, if it is still there */
    uint64_t checksum;          /* running checksum behind it */
    struct lh_instant ordered_at;
    struct lh_buf bytes;
};

struct lh_cs_primary {
    struct lh_cs_primaries *primaries;
    struct lh_cs_replica *replica;
    uint64_t version;
    uint64_t fence; /* TOK-2: only lanes with this token are taken; 0: only those without one */
    uint32_t min_replicas;
    enum lh_cs_primary_state state;
    struct lh_cs_member *members; /* the others, in the grant's order */
    size_t member_count;
    bool self_equal;             /* our own LH_CS_JOB_CONFIRM is done */
    uint64_t committed_checksum; /* OPEN: running checksum at the replica's `committed` */
    uint64_t fetch_link;
    struct lh_cs_member *fetch_from;
    uint64_t appends;          /* batches ordered since the grant */
    uint64_t appends_extended; /* of them, at the last extension asked (LEASE-4) */
    struct lh_timer timer;
    struct lh_instant drain_until; /* SEALING, RECALLED: when to stop waiting */
    struct lh_instant notice_at;   /* when to tell idle members the committed length */

    struct { /* queue.c */
        struct lh_cs_uncommitted *items;
        size_t first, count, capacity;
    } queue;

    struct lh_cs_lane *lanes;
    struct lh_cs_primary *prev, *next; /* of the room */
};

/* ---- primary.c */

/* The lease has run out on this server's clock. The master may think otherwise: it is reported. */
void lh_cs_primary_run_out(struct lh_cs_primary *p);
/* Members that are not joining, this server included: what `min_replicas` counts (REC-4). */
size_t lh_cs_primary_full_members(const struct lh_cs_primary *p);
void lh_cs_primary_set_timer(struct lh_cs_primary *p);
/* Takes one checked batch of `w`: orders it, recognises it, or refuses its writer. False: the chunk
 * takes no more now. Nothing is sent before lh_cs_primary_pump(). */
bool lh_cs_primary_order(struct lh_cs_primary *p, struct lh_cs_lane *lane,
    struct lh_cs_lane_writer *w, const struct lh_batch_header *h, struct lh_buf *bytes);
/* Sends and writes what was ordered; ends a drained primary (then `p` is gone). */
void lh_cs_primary_pump(struct lh_cs_primary *p);
void lh_cs_primary_member_changed(struct lh_cs_primary *p);
/* Members have to make progress now: somebody waits for them. */
bool lh_cs_primary_needs_members(const struct lh_cs_primary *p);
/* Tells the master which members fail (REC-3, FAIL-1). */
void lh_cs_primary_report_failed(struct lh_cs_primary *p);
