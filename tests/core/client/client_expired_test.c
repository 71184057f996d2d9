/* A session whose term ran out on the program's clock: what was held in it is lost, and the session
 * goes on if a master still has its record (PS-3, PS-4, NL-3). */
#include "tests/core/client/lease_world.h"

static struct world w;
static struct stage s;

static struct lh_get_call get_of(const char *name)
{
    return (struct lh_get_call){
        .call.kind = LH_CALL_GET, .session = s.session, .name = name, .deadline = in_ms(&w, 60000)};
}

/* Any thread would serve it now. */
static bool serves(const char *name)
{
    struct lh_client_value *v = NULL;
    bool found = lh_client_cached(s.session, name, w.now, &v);

    lh_client_value_unref(v);
    return found;
}

/* It is read, and cached. */
static void given_cached(const char *name, uint64_t revision)
{
    struct lh_get_call get = get_of(name);
    Leasehold__ValueRead m = LEASEHOLD__VALUE_READ__INIT;

    ask(&w, &get);
    m.id = expect_op(&s, LEASEHOLD__LEASE_OP__OP_READ)->read->id;
    m.revision = revision;
    m.value = (ProtobufCBinaryData){.data = (uint8_t *)"text", .len = 4};
    m.leased = true;
    m.stamp = s.stamp;
    m.term_ns = 60 * TERM_MS * UINT64_C(1000000); /* the session is over first */
    say_one(&s, answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE, &m));
    expect_complete(&w, &get, LH_OK);
    lh_client_value_unref(get.value);
    assert_true(serves(name));
}

/* One master alone; nothing is doubted before the term is over. */
static void given_lone_session(void)
{
    given_session_with(&s, &w,
        (struct lh_client_config){.masters = (const char *[]){"m1:1"},
            .master_count = 1,
            .try_timeout = lh_milliseconds(60000),
            .suspended_after = lh_milliseconds(60000)});
}

static const char *const NO_LOCK = NULL;

/* No answer comes for the whole term: the lock is lost, then the session has run out, and the next
 * stream attaches. `name`: of a lock that it holds, or NO_LOCK. */
static void run_out(const char *name)
{
    uint64_t lock = name == NULL ? 0 : given_lock(&s, name, 7, false);
    uint64_t old = s.link;

    await_event(&s);
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    w.now = in_ms(&w, TERM_MS - BEAT_MS);
    assert_int_equal(session_left_ms(&s), 0);
    /* The answer that would have renewed it comes at that very moment: too late. */
    say_beat(&s, s.stamp);
    if (lock != 0)
        expect_event(&s, LH_CLIENT_LOCK_LOST, lock);
    else
        expect_event(&s, LH_CLIENT_EXPIRED, 0);
    expect_close(&w, old);
    assert_false(expect_attach(&s, "m1:1")->opens);
    if (lock == 0)
        return;
    assert_int_equal(lock_left_ms(&s, lock), 0);
    await_event(&s);
    expect_event(&s, LH_CLIENT_EXPIRED, 0);
}

/* Its locks and caches are lost, and shown no more; the requests that wait are. */
static void a_session_that_ran_out_goes_on_where_its_record_is_left(void **state)
{
    (void)state;
    given_lone_session();
    struct lh_acquire_call waits = acquire_call(&s, "/b");
    ask(&w, &waits);
    uint64_t id = expect_acquire(&s, "/b");
    say_queued(&s, id, 12);
    given_cached("/v", 5);
    run_out("/a");
    assert_false(serves("/v"));

    say_greeting(&s, 4);
    const Leasehold__Show *show = expect_show(&s);
    assert_int_equal(show->n_locks + show->n_values, 0);
    assert_int_equal(show->n_waiting, 1);
    assert_int_equal(show->waiting[0]->queued, 12);
    assert_int_equal(session_left_ms(&s), 0);
    await_event(&s);
    say_shown(&s);
    expect_event(&s, LH_CLIENT_RESUMED, 0);
    assert_int_equal(session_left_ms(&s), TERM_MS);
    expect_quiet(&w);

    say_granted(&s, id, 9);
    expect_complete(&w, &waits, LH_OK);
    assert_int_equal(lock_left_ms(&s, waits.lock), TERM_MS);
    expect_quiet(&w);
    world_deinit(&w);
}

/* Only the master's word is final. */
static void a_session_that_ran_out_and_is_forgotten_is_lost(void **state)
{
    (void)state;
    given_lone_session();
    struct lh_acquire_call waits = acquire_call(&s, "/b");
    ask(&w, &waits);
    expect_acquire(&s, "/b");
    run_out("/a");
    await_event(&s);
    end_link(&w, s.link, LH_ERR_UNKNOWN_SESSION, NULL);
    expect_complete(&w, &waits, LH_ERR_CLOSED);
    expect_event(&s, LH_CLIENT_LOST, 0);
    expect_quiet(&w);

    struct lh_acquire_call call = acquire_call(&s, "/b");
    ask(&w, &call);
    expect_complete(&w, &call, LH_ERR_CLOSED);
    struct lh_session_close_call close = {
        .call.kind = LH_CALL_SESSION_CLOSE, .session = s.session, .deadline = in_ms(&w, 1000)};
    ask(&w, &close);
    expect_complete(&w, &close, LH_OK);
    expect_quiet(&w);
    world_deinit(&w);
}

/* What it asks for while it is out waits: a lock that it had before, and a value. */
static void calls_of_a_session_that_ran_out_wait(void **state)
{
    (void)state;
    given_lone_session();
    run_out("/a");
    struct lh_acquire_call again = acquire_call(&s, "/a"), late = acquire_call(&s, "/c");
    struct lh_get_call get = get_of("/v");
    late.deadline = in_ms(&w, 100);
    ask(&w, &again);
    ask(&w, &late);
    ask(&w, &get);
    expect_quiet(&w);
    pass_ms(&w, 100);
    expect_complete(&w, &late, LH_ERR_DEADLINE_EXCEEDED);

    say_greeting(&s, 3);
    const Leasehold__Show *show = expect_show(&s);
    assert_int_equal(show->n_locks, 0);
    assert_int_equal(show->n_waiting, 1);
    assert_string_equal(show->waiting[0]->name, "/a");
    say_shown(&s);
    expect_op(&s, LEASEHOLD__LEASE_OP__OP_READ);
    world_deinit(&w);
}

/* The showing is answered when its own term is over: that answer renews nothing. */
static void a_showing_that_is_answered_too_late_brings_nothing_back(void **state)
{
    (void)state;
    given_lone_session();
    run_out(NO_LOCK);
    await_event(&s);
    say_greeting(&s, 3);
    expect_show(&s);
    w.now = in_ms(&w, TERM_MS);
    uint64_t old = s.link;
    say_shown(&s);
    expect_close(&w, old);
    assert_int_equal(session_left_ms(&s), 0);
    pass(&w);
    attached_and_shown(&s, "m1:1", 3);
    expect_event(&s, LH_CLIENT_RESUMED, 0);
    expect_quiet(&w);
    world_deinit(&w);
}

/* However often: the program has not listened, and hears of each lock, and then how it stands. */
static void what_nobody_heard_of_a_session_that_ran_out_is_summed_up(void **state)
{
    (void)state;
    given_lone_session();
    uint64_t lock = given_lock(&s, "/a", 7, false);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t old = s.link;
        pass_ms(&w, BEAT_MS);
        expect_beat(&s);
        w.now = in_ms(&w, TERM_MS - BEAT_MS);
        say_beat(&s, s.stamp);
        expect_close(&w, old);
        attached_and_shown(&s, "m1:1", 3);
        expect_quiet(&w);
    }
    await_event(&s);
    expect_event(&s, LH_CLIENT_LOCK_LOST, lock);
    await_event(&s);
    expect_event(&s, LH_CLIENT_EXPIRED, 0);
    await_event(&s);
    expect_event(&s, LH_CLIENT_RESUMED, 0);
    await_event(&s);
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_session_that_ran_out_is_closed(void **state)
{
    (void)state;
    given_lone_session();
    run_out("/a");
    struct lh_session_close_call close = {
        .call.kind = LH_CALL_SESSION_CLOSE, .session = s.session, .deadline = in_ms(&w, 1000)};
    ask(&w, &close);
    expect_quiet(&w);
    say_greeting(&s, 3);
    expect_request_on(&w, s.link, LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE);
    end_link(&w, s.link, LH_OK, NULL);
    expect_complete(&w, &close, LH_OK);
    expect_quiet(&w);
    world_deinit(&w);
}

/* While no stream was up: the pause goes on, and attaching with it. */
static void a_session_may_run_out_between_two_streams(void **state)
{
    (void)state;
    given_session_with(&s, &w,
        (struct lh_client_config){.masters = (const char *[]){"m1:1"},
            .master_count = 1,
            .suspended_after = lh_milliseconds(60000)});
    await_event(&s);
    break_link(&w, s.link);
    while (session_left_ms(&s) > 0) {
        pass(&w);
        if (w.taken == w.count || w.events[w.taken].kind == LH_FX_COMPLETE)
            continue;
        expect_attach(&s, "m1:1");
        break_link(&w, s.link);
    }
    expect_event(&s, LH_CLIENT_EXPIRED, 0);
    await_event(&s);
    pass(&w);
    attached_and_shown(&s, "m1:1", 3);
    expect_event(&s, LH_CLIENT_RESUMED, 0);
    world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_that_ran_out_goes_on_where_its_record_is_left),
        cmocka_unit_test(a_session_that_ran_out_and_is_forgotten_is_lost),
        cmocka_unit_test(calls_of_a_session_that_ran_out_wait),
        cmocka_unit_test(a_showing_that_is_answered_too_late_brings_nothing_back),
        cmocka_unit_test(what_nobody_heard_of_a_session_that_ran_out_is_summed_up),
        cmocka_unit_test(a_session_that_ran_out_is_closed),
        cmocka_unit_test(a_session_may_run_out_between_two_streams),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
