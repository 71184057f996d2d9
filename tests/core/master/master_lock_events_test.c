/* What ListEvents says of locks and values. */
#include "tests/core/master/master_programs.h"

static const Leasehold__ListEventsReply *events_of(const char *name)
{
    Leasehold__ListEventsRequest r = LEASEHOLD__LIST_EVENTS_REQUEST__INIT;

    r.name = (char *)(uintptr_t)name;
    return world_reply(&w, world_call(&w, LH_METHOD_LIST_EVENTS, &r));
}

/* As many letters as events, the oldest first: g)ranted, q)ueued, w)ithdrawn, r)eleased, e)xpired,
 * y)ielded, c)ancelled, R)ecalled, o)n, x: another. */
static const char *story_of(const char *name)
{
    static char text[64];
    static const char letters[] = "xgxoxRxycrexqwVx";
    const Leasehold__ListEventsReply *r = events_of(name);

    assert_true(r->n_events < sizeof text);
    for (size_t i = 0; i < r->n_events; i++)
        text[r->n_events - 1 - i] = letters[r->events[i]->kind];
    text[r->n_events] = '\0';
    return text;
}

static void a_lock_from_hand_to_hand(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false);
    asks(&two, "/a", false);
    releases(&one, "/a", token);
    assert_string_equal(story_of("/a"), "gqrg");
    const Leasehold__ListEventsReply *r = events_of("/a");
    assert_int_equal(r->events[3]->version, token);
    assert_int_equal(r->events[1]->version, token);
    assert_true(r->events[0]->left_ms > 0);
    assert_memory_equal(r->events[3]->session.data, one.id, r->events[3]->session.len);
    assert_memory_equal(r->events[0]->session.data, two.id, r->events[0]->session.len);
    assert_string_equal(r->events[0]->holder, "backup");
    assert_string_equal(story_of("/b"), "");
}

static void what_is_withdrawn_yielded_and_cancelled(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false);
    withdraws(&two, asks(&two, "/a", false));
    assert_string_equal(story_of("/a"), "gqw");
    yields(&one, "/a", token, 100);
    world_advance(&w, 1000);
    assert_string_equal(story_of("/a"), "gqwye");
    token = locks(&two, "/b", false);
    cancels("/b", 0, 0);
    assert_string_equal(story_of("/b"), "gc");
}

static void a_session_that_runs_out(void **state)
{
    (void)state;
    comes(&one);
    locks(&one, "/a", false);
    world_advance(&w, 10002);
    assert_null(look_at("/a")); /* its record is gone, and what happened is not */
    assert_string_equal(story_of("/a"), "ge");
}

static void both_ends_of_a_locks_term(void **state)
{
    (void)state;
    comes(&one);
    locks(&one, "/a", false);
    world_advance(&w, 1000);
    const Leasehold__LockHolder *h = look_at("/a")->holders[0];
    assert_true(h->holder_left_ms > 0);
    assert_true(h->holder_left_ms < h->left_ms); /* TIME-4 */
}

/* A lock that is taken all the time does not have the past of another one forgotten. */
static void a_busy_name_beside_a_quiet_one(void **state)
{
    (void)state;
    w.config.events_max = 128;
    w.config.events_session = 16;
    world_crash(&w);
    comes(&one);
    comes(&two);
    comes(&three);
    locks(&three, "/quiet", false);
    for (int i = 0; i < 1000; i++) {
        struct prog *p = i % 2 == 0 ? &one : &two;
        releases(p, "/busy", locks(p, "/busy", false));
    }
    assert_string_equal(story_of("/quiet"), "g");
    const Leasehold__ListEventsReply *r = events_of("/busy");
    assert_int_equal(r->n_events, 4 * 16);
    assert_int_equal(r->unnoted, 1000 - 2 * 16);
    assert_false(r->more);
}

/* With all that becomes of it, or not at all. */
static void a_request_of_too_many(void **state)
{
    (void)state;
    w.config.events_session = 1;
    world_crash(&w);
    comes(&one);
    comes(&two);
    comes(&three);
    uint64_t token = locks(&one, "/a", false), other = locks(&one, "/b", false);
    asks(&two, "/b", false);
    withdraws(&three, asks(&three, "/b", false));
    withdraws(&three, asks(&three, "/b", false));
    releases(&one, "/a", token);
    releases(&one, "/b", other);
    releases(&two, "/b", granted(&two)->token);
    assert_string_equal(story_of("/a"), "gr");
    assert_string_equal(story_of("/b"), "qqwgr");
    world_advance(&w, 1100);
    assert_true(beat(&one));
    token = locks(&one, "/b", false);
    other = locks(&one, "/c", false);
    cancels("/c", 0, 0);
    assert_string_equal(story_of("/b"), "qqwgrg");
    assert_string_equal(story_of("/c"), "c"); /* what is no daily matter is noted */
}

static void over_and_over_by_one_session(void **state)
{
    (void)state;
    w.config.events_session = 2000;
    world_crash(&w);
    comes(&one);
    comes(&two);
    releases(&two, "/a", locks(&two, "/a", false));
    for (int i = 0; i < 1000; i++)
        releases(&one, "/a", locks(&one, "/a", false));
    assert_string_equal(story_of("/a"), "grgr");
    assert_int_equal(events_of("/a")->events[1]->count, 999);
    assert_int_equal(events_of("/a")->events[3]->count, 0);
    locks(&one, "/a", false);
    assert_string_equal(story_of("/a"), "grg");
    assert_int_equal(events_of("/a")->events[0]->count, 1000);
    assert_false(events_of("/a")->more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_lock_from_hand_to_hand),
        STORY(what_is_withdrawn_yielded_and_cancelled),
        STORY(a_session_that_runs_out),
        STORY(both_ends_of_a_locks_term),
        STORY(a_busy_name_beside_a_quiet_one),
        STORY(a_request_of_too_many),
        STORY(over_and_over_by_one_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
