/* What the files of this folder know of each other. */
#pragma once

#include "master/tables/answers.h"
#include "master/tables/tables.h"
#include "master/values/values.h"

/* A change that was asked for, or that follows from the end of a session (VAL-4), and has not been
 * committed. */
struct lh_m_change {
    struct lh_m_pending call; /* who asked; unused if `follows` */
    struct lh_m_pending_changes *changing;
    bool follows; /* the session is over that the value of revision `revision` is attached to */
    bool remove, if_revision, force, attach;
    uint64_t revision, token;
    char *lock; /* that the token is of; NULL: the value's name */
    uint8_t session[LH_M_SESSION_ID_BYTES];
    struct lh_buf bytes;
    size_t size; /* of these or of `request`, when it came */
    /* VAL-7: of a lookup, that call is carried out; nothing above counts. */
    lh_m_carry_out *carry_out; /* NULL: it is a change of a value */
    enum lh_method method;
    ProtobufCMessage *request;
    struct lh_timer timer; /* it waits no longer; not set: it waits until it can be done */
    TAILQ_ENTRY(lh_m_change) link;
};

/* A read that waits for the commit of a change. */
struct lh_m_waiting_read {
    uint64_t link; /* the stream that it came on */
    uint64_t id, revision;
    bool lease;
    STAILQ_ENTRY(lh_m_waiting_read) next;
};

/* Of a name with changes that wait or are being committed (VAL-2). From its begin on no cache lease
 * is given. It ends when there is nothing more to do and nobody caches the value: also if the last
 * change was refused meanwhile, since who was told to drop the value has no lease any more. */
enum lh_m_pending_changes_phase {
    LH_M_DROPPING,  /* caches are told, and awaited; then the first change is judged */
    LH_M_COMMITTED, /* its commit is not durable yet; reads wait */
    LH_M_ANSWERING, /* reads that waited are answered, a few in each step */
};

struct lh_m_pending_changes {
    struct lh_m_name *name;
    enum lh_m_pending_changes_phase phase;
    uint64_t number;   /* as Drop and Dropped have it: one for all changes until the next
                                commit, since no lease is given in between */
    bool all_notified; /* each cache was */
    bool in_work;      /* in `m->value_state->work` */
    uint64_t ticket;   /* COMMITTED: of the commit ... */
    uint64_t revision; /* ... and of the change */
    TAILQ_HEAD(, lh_m_change) changes;
    size_t change_count;
    STAILQ_HEAD(, lh_m_waiting_read) reads;
    struct lh_instant since;    /* DROPPING: from then on caches are told */
    struct lh_instant awaited;  /* the longest lease of those that were told ends then */
    struct lh_instant promised; /* for so long the old value may be served without a lease */
    struct lh_timer timer;      /* what was promised, also of its prefixes, ends */
    TAILQ_ENTRY(lh_m_pending_changes) all_link, work_link, committed_link;
};

/* Whoever reads the value now may not cache it. NULL is allowed: it does not change. */
static inline bool lh_m_gives_no_lease(const struct lh_m_pending_changes *g)
{
    return g != NULL && (g->phase == LH_M_DROPPING || !TAILQ_EMPTY(&g->changes));
}

/* A prefix whose names are broadcast, or were lately (VAL-5). */
struct lh_m_broadcasting {
    char *prefix;
    bool wanted;                /* its policy says so */
    uint64_t revision;          /* of the last change under it, or a higher one */
    size_t changing;            /* names under it: while there are any, nothing is promised */
    struct lh_instant promised; /* until then, at the latest */
    struct lh_timer timer;      /* to be freed, if it is not `wanted` */
    RB_ENTRY(lh_m_broadcasting) place;
};
RB_HEAD(lh_m_broadcast_tree, lh_m_broadcasting);
RB_PROTOTYPE(lh_m_broadcast_tree, lh_m_broadcasting, place, lh_m_compare_broadcasts)
int lh_m_compare_broadcasts(const struct lh_m_broadcasting *a, const struct lh_m_broadcasting *b);

struct lh_m_subscriptions {
    char **prefixes;
    size_t count, capacity;
};

enum lh_m_watching { LH_M_WATCH_BEGINS, LH_M_WATCH_PAGES, LH_M_WATCH_FOLLOWS };

/* A stream of Watch (VAL-6). */
struct lh_m_watcher {
    struct lh_link link;
    char *prefix;
    bool keys_only;
    bool in_flight; /* a reply has not left yet */
    bool resetting; /* what was sent is not whole before it has followed up to the present */
    enum lh_m_watching state;
    uint64_t next; /* the revision from which on it follows */
    char *after;   /* PAGES: the last name that was looked at; NULL: none yet */
    bool busy;     /* in `busy`; else in `idle`, unless a reply is in flight */
    TAILQ_ENTRY(lh_m_watcher) queue;
};
TAILQ_HEAD(lh_m_watcher_list, lh_m_watcher);
extern const struct lh_link_user lh_m_watch_links;

/* A session that is over, with values that are attached to it. */
struct lh_m_ended {
    uint8_t session[LH_M_SESSION_ID_BYTES];
    STAILQ_ENTRY(lh_m_ended) next;
};

/* A program that attached again shows a value that is changing: once it has heard what became of
 * its showing, it is told to drop it. */
struct lh_m_late_drop {
    uint64_t link;
    uint32_t name; /* number */
    STAILQ_ENTRY(lh_m_late_drop) next;
};

/* All that this folder remembers. */
struct lh_m_value_state {
    uint64_t last_number;              /* of a changing */
    uint64_t durable;                  /* the last change that is */
    size_t change_count, change_bytes; /* that wait */
    size_t follow_count;               /* of these, for sessions that are over */
    size_t read_count;                 /* that wait */
    TAILQ_HEAD(lh_m_pending_changes_list, lh_m_pending_changes) all, work, committed;
    STAILQ_HEAD(, lh_m_late_drop) late_drops;
    size_t late_drop_count;
    STAILQ_HEAD(, lh_m_ended) ended;
    struct lh_m_broadcast_tree broadcasts;
    size_t watcher_count;
    struct lh_m_watcher_list idle, busy;
    struct {
        Leasehold__BroadcastState *items, **pointers;
        size_t capacity;
    } states;                      /* of lh_m_broadcasts() */
    const struct lh_m_name *clear; /* a lookup that nobody caches: its path may change now */
    struct {
        uint32_t work, commits, bytes;
    } left; /* for this step */
};

/* Something was looked at. Who is looked at in a step makes some progress in it, however little is
 * left of it: so each costs something once it has been done. */
static inline void lh_m_spend(struct lh_m_value_state *v)
{
    v->left.work -= v->left.work > 0;
}

/* The value's revision; 0: there is none. */
static inline uint64_t lh_m_revision_of(const struct lh_m_name *name)
{
    return name == NULL || name->more->value == NULL ? 0 : name->more->value->revision;
}

static inline struct lh_m_pending_changes *lh_m_pending_changes_of(const struct lh_m_name *name)
{
    return name == NULL ? NULL : name->more->changing;
}

/* ---- terms.c: for how long a value may be cached (NL-5). */

struct lh_duration lh_m_value_term(
    const struct lh_master *m, const struct lh_m_name *name, const struct lh_m_policy *policy);
struct lh_duration lh_m_lookup_term(const struct lh_master *m);
/* No cache lease is given: there are as many leases as there may be. */
bool lh_m_leases_full(const struct lh_master *m);
/* The lease of this program's on the name is in the engine, with that term from its last heartbeat
 * on; false: it cannot be. */
bool lh_m_cache_grant(
    struct lh_master *m, struct lh_m_program *p, struct lh_m_name *name, struct lh_duration term);
/* It is given up. */
void lh_m_cache_release(struct lh_master *m, struct lh_m_program *p, struct lh_m_name *name);

/* ---- reads.c */

/* Answers it now, but for the moment between commit and durability. */
void lh_m_answer_read(struct lh_master *m, struct lh_m_program *p, const Leasehold__ReadValue *read,
    struct lh_m_name *name);

void lh_m_value_info(const struct lh_m_value *v, bool with_bytes, Leasehold__ValueInfo *info);

/* ---- pending_changes.c */

/* A change of the name waits; queued last. Takes it over. */
void lh_m_change_add(struct lh_master *m, struct lh_m_name *name, struct lh_m_change *c);
void lh_m_change_free(struct lh_master *m, struct lh_m_change *c);
/* Something happened that it may have waited for. */
void lh_m_pending_changes_work(struct lh_master *m, struct lh_m_pending_changes *g);
void lh_m_pending_changes_step(struct lh_master *m);
void lh_m_pending_changes_durable(struct lh_master *m);
void lh_m_pending_changes_free(struct lh_master *m, struct lh_m_pending_changes *g);
/* VAL-2: for how long, from its last heartbeat on, the program may serve the old value without a
 * lease. The change waits for that from now on. */
struct lh_duration lh_m_pending_changes_promise(
    struct lh_master *m, const struct lh_m_program *p, struct lh_m_pending_changes *g);
/* The program may serve the value: it is told to drop it. */
void lh_m_notify_drop(
    struct lh_master *m, struct lh_m_program *p, const struct lh_m_pending_changes *g);

/* ---- changes.c */

/* (4): may it be applied, as things are now? LH_OK, or an error and why. */
int lh_m_change_judge(struct lh_master *m, const struct lh_m_name *name,
    const struct lh_m_change *c, char *text, size_t text_size);
/* Another change, of that size, may wait. `name` may be NULL. */
bool lh_m_change_fits(const struct lh_master *m, const struct lh_m_name *name, size_t size);
void lh_m_change_refuse(struct lh_master *m, struct lh_m_change *c, int error, const char *text);
/* Applies it, with this step's commit; its revision. The answer leaves when that is durable. */
uint64_t lh_m_change_apply(struct lh_master *m, struct lh_m_name *name, struct lh_m_change *c);

/* ---- lookups.c: VAL-7 */

/* Names and lookups: may the program read it? The text says why not. */
int lh_m_cached_name_check(
    const struct lh_m_program *p, const char *text, char *why, size_t why_size);
/* Of what would be read; 0: nothing. `name` may be NULL. */
uint64_t lh_m_cached_revision(const struct lh_master *m, const struct lh_m_name *name);
/* What is read, with its bytes in `bytes`. */
#define LH_M_LOOKUP_BYTES 128u
void lh_m_lookup_fill(struct lh_master *m, const Leasehold__ReadValue *asked,
    Leasehold__ValueRead *read, uint8_t bytes[LH_M_LOOKUP_BYTES]);
/* PS-3, of sessions that may have cached lookups. */
bool lh_m_lookups_awaited(const struct lh_master *m);
/* Does what the change says, and frees it. True: the path's file is another one now, or none. */
bool lh_m_path_carry_out(struct lh_master *m, struct lh_m_change *c);

/* ---- attached.c */

/* The session is over; a reign begins. */
void lh_m_attached_over(struct lh_master *m, const struct lh_m_program *p);
void lh_m_attached_start(struct lh_master *m);
/* Begins to delete values of sessions that are over, a few at a time. */
void lh_m_attached_step(struct lh_master *m);
bool lh_m_attached_waiting(const struct lh_master *m);

/* ---- broadcasts.c */

/* A name begins, or has ended, to change: what covers it promises nothing meanwhile. */
void lh_m_broadcast_pending(struct lh_master *m, const char *name, int by);
/* When the last promise about the name is over. */
struct lh_instant lh_m_broadcast_promised(struct lh_master *m, const char *name);
void lh_m_broadcast_changed(struct lh_master *m, const char *name, uint64_t revision);
/* The longest broadcast prefix that covers the name, and its revision; "" and 0: none does. */
const char *lh_m_broadcast_of(const struct lh_master *m, const char *name, uint64_t *revision);
/* True: it is subscribed. False: `*why` says why not. */
bool lh_m_subscribe(
    struct lh_master *m, struct lh_m_program *p, const char *prefix, const char **why);
void lh_m_subscriptions_free(struct lh_m_program *p);
void lh_m_broadcasts_start(struct lh_master *m);
void lh_m_broadcasts_deinit(struct lh_master *m);

/* ---- watch.c */

void lh_m_watch_wake(struct lh_master *m); /* there are new changes, durably */
void lh_m_watch_step(struct lh_master *m);
void lh_m_watch_end(struct lh_master *m, int error, const char *text);
