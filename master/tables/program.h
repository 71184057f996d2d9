/* A program with a session (PS), and what it holds, waits for and has cached. */
#pragma once

#include "master/tables/session.h"

#define LH_M_SESSION_ID_BYTES 16u

struct lh_m_name;
struct lh_m_request;

struct lh_m_program {
    /* Durable (PS-1). */
    uint8_t id[LH_M_SESSION_ID_BYTES];
    struct lh_duration term;
    char *host, *process, *label;

    struct lh_m_session session; /* its name, for logs, is `label`, or the id in hex */
    uint64_t stream;             /* the highest number of a stream that it attached (PS-2) */
    bool back;                   /* this master knows what is held in it (PS-2) */
    bool closed;                 /* its record goes with the next commit */
    bool dirty, is_new;
    uint64_t ticket;
    STAILQ_ENTRY(lh_m_program) dirty_link;

    size_t locks, caches;                         /* leases of the engine's, of each kind */
    TAILQ_HEAD(, lh_m_request) requests;          /* that wait */
    size_t request_count;
    TAILQ_HEAD(, lh_m_value) attached;            /* VAL-4 */
    size_t attached_count;
    RB_ENTRY(lh_m_program) place; /* by id */
};
RB_HEAD(lh_m_programs, lh_m_program);
RB_PROTOTYPE(lh_m_programs, lh_m_program, place, lh_m_compare_programs)
int lh_m_compare_programs(const struct lh_m_program *a, const struct lh_m_program *b);

static inline struct lh_m_program *lh_m_lessee_program(const struct lh_lessee *lessee)
{
    return LH_OWNER((uintptr_t)lessee, struct lh_m_program, session.lessee);
}
