/* Sessions of programs and their locks (PS, NL). */
#include "tests/core/master/master_programs.h"

/* Those that are linked beat every third of a term. */
static void time_passes(uint64_t ms, struct prog **who, size_t count)
{
    for (uint64_t done = 0; done < ms; done += 3000) {
        world_advance(&w, 3000);
        for (size_t i = 0; i < count; i++)
            assert_true(beat(who[i]));
    }
}

/* ---- Sessions. */

static void a_session_is_durable_before_it_is_greeted(void **state)
{
    (void)state;
    w.hold_commits = true;
    assert_null(attach(&one, true));
    world_commit_all(&w);
    const Leasehold__LeaseSessionReply *r =
        prog_next(&one, LEASEHOLD__LEASE_SESSION_REPLY__BODY_GREETING);
    assert_non_null(r);
    assert_int_equal(r->greeting->term_ms, 10000);
    assert_int_equal(r->greeting->reign, lh_master_term(w.m));
}

static void a_session_that_nobody_opened_is_unknown(void **state)
{
    (void)state;
    assert_null(attach(&one, false));
    const Leasehold__LeaseSessionReply *r =
        prog_next(&one, LEASEHOLD__LEASE_SESSION_REPLY__BODY_BEAT);
    assert_int_equal(r->beat->error, LEASEHOLD__ERROR_CODE__UNKNOWN_SESSION);
    assert_int_equal(world_end(&w, one.link), LH_ERR_UNKNOWN_SESSION);
}

static void a_session_runs_out_and_its_record_goes(void **state)
{
    (void)state;
    comes(&one);
    locks(&one, "/a", false);
    world_advance(&w, 10002);
    assert_int_equal(world_end(&w, one.link), LH_ERR_UNKNOWN_SESSION);
    assert_null(look_at("/a"));
    assert_null(attach(&one, false));
    one.stream = 0;
    comes(&one); /* nothing is left of the first one */
    assert_int_equal(locks(&one, "/a", false) & 0xffffffffff, 2);
}

static void terms_have_bounds(void **state)
{
    (void)state;
    one.term_ms = 1;
    assert_int_equal(attach(&one, true)->term_ms, 1000);
    two.term_ms = UINT64_MAX;
    assert_int_equal(attach(&two, true)->term_ms, 60000);
    three.term_ms = 0;
    assert_int_equal(attach(&three, true)->term_ms, 10000);
}

static void the_highest_stream_counts(void **state)
{
    (void)state;
    comes(&one);
    struct prog old = one;
    comes(&one);
    assert_int_equal(world_end(&w, old.link), LH_ERR_STALE_REGISTRATION);
    for (uint64_t number = 1; number <= one.stream; number++) { /* nor one that comes again */
        old.stream = number - 1;
        assert_null(attach(&old, true));
        assert_int_equal(world_end(&w, old.link), LH_ERR_STALE_REGISTRATION);
    }
    assert_true(beat(&one));
}

static void it_is_not_renewed_before_all_is_shown(void **state)
{
    (void)state;
    comes(&one);
    uint64_t token = locks(&one, "/a", false);
    world_advance(&w, 5000);
    assert_non_null(attach(&one, false));
    shows_lock("/b", 77, false);
    assert_null(show_piece(&one, true));
    assert_false(beat(&one));
    world_advance(&w, 4000);
    shows_lock("/a", token, false);
    const Leasehold__Shown *shown = shows(&one);
    assert_non_null(shown);
    assert_int_equal(shown->n_lost, 1);
    assert_string_equal(shown->lost[0], "/b");
    /* The term counts from the last piece. */
    assert_int_equal(shown->stamp, w.now.ns);
    world_advance(&w, 9000);
    assert_true(beat(&one));

    assert_non_null(attach(&one, false));
    assert_null(show_piece(&one, true));
    assert_false(beat(&one));
    world_advance(&w, 10002);
    assert_int_equal(world_end(&w, one.link), LH_ERR_UNKNOWN_SESSION);
}

static void what_is_not_shown_is_free(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t a = locks(&one, "/a", false);
    locks(&one, "/b", false);
    locks(&one, "/s", true);
    asks(&two, "/b", false);
    asks(&two, "/a", false);
    assert_null(granted(&two));
    assert_non_null(attach(&one, false));
    assert_null(granted(&two));
    shows_lock("/a", a, false);
    assert_int_equal(shows(&one)->n_lost, 0);
    assert_int_equal(granted(&two)->id, 1);
    assert_null(granted(&two));
    assert_null(look_at("/s"));
}

static void nothing_is_granted_between_attaching_and_showing(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false);
    uint64_t id = asks(&two, "/a", false);
    uint64_t number = queued(&two)->queued;
    assert_non_null(attach(&two, false));
    releases(&one, "/a", token);
    assert_null(granted(&two));
    shows_request("/a", id, number, false);
    assert_non_null(shows(&two));
    assert_int_equal(granted(&two)->id, id);
}

static void an_operation_before_showing_ends_the_stream(void **state)
{
    (void)state;
    assert_non_null(attach(&one, true));
    asks(&one, "/a", false);
    assert_int_equal(world_end(&w, one.link), LH_ERR_MALFORMED);
    comes(&one);
    locks(&one, "/a", false);
}

static void a_closed_session_is_over_with_its_locks(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    locks(&one, "/a", false);
    locks(&one, "/b", true);
    asks(&two, "/a", false);
    closes(&one);
    assert_int_equal(world_end(&w, one.link), LH_OK);
    assert_non_null(granted(&two));
    assert_null(look_at("/b"));
    assert_null(attach(&one, false));
}

static void a_close_is_answered_when_the_next_master_knows_of_it(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    locks(&one, "/a", false);
    asks(&two, "/a", false);
    w.hold_commits = true;
    closes(&one);
    uint64_t link = one.link;
    assert_non_null(granted(&two));
    assert_false(world_ended(&w, link));
    /* It loses that stream, and asks again. */
    assert_null(attach(&one, false));
    assert_int_equal(world_end(&w, one.link), LH_ERR_UNAVAILABLE);
    world_commit_all(&w);
    assert_true(world_ended(&w, link));
    assert_int_equal(world_end(&w, link), LH_OK);
    assert_null(attach(&one, false));
    assert_int_equal(world_end(&w, one.link), LH_ERR_UNKNOWN_SESSION);
}

static void what_a_client_says_wrong_is_refused(void **state)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__Attach a = LEASEHOLD__ATTACH__INIT;
    uint8_t zeros[16] = {0};

    (void)state;
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_ATTACH;
    request.attach = &a;
    a.opens = true;
    a.stream = 1;
    for (int i = 0; i < 3; i++) {
        one.link = world_open_link(&w, LH_METHOD_LEASE_SESSION);
        a.session = (ProtobufCBinaryData){.data = i < 2 ? zeros : one.id, .len = i == 0 ? 3 : 16};
        a.label = i == 2 ? "\033[2J" : "";
        prog_send(&one, &request);
        assert_int_equal(world_end(&w, one.link), LH_ERR_INVALID_ARGUMENT);
    }
    one.link = world_open_link(&w, LH_METHOD_LEASE_SESSION);
    assert_false(beat(&one));
    assert_int_equal(world_end(&w, one.link), LH_ERR_MALFORMED);
}

/* The answer names it; programs in other languages refuse a whole message that is no UTF-8. */
static void a_name_that_is_no_utf8_is_refused_in_utf8(void **state)
{
    (void)state;
    comes(&one);
    Leasehold__Acquire a = acquire_of(&one, "/a\xff", false);
    asks_with(&one, &a);
    const Leasehold__Refused *r = refused(&one);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    assert_string_equal(r->name, "/a?");
}

static void a_program_that_takes_no_answers_is_not_read(void **state)
{
    (void)state;
    comes(&one);
    for (unsigned i = 0; i < 40; i++)
        beat(&one);
    assert_int_equal(w.held, one.link);
    for (unsigned i = 0; i < 20; i++)
        world_sent(&w, one.link);
    assert_int_equal(w.held, one.link);
    for (unsigned i = 0; i < 20; i++)
        world_sent(&w, one.link);
    assert_int_equal(w.held, 0);
}

static void so_it_is_by_the_bytes_that_it_has_not_taken(void **state)
{
    (void)state;
    w.config.program_send_bytes = 200;
    world_crash(&w);
    comes(&one);
    world_sent(&w, one.link);
    for (unsigned i = 0; i < 8; i++)
        asks(&one, "/wrong/because/of/a//slash", false);
    assert_int_equal(w.held, one.link);
    for (unsigned i = 0; i < 7; i++)
        world_sent(&w, one.link);
    assert_int_equal(w.held, 0);
}

/* Twenty streams that were not read kept half a gigabyte, and the master refused all calls. */
static void what_all_programs_do_not_take_is_bounded(void **state)
{
    (void)state;
    w.config.program_send_bytes = 200;
    w.config.programs_send_bytes = 1000;
    world_crash(&w);
    comes(&one);
    comes(&two);
    for (unsigned i = 0; world_end(&w, one.link) == LH_OK; i++) {
        assert_true(i < 100);
        asks(&one, "/a", false); /* it would not be read for long */
    }
    assert_int_equal(world_end(&w, one.link), LH_ERR_NO_MEMORY);
    /* Others go on, also one that has taken little of what is said to it; and so may the first. */
    locks(&two, "/b", false);
    assert_non_null(attach(&one, false));
    assert_non_null(shows(&one));
    locks(&one, "/c", false);
}

/* ---- Locks. */

static void an_exclusive_lock_has_one_holder(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t first = locks(&one, "/jobs/compact", false);
    uint64_t id = asks(&two, "/jobs/compact", false);
    const Leasehold__Queued *q = queued(&two);
    assert_int_equal(q->id, id);
    assert_int_equal(q->ahead, 0);
    assert_int_equal(q->queued >> 40, lh_master_term(w.m));
    assert_null(granted(&two));
    releases(&one, "/jobs/compact", first);
    const Leasehold__Granted *g = granted(&two);
    assert_int_equal(g->id, id);
    assert_true(g->token > first);
    assert_int_equal(g->token >> 40, lh_master_term(w.m));
    releases(&two, "/jobs/compact", g->token);
    assert_null(refused(&two));
    assert_null(look_at("/jobs/compact"));
}

/* With a bound of one there was no progress at all: the look at the name was all that a step
 * did. */
static void a_step_that_may_do_one_thing_serves_the_queue(void **state)
{
    (void)state;
    w.config.step_work = 1;
    world_crash(&w);
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false);
    asks(&two, "/a", false);
    releases(&one, "/a", token);
    world_advance(&w, 1);
    assert_non_null(granted(&two));
}

static void a_lock_lasts_as_long_as_its_session_is_renewed(void **state)
{
    struct prog *both[] = {&one, &two}, *second[] = {&two};

    (void)state;
    comes(&one);
    comes(&two);
    locks(&one, "/a", false);
    asks(&two, "/a", false);
    time_passes(30000, both, 2);
    assert_null(granted(&two));
    time_passes(9000, second, 1);
    assert_null(granted(&two));
    time_passes(3000, second, 1);
    assert_non_null(granted(&two));
}

static void who_will_not_wait_is_refused(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    locks(&one, "/a", false);
    world_advance(&w, 4000);
    Leasehold__Acquire a = acquire_of(&two, "/a", false);
    a.no_wait = true;
    asks_with(&two, &a);
    const Leasehold__Refused *r = refused(&two);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    assert_int_equal(r->id, a.id);
    assert_int_equal(r->left_ms, 6001);
    assert_int_equal(look_at("/a")->waiting, 0);
}

static void shared_locks_have_one_token_and_do_not_pass_who_waits(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    comes(&three);
    struct prog four = prog_of(4);
    comes(&four);
    uint64_t token = locks(&one, "/a", true);
    assert_int_equal(locks(&two, "/a", true), token);
    asks(&three, "/a", false);
    asks(&four, "/a", true);
    assert_null(granted(&four));
    releases(&one, "/a", token);
    assert_null(granted(&three));
    releases(&two, "/a", token);
    uint64_t next = granted(&three)->token;
    assert_true(next > token);
    assert_null(granted(&four));
    asks(&one, "/a", true);
    releases(&three, "/a", next);
    uint64_t shared = granted(&four)->token;
    assert_true(shared > next);
    assert_int_equal(granted(&one)->token, shared);
}

static void slots_bound_how_many_share(void **state)
{
    Leasehold__Acquire a;

    (void)state;
    comes(&one);
    comes(&two);
    comes(&three);
    struct prog *all[] = {&one, &two, &three};
    for (size_t i = 0; i < 3; i++) {
        a = acquire_of(all[i], "/pool", true);
        a.slots = 2;
        asks_with(all[i], &a);
    }
    uint64_t token = granted(&one)->token;
    assert_int_equal(granted(&two)->token, token);
    assert_null(granted(&three));
    releases(&one, "/pool", token);
    assert_int_equal(granted(&three)->token, token);
    /* One who names no number is bound by the others'. */
    asks(&one, "/pool", true);
    assert_null(granted(&one));
    releases(&two, "/pool", token);
    assert_non_null(granted(&one));
}

static void withdrawing_lets_the_next_one_in(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    comes(&three);
    locks(&one, "/a", true);
    uint64_t id = asks(&two, "/a", false);
    asks(&three, "/a", true);
    assert_null(granted(&three));
    withdraws(&two, id);
    assert_non_null(granted(&three));
    withdraws(&two, id);
    withdraws(&two, 4711);
    assert_null(refused(&two));
}

static void a_waiting_session_that_ends_lets_the_next_one_in(void **state)
{
    struct prog *rest[] = {&one, &three};

    (void)state;
    comes(&one);
    comes(&two);
    comes(&three);
    locks(&one, "/a", true);
    asks(&two, "/a", false);
    asks(&three, "/a", true);
    time_passes(12000, rest, 2);
    assert_non_null(granted(&three));
}

static void a_request_without_a_stream_is_passed_over_and_keeps_its_place(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    comes(&three);
    uint64_t token = locks(&one, "/a", false);
    uint64_t id = asks(&two, "/a", false);
    uint64_t number = queued(&two)->queued;
    asks(&three, "/a", false);
    world_break_link(&w, two.link);
    releases(&one, "/a", token);
    token = granted(&three)->token;
    asks(&one, "/a", false);
    assert_non_null(attach(&two, false));
    shows_request("/a", id, number, false);
    assert_non_null(shows(&two));
    releases(&three, "/a", token);
    assert_non_null(granted(&two));
    assert_null(granted(&one));
}

static void mode_changes_by_releasing_and_asking_in_one_message(void **state)
{
    Leasehold__LeaseOp release = LEASEHOLD__LEASE_OP__INIT, acquire = LEASEHOLD__LEASE_OP__INIT;
    Leasehold__ReleaseLock r = LEASEHOLD__RELEASE_LOCK__INIT;
    Leasehold__LeaseOp *ops[] = {&release, &acquire};

    (void)state;
    comes(&one);
    comes(&two);
    r.name = "/a";
    r.token = locks(&one, "/a", false);
    Leasehold__Acquire a = acquire_of(&one, "/a", true);
    asks_with(&one, &a);
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__ALREADY_EXISTS);
    asks(&two, "/a", true);
    release.op_case = LEASEHOLD__LEASE_OP__OP_RELEASE;
    release.release = &r;
    acquire.op_case = LEASEHOLD__LEASE_OP__OP_ACQUIRE;
    acquire.acquire = &a;
    operate(&one, ops, 2);
    assert_int_equal(granted(&one)->token, granted(&two)->token);
}

static void wrong_releases_change_nothing(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false);
    releases(&two, "/a", token);
    assert_int_equal(refused(&two)->error, LEASEHOLD__ERROR_CODE__NOT_LEASED);
    releases(&one, "/a", token + 1);
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__STALE_TOKEN);
    releases(&one, "/nobody/knows", token);
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__NOT_LEASED);
    releases(&one, "/a", token);
    assert_null(refused(&one));
    releases(&one, "/a", token);
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__NOT_LEASED);
}

static void names_and_texts_have_limits(void **state)
{
    char name[LH_PATH_BYTES_MAX + 2];
    uint8_t info[300] = {0};

    (void)state;
    comes(&one);
    memset(name, 'x', sizeof name);
    name[0] = '/';
    name[sizeof name - 1] = 0;
    asks(&one, name, false);
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__TOO_LARGE);
    name[sizeof name - 2] = 0;
    locks(&one, name, false);
    static const char *const wrong[] = {"", "a", "/", "//", "/a/", "/../a", "/a\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        asks(&one, wrong[i], false);
        assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    }
    Leasehold__Acquire a = acquire_of(&one, "/a", false);
    a.info = (ProtobufCBinaryData){.data = info, .len = sizeof info};
    asks_with(&one, &a);
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__TOO_LARGE);
    a.info.len = 256;
    asks_with(&one, &a);
    assert_non_null(granted(&one));
    a.name = "/b";
    a.id = 0;
    asks_with(&one, &a);
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
}

/* ---- Recall, yield, cancel. */

static uint64_t locks_recallable(struct prog *p, const char *name)
{
    Leasehold__Acquire a = acquire_of(p, name, false);

    a.recallable = true;
    asks_with(p, &a);
    return granted(p)->token;
}

static void a_holder_is_asked_once_and_again_for_another_one(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    comes(&three);
    uint64_t token = locks_recallable(&one, "/a");
    uint64_t id = asks(&two, "/a", false);
    const Leasehold__Demand *d = demand(&one);
    assert_int_equal(d->token, token);
    assert_false(d->cancel);
    assert_int_equal(d->waiting, 1);
    asks(&three, "/a", false);
    assert_null(demand(&one));
    yields(&one, "/a", token, UINT64_MAX); /* it keeps it */
    assert_true(look_at("/a")->holders[0]->refused);
    withdraws(&two, id);
    assert_null(demand(&one)); /* not so soon */
    world_advance(&w, 1001);
    assert_int_equal(demand(&one)->waiting, 1);
    world_advance(&w, 5000);
    assert_null(demand(&one));
}

#define SHARERS 9

/* A crowd of programs that share a lock and want to know who waits; a step does two things. */
static uint64_t crowd_shares(struct prog crowd[SHARERS], const char *name, uint32_t slots)
{
    w.config.step_work = 2;
    world_crash(&w);
    for (uint8_t i = 0; i < SHARERS; i++) {
        crowd[i] = prog_of((uint8_t)(10 + i));
        comes(&crowd[i]);
        Leasehold__Acquire a = acquire_of(&crowd[i], name, true);
        a.recallable = true;
        a.slots = slots == 0 ? 0 : slots + i;
        asks_with(&crowd[i], &a);
        world_advance(&w, 1);
    }
    return granted(&crowd[0])->token;
}

static unsigned were_asked(struct prog crowd[SHARERS], bool cancel)
{
    unsigned count = 0;

    for (unsigned i = 0; i < SHARERS; i++) {
        const Leasehold__Demand *d = demand(&crowd[i]);
        count += d != NULL && d->cancel == cancel;
    }
    return count;
}

/* Fifty thousand sharers were asked in one step, and meanwhile everybody else waited. */
static void many_holders_are_asked_a_few_in_a_step(void **state)
{
    struct prog crowd[SHARERS];

    (void)state;
    uint64_t token = crowd_shares(crowd, "/a", 0);
    comes(&one);
    comes(&two);
    uint64_t id = asks(&one, "/a", false);
    assert_int_equal(were_asked(crowd, false), 1); /* the look at the request is the other thing */
    /* Others have their turn between. */
    uint64_t other = locks(&two, "/b", false);
    asks(&one, "/b", false);
    releases(&two, "/b", other);
    world_advance(&w, 1);
    assert_non_null(granted(&one));
    assert_int_equal(were_asked(crowd, false), SHARERS - 1);
    world_advance(&w, 2000);
    assert_int_equal(were_asked(crowd, false), 0); /* once each */
    /* Another one waits, and some have left: the others are asked again. */
    withdraws(&one, id);
    releases(&crowd[3], "/a", token);
    asks(&two, "/a", false);
    world_advance(&w, 1);
    assert_int_equal(were_asked(crowd, false), SHARERS - 1);
    for (unsigned i = 0; i < SHARERS; i++)
        if (i != 3)
            releases(&crowd[i], "/a", token);
    world_advance(&w, 1);
    assert_non_null(granted(&two));
}

static void nobody_is_asked_any_more_once_nobody_waits(void **state)
{
    struct prog crowd[SHARERS];

    (void)state;
    crowd_shares(crowd, "/a", 0);
    comes(&one);
    uint64_t id = asks(&one, "/a", false);
    withdraws(&one, id);
    world_advance(&w, 1);
    assert_true(were_asked(crowd, false) <= 4);
}

static void a_wide_lock_is_cut_a_few_holders_in_a_step(void **state)
{
    struct prog crowd[SHARERS];

    (void)state;
    uint64_t token = crowd_shares(crowd, "/a", 0);
    comes(&one);
    uint64_t call = cancels("/a", token, 60000);
    assert_true(were_asked(crowd, true) <= 4);
    asks(&one, "/a", true); /* nobody joins, also while it is not cut everywhere */
    assert_null(granted(&one));
    releases(&crowd[8], "/a", token);
    world_advance(&w, 1);
    assert_true(were_asked(crowd, true) >= SHARERS - 1 - 4);
    assert_null(world_reply(&w, call));
    for (unsigned i = 0; i < SHARERS - 1; i++)
        releases(&crowd[i], "/a", token);
    world_advance(&w, 1);
    const Leasehold__CancelReply *r = world_reply(&w, call);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__OK);
    assert_true(granted(&one)->token > token);
}

static void a_wide_lock_that_is_cut_while_sessions_are_awaited_is_cut_whole(void **state)
{
    struct prog crowd[SHARERS];

    (void)state;
    uint64_t token = crowd_shares(crowd, "/a", 0);
    world_crash(&w);
    for (unsigned i = 0; i < SHARERS - 1; i++) {
        assert_non_null(attach(&crowd[i], false));
        shows_lock("/a", token, true);
        assert_non_null(shows(&crowd[i]));
    }
    cancels("/a", token, 60000);
    assert_int_equal(were_asked(crowd, true), SHARERS - 1);
}

/* The least number that a sharer named holds, whoever of them leaves. */
static void slots_of_a_crowd(void **state)
{
    struct prog crowd[SHARERS];

    (void)state;
    uint64_t token = crowd_shares(crowd, "/a", SHARERS);
    comes(&one);
    asks(&one, "/a", true); /* SHARERS have it, and the first named SHARERS slots */
    assert_null(granted(&one));
    releases(&crowd[8], "/a", token);
    world_advance(&w, 1);
    assert_non_null(granted(&one));
    comes(&two);
    asks(&two, "/a", true);
    assert_null(granted(&two));
    releases(&crowd[0], "/a", token); /* then SHARERS + 1 slots, and SHARERS - 1 have it */
    world_advance(&w, 1);
    assert_non_null(granted(&two));
    comes(&three);
    asks(&three, "/a", true);
    world_advance(&w, 1);
    assert_non_null(granted(&three));
}

static void a_yielded_lock_ends_when_its_holder_said(void **state)
{
    struct prog *both[] = {&one, &two};

    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks_recallable(&one, "/a");
    asks(&two, "/a", false);
    assert_true(beat(&one));
    yields(&one, "/a", token, 2000);
    assert_true(beat(&one));
    /* 2 s of the holder's clock, which may be slow while ours is fast. */
    world_advance(&w, 2040);
    assert_null(granted(&two));
    world_advance(&w, 3);
    assert_non_null(granted(&two));
    time_passes(3000, both, 2);
    releases(&one, "/a", token);
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__NOT_LEASED);
}

static void a_cancelled_lock_ends_with_the_present_term(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false), other = locks(&one, "/other", false);
    asks(&two, "/a", false);
    world_advance(&w, 4000);
    assert_true(beat(&two));
    uint64_t call = cancels("/a", 0, 60000);
    const Leasehold__Demand *d = demand(&one);
    assert_true(d->cancel && d->token == token);
    assert_string_equal(d->why, "it has to go");
    assert_true(beat(&one));
    world_advance(&w, 6000);
    assert_null(world_reply(&w, call));
    assert_null(granted(&two));
    assert_true(beat(&two));
    world_advance(&w, 2);
    assert_int_equal(
        ((const Leasehold__CancelReply *)world_reply(&w, call))->error, LEASEHOLD__ERROR_CODE__OK);
    assert_true(granted(&two)->token > token);
    assert_int_equal(look_at("/other")->holders[0]->token, other);
}

static void a_cancelled_holder_that_releases_ends_the_wait(void **state)
{
    (void)state;
    comes(&one);
    uint64_t token = locks(&one, "/a", false);
    uint64_t call = cancels("/a", token, 60000);
    assert_null(world_reply(&w, call));
    releases(&one, "/a", token);
    assert_int_equal(
        ((const Leasehold__CancelReply *)world_reply(&w, call))->error, LEASEHOLD__ERROR_CODE__OK);
    assert_null(look_at("/a"));
}

static void cancelling_says_what_it_could_not(void **state)
{
    const Leasehold__CancelReply *r;

    (void)state;
    comes(&one);
    uint64_t token = locks(&one, "/a", false);
    r = world_reply(&w, cancels("/a", token + 1, 1000));
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__NOT_LEASED);
    r = world_reply(&w, cancels("/free", 0, 1000));
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__NOT_LEASED);
    r = world_reply(&w, cancels("not a name", 0, 1000));
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    uint64_t call = cancels("/a", 0, 500);
    world_advance(&w, 501);
    r = world_reply(&w, call);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    assert_int_equal(r->left_ms, 9501);
    r = world_reply(&w, cancels("/a", 0, 0));
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    /* One that went away is not answered. */
    call = cancels("/a", 0, 60000);
    world_break_link(&w, call);
    releases(&one, "/a", token);
    assert_null(world_reply(&w, call));
}

static void nobody_joins_a_cancelled_tenure(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    comes(&three);
    uint64_t token = locks(&one, "/a", true);
    locks(&two, "/a", true);
    cancels("/a", 0, 60000);
    assert_non_null(demand(&one));
    assert_non_null(demand(&two));
    asks(&three, "/a", true);
    releases(&one, "/a", token);
    assert_null(granted(&three));
    releases(&two, "/a", token);
    assert_true(granted(&three)->token > token);
}

static void attaching_again_does_not_move_a_cut_end(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false);
    asks(&two, "/a", false);
    world_advance(&w, 4000);
    assert_true(beat(&two));
    cancels("/a", 0, 0);
    world_break_link(&w, one.link);
    assert_non_null(attach(&one, false));
    shows_lock("/a", token, false);
    const Leasehold__Shown *shown = shows(&one);
    assert_int_equal(shown->n_cut, 1);
    assert_string_equal(shown->cut[0], "/a");
    world_advance(&w, 6000);
    assert_null(granted(&two));
    assert_true(beat(&two));
    world_advance(&w, 2);
    assert_non_null(granted(&two));
}

static void a_yield_that_got_lost_is_shown(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false);
    asks(&two, "/a", false);
    assert_non_null(attach(&one, false));
    shows_lock("/a", token, false);
    shown_locks[0].ends = true;
    shown_locks[0].left_ns = 1000000000;
    assert_int_equal(shows(&one)->n_cut, 1);
    world_advance(&w, 1020);
    assert_null(granted(&two));
    world_advance(&w, 3);
    assert_non_null(granted(&two));
}

/* ---- After a restart. */

static void crash_programs(void)
{
    world_crash(&w);
    one.link = two.link = three.link = 0;
}

static void nothing_is_granted_before_all_are_back(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    comes(&three);
    uint64_t token = locks(&one, "/a", false);
    crash_programs();
    assert_non_null(attach(&two, false));
    assert_non_null(shows(&two));
    uint64_t id = asks(&two, "/a", false);
    uint64_t free_id = asks(&two, "/free", false);
    Leasehold__Acquire a = acquire_of(&two, "/third", false);
    a.no_wait = true;
    asks_with(&two, &a);
    assert_int_equal(refused(&two)->error, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    closes(&three); /* it has no stream: nothing happens */
    assert_non_null(attach(&three, false));
    closes(&three);
    assert_null(granted(&two));
    assert_non_null(attach(&one, false));
    shows_lock("/a", token, false);
    assert_int_equal(shows(&one)->n_lost, 0);
    assert_int_equal(granted(&two)->id, free_id);
    assert_null(granted(&two));
    releases(&one, "/a", token);
    const Leasehold__Granted *g = granted(&two);
    assert_int_equal(g->id, id);
    assert_true(g->token > token);
}

static void a_session_that_stays_away_is_waited_for_by_its_own_term(void **state)
{
    struct prog *first[] = {&one};

    (void)state;
    two.term_ms = 20000;
    comes(&one);
    comes(&two);
    crash_programs();
    assert_non_null(attach(&one, false));
    assert_non_null(shows(&one));
    asks(&one, "/a", false);
    const Leasehold__NameInfo *info = look_at("/a");
    assert_int_equal(info->waiting, 1);
    time_passes(18000, first, 1);
    assert_null(granted(&one));
    time_passes(3000, first, 1);
    assert_non_null(granted(&one));
    assert_null(attach(&two, false));
}

static void requests_keep_their_order_over_a_restart(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    comes(&three);
    uint64_t token = locks(&one, "/a", false);
    asks(&two, "/a", false);
    uint64_t second = queued(&two)->queued;
    asks(&three, "/a", false);
    uint64_t third = queued(&three)->queued;
    crash_programs();
    assert_non_null(attach(&three, false));
    shows_request("/a", 1, third, false);
    assert_non_null(shows(&three));
    assert_non_null(attach(&one, false));
    shows_lock("/a", token, false);
    assert_non_null(shows(&one));
    struct prog four = prog_of(4);
    comes(&four);
    asks(&four, "/a", false);
    assert_true(queued(&four)->queued > third);
    assert_non_null(attach(&two, false));
    shows_request("/a", 1, second, false);
    assert_non_null(shows(&two));
    releases(&one, "/a", token);
    uint64_t next = granted(&two)->token;
    assert_null(granted(&three));
    releases(&two, "/a", next);
    next = granted(&three)->token;
    releases(&three, "/a", next);
    assert_non_null(granted(&four));
}

static void of_locks_that_conflict_the_later_one_stands(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t early = locks(&one, "/a", false);
    releases(&one, "/a", early);
    uint64_t late = locks(&two, "/a", false);
    crash_programs();
    assert_non_null(attach(&one, false));
    shows_lock("/a", early, false);
    assert_int_equal(shows(&one)->n_lost, 0);
    assert_non_null(attach(&two, false));
    shows_lock("/a", late, false);
    assert_int_equal(shows(&two)->n_lost, 0);
    assert_true(demand(&one)->cancel);
    releases(&one, "/a", early);
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__NOT_LEASED);
    assert_int_equal(look_at("/a")->holders[0]->token, late);
    /* The other way round it is refused when it is shown. */
    crash_programs();
    assert_non_null(attach(&two, false));
    shows_lock("/a", late, false);
    assert_int_equal(shows(&two)->n_lost, 0);
    assert_non_null(attach(&one, false));
    shows_lock("/a", early, false);
    assert_int_equal(shows(&one)->n_lost, 1);
}

static void a_token_that_no_master_gave_is_not_believed(void **state)
{
    (void)state;
    comes(&one);
    shows_lock("/a", 1, false);
    struct prog fresh = prog_of(9);
    assert_non_null(attach(&fresh, true));
    assert_int_equal(shows(&fresh)->n_lost, 1); /* it has had nothing yet */
    crash_programs();
    assert_non_null(attach(&one, false));
    shows_lock("/a", UINT64_MAX, false);
    shows_lock("/b", 0, false);
    assert_int_equal(shows(&one)->n_lost, 2);
}

static void a_cut_lock_goes_on_at_the_next_master_for_what_is_left(void **state)
{
    struct prog *both[] = {&one, &two};

    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false);
    crash_programs();
    assert_non_null(attach(&one, false));
    shows_lock("/a", token, false);
    shown_locks[0].ends = true;
    shown_locks[0].left_ns = 2000000000;
    assert_int_equal(shows(&one)->n_cut, 1);
    assert_non_null(attach(&two, false));
    assert_non_null(shows(&two));
    asks(&two, "/a", false);
    assert_null(granted(&two));
    time_passes(3000, both, 2);
    assert_non_null(granted(&two));
}

static void a_cancel_waits_for_sessions_that_are_away(void **state)
{
    (void)state;
    comes(&one);
    uint64_t token = locks(&one, "/a", false);
    crash_programs();
    uint64_t call = cancels("/a", 0, 60000);
    assert_null(world_reply(&w, call));
    assert_non_null(attach(&one, false));
    shows_lock("/a", token, false);
    assert_int_equal(shows(&one)->n_cut, 0);
    assert_true(demand(&one)->cancel);
    assert_null(world_reply(&w, call));
    world_advance(&w, 10002);
    assert_int_equal(
        ((const Leasehold__CancelReply *)world_reply(&w, call))->error, LEASEHOLD__ERROR_CODE__OK);
}

/* ---- Looking. */

static void a_name_is_explained(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    locks_recallable(&one, "/a");
    asks(&two, "/a", false);
    world_advance(&w, 2000);
    const Leasehold__NameInfo *info = look_at("/a");
    assert_int_equal(info->n_holders, 1);
    assert_int_equal(info->n_waiters, 1);
    assert_int_equal(info->holders[0]->held_ms, 2000);
    assert_true(info->holders[0]->recalled && !info->holders[0]->refused);
    assert_non_null(strstr(info->sentences[0], "held by backup of host db1"));
    assert_non_null(strstr(info->sentences[0], "recalled 2.0 s ago, no answer"));
    assert_non_null(strstr(info->sentences[1], "1 request waits"));
}

static void names_and_sessions_are_listed_in_pages(void **state)
{
    Leasehold__ListNamesRequest r = LEASEHOLD__LIST_NAMES_REQUEST__INIT;
    Leasehold__ListSessionsRequest s = LEASEHOLD__LIST_SESSIONS_REQUEST__INIT;
    const Leasehold__ListNamesReply *names;
    const Leasehold__ListSessionsReply *sessions;

    (void)state;
    comes(&one);
    comes(&two);
    static const char *const all[] = {"/a", "/b/1", "/b/2", "/b/3", "/c"};
    for (size_t i = 0; i < 5; i++)
        locks(&one, all[i], false);
    r.prefix = "/b/";
    r.limit = 2;
    names = world_reply(&w, world_call(&w, LH_METHOD_LIST_NAMES, &r));
    assert_int_equal(names->n_names, 2);
    assert_true(names->more);
    assert_string_equal(names->names[1]->name, "/b/2");
    r.after = "/b/2";
    names = world_reply(&w, world_call(&w, LH_METHOD_LIST_NAMES, &r));
    assert_int_equal(names->n_names, 1);
    assert_false(names->more);
    s.limit = 1;
    sessions = world_reply(&w, world_call(&w, LH_METHOD_LIST_SESSIONS, &s));
    assert_int_equal(sessions->n_sessions, 1);
    assert_true(sessions->more && sessions->sessions[0]->back);
    assert_int_equal(sessions->sessions[0]->locks, 5);
    s.after = sessions->sessions[0]->session;
    sessions = world_reply(&w, world_call(&w, LH_METHOD_LIST_SESSIONS, &s));
    assert_int_equal(sessions->n_sessions, 1);
    assert_false(sessions->more);
    assert_int_equal(sessions->sessions[0]->session.data[0], 2);
}

/* ---- Many. */

#define CROWD 2000u
#define NAMES 50u

static void a_hundred_thousand_wait(void **state)
{
    static struct prog crowd[CROWD];
    char name[32];

    (void)state;
    w.unchecked = true;
    comes(&one);
    uint64_t tokens[NAMES];
    for (unsigned n = 0; n < NAMES; n++) {
        snprintf(name, sizeof name, "/n/%u", n);
        tokens[n] = locks(&one, name, false);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        crowd[i] = prog_of(0);
        memcpy(crowd[i].id, &(uint32_t){i + 1000000}, 4);
        comes(&crowd[i]);
        world_forget_lines(&w);
        for (unsigned n = 0; n < NAMES; n++) {
            snprintf(name, sizeof name, "/n/%u", n);
            asks(&crowd[i], name, false);
        }
        world_forget_lines(&w);
    }
    lh_master_check(w.m);
    snprintf(name, sizeof name, "/n/7");
    assert_int_equal(look_at(name)->waiting, CROWD);
    releases(&one, name, tokens[7]);
    for (unsigned i = 0; i < 100; i++) {
        const Leasehold__Granted *g = granted(&crowd[i]);
        assert_non_null(g);
        releases(&crowd[i], name, g->token);
    }
    lh_master_check(w.m);
}

/* A program takes nothing before the answer to its showing. */
static void the_number_of_a_shown_request_follows_the_answer_to_the_showing(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    locks(&one, "/a", false);
    uint64_t id = asks(&two, "/a", false), number = queued(&two)->queued;
    attach(&two, false); /* it has not heard the number */
    shows_request("/a", id, 0, false);
    size_t before = w.line_count, shown = 0, said = 0;
    assert_non_null(shows(&two));
    for (size_t i = before; i < w.line_count; i++) {
        const Leasehold__LeaseSessionReply *reply = (const void *)w.lines[i].message;
        if (w.lines[i].link != two.link || reply == NULL)
            continue;
        if (reply->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_SHOWN)
            shown = i;
        else if (reply->body_case == LEASEHOLD__LEASE_SESSION_REPLY__BODY_ANSWERS)
            said = i;
    }
    assert_true(said > shown);
    assert_int_equal(queued(&two)->queued, number);
}

/* It had withdrawn its request and asked again, and both got lost with its stream. */
static void a_request_that_is_shown_takes_the_place_of_one_that_is_not(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false);
    uint64_t first = asks(&two, "/a", false), number = queued(&two)->queued;
    assert_non_null(attach(&two, false));
    shows_request("/a", first + 1, 0, true);
    assert_non_null(shows(&two));
    assert_null(refused(&two));
    const Leasehold__Queued *q = queued(&two);
    assert_non_null(q);
    assert_int_equal(q->id, first + 1);
    assert_true(q->queued > number);
    releases(&one, "/a", token);
    assert_int_equal(granted(&two)->id, first + 1);
    assert_null(granted(&two));
    lh_master_check(w.m);
}

static void what_is_shown_has_the_bounds_of_what_is_asked_for(void **state)
{
    (void)state;
    w.config.waits_max = 2;
    w.config.program_locks_max = 3;
    world_crash(&w);
    comes(&one);
    attach(&one, false);
    for (uint64_t id = 1; id <= 3; id++)
        shows_request(id == 1 ? "/a" : id == 2 ? "/b" : "/c", id, 0, false);
    assert_non_null(shows(&one));
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__NO_MEMORY);
    attach(&one, false);
    for (uint64_t i = 0; i < 4; i++)
        shows_lock("/d", i + 1, false);
    assert_null(shows(&one));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_session_is_durable_before_it_is_greeted),
        STORY(a_session_that_nobody_opened_is_unknown),
        STORY(a_session_runs_out_and_its_record_goes),
        STORY(terms_have_bounds),
        STORY(the_highest_stream_counts),
        STORY(it_is_not_renewed_before_all_is_shown),
        STORY(what_is_not_shown_is_free),
        STORY(nothing_is_granted_between_attaching_and_showing),
        STORY(an_operation_before_showing_ends_the_stream),
        STORY(a_closed_session_is_over_with_its_locks),
        STORY(a_close_is_answered_when_the_next_master_knows_of_it),
        STORY(what_a_client_says_wrong_is_refused),
        STORY(a_name_that_is_no_utf8_is_refused_in_utf8),
        STORY(a_program_that_takes_no_answers_is_not_read),
        STORY(so_it_is_by_the_bytes_that_it_has_not_taken),
        STORY(what_all_programs_do_not_take_is_bounded),
        STORY(an_exclusive_lock_has_one_holder),
        STORY(a_step_that_may_do_one_thing_serves_the_queue),
        STORY(a_lock_lasts_as_long_as_its_session_is_renewed),
        STORY(who_will_not_wait_is_refused),
        STORY(shared_locks_have_one_token_and_do_not_pass_who_waits),
        STORY(slots_bound_how_many_share),
        STORY(withdrawing_lets_the_next_one_in),
        STORY(a_waiting_session_that_ends_lets_the_next_one_in),
        STORY(a_request_without_a_stream_is_passed_over_and_keeps_its_place),
        STORY(mode_changes_by_releasing_and_asking_in_one_message),
        STORY(wrong_releases_change_nothing),
        STORY(names_and_texts_have_limits),
        STORY(a_holder_is_asked_once_and_again_for_another_one),
        STORY(many_holders_are_asked_a_few_in_a_step),
        STORY(nobody_is_asked_any_more_once_nobody_waits),
        STORY(a_wide_lock_is_cut_a_few_holders_in_a_step),
        STORY(a_wide_lock_that_is_cut_while_sessions_are_awaited_is_cut_whole),
        STORY(slots_of_a_crowd),
        STORY(a_yielded_lock_ends_when_its_holder_said),
        STORY(a_cancelled_lock_ends_with_the_present_term),
        STORY(a_cancelled_holder_that_releases_ends_the_wait),
        STORY(cancelling_says_what_it_could_not),
        STORY(nobody_joins_a_cancelled_tenure),
        STORY(attaching_again_does_not_move_a_cut_end),
        STORY(a_yield_that_got_lost_is_shown),
        STORY(nothing_is_granted_before_all_are_back),
        STORY(a_session_that_stays_away_is_waited_for_by_its_own_term),
        STORY(requests_keep_their_order_over_a_restart),
        STORY(of_locks_that_conflict_the_later_one_stands),
        STORY(a_token_that_no_master_gave_is_not_believed),
        STORY(a_cut_lock_goes_on_at_the_next_master_for_what_is_left),
        STORY(a_cancel_waits_for_sessions_that_are_away),
        STORY(a_name_is_explained),
        STORY(names_and_sessions_are_listed_in_pages),
        STORY(the_number_of_a_shown_request_follows_the_answer_to_the_showing),
        STORY(a_request_that_is_shown_takes_the_place_of_one_that_is_not),
        STORY(what_is_shown_has_the_bounds_of_what_is_asked_for),
        STORY(a_hundred_thousand_wait),
    };

    return cmocka_run_group_tests_name("master_locks", tests, NULL, NULL);
}
