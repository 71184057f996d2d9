/* What the files of this folder know of each other. */
#pragma once

#include "master/locks/locks.h"

/* NEW: only in its lock state, for a moment. */
enum lh_m_lock_request_state {
    LH_M_LOCK_REQUEST_NEW,
    LH_M_LOCK_REQUEST_WAITS,
    LH_M_LOCK_REQUEST_HELD
};

/* A program's request for a lock, or what is to be remembered of the lock that it holds. */
struct lh_m_lock_request {
    RB_ENTRY(lh_m_lock_request) by_program; /* in its lock state */
    union {
        RB_ENTRY(lh_m_lock_request) by_id;    /* WAITS: in its program */
        RB_ENTRY(lh_m_lock_request) by_slots; /* HELD, with `slots` */
    };
    union {
        RB_ENTRY(lh_m_lock_request) by_number; /* `queued` */
        TAILQ_ENTRY(lh_m_lock_request) turn;   /* HELD: in `holders` */
    };
    struct lh_m_lock_state *lock_state;
    struct lh_m_program *program;
    uint64_t id;             /* of the Acquire */
    uint64_t number;         /* NL-1 */
    struct lh_instant since; /* waits, or is held, at this master */
    struct lh_instant recalled_at;
    uint32_t slots; /* SHARED; 0: any number */
    uint32_t round; /* in which it was asked last, while it is held */
    enum lh_m_lock_request_state state;
    bool shared, recallable;
    bool queued; /* WAITS, and its program is not parked */
    bool kept;   /* in a showing: it was shown */
    bool recalled, refused;
    bool noted; /* WAITS: among the events */
    uint16_t info_size;
    uint8_t info[];
};
RB_HEAD(lh_m_lock_requests_here, lh_m_lock_request);
RB_HEAD(lh_m_queue, lh_m_lock_request);
RB_HEAD(lh_m_slotted, lh_m_lock_request);
TAILQ_HEAD(lh_m_turns, lh_m_lock_request);
RB_PROTOTYPE(lh_m_lock_requests, lh_m_lock_request, by_id, lh_m_compare_ids)
RB_PROTOTYPE(lh_m_lock_requests_here, lh_m_lock_request, by_program, lh_m_compare_holders)
RB_PROTOTYPE(lh_m_queue, lh_m_lock_request, by_number, lh_m_compare_numbers)
RB_PROTOTYPE(lh_m_slotted, lh_m_lock_request, by_slots, lh_m_compare_slots)
int lh_m_compare_ids(const struct lh_m_lock_request *a, const struct lh_m_lock_request *b);
int lh_m_compare_holders(const struct lh_m_lock_request *a, const struct lh_m_lock_request *b);
int lh_m_compare_numbers(const struct lh_m_lock_request *a, const struct lh_m_lock_request *b);
int lh_m_compare_slots(const struct lh_m_lock_request *a, const struct lh_m_lock_request *b);

/* A call that waits until a lock is over. */
struct lh_m_cancel {
    struct lh_link link;
    struct lh_m_lock_state *lock_state;
    uint64_t token; /* 0: sessions are not back yet, and who holds it is not known */
    uint64_t asked; /* the request's token */
    char *why;
    struct lh_timer timer;
    TAILQ_ENTRY(lh_m_cancel) place;
};

/* What is to be remembered of a name's locks. It goes with the last request or call. */
struct lh_m_lock_state {
    struct lh_m_name *name;
    struct lh_m_lock_requests_here requests; /* by their programs */
    struct lh_m_queue queue;                 /* those that wait and can be granted */
    size_t waiting;                          /* also of programs that are parked */
    size_t sharers;                          /* each has a request */
    size_t recallable;                       /* holders that want to know who waits */
    struct lh_m_slotted slotted;             /* sharers that named a number of slots, by it */
    uint64_t closed;       /* the tenure with this token was cancelled: nobody joins it */
    uint64_t recalled_for; /* the request for which the holders were asked last */
    /* There may be very many holders. They are asked for their locks, or these are cut, a few at a
     * time: the first one is next, and then the last one. */
    struct lh_m_turns holders;
    uint32_t round; /* who was asked in it has had its turn */
    bool asking, cutting;
    char *why; /* `cutting` */
    struct lh_instant recalled_at;
    struct lh_timer recall_timer;
    TAILQ_HEAD(, lh_m_cancel) cancels;
    bool works; /* in `m->locks.work` */
    TAILQ_ENTRY(lh_m_lock_state) work_link;
};

/* ---- locks.c */

/* May the program have another lock or request? NO_MEMORY: `text` says which bound is reached. */
int lh_m_lock_room(
    const struct lh_master *m, const struct lh_m_program *p, char *text, size_t text_size);

/* ---- lock_requests.c: records */

struct lh_m_lock_state *lh_m_lock_state_get(struct lh_master *m, struct lh_m_name *n);
/* NULL: the program has none on that name. */
struct lh_m_lock_request *lh_m_lock_request_of(
    const struct lh_m_name *n, const struct lh_m_program *p);
struct lh_m_lock_request *lh_m_lock_request_by_id(const struct lh_m_program *p, uint64_t id);
struct lh_m_lock_request *lh_m_lock_request_new(struct lh_master *m, struct lh_m_name *n,
    struct lh_m_program *p, bool shared, uint32_t slots, bool recallable,
    const ProtobufCBinaryData *info);
/* It waits from now on, in its program's list; and in the queue if that is not parked. */
void lh_m_lock_request_waits(
    struct lh_master *m, struct lh_m_lock_request *c, uint64_t id, uint64_t number);
/* It has what it waited for, or asked for now. */
void lh_m_lock_request_holds(struct lh_master *m, struct lh_m_lock_request *c);
/* Out of everything, and freed. The name is not settled. */
void lh_m_lock_request_free(struct lh_master *m, struct lh_m_lock_request *c);
void lh_m_lock_request_queue(struct lh_m_lock_request *c, bool in);
/* Somebody may be granted the name now, or it is free for good: looked at when the step ends. */
void lh_m_lock_touch(struct lh_master *m, struct lh_m_name *n);

/* ---- locks.c: grants and ends */

/* The next token (NL-2); 0: there is none left in this reign. */
uint64_t lh_m_token(struct lh_master *m);
/* For those who look at its events. `why` is static, or NULL; `token` 0: as before. */
void lh_m_note_lock(struct lh_master *m, const struct lh_m_name *n, const struct lh_m_program *p,
    Leasehold__LeaseEventKind kind, uint64_t token, const char *why);
/* The engine's lease of the name is gone: what is counted and remembered of it goes, too. `how`,
 * and with which token, watchers hear; 0: that is not known. */
void lh_m_lock_gone(struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p,
    Leasehold__LockEventKind how, uint64_t token);
/* The engine has it from now on. `c` may be NULL. */
void lh_m_lock_taken(struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p,
    struct lh_m_lock_request *c, uint64_t token);

/* ---- happened.c, watch.c */

/* Watchers hear of it: after it was granted, and before it is gone. */
void lh_m_lock_happened(struct lh_master *m, const struct lh_m_name *n,
    const struct lh_m_program *p, Leasehold__LockEventKind kind, uint64_t token);
void lh_m_lock_watch_check(const struct lh_master *m);

/* ---- recall.c */

/* Asks the holders for the head of the queue, if they are to be asked. */
void lh_m_recall_for(struct lh_master *m, struct lh_m_lock_state *g);
/* To the holder (NL-4). */
void lh_m_notify_demand(struct lh_master *m, struct lh_m_program *p, const struct lh_m_name *n,
    uint64_t token, bool cancel, uint64_t waiting, const char *why);

/* Goes on asking the holders, or cutting what they hold; each takes one of `work`. False: there are
 * more of them. */
bool lh_m_ask_some(struct lh_master *m, struct lh_m_lock_state *g, size_t *work);
/* Begins: each holder has a turn. `why`: their locks are cut. */
void lh_m_ask_all(struct lh_m_lock_state *g, const char *why);

/* ---- cancel.c */

/* Cuts that lock and says so to its holder. */
void lh_m_lock_cut(
    struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p, const char *why);
/* When another request can have the name at the latest, if no session is renewed. */
uint64_t lh_m_lock_left_ms(const struct lh_master *m, const struct lh_m_name *n);

/* Forgets a call that waits, and is in no list. */
void lh_m_cancel_free(struct lh_master *m, struct lh_m_cancel *cancel);
/* Answers the calls of that name whose locks are over, and cuts for those that had to wait. */
void lh_m_cancels_look(struct lh_master *m, struct lh_m_lock_state *g);
/* Calls `function` for each holder of the name whose lock is in force, until it returns false. */
void lh_m_each_holder(struct lh_master *m, struct lh_m_name *n,
    bool (*function)(struct lh_master *m, struct lh_m_name *n, struct lh_m_program *p, void *arg),
    void *arg);
