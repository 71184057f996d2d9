/* A simulated etcd 3.4: some nodes of the world are its members, and all of them share one
 * replicated state. Its clients see what etcd promises and no more: what a committed transaction
 * did is one order for all, but answers are lost and late, a proposal that nobody waits for any
 * more may still take effect, a member's own state is old, and a watch breaks, lags or loses
 * events.
 *
 * Members serve LH_METHOD_ETCD_RANGE, _TXN, _COMPACT, _WATCH and _STATUS on links that other nodes
 * open; _AUTHENTICATE is refused, as it is where authentication is off. A refusal closes the link
 * with etcd's text and with the error that the real driver makes of etcd's status.
 *
 * - A proposal of a member takes effect when the member is up and not paused, and it and members
 *   that are up, not paused and not cut off from it are a majority.
 * - A started member serves nothing until it has once applied all that was committed.
 * - State is durable: no crash and no power loss of members takes anything back.
 * - A response to a progress request may pass events, as in 3.4; progress that a watch did not ask
 *   for (progress_notify) is never reported.
 * - All that is drawn comes from LH_SIM_ETCD.
 *
 * One thread, as the world. Nothing here is known to a core that calls etcd. */
#pragma once

#include "proto/etcd.pb-c.h"
#include "sim/world/world.h"

#define LH_SIM_ETCD_MEMBERS_MAX 9

struct lh_sim_etcd;

struct lh_sim_etcd_config {
    const char *name;            /* members are nodes of this name with 1, 2, ... behind it */
    uint32_t members;            /* 1 to LH_SIM_ETCD_MEMBERS_MAX */
    struct lh_sim_range propose; /* from the arrival of a request until it takes effect */
    struct lh_sim_range read;    /* the same, of a linearizable read */
    struct lh_sim_range apply;   /* from then until a member has applied it: how old its state is */
    struct lh_sim_range watch;   /* from then until it sends the events to a watch */
    struct lh_sim_range timeout; /* a request that has no answer by then is told so */
    struct lh_sim_range retry;   /* what waits for a majority looks for one this often */
    uint32_t kept_per_million;   /* of the proposals that wait for a majority when their time is
                                    over, or their member crashes: so many stay and take effect
                                    when there is one; the others are lost */
    uint32_t alone_per_million;  /* of the revisions that a watch sends late: so many begin a
                                    response of their own */
    uint32_t fragment_events;    /* a watch that asks for it gets at most so many in one response */
    uint32_t ops_max;            /* compares, or operations of one branch, in a transaction */
    uint64_t request_bytes_max;
    uint64_t
        quota_bytes; /* of keys, values and their history; beyond it as lh_sim_etcd_no_space() */
};

/* Three members on a local network, with etcd's own limits. */
struct lh_sim_etcd_config lh_sim_etcd_config_default(void);

/* Adds the members to the world, not yet started. `config` is copied. */
struct lh_sim_etcd *lh_sim_etcd_create(struct lh_sim *sim, const struct lh_sim_etcd_config *config);

/* After lh_sim_destroy(). */
void lh_sim_etcd_destroy(struct lh_sim_etcd *etcd);

/* Starts every member that is down. */
void lh_sim_etcd_start(struct lh_sim_etcd *etcd);

size_t lh_sim_etcd_members(const struct lh_sim_etcd *etcd);
struct lh_sim_node *lh_sim_etcd_member(const struct lh_sim_etcd *etcd, size_t index);

/* ---- The truth, for observers ---- */

/* What was written to a key at one revision. */
struct lh_sim_etcd_record {
    const uint8_t *key, *value;
    size_t key_size, value_size;
    int64_t create_revision, mod_revision;
    int64_t version; /* 0: it was deleted */
};

/* Of the newest transaction; 1 at first, as etcd's. */
int64_t lh_sim_etcd_revision(const struct lh_sim_etcd *etcd);

/* Reads below it are refused; -1 at first. */
int64_t lh_sim_etcd_compacted(const struct lh_sim_etcd *etcd);

/* What a member has applied. */
int64_t lh_sim_etcd_member_revision(const struct lh_sim_etcd *etcd, size_t index);

/* The key as it is now; NULL: it is not there. Valid until the next event. */
const struct lh_sim_etcd_record *lh_sim_etcd_get(
    const struct lh_sim_etcd *etcd, const void *key, size_t key_size);

/* Every key that begins with `prefix`, ascending. `visit` changes nothing. */
void lh_sim_etcd_each(const struct lh_sim_etcd *etcd, const void *prefix, size_t prefix_size,
    void (*visit)(void *arg, const struct lh_sim_etcd_record *record), void *arg);

/* A transaction at the moment at which it took effect, which is lh_sim_now(). */
struct lh_sim_etcd_applied {
    int64_t revision;           /* the store's afterwards; one more than before if `count` > 0 */
    struct lh_sim_node *member; /* that was asked for it; may be down meanwhile */
    const Etcdserverpb__TxnRequest *request;
    bool succeeded;                                  /* its compares held */
    const struct lh_sim_etcd_record *const *changes; /* in their order */
    size_t count;
};

/* Each may be NULL. What they are given is valid until they return; they change nothing. */
struct lh_sim_etcd_observer {
    void *arg;
    /* Every transaction that went through Raft: not those that only read. */
    void (*applied)(void *arg, const struct lh_sim_etcd_applied *txn);
    void (*restored)(void *arg, int64_t revision);
};

/* Copied; there until the end. Told in the order in which they were added. */
void lh_sim_etcd_observe(struct lh_sim_etcd *etcd, const struct lh_sim_etcd_observer *observer);

/* ---- Faults; each is noted, and lh_sim_etcd_mend() ends those that last ---- */

/* No proposal and no linearizable read gets a majority while it is lost. */
void lh_sim_etcd_lose_quorum(struct lh_sim_etcd *etcd, bool lost);

/* It has no leader, and elects one: of the proposals and linearizable reads that wait or come
 * meanwhile so many were handed to a leader that is none any more. They never take effect, and
 * nobody says so before their time is over. The others wait for the new leader. */
void lh_sim_etcd_elect(struct lh_sim_etcd *etcd, bool electing, uint32_t lost_per_million);

/* Of so many transactions and compactions the caller is told "request timed out, possibly due to
 * previous leader failure" when they have taken effect. */
void lh_sim_etcd_fail_after(struct lh_sim_etcd *etcd, uint32_t per_million);

/* So many requests are refused, and nothing is done: transactions and compactions with "too many
 * requests" or "raft proposal dropped", linearizable reads with "leader changed". */
void lh_sim_etcd_fail_before(struct lh_sim_etcd *etcd, uint32_t per_million);

/* So many transactions and compactions take effect up to `most` later, whether their callers still
 * wait or not. */
void lh_sim_etcd_apply_late(
    struct lh_sim_etcd *etcd, uint32_t per_million, struct lh_duration most);

/* That member applies everything this much later; 0: as the others again, and soon. */
void lh_sim_etcd_lag(struct lh_sim_etcd *etcd, size_t member, struct lh_duration extra);

/* Every watch stream ends now. */
void lh_sim_etcd_break_watches(struct lh_sim_etcd *etcd);

/* Watches send events this much later. */
void lh_sim_etcd_lag_watches(struct lh_sim_etcd *etcd, struct lh_duration extra);

/* So many revisions are never sent to a watch, and nothing says so (etcd's issues 17610, 19251). */
void lh_sim_etcd_lose_events(struct lh_sim_etcd *etcd, uint32_t per_million);

/* Every watch that is there now is canceled as compacted in place of its next events. */
void lh_sim_etcd_cancel_watches(struct lh_sim_etcd *etcd);

/* That member's disk has flipped bits: what it reads for a client has them. Ends by itself: false.
 * Compares, and what is applied, are of memory. */
void lh_sim_etcd_flip(struct lh_sim_etcd *etcd, size_t member, bool flips);

/* A hand that is no master's deletes a pair of the masters' map, or flips a bit in it, in a
 * transaction of its own. False: there is no pair. lh_sim_etcd_put_back(): an operator puts all
 * such pairs back, if nobody has written them since. */
bool lh_sim_etcd_meddle(struct lh_sim_etcd *etcd, bool flip);
void lh_sim_etcd_put_back(struct lh_sim_etcd *etcd);

/* The history below the newest revision but `kept` is compacted now, as by a client. */
void lh_sim_etcd_compact(struct lh_sim_etcd *etcd, int64_t kept);

/* The quota is used up: transactions with a put in them are refused. The first one may take effect
 * all the same. */
void lh_sim_etcd_no_space(struct lh_sim_etcd *etcd, bool full);

/* Members say that their file is larger than any quota, and take everything. */
void lh_sim_etcd_nearly_full(struct lh_sim_etcd *etcd, bool full);

/* Keeps the state as it is now, in place of an earlier snapshot. */
void lh_sim_etcd_snapshot(struct lh_sim_etcd *etcd);

/* An operator restores the snapshot on all members: revisions repeat, what waits is lost, and its
 * callers' links and all watch streams end. The cluster's id stays, so only what is stored shows
 * it. False: there is no snapshot. */
bool lh_sim_etcd_restore(struct lh_sim_etcd *etcd);

/* No fault lasts. What was delayed already stays delayed, except for applying and watches. */
void lh_sim_etcd_mend(struct lh_sim_etcd *etcd);
