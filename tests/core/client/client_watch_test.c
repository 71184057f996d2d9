/* Watches of the client's core: every change once and in order, over streams and masters
 * (VAL-6). */
#include "tests/core/client/lease_world.h"

static struct world w;
static struct lh_client_watch *watch;
static struct lh_watch_next_call next;
static uint64_t link;

static const char *const one_master[] = {"m1:1"};

static void expect_watch(uint64_t from)
{
    link = expect_open(&w, LH_METHOD_WATCH, "m1:1");
    const Leasehold__WatchRequest *m = expect_send(&w, link);
    assert_string_equal(m->prefix, "/a/");
    assert_int_equal(m->from, from);
}

static void given_watch(uint64_t from, uint32_t replies)
{
    world_init_with(&w, (struct lh_client_config){
                            .masters = one_master, .master_count = 1, .watch_replies = replies});
    struct lh_watch_open_call call = {
        .call.kind = LH_CALL_WATCH_OPEN, .prefix = "/a/", .from = from};
    ask(&w, &call);
    expect_complete(&w, &call, LH_OK);
    watch = call.watch;
    expect_watch(from);
}

static void ask_next(uint64_t ms)
{
    next = (struct lh_watch_next_call){
        .call.kind = LH_CALL_WATCH_NEXT, .watch = watch, .deadline = in_ms(&w, ms)};
    ask(&w, &next);
}

/* Changes of those revisions, up to 8. */
static void say_changes(const uint64_t *revisions, size_t count, bool reset, bool more, uint64_t to)
{
    Leasehold__WatchReply m = LEASEHOLD__WATCH_REPLY__INIT;
    Leasehold__WatchEvent events[8], *list[8];

    for (size_t i = 0; i < count; i++) {
        leasehold__watch_event__init(&events[i]);
        events[i].name = (char *)(uintptr_t) "/a/x";
        events[i].revision = revisions[i];
        list[i] = &events[i];
    }
    m.events = list;
    m.n_events = count;
    m.reset = reset;
    m.more = more;
    m.next = to;
    say(&w, link, &m);
}

static void say_change(uint64_t revision)
{
    say_changes(&revision, 1, false, false, revision + 1);
}

static void expect_change(uint64_t revision)
{
    expect_complete(&w, &next, LH_OK);
    const Leasehold__WatchReply *m = (const Leasehold__WatchReply *)(const void *)next.reply;
    assert_int_equal(m->n_events, 1);
    assert_int_equal(m->events[0]->revision, revision);
    lh_wire_free(next.reply);
}

static void break_and_reopen(uint64_t from)
{
    break_link(&w, link);
    pass(&w);
    expect_watch(from);
}

static void changes_come_once_and_in_order(void **state)
{
    (void)state;
    given_watch(7, 0);
    ask_next(1000);
    say_change(7);
    expect_change(7);
    say_change(9);
    say_change(12);
    ask_next(1000);
    expect_change(9);
    break_and_reopen(13);
    say_change(12); /* again */
    say_change(13);
    ask_next(1000);
    expect_change(12);
    ask_next(1000);
    expect_change(13);
    ask_next(1000);
    expect_quiet(&w);
    pass_ms(&w, 1000);
    expect_complete(&w, &next, LH_ERR_DEADLINE_EXCEEDED);
    world_deinit(&w);
}

static void a_reset_that_was_cut_off_begins_again(void **state)
{
    (void)state;
    given_watch(7, 0);
    say_changes((const uint64_t[]){30}, 1, true, true, 0);
    break_and_reopen(0); /* events from 7 on would not make it whole */
    say_changes((const uint64_t[]){30}, 1, true, true, 0);
    say_changes((const uint64_t[]){3}, 1, false, false, 31);
    break_and_reopen(31);
    for (unsigned i = 0; i < 3; i++) {
        ask_next(1000);
        expect_change(i < 2 ? 30 : 3);
    }
    world_deinit(&w);
}

/* Nothing of locks is on record: each stream begins with a reset, and what it says counts. */
static void a_watch_of_locks_begins_again_with_each_stream(void **state)
{
    Leasehold__WatchReply m = LEASEHOLD__WATCH_REPLY__INIT;
    Leasehold__LockEvent e = LEASEHOLD__LOCK_EVENT__INIT, *events[] = {&e};

    (void)state;
    world_init_with(&w, (struct lh_client_config){.masters = one_master, .master_count = 1});
    struct lh_watch_open_call call = {
        .call.kind = LH_CALL_WATCH_OPEN, .prefix = "/a/", .from = 7, .locks = true};
    ask(&w, &call);
    expect_complete(&w, &call, LH_OK);
    watch = call.watch;
    e.name = (char *)(uintptr_t) "/a/x";
    m.reset = true;
    m.locks = events;
    m.n_locks = 1;
    for (unsigned i = 0; i < 3; i++) {
        link = expect_open(&w, LH_METHOD_WATCH, "m1:1");
        const Leasehold__WatchRequest *request = expect_send(&w, link);
        assert_true(request->locks);
        assert_int_equal(request->from, 0);
        m.more = i == 1; /* cut off within the reset */
        say(&w, link, &m);
        ask_next(1000);
        expect_complete(&w, &next, LH_OK);
        const Leasehold__WatchReply *r = (const Leasehold__WatchReply *)(const void *)next.reply;
        assert_true(r->reset);
        assert_string_equal(r->locks[0]->name, "/a/x");
        lh_wire_free(next.reply);
        break_link(&w, link);
        pass(&w);
    }
    world_deinit(&w);
}

/* A program that does not ask is not drowned. */
static void a_stream_is_held_while_nobody_asks(void **state)
{
    (void)state;
    given_watch(1, 2);
    say_change(1);
    assert_false(w.resting[link]);
    say_change(2);
    assert_true(w.resting[link]);
    ask_next(1000);
    expect_change(1);
    assert_false(w.resting[link]);
    world_deinit(&w);
}

static void a_refusal_ends_the_watch(void **state)
{
    Leasehold__WatchReply m = LEASEHOLD__WATCH_REPLY__INIT;

    (void)state;
    given_watch(1, 0);
    m.error = LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT;
    m.error_text = (char *)(uintptr_t) "no such prefix";
    say(&w, link, &m);
    expect_close(&w, link);
    ask_next(1000);
    expect_complete(&w, &next, LH_ERR_INVALID_ARGUMENT);
    assert_string_equal(next.call.text, "no such prefix");
    expect_quiet(&w);
    world_deinit(&w);
}

/* A master that froze says nothing on a stream where nothing is asked. */
static void a_watch_without_changes_finds_a_newer_master(void **state)
{
    Leasehold__MastersReply acts = LEASEHOLD__MASTERS_REPLY__INIT;

    (void)state;
    world_init(&w);
    struct lh_watch_open_call call = {.call.kind = LH_CALL_WATCH_OPEN, .prefix = "/a/", .from = 5};
    ask(&w, &call);
    expect_complete(&w, &call, LH_OK);
    watch = call.watch;
    expect_watch(5);
    say_change(5);
    pass_ms(&w, 5000);
    expect_request(&w, LH_METHOD_MASTERS, "m1:1", NULL);
    uint64_t m2 = expect_request(&w, LH_METHOD_MASTERS, "m2:1", NULL);
    acts.reign = 4;
    acts.acting = true;
    say(&w, m2, &acts);
    expect_close(&w, link);
    link = expect_open(&w, LH_METHOD_WATCH, "m2:1");
    assert_int_equal(((const Leasehold__WatchRequest *)expect_send(&w, link))->from, 6);
    world_deinit(&w);
}

static void closing_ends_the_call_that_waits(void **state)
{
    (void)state;
    given_watch(1, 0);
    ask_next(1000);
    struct lh_watch_close_call close = {.call.kind = LH_CALL_WATCH_CLOSE, .watch = watch};
    ask(&w, &close);
    expect_complete(&w, &next, LH_ERR_CANCELLED);
    expect_close(&w, link);
    expect_complete(&w, &close, LH_OK);
    expect_quiet(&w);
    world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_come_once_and_in_order),
        cmocka_unit_test(a_reset_that_was_cut_off_begins_again),
        cmocka_unit_test(a_watch_of_locks_begins_again_with_each_stream),
        cmocka_unit_test(a_stream_is_held_while_nobody_asks),
        cmocka_unit_test(a_refusal_ends_the_watch),
        cmocka_unit_test(a_watch_without_changes_finds_a_newer_master),
        cmocka_unit_test(closing_ends_the_call_that_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
