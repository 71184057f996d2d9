/* A session in a program of the world: opened when it is needed, opened again when it was lost, and
 * closed at the end. Inside sim/cluster only. */
#pragma once

#include "sim/cluster/program_internal.h"

#include "client/core/leases.h"

#define HOLDS_MAX 4u

/* A lock that a program wants or has. */
struct hold {
    enum { HOLD_NONE, HOLD_ASKED, HOLD_HELD } phase;
    char name[LH_SIM_PATH_MAX + 32];
    bool shared;
    uint64_t lock, token;
    uint64_t until; /* true ns: wanted until then */
    bool yielded;   /* it ends by itself */
};

struct holder {
    struct lh_client_session *session; /* NULL: there is none */
    bool opening, closing;
    bool lost; /* it is over, and still to be closed */
    /* What has happened in it; NULL: nobody wants to know. */
    void (*event)(struct lh_sim_program *p, const struct lh_session_event_call *e);

    struct hold holds[HOLDS_MAX];               /* LOCKER */
    uint64_t revisions[LH_SIM_LEASE_NAMES_MAX]; /* CHANGER: of the last answer; 0: none */
};

/* Has a session that is not lost; else one is opened, or the lost one closed. */
bool lh_sim_p_session(struct lh_sim_program *p);
/* It ends, with everything in it; an operation of the program. */
void lh_sim_p_session_close(struct lh_sim_program *p);
void lh_sim_p_session_forget(struct lh_sim_program *p);
/* Closes what there is. True: nothing is there any more. */
bool lh_sim_p_session_wind_up(struct lh_sim_program *p);
void lh_sim_p_session_deinit(struct lh_sim_program *p);

/* A change of a value: one piece of memory, for lh_sim_p_ask(). */
struct changing {
    Leasehold__ChangeRequest request;
    char name[LH_SIM_PATH_MAX + 32], lock[LH_SIM_PATH_MAX + 32];
    uint8_t session[16];
    uint8_t value[];
};
/* Of the name of that number: a put of some bytes, different each time, or a removal. */
struct changing *lh_sim_p_change(struct lh_sim_program *p, uint64_t number, bool remove);
