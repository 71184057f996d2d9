/* Locks of the client's core: asked for, held, released, recalled, cut, shown (NL-1 to NL-4). */
#include "tests/core/client/lease_world.h"

static struct world w;
static struct stage s;

static const char *const one_master[] = {"m1:1"};

static void given_one_master(void)
{
    given_session_with(&s, &w, (struct lh_client_config){.masters = one_master, .master_count = 1});
}

/* The stream breaks, and the session attaches again. */
static const Leasehold__Show *shown_again(uint64_t reign)
{
    break_link(&w, s.link);
    pass(&w);
    expect_attach(&s, "m1:1");
    say_greeting(&s, reign);
    return expect_show(&s);
}

/* The same of a showing in pieces: a heartbeat goes before it. */
static const Leasehold__Show *shown_again_in_pieces(uint64_t reign)
{
    break_link(&w, s.link);
    pass(&w);
    expect_attach(&s, "m1:1");
    say_greeting(&s, reign);
    uint64_t stamp = expect_beat(&s)->stamp;
    const Leasehold__Show *m = expect_show(&s);
    assert_true(m->more);
    assert_int_equal(m->stamp, stamp);
    return m;
}

static void a_lock_is_granted_and_ends_with_its_session(void **state)
{
    (void)state;
    given_session(&s, &w);
    uint64_t lock = given_lock(&s, "/a", 77, false);
    assert_int_equal(lock_left_ms(&s, lock), session_left_ms(&s));
    assert_int_equal(lock_left_ms(&s, lock + 1), 0);
    w.now = in_ms(&w, TERM_MS);
    assert_int_equal(lock_left_ms(&s, lock), 0);
    w.now.ns -= TERM_MS * UINT64_C(1000000);
    world_deinit(&w);
}

static void a_name_is_asked_for_once_at_a_time(void **state)
{
    (void)state;
    given_session(&s, &w);
    struct lh_acquire_call first = acquire_call(&s, "/a"), second = first;
    ask(&w, &first);
    uint64_t id = expect_acquire(&s, "/a");
    ask(&w, &second);
    expect_complete(&w, &second, LH_ERR_ALREADY_EXISTS);
    say_granted(&s, id, 5);
    expect_complete(&w, &first, LH_OK);
    ask(&w, &second);
    expect_complete(&w, &second, LH_ERR_ALREADY_EXISTS);
    world_deinit(&w);
}

static void a_refusal_ends_the_request(void **state)
{
    Leasehold__Refused refused = LEASEHOLD__REFUSED__INIT;

    (void)state;
    given_session(&s, &w);
    struct lh_acquire_call call = acquire_call(&s, "/a");
    call.no_wait = true;
    ask(&w, &call);
    const Leasehold__Acquire *m = expect_op(&s, LEASEHOLD__LEASE_OP__OP_ACQUIRE)->acquire;
    assert_true(m->no_wait);
    refused.id = m->id;
    refused.error = LEASEHOLD__ERROR_CODE__LEASE_HELD;
    refused.text = (char *)(uintptr_t) "backup on h2 holds it";
    say_one(&s, answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_REFUSED, &refused));
    expect_complete(&w, &call, LH_ERR_LEASE_HELD);
    assert_string_equal(call.call.text, "backup on h2 holds it");
    expect_quiet(&w);
    world_deinit(&w);
}

static void operations_gather_while_a_message_has_not_left(void **state)
{
    (void)state;
    given_session(&s, &w);
    w.slow = true;
    struct lh_acquire_call calls[] = {
        acquire_call(&s, "/a"), acquire_call(&s, "/b"), acquire_call(&s, "/c")};
    ask(&w, &calls[0]);
    expect_acquire(&s, "/a");
    ask(&w, &calls[1]);
    ask(&w, &calls[2]);
    expect_quiet(&w);
    say_sent(&w, s.link);
    const Leasehold__LeaseOps *ops = expect_ops(&s, 2);
    assert_string_equal(ops->ops[0]->acquire->name, "/b");
    assert_string_equal(ops->ops[1]->acquire->name, "/c");
    expect_quiet(&w);
    world_deinit(&w);
}

/* ---- Releasing. */

static void a_released_lock_is_not_held_at_once(void **state)
{
    (void)state;
    given_session(&s, &w);
    uint64_t lock = given_lock(&s, "/a", 5, false);
    release(&s, lock, LH_OK);
    const Leasehold__ReleaseLock *m = expect_op(&s, LEASEHOLD__LEASE_OP__OP_RELEASE)->release;
    assert_string_equal(m->name, "/a");
    assert_int_equal(m->token, 5);
    release(&s, lock, LH_ERR_NOT_LEASED);
    expect_quiet(&w);
    given_lock(&s, "/a", 6, false);
    world_deinit(&w);
}

/* What is not shown is free: it need not be said. */
static void a_lock_released_without_a_stream_is_not_shown(void **state)
{
    (void)state;
    given_one_master();
    uint64_t lock = given_lock(&s, "/a", 5, false);
    given_lock(&s, "/b", 6, false);
    break_link(&w, s.link);
    release(&s, lock, LH_OK);
    pass(&w);
    expect_attach(&s, "m1:1");
    say_greeting(&s, 3);
    const Leasehold__Show *m = expect_show(&s);
    assert_int_equal(m->n_locks, 1);
    assert_string_equal(m->locks[0]->name, "/b");
    assert_int_equal(m->locks[0]->token, 6);
    say_shown(&s);
    expect_quiet(&w);
    world_deinit(&w);
}

/* Between showing and the answer: it was shown, so it must be said. */
static void a_lock_released_while_it_is_shown_is_released_behind_that(void **state)
{
    (void)state;
    given_one_master();
    uint64_t lock = given_lock(&s, "/a", 5, false);
    shown_again(3);
    release(&s, lock, LH_OK);
    struct lh_acquire_call again = acquire_call(&s, "/a");
    ask(&w, &again);
    expect_quiet(&w);

    /* The name is said to be lost: that is not the request's. */
    Leasehold__Shown shown = shown_reply(&s);
    char *lost[] = {(char *)(uintptr_t) "/a"};
    shown.lost = lost;
    shown.n_lost = 1;
    say_shown_with(&s, shown);
    const Leasehold__LeaseOps *ops = expect_ops(&s, 2);
    assert_int_equal(ops->ops[0]->op_case, LEASEHOLD__LEASE_OP__OP_RELEASE);
    uint64_t id = ops->ops[1]->acquire->id;
    say_granted(&s, id, 6);
    expect_complete(&w, &again, LH_OK);
    world_deinit(&w);
}

/* ---- Withdrawing. */

static void a_request_is_withdrawn_at_its_deadline(void **state)
{
    (void)state;
    given_session(&s, &w);
    struct lh_acquire_call call = acquire_call(&s, "/a");
    call.deadline = in_ms(&w, 100);
    ask(&w, &call);
    uint64_t id = expect_acquire(&s, "/a");
    say_queued(&s, id, 9);
    pass_ms(&w, 100);
    expect_complete(&w, &call, LH_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(expect_op(&s, LEASEHOLD__LEASE_OP__OP_WITHDRAW)->withdraw->id, id);

    /* The grant crossed it: it is given back. */
    say_granted(&s, id, 8);
    const Leasehold__ReleaseLock *m = expect_op(&s, LEASEHOLD__LEASE_OP__OP_RELEASE)->release;
    assert_string_equal(m->name, "/a");
    assert_int_equal(m->token, 8);
    say_granted(&s, id, 8);
    expect_quiet(&w);
    world_deinit(&w);
}

/* The master would refuse the second request if it had granted the first. */
static void a_new_request_waits_until_the_withdrawn_one_is_settled(void **state)
{
    (void)state;
    given_session(&s, &w);
    struct lh_acquire_call call = acquire_call(&s, "/a");
    call.deadline = in_ms(&w, 100);
    ask(&w, &call);
    uint64_t first = expect_acquire(&s, "/a");
    pass_ms(&w, 100);
    expect_complete(&w, &call, LH_ERR_DEADLINE_EXCEEDED);
    expect_op(&s, LEASEHOLD__LEASE_OP__OP_WITHDRAW);
    struct lh_acquire_call again = acquire_call(&s, "/a");
    ask(&w, &again);
    expect_beat(&s); /* its answer says that no grant comes */
    expect_quiet(&w);
    say_beat(&s, s.stamp);
    uint64_t second = expect_acquire(&s, "/a");
    assert_int_not_equal(first, second);
    say_granted(&s, second, 4);
    expect_complete(&w, &again, LH_OK);
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_new_request_follows_the_release_of_a_grant_that_came_too_late(void **state)
{
    (void)state;
    given_session(&s, &w);
    struct lh_acquire_call call = acquire_call(&s, "/a");
    call.deadline = in_ms(&w, 100);
    ask(&w, &call);
    uint64_t first = expect_acquire(&s, "/a");
    pass_ms(&w, 100);
    expect_complete(&w, &call, LH_ERR_DEADLINE_EXCEEDED);
    expect_op(&s, LEASEHOLD__LEASE_OP__OP_WITHDRAW);
    struct lh_acquire_call again = acquire_call(&s, "/a");
    ask(&w, &again);
    expect_beat(&s);
    say_granted(&s, first, 8);
    const Leasehold__LeaseOps *ops = expect_ops(&s, 2);
    assert_int_equal(ops->ops[0]->release->token, 8);
    uint64_t second = ops->ops[1]->acquire->id;
    say_beat(&s, s.stamp);
    say_granted(&s, second, 9);
    expect_complete(&w, &again, LH_OK);
    assert_int_equal(again.token, 9);
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_request_that_was_not_sent_is_withdrawn_in_silence(void **state)
{
    (void)state;
    given_session(&s, &w);
    w.slow = true;
    struct lh_acquire_call first = acquire_call(&s, "/a"), second = acquire_call(&s, "/b");
    second.deadline = in_ms(&w, 100);
    ask(&w, &first);
    expect_acquire(&s, "/a");
    ask(&w, &second);
    pass_ms(&w, 100);
    expect_complete(&w, &second, LH_ERR_DEADLINE_EXCEEDED);
    say_sent(&w, s.link);
    expect_quiet(&w);
    world_deinit(&w);
}

static int cancel(struct world *world, const char *name, const void *tag)
{
    struct lh_withdraw_call call = {
        .call.kind = LH_CALL_WITHDRAW, .session = s.session, .name = name, .tag = tag};

    ask(world, &call);
    struct event *e = take(world, LH_FX_COMPLETE);
    while (e->call != &call)
        e = take(world, LH_FX_COMPLETE);
    return e->error;
}

static void a_request_is_cancelled_by_its_name_and_tag(void **state)
{
    (void)state;
    given_session(&s, &w);
    int tag = 0, other = 0;
    struct lh_acquire_call call = acquire_call(&s, "/a");
    call.tag = &tag;
    ask(&w, &call);
    uint64_t id = expect_acquire(&s, "/a");
    assert_int_equal(cancel(&w, "/a", &other), LH_ERR_NOT_FOUND);
    assert_int_equal(cancel(&w, "/b", &tag), LH_ERR_NOT_FOUND);
    expect_quiet(&w);

    struct lh_withdraw_call withdraw = {
        .call.kind = LH_CALL_WITHDRAW, .session = s.session, .name = "/a", .tag = &tag};
    ask(&w, &withdraw);
    expect_complete(&w, &call, LH_ERR_CANCELLED);
    expect_complete(&w, &withdraw, LH_OK);
    assert_int_equal(expect_op(&s, LEASEHOLD__LEASE_OP__OP_WITHDRAW)->withdraw->id, id);

    /* The same name is asked for again, behind what may still come of the first request. */
    struct lh_acquire_call again = acquire_call(&s, "/a");
    ask(&w, &again);
    expect_beat(&s);
    say_granted(&s, id, 8);
    const Leasehold__LeaseOps *ops = expect_ops(&s, 2);
    assert_int_equal(ops->ops[0]->release->token, 8);
    say_granted(&s, ops->ops[1]->acquire->id, 9);
    expect_complete(&w, &again, LH_OK);
    expect_quiet(&w);
    world_deinit(&w);
}

static void what_is_held_is_not_cancelled(void **state)
{
    (void)state;
    given_session(&s, &w);
    uint64_t lock = given_lock(&s, "/a", 5, false);
    assert_int_equal(cancel(&w, "/a", NULL), LH_ERR_NOT_FOUND);
    assert_int_equal(lock_left_ms(&s, lock), TERM_MS);
    expect_quiet(&w);
    world_deinit(&w);
}

/* ---- Showing. */

static void what_is_held_and_waits_is_shown_again(void **state)
{
    (void)state;
    given_one_master();
    uint64_t lock = given_lock(&s, "/a", 5, true);
    struct lh_acquire_call waits = acquire_call(&s, "/b"), at_once = acquire_call(&s, "/c");
    waits.shared = true;
    waits.slots = 3;
    waits.info = "me";
    waits.info_size = 2;
    ask(&w, &waits);
    uint64_t id = expect_op(&s, LEASEHOLD__LEASE_OP__OP_ACQUIRE)->acquire->id;
    say_queued(&s, id, 1234);
    at_once.no_wait = true;
    ask(&w, &at_once);
    expect_acquire(&s, "/c");

    const Leasehold__Show *m = shown_again(4);
    assert_int_equal(m->n_locks, 1);
    assert_string_equal(m->locks[0]->name, "/a");
    assert_int_equal(m->locks[0]->token, 5);
    assert_true(m->locks[0]->recallable);
    assert_false(m->locks[0]->ends);
    assert_int_equal(m->n_waiting, 1);
    assert_string_equal(m->waiting[0]->name, "/b");
    assert_int_equal(m->waiting[0]->queued, 1234);
    assert_int_equal(m->waiting[0]->mode, LEASEHOLD__LOCK_MODE__SHARED);
    assert_int_equal(m->waiting[0]->slots, 3);
    assert_int_equal(m->waiting[0]->info.len, 2);
    say_shown(&s);
    assert_int_equal(lock_left_ms(&s, lock), TERM_MS);
    uint64_t third = expect_acquire(&s, "/c");
    say_granted(&s, third, 6);
    expect_complete(&w, &at_once, LH_OK);
    say_granted(&s, id, 7);
    expect_complete(&w, &waits, LH_OK);
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_lock_that_does_not_go_on_is_lost(void **state)
{
    (void)state;
    given_one_master();
    uint64_t lock = given_lock(&s, "/a", 5, false), other = given_lock(&s, "/b", 6, false);
    await_event(&s);
    shown_again(4);
    Leasehold__Shown shown = shown_reply(&s);
    char *lost[] = {(char *)(uintptr_t) "/a", (char *)(uintptr_t) "/never"};
    shown.lost = lost;
    shown.n_lost = 2;
    say_shown_with(&s, shown);
    expect_event(&s, LH_CLIENT_LOCK_LOST, lock);
    assert_int_equal(lock_left_ms(&s, lock), 0);
    assert_int_equal(lock_left_ms(&s, other), TERM_MS);
    expect_quiet(&w);
    world_deinit(&w);
}

static void much_is_shown_in_pieces(void **state)
{
    (void)state;
    given_session_with(&s, &w,
        (struct lh_client_config){
            .masters = one_master, .master_count = 1, .session_message_bytes = 150});
    given_lock(&s, "/a", 5, false);
    given_lock(&s, "/b", 6, false);
    given_lock(&s, "/c", 7, false);
    const Leasehold__Show *m = shown_again_in_pieces(4);
    assert_int_equal(m->n_locks, 2);
    uint64_t stamp = m->stamp;
    m = expect_show(&s);
    assert_int_equal(m->n_locks, 1);
    assert_false(m->more);
    assert_int_equal(m->stamp, stamp);
    expect_quiet(&w);
    world_deinit(&w);
}

/* PS-2a: heartbeats go between the pieces, and a new master answers them before it has all. */
static void a_session_lives_while_it_shows(void **state)
{
    (void)state;
    given_session_with(&s, &w,
        (struct lh_client_config){
            .masters = one_master, .master_count = 1, .session_message_bytes = 100});
    uint64_t lock = given_lock(&s, "/a", 5, false);
    given_lock(&s, "/b", 6, false);
    given_lock(&s, "/c", 7, false);
    w.slow = true;
    uint64_t shown = shown_again_in_pieces(4)->stamp;
    say_beat(&s, shown);
    assert_int_equal(session_left_ms(&s), TERM_MS);
    say_beat(&s, shown + 1000000); /* what was never sent renews nothing */
    assert_int_equal(session_left_ms(&s), TERM_MS);
    expect_quiet(&w);

    /* It takes three terms, a piece each. */
    for (unsigned i = 0; i < 9; i++) {
        pass_ms(&w, BEAT_MS);
        uint64_t stamp = expect_beat(&s)->stamp;
        say_beat(&s, stamp);
        assert_int_equal(session_left_ms(&s), TERM_MS);
        assert_int_equal(lock_left_ms(&s, lock), TERM_MS);
        if (i % 3 == 2 && i < 8) {
            say_sent(&w, s.link);
            const Leasehold__Show *m = expect_show(&s);
            assert_int_equal(m->n_locks, 1);
            assert_int_equal(m->stamp, shown);
            assert_int_equal(m->more, i == 2);
        }
        expect_quiet(&w);
    }
    say_shown(&s);
    assert_int_equal(session_left_ms(&s), TERM_MS);
    pass_ms(&w, BEAT_MS);
    say_beat(&s, expect_beat(&s)->stamp);
    expect_quiet(&w);
    world_deinit(&w);
}

/* A master that has granted since it began does not answer them, and renews nothing. */
static void a_session_that_is_not_answered_while_it_shows_runs_out(void **state)
{
    (void)state;
    given_session_with(&s, &w,
        (struct lh_client_config){
            .masters = one_master, .master_count = 1, .session_message_bytes = 100});
    uint64_t lock = given_lock(&s, "/a", 5, false);
    given_lock(&s, "/b", 6, false);
    w.slow = true;
    shown_again_in_pieces(3);
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    assert_true(lock_left_ms(&s, lock) <= TERM_MS - BEAT_MS);
    assert_true(lock_left_ms(&s, lock) > 0);
    /* What is left of the showing goes with the stream. */
    shown_again_in_pieces(3);
    expect_quiet(&w);
    world_deinit(&w);
}

/* ---- Recall and cut. */

static void a_recall_reaches_a_program_that_wants_it(void **state)
{
    (void)state;
    given_session(&s, &w);
    uint64_t lock = given_lock(&s, "/a", 5, true);
    given_lock(&s, "/b", 6, false);
    say_demand(&s, "/a", 5, false, "backup waits");
    say_demand(&s, "/a", 4, false, "of an earlier lock");
    say_demand(&s, "/b", 6, false, "nobody asked to hear");
    await_event(&s);
    expect_event(&s, LH_CLIENT_RECALLED, lock);
    assert_string_equal(s.event.call.text, "backup waits");
    assert_int_equal(s.event.waiting, 1);
    await_event(&s);
    expect_quiet(&w);

    struct lh_yield_call keeps = {
        .call.kind = LH_CALL_YIELD, .session = s.session, .lock = lock, .in = LH_DURATION_FOREVER};
    ask(&w, &keeps);
    expect_complete(&w, &keeps, LH_OK);
    assert_true(expect_op(&s, LEASEHOLD__LEASE_OP__OP_YIELD)->yield->refuse);
    assert_int_equal(lock_left_ms(&s, lock), session_left_ms(&s));
    world_deinit(&w);
}

static void a_lock_that_yields_ends_in_the_time_it_named(void **state)
{
    (void)state;
    given_session(&s, &w);
    uint64_t lock = given_lock(&s, "/a", 5, true);
    await_event(&s);
    struct lh_yield_call yields = {
        .call.kind = LH_CALL_YIELD, .session = s.session, .lock = lock, .in = lh_milliseconds(400)};
    ask(&w, &yields);
    expect_complete(&w, &yields, LH_OK);
    const Leasehold__Yield *m = expect_op(&s, LEASEHOLD__LEASE_OP__OP_YIELD)->yield;
    assert_int_equal(m->in_ms, 400);
    assert_false(m->refuse);
    assert_int_equal(lock_left_ms(&s, lock), 400);
    pass_ms(&w, 400);
    assert_int_equal(lock_left_ms(&s, lock), 0);
    expect_event(&s, LH_CLIENT_LOCK_LOST, lock);
    assert_int_equal(expect_op(&s, LEASEHOLD__LEASE_OP__OP_RELEASE)->release->token, 5);
    expect_quiet(&w);
    world_deinit(&w);
}

static void no_renewal_covers_a_cancelled_lock(void **state)
{
    (void)state;
    given_session(&s, &w);
    uint64_t lock = given_lock(&s, "/a", 5, false), other = given_lock(&s, "/b", 6, false);
    await_event(&s);
    pass(&w);
    expect_beat(&s);
    say_demand(&s, "/a", 5, true, "cancelled by an operator");
    expect_event(&s, LH_CLIENT_CUT, lock);
    uint64_t left = lock_left_ms(&s, lock);
    assert_int_equal(left, TERM_MS - BEAT_MS);
    say_beat(&s, s.stamp);
    assert_int_equal(lock_left_ms(&s, lock), left);
    assert_int_equal(lock_left_ms(&s, other), TERM_MS);

    /* Said again after the renewal: its end does not move, and it is said once. */
    await_event(&s);
    say_demand(&s, "/a", 5, true, "cancelled by an operator");
    assert_int_equal(lock_left_ms(&s, lock), left);
    expect_quiet(&w);
    w.now = in_ms(&w, left);
    assert_int_equal(lock_left_ms(&s, lock), 0);
    world_deinit(&w);
}

/* NL-4: attaching again does not move it; a new master learns how much of it is left. */
static void a_cut_lock_is_shown_with_what_is_left(void **state)
{
    (void)state;
    given_one_master();
    uint64_t lock = given_lock(&s, "/a", 5, false);
    say_demand(&s, "/a", 5, true, "cancelled");
    pass_ms(&w, 1000);
    const Leasehold__Show *m = shown_again(4);
    assert_true(m->locks[0]->ends);
    assert_in_range(m->locks[0]->left_ns, 1, (TERM_MS - 1000) * UINT64_C(1000000));
    uint64_t left = lock_left_ms(&s, lock);
    say_shown(&s);
    assert_int_equal(lock_left_ms(&s, lock), left);
    world_deinit(&w);
}

/* The demand was lost with its stream. The end is what the session had before it was renewed. */
static void a_cut_that_the_program_never_heard_of_counts_from_the_old_end(void **state)
{
    (void)state;
    given_one_master();
    uint64_t lock = given_lock(&s, "/a", 5, false);
    await_event(&s);
    pass_ms(&w, 1000);
    shown_again(3);
    uint64_t left = lock_left_ms(&s, lock);
    Leasehold__Shown shown = shown_reply(&s);
    char *cut[] = {(char *)(uintptr_t) "/a"};
    shown.cut = cut;
    shown.n_cut = 1;
    say_shown_with(&s, shown);
    expect_event(&s, LH_CLIENT_CUT, lock);
    assert_int_equal(lock_left_ms(&s, lock), left);
    assert_true(session_left_ms(&s) > left);
    world_deinit(&w);
}

/* ---- Bounds. */

static unsigned guards, guard_depth;

static void guard(void *arg, bool on)
{
    (void)arg;
    guards += on;
    guard_depth += on ? 1 : -1u;
    assert_in_range(guard_depth, 0, 1);
}

static void changes_of_what_others_read_are_guarded(void **state)
{
    (void)state;
    guards = guard_depth = 0;
    given_session_with(&s, &w, (struct lh_client_config){.guard = guard});
    unsigned before = guards;
    assert_true(before > 0);
    uint64_t lock = given_lock(&s, "/a", 5, false);
    assert_true(guards > before);
    before = guards;
    release(&s, lock, LH_OK);
    assert_true(guards > before);
    assert_int_equal(guard_depth, 0);
    world_deinit(&w);
}

static void a_session_has_so_many_locks(void **state)
{
    (void)state;
    given_session_with(&s, &w, (struct lh_client_config){.session_locks = 1});
    uint64_t lock = given_lock(&s, "/a", 5, false);
    struct lh_acquire_call call = acquire_call(&s, "/b");
    ask(&w, &call);
    expect_complete(&w, &call, LH_ERR_NO_MEMORY);
    release(&s, lock, LH_OK);
    expect_op(&s, LEASEHOLD__LEASE_OP__OP_RELEASE);
    given_lock(&s, "/b", 6, false);
    world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_is_granted_and_ends_with_its_session),
        cmocka_unit_test(a_name_is_asked_for_once_at_a_time),
        cmocka_unit_test(a_refusal_ends_the_request),
        cmocka_unit_test(operations_gather_while_a_message_has_not_left),
        cmocka_unit_test(a_released_lock_is_not_held_at_once),
        cmocka_unit_test(a_lock_released_without_a_stream_is_not_shown),
        cmocka_unit_test(a_lock_released_while_it_is_shown_is_released_behind_that),
        cmocka_unit_test(a_request_is_withdrawn_at_its_deadline),
        cmocka_unit_test(a_new_request_waits_until_the_withdrawn_one_is_settled),
        cmocka_unit_test(a_new_request_follows_the_release_of_a_grant_that_came_too_late),
        cmocka_unit_test(a_request_that_was_not_sent_is_withdrawn_in_silence),
        cmocka_unit_test(a_request_is_cancelled_by_its_name_and_tag),
        cmocka_unit_test(what_is_held_is_not_cancelled),
        cmocka_unit_test(what_is_held_and_waits_is_shown_again),
        cmocka_unit_test(a_lock_that_does_not_go_on_is_lost),
        cmocka_unit_test(much_is_shown_in_pieces),
        cmocka_unit_test(a_session_lives_while_it_shows),
        cmocka_unit_test(a_session_that_is_not_answered_while_it_shows_runs_out),
        cmocka_unit_test(a_recall_reaches_a_program_that_wants_it),
        cmocka_unit_test(a_lock_that_yields_ends_in_the_time_it_named),
        cmocka_unit_test(no_renewal_covers_a_cancelled_lock),
        cmocka_unit_test(a_cut_lock_is_shown_with_what_is_left),
        cmocka_unit_test(a_cut_that_the_program_never_heard_of_counts_from_the_old_end),
        cmocka_unit_test(changes_of_what_others_read_are_guarded),
        cmocka_unit_test(a_session_has_so_many_locks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
