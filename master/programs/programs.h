/* Programs as clients with sessions (PS-1 to PS-4): they attach, show what they have, beat, and say
 * what they want. What becomes of locks and values is locks/'s and values/'s. */
#pragma once

#include "master/sessions/sessions.h"
#include "master/tables/tables.h"

extern const struct lh_m_session_kind lh_m_programs;
extern const struct lh_lease_client_owner lh_m_program_sessions;

/* The master starts: every session on record may hold anything (PS-3). */
void lh_m_programs_start(struct lh_master *m);
/* A commit is durable: those whose records are in it are greeted, or gone. */
void lh_m_programs_durable(struct lh_master *m, const struct lh_m_commit *commit);

/* Unary. */
void lh_m_list_sessions(
    struct lh_master *m, uint64_t link, const Leasehold__ListSessionsRequest *request);
