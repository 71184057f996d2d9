/* What is known of leases of programs: what programs asked and were told, what the master said on
 * session streams, and every change of a value that became durable. Inside sim/observers only.
 *
 * What a program believes it may do now is asked of its core, with its clock
 * (client/core/leases.h): that is the one word of a core that counts here. */
#pragma once

#include "sim/observers/history.h"

#include "client/core/leases.h"

#define SESSION_ID 16u

struct lname;

/* A session as its program knows it: from the completion of its opening until it is closed. */
struct lsession {
    struct lsession *next, *prev;
    const struct actor *client;
    const struct lh_client_session *handle;
    uint8_t id[SESSION_ID];
    uint64_t opened_at;          /* true ns */
    const struct lname *removed; /* while it had expired: a value that is attached to it; or NULL */
    struct held {
        struct held *next;
        struct lname *name;
        uint64_t lock, token;
        bool shared;
        bool over; /* the program has taken something when it was valid no more (PS-3) */
        uint32_t slots;
    } * held; /* granted to the program, and not given back by it */
};

/* A value from one change on. */
struct lvalue {
    uint64_t revision;   /* of the change */
    uint64_t at;         /* true ns: when it counted */
    uint64_t decided_at; /* ... and when the master had decided it */
    bool removed;
    bool attached;
    uint8_t session[SESSION_ID];
    uint32_t size, crc;
};

/* A token that a master has given out. */
struct lgrant {
    uint64_t token, request;
    uint8_t session[SESSION_ID];
    bool shared;
    uint64_t at; /* true ns */
};

/* A request that waits at the master that acts, as it has said. */
struct lwaiter {
    struct lwaiter *next, *prev;
    uint8_t session[SESSION_ID];
    uint64_t request, number;
    bool passed_by; /* in this step: one that came later is granted */
};

/* A lock that the master that acts keeps, as far as can be seen. */
struct lholder {
    struct lholder *next, *prev;
    uint8_t session[SESSION_ID];
    uint64_t token;
    /* On the master's clock: it was cut (NL-4), and is over by then for certain. 0: it was not. */
    struct lh_instant cut_until;
};

struct lname {
    char *text;
    UT_hash_handle hh;
    struct lvalue *values; /* in the order of their revisions */
    size_t value_count, value_capacity;
    struct lgrant *grants;
    size_t grant_count, grant_capacity;
    uint64_t highest; /* token given out, and whether a shared tenure has it */
    bool highest_shared;
    uint64_t admitted;     /* the guard's last token */
    uint64_t unsure_until; /* true ns: a removal of a client that is gone may still happen */
    struct lwaiter *waiting;
    struct lholder *holders;
    uint64_t due_at; /* true ns: by then the head is granted; 0: nothing is due */
    unsigned due_steps;
    bool passed_by; /* a request was granted in the present step */
    bool cut;       /* some holder's lock is */
    uint64_t change,
        changing_since; /* VAL-2: caches are told to drop it, first at that true time */
};

/* A change of any value, in the order of revisions. */
struct lchange {
    uint64_t revision;
    const struct lname *name;
    bool removed;
    uint32_t size, crc;
};

/* A request, as its session has asked it. */
struct lrequest {
    struct {
        uint8_t session[SESSION_ID];
        uint64_t id;
    } key;
    UT_hash_handle hh;
    struct lname *name;
    uint64_t number; /* in the queue, as a master told it; 0: it has waited nowhere */
    bool shared, withdrawn;
};

/* A change of a value that a master has decided, which may count long after that master is gone. */
struct ldecided {
    struct ldecided *prev, *next;
    uint64_t reign, revision, at;
    size_t size;
    uint8_t record[];
};

/* So many answers to heartbeats a master can still be told of. */
#define LANSWERS 4u

/* A session stream, at the master. */
struct lstream {
    uint64_t link;
    UT_hash_handle hh;
    uint8_t session[SESSION_ID];
    uint64_t number; /* among the session's streams, as the program counts them */
    bool attached, back, over;
    bool hears; /* its last heartbeat names an answer of this stream (SES-4) */
    struct lh_duration term;
    struct lh_instant renewed; /* on the master's clock: when it last took a heartbeat */
    struct lh_instant heard;   /* ... and when the answer left that this one names */
    struct {
        uint64_t stamp;
        struct lh_instant at; /* on the master's clock */
    } answers[LANSWERS];      /* the last ones to heartbeats, a ring */
    unsigned answer_count;
    struct lwaiter *shown; /* requests in the showing that is under way ... */
    struct shown_lock {
        struct shown_lock *next;
        struct lname *name;
        uint64_t token;
    } * shown_locks; /* ... and locks */
};

/* A watch of a program's. */
struct lwatch {
    struct lwatch *next, *prev;
    const struct actor *client;
    const void *handle;
    char *prefix;
    bool locks; /* it is told of these ... */
    struct lock_reported {
        struct lock_reported *next;
        char *name;
        uint8_t session[SESSION_ID];
        bool shared;
    } * locks_reported; /* ... and by its present stream that these are held */
    uint64_t position;  /* the next revision that it may be told of; 0: it waits for a reset */
    bool reset;         /* it is being told what is there, and what changes meanwhile */
    struct notified {
        const struct lname *name;
        uint64_t revision; /* 0: removed */
    } * notified;          /* in that time */
    size_t notified_count, notified_capacity;
};

struct leases {
    struct lsession *sessions;
    struct lname *names;
    struct lrequest *requests;
    struct lstream *streams;
    struct lwatch *watches;
    struct lchange *changes;
    size_t change_count, change_capacity;
    uint64_t last_revision;
    struct ldecided *decided;        /* where masters share a store */
    bool notified[LH_SIM_NODES_MAX]; /* by actor: something of leases in its present step */
    uint64_t *late;                  /* tokens that left a master which acts no more */
    size_t late_count, late_capacity;
    /* By client: the highest reign that has greeted its process, and the stream on which a lower
     * one did since; 0: none. */
    uint64_t reign[LH_SIM_NODES_MAX], low_link[LH_SIM_NODES_MAX];
    uint64_t life;              /* of the master that streams and queues are of */
    uint64_t life_since;        /* true ns */
    struct lh_duration longest; /* term of a session */
};

static inline size_t lh_ob_actor_index(const struct lh_sim_observers *o, const struct actor *a)
{
    return (size_t)(a - o->actors);
}

/* ---- leases.c, for all other observers ---- */

void lh_ob_leases_init(struct lh_sim_observers *o);
void lh_ob_leases_deinit(struct lh_sim_observers *o);
void lh_ob_leases_takes(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
void lh_ob_leases_does(struct lh_sim_observers *o, struct actor *a, const struct lh_sim_sight *s);
/* What a master decided while it was confirmed, and says late. */
void lh_ob_leases_says_late(struct lh_sim_observers *o, const struct lh_sim_sight *s);
void lh_ob_leases_stepped(struct lh_sim_observers *o, const struct actor *a);
void lh_ob_leases_lives(struct lh_sim_observers *o, const struct actor *a, enum lh_sim_life what);
void lh_ob_leases_begun(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_call *asked);
void lh_ob_leases_done(struct lh_sim_observers *o, const struct call *call, int error);
/* Its client is gone, or was not told how it ended. */
void lh_ob_leases_lost_call(struct lh_sim_observers *o, const struct lh_call *asked);
/* The acting master has decided these changes, at that true time. */
void lh_ob_leases_decided(
    struct lh_sim_observers *o, const struct lh_change *changes, size_t count, uint64_t at);
/* They count, and all that the same master decided before. */
void lh_ob_leases_count(struct lh_sim_observers *o, const struct lh_change *changes, size_t count);
/* A change of a value counts from now on. */
void lh_ob_leases_changed(struct lh_sim_observers *o, uint64_t revision, const uint8_t *record,
    size_t size, uint64_t decided_at);
/* What goes with sessions is gone with them; else `text` says what is not. */
bool lh_ob_leases_settled(struct lh_sim_observers *o, char *text, size_t text_size);

/* ---- leases.c, for those of leases ---- */

struct lname *lh_ob_lname(struct lh_sim_observers *o, const char *text);
struct lsession *lh_ob_lsession(const struct lh_sim_observers *o, const struct actor *client,
    const struct lh_client_session *handle);
struct lsession *lh_ob_lsession_of_id(const struct lh_sim_observers *o, const uint8_t *id);
/* The program believes that it has the session, or the lock, at this moment. */
bool lh_ob_session_believed(const struct lsession *s);
bool lh_ob_lock_believed(const struct lsession *s, const struct held *h);
uint32_t lh_ob_crc(const void *data, size_t size);

/* ---- inv13.c ---- */
void lh_ob_inv13_stepped(struct lh_sim_observers *o, const struct actor *a);

/* ---- inv14.c: tokens, and what the master says on session streams ---- */
/* `shared` as it was asked. */
void lh_ob_inv14_granted(struct lh_sim_observers *o, const uint8_t *session, uint64_t request,
    struct lname *name, bool shared, uint64_t token);
/* A program is told of it. */
void lh_ob_inv14_acquired(
    struct lh_sim_observers *o, const struct lsession *s, struct lname *name, uint64_t token);
/* The highest token that was given out before that moment; 0: none. */
uint64_t lh_ob_inv14_highest(const struct lname *name, uint64_t before);

/* ---- inv15.c ---- */
const struct lvalue *lh_ob_value_now(const struct lname *name); /* NULL: there is none */
/* A change counts from now on. */
void lh_ob_inv15_changed(struct lh_sim_observers *o, struct lname *name);
void lh_ob_inv15_stepped(struct lh_sim_observers *o, const struct actor *a);
void lh_ob_inv15_got(
    struct lh_sim_observers *o, const struct call *call, const struct lh_get_call *get, int error);
void lh_ob_inv15_answered(
    struct lh_sim_observers *o, const struct call *call, const struct lh_master_call *m, int error);

/* ---- inv16.c ---- */
void lh_ob_inv16_init(struct lh_sim_observers *o);

/* ---- inv17.c ---- */
/* A change counts from now on; `before`: what there was, NULL: nothing. */
void lh_ob_inv17_changed(
    struct lh_sim_observers *o, struct lname *name, const struct lvalue *before);
void lh_ob_inv17_watch_opened(
    struct lh_sim_observers *o, const struct call *call, const struct lh_watch_open_call *open);
void lh_ob_inv17_notified(
    struct lh_sim_observers *o, const struct actor *a, const struct lh_watch_next_call *next);
void lh_ob_inv17_watch_closed(
    struct lh_sim_observers *o, const struct actor *a, const void *handle);
/* All values that go with a session are gone with it; else `text` says which is not. */
bool lh_ob_inv17_settled(struct lh_sim_observers *o, char *text, size_t text_size);

/* ---- lstreams.c ---- */
uint64_t lh_ob_tenths(struct lh_duration d, unsigned tenths);
/* The session has a stream at the master, for certain; it has none, and is over. */
bool lh_ob_lstream_alive(const struct lh_sim_observers *o, const uint8_t *session);
bool lh_ob_lstream_over(const struct lh_sim_observers *o, const uint8_t *session);
void lh_ob_lstream_attaches(
    struct lh_sim_observers *o, struct lstream *t, const Leasehold__Attach *m);
void lh_ob_lstream_hears(struct lstream *t, uint64_t last_stamp);
void lh_ob_lstream_answers(const struct lh_sim_observers *o, struct lstream *t, uint64_t stamp);
void lh_ob_lstream_drop_shown(struct lstream *t);

/* ---- inv18.c: queues at the master ---- */
void lh_ob_inv18_takes(
    struct lh_sim_observers *o, struct lstream *t, const Leasehold__LeaseSessionRequest *m);
void lh_ob_inv18_says(
    struct lh_sim_observers *o, struct lstream *t, const Leasehold__LeaseSessionReply *m);
void lh_ob_inv18_stepped(struct lh_sim_observers *o);
/* Another master, or another process of it: all streams are gone. */
void lh_ob_inv18_forget(struct lh_sim_observers *o);
void lh_ob_inv18_stream_gone(struct lh_sim_observers *o, struct lstream *t);
