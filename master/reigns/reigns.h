/* One of several masters that share a store in etcd: which of them acts, and that none does who may
 * not (docs/protocol.md, HA-1 to HA-12).
 *
 * It is a core around the master's core (master/master.h). While it is a standby the inner core is
 * a copy of the store, loaded and kept up to date by watching. When its reign begins the inner core
 * is started, and gets every input that comes while the reign is confirmed (HA-2); what it wants
 * committed goes to etcd in transactions that compare the head (HA-1). When the reign is lost the
 * inner core is thrown away, and a copy is loaded again.
 *
 * etcd is called by links, as everything is (base/step.h): methods LH_METHOD_ETCD_*. Nothing of
 * etcd's leases, locks or elections is used.
 *
 *   reigns.c     one step; the reign's life: standby, candidate, acting, resigned, deposed
 *   life.c       settings, creation, end
 *   candidate.c  when a standby may try to begin a reign
 *   heard.c      chunkservers that a standby hears and the active master does not reach
 *   death.c      what is done in place of a process that has died
 *   gate.c       inputs that wait until the reign is confirmed
 *   writer.c     one transaction at a time: commits together, unknown outcomes, resigning
 *   txn.c        what one transaction consists of, and its fence
 *   large.c      commits that one transaction cannot take
 *   load.c       the copy: loading
 *   follow.c     the copy: watching
 *   overlay.c    loading what counts and is not in place
 *   mend.c       pairs that somebody else has changed
 *   unfit.c      what a member has and masters have not written
 *   keys.c       names and values in the store: the head, the map, pieces, masters' records
 *   prefix.c     whether others have keys there
 *   calls.c      calls of etcd: members, copies of a request, what waits to be sent again
 *   upkeep.c     etcd's history and size
 *   begin.c      a store that has no cluster: who waits for one, and who begins it
 *   move.c       a store that is filled from another one, or whose content goes to another one
 *   forget.c     an operator deletes the record of a master that is gone
 *   records.c    which masters there are, and what every one of them answers */
#pragma once

#include "finder/finder.h"
#include "master/master.h"

#define LH_REIGN_FORMAT      2u
#define LH_REIGN_FORMAT_BARE 1u /* the last one whose heads had no seals (PAIR-1) */

#define LH_REIGN_TERM_MIN_NS   300000000ull
#define LH_REIGN_TERM_MAX_NS   60000000000ull
#define LH_ETCD_MEMBERS_MAX    8u
#define LH_MASTER_ID_BYTES_MAX 128u

/* What bounds the core's work. X(name, default in ms, what it is) */
#define LH_REIGN_TIMES(X)                                                                          \
    X(call_timeout, 5000, "a call of etcd is given up after this, and sent again")                 \
    X(retry_after, 100, "a failed call of etcd is sent again after this")                          \
    X(stagger, 50, "the second standby in line waits this much longer than the first, and so on")  \
    X(records_every, 10000, "the list of masters is read this often")                              \
    X(compact_every, 60000, "the active master compacts etcd's history this often")                \
    X(compact_behind, 300000, "history younger than this is kept")                                 \
    X(deaths_within, 60000, "a process that dies earlier in its reign dies soon")                  \
    X(unfit_again, 5000, "when no member's content fits, the store is loaded again after this")    \
    X(heard_every, 250, "a standby says which chunkservers it hears, and they are looked at")      \
    X(heard_for, 750, "a chunkserver that does not ask for so long is not heard any more")         \
    X(unheard_for, 1500, "a standby has heard more for so long when it is resigned to")            \
    X(unheard_max, 3600000, "the longest time before a reign is resigned to who hears more")

/* X(name, default, least, what it is) */
#define LH_REIGN_COUNTS(X)                                                                         \
    X(page_keys, 4000, 1, "pairs that are read at once while loading")                             \
    X(revisions_kept, 64, 1, "revisions that are remembered with their times, to compact")         \
    X(late_answers_max, 4, 1, "late answers of etcd for which a candidate waits anew")             \
    X(operations_max, 128, 3, "operations in one transaction")                                     \
    X(request_bytes_max, 1u << 20, 16u << 10, "bytes of one transaction")                          \
    X(pieces_max, 1u << 16, 16, "pieces that are taken for parts of a commit")                     \
    X(full_percent, 90, 1, "of etcd's quota: with a larger file nothing new is taken")             \
    X(outer_max, 32, 1, "prefixes around the own one that are looked at; the outermost are")       \
    X(mends_max, 1000000, 1, "keys that somebody else has changed, and that are to be written")    \
    X(mends_at_once, 64, 1, "of them, those that go into one commit")                              \
    X(waiting_max, 10000, 1, "inputs that wait for the reign to be confirmed")                     \
    X(waiting_bytes_max, 64u << 20, 1u << 10, "their bytes")                                       \
    X(records_max, 1024, 64, "records of masters that are read, by id; the newest of them count")  \
    X(deaths_max, 3, 1, "with so many processes in a row that died soon no reign is resigned")

/* What a process wants of the store. All but SERVE are `leasehold store`: it takes part as a
 * candidate does, and never acts as a master. The core stops when it is done: with LH_OK, or with
 * an error that its last line of the log explains. */
enum lh_reign_task {
    LH_REIGN_SERVE,
    /* An empty store gets the first head, which says that a cluster begins there (HA-13). */
    LH_REIGN_INIT,
    /* An empty store gets what lh_reigns_fill() was given. One commit without changes (PERSIST)
     * comes when all of it is there: with its completion the first reign may begin. */
    LH_REIGN_FILL,
    /* The store's pairs are handed out, in one commit (PERSIST), after a transaction by which no
     * reign begins any more. If the commit fails, another transaction takes that back. */
    LH_REIGN_TAKE,
    /* A process of this master has died, for certain (HA-3a). If it had the reign, that is
     * resigned. */
    LH_REIGN_AFTER_DEATH
};

struct lh_reign_config {
    struct lh_master_config master;
    const char *id;                           /* of this master; no two have the same */
    const char *address;                      /* where others call it */
    const char *page;                         /* its page, for browsers; NULL: it has none */
    const char *prefix;                       /* of all keys in etcd; ends in '/' */
    const char *members[LH_ETCD_MEMBERS_MAX]; /* addresses of etcd's members */
    uint32_t member_count;                    /* at least 1 */
    const char *user, *password;              /* who this is to etcd; NULL: it does not ask */
    struct lh_duration reign_term;            /* T_reign */
    uint64_t process;                         /* SERVE: a random number that no other process has;
                                                 0: one is drawn. AFTER_DEATH: of who died */
    enum lh_reign_task task;                  /* FILL and TAKE have these more: */
    const char *elsewhere;                    /* the other store, in words */
    bool began_before;                        /* FILL: only a store that is being filled already */
    const char *cluster;                      /* TAKE: of no other one; NULL: of any */
    /* TAKE: a head that says MOVED is taken if it names this store; "": whichever it names; NULL:
     * it is not taken. */
    const char *even_if_moved_to;
    uint64_t quota_bytes; /* of etcd's file, as etcd was told; 0: 2 GiB, which is its default */
    struct lh_duration late_after;  /* what has no answer is asked of another member too; 0: a
                                      quarter of T_reign */
    struct lh_duration again_after; /* a transaction, or a candidate's question, without an answer
                                       is sent again; 0: an eighth of T_reign */
#define X(name, preset_ms, what) struct lh_duration name;
    LH_REIGN_TIMES(X)
#undef X
#define X(name, preset, least, what) uint32_t name;
    LH_REIGN_COUNTS(X)
#undef X
};

/* Bounds that are 0 become their default. */
void lh_reign_config_fill(struct lh_reign_config *config);

/* INVALID_ARGUMENT: a setting out of range; `text` says which, and what would do. */
LH_MUST_USE int lh_reign_config_check(
    const struct lh_reign_config *config, char *text, size_t text_size);

struct lh_reigns;

/* `config` was checked; it is copied, its strings too. Never NULL. */
struct lh_reigns *lh_reigns_create(const struct lh_reign_config *config);
/* FILL, before the first step: the pairs of a store, in the order of keys, and its master term.
 * Takes over the array and what it points to. */
void lh_reigns_fill(struct lh_reigns *r, struct lh_change *pairs, size_t count, uint64_t term);
void lh_reigns_destroy(struct lh_reigns *r);

void lh_reigns_step(struct lh_reigns *r, struct lh_input *in, struct lh_effects *fx);
struct lh_instant lh_reigns_deadline(const struct lh_reigns *r);
struct lh_core lh_reigns_core(struct lh_reigns *r);

/* Walks everything and asserts the core's own invariants; call it between steps. */
void lh_reigns_check(const struct lh_reigns *r);

enum lh_reign_phase {
    LH_REIGN_LEARNING,  /* what the store's head is */
    LH_REIGN_LOADING,   /* a copy of the store */
    LH_REIGN_STANDBY,   /* the copy follows */
    LH_REIGN_CLAIMING,  /* tries to begin a reign */
    LH_REIGN_ACTING,    /* its reign; it acts while that is confirmed */
    LH_REIGN_COPYING,   /* FILL, TAKE: by its head no master acts, nor begins to */
    LH_REIGN_RESIGNING, /* its last transaction is under way */
    LH_REIGN_STOPPED
};

/* For observers, metrics and operators. */
struct lh_reign_state {
    enum lh_reign_phase phase;
    uint64_t reign;                    /* the newest that it knows of */
    struct lh_instant confirmed_until; /* ACTING: it acts before this */
    size_t waiting;                    /* inputs that wait */
    int64_t revision;                  /* of etcd, up to which its copy stands */
    uint64_t pairs, bytes;             /* FILL: in place, and of all; TAKE: read so far */
    const char *cluster;               /* NULL: none is known; of INIT the one that it begins */
    bool claimed; /* not SERVE: it was tried to put a head, so the store may not be what it was */
};

void lh_reigns_state(const struct lh_reigns *r, struct lh_reign_state *state);

/* Appends all figures for Prometheus (docs/metrics.md). */
void lh_reigns_metrics(const struct lh_reigns *r, struct lh_metrics *out);

/* Does it do its work, as the active master or as a standby that could become it? If not, `why`
 * says so in a sentence. */
bool lh_reigns_ready(const struct lh_reigns *r, char *why, size_t why_size);

/* Is this the active master, and does it know so? */
bool lh_reigns_is_acting(const struct lh_reigns *r);

/* What an acting master's core wants committed and does not know to be. */
struct lh_reign_commit {
    uint64_t ticket;
    const struct lh_change *changes; /* valid until the next step */
    size_t count;
    bool sent; /* it is in the transaction under way, beside others */
};

/* The first one with a higher ticket than `ticket`, for observers. False: there is none. */
bool lh_reigns_commit_after(
    const struct lh_reigns *r, uint64_t ticket, struct lh_reign_commit *commit);

/* The master's core: of an acting master, else of its copy; NULL: there is none now. */
struct lh_master *lh_reigns_master(const struct lh_reigns *r);
