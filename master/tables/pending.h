/* Calls that are answered in a later step (HA-12): each keeps its id, and a repeat that comes
 * meanwhile takes its place. */
#pragma once

#include "master/tables/common.h"

/* Part of what waits; its user's. */
struct lh_m_pending {
    struct lh_link link;     /* none: nobody waits for the answer any more */
    uint64_t client, number; /* its id; `client` 0: it has none */
    uint32_t request;        /* checksum of what was asked */
    bool repeated;
    RB_ENTRY(lh_m_pending) place; /* by id, if it has one */
};
RB_HEAD(lh_m_pending_tree, lh_m_pending);
RB_PROTOTYPE(lh_m_pending_tree, lh_m_pending, place, compare_ids)

/* The call of this step, which came on `link`, will be answered later. */
void lh_m_pending_begin(struct lh_master *m, struct lh_m_pending *p, uint64_t link);
/* NULL: none with that id waits. */
struct lh_m_pending *lh_m_pending_find(const struct lh_master *m, uint64_t client, uint64_t number);
/* Its repeat came, and is answered in its place. */
void lh_m_pending_repeat(struct lh_master *m, struct lh_m_pending *p, uint64_t link);
/* Answers it with what is durable in commit `ticket`, and keeps the answer in this step's commit
 * under the rules of HA-12. It waits no longer. */
void lh_m_pending_answer(
    struct lh_master *m, struct lh_m_pending *p, uint64_t ticket, const ProtobufCMessage *message);
/* It waits no longer: from now on it is the call of this step (`m->calls.taken`), as when it came;
 * on its link (0: none), what is replied is kept under the rules of HA-12. */
void lh_m_pending_resume(struct lh_master *m, struct lh_m_pending *p);
/* The call ends without an answer; it waits no longer. */
void lh_m_pending_fail(struct lh_master *m, struct lh_m_pending *p, int error, const char *text);
/* Out of memory alone, when the master is destroyed. */
void lh_m_pending_forget(struct lh_master *m, struct lh_m_pending *p);
