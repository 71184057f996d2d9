/* What the files of this room know of each other; reigns.h says which does what. */
#pragma once

#include "master/reigns/gate.h"
#include "master/reigns/heard.h"
#include "master/reigns/store.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/prng.h"
#include "base/probe.h"

#include <string.h>
#include <sys/queue.h>
#include <uthash.h>

/* ---- writer.c: one transaction at a time */

struct lh_r_commit {
    TAILQ_ENTRY(lh_r_commit) link;
    uint64_t ticket;
    struct lh_change *changes;
    size_t count;
    size_t bytes; /* of a transaction */
};

struct lh_r_writer {
    TAILQ_HEAD(lh_r_commits, lh_r_commit) commits; /* in order, those under way first */
    size_t under_way;                              /* of them */
    enum lh_r_write kind;                          /* of the transaction under way */
    struct lh_r_bytes head;                        /* that it puts */
    uint64_t start;
    struct lh_instant sent_at; /* a reading before the first copy of it was sent */
    struct lh_instant next_at; /* the head is written then at the latest */
    /* A commit that one transaction cannot take. */
    struct lh_change *large;
    size_t large_count, placed, placing;
    size_t piece_count, pieces_put;
    size_t *piece_ends; /* the index behind each piece's last change */
    bool named;
    bool cut, resigns; /* of planted bugs */
};

void lh_r_writer_go(struct lh_reigns *r);
/* The transaction with which a reign begins (HA-3). */
void lh_r_claim(struct lh_reigns *r);
/* Its outcome is not known. True: it is given up, which is a mistake. */
bool lh_r_write_unknown(struct lh_reigns *r);
void lh_r_write_reply(struct lh_reigns *r, const Etcdserverpb__TxnResponse *reply);
void lh_r_writer_clear(struct lh_reigns *r);
/* What a change takes of a transaction's bytes: its key's prefix and the encoding, too. */
size_t lh_r_change_cost(const struct lh_reigns *r, const struct lh_change *c);
void lh_r_commit_add(struct lh_reigns *r, struct lh_effect *e);
struct lh_instant lh_r_writer_deadline(const struct lh_reigns *r);

/* The head as it is to be written next. */
LeaseholdStored__Head lh_r_head_next(struct lh_reigns *r);

/* ---- candidate.c: STANDBY */

/* A claim was lost: the next one comes later. */
void lh_r_candidate_later(struct lh_reigns *r);
/* What etcd says the head is, when it is asked before a claim. */
void lh_r_candidate_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply);
/* Asks etcd, or claims, if it is time. */
void lh_r_candidate_step(struct lh_reigns *r);
struct lh_instant lh_r_candidate_deadline(const struct lh_reigns *r);

/* ---- death.c */

/* How many processes in a row died soon, as the next head of an acting master says it. */
uint32_t lh_r_deaths(const struct lh_reigns *r);
void lh_r_death_go(struct lh_reigns *r);
void lh_r_death_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply);

/* ---- large.c */

/* Is it more than one transaction takes? */
bool lh_r_is_large(const struct lh_reigns *r, const struct lh_r_commit *c);
void lh_r_large_begin(struct lh_reigns *r, struct lh_r_commit *c);
/* A reign begins with a commit that counts and is not in place. */
void lh_r_large_resume(struct lh_reigns *r, struct lh_change *changes, size_t count);
/* The next transaction of it. */
void lh_r_large_go(struct lh_reigns *r);
void lh_r_large_applied(struct lh_reigns *r, enum lh_r_write kind);
void lh_r_large_clear(struct lh_reigns *r);

/* ---- begin.c */

/* The copy is whole, and has no head: the operator is told that this master waits. */
void lh_r_waits(struct lh_reigns *r);
/* What the copy says whose store it is; the operator is told if it was another one's before. */
void lh_r_note_cluster(struct lh_reigns *r);
/* As lh_r_move_allows() and lh_r_move_claim(), of INIT. */
bool lh_r_init_allows(struct lh_reigns *r);
void lh_r_init_claim(struct lh_reigns *r, struct lh_r_txn *t, LeaseholdStored__Head *head);

/* ---- move.c */

struct lh_r_move {
    struct lh_change *pairs; /* FILL: until the writer has them; TAKE: until they are handed out */
    size_t count, capacity;
    uint64_t bytes, term;
    uint64_t seen_reign, seen_number; /* TAKE: of the head that was there first */
    bool claimed, persisting, interrupted;
};

/* The store may be read, followed, claimed as it is: its head is new to this process. False: not,
 * and what is to be done then is done. */
bool lh_r_move_allows(struct lh_reigns *r);
/* Likewise for a head that a watch has shown. */
bool lh_r_move_follows(struct lh_reigns *r, const LeaseholdStored__Head *said);
/* TAKE: a pair of the map, as it counts. */
void lh_r_move_keep(
    struct lh_reigns *r, const uint8_t *key, size_t key_size, const uint8_t *value, size_t size);
void lh_r_move_forget(struct lh_reigns *r);
/* TAKE: the copy is whole. False: it may not be taken. */
bool lh_r_move_whole(struct lh_reigns *r);
/* What a claim of FILL and TAKE has besides. */
void lh_r_move_claim(struct lh_reigns *r, struct lh_r_txn *t, LeaseholdStored__Head *head);
/* The claim was applied. */
void lh_r_move_begin(struct lh_reigns *r);
/* FILL: the compare of the last transaction failed, over this head. A later reign than COPYING's
 * has begun, which nobody begins before that transaction: an earlier copy of it was applied. */
bool lh_r_move_was_ended(const struct lh_reigns *r, const Etcdserverpb__KeyValue *kv);
/* A compare failed. */
void lh_r_move_lost(struct lh_reigns *r);
void lh_r_move_go(struct lh_reigns *r);
void lh_r_move_persisted(struct lh_reigns *r, int error);
void lh_r_move_stop(struct lh_reigns *r);
/* A head was taken: what it says to operators. */
void lh_r_move_notice(struct lh_reigns *r);

/* ---- prefix.c */

void lh_r_prefix_ask(struct lh_reigns *r);
void lh_r_prefix_reply(struct lh_reigns *r, const Etcdserverpb__TxnResponse *reply);

/* ---- upkeep.c */

struct lh_r_upkeep {
    struct lh_instant compact_at, status_at;
    struct lh_r_seen {
        struct lh_instant at;
        int64_t revision;
    } * seen; /* oldest first */
    size_t count, capacity;
    uint32_t asked; /* the member of which the state is asked for, in turn */
    struct lh_r_member {
        uint64_t bytes; /* of its file; 0: it did not answer */
        char *trouble;  /* what it complains of; NULL: nothing */
    } members[LH_ETCD_MEMBERS_MAX];
};

void lh_r_upkeep_clear(struct lh_reigns *r);
void lh_r_upkeep_step(struct lh_reigns *r);
struct lh_instant lh_r_upkeep_deadline(const struct lh_reigns *r);
/* The acting core is told whether the store fills up. */
void lh_r_status_know(struct lh_reigns *r);
void lh_r_status_reply(
    struct lh_reigns *r, uint32_t member, const Etcdserverpb__StatusResponse *reply);
void lh_r_status_failed(struct lh_reigns *r, uint32_t member);

/* ---- records.c */

void lh_r_records_step(struct lh_reigns *r);
/* The own record is in the store. */
void lh_r_record_put(struct lh_reigns *r);
void lh_r_records_reply(struct lh_reigns *r, const Etcdserverpb__RangeResponse *reply);
/* Whoever was asked has answered, or not (NULL). */
void lh_r_twin_reply(struct lh_reigns *r, const Leasehold__MastersReply *reply);
struct lh_instant lh_r_records_deadline(const struct lh_reigns *r);
void lh_r_records_clear(struct lh_reigns *r);
/* The acting core is told of them. */
void lh_r_records_know(struct lh_reigns *r);
/* How many others go first when a reign ended: that of `head`. */
uint32_t lh_r_rank(const struct lh_reigns *r, const LeaseholdStored__Head *head);
/* As MastersReply.state. */
const char *lh_r_state_name(const struct lh_reigns *r);
void lh_r_answer_masters(struct lh_reigns *r, uint64_t link);
/* malloc'd. */
struct lh_r_bytes lh_r_record_key(const struct lh_reigns *r, const char *id);

/* ---- forget.c */

void lh_r_forget(struct lh_reigns *r, uint64_t link, const Leasehold__ForgetMasterRequest *request);
void lh_r_forget_reply(struct lh_reigns *r, const Etcdserverpb__TxnResponse *m);

/* ---- reigns.c */

struct lh_reigns {
    struct lh_reign_config config;
    struct lh_prng prng;
    struct lh_instant now;
    uint64_t wall_ms;
    struct lh_effects *fx;
    struct lh_effects inner; /* of the master's core's step */
    uint64_t next_link;

    LeaseholdStored__Settings settings; /* as heads of this master's say them */
    enum lh_reign_phase phase;
    struct lh_instant since; /* a reading when it came to be in that phase */
    bool stopping;
    int stop_error;             /* with which it stops once it has resigned */
    struct lh_instant retry_at; /* LEARNING: not before this */
    struct lh_instant stop_by;
    uint64_t transfer;    /* RESIGNING: the link of who asked for it; 0: nobody did */
    uint64_t forget_link; /* of who has a record deleted; 0: nobody, or he has gone */
    char *successor;
    struct lh_instant watch_at;       /* STANDBY: the next watch begins then */
    struct lh_instant claim_at;       /* STANDBY: not before this, whatever the head says */
    struct lh_instant asked_at;       /* STANDBY: etcd was asked for the head, before a claim */
    uint32_t late_answers;            /* to that, since the head was learned of */
    uint32_t claims_lost;             /* in a row, with the same head in the copy */
    uint64_t top_reign, top_number;   /* the newest head that was ever seen */
    uint64_t top_name;                /* of that reign (SES-9); 0: it is a copy's, which has none */
    uint64_t known_reign, known_name; /* the same, before the copy that is loaded */

    struct lh_master *master;
    char *cluster; /* the first that was seen in the store; NULL: none yet */
    struct lh_instant confirmed_until;
    struct lh_duration share; /* the holder's share of T_reign */

    struct lh_r_call calls[LH_R_PURPOSES];
    char *token;      /* who this is to etcd; NULL: it has not said, or does not ask */
    bool complaining; /* the operator knows that etcd does not answer, ... */
    bool prefix_seen; /* whether others have keys there was looked at */
    struct lh_r_copy copy;
    struct lh_r_gate gate;
    struct lh_r_writer writer;
    struct lh_r_upkeep upkeep;
    struct lh_r_heard heard;
    struct lh_r_move move;
    struct lh_r_mend mend;
    struct {
        uint32_t loads;                  /* in a row, of what did not fit */
        char *said[LH_ETCD_MEMBERS_MAX]; /* why, of each member; NULL: the operator knows nothing */
    } unfit;
    char *out_of_use; /* why no master may act, by the head; NULL: one may */

    struct lh_r_record {
        char *id, *address, *page;
        uint64_t start;
        int64_t revision;        /* of its last beat ... */
        struct lh_instant since; /* ... which this process saw first then */
        char **heard;            /* ids of chunkservers that it hears (HA-9a) */
        size_t heard_count;
    } * records; /* those that count, by id, and behind them the others */
    size_t record_count, records_known;
    struct lh_instant list_at, listed_at, beat_at;
    bool cleared;         /* no other process has this master's id */
    bool announced;       /* its record is in the store */
    uint64_t store_bytes; /* of the largest file, as etcd said last */
    bool store_fills;     /* its file is near its quota */
    char *store_trouble;  /* NULL: none */
    uint64_t process;     /* drawn at the process's start */

    struct {
        uint64_t reigns, deposed, unheard, writes, commits, retries, loaded;
    } counts;
};

static inline bool lh_r_is_confirmed(const struct lh_reigns *r)
{
    return r->phase == LH_REIGN_ACTING && lh_instant_before(r->now, r->confirmed_until);
}

void lh_r_bytes_clear(struct lh_r_bytes *b);
void lh_r_enter(struct lh_reigns *r, enum lh_reign_phase phase);
void lh_r_new_copy(struct lh_reigns *r);
/* What the head is, is asked again after `wait`, and nothing of before is kept. */
void lh_r_learn_later(struct lh_reigns *r, struct lh_duration wait);
/* The copy is whole. */
void lh_r_follows(struct lh_reigns *r);
void lh_r_begin_acting(struct lh_reigns *r);
/* The reign is over: another one has begun, or the store is not what it was. */
void lh_r_deposed(struct lh_reigns *r, const char *why);
void lh_r_resigned(struct lh_reigns *r);
/* HA-9: it acts no more, and says so in its last write. Who waits is told `error` and `why`. */
void lh_r_resign(struct lh_reigns *r, int error, const char *why);
/* The copy is of no use: another one is loaded. */
void lh_r_anew(struct lh_reigns *r, const char *why);
/* STANDBY: another master acts, as `copy.said` says it. False: it has other settings, the operator
 * was told, and the process ends. */
bool lh_r_agrees(struct lh_reigns *r);
/* It is done, or nothing can be done here. */
void lh_r_stop_with(struct lh_reigns *r, int error);
