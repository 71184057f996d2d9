/* The lease service: leases of several kinds, held by clients of several kinds, in one engine.
 *
 * The engine (grantor.h) knows keys, versions and sessions. The service knows what they are for. A
 * kind of lease has ids of its own and an owner; a kind of client has sessions of its own and an
 * owner. What happens to a lease or a session is reported to the owner of its kind alone.
 *
 * The service follows each lease by a record that its user embeds (struct lh_lease):
 *
 *   FREE      no holder
 *   GRANTING  a holder, not `confirmed`: from the decision on it counts as held (LEASE-1)
 *   HELD      `confirmed`; `recalling` is a flag (LEASE-5)
 *   WAITING   a holder and `waiting`: granted before this grantor started; the holder continues it
 *             by showing it (LEASE-7). It waits until all is over that was promised to the holder
 *             (LEASE-9), at the latest until `wait_end`
 *
 * and each client by another one (struct lh_lease_client): its present session, the leases that it
 * holds, and what it believes of them (LEASE-8). How messages carry this, and what is durable, is
 * the user's. A lease of a kind whose grants are not on record (`unrecorded`) can be held by every
 * client that had a session before this grantor started: none is granted until each of these is
 * back, or what was promised to it is over.
 *
 * Leases of one id that are shared have a record for each holder.
 *
 * An *untracked* kind has no such records: its leases are the engine's alone, as there may be
 * millions of them. Their users name them by kind and id, and hear only of those that ended by
 * themselves.
 *
 * Deterministic, and not thread-safe, as the engine. Owners may call the service. */
#pragma once

#include "base/timers.h"
#include "lease/grantor.h"
#include "lease/sum.h"

#include <sys/queue.h>

/* The engine's key of a lease: its kind in the top bits. The key of kind 0 is the id itself. */
#define LH_LEASE_KINDS        16u
#define LH_LEASE_ID_LAST      ((UINT64_C(1) << 60) - 1)
#define LH_LEASE_CLIENT_KINDS 8u

/* The process of a holder that no registration speaks for any more (SES-5a). */
#define LH_LEASE_NOBODY UINT64_MAX

struct lh_lease_client;
struct lh_leases;

/* One lease of one holder. All-zero but for the key: free. Users read it; only the service writes
 * it. */
struct lh_lease {
    uint64_t key;
    struct lh_lease_client *holder; /* NULL: it is free */
    uint64_t process;               /* of the holder: the one that it was granted to */
    uint64_t version;               /* that it was granted at; stays when the lease is over */
    lh_session_id session;          /* where the engine holds it; 0 with a holder: `waiting` */
    uint64_t summed_version;        /* at which it is in its holder's `sum`; 0: it is not */
    uint64_t shown,
        shown_version; /* in which showing the holder showed it last, at which version */
    bool waiting;      /* LEASE-7: what a former grantor granted may still be in force */
    bool sent;         /* the grant at `version` went out at least once */
    bool confirmed;    /* the holder confirmed `version` */
    bool recalling;    /* LEASE-5 */
    bool ending;       /* it runs out: not extended, sent or continued any more */
    bool in_todo;
    enum lh_lease_mode mode;
    TAILQ_ENTRY(lh_lease) held_link, todo_link, waiting_link;
};
TAILQ_HEAD(lh_lease_list, lh_lease);

/* A client that can hold leases. */
struct lh_lease_client {
    unsigned kind;
    uint64_t process;      /* a number that rises with each new process of the client (SES-1) */
    lh_session_id session; /* 0: none */
    struct lh_duration term;
    struct lh_instant received_at;   /* a reading after its last heartbeat was received (TIME-4) */
    bool confirmed;                  /* it has received an answer in its present session */
    struct lh_lease_list held, todo; /* `todo`: not confirmed, or recalled and not answered */
    size_t count;                    /* held */
    struct lh_lease_sum sum;         /* of those held: confirmed in this session (LEASE-8) */
    uint64_t showing;                /* the number of its latest showing */
    lh_session_id former;   /* that it had with a former grantor, and it is not back; 0: none */
    lh_session_id promised; /* ends with all that former grantors promised to it; 0: that is over,
                               or ends with the wait */
};

/* How a lease ended. */
enum lh_lease_end {
    LH_LEASE_EXPIRED,  /* its term, or its session's, is over; here or at its holder */
    LH_LEASE_RELEASED, /* its holder gave it back */
    LH_LEASE_UNSHOWN,  /* its holder registered and did not show it (SES-5a) */
    LH_LEASE_DIFFERED, /* its holder was asked to show its leases, and did not show it (LEASE-8) */
    LH_LEASE_DEAD,     /* the process that held it is dead (SES-5) */
    LH_LEASE_WAITED,   /* nobody has shown it until the wait was over (LEASE-7) */
    LH_LEASE_ENDED,    /* its owner ended it, for a reason of its own */
};

struct lh_lease_past {
    struct lh_lease_client *holder;
    enum lh_lease_end end;
    const char *why; /* for a log: "has run out" */
    bool recalling;  /* it was being recalled */
};

/* Of one kind of lease. `core` is what lh_leases_init() was given. */
struct lh_lease_owner {
    /* The record of that client's lease; NULL: there is none. A client names `id`: anything may
     * come. */
    struct lh_lease *(*find)(void *core, uint64_t id, const struct lh_lease_client *client);
    /* The lease, which its holder shows, goes on in the holder's new session. */
    void (*continued)(void *core, struct lh_lease *lease);
    /* No registration speaks for its holder any more; it runs out by itself. */
    void (*disowned)(void *core, struct lh_lease *lease);
    /* It can still be in force, but not in a session that is known here: it has no session now. */
    void (*lost_session)(void *core, struct lh_lease *lease);
    /* It is free. */
    void (*over)(void *core, struct lh_lease *lease, const struct lh_lease_past *past);
};

/* Of one untracked kind. */
struct lh_untracked_owner {
    /* It has run out, or its session has ended; the engine has it no more. */
    void (*ended)(void *core, uint64_t id, struct lh_lease_client *client);
};

/* Of one kind of client. */
struct lh_lease_client_owner {
    /* Its session has run out, and the leases that it held in it follow; or that with a former
     * grantor has, and it has not come back. */
    void (*ended)(void *core, struct lh_lease_client *client);
    /* It is promised something now: its sessions and all that it holds can last until a term from
     * now (LEASE-9). NULL: nobody notes that. */
    void (*promised)(void *core, struct lh_lease_client *client);
    /* All is over that former grantors promised to it, and it is not back; its session with them
     * may go on yet. NULL: of no interest. */
    void (*settled)(void *core, struct lh_lease_client *client);
};

struct lh_leases {
    struct lh_grantor *engine;
    void *core;
    struct lh_timers *timers;
    struct lh_instant now;      /* of the present step */
    size_t work;                /* things that it looks at, at most */
    struct lh_instant wait_end; /* LEASE-7: nothing that a former grantor granted lasts longer */
    struct lh_timer wait_timer; /* for that */
    bool wait_over;
    void (*waited)(void *core); /* once it is */
    struct lh_lease_list waiting;
    size_t away; /* clients with a `former` session and `promised`: they may hold leases that are
                    not on record */
    uint64_t showings;
    struct {
        const struct lh_lease_owner *owner; /* NULL: it is a untracked kind, or there is none */
        const struct lh_untracked_owner *untracked;
        struct lh_duration term;
        bool unrecorded;
    } kinds[LH_LEASE_KINDS];
    const struct lh_lease_client_owner *clients[LH_LEASE_CLIENT_KINDS];
};

/* `core` is given to all owners, and to `timers`, which are the core's. */
void lh_leases_init(
    struct lh_leases *l, void *core, struct lh_timers *timers, void (*waited)(void *core));
void lh_leases_deinit(struct lh_leases *l);

/* Before the first lease, or client, of the kind. */
void lh_leases_kind(struct lh_leases *l, unsigned kind, const struct lh_lease_owner *owner,
    struct lh_duration term, bool unrecorded);
void lh_leases_light_kind(
    struct lh_leases *l, unsigned kind, const struct lh_untracked_owner *owner, bool unrecorded);
void lh_leases_client_kind(
    struct lh_leases *l, unsigned kind, const struct lh_lease_client_owner *owner);

/* At the begin of each step of the core, before its timers fire: reports what has ended by `now`,
 * at most `work` things. */
void lh_leases_step(struct lh_leases *l, struct lh_instant now, size_t work);
/* When the next step is due at the latest. */
struct lh_instant lh_leases_deadline(const struct lh_leases *l);

/* Asserts that leases and clients agree with the engine. `client` is one client. */
void lh_lease_client_check(const struct lh_leases *l, const struct lh_lease_client *client);

static inline uint64_t lh_lease_id(uint64_t key)
{
    return key & LH_LEASE_ID_LAST;
}

static inline unsigned lh_lease_kind(uint64_t key)
{
    return (unsigned)(key >> 60);
}

/* A free lease. `id` is at most LH_LEASE_ID_LAST. */
void lh_lease_init(struct lh_lease *lease, unsigned kind, uint64_t id);

/* ---- Clients and their sessions. */

void lh_lease_client_init(struct lh_lease_client *client, unsigned kind);

/* It has a new session, from now on. Its last one was closed. */
void lh_lease_client_open(
    struct lh_leases *l, struct lh_lease_client *client, struct lh_duration term);
/* By a message received before the clock showed `received_at`. UNKNOWN_SESSION: it has none. */
LH_MUST_USE int lh_lease_client_renew(
    struct lh_leases *l, struct lh_lease_client *client, struct lh_instant received_at);
/* It gave everything up: its sessions are over now, and in the next steps `ended` is called and its
 * leases follow, as if it had run out. */
void lh_lease_client_stop(struct lh_leases *l, struct lh_lease_client *client);
/* Its session will not be renewed any more; frees nothing (SES-5). */
void lh_lease_client_close(struct lh_leases *l, struct lh_lease_client *client);
/* The client is known to be dead, or gave everything up: its sessions and its leases are over. Its
 * record can go. */
void lh_lease_client_dissolve(
    struct lh_leases *l, struct lh_lease_client *client, enum lh_lease_end end, const char *why);
bool lh_lease_client_live(const struct lh_leases *l, const struct lh_lease_client *client);
/* When its session ends; zero: it has none. */
struct lh_instant lh_lease_client_until(
    const struct lh_leases *l, const struct lh_lease_client *client);

/* A process below `client->process` is dead: what it held is free (SES-5). */
void lh_lease_client_free_dead(struct lh_leases *l, struct lh_lease_client *client);
/* Two processes have its number: what the first was granted nobody gives back. */
void lh_lease_client_disown(struct lh_leases *l, struct lh_lease_client *client);

/* ---- What a client shows of its leases: at a registration (SES-5a, LEASE-7), or within its
 * session if the sums differ (LEASE-8). Begin, one call for each lease shown, end; also in several
 * messages. */

void lh_lease_client_show_begin(struct lh_leases *l, struct lh_lease_client *client);

/* It shows the lease `id` at `version`. At a registration (`continue_it`) the lease goes on in the
 * present session if it is exactly the one granted. Returns the lease if it did, or, within a
 * session, if the client holds it at any version; NULL: not. */
struct lh_lease *lh_lease_client_shows(struct lh_leases *l, struct lh_lease_client *client,
    unsigned kind, uint64_t id, uint64_t version, bool continue_it);

/* The process that shows, against the one that was granted to. */
struct lh_lease_process {
    bool same;     /* as far as is known */
    bool proven;   /* by a number that it drew */
    bool numbered; /* it has drawn one */
};

/* All was shown at a registration: what follows for leases that were not. */
void lh_lease_client_registered(
    struct lh_leases *l, struct lh_lease_client *client, struct lh_lease_process process);

/* Does the client, by its sum, believe otherwise than this grantor? */
bool lh_lease_client_differs(const struct lh_lease_client *client, struct lh_lease_sum theirs);

/* All was shown within a session. What the client had confirmed and did not show is over. */
void lh_lease_client_resolved(struct lh_leases *l, struct lh_lease_client *client);

/* ---- Leases. */

/* Gives the free lease to the client. Errors of lh_grantor_grant(); also LEASE_HELD while a client
 * that is not back may hold it. */
LH_MUST_USE int lh_lease_grant(struct lh_leases *l, struct lh_lease *lease,
    struct lh_lease_client *client, uint64_t version, enum lh_lease_mode mode);
/* A new version for the present holder, in its present session, where the lease is in force. */
void lh_lease_raise(struct lh_leases *l, struct lh_lease *lease, uint64_t version);
/* The grant goes out now, again or for the first time: it counts from the holder's last
 * heartbeat, and our end moves first. False: it cannot be any more. */
LH_MUST_USE bool lh_lease_renew(struct lh_leases *l, struct lh_lease *lease);
void lh_lease_sent(struct lh_lease *lease);
/* Its holder acts on it, at its version. */
void lh_lease_confirm(struct lh_lease *lease);
/* Can the client ask for its extension? Extends such leases, all of one kind; `results` as of
 * lh_grantor_extend_many(). */
bool lh_lease_extendable(
    const struct lh_lease *lease, const struct lh_lease_client *client, uint64_t version);
void lh_lease_extend_many(struct lh_leases *l, struct lh_lease_client *client,
    struct lh_lease *const *leases, size_t count, int *results);
/* From now on it only runs out. */
void lh_lease_let_end(struct lh_lease *lease);
/* The last one in its holder's list. */
void lh_lease_to_last(struct lh_lease *lease);
/* False: it is being recalled already, or ends. */
bool lh_lease_recall(struct lh_leases *l, struct lh_lease *lease);
/* It is over: free in the engine, and reported to its owner. */
void lh_lease_over(
    struct lh_leases *l, struct lh_lease *lease, enum lh_lease_end end, const char *why);
/* Its record goes. The engine keeps a lease that runs: nobody will ever ask for this id again. */
void lh_lease_forget(struct lh_leases *l, struct lh_lease *lease);

/* Does this very process of the client hold it? */
bool lh_lease_is_of(const struct lh_lease *lease, const struct lh_lease_client *client);
/* Does the engine hold it in force? */
bool lh_lease_in_force(const struct lh_leases *l, const struct lh_lease *lease);
/* In force, or it may be. */
bool lh_lease_held(const struct lh_leases *l, const struct lh_lease *lease);
/* In force in its holder's present session, and not `ending`: what it has to hear can be sent. */
bool lh_lease_current(const struct lh_leases *l, const struct lh_lease *lease);
/* When somebody else can have it at the latest. */
struct lh_instant lh_lease_free_at(const struct lh_leases *l, const struct lh_lease *lease);
