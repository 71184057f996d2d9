/* The master's tables: all that it remembers, by record. Here are records, their indexes, what is
 * dirty and what changed; what is done about it is the concerns', in the packages above.
 *
 * How a change becomes durable: code changes memory and marks the record (dirty.h). The end of the
 * step writes all marked records in one commit. A record's `ticket` names the last commit that it
 * is part of; it is *clean* once that is durable. Commits become durable in order, so a clean
 * record and everything marked before it are in the store. What follows from durability is decided
 * again from the record's state when its commit is done (lh_m_chunk_durable), never from what was
 * meant when the commit was begun: a remove, a release or the end of a session may have come in
 * between.
 *
 * How a waiting call is answered: whatever changes a file's tail touches the file (changed.h), and
 * the end of the step looks at each touched file once. */
#pragma once

#include "master/tables/access.h"
#include "master/tables/call.h"
#include "master/tables/capability.h"
#include "master/tables/chunk.h"
#include "master/tables/commit.h"
#include "master/tables/copy.h"
#include "master/tables/counts.h"
#include "master/tables/events.h"
#include "master/tables/extra.h"
#include "master/tables/file.h"
#include "master/tables/history.h"
#include "master/tables/locks.h"
#include "master/tables/moving.h"
#include "master/tables/name.h"
#include "master/tables/pairs.h"
#include "master/tables/pending.h"
#include "master/tables/policy.h"
#include "master/tables/preallocated.h"
#include "master/tables/program.h"
#include "master/tables/refused.h"
#include "master/tables/reign.h"
#include "master/tables/server.h"

struct lh_master {
    struct lh_master_config config;
    struct lh_duration heartbeat;                              /* T_session / 3 */
    struct lh_duration holder_session_term, holder_chunk_term; /* TIME-4, the holder's share */
    char **masters;      /* addresses of all masters, as answers list them (HA-10) */
    size_t master_count; /* 0: this is the only one */
    char *store_fills;   /* nothing new is taken, and why; NULL: it is (HA-11) */

    /* Durable: the Master record. */
    char *cluster_id;
    uint64_t term;
    uint64_t longest_session_ns;
    uint64_t next_file, next_chunk;
    char *behind;     /* the store looks like an older copy, and why; NULL: it does not (KEEP-4) */
    uint64_t commits; /* of former starts, all together (LEASE-9) */
    bool dirty;
    struct lh_m_reigns reigns;

    struct lh_m_pairs pairs;    /* of this core's store, by what it has loaded and put */
    struct lh_m_pairs recorded; /* before the start: as the master's record has it */
    bool sealed;                /* before the start: that record has it, and a seal */

    bool started, stopping, stopped;
    bool starved; /* the oldest commit has no room, or no memory: it is tried again */
    struct lh_instant started_at;

    /* Who hears of what happens below; filled in at creation. */
    const struct lh_m_session_kind *session_kinds[LH_M_CLIENTS];
    const struct lh_m_grant_owner *grant_owner;
    const struct lh_m_growth_owner *growth_owner;
    const struct lh_m_token_owner *token_owner;
    const struct lh_m_lookup_owner *lookup_owner;
    const struct lh_m_values_owner *values_owner; /* NULL: nobody has values */

    /* Of the step under way. */
    struct lh_effects *fx;
    struct lh_instant now;
    const char *caller; /* identity of the unary call that is being carried out; NULL: nobody's */
    struct lh_instant said_at; /* a reading before what this step says leaves: `now`, or later if
                                  its input has waited. Who is asked has time from then on */
    uint64_t wall_ms;

    uint64_t challenges; /* given so far (SES-1b) */
    struct lh_m_calls calls;
    struct lh_m_pending_tree pendings;
    struct lh_m_moving moving;
    struct lh_master_counts counts;
    struct lh_m_events events;
    struct lh_access_log refusals;
    struct lh_m_refusals refused;
    struct lh_capability_issuer issuer;

    struct lh_leases leases;
    struct lh_timers timers;

    struct lh_m_server *servers;      /* hash */
    struct lh_m_server **server_list; /* by number */
    size_t server_capacity;
    TAILQ_HEAD(, lh_m_server) all_servers;
    struct lh_idmap files;
    struct lh_m_paths paths;
    struct lh_m_trash trash;
    uint64_t trash_number;      /* of the file that is removed next */
    size_t trash_count, purged; /* `purged`: chunks in this step */
    struct {
        struct lh_m_extras extras;
        size_t extra_count, kept_count;
        uint64_t deleted;
        struct lh_timer timer;
        size_t round; /* extras that it still has to look at */
        bool resumed; /* kept removals go out once `resume_ticket` is durable */
        uint64_t resume_ticket;
    } garbage;
    struct lh_idmap chunks; /* also removed ones, until that is durable */
    struct lh_idmap open;   /* of them the unsealed ones */
    struct lh_m_leased leased;
    struct lh_idmap tombstones;
    struct lh_links links; /* streams, and calls that wait; users are called with the master */
    size_t waiter_count;   /* of those calls, lh_m_waiter */
    struct lh_idmap preallocs;
    TAILQ_HEAD(, lh_m_prealloc) new_preallocs;
    TAILQ_HEAD(, lh_m_roll) rolls;
    TAILQ_HEAD(, lh_m_creation) creating;
    TAILQ_HEAD(, lh_m_file_active) waited;
    TAILQ_HEAD(, lh_m_file_active) work;
    TAILQ_HEAD(, lh_m_file_active) unsettled_files;
    struct {
        uint64_t *chunks; /* in order, from `next` on; those that are not `enqueued` do not count */
        size_t next, end, capacity;
        size_t count;
    } enqueued;                          /* to be looked at in this step or the next ones */
    TAILQ_HEAD(, lh_m_active) unsettled; /* chunks that something happened to in this step */
    struct {
        struct lh_m_programs tree;
        size_t count, over;  /* `over`: of them, those that go */
        bool all_back;       /* PS-3 */
        size_t lookups_away; /* of those that are not back: may have cached lookups (VAL-7) */
        STAILQ_HEAD(, lh_m_program) settling;         /* looked at when the step ends */
        TAILQ_HEAD(lh_m_saying, lh_m_program) saying; /* answers.h */
        uint64_t unsent;                              /* bytes to all of them, `out.unsent` */
    } programs;
    struct lh_m_names names;
    struct lh_m_locks locks;
    struct lh_m_values values;
    struct lh_m_history history;
    struct lh_m_policies policies;
    struct lh_m_value_state *value_state; /* of values/: changes, broadcasts, watchers */
    struct lh_m_wanting wanting;          /* chunks for which repair has something to do */
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
        bool sweeping, sweep_again, round, round_again;
        struct lh_instant round_retry; /* a chunk that the round passed over can be tried then */
        uint64_t sweep_next;           /* the chunk that the sweep looks at next */
        uint32_t round_good;           /* the round goes on behind this place in `wanting` */
        uint64_t round_chunk;
        struct lh_timer sweep_timer, round_timer;
    } repair;
    struct lh_instant consent_from;    /* no primary is asked for consent before this */
    struct lh_instant unsettled_until; /* servers lately came or went: more may follow */
    size_t reporting;                  /* servers with reports still to be looked at */
    struct {                           /* pieces of registrations (SES-1a) */
        uint32_t turns;                /* servers that are asked for them, of `turn_servers` */
        bool look;                     /* one may be given */
        struct lh_timer timer;
    } showing;
    struct {
        TAILQ_HEAD(, lh_m_server) waiting, called;
        uint32_t called_count;
        uint64_t calls; /* since this master's start */
    } reach;

    struct {
        STAILQ_HEAD(, lh_m_server) dirty_servers;
        STAILQ_HEAD(, lh_m_active) dirty_chunks;
        STAILQ_HEAD(, lh_m_file_active) dirty_files;
        STAILQ_HEAD(, lh_m_mark) dirty_tombstones;
        STAILQ_HEAD(, lh_m_program) dirty_programs;
        STAILQ_HEAD(, lh_m_policy) dirty_policies;
        STAILQ_HEAD(, lh_m_value_change) dirty_changes;
        STAILQ_HEAD(, lh_m_again) again;
        bool writes_all;           /* lh_m_write_all(): nothing becomes durable */
        uint64_t next_ticket;      /* of this step's commit, should there be one */
        uint64_t durable;          /* all commits up to this one are */
        uint64_t term_ticket;      /* of the first one: nothing is answered before it */
        uint64_t namespace_ticket; /* of the last one that created, renamed or removed a file */
        TAILQ_HEAD(, lh_m_commit) under_way;
        TAILQ_HEAD(lh_m_reply_queue, lh_m_reply) replies; /* by ticket */
    } commit;
};

static inline bool lh_m_is_durable(const struct lh_master *m, uint64_t ticket)
{
    return ticket <= m->commit.durable;
}

static inline struct lh_m_server *lh_m_server_of(
    const struct lh_master *m, const struct lh_m_member *member)
{
    return m->server_list[member->server];
}

/* The replica is to go elsewhere: its server is drained, or the master chose it (KEEP-2). */
static inline bool lh_m_leaving(const struct lh_master *m, const struct lh_m_member *member)
{
    return member->leaving || lh_m_drained(lh_m_server_of(m, member));
}
