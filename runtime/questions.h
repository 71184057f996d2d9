/* Questions that the process itself asks its core: each is one unary call, over a link that leads
 * nowhere. The core cannot tell it from a client's: it comes with an identity as any link does, and
 * has that one's rights (ACC-3).
 *
 * It is a core around the core (base/step.h). A question comes in as LH_IN_CALL, for which the
 * inner core has no use, becomes an opened link and its message, and completes as LH_FX_COMPLETE
 * with what the inner core replied. Everything else passes through. While nothing is asked that
 * costs one comparison a step. */
#pragma once

#include "base/step.h"
#include "base/time.h"

#include <protobuf-c/protobuf-c.h>
#include <sys/queue.h>

/* Of the asker, who keeps it from lh_loop_call() until it completes. */
struct lh_question {
    enum lh_method method;           /* unary, and served by the core */
    const ProtobufCMessage *request; /* of the method */
    const char *identity;            /* who asks (base/step.h); NULL: as "" */
    struct lh_duration timeout;      /* without a reply by then: DEADLINE_EXCEEDED */

    /* When it completes; the error is the effect's. */
    struct lh_buf reply; /* LH_OK: the packed reply. The asker clears it */
    char text[1024];     /* else: what the core said of the error, if anything */

    /* Of this file alone. */
    uint64_t link;
    struct lh_instant deadline;
    TAILQ_ENTRY(lh_question) place;
};

/* Questions in flight; more are completed at once with LH_ERR_SHORTAGE. */
#define LH_QUESTIONS_MAX 64u

struct lh_questions;

/* `inner` is stepped through this from now on. Never NULL. */
struct lh_questions *lh_questions_create(struct lh_core inner);
struct lh_core lh_questions_core(struct lh_questions *q);
/* Questions that have not completed never will; they are their askers'. */
void lh_questions_destroy(struct lh_questions *q);
