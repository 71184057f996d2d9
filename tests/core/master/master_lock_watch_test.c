/* Watching locks: who holds them when the stream begins, and then what happens to them. Nothing is
 * promised beyond the stream. */
#include "tests/core/master/values_story.h"

#define GRANTED  LEASEHOLD__LOCK_EVENT_KIND__LOCK_GRANTED
#define RELEASED LEASEHOLD__LOCK_EVENT_KIND__LOCK_RELEASED
#define ENDED    LEASEHOLD__LOCK_EVENT_KIND__LOCK_ENDED
#define CUT      LEASEHOLD__LOCK_EVENT_KIND__LOCK_CUT

static uint64_t watch_locks(const char *prefix)
{
    Leasehold__WatchRequest r = LEASEHOLD__WATCH_REQUEST__INIT;
    uint64_t link = world_open_link(&w, LH_METHOD_WATCH);

    r.prefix = (char *)(uintptr_t)prefix;
    r.locks = true;
    world_message(&w, link, &r);
    return link;
}

/* The next reply, of so many events; the one after it may come. */
static const Leasehold__WatchReply *notified(uint64_t link, size_t count)
{
    const Leasehold__WatchReply *r = watched(link);

    assert_non_null(r);
    assert_int_equal(r->error, 0);
    assert_int_equal(r->n_locks, count);
    assert_int_equal(r->n_events, 0);
    assert_int_equal(r->next, 0);
    return r;
}

static const Leasehold__LockHolder *is_lock(const Leasehold__WatchReply *r, size_t i,
    Leasehold__LockEventKind kind, const char *name, const struct prog *p, uint64_t token)
{
    assert_true(i < r->n_locks);
    const Leasehold__LockEvent *e = r->locks[i];
    assert_int_equal(e->kind, kind);
    assert_string_equal(e->name, name);
    assert_memory_equal(e->holder->session.data, p->id, sizeof p->id);
    assert_int_equal(e->holder->token, token);
    return e->holder;
}

/* One event alone, and nothing behind it. */
static const Leasehold__LockHolder *is_told(uint64_t link, Leasehold__LockEventKind kind,
    const char *name, const struct prog *p, uint64_t token)
{
    const Leasehold__LockHolder *h = is_lock(notified(link, 1), 0, kind, name, p, token);

    world_sent(&w, link);
    return h;
}

/* A stream that has begun, and been told that there is nothing. */
static uint64_t given_watch(const char *prefix)
{
    uint64_t link = watch_locks(prefix);
    const Leasehold__WatchReply *r = notified(link, 0);

    assert_true(r->reset && !r->more);
    world_sent(&w, link);
    return link;
}

static void a_watcher_hears_who_holds_what_and_then_of_every_change(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    Leasehold__Acquire a = acquire_of(&one, "/a/x", false);
    a.info = text_bytes("4711");
    asks_with(&one, &a);
    uint64_t token = granted(&one)->token;
    locks(&one, "/b", false);
    put_value("/a/value", "of no interest");

    uint64_t link = watch_locks("/a/");
    const Leasehold__WatchReply *r = notified(link, 1);
    assert_true(r->reset && !r->more);
    const Leasehold__LockHolder *h = is_lock(r, 0, GRANTED, "/a/x", &one, token);
    assert_string_equal(h->label, "backup");
    assert_true(is_text(&h->info, "4711"));
    assert_int_equal(h->mode, LEASEHOLD__LOCK_MODE__EXCLUSIVE);
    assert_null(watched(link));
    world_sent(&w, link);

    asks(&two, "/a/x", false);
    asks(&two, "/b", false); /* not under the prefix */
    assert_null(watched(link));
    releases(&one, "/a/x", token);
    uint64_t next = granted(&two)->token;
    r = notified(link, 2);
    is_lock(r, 0, RELEASED, "/a/x", &one, token);
    is_lock(r, 1, GRANTED, "/a/x", &two, next);
    world_sent(&w, link);

    cancels("/a/x", 0, 60000);
    h = is_told(link, CUT, "/a/x", &two, next);
    assert_true(h->cut && h->left_ms > 0 && h->left_ms <= 2 * two.term_ms);
    closes(&two);
    is_told(link, ENDED, "/a/x", &two, 0);
    assert_null(watched(link));
}

static void those_who_share_are_told_one_by_one(void **state)
{
    (void)state;
    uint64_t link = given_watch("");
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/s", true);
    assert_int_equal(is_told(link, GRANTED, "/s", &one, token)->mode, LEASEHOLD__LOCK_MODE__SHARED);
    assert_int_equal(locks(&two, "/s", true), token);
    is_told(link, GRANTED, "/s", &two, token);
    releases(&one, "/s", token);
    is_told(link, RELEASED, "/s", &one, token);
    yields(&two, "/s", token, 100);
    assert_true(is_told(link, CUT, "/s", &two, token)->left_ms >= 100);
}

/* What is not shown has ended; what is shown to a master that does not know it is granted. */
static void showing_is_told(void **state)
{
    (void)state;
    comes(&one);
    uint64_t a = locks(&one, "/a", false), b = locks(&one, "/b", false);
    uint64_t link = watch_locks("");
    notified(link, 2);
    world_sent(&w, link);
    attach(&one, false);
    shows_lock("/b", b, false);
    assert_non_null(shows(&one));
    is_told(link, ENDED, "/a", &one, a);

    crash();
    link = given_watch("");
    attach(&one, false);
    shows_lock("/b", b, false);
    assert_non_null(shows(&one));
    is_told(link, GRANTED, "/b", &one, b);
}

/* One event in a message: what happens before, at and behind the page. */
static void pages_and_events_make_one_history(void **state)
{
    (void)state;
    w.config.watch_events = 1;
    crash();
    comes(&one);
    comes(&two);
    uint64_t a = locks(&one, "/a", false), b = locks(&one, "/b", false);
    uint64_t s = locks(&one, "/s", true), c;
    assert_int_equal(locks(&two, "/s", true), s);
    uint64_t link = watch_locks("");
    const Leasehold__WatchReply *r = notified(link, 1);
    assert_true(r->reset && r->more);
    is_lock(r, 0, GRANTED, "/a", &one, a);

    releases(&one, "/a", a); /* told already: it follows */
    releases(&one, "/b", b); /* not yet */
    c = locks(&two, "/c", false);
    world_sent(&w, link);
    r = notified(link, 1);
    assert_true(!r->reset && r->more);
    is_lock(r, 0, RELEASED, "/a", &one, a);
    world_sent(&w, link);
    is_lock(notified(link, 1), 0, GRANTED, "/c", &two, c);
    world_sent(&w, link);
    is_lock(notified(link, 1), 0, GRANTED, "/s", &one, s);
    releases(&one, "/s", s); /* between the two who share it */
    world_sent(&w, link);
    is_lock(notified(link, 1), 0, RELEASED, "/s", &one, s);
    world_sent(&w, link);
    r = notified(link, 1);
    assert_false(r->more);
    is_lock(r, 0, GRANTED, "/s", &two, s);
    world_sent(&w, link);
    assert_null(watched(link));
}

static void a_watcher_that_falls_behind_begins_again(void **state)
{
    (void)state;
    w.config.lock_events = 3;
    crash();
    comes(&one);
    uint64_t slow = given_watch(""), fast = given_watch(""), token;
    token = locks(&one, "/a", false);
    is_told(fast, GRANTED, "/a", &one, token);
    notified(slow, 1); /* and it does not leave */
    for (unsigned i = 0; i < 2; i++) {
        releases(&one, "/a", token);
        is_told(fast, RELEASED, "/a", &one, token);
        token = locks(&one, "/a", false);
        is_told(fast, GRANTED, "/a", &one, token);
    }
    assert_null(watched(slow));
    world_sent(&w, slow);
    const Leasehold__WatchReply *r = notified(slow, 1);
    assert_true(r->reset && !r->more);
    is_lock(r, 0, GRANTED, "/a", &one, token);
    world_sent(&w, slow);

    /* One that is a little behind loses nothing. */
    releases(&one, "/a", token);
    notified(slow, 1);
    token = locks(&one, "/a", false);
    releases(&one, "/a", token);
    world_sent(&w, slow);
    r = notified(slow, 2);
    assert_false(r->reset);
    is_lock(r, 0, GRANTED, "/a", &one, token);
    is_lock(r, 1, RELEASED, "/a", &one, token);
}

static void streams_of_both_kinds_have_one_bound_and_end_with_the_master(void **state)
{
    (void)state;
    w.config.watchers_max = 2;
    crash();
    uint64_t of_values = watch("", 0), of_locks = given_watch("");
    assert_true(watched(of_values)->reset);
    assert_int_equal(watched(watch_locks(""))->error, LEASEHOLD__ERROR_CODE__NO_MEMORY);
    assert_int_equal(watched(watch("", 0))->error, LEASEHOLD__ERROR_CODE__NO_MEMORY);
    world_break_link(&w, of_locks);
    of_locks = given_watch("");
    world_stop(&w);
    assert_int_equal(world_end(&w, of_locks), LH_ERR_SHUTTING_DOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_watcher_hears_who_holds_what_and_then_of_every_change),
        STORY(those_who_share_are_told_one_by_one),
        STORY(showing_is_told),
        STORY(pages_and_events_make_one_history),
        STORY(a_watcher_that_falls_behind_begins_again),
        STORY(streams_of_both_kinds_have_one_bound_and_end_with_the_master),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
