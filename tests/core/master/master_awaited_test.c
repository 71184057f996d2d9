/* PS-2a: a program that shows what it has to a new master, and is heard, is waited for. */
#include "tests/core/master/master_programs.h"

/* Of `one` before the master's death. */
static uint64_t token;

static void a_lock_is_held_and_the_master_dies(void)
{
    comes(&one);
    comes(&two);
    token = locks(&one, "/job", false);
    world_crash(&w);
    one.link = two.link = 0;
}

static void two_is_back_and_wants_it(void)
{
    assert_non_null(attach(&two, false));
    assert_non_null(shows(&two));
    asks(&two, "/job", false);
}

static void a_showing_may_take_longer_than_the_term(void **state)
{
    (void)state;
    a_lock_is_held_and_the_master_dies();
    assert_non_null(attach(&one, false));
    two_is_back_and_wants_it();

    for (unsigned i = 0; i < 10; i++) {
        assert_null(show_piece(&one, true));
        world_advance(&w, 4000);
        assert_true(beat(&one));
        assert_true(beat(&two));
        assert_null(granted(&two));
    }
    shows_lock("/job", token, false);
    const Leasehold__Shown *shown = shows(&one);
    assert_non_null(shown);
    assert_int_equal(shown->n_lost, 0);
    assert_null(granted(&two));
    assert_true(beat(&one));
    releases(&one, "/job", token);
    assert_non_null(granted(&two));
}

static void a_program_that_is_not_heard_is_over_as_ever(void **state)
{
    (void)state;
    a_lock_is_held_and_the_master_dies();
    assert_non_null(attach(&one, false));
    two_is_back_and_wants_it();
    world_advance(&w, 4000);
    assert_true(beat(&one));
    assert_true(beat(&two));

    /* The promise is worth a term. */
    for (unsigned i = 0; i < 3; i++) {
        world_advance(&w, 3000);
        assert_true(beat(&two));
        assert_null(granted(&two));
    }
    world_advance(&w, 1100);
    assert_non_null(granted(&two));
}

static void nobody_is_awaited_for_ever(void **state)
{
    (void)state;
    w.config.showing_max = lh_seconds(30);
    a_lock_is_held_and_the_master_dies();
    assert_non_null(attach(&one, false));
    two_is_back_and_wants_it();
    for (unsigned i = 0; i < 7; i++) {
        world_advance(&w, 4000);
        assert_true(beat(&one));
        assert_true(beat(&two));
    }
    for (unsigned i = 0; i < 2; i++) {
        world_advance(&w, 4000);
        assert_false(beat(&one));
        assert_true(beat(&two));
        assert_null(granted(&two));
    }
    world_advance(&w, 2100);
    assert_non_null(granted(&two));
}

/* What the master has granted since it started it may have cut since as well (NL-4). */
static void within_a_reign_nothing_is_renewed_before_all_is_shown(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    token = locks(&one, "/job", false);
    world_break_link(&w, one.link);
    asks(&two, "/job", false);
    assert_non_null(attach(&one, false));
    assert_null(show_piece(&one, true));
    for (unsigned i = 0; i < 3; i++) {
        world_advance(&w, 3000);
        assert_false(beat(&one));
        assert_true(beat(&two));
        assert_null(granted(&two));
    }
    world_advance(&w, 1100);
    assert_non_null(granted(&two));
}

static void what_it_cached_is_not_changed_meanwhile(void **state)
{
    (void)state;
    comes(&one);
    world_crash(&w);
    assert_non_null(attach(&one, false));
    Leasehold__ChangeRequest r = LEASEHOLD__CHANGE_REQUEST__INIT;
    r.name = (char *)(uintptr_t) "/setting";
    r.value = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t) "v", .len = 1};
    r.wait_ms = 60000;
    uint64_t put = world_call(&w, LH_METHOD_CHANGE, &r);
    for (unsigned i = 0; i < 5; i++) {
        world_advance(&w, 4000);
        assert_true(beat(&one));
        assert_null(world_reply(&w, put));
    }
    assert_non_null(shows(&one));
    world_advance(&w, 100);
    assert_non_null(world_reply(&w, put));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_showing_may_take_longer_than_the_term),
        STORY(a_program_that_is_not_heard_is_over_as_ever),
        STORY(nobody_is_awaited_for_ever),
        STORY(within_a_reign_nothing_is_renewed_before_all_is_shown),
        STORY(what_it_cached_is_not_changed_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
