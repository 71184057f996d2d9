/* What the core's files share: the tables, and the few operations that reach from one concern into
 * another. Nothing outside master/ includes this.
 *
 * How a change becomes durable: code changes memory and marks the record (lh_m_dirty_*). The end of
 * the step writes all marked records in one commit. A record's `ticket` names the last commit that
 * it is part of; it is *clean* once that is durable. Commits become durable in order, so a clean
 * record and everything marked before it are in the store. What follows from durability is decided
 * anew from the record's state when its commit is done (lh_m_chunk_durable), never from what was
 * meant when the commit was begun: a remove, a release or the end of a session may have come in
 * between.
 *
 * How a waiting call is answered: whatever changes a file's tail touches the file (lh_m_touch), and
 * the end of the step looks at each touched file once (lh_m_file_advance). */
#ifndef LH_MASTER_STATE_H
#define LH_MASTER_STATE_H

#include "base/alloc.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/prng.h"
#include "base/probe.h"
#include "lease/grantor.h"
#include "lease/sum.h"
#include "lease/term.h"
#include "master/counts.h"
#include "master/master.h"
#include "proto/codec.h"
#include "proto/leasehold.pb-c.h"
#include "proto/stored.pb-c.h"

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uthash.h>

#define LH_NAME_BYTES_MAX    128u
#define LH_ADDRESS_BYTES_MAX 256u
#define LH_TEXT_BYTES        512u

/* The incarnation of a holder that no registration speaks for (SES-5a). */
#define LH_M_NOBODY UINT64_MAX

struct lh_m_timer {
    RB_ENTRY(lh_m_timer) node;
    struct lh_instant at;
    uint64_t sequence; /* equal times fire in the order of arming */
    void (*fire)(struct lh_master *m, struct lh_m_timer *timer);
    bool armed;
};
RB_HEAD(lh_m_timers, lh_m_timer);

struct lh_m_report {
    uint64_t chunk, version, length;
    bool sealed, lost, copying;
};

/* Answers that were sent to a server and not confirmed yet (SES-4). */
#define LH_ANSWERS 8

struct lh_m_server {
    /* Durable (SES-1). */
    char *id;
    char *machine_id, *address, *failure_domain;
    uint64_t incarnation, registration;
    uint64_t process; /* a number that this process drew; 0: it told none (SES-5a) */

    bool dirty;
    uint64_t ticket;
    STAILQ_ENTRY(lh_m_server) dirty_link;

    lh_session_id session; /* 0: none */
    uint64_t link;         /* 0: none; the session may go on without one */
    bool announced;        /* Registered was sent */
    bool announcing;       /* it waits in `announcement` for `ticket` */
    struct lh_buf announcement;
    struct lh_instant registered_at; /* when the present session began */
    struct lh_instant received_at; /* when the last heartbeat (or the registration) came */
    uint64_t stamp;                /* its stamp */
    struct {
        uint64_t stamp;
        struct lh_instant at;
        bool sent;
    } answers[LH_ANSWERS];
    unsigned answer_next;
    struct lh_instant confirmed_at; /* when the newest answer that it received was sent */
    bool confirmed;
    struct lh_instant inquired_at; /* when it was last asked whether it lives */
    struct lh_instant silent_since; /* when it was first asked so without having answered since */
    bool inquired;

    uint64_t capacity_bytes, free_bytes, replicas;
    uint64_t placed_bytes; /* given to it since it last told its free bytes */
    bool failing;
    struct lh_instant avoid_until; /* it lately failed to create a replica */
    struct lh_instant missed_at;   /* by its primary, or as one; see lh_m_missed() */
    Leasehold__ServerAdmin admin;  /* durable: what the operator wants of it */
    struct lh_instant away_since;  /* without a session: since then, or since this master's start */
    struct lh_instant failing_since; /* `failing`: since then */
    struct lh_m_timer grace_timer;   /* away or failing: when its members are GONE (KEEP-1) */
    uint32_t copies_in, copies_out; /* replicas that it is receiving, or is the first source of */
    struct {
        uint64_t members, needed;               /* as the last complete census found them */
        uint64_t members_so_far, needed_so_far; /* in the one under way */
        uint64_t first; /* an earlier census began before the operator's word, and says nothing */
        bool copying;   /* it was receiving replicas when the one under way began */
        char *obstacle; /* why they have nowhere to go; NULL: as far as is known they have */
    } census;           /* see moving.c */

    TAILQ_HEAD(, lh_m_chunk) held; /* chunks whose `holder` it is */
    size_t held_count;
    TAILQ_HEAD(, lh_m_chunk) todo; /* of these: grant not confirmed, or recall not answered */
    struct lh_lease_sum sum; /* of these: what it has confirmed in its session (LEASE-8) */

    TAILQ_HEAD(, lh_m_extra) extras; /* its replicas of chunks that it is no member of */
    TAILQ_HEAD(, lh_m_kept) kept;    /* removals that wait while nothing is deleted (KEEP-4) */
    struct lh_m_report *reports; /* of the registration, looked at from `report_next` on */
    size_t report_count, report_next, reports_unknown;

    TAILQ_ENTRY(lh_m_server) all_link;
    UT_hash_handle hh; /* by id */
};

struct lh_m_member {
    struct lh_m_server *server;
    bool joining; /* REC-4 */
    bool created; /* confirmed its empty replica; all true once the chunk is created */
    bool lost;    /* durable: its replica is of no use (FAIL-5) until it is copied anew */
    bool stale;   /* it lacks what its chunk's seal covers, and must be refreshed */
    bool sealed;  /* it has recorded the chunk's seal, as far as this master heard */
    bool leaving; /* another server is to take its place: it is drained, or too much lies on it */
    bool suspect; /* its chunk's primary, lost, or a member that this cannot go on without: what
                     comes after a roll is placed elsewhere (FAIL-2a) */
    lh_session_id seen; /* in this session its server has shown that it has the replica */
};

/* What a member answered to Fence: its durable log (FENCE-1). */
struct lh_m_fenced {
    const struct lh_m_server *server;
    uint64_t length, checksum, committed;
    bool doubted;
    bool primary; /* its length is what it had committed as the primary */
    bool cut;     /* FAIL-3: it may have been longer once */
    bool read_back; /* it is what the disk has, which may not be what was written */
};

/* A chunk that is being sealed because its primary is lost (FAIL-2a); see roll.c, roll_length.c. */
struct lh_m_roll {
    struct lh_m_chunk *chunk;
    uint64_t ticket; /* of the commit that made the intent durable */
    bool resumed;    /* it was begun by a former master */
    struct lh_instant began;
    struct lh_instant usable_at; /* since then a log is known that counts; NEVER: none is */
    struct lh_instant enough_at; /* and as many of them as acknowledge an append */
    bool decided;                /* `length` is what will be sealed */
    struct lh_instant decided_at;
    uint64_t length, checksum;
    bool backed; /* so many members have all of that as acknowledge an append */
    struct lh_m_fenced answers[LH_REPLICATION_MAX];
    uint32_t answer_count;
    struct lh_m_timer timer;
    TAILQ_ENTRY(lh_m_roll) link;
};

/* What a member's replica is worth now (KEEP-1). */
enum lh_m_health {
    LH_M_GOOD,
    LH_M_AWAY,    /* no session, or a failing disk, for less than the grace period */
    LH_M_GONE,    /* for longer */
    LH_M_LOST,    /* FAIL-4, FAIL-5 */
    LH_M_MISSING, /* its server registered without it */
    LH_M_STALE,   /* it missed what the chunk's seal covers */
    LH_M_JOINING  /* REC-4 */
};

/* A chunk's, for the operator. */
enum lh_m_condition {
    LH_M_WHOLE,
    LH_M_DEGRADED,   /* fewer good replicas than its file asks for */
    LH_M_ENDANGERED, /* one */
    LH_M_UNREADABLE, /* none */
    LH_M_CONDITIONS
};

/* A replica that is being copied to a server (REC-4). */
struct lh_m_copy {
    struct lh_m_chunk *chunk;
    struct lh_m_server *target, *source; /* `source`: the one that is to be asked first */
    uint64_t version;                    /* CopyReplica's */
    bool sealed;                         /* of the whole chunk; else to join it */
    bool refresh;                        /* the target is a member */
    bool caught_up;                      /* it can join now */
    struct lh_instant begun;
    uint64_t length;         /* bytes of the log that are there, as it last told */
    bool told;               /* `length` */
    uint64_t metered;        /* bytes that arrived, of what the meter counted */
    struct lh_m_timer timer; /* it makes no progress */
    TAILQ_ENTRY(lh_m_copy) link;
    TAILQ_ENTRY(lh_m_copy) chunk_link;
};
TAILQ_HEAD(lh_m_copies, lh_m_copy);

/* What was said of a primary that lives; see consent.c. */
struct lh_m_words {
    uint64_t version; /* it was the primary of this one */
    struct lh_instant first_at, last_at;
    uint32_t count;
    bool believed; /* often enough, for long enough */
};

struct lh_m_chunk {
    /* Durable. */
    uint64_t id;
    struct lh_m_file *file; /* NULL once the file was removed */
    uint64_t index, start;
    uint64_t version;
    struct lh_m_member *members;
    uint32_t member_count;
    bool created, sealed, intent_to_seal;
    uint64_t length, checksum;
    struct lh_m_server *holder; /* of the grant at `granted_version` */
    uint64_t holder_incarnation;
    uint64_t granted_version; /* `version`, unless a fence came after the grant (FAIL-2a) */

    bool dirty, removed;
    uint64_t ticket;
    STAILQ_ENTRY(lh_m_chunk) dirty_link;

    /* The lease. `session` is where the engine holds it; 0 with a holder: `waiting`. */
    lh_session_id session;
    bool waiting;   /* LEASE-7: a durable grant of a former master may still be in force */
    bool sent;      /* the grant at `version` went out at least once */
    bool confirmed; /* the holder confirmed `version` */
    bool recalling; /* LEASE-5 */
    uint64_t summed_version; /* at which it is in its holder's `sum`; 0: it is not */
    uint64_t shown, shown_version; /* when a server showed it last (`m->shows`), at which version */
    uint64_t appends;
    struct lh_m_server *avoid; /* gave the lease up or refused it: another one, if there is */
    struct lh_m_server *last_primary;
    /* Where the newest joining member was copied from; where one was whose log then did not fit. */
    struct lh_m_server *joined_from, *bad_source;
    struct lh_instant retry_at; /* no grant to `avoid` before this */
    struct lh_instant rest_until; /* nor to anybody: each member has refused */
    uint32_t refusals;            /* since a primary last recovered */
    struct lh_instant refused_at; /* the last one */
    uint64_t adopted_above; /* a member has adopted this version, too high to go above; 0: none */

    struct lh_m_timer timer;    /* creation, or a refused grant */
    bool creating;              /* in `m->creating` */
    struct lh_m_server *unable; /* the last one that answered it cannot create its replica, */
    int unable_error;           /* and why */
    uint64_t short_version; /* the operator was told that too few members are left at this one */
    struct lh_instant short_at; /* when its primary last said so */
    struct lh_m_words lost_by_clients, short_by_primary;
    uint64_t unsure_version;    /* and that at this one its primary waits for all (REC-2a) */
    struct lh_m_roll *roll;     /* NULL: none under way */
    bool seal_told;         /* RecordSeal went out once since the seal is durable */
    struct lh_instant rolled_at; /* when this master sealed it by fences; zero: it did not */
    bool backed; /* this master has seen enough logs for the seal; see lh_m_backed() */
    bool urgent; /* it is not backed, and somebody waits for that: it is copied before all else */
    uint64_t seen_version;  /* the highest that any server reported (KEEP-4) */
    TAILQ_HEAD(, lh_m_extra) extras;
    uint64_t grant_ticket; /* the commit that made the newest grant durable (LEASE-1) */
    struct lh_instant granted_at; /* when this master gave the newest version; zero: it did not */

    /* Repair; see health.c and repair.c. */
    enum lh_m_condition condition; /* as it was when the chunk was last looked at */
    bool attended;                 /* in `m->attention` */
    bool wanting;                  /* in `m->wanting`, with `want_good` and `want_bytes` to copy */
    uint32_t want_good;
    uint64_t want_bytes;
    struct lh_m_copies copies;
    uint32_t copy_count;
    struct lh_instant repair_at;      /* nothing is tried before this */
    uint32_t repair_failures;         /* in a row */
    struct lh_m_server *repair_avoid; /* its copy failed last: another one, if there is */
    bool repair_granted;              /* granted so that a primary looks after its members */
    uint32_t repair_grants;           /* such grants that have not made it whole, in a row */
    struct lh_instant repair_grant_at; /* and no other before this */
    struct lh_instant granted_until;  /* as such it counts until then */
    uint64_t recovered_version; /* the newest that its primary reported recovered */
    lh_session_id recovered_session; /* and in which session */
    bool tell_full; /* joining members became full: the primary hears of it once that is durable */

    TAILQ_ENTRY(lh_m_chunk) held_link;
    TAILQ_ENTRY(lh_m_chunk) todo_link;
    bool in_todo;
    TAILQ_ENTRY(lh_m_chunk) creating_link;
    TAILQ_ENTRY(lh_m_chunk) waiting_link;
    RB_ENTRY(lh_m_chunk) all_node;  /* all chunks that are not removed, by id */
    RB_ENTRY(lh_m_chunk) open_node; /* unsealed chunks, by id */
    RB_ENTRY(lh_m_chunk) held_node; /* chunks with a holder, by id */
    TAILQ_ENTRY(lh_m_chunk) attention_link;
    RB_ENTRY(lh_m_chunk) wanting_node;
    UT_hash_handle hh; /* by id */
};
RB_HEAD(lh_m_all, lh_m_chunk);
RB_HEAD(lh_m_wanting, lh_m_chunk); /* the fewest good members first */
RB_HEAD(lh_m_open, lh_m_chunk);
RB_HEAD(lh_m_leased, lh_m_chunk);

/* A replica whose server is not a member of its chunk; see garbage.c. */
struct lh_m_extra {
    struct lh_m_chunk *chunk;
    struct lh_m_server *server;
    uint64_t version; /* at most: it was reported, or dropped, at this one */
    bool sealed, copying;
    bool asked;                      /* RemoveReplica went out in the server's present session */
    TAILQ_ENTRY(lh_m_extra) link;    /* of the chunk */
    TAILQ_ENTRY(lh_m_extra) of_link; /* of the server */
    TAILQ_ENTRY(lh_m_extra) all_link;
};
TAILQ_HEAD(lh_m_extras, lh_m_extra);

/* A replica of a chunk that is removed or unknown, kept because nothing is deleted now (KEEP-4). */
struct lh_m_kept {
    uint64_t chunk, version;
    TAILQ_ENTRY(lh_m_kept) link;
};

enum lh_m_wait { LH_WAIT_TAIL, LH_WAIT_RECALL };

/* A call that is answered when a file has a primary (OpenTail, Recall). */
struct lh_m_waiter {
    enum lh_m_wait kind;
    uint64_t link;
    struct lh_m_file *file;
    struct lh_instant deadline;
    struct lh_instant arrived_at;
    struct lh_m_timer timer; /* `deadline`, or before it `hold_until` */

    /* OpenTail. */
    uint64_t full_chunk, failed_version;
    uint64_t failed_chunk;        /* what `failed_version` is one of; 0: nothing that counts */
    uint64_t arrival_version;     /* of the tail when the call came */
    uint64_t unsettled_chunk;     /* the caller can go on only once it can settle there */
    struct lh_instant hold_until; /* a primary that the caller could not reach is not named again
                                     before this, unless it shows that it lives */
    /* Recall. */
    uint64_t chunk, from_version;
    char *old_primary;
    bool only_release;

    TAILQ_ENTRY(lh_m_waiter) file_link;
    UT_hash_handle hh; /* by link */
};

/* A chunk that was created ahead of its need; see spare.c. */
struct lh_m_spare {
    uint64_t id;
    struct lh_m_file *file;
    struct lh_m_member *members;
    uint32_t member_count;
    uint64_t ticket; /* the commit that uses up the id */
    bool asked;      /* CreateReplica was sent */
    struct lh_m_timer timer;
    TAILQ_ENTRY(lh_m_spare) link; /* in `m->new_spares` until asked */
    UT_hash_handle hh;            /* by id */
};

struct lh_m_file {
    /* Durable. */
    uint64_t id;
    char *path;
    Leasehold__Durability durability;
    uint32_t replication, min_replicas;
    uint64_t chunk_size;
    uint64_t created_unix_ms;
    Leasehold__OnPrimaryLoss on_primary_loss;

    bool dirty, removed;
    uint64_t ticket; /* of the last commit with this file or one of its chunks */
    STAILQ_ENTRY(lh_m_file) dirty_link;

    struct lh_m_chunk **chunks; /* by index */
    struct lh_m_spare *spare;   /* NULL: none */
    size_t chunk_count, chunk_capacity;

    TAILQ_HEAD(, lh_m_waiter) waiters;
    uint32_t waiter_count;
    TAILQ_ENTRY(lh_m_file) waited_link; /* in `m->waited` while it has waiters */
    TAILQ_ENTRY(lh_m_file) work_link;
    bool in_work;
    struct lh_instant place_in_full_until; /* its next chunk waits for all its replicas no longer;
                                              NEVER: it does not wait */
    struct lh_m_timer timer;               /* for that */

    struct lh_instant consent_from;   /* its primary is not asked for consent before this */
    struct lh_duration consent_rest;  /* after the last time */
    uint32_t consents;                /* times in a row */

    /* In the trash (KEEP-5). Durable but for the times, which go with the master's clock. */
    bool trashed;
    uint64_t trash_number;         /* files get rising ones as they are removed */
    struct lh_duration trash_left; /* as it is in the store, at `trash_from` */
    struct lh_instant trash_from;
    struct lh_m_timer trash_timer;

    RB_ENTRY(lh_m_file) path_node; /* in `m->paths`, or in `m->trash` if trashed */
    UT_hash_handle hh;             /* by id */
};
RB_HEAD(lh_m_paths, lh_m_file);
RB_HEAD(lh_m_trash, lh_m_file); /* by path and id */

/* A chunk that was removed: its number is never used again, and replicas of it may go (FENCE-2). */
struct lh_m_tombstone {
    uint64_t chunk, version;
    UT_hash_handle hh;
};

/* The version at which a spare's replicas are created: that of its first grant. */
#define LH_M_SPARE_VERSION 1u

struct lh_m_mark {
    uint64_t chunk, version;
    bool put;
    STAILQ_ENTRY(lh_m_mark) link;
};

/* The most that `moves_max` can be. */
#define LH_M_MOVES 8u

/* A replica that goes elsewhere although its server is well. */
struct lh_m_move {
    uint64_t chunk;
    struct lh_m_server *from;
    bool for_space;
    bool moved;              /* it is no member any more; its bytes may still be there */
    struct lh_instant until; /* moved: the server has told its room anew by then; else: given up */
};

/* See moving.c. */
struct lh_m_moving {
    struct lh_m_timer timer;
    bool counting;                 /* a census is under way: */
    uint64_t next_chunk;           /* chunks from this one on are still to be seen */
    uint64_t begun, complete;      /* numbers of censuses */
    struct lh_instant next_census; /* if none is under way */
    uint64_t degraded;             /* chunks with too few good replicas, in the last census */
    uint64_t degraded_so_far;
    uint32_t wanted; /* the highest replication of what is needed on a drained server */
    uint32_t wanted_so_far;
    size_t domains;              /* that could take a replica, when the census began */
    unsigned tries;              /* chunks that this step may still look for a better place for */
    struct lh_m_server *fullest; /* its replicas move in this census; NULL: nobody's do */
    struct lh_m_move moves[LH_M_MOVES];
    unsigned move_count;
};

/* A Session stream. */
struct lh_m_link {
    uint64_t id;
    struct lh_m_server *server; /* NULL: has not registered yet */
    lh_session_id session;      /* that it registered */
    UT_hash_handle hh;
};

struct lh_m_commit {
    uint64_t ticket;
    uint64_t *chunks;
    size_t chunk_count, chunk_capacity;
    struct lh_m_server **servers; /* servers are never freed */
    size_t server_count, server_capacity;
    TAILQ_ENTRY(lh_m_commit) link;
};

/* A reply that depends on commits under way. */
struct lh_m_reply {
    uint64_t ticket, link;
    struct lh_buf message;
    TAILQ_ENTRY(lh_m_reply) queue;
};

struct lh_master {
    struct lh_master_config config;
    struct lh_duration heartbeat;                              /* T_session / 3 */
    struct lh_duration holder_session_term, holder_chunk_term; /* TIME-4, the holder's share */

    /* Durable: the Master record. */
    char *cluster_id;
    uint64_t term;
    uint64_t longest_session_ns;
    uint64_t next_file, next_chunk;
    char *behind; /* the store looks like an older copy, and why; NULL: it does not (KEEP-4) */
    bool dirty;

    bool started, stopping, stopped;
    bool starved; /* the oldest commit has no room, or no memory: it is tried again */
    struct lh_instant started_at;
    struct lh_instant wait_end; /* LEASE-7: nothing that a former master granted lasts longer */
    struct lh_m_timer wait_timer;
    uint64_t shows; /* how often a server has shown its leases; see holders.c */

    /* Of the step under way. */
    struct lh_effects *fx;
    struct lh_instant now;
    uint64_t wall_ms;

    struct lh_m_moving moving;
    struct lh_master_counts counts;

    struct lh_grantor *grantor;
    struct lh_m_timers timers;
    uint64_t timer_sequence;

    struct lh_m_server *servers; /* hash */
    TAILQ_HEAD(, lh_m_server) all_servers;
    struct lh_m_file *files; /* hash */
    struct lh_m_paths paths;
    struct lh_m_trash trash;
    uint64_t trash_number; /* of the file that is removed next */
    size_t trash_count, purged; /* `purged`: chunks in this step */
    struct lh_m_extras extras;
    size_t extra_count, kept_count;
    uint64_t extras_deleted;
    struct lh_m_timer garbage_timer;
    size_t garbage_round; /* extras that it still has to look at */
    bool resumed; /* kept removals go out once `resume_ticket` is durable */
    uint64_t resume_ticket;
    struct lh_m_chunk *chunks; /* hash */
    struct lh_m_all all;
    struct lh_m_open open;
    struct lh_m_leased leased;
    struct lh_m_tombstone *tombstones; /* hash */
    struct lh_m_link *links;           /* hash */
    struct lh_m_waiter *waiters;       /* hash */
    struct lh_m_spare *spares;         /* hash */
    TAILQ_HEAD(, lh_m_spare) new_spares;
    TAILQ_HEAD(, lh_m_roll) rolls;
    TAILQ_HEAD(, lh_m_chunk) creating;
    TAILQ_HEAD(, lh_m_chunk) waiting;
    TAILQ_HEAD(, lh_m_file) waited;
    TAILQ_HEAD(, lh_m_file) work;
    TAILQ_HEAD(, lh_m_chunk) attention; /* chunks to be looked at in this step or the next ones */
    struct lh_m_wanting wanting;        /* chunks for which repair has something to do */
    struct lh_m_copies copies;
    struct {
        size_t conditions[LH_M_CONDITIONS]; /* chunks in `all` */
        size_t waiting;                     /* in `wanting` */
        uint32_t copies, grants;            /* under way */
        uint64_t want_bytes;                /* of all in `wanting` */
        uint64_t copies_done, bytes_done;   /* since this master's start */
        struct lh_instant meter_from;       /* what arrived since then ... */
        uint64_t meter_bytes, last_bytes;   /* ... and in the interval before */
        struct lh_duration last_interval;
        bool patrolling, patrol_again, round, round_again;
        struct lh_instant round_retry; /* a chunk that the round passed over can be tried then */
        uint64_t patrol_next; /* the chunk that the patrol looks at next */
        uint32_t round_good;  /* the round goes on behind this place in `wanting` */
        uint64_t round_chunk;
        struct lh_m_timer patrol_timer, round_timer;
    } repair;
    struct lh_instant consent_from; /* no primary is asked for consent before this */
    struct lh_instant unsettled_until; /* servers lately came or went: more may follow */
    size_t reporting;                  /* servers with reports still to be looked at */

    STAILQ_HEAD(, lh_m_server) dirty_servers;
    STAILQ_HEAD(, lh_m_chunk) dirty_chunks;
    STAILQ_HEAD(, lh_m_file) dirty_files;
    STAILQ_HEAD(, lh_m_mark) dirty_tombstones;
    uint64_t next_ticket;      /* of this step's commit, should there be one */
    uint64_t durable;          /* all commits up to this one are */
    uint64_t namespace_ticket; /* of the last commit that created, renamed or removed a file */
    TAILQ_HEAD(, lh_m_commit) commits;
    TAILQ_HEAD(lh_m_reply_queue, lh_m_reply) replies; /* by ticket */
};

RB_PROTOTYPE(lh_m_timers, lh_m_timer, node, )
RB_PROTOTYPE(lh_m_paths, lh_m_file, path_node, )
RB_PROTOTYPE(lh_m_trash, lh_m_file, path_node, )
RB_PROTOTYPE(lh_m_all, lh_m_chunk, all_node, )
RB_PROTOTYPE(lh_m_open, lh_m_chunk, open_node, )
RB_PROTOTYPE(lh_m_leased, lh_m_chunk, held_node, )
RB_PROTOTYPE(lh_m_wanting, lh_m_chunk, wanting_node, )

/* ---- master.c */
void lh_m_timer_arm(struct lh_master *m, struct lh_m_timer *t, struct lh_instant at);
void lh_m_timer_disarm(struct lh_master *m, struct lh_m_timer *t);
#define LH_M_OWNER(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

/* What is waited for after the `n`-th failure in a row, from 0: `first`, and twice as long each
 * time, up to `most`. */
static inline struct lh_duration lh_m_backoff(
    struct lh_duration first, struct lh_duration most, uint32_t n)
{
    return lh_duration_min(lh_nanoseconds(first.ns << (n < 16 ? n : 16)), most);
}

/* Answers a unary call with what is durable in commit `ticket`: now, or when it is. */
void lh_m_reply(
    struct lh_master *m, uint64_t link, uint64_t ticket, const ProtobufCMessage *message);

/* The commit that what is known of `f` (NULL: of the namespace) depends on. */
uint64_t lh_m_ticket(const struct lh_master *m, const struct lh_m_file *f);

/* The wire's number for one of the lh_error values. */
static inline Leasehold__ErrorCode lh_m_wire_error(int error)
{
    return (Leasehold__ErrorCode)-error;
}

/* ---- persist.c */
/* A spare's tombstone, at version 0: put, or taken back (see spare.c). */
void lh_m_dirty_tombstone(struct lh_master *m, uint64_t chunk, bool put);
/* Replicas of a chunk that has no record, up to this version, may go: durably. */
void lh_m_bury(struct lh_master *m, uint64_t chunk, uint64_t version);
void lh_m_dirty_master(struct lh_master *m);
void lh_m_dirty_server(struct lh_master *m, struct lh_m_server *s);
void lh_m_dirty_chunk(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_dirty_file(struct lh_master *m, struct lh_m_file *f);
/* Emits the step's commit if anything was marked. */
void lh_m_flush(struct lh_master *m);
/* The version of the chunk's next grant: above every one that was ever heard of (KEEP-4). */
static inline uint64_t lh_m_next_version(const struct lh_m_chunk *c)
{
    return (c->version > c->seen_version ? c->version : c->seen_version) + 1;
}
static inline bool lh_m_is_durable(const struct lh_master *m, uint64_t ticket)
{
    return ticket <= m->durable;
}

/* ---- sessions.c */
struct lh_m_server *lh_m_server_get(struct lh_master *m, const char *id); /* made if unknown */
void lh_m_session_opened(struct lh_master *m, uint64_t link);
void lh_m_session_message(
    struct lh_master *m, uint64_t link, const Leasehold__SessionRequest *request);
/* `ended`: by whom, in words; NULL: the stream broke. */
void lh_m_session_closed(struct lh_master *m, uint64_t link, const char *ended);
void lh_m_session_expired(struct lh_master *m, struct lh_m_server *s, lh_session_id session);
void lh_m_announce(struct lh_master *m, struct lh_m_server *s);
/* Ends the server's session and its stream for good. It holds no lease. */
void lh_m_dismiss(struct lh_master *m, struct lh_m_server *s);
void lh_m_look_at_reports(struct lh_master *m);
uint64_t lh_m_wire_session(const struct lh_master *m, lh_session_id s);
/* Sends on the server's link; true if there is one and its registration was answered. */
bool lh_m_send(struct lh_master *m, struct lh_m_server *s, Leasehold__SessionReply *reply);
bool lh_m_live(const struct lh_master *m, const struct lh_m_server *s);
/* Live, linked, announced, and lately confirmed an answer (SES-4). */
bool lh_m_reachable(const struct lh_master *m, const struct lh_m_server *s);
/* Nothing speaks against its being alive: linked, and a heartbeat came in time. */
bool lh_m_looks_alive(const struct lh_master *m, const struct lh_m_server *s);

/* ---- chunks.c */
struct lh_m_chunk *lh_m_chunk_find(const struct lh_master *m, uint64_t id); /* not removed ones */
struct lh_m_chunk *lh_m_chunk_new(struct lh_master *m, struct lh_m_file *f, uint64_t id);
void lh_m_chunk_free(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_chunk_remove(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_chunk_durable(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_set_sealed(struct lh_master *m, struct lh_m_chunk *c);
struct lh_m_member *lh_m_member(const struct lh_m_chunk *c, const struct lh_m_server *s);
void lh_m_record_seal(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *only);
void lh_m_send_remove(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version);
void lh_m_on_seal(struct lh_master *m, struct lh_m_server *s, const Leasehold__SealReport *report);
void lh_m_on_member_failed(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__MemberFailed *report);
void lh_m_on_lost(struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaLost *report);

/* ---- creation.c */
/* Allocates the file's next chunk. On failure nothing changed; the waiters' deadline says why. */
int lh_m_create_chunk(struct lh_master *m, struct lh_m_file *f);
void lh_m_creation_start(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_creation_stop(struct lh_master *m, struct lh_m_chunk *c);
bool lh_m_creation_done(const struct lh_m_chunk *c);
/* CreateReplica to the members that have not confirmed; to `only` if not NULL. */
void lh_m_creation_send(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *only);
/* CreateReplica of chunk `id` of `f`, at that version, to one server, if it is alive. */
void lh_m_send_create(struct lh_master *m, const struct lh_m_file *f, uint64_t id, uint64_t version,
    struct lh_m_server *s);
/* Counts on room at a server until it next tells how much it has. */
void lh_m_reserve(struct lh_m_server *s, uint64_t bytes);
void lh_m_on_created(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report);

/* ---- spare.c */
/* The file's tail takes appends: sees to it that it has a spare, if it is of the growing kind. */
void lh_m_spare_want(struct lh_master *m, struct lh_m_file *f);
void lh_m_spares_durable(struct lh_master *m);
/* True: the report was about a spare. */
bool lh_m_spare_created(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCreated *report);
/* A registration tells of a replica, which may be a spare's. */
void lh_m_spare_reported(
    struct lh_master *m, const struct lh_m_server *s, const struct lh_m_report *r);
bool lh_m_spare_known(const struct lh_master *m, uint64_t chunk);
/* The file's tail was sealed in this step: the spare becomes the next chunk in the seal's own
 * commit, and is granted in it if all its replicas are there. */
void lh_m_spare_take(struct lh_master *m, struct lh_m_file *f);
void lh_m_spare_free(struct lh_master *m, struct lh_m_spare *spare);
/* How many members of the file's spare could be used, none of the `count` suspects counted. */
uint32_t lh_m_spare_fit(const struct lh_master *m, const struct lh_m_file *f,
    const struct lh_m_member *suspects, uint32_t count);
/* Sees to it that the file has a spare without the suspects, in this step's commit. Too few servers
 * for that: it has none afterwards. */
void lh_m_spare_for_roll(
    struct lh_master *m, struct lh_m_file *f, const struct lh_m_member *suspects, uint32_t count);
/* Every member has created its replica and can be granted the lease. */
bool lh_m_spare_ready(const struct lh_master *m, const struct lh_m_file *f);
/* Leaves only members out of the spare that are ready, if they are enough; false: they are not. */
bool lh_m_spare_shrink(struct lh_master *m, struct lh_m_file *f);
/* The file is idle or gone: gives the room back. */
void lh_m_spare_drop(struct lh_master *m, struct lh_m_file *f);

/* ---- roll.c */
/* Does the file roll over when the primary of its tail is lost? */
bool lh_m_rolls(const struct lh_master *m, const struct lh_m_file *f);
/* Somebody waits for the file's tail: rolls it over if its primary is lost, or asks whether it
 * is. */
void lh_m_roll_consider(struct lh_master *m, struct lh_m_file *f);
/* The tail's primary, which lives, reports that appends wait and too few of its members answer:
 * rolls the file over. True: it does. */
bool lh_m_roll_short(struct lh_master *m, struct lh_m_chunk *c);
/* Of a chunk that was loaded with an intent to seal; goes on with lh_m_rolls_start(). */
void lh_m_roll_resume(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_rolls_start(struct lh_master *m);
void lh_m_roll_free(struct lh_master *m, struct lh_m_chunk *c); /* nothing if there is none */
/* A commit with the chunk is durable, its server registered, a stream broke, its spare changed. */
void lh_m_roll_durable(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_roll_announced(struct lh_master *m, struct lh_m_server *s);
void lh_m_rolls_advance(struct lh_master *m);
void lh_m_roll_spare_changed(struct lh_master *m, struct lh_m_file *f);
/* The members that the next chunk is placed without; how many. */
uint32_t lh_m_suspects(const struct lh_m_chunk *c, struct lh_m_member *suspects);
void lh_m_on_fenced(struct lh_master *m, struct lh_m_server *s, const Leasehold__Fenced *report);

/* ---- roll_length.c */
/* REC-4, FAIL-5: does its log count? */
bool lh_m_log_counts(const struct lh_master *m, const struct lh_m_member *member);
/* What `s` answered to the fence; NULL: nothing yet. */
const struct lh_m_fenced *lh_m_roll_answer(
    const struct lh_m_roll *roll, const struct lh_m_server *s);
/* For how many logs a roll does not wait in vain: as many as acknowledge an append; those that are
 * gone count no more. */
uint32_t lh_m_logs_needed(const struct lh_master *m, const struct lh_m_chunk *c);
/* Is what the seal covers on as many disks as an append (or is the chunk open)? What is found there
 * counts as stored (APP-5a), so before that nobody is told to settle. */
bool lh_m_backed(const struct lh_master *m, const struct lh_m_chunk *c);
/* How many members have recorded the seal? */
uint32_t lh_m_recorded(const struct lh_m_chunk *c);
/* Do the logs that were shown not vouch for all that was acknowledged, so that the rest has to be
 * waited for, however long (REC-2a, FAIL-3)? */
bool lh_m_roll_unsure(const struct lh_m_roll *roll);
/* When, with what is known now, the rest is waited for no longer. NEVER: not enough is known. */
struct lh_instant lh_m_roll_patience_end(const struct lh_master *m, const struct lh_m_roll *roll);
/* Of a roll that is not decided yet: decides what will be sealed, if enough is known and nobody is
 * waited for any more. */
void lh_m_roll_decide(struct lh_master *m, struct lh_m_roll *roll);

/* ---- leases.c */
void lh_m_set_holder(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s);
bool lh_m_held(const struct lh_master *m, const struct lh_m_chunk *c);
/* How long the present lease may still run; zero if there is none. */
struct lh_duration lh_m_lease_left(const struct lh_master *m, const struct lh_m_chunk *c);
/* Confirmed and in force in the holder's present session, and not being given up. */
bool lh_m_has_primary(const struct lh_master *m, const struct lh_m_chunk *c);
/* Gives the free lease to the best member; false: none can have it now. */
bool lh_m_grant_free(struct lh_master *m, struct lh_m_chunk *c);
/* A new version for the present holder (LEASE-3). */
void lh_m_regrant(struct lh_master *m, struct lh_m_chunk *c);
/* Could this member be given the free lease? */
bool lh_m_can_lead(const struct lh_master *m, const struct lh_m_member *member);
/* The lease is over; `why` for the log. */
void lh_m_lease_over(struct lh_master *m, struct lh_m_chunk *c, const char *why);
void lh_m_recall(struct lh_master *m, struct lh_m_chunk *c);
/* Sends (again) what the holder has to hear: the grant until it is confirmed, the recall until it
 * is answered. */
void lh_m_push(struct lh_master *m, struct lh_m_chunk *c);
/* The durable grant at the newest version, to the holder's present session. */
void lh_m_send_grant(struct lh_master *m, struct lh_m_chunk *c);
/* Holder, session, confirmation, recall or intent are others now. */
void lh_m_lease_changed(struct lh_m_chunk *c);
/* Its holder does not act on it any more; if it was being recalled, another member may have it. */
void lh_m_given_back(struct lh_master *m, struct lh_m_chunk *c, const char *why);
/* Its term is over, here or at its holder. */
void lh_m_ran_out(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_on_confirm(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__GrantConfirm *confirm);
void lh_m_on_release(struct lh_master *m, struct lh_m_server *s, const Leasehold__Release *release);
void lh_m_wait_ended(struct lh_master *m, struct lh_m_timer *timer);
/* Extends what the heartbeat lists, and `extended[i]` says whether its i-th lease was (LEASE-4). */
void lh_m_extend(struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat,
    bool *extended);

/* ---- holders.c */
/* The leases that a registration shows go on in the new session, as far as they are in force
 * (`continued`, with room for all of them). Of the `same_process`, by its incarnation, grants that
 * were not confirmed go over into it; if that is `proven`, what is not shown is free (SES-5a). */
void lh_m_shows(struct lh_master *m, struct lh_m_server *s, const Leasehold__Register *request,
    bool same_process, bool proven, struct lh_m_chunk **continued, size_t *count);
/* A higher incarnation on the same machine: the old process is dead (SES-5). */
void lh_m_free_dead(struct lh_master *m, struct lh_m_server *s);
/* Two processes have one incarnation: what the first was granted nobody gives back. */
void lh_m_disown(struct lh_master *m, struct lh_m_server *s);
/* A session has begun in which the server has confirmed nothing. */
void lh_m_sum_begin(struct lh_m_server *s);
/* Does the holder believe otherwise (LEASE-8)? */
bool lh_m_sum_differs(const struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat);
void lh_m_on_shown(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ShownLeases *shown);

/* ---- consent.c */
/* A client has said once more that it cannot reach the primary of the chunk's newest version. */
void lh_m_consent_client(struct lh_master *m, struct lh_m_chunk *c);
/* The primary, for which appends wait, has said once more that it cannot go on without these. True:
 * it is being asked to let another one. */
bool lh_m_consent_primary(
    struct lh_master *m, struct lh_m_chunk *c, char *const *ids, size_t count);

/* ---- refusals.c */
/* The server does not act, or not any more, on what it was granted just now. It is asked again
 * after `pause` at the earliest. */
void lh_m_refused(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, struct lh_duration pause);
/* And has adopted this version, by its own word. The chunk's lease is over. */
void lh_m_refused_version(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, uint64_t adopted);
void lh_m_accepted(struct lh_m_chunk *c);
/* Is it offered to nobody for now, because everybody has refused? */
bool lh_m_rests(const struct lh_master *m, const struct lh_m_chunk *c);

/* ---- placement.c */
/* Servers come or go now: whoever can wait for a full set should, for a moment. */
void lh_m_unsettled(struct lh_master *m);
/* Chooses up to `wanted` servers for a replica of `bytes`, none of the `exclude`d; how many it
 * found. */
uint32_t lh_m_place(struct lh_master *m, uint64_t bytes, uint32_t wanted,
    const struct lh_m_member *exclude, uint32_t exclude_count, struct lh_m_server **chosen);
/* A server for one more copy of `bytes`; NULL: none. */
struct lh_m_server *lh_m_place_copy(
    struct lh_master *m, uint64_t bytes, const struct lh_m_member *exclude, uint32_t exclude_count);

/* ---- health.c */
enum lh_m_health lh_m_member_health(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member);
const char *lh_m_health_text(enum lh_m_health health);
/* Is the server gone (KEEP-1), and has the operator said that it will not come back (by
 * decommissioning it)? Nobody waits for what it alone may have. */
bool lh_m_given_up(const struct lh_master *m, const struct lh_m_server *s);
/* Could others copy the chunk from this member? */
bool lh_m_is_source(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_member *member);
/* How long a server without a session, or with a failing disk, still counts. */
struct lh_duration lh_m_grace_left(const struct lh_master *m, const struct lh_m_server *s);
/* The server has shown in its present session that it has the replica of `c`; nothing if it is no
 * member. */
void lh_m_seen(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s);
/* The server's registration tells of its replica of `c`. */
void lh_m_reported(
    struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s, const struct lh_m_report *r);
/* The member's replica is of no use any more (FAIL-4, FAIL-5): durable with this step. */
void lh_m_lose(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_member *member);
void lh_m_on_seal_recorded(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__SealRecorded *report);
/* The chunk is looked at in this step or soon: something of it changed that repair may act on. */
void lh_m_attend(struct lh_master *m, struct lh_m_chunk *c);
/* All chunks are: something changed that concerns many. */
void lh_m_patrol(struct lh_master *m);
void lh_m_health_start(struct lh_master *m);
/* The server's session began, ended, or its disk began to fail or to answer. */
void lh_m_server_changed(struct lh_master *m, struct lh_m_server *s);
/* A step's share of looking at chunks and starting copies; `busy`: there is more at once. */
void lh_m_health_step(struct lh_master *m);
bool lh_m_health_busy(const struct lh_master *m);
/* The chunk is removed: out of all that health and repair keep. */
void lh_m_health_forget(struct lh_master *m, struct lh_m_chunk *c);

/* ---- copies.c */
/* The one to that server; NULL: none. */
struct lh_m_copy *lh_m_copy_find(const struct lh_m_chunk *c, const struct lh_m_server *s);
/* Copies to `target` if a source has room for that. */
bool lh_m_copy_begin(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *target);
/* It is forgotten here; `cancel`: and what is at the target becomes an extra, as not needed. */
void lh_m_copy_end(struct lh_master *m, struct lh_m_copy *copy);
void lh_m_copy_cancel(struct lh_master *m, struct lh_m_copy *copy);
/* The chunk is sealed: copies that were to join go on as copies of the whole of it. */
void lh_m_copies_finish(struct lh_master *m, struct lh_m_chunk *c);
/* Ends the copies to that server: its session is over. */
void lh_m_copies_end(struct lh_master *m, struct lh_m_server *target);
/* Is a replica of `c` being copied to the server? */
bool lh_m_copy_at(
    const struct lh_master *m, const struct lh_m_chunk *c, const struct lh_m_server *s);
void lh_m_copies_free(struct lh_master *m, struct lh_m_chunk *c);
void lh_m_on_copied(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaCopied *report);
void lh_m_on_progress(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Heartbeat *heartbeat);
void lh_m_repair_info(const struct lh_master *m, Leasehold__RepairInfo *info);

/* ---- repair.c */
/* The server has copied the whole sealed chunk: a good member from now on. */
void lh_m_complete(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s);
/* Does what can be done for `c` without a copy, and says whether copies or a grant are wanting.
 * `patrol`: nothing special was heard of it. */
void lh_m_repair_look(struct lh_master *m, struct lh_m_chunk *c, bool patrol);
void lh_m_repair_start(struct lh_master *m);
/* The lease is over: whoever wants it for appends comes before repair. */
void lh_m_repair_pause(struct lh_master *m, struct lh_m_chunk *c);
/* Begins a round over all that are wanting. */
void lh_m_repair_round(struct lh_master *m);
void lh_m_repair_step(struct lh_master *m);
void lh_m_repair_forget(struct lh_master *m, struct lh_m_chunk *c);
/* REC-4: the primary has made all members equal at this version. */
void lh_m_on_recovered(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__Recovered *report);
/* The primary hears of members that became full, once that is durable. */
void lh_m_tell_full(struct lh_master *m, struct lh_m_chunk *c);

/* Has the server given no sign of life since others last missed it? No new chunk is put there: who
 * waits for the chunk would wait for the server. */
bool lh_m_missed(const struct lh_m_server *s);
/* Could the server take a replica of `bytes` now? */
bool lh_m_fits(const struct lh_master *m, const struct lh_m_server *s, uint64_t bytes);
/* Are both in one failure domain? A server that names none is one of its own. */
bool lh_m_same_domain(const struct lh_m_server *a, const struct lh_m_server *b);

/* ---- moving.c */
/* The replica is to go elsewhere: its server is drained, or the master chose it (KEEP-2). */
static inline bool lh_m_leaving(const struct lh_m_member *member)
{
    return member->leaving || member->server->admin != LEASEHOLD__SERVER_ADMIN__ACTIVE;
}
/* Decommissioned, and nothing is left on it: only its name is remembered, so that it stays away. */
static inline bool lh_m_forgotten(const struct lh_m_server *s)
{
    return s->admin == LEASEHOLD__SERVER_ADMIN__DECOMMISSIONING && s->incarnation == 0;
}
void lh_m_set_server(
    struct lh_master *m, uint64_t link, const Leasehold__SetServerRequest *request);
void lh_m_moving_start(struct lh_master *m);
/* Something happened that a drain may go on after: looks at the draining servers soon. */
void lh_m_moving_kick(struct lh_master *m);
/* Draining, and no chunk needs what is on it (any more). */
bool lh_m_safe_to_stop(const struct lh_master *m, const struct lh_m_server *s);
/* Draining: replicas that a chunk needs until there is another one. */
uint64_t lh_m_replicas_to_move(const struct lh_master *m, const struct lh_m_server *s);

/* ---- namespace.c */
struct lh_m_file *lh_m_file_by_path(const struct lh_master *m, const char *path);
struct lh_m_file *lh_m_file_by_id(const struct lh_master *m, uint64_t id);
struct lh_m_file *lh_m_file_new(
    struct lh_master *m, uint64_t id, const char *path, bool trashed);
/* Out of memory and store, with its chunks. It may be in the trash. */
void lh_m_file_purge(struct lh_master *m, struct lh_m_file *f);
void lh_m_file_free(struct lh_m_file *f);
/* By id if that is not 0, else by path. NULL: `*error` and `text` say why. */
struct lh_m_file *lh_m_file_named(const struct lh_master *m, uint64_t id, const char *path,
    int *error, char *text, size_t text_size);
void lh_m_file_info(const struct lh_m_file *f, Leasehold__FileInfo *info);
void lh_m_create(struct lh_master *m, uint64_t link, const Leasehold__CreateRequest *request);
void lh_m_stat(struct lh_master *m, uint64_t link, const Leasehold__StatRequest *request);
void lh_m_rename(struct lh_master *m, uint64_t link, const Leasehold__RenameRequest *request);

/* ---- trash.c */
void lh_m_remove(struct lh_master *m, uint64_t link, const Leasehold__RemoveRequest *request);
void lh_m_restore(struct lh_master *m, uint64_t link, const Leasehold__RestoreRequest *request);
/* The file of that path that was removed last; NULL: there is none. */
struct lh_m_file *lh_m_trash_find(const struct lh_master *m, const char *path);
/* How long a trashed file can still be restored. */
struct lh_duration lh_m_trash_left(const struct lh_master *m, const struct lh_m_file *f);
/* As lh_m_file_info(), with the time that is left. */
void lh_m_trash_info(
    const struct lh_master *m, const struct lh_m_file *f, Leasehold__FileInfo *info);
/* The clocks of what was loaded begin, or go on once deletion was resumed. */
void lh_m_trash_start(struct lh_master *m);

/* ---- garbage.c */
void lh_m_garbage_init(struct lh_master *m);
/* May anything be deleted now? Not while the store looks like an older copy (KEEP-4). */
bool lh_m_deleting(const struct lh_master *m);
/* The operator says that the store was restored from a backup: raises what may be in use. */
void lh_m_restored(struct lh_master *m);
/* A replica of `c` lies at `s`, which is not a member: reported at, or dropped at, `version`. */
void lh_m_extra_note(struct lh_master *m, struct lh_m_chunk *c, struct lh_m_server *s,
    uint64_t version, bool sealed, bool copying);
/* A chunkserver's session ended or is replaced: its next registration tells anew. */
void lh_m_extras_forget(struct lh_master *m, struct lh_m_server *s);
void lh_m_extras_free(struct lh_master *m, struct lh_m_chunk *c);
/* A live server with room that has a replica of `c`, which a copy can begin with; NULL: none. */
struct lh_m_server *lh_m_extra_fit(struct lh_master *m, const struct lh_m_chunk *c);
/* KEEP-4: the store is older than what a server has; the first sentence is kept. */
__attribute__((format(printf, 2, 3))) void lh_m_set_behind(
    struct lh_master *m, const char *format, ...);
/* Looks for signs of that in a report; `c` is NULL if there is no such chunk. True: it is one. */
bool lh_m_report_evidence(struct lh_master *m, struct lh_m_server *s, struct lh_m_chunk *c,
    const struct lh_m_report *r);
/* A removal that has to wait until the operator has looked. */
void lh_m_keep(struct lh_master *m, struct lh_m_server *s, uint64_t chunk, uint64_t version);
void lh_m_on_removed(
    struct lh_master *m, struct lh_m_server *s, const Leasehold__ReplicaRemoved *report);
void lh_m_garbage_durable(struct lh_master *m);
void lh_m_garbage_call(
    struct lh_master *m, uint64_t link, const Leasehold__GarbageRequest *request);

/* ---- explain.c */
void lh_m_explain(struct lh_master *m, uint64_t link, const Leasehold__ExplainRequest *request);

/* ---- tail.c */
void lh_m_open_tail(struct lh_master *m, uint64_t link, const Leasehold__OpenTailRequest *request);
void lh_m_recall_call(struct lh_master *m, uint64_t link, const Leasehold__RecallRequest *request);
void lh_m_waiter_closed(struct lh_master *m, uint64_t link);
/* Ends every call that waits for `f` (NULL: for any file) with `error`. */
void lh_m_fail_waiters(struct lh_master *m, struct lh_m_file *f, int error, const char *text);
void lh_m_waiter_free(struct lh_master *m, struct lh_m_waiter *w);
void lh_m_touch(struct lh_master *m, struct lh_m_file *f);
void lh_m_touch_waited(struct lh_master *m);
void lh_m_file_advance(struct lh_master *m, struct lh_m_file *f);

/* ---- listing.c */
/* A chunk as readers see it. Owns its arrays. */
struct lh_m_chunk_view {
    Leasehold__ChunkInfo info;
    Leasehold__Member members[LH_REPLICATION_MAX];
    Leasehold__Member *pointers[LH_REPLICATION_MAX];
};
void lh_m_chunk_view(
    const struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_chunk_view *view);
void lh_m_list(struct lh_master *m, uint64_t link, const Leasehold__ListRequest *request);
void lh_m_locate(struct lh_master *m, uint64_t link, const Leasehold__LocateRequest *request);
void lh_m_list_leases(
    struct lh_master *m, uint64_t link, const Leasehold__ListLeasesRequest *request);
void lh_m_list_servers(struct lh_master *m, uint64_t link);
void lh_m_server_view(
    const struct lh_master *m, const struct lh_m_server *s, Leasehold__ServerInfo *info);
/* FREE, GRANTING, ...: as ListLeases has it. */
const char *lh_m_lease_state(const struct lh_master *m, const struct lh_m_chunk *c);

/* ---- states.c */
/* A chunk as the operator sees it. Owns its arrays; its strings are the tables'. */
struct lh_m_chunk_state {
    Leasehold__ChunkState state;
    struct lh_m_chunk_view view;
    Leasehold__ReplicaInfo *replicas, **pointers;
    size_t capacity;
};
/* Fills `s`, which must stay where it is; release it with lh_m_chunk_state_free(). */
void lh_m_chunk_state(
    const struct lh_master *m, const struct lh_m_chunk *c, struct lh_m_chunk_state *s);
void lh_m_chunk_state_free(struct lh_m_chunk_state *s); /* nothing if it is all zero */
void lh_m_list_chunks(
    struct lh_master *m, uint64_t link, const Leasehold__ListChunksRequest *request);

#endif
