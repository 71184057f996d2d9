/* Values that programs cache (VAL-1, VAL-2, VAL-3, NL-5): leases, changes that wait for them,
 * tokens. */
#include "tests/core/master/values_story.h"

static void both_up(void)
{
    comes(&one);
    comes(&two);
}

/* Time passes, and both beat. */
static void beats(uint64_t ms)
{
    for (; ms > 0; ms -= ms < 3000 ? ms : 3000) {
        world_advance(&w, ms < 3000 ? ms : 3000);
        heartbeat(&one);
        heartbeat(&two);
    }
}

/* ---- Leases. */

static void a_read_gives_value_and_lease_and_a_change_waits_until_it_is_dropped(void **state)
{
    (void)state;
    both_up();
    uint64_t revision = put_value("/a", "one");
    const Leasehold__ValueRead *read = read_value(&one, "/a");
    assert_true(read->leased && is_text(&read->value, "one"));
    assert_int_equal(read->revision, revision);

    uint64_t link = begin_put("/a", "two");
    uint64_t change = told_to_drop(&one, "/a");
    assert_int_not_equal(change, 0);
    assert_int_equal(told_to_drop(&two, "/a"), 0);
    assert_null(change_reply(link));
    has_dropped(&one, "/a", change);
    changed(link);
    read = read_value(&one, "/a");
    assert_true(read->leased && is_text(&read->value, "two"));
}

static void who_has_the_value_gets_the_lease_alone(void **state)
{
    (void)state;
    both_up();
    uint64_t revision = put_value("/a", "one");
    ask_value(&one, 7, "/a", revision, true);
    const Leasehold__ValueRead *read = value_read(&one);
    assert_true(read->same && read->leased && read->value.len == 0);
    assert_int_equal(read->id, 7);
    ask_value(&one, 8, "/a", revision, false);
    assert_false(value_read(&one)->leased);
}

static bool is_said(const Leasehold__NameInfo *info, const char *part)
{
    for (size_t i = 0; i < info->n_sentences; i++)
        if (strstr(info->sentences[i], part) != NULL)
            return true;
    return false;
}

static void a_changing_value_is_not_said_to_be_cached(void **state)
{
    static const char cached[] = "may serve it from its cache", changing[] = "It is changing";

    (void)state;
    both_up();
    put_value("/a", "one");
    read_value(&one, "/a");
    assert_true(is_said(look_at("/a"), cached) && !is_said(look_at("/a"), changing));
    uint64_t link = begin_put("/a", "two");
    uint64_t change = told_to_drop(&one, "/a");
    assert_true(!is_said(look_at("/a"), cached) && is_said(look_at("/a"), changing));
    assert_false(read_value(&two, "/a")->leased);
    has_dropped(&one, "/a", change);
    assert_int_not_equal(changed(link), 0);
    assert_true(is_said(look_at("/a"), cached) && !is_said(look_at("/a"), changing));
    assert_true(read_value(&two, "/a")->leased);
}

static void that_there_is_no_value_can_be_cached_too(void **state)
{
    (void)state;
    both_up();
    const Leasehold__ValueRead *read = read_value(&one, "/a");
    assert_int_equal(read->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_true(read->leased);
    uint64_t link = begin_put("/a", "one");
    uint64_t change = told_to_drop(&one, "/a");
    assert_null(change_reply(link));
    has_dropped(&one, "/a", change);
    changed(link);
}

/* There is nothing else to the name, and it is read before the end of its lease was looked at. */
static void a_lease_that_is_over_does_not_take_the_name_from_the_next_reader(void **state)
{
    Leasehold__LeaseSessionRequest request = LEASEHOLD__LEASE_SESSION_REQUEST__INIT;
    Leasehold__CloseSession close = LEASEHOLD__CLOSE_SESSION__INIT;
    char name[8];

    (void)state;
    w.config.step_work = 1;
    world_crash(&w);
    both_up();
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "/%u", i);
        assert_true(read_value(&one, name)->leased);
    }
    request.body_case = LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE;
    request.close = &close;
    prog_send(&one, &request);
    assert_true(read_value(&two, "/20")->leased);
    uint64_t link = begin_put("/20", "one");
    uint64_t change = told_to_drop(&two, "/20");
    assert_null(change_reply(link));
    has_dropped(&two, "/20", change);
    world_advance(&w, 0);
    changed(link);
}

static void a_lease_lasts_for_a_share_of_the_time_since_the_value_changed(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    beats(30000);
    /* 3 s of 30, and its end is counted from the heartbeat of just now; 1 % of drift each way. */
    uint64_t term = read_value(&one, "/a")->term_ns;
    assert_true(term < 3000000000u && term > 2900000000u);
    uint64_t link = begin_put("/a", "two");
    told_to_drop(&one, "/a");
    world_advance(&w, 3000);
    assert_null(change_reply(link));
    world_advance(&w, 2);
    changed(link);
}

static void a_lease_between_two_heartbeats_is_not_shorter_for_it(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    world_advance(&w, 3000);
    const Leasehold__ValueRead *read = read_value(&one, "/a");
    assert_true(read->leased);
    assert_true(read->term_ns > 3900000000u && read->term_ns < 4000000000u);
}

static void a_policy_without_leases_gives_a_time_to_live(void **state)
{
    (void)state;
    Leasehold__Policy p = policy_for("/a/");

    both_up();
    p.no_lease = true;
    set_policy(&p, false);
    put_value("/a/b", "one");
    const Leasehold__ValueRead *read = read_value(&one, "/a/b");
    assert_true(!read->leased && read->term_ns > 0);
    changed(begin_put("/a/b", "two"));
}

static void near_the_bound_leases_shrink_and_at_it_none_is_given(void **state)
{
    (void)state;
    w.config.locks_max = 8;
    crash();
    both_up();
    Leasehold__Policy p = policy_for("/");
    p.term_min_ms = 2000;
    p.share_percent = 1000;
    set_policy(&p, false);
    char name[8];
    for (unsigned i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "/n%u", i);
        put_value(name, "one");
    }
    beats(6000);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "/n%u", i);
        const Leasehold__ValueRead *read = read_value(&one, name);
        assert_true(read->leased);
        assert_int_equal(read->term_ns > 2500000000u, i < 6);
    }
    const Leasehold__ValueRead *read = read_value(&two, "/n0");
    assert_true(!read->leased && read->term_ns == 0 && is_text(&read->value, "one"));
}

/* ---- Changes that wait. */

static void a_read_while_a_change_waits_gives_the_old_value_without_a_lease(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    cache_value(&one, "/a");
    uint64_t link = begin_put("/a", "two"), change = told_to_drop(&one, "/a");
    const Leasehold__ValueRead *read = read_value(&two, "/a");
    assert_true(!read->leased && is_text(&read->value, "one"));
    assert_int_equal(read->changing, change);
    value_is("/a", "one");
    has_dropped(&one, "/a", change);
    changed(link);
}

static void a_read_between_commit_and_durability_waits(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    w.hold_commits = true;
    uint64_t link = begin_put("/a", "two");
    assert_null(read_value(&one, "/a"));
    ask_value(&two, 2, "/a", 0, false);
    assert_null(value_read(&two));
    world_break_link(&w, two.link);
    world_commit_all(&w);
    w.hold_commits = false;
    changed(link);
    const Leasehold__ValueRead *read = value_read(&one);
    assert_true(read->leased && is_text(&read->value, "two"));
    assert_null(value_read(&two));
}

static void a_silent_cache_is_waited_for_until_its_session_ends(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    beats(300000); /* its lease lasts for 30 s */
    cache_value(&one, "/a");
    cache_value(&two, "/a");
    uint64_t link = begin_put("/a", "two");
    has_dropped(&two, "/a", told_to_drop(&two, "/a"));
    world_advance(&w, 10000);
    assert_null(change_reply(link));
    world_advance(&w, 2);
    changed(link);
}

/* NL-4: its heartbeats renew the session, and not the lease that was cut. */
static void a_cache_that_beats_and_does_not_listen_is_waited_for_no_longer(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    beats(300000);
    cache_value(&one, "/a");
    world_advance(&w, 1000);
    uint64_t link = begin_put("/a", "two");
    beats(8999);
    assert_null(change_reply(link));
    beats(4);
    changed(link);
    assert_non_null(heartbeat(&one)); /* the session goes on */
}

static void the_confirmation_of_an_earlier_change_does_not_count(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    cache_value(&one, "/a");
    uint64_t link = begin_put("/a", "two"), first = told_to_drop(&one, "/a");
    has_dropped(&one, "/a", first);
    changed(link);
    cache_value(&one, "/a");
    has_dropped(&one, "/a", first); /* it was late */
    link = begin_put("/a", "three");
    uint64_t second = told_to_drop(&one, "/a");
    assert_true(second != 0 && second != first);
    has_dropped(&one, "/a", first);
    assert_null(change_reply(link));
    has_dropped(&one, "/a", second);
    changed(link);
}

static void a_change_that_may_not_wait_so_long_changes_nothing_and_the_next_one_goes_on(
    void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    beats(300000);
    cache_value(&one, "/a");
    Leasehold__ChangeRequest r = change_to("/a", "two");
    r.wait_ms = 500;
    uint64_t link = begin_change(&r);
    uint64_t change = told_to_drop(&one, "/a");
    world_advance(&w, 500);
    change_refused(link, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    /* Who was told may answer yet: until then nobody is given a lease. */
    assert_false(read_value(&two, "/a")->leased);
    link = begin_put("/a", "three");
    assert_int_equal(told_to_drop(&one, "/a"), 0);
    has_dropped(&one, "/a", change);
    assert_null(change_reply(link)); /* `two` was promised the value for 125 ms meanwhile */
    world_advance(&w, 125);
    changed(link);
    assert_true(read_value(&two, "/a")->leased);
}

/* ---- Reads while a change waits (VAL-2). */

/* `one` caches the value and is silent, and `two` beats at the end of the time. */
static uint64_t given_a_change_that_waits(uint64_t ms, uint64_t *change)
{
    both_up();
    put_value("/a", "one");
    beats(300000);
    cache_value(&one, "/a");
    uint64_t link = begin_put("/a", "two");
    *change = told_to_drop(&one, "/a");
    for (; ms > 3000; ms -= 3000) {
        world_advance(&w, 3000);
        heartbeat(&two);
    }
    world_advance(&w, ms);
    heartbeat(&two);
    return link;
}

static uint64_t promised_ns(struct prog *p)
{
    const Leasehold__ValueRead *read = read_value(p, "/a");

    assert_true(!read->leased && read->changing != 0 && is_text(&read->value, "one"));
    return read->term_ns;
}

static void a_read_of_what_changes_is_good_for_a_share_of_the_wait(void **state)
{
    (void)state;
    uint64_t change, link = given_a_change_that_waits(4000, &change);
    uint64_t term = promised_ns(&two);
    assert_true(term > 950000000 && term < 1000000000); /* a quarter, by the holder's clock */
    has_dropped(&one, "/a", change);
    world_advance(&w, 999);
    assert_null(change_reply(link));
    value_is("/a", "one");
    world_advance(&w, 1);
    changed(link);
    value_is("/a", "two");
}

static void nothing_is_promised_once_all_have_dropped_it(void **state)
{
    (void)state;
    uint64_t change, link = given_a_change_that_waits(4000, &change);
    assert_true(promised_ns(&two) > 0);
    has_dropped(&one, "/a", change);
    world_advance(&w, 900);
    assert_int_equal(promised_ns(&two), 0);
    world_advance(&w, 100);
    changed(link);
}

static void what_is_promised_ends_with_the_longest_lease_that_the_change_waits_for(void **state)
{
    (void)state;
    uint64_t change, link = given_a_change_that_waits(9600, &change);
    uint64_t term = promised_ns(&two); /* not 2400 ms */
    assert_true(term > 380000000 && term < 400000000);
    world_advance(&w, 400);
    assert_null(change_reply(link));
    world_advance(&w, 2);
    changed(link);
}

static void a_promise_outlives_the_change_that_it_was_given_in(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    beats(300000);
    cache_value(&one, "/a");
    Leasehold__ChangeRequest r = change_to("/a", "two");
    r.wait_ms = 2000;
    uint64_t link = begin_change(&r), change = told_to_drop(&one, "/a");
    world_advance(&w, 1999);
    heartbeat(&two);
    assert_true(promised_ns(&two) > 0); /* 499 ms */
    world_advance(&w, 1);
    change_refused(link, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    has_dropped(&one, "/a", change);
    link = begin_put("/a", "three");
    world_advance(&w, 497);
    assert_null(change_reply(link));
    world_advance(&w, 2);
    changed(link);
}

static void a_policy_without_leases_promises_nothing_either(void **state)
{
    (void)state;
    uint64_t change, link = given_a_change_that_waits(4000, &change);
    Leasehold__Policy p = policy_for("/a");
    p.no_lease = true;
    assert_int_equal(set_policy(&p, false), LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(promised_ns(&two), 0);
    has_dropped(&one, "/a", change);
    changed(link);
}

static void once_all_are_gone_leases_are_given_again_though_nothing_changed(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    cache_value(&one, "/a");
    Leasehold__ChangeRequest r = change_to("/a", "two");
    r.wait_ms = 500;
    uint64_t link = begin_change(&r), change = told_to_drop(&one, "/a");
    world_advance(&w, 500);
    change_refused(link, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    has_dropped(&one, "/a", change);
    assert_true(read_value(&one, "/a")->leased);
    value_is("/a", "one");
}

static void the_change_behind_another_waits_for_caches_of_its_own(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    cache_value(&one, "/a");
    uint64_t first = begin_put("/a", "two"), second = begin_put("/a", "three");
    has_dropped(&one, "/a", told_to_drop(&one, "/a"));
    assert_true(changed(first) < changed(second)); /* nobody was given a lease in between */
    value_is("/a", "three");
}

static void a_repeat_of_a_change_that_waits_for_caches_is_answered_with_it(void **state)
{
    (void)state;
    Leasehold__CallId id = call_id(1, false);
    Leasehold__ChangeRequest r = change_to("/a", "two");

    both_up();
    put_value("/a", "one");
    cache_value(&one, "/a");
    r.call = &id;
    r.wait_ms = 5000;
    world_break_link(&w, begin_change(&r));
    id.repeated = true;
    r.wait_ms = 3000; /* of that are left */
    uint64_t link = begin_change(&r);
    has_dropped(&one, "/a", told_to_drop(&one, "/a"));
    assert_int_equal(changed(link), 2);
    assert_int_equal(changed(begin_change(&r)), 2);
    crash();
    assert_int_equal(changed(begin_change(&r)), 2);
}

/* ---- Streams and sessions that break meanwhile. */

static void who_attaches_again_and_shows_the_value_is_told_again(void **state)
{
    (void)state;
    both_up();
    uint64_t revision = put_value("/a", "one");
    cache_value(&one, "/a");
    uint64_t link = begin_put("/a", "two"), change = told_to_drop(&one, "/a");
    world_break_link(&w, one.link);
    const Leasehold__Shown *shown = comes_back(&one, "/a", revision);
    assert_int_equal(shown->n_dropped, 1); /* the term of what goes on is not its own */
    assert_null(change_reply(link));
    assert_int_equal(told_to_drop(&one, "/a"), change);
    has_dropped(&one, "/a", change);
    changed(link);
}

static void who_attaches_again_and_shows_nothing_has_dropped_it(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    cache_value(&one, "/a");
    uint64_t link = begin_put("/a", "two");
    world_break_link(&w, one.link);
    assert_null(change_reply(link));
    comes_back(&one, NULL, 0);
    changed(link);
}

/* PS-2: attaching again does not move the end of what was cut. */
static void attaching_again_does_not_make_a_change_wait_longer(void **state)
{
    (void)state;
    both_up();
    uint64_t revision = put_value("/a", "one");
    beats(300000);
    cache_value(&one, "/a");
    uint64_t link = begin_put("/a", "two");
    world_advance(&w, 5000);
    world_break_link(&w, one.link);
    comes_back(&one, "/a", revision);
    world_advance(&w, 5000);
    assert_null(change_reply(link));
    world_advance(&w, 2);
    changed(link);
}

static void who_shows_old_bytes_is_told_not_to_serve_them(void **state)
{
    (void)state;
    both_up();
    uint64_t revision = put_value("/a", "one");
    put_value("/a", "two");
    const Leasehold__Shown *shown = comes_back(&one, "/a", revision);
    assert_int_equal(shown->n_dropped, 1);
    assert_string_equal(shown->dropped[0], "/a");
    changed(begin_put("/a", "three"));
    assert_int_equal(told_to_drop(&one, "/a"), 0);
}

static void a_session_that_is_closed_caches_nothing(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    cache_value(&one, "/a");
    uint64_t link = begin_put("/a", "two");
    closes(&one);
    changed(link);
}

/* ---- The next master (PS-3). */

static void the_next_master_changes_nothing_before_all_are_back(void **state)
{
    (void)state;
    both_up();
    uint64_t revision = put_value("/a", "one");
    cache_value(&one, "/a");
    crash();
    uint64_t link = begin_put("/a", "two"), other = begin_put("/b", "other");
    assert_null(change_reply(other));
    comes_back(&two, NULL, 0);
    assert_null(change_reply(other));
    const Leasehold__Shown *shown = comes_back(&one, "/a", revision);
    assert_int_equal(shown->n_dropped, 1);
    changed(other);
    assert_null(change_reply(link));
    has_dropped(&one, "/a", told_to_drop(&one, "/a"));
    changed(link);
}

static void what_is_shown_to_the_next_master_goes_on(void **state)
{
    (void)state;
    both_up();
    uint64_t revision = put_value("/a", "one");
    cache_value(&one, "/a");
    crash();
    comes_back(&two, NULL, 0);
    const Leasehold__Shown *shown = comes_back(&one, "/a", revision);
    assert_int_equal(shown->n_dropped, 0);
    assert_true(shown->values_term_ns > 0);
    uint64_t link = begin_put("/a", "two");
    assert_null(change_reply(link));
    has_dropped(&one, "/a", told_to_drop(&one, "/a"));
    changed(link);
}

static void the_next_master_waits_for_one_that_does_not_come_back(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    cache_value(&one, "/a");
    crash();
    comes_back(&two, NULL, 0);
    uint64_t link = begin_put("/a", "two");
    for (unsigned i = 0; i < 5; i++) {
        world_advance(&w, 2000);
        heartbeat(&two);
        assert_null(change_reply(link));
    }
    world_advance(&w, 2);
    changed(link);
}

/* ---- Tokens (VAL-3). */

static void a_change_with_the_token_of_a_lock_that_is_held_is_applied(void **state)
{
    (void)state;
    both_up();
    Leasehold__ChangeRequest r = change_to("/a", "one");
    r.token = locks(&one, "/a", false);
    changed(begin_change(&r));
    change_refused(begin_put("/a", "two"), LEASEHOLD__ERROR_CODE__STALE_TOKEN);
    uint64_t stale = r.token;
    releases(&one, "/a", stale);
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__STALE_TOKEN);
    r.token = locks(&two, "/a", false);
    changed(begin_change(&r));
    r.lock = (char *)(uintptr_t) "/other";
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__STALE_TOKEN);
    r.token = locks(&two, "/other", false);
    changed(begin_change(&r));
    r = change_to("/a", "three");
    r.force = true;
    changed(begin_change(&r));
    changed(begin_put("/a", "four")); /* none is needed any more */
}

/* VAL-2 (4): conditions are those of the moment at which nobody caches the value. */
static void a_lock_that_is_lost_while_the_change_waits_does_not_count(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    cache_value(&two, "/a");
    Leasehold__ChangeRequest r = change_to("/a", "two");
    r.token = locks(&one, "/a", false);
    uint64_t link = begin_change(&r);
    releases(&one, "/a", r.token);
    has_dropped(&two, "/a", told_to_drop(&two, "/a"));
    change_refused(link, LEASEHOLD__ERROR_CODE__STALE_TOKEN);
    value_is("/a", "one");
    assert_true(read_value(&two, "/a")->leased);
}

/* ---- Listings. */

static bool says(const Leasehold__NameInfo *info, const char *what)
{
    for (size_t i = 0; i < info->n_sentences; i++)
        if (strstr(info->sentences[i], what) != NULL)
            return true;
    return false;
}

static void a_listing_says_who_is_waited_for(void **state)
{
    (void)state;
    both_up();
    put_value("/a", "one");
    cache_value(&one, "/a");
    cache_value(&two, "/a");
    const Leasehold__NameInfo *info = look_at("/a");
    assert_int_equal(info->value->revision, 1);
    assert_int_equal(info->value->size, 3);
    assert_int_equal(info->caches, 2);
    assert_true(!info->changing && says(info, "2 sessions may serve it"));
    uint64_t link = begin_put("/a", "two");
    has_dropped(&one, "/a", told_to_drop(&one, "/a"));
    info = look_at("/a");
    assert_true(info->changing && info->caches == 1);
    assert_true(info->change_left_ms > 0 && info->change_left_ms <= 1002);
    assert_true(says(info, "1 change of it waits") && says(info, "1 session is told to drop it"));
    has_dropped(&two, "/a", told_to_drop(&two, "/a"));
    changed(link);
    assert_true(says(look_at("/a"), "It changed 0.0 s ago."));
}

/* Who shows a value may serve it until it hears of the term that it is given (LEASE-7). */
static void a_shorter_term_at_the_next_master_counts_once_it_is_heard_of(void **state)
{
    (void)state;
    both_up();
    uint64_t revision = put_value("/a", "one");
    beats(100000); /* a tenth: as long as the session */
    cache_value(&one, "/a");
    crash();
    const Leasehold__Shown *shown = comes_back(&one, "/a", revision);
    assert_true(shown->n_dropped == 0 && shown->values_term_ns < 2000000000u);
    comes_back(&two, NULL, 0);
    world_advance(&w, 3000); /* the answer is on its way */
    uint64_t link = begin_put("/a", "two");
    uint64_t change = told_to_drop(&one, "/a");
    assert_null(change_reply(link));
    assert_int_not_equal(change, 0);
    has_dropped(&one, "/a", change);
    changed(link);
}

/* Reads that waited for a commit are answered a few in each step: the first have leases. */
static void what_was_cached_while_other_reads_are_answered_can_be_shown(void **state)
{
    (void)state;
    w.config.drops_step = w.config.step_work = 1;
    crash();
    both_up();
    put_value("/a", "one");
    w.hold_commits = true;
    uint64_t link = begin_put("/a", "two");
    ask_value(&one, 1, "/a", 0, true);
    for (uint64_t id = 1; id <= 8; id++)
        ask_value(&two, id, "/a", 0, true);
    world_commit(&w);
    w.hold_commits = false;
    uint64_t revision = changed(link);
    const Leasehold__ValueRead *read = value_read(&one);
    assert_true(read->leased && read->revision == revision);

    comes_back(&one, "/a", revision);
    link = begin_put("/a", "three"); /* while the answer is on its way: it may serve the value */
    world_advance(&w, 0);
    has_dropped(&two, "/a", told_to_drop(&two, "/a"));
    uint64_t change = told_to_drop(&one, "/a");
    assert_null(change_reply(link));
    assert_int_not_equal(change, 0);
    has_dropped(&one, "/a", change);
    changed(link);
}

static void of_very_much_that_is_shown_while_it_changes_some_just_runs_out(void **state)
{
    (void)state;
    w.config.late_drops_max = 1;
    crash();
    both_up();
    uint64_t a = put_value("/a", "one"), b = put_value("/b", "one");
    cache_value(&one, "/a");
    cache_value(&one, "/b");
    uint64_t first = begin_put("/a", "two"), second = begin_put("/b", "two");
    attach(&one, false);
    shows_value("/a", a);
    shows_value("/b", b);
    shows(&one);
    has_dropped(&one, "/a", told_to_drop(&one, "/a"));
    changed(first);
    assert_int_equal(told_to_drop(&one, "/b"), 0);
    assert_null(change_reply(second));
    beats(1100); /* the term that it was given */
    changed(second);
}

/* ---- Many. */

static void very_many_caches_are_told_a_few_in_each_step(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static struct prog many[MANY];

    w.unchecked = true;
    w.config.drops_step = 64;
    crash();
    put_value("/a", "one");
    put_value("/b", "one");
    for (uint32_t i = 0; i < MANY; i++) {
        many[i] = (struct prog){.term_ms = 60000};
        memcpy(many[i].id, &i, sizeof i);
        many[i].id[15] = 1;
        comes(&many[i]);
        cache_value(&many[i], "/a");
    }
    world_forget_lines(&w);
    uint64_t link = begin_put("/a", "two");
    assert_true(w.line_count > 0 && w.line_count <= 1024);
    changed(begin_put("/b", "two")); /* others are not kept waiting */
    world_advance(&w, 0);
    size_t notified = 0;
    for (size_t i = 0; i < w.line_count; i++)
        notified += w.methods[w.lines[i].link & ~LH_LINK_SERVED] == LH_METHOD_LEASE_SESSION;
    assert_int_equal(notified, MANY);
    uint64_t change = told_to_drop(&many[0], "/a");
    for (uint32_t i = 0; i < MANY; i++) {
        assert_null(change_reply(link));
        has_dropped(&many[i], "/a", change);
    }
    changed(link);
    lh_master_check(w.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_read_gives_value_and_lease_and_a_change_waits_until_it_is_dropped),
        STORY(who_has_the_value_gets_the_lease_alone),
        STORY(a_changing_value_is_not_said_to_be_cached),
        STORY(that_there_is_no_value_can_be_cached_too),
        STORY(a_lease_that_is_over_does_not_take_the_name_from_the_next_reader),
        STORY(a_lease_lasts_for_a_share_of_the_time_since_the_value_changed),
        STORY(a_lease_between_two_heartbeats_is_not_shorter_for_it),
        STORY(a_policy_without_leases_gives_a_time_to_live),
        STORY(near_the_bound_leases_shrink_and_at_it_none_is_given),
        STORY(a_read_while_a_change_waits_gives_the_old_value_without_a_lease),
        STORY(a_read_between_commit_and_durability_waits),
        STORY(a_silent_cache_is_waited_for_until_its_session_ends),
        STORY(a_cache_that_beats_and_does_not_listen_is_waited_for_no_longer),
        STORY(the_confirmation_of_an_earlier_change_does_not_count),
        STORY(a_change_that_may_not_wait_so_long_changes_nothing_and_the_next_one_goes_on),
        STORY(a_read_of_what_changes_is_good_for_a_share_of_the_wait),
        STORY(nothing_is_promised_once_all_have_dropped_it),
        STORY(what_is_promised_ends_with_the_longest_lease_that_the_change_waits_for),
        STORY(a_promise_outlives_the_change_that_it_was_given_in),
        STORY(a_policy_without_leases_promises_nothing_either),
        STORY(once_all_are_gone_leases_are_given_again_though_nothing_changed),
        STORY(the_change_behind_another_waits_for_caches_of_its_own),
        STORY(a_repeat_of_a_change_that_waits_for_caches_is_answered_with_it),
        STORY(who_attaches_again_and_shows_the_value_is_told_again),
        STORY(who_attaches_again_and_shows_nothing_has_dropped_it),
        STORY(attaching_again_does_not_make_a_change_wait_longer),
        STORY(who_shows_old_bytes_is_told_not_to_serve_them),
        STORY(a_session_that_is_closed_caches_nothing),
        STORY(the_next_master_changes_nothing_before_all_are_back),
        STORY(what_is_shown_to_the_next_master_goes_on),
        STORY(the_next_master_waits_for_one_that_does_not_come_back),
        STORY(a_shorter_term_at_the_next_master_counts_once_it_is_heard_of),
        STORY(what_was_cached_while_other_reads_are_answered_can_be_shown),
        STORY(of_very_much_that_is_shown_while_it_changes_some_just_runs_out),
        STORY(a_change_with_the_token_of_a_lock_that_is_held_is_applied),
        STORY(a_lock_that_is_lost_while_the_change_waits_does_not_count),
        STORY(a_listing_says_who_is_waited_for),
        STORY(very_many_caches_are_told_a_few_in_each_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
