#include "runtime/questions.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Served links of the loop count from 1, and never get here. */
#define LINK_OF_QUESTION (LH_LINK_SERVED | UINT64_C(1) << 62)

struct lh_questions {
    struct lh_core inner;
    uint64_t asked;
    size_t count;
    TAILQ_HEAD(, lh_question) open;
};

static bool is_ours(uint64_t link)
{
    return (link & LINK_OF_QUESTION) == LINK_OF_QUESTION;
}

static struct lh_question *find(struct lh_questions *q, uint64_t link)
{
    struct lh_question *question;

    TAILQ_FOREACH(question, &q->open, place)
        if (question->link == link)
            return question;
    return NULL;
}

static void complete(
    struct lh_questions *q, struct lh_question *question, int error, struct lh_effects *fx)
{
    TAILQ_REMOVE(&q->open, question, place);
    q->count--;
    lh_fx_complete(fx, question, error);
}

/* What the core did with links of questions, in `fx` from `first` on, is taken out. Completions
 * come last: none is said before what the core said before it. */
static void take_replies(struct lh_questions *q, struct lh_effects *fx, size_t first)
{
    struct lh_question *closed[LH_QUESTIONS_MAX];
    int errors[LH_QUESTIONS_MAX];
    size_t kept = first, closed_count = 0;

    for (size_t i = first; i < fx->count; i++) {
        struct lh_effect *e = &fx->items[i];
        struct lh_question *question = is_ours(e->link) ? find(q, e->link) : NULL;
        if (!is_ours(e->link)) {
            if (kept != i)
                fx->items[kept] = *e;
            kept++;
            continue;
        }
        if (question != NULL && e->kind == LH_FX_SEND) {
            lh_buf_clear(&question->reply);
            question->reply = lh_buf_take(&e->header);
        }
        if (question != NULL && e->kind == LH_FX_CLOSE) {
            (void)snprintf(
                question->text, sizeof question->text, "%s", e->text == NULL ? "" : e->text);
            errors[closed_count] = e->error;
            closed[closed_count++] = question;
            question->link = 0;
        }
        lh_effect_deinit(e);
    }
    fx->count = kept;
    for (size_t i = 0; i < closed_count; i++)
        complete(q, closed[i], errors[i], fx);
}

static void feed(struct lh_questions *q, struct lh_input *in, struct lh_effects *fx)
{
    size_t first = fx->count;

    q->inner.step(q->inner.self, in, fx);
    if (q->count > 0)
        take_replies(q, fx, first);
}

static void ask(struct lh_questions *q, const struct lh_input *call, struct lh_effects *fx)
{
    struct lh_question *question = call->call;
    struct lh_input in = {
        .kind = LH_IN_LINK_OPENED,
        .now = call->now,
        .wall_ms = call->wall_ms,
        .link = LINK_OF_QUESTION | ++q->asked,
        .method = question->method,
        .text = "this process",
        .identity = question->identity,
    };

    if (q->count == LH_QUESTIONS_MAX) {
        lh_fx_complete(fx, question, LH_ERR_SHORTAGE);
        return;
    }
    question->link = in.link;
    question->deadline = lh_instant_add(call->now, question->timeout);
    TAILQ_INSERT_TAIL(&q->open, question, place);
    q->count++;
    feed(q, &in, fx);
    if (find(q, in.link) == NULL)
        return; /* it was refused as it is */
    in.kind = LH_IN_MESSAGE;
    in.text = NULL;
    in.message = question->request;
    feed(q, &in, fx);
}

/* Timeouts need not be alike, and there are few questions. */
static struct lh_question *first_due(const struct lh_questions *q)
{
    struct lh_question *question, *first = NULL;

    TAILQ_FOREACH(question, &q->open, place)
        if (first == NULL || lh_instant_before(question->deadline, first->deadline))
            first = question;
    return first;
}

static void give_up(struct lh_questions *q, struct lh_question *question,
    const struct lh_input *now, struct lh_effects *fx)
{
    struct lh_input in = {
        .kind = LH_IN_LINK_CLOSED,
        .now = now->now,
        .wall_ms = now->wall_ms,
        .link = question->link,
        .method = question->method,
        .error = LH_ERR_CANCELLED,
    };

    lh_buf_clear(&question->reply);
    question->text[0] = '\0';
    complete(q, question, LH_ERR_DEADLINE_EXCEEDED, fx);
    feed(q, &in, fx);
}

static void step(void *self, struct lh_input *in, struct lh_effects *fx)
{
    struct lh_questions *q = self;
    struct lh_question *due;

    if (in->kind == LH_IN_CALL) {
        ask(q, in, fx);
        return;
    }
    feed(q, in, fx);
    while (
        q->count > 0 && (due = first_due(q)) != NULL && lh_instant_reached(in->now, due->deadline))
        give_up(q, due, in, fx);
}

static struct lh_instant deadline(const void *self)
{
    const struct lh_questions *q = self;
    struct lh_instant inner = q->inner.deadline(q->inner.self);
    const struct lh_question *due = first_due(q);

    return due != NULL && lh_instant_before(due->deadline, inner) ? due->deadline : inner;
}

struct lh_questions *lh_questions_create(struct lh_core inner)
{
    struct lh_questions *q = lh_alloc(sizeof *q);

    q->inner = inner;
    TAILQ_INIT(&q->open);
    return q;
}

struct lh_core lh_questions_core(struct lh_questions *q)
{
    return (struct lh_core){.self = q, .step = step, .deadline = deadline};
}

void lh_questions_destroy(struct lh_questions *q)
{
    free(q);
}
