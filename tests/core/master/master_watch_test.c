/* Watching values (VAL-6): every change once and in order, over broken streams, slow watchers and
 * masters, or a reset with what is there. */
#include "tests/core/master/values_story.h"

#define VALUE_BYTES 65536

static void delete_value(const char *name)
{
    Leasehold__ChangeRequest r = change_to(name, NULL);

    changed(begin_change(&r));
}

/* The reply ends a reset. */
static void is_whole(const Leasehold__WatchReply *r)
{
    assert_non_null(r);
    assert_false(r->more);
}

static void a_watcher_begins_with_what_is_there_and_hears_of_every_change(void **state)
{
    (void)state;
    put_value("/a/x", "one");
    put_value("/b", "other");
    uint64_t link = watch("/a/", 0);
    const Leasehold__WatchReply *r = watched(link);
    assert_true(r->reset);
    is_whole(r);
    assert_int_equal(r->n_events, 1);
    is_event(r, 0, "/a/x", "one");
    world_sent(&w, link);
    assert_null(watched(link));

    put_value("/a/y", "two");
    r = watched(link);
    assert_false(r->reset);
    is_event(r, 0, "/a/y", "two");
    put_value("/b", "again");
    delete_value("/a/x");
    assert_null(watched(link)); /* its last message has not left */
    world_sent(&w, link);
    r = watched(link);
    assert_int_equal(r->n_events, 1);
    is_event(r, 0, "/a/x", NULL);
}

static void nothing_is_said_of_a_change_before_it_is_durable(void **state)
{
    (void)state;
    put_value("/a", "one");
    uint64_t link = watch("/", 2);
    w.hold_commits = true;
    Leasehold__ChangeRequest r = change_to("/a", "two");
    begin_change(&r);
    assert_null(watched(link));
    /* And one that begins now is not told of the old value either: it may be gone at any moment. */
    uint64_t later = watch("/", 0);
    const Leasehold__WatchReply *reply = watched(later);
    assert_true(reply->reset && reply->more && reply->n_events == 0);
    world_sent(&w, later);
    assert_null(watched(later));

    world_commit_all(&w);
    is_event(watched(link), 0, "/a", "two");
    reply = watched(later);
    is_event(reply, 0, "/a", "two");
    assert_int_equal(reply->n_events, 1);
    is_whole(reply);
    assert_int_equal(reply->next, 3);
}

static void a_watcher_goes_on_from_the_revision_that_it_names(void **state)
{
    (void)state;
    put_value("/a", "1");
    put_value("/b", "2");
    put_value("/a", "3");
    uint64_t link = watch("/a", 2);
    const Leasehold__WatchReply *r = watched(link);
    assert_false(r->reset);
    assert_int_equal(r->n_events, 1);
    is_event(r, 0, "/a", "3");
    assert_int_equal(r->next, 4);
    assert_null(watched(watch("/a", 4)));
}

static void a_watcher_goes_on_at_the_next_master(void **state)
{
    (void)state;
    put_value("/a", "1");
    put_value("/a", "2");
    crash();
    put_value("/a", "3");
    uint64_t link = watch("/", 2);
    const Leasehold__WatchReply *r = watched(link);
    assert_false(r->reset);
    assert_int_equal(r->n_events, 2);
    is_event(r, 0, "/a", "2");
    is_event(r, 1, "/a", "3");
    crash();
    assert_null(watched(watch("/", 4)));
}

static void a_watcher_that_the_history_does_not_reach_back_for_begins_anew(void **state)
{
    (void)state;
    w.config.history_events = 3;
    crash();
    for (unsigned i = 0; i < 10; i++)
        put_value("/a", "x");
    put_value("/b", "last");
    uint64_t link = watch("/", 9);
    assert_false(watched(link)->reset);
    link = watch("/", 4);
    const Leasehold__WatchReply *r = watched(link);
    assert_true(r->reset);
    is_whole(r);
    assert_int_equal(r->n_events, 2);
    is_event(r, 0, "/a", "x");
    is_event(r, 1, "/b", "last");
    assert_int_equal(r->next, 12);
    /* One that names a revision which was never given out has seen what is no more. */
    assert_true(watched(watch("/", 13))->reset);
    assert_null(watched(watch("/", 12)));
}

/* While the pages of a reset are on their way values change: before, at and behind the page. */
static void a_reset_in_pages_is_whole_when_it_has_caught_up(void **state)
{
    (void)state;
    w.config.watch_events = 2;
    crash();
    put_value("/a", "1");
    put_value("/b", "2");
    put_value("/c", "3");
    put_value("/d", "4");
    uint64_t link = watch("/", 0);
    const Leasehold__WatchReply *r = watched(link);
    assert_true(r->reset && r->more);
    assert_int_equal(r->n_events, 2);
    assert_int_equal(r->next, 0); /* whose stream breaks now begins again */

    put_value("/a", "5");
    put_value("/c", "6");
    delete_value("/d");
    world_sent(&w, link);
    r = watched(link);
    assert_true(!r->reset && r->more);
    /* Neither /c nor /d is as it was when the reset began: their changes follow. */
    is_event(r, 0, "/a", "5");
    is_event(r, 1, "/c", "6");
    assert_int_equal(r->n_events, 2);
    world_sent(&w, link);
    r = watched(link);
    assert_int_equal(r->n_events, 1);
    is_event(r, 0, "/d", NULL);
    is_whole(r);
    assert_int_equal(r->next, 8);
    world_sent(&w, link);
    assert_null(watched(link));
}

static void a_reset_that_is_too_slow_for_the_history_begins_anew(void **state)
{
    (void)state;
    w.config.watch_events = 1;
    w.config.history_events = 2;
    crash();
    put_value("/a", "1");
    put_value("/b", "2");
    uint64_t link = watch("/", 0);
    assert_true(watched(link)->reset);
    for (unsigned i = 0; i < 5; i++)
        put_value("/c", "x");
    world_sent(&w, link);
    const Leasehold__WatchReply *r = watched(link);
    assert_true(r->reset && r->more);
    is_event(r, 0, "/a", "1");
    for (unsigned i = 0; i < 3 && r->more; i++) {
        world_sent(&w, link);
        r = watched(link);
        assert_false(r->reset);
    }
    is_whole(r);
    assert_int_equal(r->next, 8);
}

static void a_watcher_that_does_not_read_has_one_message_in_flight(void **state)
{
    (void)state;
    uint64_t link = watch("/", 1);

    for (unsigned i = 0; i < 50; i++)
        put_value("/a", "x");
    assert_int_equal(watched(link)->n_events, 1);
    assert_null(watched(link));
    world_sent(&w, link);
    assert_int_equal(watched(link)->n_events, 49);
    world_sent(&w, link);
    assert_null(watched(link));
}

static void a_message_to_a_watcher_stays_below_a_megabyte(void **state)
{
    (void)state;
    char large[VALUE_BYTES + 1], name[16];

    memset(large, 'x', VALUE_BYTES);
    large[VALUE_BYTES] = 0;
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "/n%02u", i);
        put_value(name, large);
    }
    uint64_t link = watch("/", 0);
    size_t events = 0;
    const Leasehold__WatchReply *r;
    do {
        r = watched(link);
        assert_non_null(r);
        assert_true(leasehold__watch_reply__get_packed_size(r) < 1000000);
        events += r->n_events;
        world_sent(&w, link);
    } while (r->more);
    assert_int_equal(events, 40);
}

static void names_without_values_are_watched_for_less(void **state)
{
    (void)state;
    Leasehold__WatchRequest request = LEASEHOLD__WATCH_REQUEST__INIT;
    uint64_t link = world_open_link(&w, LH_METHOD_WATCH);

    put_value("/a", "one");
    request.prefix = (char *)(uintptr_t) "/";
    request.keys_only = true;
    request.from = 1;
    world_message(&w, link, &request);
    world_message(&w, link, &request); /* a stream has one request */
    const Leasehold__WatchReply *r = watched(link);
    assert_int_equal(r->events[0]->value.len, 0);
    assert_int_equal(r->n_events, 1);
    assert_null(watched(link));
}

static void there_are_at_most_so_many_watchers(void **state)
{
    (void)state;
    w.config.watchers_max = 2;
    crash();
    uint64_t first = watch("/", 1);
    watch("/", 1);
    assert_int_equal(watched(watch("/", 1))->error, LEASEHOLD__ERROR_CODE__NO_MEMORY);
    world_break_link(&w, first);
    assert_null(watched(watch("/", 1)));
}

static void a_step_looks_at_few_names_and_the_next_ones_at_the_rest(void **state)
{
    (void)state;
    char name[16];

    w.config.step_work = 8;
    crash();
    for (unsigned i = 0; i < 100; i++) {
        snprintf(name, sizeof name, i % 2 == 0 ? "/a%02u" : "/b%02u", i);
        put_value(name, "x");
    }
    uint64_t link = watch("/b", 0), follows = watch("/b", 1);
    size_t there = 0, events = 0;
    for (unsigned i = 0; i < 200; i++) {
        const Leasehold__WatchReply *r;
        while ((r = watched(link)) != NULL) {
            there += r->n_events;
            world_sent(&w, link);
        }
        while ((r = watched(follows)) != NULL) {
            events += r->n_events;
            world_sent(&w, follows);
        }
        world_advance(&w, 1);
    }
    assert_int_equal(there, 50);
    assert_int_equal(events, 50);
}

/* What was changed since the backup had revisions, too: a million in a minute or two. */
static void a_restored_store_gives_no_revision_again(void **state)
{
    (void)state;
    uint64_t first = put_value("/a", "one");
    w.config.restored = true;
    crash();
    w.config.restored = false;
    crash();
    assert_true(put_value("/a", "two") > first + (UINT64_C(1) << 40));
    uint64_t link = watch("/", first + (UINT64_C(1) << 30));
    world_advance(&w, 0);
    const Leasehold__WatchReply *r = watched(link);
    assert_true(r != NULL && r->reset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_restored_store_gives_no_revision_again),
        STORY(a_watcher_begins_with_what_is_there_and_hears_of_every_change),
        STORY(nothing_is_said_of_a_change_before_it_is_durable),
        STORY(a_watcher_goes_on_from_the_revision_that_it_names),
        STORY(a_watcher_goes_on_at_the_next_master),
        STORY(a_watcher_that_the_history_does_not_reach_back_for_begins_anew),
        STORY(a_reset_in_pages_is_whole_when_it_has_caught_up),
        STORY(a_reset_that_is_too_slow_for_the_history_begins_anew),
        STORY(a_watcher_that_does_not_read_has_one_message_in_flight),
        STORY(a_message_to_a_watcher_stays_below_a_megabyte),
        STORY(names_without_values_are_watched_for_less),
        STORY(there_are_at_most_so_many_watchers),
        STORY(a_step_looks_at_few_names_and_the_next_ones_at_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
