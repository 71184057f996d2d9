/* Sessions of the client's core: attaching, showing, heartbeats, silence, the end (PS-1 to PS-4,
 * NL-3). */
#include "tests/core/client/lease_world.h"

static struct world w;
static struct stage s;

static void a_session_is_open_when_it_is_back(void **state)
{
    (void)state;
    world_init(&w);
    open_session(&s, &w);
    const Leasehold__Attach *a = expect_attach(&s, "m1:1");
    assert_int_equal(a->session.len, 16);
    assert_true(a->opens);
    assert_int_equal(a->stream, 1);
    assert_string_equal(a->host, "h1");
    assert_string_equal(a->process, "4711 backup");
    assert_string_equal(a->label, "backup");
    expect_quiet(&w);

    say_greeting(&s, 3);
    const Leasehold__Show *show = expect_show(&s);
    assert_false(show->more);
    assert_int_equal(show->n_locks + show->n_waiting + show->n_values, 0);
    expect_quiet(&w);

    /* The term counts from when the showing was sent (TIME-4). */
    w.now = in_ms(&w, 100);
    say_shown(&s);
    expect_complete(&w, &s.open, LH_OK);
    s.session = s.open.session;
    assert_int_equal(session_left_ms(&s), TERM_MS - 100);
    expect_quiet(&w);
    world_deinit(&w);
}

static void heartbeats_go_every_third_and_renew(void **state)
{
    (void)state;
    given_session(&s, &w);
    uint64_t shown = s.stamp;
    pass(&w);
    assert_int_equal(w.now.ns, shown + BEAT_MS * UINT64_C(1000000));
    assert_int_equal(expect_beat(&s)->last_stamp, shown);
    assert_int_equal(session_left_ms(&s), TERM_MS - BEAT_MS);
    uint64_t beat = s.stamp;
    pass_ms(&w, 200);
    say_beat(&s, beat);
    assert_int_equal(session_left_ms(&s), TERM_MS - 200);

    /* What was never sent renews nothing, nor does what was answered before. */
    say_beat(&s, beat + 1);
    say_beat(&s, shown);
    assert_int_equal(session_left_ms(&s), TERM_MS - 200);
    pass(&w);
    assert_int_equal(expect_beat(&s)->last_stamp, beat);
    expect_quiet(&w);
    world_deinit(&w);
}

/* ---- Which master. */

static void a_standby_leads_to_the_active_master(void **state)
{
    Leasehold__MastersReply acts = LEASEHOLD__MASTERS_REPLY__INIT;

    (void)state;
    world_init(&w);
    open_session(&s, &w);
    expect_attach(&s, "m1:1");
    end_link(&w, s.link, LH_ERR_NOT_ACTIVE, "m2:1 is the active master");
    expect_request(&w, LH_METHOD_MASTERS, "m1:1", NULL);
    uint64_t m2 = expect_request(&w, LH_METHOD_MASTERS, "m2:1", NULL);
    acts.reign = 4;
    acts.acting = true;
    say(&w, m2, &acts);
    assert_int_equal(expect_attach(&s, "m2:1")->stream, 2);
    say_greeting(&s, 4);
    expect_show(&s);
    say_shown(&s);
    expect_complete(&w, &s.open, LH_OK);
    world_deinit(&w);
}

static void a_greeting_of_a_lower_reign_is_refused(void **state)
{
    (void)state;
    given_session_with(
        &s, &w, (struct lh_client_config){.masters = (const char *[]){"m1:1"}, .master_count = 1});
    break_link(&w, s.link);
    pass(&w);
    assert_false(expect_attach(&s, "m1:1")->opens);
    say_greeting(&s, 2);
    expect_close(&w, s.link);
    expect_quiet(&w);
    pass(&w);
    assert_int_equal(expect_attach(&s, "m1:1")->stream, 3);
    say_greeting(&s, 3);
    expect_show(&s);
    world_deinit(&w);
}

static void a_silent_master_is_doubted_and_left_for_a_newer_one(void **state)
{
    Leasehold__MastersReply acts = LEASEHOLD__MASTERS_REPLY__INIT;

    (void)state;
    given_session(&s, &w);
    pass(&w);
    expect_beat(&s);
    pass_ms(&w, 500);
    expect_request(&w, LH_METHOD_MASTERS, "m1:1", NULL);
    uint64_t m2 = expect_request(&w, LH_METHOD_MASTERS, "m2:1", NULL);
    uint64_t old = s.link;
    acts.reign = 4;
    acts.acting = true;
    say(&w, m2, &acts);
    expect_close(&w, old);
    assert_false(expect_attach(&s, "m2:1")->opens);
    say_greeting(&s, 4);
    expect_show(&s);
    say_shown(&s);
    assert_int_equal(session_left_ms(&s), TERM_MS);
    /* What the first one still says is nobody's. */
    s.link = old;
    say_beat(&s, s.stamp);
    world_deinit(&w);
}

static void say_acts(uint64_t link, uint64_t reign)
{
    Leasehold__MastersReply acts = LEASEHOLD__MASTERS_REPLY__INIT;

    acts.reign = reign;
    acts.acting = true;
    say(&w, link, &acts);
}

/* Nothing is asked on it before its next heartbeat, and somebody may wait for what it has. */
static void a_quiet_session_goes_where_a_call_has_found_a_newer_master(void **state)
{
    static const uint64_t reigns[] = {4, 3};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        Leasehold__StatRequest request = LEASEHOLD__STAT_REQUEST__INIT;
        struct lh_master_call call = {.call.kind = LH_CALL_MASTER,
            .method = LH_METHOD_STAT,
            .request = &request.base};
        request.path = (char *)(uintptr_t) "/f";
        /* given: a call that is not answered */
        given_session(&s, &w);
        uint64_t old = s.link;
        call.deadline = in_ms(&w, 60000);
        ask(&w, &call);
        uint64_t stat = expect_request(&w, LH_METHOD_STAT, "m1:1", NULL);
        pass_ms(&w, 500);
        expect_request(&w, LH_METHOD_MASTERS, "m1:1", NULL);
        uint64_t m2 = expect_request(&w, LH_METHOD_MASTERS, "m2:1", NULL);
        expect_quiet(&w);
        /* when: another one acts, in the next reign; or is another way to the same one */
        say_acts(m2, reigns[i]);
        /* then */
        if (reigns[i] == 3) {
            expect_quiet(&w);
        } else {
            expect_close(&w, stat);
            expect_request(&w, LH_METHOD_STAT, "m2:1", NULL);
            expect_close(&w, old);
            assert_false(expect_attach(&s, "m2:1")->opens);
            say_greeting(&s, 4);
            expect_show(&s);
        }
        world_deinit(&w);
    }
}

/* Half the term: the connection may be dead, and the master well. */
static void a_stream_that_is_silent_for_long_is_replaced(void **state)
{
    (void)state;
    given_session_with(
        &s, &w, (struct lh_client_config){.masters = (const char *[]){"m1:1"}, .master_count = 1});
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    pass_ms(&w, TERM_MS / 2 - BEAT_MS);
    expect_close(&w, s.link);
    pass(&w);
    attached_and_shown(&s, "m1:1", 3);
    assert_int_equal(session_left_ms(&s), TERM_MS);
    expect_quiet(&w);
    world_deinit(&w);
}

/* ---- What the program hears. */

static void a_session_without_answers_is_suspended_and_resumes(void **state)
{
    (void)state;
    given_session(&s, &w);
    await_event(&s);
    break_link(&w, s.link);
    pass_ms(&w, 2 * BEAT_MS - 1);
    while (w.taken < w.count)
        assert_int_not_equal(take(&w, w.events[w.taken].kind)->kind, LH_FX_COMPLETE);
    pass_ms(&w, 1);
    while (w.events[w.taken].kind != LH_FX_COMPLETE)
        take(&w, w.events[w.taken].kind);
    expect_event(&s, LH_CLIENT_SUSPENDED, 0);
    assert_int_equal(session_left_ms(&s), TERM_MS - 2 * BEAT_MS);
    world_deinit(&w);
}

static void an_answer_resumes_a_suspended_session(void **state)
{
    (void)state;
    given_session_with(&s, &w,
        (struct lh_client_config){.masters = (const char *[]){"m1:1"},
            .master_count = 1,
            .suspended_after = lh_milliseconds(100)});
    await_event(&s);
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    pass_ms(&w, 100);
    expect_event(&s, LH_CLIENT_SUSPENDED, 0);
    await_event(&s);
    say_beat(&s, s.stamp);
    expect_event(&s, LH_CLIENT_RESUMED, 0);
    expect_quiet(&w);

    /* Nobody listens: both are forgotten. */
    pass_ms(&w, BEAT_MS - 100);
    expect_beat(&s);
    pass_ms(&w, 100);
    say_beat(&s, s.stamp);
    await_event(&s);
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_session_that_the_master_does_not_know_is_lost(void **state)
{
    Leasehold__BeatReply unknown = LEASEHOLD__BEAT_REPLY__INIT;

    (void)state;
    given_session(&s, &w);
    await_event(&s);
    pass(&w);
    expect_beat(&s);
    unknown.error = LEASEHOLD__ERROR_CODE__UNKNOWN_SESSION;
    say_beat_with(&s, unknown);
    expect_event(&s, LH_CLIENT_LOST, 0);
    expect_close(&w, s.link);
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_master_that_forgot_it_refuses_the_attaching(void **state)
{
    (void)state;
    given_session_with(
        &s, &w, (struct lh_client_config){.masters = (const char *[]){"m1:1"}, .master_count = 1});
    await_event(&s);
    break_link(&w, s.link);
    pass(&w);
    expect_attach(&s, "m1:1");
    end_link(&w, s.link, LH_ERR_UNKNOWN_SESSION, NULL);
    expect_event(&s, LH_CLIENT_LOST, 0);
    expect_quiet(&w);
    world_deinit(&w);
}

/* ---- Opening and closing. */

static void opening_ends_at_its_deadline(void **state)
{
    (void)state;
    world_init(&w);
    open_session(&s, &w);
    expect_attach(&s, "m1:1");
    w.now = in_ms(&w, 20000);
    step(&w, (struct lh_input){.kind = LH_IN_TIMER});
    while (w.events[w.taken].kind != LH_FX_COMPLETE)
        take(&w, w.events[w.taken].kind);
    assert_int_not_equal(take(&w, LH_FX_COMPLETE)->error, LH_OK);
    assert_null(s.open.session);
    world_deinit(&w);
}

static void opening_is_refused_for_good(void **state)
{
    (void)state;
    world_init(&w);
    open_session(&s, &w);
    expect_attach(&s, "m1:1");
    end_link(&w, s.link, LH_ERR_NO_MEMORY, "there are too many sessions");
    expect_complete(&w, &s.open, LH_ERR_NO_MEMORY);
    assert_string_equal(s.open.call.text, "there are too many sessions");
    expect_quiet(&w);
    world_deinit(&w);
}

/* It was on record, and is no more: the program has nothing in it yet. */
static void a_session_that_is_forgotten_while_it_opens_is_begun_again(void **state)
{
    (void)state;
    world_init_with(
        &w, (struct lh_client_config){.masters = (const char *[]){"m1:1"}, .master_count = 1});
    open_session(&s, &w);
    expect_attach(&s, "m1:1");
    say_greeting(&s, 3);
    expect_show(&s);
    break_link(&w, s.link);
    pass(&w);
    assert_false(expect_attach(&s, "m1:1")->opens);
    end_link(&w, s.link, LH_ERR_UNKNOWN_SESSION, NULL);
    pass(&w);
    assert_true(expect_attach(&s, "m1:1")->opens);
    say_greeting(&s, 3);
    expect_show(&s);
    say_shown(&s);
    expect_complete(&w, &s.open, LH_OK);
    world_deinit(&w);
}

static void closing_tells_the_master_and_ends_what_waits(void **state)
{
    (void)state;
    given_session(&s, &w);
    given_lock(&s, "/a", 7, false);
    await_event(&s);
    struct lh_acquire_call waits = acquire_call(&s, "/b");
    ask(&w, &waits);
    say_queued(&s, expect_acquire(&s, "/b"), 12);
    struct lh_session_close_call close = {
        .call.kind = LH_CALL_SESSION_CLOSE, .session = s.session, .deadline = in_ms(&w, 1000)};
    ask(&w, &close);
    expect_complete(&w, &waits, LH_ERR_CANCELLED);
    expect_complete(&w, &s.event, LH_ERR_CANCELLED);
    expect_request_on(&w, s.link, LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE);
    expect_quiet(&w);
    end_link(&w, s.link, LH_OK, NULL);
    expect_complete(&w, &close, LH_OK);
    expect_quiet(&w);
    world_deinit(&w);
}

static void closing_ends_at_its_deadline(void **state)
{
    (void)state;
    given_session(&s, &w);
    struct lh_session_close_call close = {
        .call.kind = LH_CALL_SESSION_CLOSE, .session = s.session, .deadline = in_ms(&w, 400)};
    ask(&w, &close);
    expect_request_on(&w, s.link, LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE);
    pass_ms(&w, 400);
    expect_close(&w, s.link);
    expect_complete(&w, &close, LH_ERR_DEADLINE_EXCEEDED);
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_stopped_core_ends_every_call(void **state)
{
    (void)state;
    given_session(&s, &w);
    await_event(&s);
    struct lh_acquire_call waits = acquire_call(&s, "/b");
    ask(&w, &waits);
    expect_acquire(&s, "/b");
    step(&w, (struct lh_input){.kind = LH_IN_STOP});
    expect_complete(&w, &waits, LH_ERR_CANCELLED);
    expect_complete(&w, &s.event, LH_ERR_CANCELLED);
    expect_close(&w, s.link);
    take(&w, LH_FX_STOPPED);
    expect_quiet(&w);
    world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_is_open_when_it_is_back),
        cmocka_unit_test(heartbeats_go_every_third_and_renew),
        cmocka_unit_test(a_standby_leads_to_the_active_master),
        cmocka_unit_test(a_greeting_of_a_lower_reign_is_refused),
        cmocka_unit_test(a_silent_master_is_doubted_and_left_for_a_newer_one),
        cmocka_unit_test(a_quiet_session_goes_where_a_call_has_found_a_newer_master),
        cmocka_unit_test(a_stream_that_is_silent_for_long_is_replaced),
        cmocka_unit_test(a_session_without_answers_is_suspended_and_resumes),
        cmocka_unit_test(an_answer_resumes_a_suspended_session),
        cmocka_unit_test(a_session_that_the_master_does_not_know_is_lost),
        cmocka_unit_test(a_master_that_forgot_it_refuses_the_attaching),
        cmocka_unit_test(opening_ends_at_its_deadline),
        cmocka_unit_test(opening_is_refused_for_good),
        cmocka_unit_test(a_session_that_is_forgotten_while_it_opens_is_begun_again),
        cmocka_unit_test(closing_tells_the_master_and_ends_what_waits),
        cmocka_unit_test(closing_ends_at_its_deadline),
        cmocka_unit_test(a_stopped_core_ends_every_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
