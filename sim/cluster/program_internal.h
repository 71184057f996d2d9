/* What the files of programs know of each other. Inside sim/cluster only. */
#pragma once

#include "sim/cluster/internal.h"

#include "proto/leasehold.pb-c.h"

struct holder; /* a program's session and what it has in it (holder.h) */

/* What there is to do for a program of a kind. Each may be NULL but go_on(). */
struct program_kind {
    void (*go_on)(struct lh_sim_program *p);  /* at its pace */
    void (*forget)(struct lh_sim_program *p); /* its client went down, with all that it had */
    /* It has ended: gives back what it has. True: nothing is left. */
    bool (*wind_up)(struct lh_sim_program *p);
    void (*deinit)(struct lh_sim_program *p);
};

struct lh_sim_program {
    struct lh_sim_program *next;
    struct lh_sim_cluster *cluster;
    struct lh_sim_node *node;
    const struct program_kind *kind;
    struct lh_sim_program_spec spec;
    struct lh_sim_program_status status;
    struct lh_prng random;
    uint64_t life; /* of the client: what was opened is gone with it */
    bool ticking;  /* a tick is scheduled */
    bool opening;
    bool wound_up;
    struct request **pending; /* in the order in which they began */
    size_t pending_count, pending_capacity;

    struct lh_client_appender *appender; /* WRITER */
    uint64_t writer, sequence;
    char used_lock[LH_SIM_PATH_MAX + 32];
    uint64_t used, refused; /* with an owner: the token of the last appender; one that is over */
    struct lh_client_reader *reader; /* READER */
    uint64_t names;                  /* FILES: made so far */
    struct holder *holder;           /* LOCKER, CACHER, CHANGER */
    struct watching *watching;       /* WATCHER */
};

extern const struct program_kind lh_sim_locker, lh_sim_cacher, lh_sim_changer, lh_sim_watcher_kind,
    lh_sim_operator;

/* ---- program.c ---- */

/* A call that is no operation: the opening of what operations need, or its end. */
struct request *lh_sim_p_call(
    struct lh_sim_program *p, enum lh_call_kind kind, void (*then)(struct request *r));
/* An operation. Ended by lh_sim_p_end() and lh_sim_request_done(). */
struct request *lh_sim_p_begin(
    struct lh_sim_program *p, enum lh_call_kind kind, void (*then)(struct request *r));
void lh_sim_p_end(struct request *r);
/* Of a call that is no operation. */
void lh_sim_p_discard(struct request *r);
/* A question to the active master, answered into p's counts. `request`, with all that it points to,
 * is one piece of memory, which is taken over. */
struct request *lh_sim_p_ask(struct lh_sim_program *p, enum lh_method method,
    ProtobufCMessage *request, void (*then)(struct request *r));
/* The usual end of one. */
void lh_sim_p_answered(struct request *r);
struct lh_instant lh_sim_p_deadline(const struct lh_sim_program *p);
/* Its client runs, and is the one that the program has known. */
bool lh_sim_p_lives(const struct lh_sim_program *p);

/* ---- holder.c ---- */

/* An exclusive lock that this locker has, by its own clock; 0: it has none. */
uint64_t lh_sim_p_token(const struct lh_sim_program *locker, const char **name);
/* The name of that number, from 0. */
void lh_sim_p_name(const struct lh_sim_program *p, uint64_t number, char to[LH_SIM_PATH_MAX + 32]);
