/* Changes of values that wait, and names that have some (VAL-2). */
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

static inline struct lh_m_pending_changes *lh_m_pending_changes_of(const struct lh_m_name *name)
{
    return name == NULL ? NULL : name->more->changing;
}

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
