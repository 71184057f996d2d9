/* What is said to programs on their session streams. The answers of one step go together, in as few
 * messages as possible; all that is said to one program leaves in the order in which it was
 * said. */
#pragma once

#include "master/tables/tables.h"

/* It goes out when the step ends, if the program has a stream then. */
void lh_m_reply_granted(struct lh_master *m, struct lh_m_program *p, uint64_t id, uint64_t token);
void lh_m_reply_queued(
    struct lh_master *m, struct lh_m_program *p, uint64_t id, uint64_t queued, uint64_t ahead);
/* `id` 0: of a request without one; then `name` says which. */
void lh_m_reply_refused(struct lh_master *m, struct lh_m_program *p, uint64_t id, const char *name,
    int error, const char *text);
/* Any. Its texts are UTF-8. */
void lh_m_reply_answer(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__LeaseAnswer *answer);

/* Goes out at once, behind what was said before. */
void lh_m_reply_message(
    struct lh_master *m, struct lh_m_program *p, const Leasehold__LeaseSessionReply *reply);
/* A message of its stream has left. */
void lh_m_reply_left(struct lh_master *m, struct lh_m_program *p);
/* It has another stream, or none: what was to be said on the last one is not. */
void lh_m_reply_nothing(struct lh_master *m, struct lh_m_program *p);
/* Too much has not left to all programs, and this one has not taken its share. */
bool lh_m_takes_too_little(const struct lh_master *m, const struct lh_m_program *p);
/* The end of a step. */
void lh_m_answers_step(struct lh_master *m);
