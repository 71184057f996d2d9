/* What the files of this room know of each other; reigns.h says which does what. What is about one
 * thing has a header of its own. */
#pragma once

#include "master/reigns/candidate.h"
#include "master/reigns/gate.h"
#include "master/reigns/heard.h"
#include "master/reigns/move.h"
#include "master/reigns/records.h"
#include "master/reigns/store.h"
#include "master/reigns/upkeep.h"
#include "master/reigns/writer.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/prng.h"
#include "base/probe.h"

#include <string.h>
#include <sys/queue.h>
#include <uthash.h>

/* ---- begin.c */

/* The copy is whole, and has no head: the operator is told that this master waits. */
void lh_r_waits(struct lh_reigns *r);
/* What the copy says whose store it is; the operator is told if it was another one's before. */
void lh_r_note_cluster(struct lh_reigns *r);
/* As lh_r_move_allows() and lh_r_move_claim(), of INIT. */
bool lh_r_init_allows(struct lh_reigns *r);
void lh_r_init_claim(struct lh_reigns *r, struct lh_r_txn *t, LeaseholdStored__Head *head);

/* ---- prefix.c */

void lh_r_prefix_ask(struct lh_reigns *r);
void lh_r_prefix_reply(struct lh_reigns *r, const Etcdserverpb__TxnResponse *reply);

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

    struct lh_r_record *records; /* those that count, by id, and behind them the others */
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
