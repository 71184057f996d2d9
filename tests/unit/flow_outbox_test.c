/* Who sends when a step ends (flow/outbox.h). The test is the core. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "flow/outbox.h"
#include "proto/leasehold.pb-c.h"

struct owner {
    struct lh_outbox outbox;
    char name;
    unsigned due; /* so much there is to send */
};

static void become_due(struct lh_outbox **touched, struct owner *o)
{
    o->due++;
    lh_outbox_touch(touched, &o->outbox);
}

/* The end of a step: all that is due goes, where the way is free. */
static void expect_sent(struct lh_outbox **touched, const char *names)
{
    Leasehold__AppendReply m = LEASEHOLD__APPEND_REPLY__INIT;
    struct lh_effects fx = {0};
    struct lh_outbox *next;
    char sent[8] = "";

    while ((next = lh_outbox_next(touched)) != NULL) {
        struct owner *o = LH_OWNER(next, struct owner, outbox);
        if (o->outbox.in_flight > 0 || o->due == 0)
            continue;
        sent[fx.count] = o->name;
        lh_outbox_send(&o->outbox, &fx, 7, &m.base, NULL);
        assert_int_equal(fx.items[fx.count - 1].kind, LH_FX_SEND);
        assert_int_equal(fx.items[fx.count - 1].link, 7);
        assert_true(fx.items[fx.count - 1].notify);
        o->due = 0;
    }
    assert_string_equal(sent, names);
    lh_effects_deinit(&fx);
}

static void what_becomes_due_in_a_step_goes_at_its_end(void **state)
{
    struct owner a = {.name = 'a'}, b = {.name = 'b'};
    struct lh_outbox *touched = NULL;

    (void)state;
    expect_sent(&touched, "");
    become_due(&touched, &a);
    become_due(&touched, &b);
    become_due(&touched, &a);
    expect_sent(&touched, "ba");
    expect_sent(&touched, "");
}

static void what_becomes_due_while_a_message_is_in_flight_goes_with_the_next(void **state)
{
    struct owner a = {.name = 'a'};
    struct lh_outbox *touched = NULL;

    (void)state;
    become_due(&touched, &a);
    expect_sent(&touched, "a");
    become_due(&touched, &a);
    expect_sent(&touched, "");
    become_due(&touched, &a);
    expect_sent(&touched, "");
    assert_int_equal(a.due, 2);
    lh_outbox_left(&a.outbox);
    lh_outbox_touch(&touched, &a.outbox);
    expect_sent(&touched, "a");
    lh_outbox_left(&a.outbox);
    lh_outbox_left(&a.outbox); /* of none */
    assert_int_equal(a.outbox.in_flight, 0);
}

static void an_owner_that_is_freed_is_not_asked(void **state)
{
    struct owner all[] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}};

    (void)state;
    for (unsigned freed = 0; freed < 8; freed++) {
        struct lh_outbox *touched = NULL;
        char names[4] = "";
        size_t left = 0;
        for (unsigned i = 0; i < 3; i++) {
            all[i].outbox.in_flight = 0;
            become_due(&touched, &all[i]);
        }
        for (unsigned i = 0; i < 3; i++)
            if ((freed & 1u << i) != 0)
                lh_outbox_forget(&touched, &all[i].outbox);
        for (unsigned i = 3; i-- > 0;)
            if ((freed & 1u << i) == 0)
                names[left++] = all[i].name;
        expect_sent(&touched, names);
        lh_outbox_forget(&touched, &all[0].outbox); /* it is in no list any more */
        assert_null(touched);
    }
}

static void a_step_may_touch_again_what_it_asks(void **state)
{
    struct owner a = {.name = 'a'};
    struct lh_outbox *touched = NULL;

    (void)state;
    become_due(&touched, &a);
    assert_ptr_equal(lh_outbox_next(&touched), &a.outbox);
    lh_outbox_touch(&touched, &a.outbox);
    expect_sent(&touched, "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_becomes_due_in_a_step_goes_at_its_end),
        cmocka_unit_test(what_becomes_due_while_a_message_is_in_flight_goes_with_the_next),
        cmocka_unit_test(an_owner_that_is_freed_is_not_asked),
        cmocka_unit_test(a_step_may_touch_again_what_it_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
