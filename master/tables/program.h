/* A program with a session (PS), and what it holds, waits for and has cached. */
#pragma once

#include "master/tables/session.h"

#define LH_M_SESSION_ID_BYTES 16u

struct lh_m_name;
struct lh_m_lock_request;  /* of locks/ */
struct lh_m_subscriptions; /* of values/ */

struct lh_m_program {
    /* Durable (PS-1). */
    uint8_t id[LH_M_SESSION_ID_BYTES];
    struct lh_duration term;
    char *host, *process, *label;
    bool lookups;   /* it may cache lookups of files (VAL-7) */
    char *identity; /* of whoever opened it (ACC-3); NULL: nobody said so */

    bool awaited_for_lookups;    /* counted in `m->programs.lookups_away` */
    struct lh_m_session session; /* its name, for logs, is `title` */
    char *title;                 /* the label, or the id in hex */
    uint64_t stream;             /* the highest number of a stream that it attached (PS-2) */
    bool back;                   /* this master knows what is held in it (PS-2) */
    bool over;                   /* closed, or run out: its record is gone, or goes */
    bool closed;                 /* by the program */
    uint64_t reign_name_seen;    /* as it attached (SES-9); 0: none */
    bool dirty;
    uint32_t pair;
    uint64_t ticket;
    STAILQ_ENTRY(lh_m_program) dirty_link;
    bool settles;
    STAILQ_ENTRY(lh_m_program) settle_link;

    /* Leases that the engine has, of each kind. */
    size_t locks, caches;
    struct {
        uint32_t second, left;
    } noted; /* how many more of its requests in that second are (lh_m_note_due()) */
    RB_HEAD(lh_m_lock_requests, lh_m_lock_request) requests; /* that wait, by their ids */
    size_t request_count;
    bool parked;                       /* they are in no queue: nothing can be granted to it now */
    TAILQ_HEAD(, lh_m_value) attached; /* VAL-4 */
    size_t attached_count;
    struct lh_m_subscriptions *subscriptions; /* VAL-5; NULL: none */

    /* What this step has to say to it, and how much has not left yet. */
    struct {
        uint8_t *bytes; /* packed, as in LeaseAnswers */
        size_t size, capacity;
        bool gathers;
        TAILQ_ENTRY(lh_m_program) link;
        uint32_t in_flight; /* messages */
        uint32_t unsent;    /* their bytes, about */
        bool held;          /* its stream is not read meanwhile */
    } out;

    RB_ENTRY(lh_m_program) place; /* by id */
};
RB_HEAD(lh_m_programs, lh_m_program);
RB_PROTOTYPE(lh_m_programs, lh_m_program, place, lh_m_compare_programs)
int lh_m_compare_programs(const struct lh_m_program *a, const struct lh_m_program *b);

static inline struct lh_m_program *lh_m_client_program(const struct lh_lease_client *client)
{
    return LH_OWNER((uintptr_t)client, struct lh_m_program, session.client);
}

static inline struct lh_m_program *lh_m_session_program(struct lh_m_session *session)
{
    return LH_OWNER(session, struct lh_m_program, session);
}

/* `id` has LH_M_SESSION_ID_BYTES. NULL: there is none. One whose session is over may still be there
 * (`over`). */
struct lh_m_program *lh_m_program_find(const struct lh_master *m, const uint8_t *id);
/* The first one whose id is not before `id`. */
struct lh_m_program *lh_m_program_from(const struct lh_master *m, const uint8_t *id);
/* A new one. Texts are copied. */
struct lh_m_program *lh_m_program_new(struct lh_master *m, const uint8_t *id,
    struct lh_duration term, const char *host, const char *process, const char *label);
/* Out of the tables. Values that are attached to it stay, attached to a session without a
 * record. */
void lh_m_program_free(struct lh_master *m, struct lh_m_program *p);
/* Its session is over: the record goes with this step's commit. */
void lh_m_program_over(struct lh_master *m, struct lh_m_program *p);
/* Something that referred to it is gone: at the end of the step it is freed if it is over, durably,
 * and nothing refers to it any more. */
void lh_m_program_settle(struct lh_master *m, struct lh_m_program *p);
void lh_m_programs_step(struct lh_master *m);
