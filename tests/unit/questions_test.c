/* Questions of the process to its core: they are calls like others, and nothing of them gets
 * out. */
#include "runtime/questions.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A core that writes down what it is told. */
struct echo {
    uint64_t link; /* of the question that it heard of last */
    bool refuses;  /* it closes each link at once */
    bool replies;  /* to a message, at once */
    size_t opened, messages, closed, others;
    struct lh_instant deadline;
};

static struct echo echo;
static struct lh_questions *questions;
static struct lh_core core;
static struct lh_effects fx;

static void reply_to(uint64_t link, struct lh_effects *to)
{
    struct lh_effect *e = lh_effects_add(to, LH_FX_SEND);

    e->link = link;
    e->header = lh_buf_copy("yes", 3);
    lh_fx_close(to, link, LH_OK, NULL);
}

static void echo_step(void *self, struct lh_input *in, struct lh_effects *to)
{
    struct echo *e = self;

    lh_fx_log(to, LH_INFO, "before");
    switch (in->kind) {
    case LH_IN_LINK_OPENED:
        e->opened++;
        e->link = in->link;
        if (e->refuses)
            lh_fx_close(to, in->link, LH_ERR_NOT_ACTIVE, "ask another one");
        break;
    case LH_IN_MESSAGE:
        e->messages++;
        assert_true(in->link == e->link);
        if (e->replies)
            reply_to(in->link, to);
        break;
    case LH_IN_LINK_CLOSED:
        e->closed++;
        assert_int_equal(in->error, LH_ERR_CANCELLED);
        break;
    default:
        e->others++;
        lh_fx_close(to, LH_LINK_SERVED | 7, LH_OK, NULL); /* of a peer */
        break;
    }
    lh_fx_log(to, LH_INFO, "after");
}

static struct lh_instant echo_deadline(const void *self)
{
    return ((const struct echo *)self)->deadline;
}

static int set_up(void **state)
{
    (void)state;
    echo = (struct echo){.deadline = LH_INSTANT_NEVER};
    questions = lh_questions_create((struct lh_core){&echo, echo_step, echo_deadline});
    core = lh_questions_core(questions);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lh_effects_deinit(&fx);
    fx = (struct lh_effects){0};
    lh_questions_destroy(questions);
    return 0;
}

static void step_at(enum lh_input_kind kind, void *call, uint64_t ms)
{
    struct lh_input in = {.kind = kind, .call = call, .now = {ms * 1000000}};

    lh_effects_clear(&fx);
    core.step(core.self, &in, &fx);
}

static struct lh_question question_of(uint64_t timeout_ms)
{
    return (struct lh_question){
        .method = LH_METHOD_MASTERS, .timeout = lh_milliseconds(timeout_ms)};
}

/* The question's completion among the effects; and no effect is of its link. */
static const struct lh_effect *completion(const struct lh_question *q)
{
    const struct lh_effect *found = NULL;

    for (size_t i = 0; i < fx.count; i++) {
        const struct lh_effect *e = &fx.items[i];
        assert_true(
            e->kind == LH_FX_LOG || e->kind == LH_FX_COMPLETE || e->link == (LH_LINK_SERVED | 7));
        if (e->kind != LH_FX_COMPLETE || e->call != q)
            continue;
        assert_null(found);
        found = e;
    }
    return found;
}

static void an_answer_at_once(void **state)
{
    struct lh_question q = question_of(1000);
    char text[3];

    (void)state;
    echo.replies = true;
    step_at(LH_IN_CALL, &q, 0);
    assert_non_null(completion(&q));
    assert_int_equal(completion(&q)->error, LH_OK);
    assert_true(lh_buf_read(&q.reply, 0, text, sizeof text));
    assert_memory_equal(text, "yes", 3);
    assert_int_equal(fx.count, 5); /* four lines of the core's log stay, in their order */
    assert_int_equal(fx.items[4].kind, LH_FX_COMPLETE);
    lh_buf_clear(&q.reply);
}

static void an_answer_in_a_later_step(void **state)
{
    struct lh_question q = question_of(1000);

    (void)state;
    step_at(LH_IN_CALL, &q, 0);
    assert_null(completion(&q));
    step_at(LH_IN_TIMER, NULL, 500);
    assert_null(completion(&q));
    assert_int_equal(fx.count, 3); /* what the core does with others passes through */
    echo.replies = true;
    struct lh_input in = {
        .kind = LH_IN_MESSAGE, .link = echo.link, .method = LH_METHOD_MASTERS, .now = {600000000}};
    lh_effects_clear(&fx);
    core.step(core.self, &in, &fx);
    assert_int_equal(completion(&q)->error, LH_OK);
    lh_buf_clear(&q.reply);
}

static void a_refusal(void **state)
{
    struct lh_question q = question_of(1000);

    (void)state;
    echo.refuses = true;
    step_at(LH_IN_CALL, &q, 0);
    assert_int_equal(completion(&q)->error, LH_ERR_NOT_ACTIVE);
    assert_string_equal(q.text, "ask another one");
    assert_int_equal(echo.messages, 0);
}

static void no_answer_in_time(void **state)
{
    struct lh_question q = question_of(1000), late = question_of(3000);

    (void)state;
    step_at(LH_IN_CALL, &late, 0);
    step_at(LH_IN_CALL, &q, 0);
    assert_true(core.deadline(core.self).ns == 1000000000);
    step_at(LH_IN_TIMER, NULL, 999);
    assert_null(completion(&q));
    step_at(LH_IN_TIMER, NULL, 1000);
    assert_int_equal(completion(&q)->error, LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(echo.closed, 1); /* the core need not keep it */
    assert_null(completion(&late));
    assert_true(core.deadline(core.self).ns == 3000000000);
    echo.deadline = (struct lh_instant){1};
    assert_true(core.deadline(core.self).ns == 1);
    step_at(LH_IN_TIMER, NULL, 3000);
    assert_int_equal(completion(&late)->error, LH_ERR_DEADLINE_EXCEEDED);
}

static void more_than_there_may_be(void **state)
{
    static struct lh_question all[LH_QUESTIONS_MAX + 1];

    (void)state;
    for (size_t i = 0; i <= LH_QUESTIONS_MAX; i++) {
        all[i] = question_of(1000);
        step_at(LH_IN_CALL, &all[i], 0);
    }
    assert_int_equal(completion(&all[LH_QUESTIONS_MAX])->error, LH_ERR_SHORTAGE);
    assert_int_equal(echo.opened, LH_QUESTIONS_MAX);
    step_at(LH_IN_TIMER, NULL, 1000);
    for (size_t i = 0; i < LH_QUESTIONS_MAX; i++)
        assert_non_null(completion(&all[i]));
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(an_answer_at_once),
        STORY(an_answer_in_a_later_step),
        STORY(a_refusal),
        STORY(no_answer_in_time),
        STORY(more_than_there_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
