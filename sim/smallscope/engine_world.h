/* What the small world of the lease engine is made of; see engine.h. For engine*.c alone. */
#pragma once

#include "lease/grantor.h"
#include "lease/holder.h"
#include "lease/term.h"
#include "sim/smallscope/engine.h"

#define CHUNK   1u
#define HOLDERS 2u
#define NOBODY  UINT32_MAX

/* The clocks may be off by a fifth, the most that can be set: few steps then show what small errors
 * show in many. A session is two steps of true time long and a chunk lease three. */
#define DRIFT_PPM       LH_DRIFT_PPM_MAX
#define STEP_MS         100u
#define STEP_MS_FAST    (STEP_MS + STEP_MS * DRIFT_PPM / 1000000)
#define STEP_MS_SLOW    (STEP_MS - STEP_MS * DRIFT_PPM / 1000000)
#define SESSION_TERM_MS 200u
#define LEASE_TERM_MS   300u

/* One more than moves can make. */
#define MESSAGES_MAX (LH_EXPLORE_DEPTH_MAX + 1)
#define SESSIONS_MAX (LH_EXPLORE_DEPTH_MAX + 2)

enum kind { REGISTER, REGISTERED, HEARTBEAT, ANSWER, GRANT, RELEASE };

struct message {
    enum kind kind;
    uint32_t holder;              /* from it or to it */
    uint32_t incarnation, number; /* REGISTER, REGISTERED */
    uint32_t session;             /* all but REGISTER */
    uint32_t version;             /* shown, continued, to be extended, extended, granted, released;
                                     0: none */
    struct lh_instant stamp;      /* the holder's clock when it sent the request (TIME-1) */
    struct lh_duration session_term, lease_term; /* REGISTERED, ANSWER, GRANT: the holder's share */
};

/* Sessions are numbered for each holder from 1, over all lives of the grantor (as on the wire of
 * the real master no two of its lives give the same number). 0: none. */
struct registration {
    uint32_t incarnation, number; /* durable (SES-1) */
    uint32_t session;
    struct lh_instant received_at; /* of the last heartbeat or the registration */
    struct lh_instant stamp;       /* which it carried */
};

struct grantor {
    struct lh_instant now;
    uint32_t step_ms; /* by how much its clock moves in a step of time */
    struct lh_grantor *table;
    lh_session_id sessions[HOLDERS][SESSIONS_MAX]; /* as the table of this life names them */
    struct registration seen[HOLDERS];
    /* The last grant, durable before it is sent (LEASE-1). */
    uint32_t version, to, incarnation; /* `to` NOBODY: its lease is known to be over */
    /* LEASE-7: a former life granted it, and it was not seen to end since. */
    bool waiting;
    struct lh_instant wait_end;
};

struct holder {
    struct lh_instant now;
    uint32_t step_ms;
    struct lh_holder *table;
    uint32_t incarnation, number;
    uint32_t released; /* the highest version that this incarnation gave up */
};

struct lh_engine {
    struct grantor grantor;
    struct holder holders[HOLDERS];
    uint32_t sessions[HOLDERS]; /* named so far */
    struct message wire[MESSAGES_MAX];
    size_t wire_count;
    uint32_t version_acted; /* the highest at which anybody acted */
    uint64_t first_ms;      /* what the clocks show in the first state */
    const char *violation;
    FILE *words; /* NULL: none */
};

/* engine.c */
const char *holder_name(uint32_t holder);
void say(const struct lh_engine *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* From now on it may arrive. */
void emit(struct lh_engine *e, struct message m);
bool acts(const struct lh_engine *e, uint32_t holder);

/* engine_grantor.c */
void grantor_begin(struct grantor *g);
void grantor_restart(struct lh_engine *e);
bool grantor_can_repeat(const struct grantor *g);
bool grantor_can_recall(const struct grantor *g);
bool grantor_has_timer(const struct grantor *g);
void grantor_grant(struct lh_engine *e, uint32_t to);
void grantor_repeat(struct lh_engine *e);
void grantor_recall(struct lh_engine *e);
void grantor_timer(struct lh_engine *e);
void grantor_receive(struct lh_engine *e, const struct message *m);

/* engine_holder.c */
void holder_begin(struct holder *h);
void holder_restart(struct lh_engine *e, uint32_t i);
void holder_register(struct lh_engine *e, uint32_t i);
/* Sends one of each kind that it can send now. */
void holder_heartbeats(struct lh_engine *e, uint32_t i);
void holder_release(struct lh_engine *e, uint32_t i);
void holder_receive(struct lh_engine *e, const struct message *m);
