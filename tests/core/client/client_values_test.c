/* Cached values of the client's core: leases, drops, revalidation, broadcasts (VAL-1, VAL-2,
 * VAL-5). */
#include "tests/core/client/lease_world.h"

static struct world w;
static struct stage s;

static const char *const one_master[] = {"m1:1"};

static void given_one_master_with(struct lh_client_config config)
{
    config.masters = one_master;
    config.master_count = 1;
    given_session_with(&s, &w, config);
}

static void given_one_master(void)
{
    given_one_master_with((struct lh_client_config){0});
}

static struct lh_get_call get_call(const char *name)
{
    return (struct lh_get_call){
        .call.kind = LH_CALL_GET, .session = s.session, .name = name, .deadline = in_ms(&w, 60000)};
}

/* The answer to the read `id`: that text, with a lease. */
static Leasehold__ValueRead leased(uint64_t id, uint64_t revision, const char *text)
{
    Leasehold__ValueRead m = LEASEHOLD__VALUE_READ__INIT;

    m.id = id;
    m.revision = revision;
    m.value.data = (uint8_t *)(uintptr_t)text;
    m.value.len = strlen(text);
    m.leased = true;
    m.stamp = s.stamp;
    m.term_ns = UINT64_C(6000000000);
    return m;
}

static void say_read(Leasehold__ValueRead m)
{
    say_one(&s, answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE, &m));
}

static const Leasehold__ReadValue *expect_read(const char *name, uint64_t revision)
{
    const Leasehold__ReadValue *m = expect_op(&s, LEASEHOLD__LEASE_OP__OP_READ)->read;

    assert_string_equal(m->name, name);
    assert_int_equal(m->revision, revision);
    assert_true(m->lease);
    return m;
}

static void say_drop(const char *name, uint64_t change)
{
    Leasehold__Drop m = LEASEHOLD__DROP__INIT;

    m.name = (char *)(uintptr_t)name;
    m.change = change;
    say_one(&s, answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_DROP, &m));
}

static void expect_dropped(const char *name, uint64_t change)
{
    const Leasehold__Dropped *m = expect_op(&s, LEASEHOLD__LEASE_OP__OP_DROPPED)->dropped;

    assert_string_equal(m->name, name);
    assert_int_equal(m->change, change);
}

static void check_value(struct lh_client_value *v, const char *text, uint64_t revision)
{
    assert_non_null(v);
    assert_string_equal(lh_client_value_view(v)->data, text);
    assert_int_equal(lh_client_value_view(v)->size, strlen(text));
    assert_int_equal(lh_client_value_view(v)->revision, revision);
    lh_client_value_unref(v);
}

static void expect_got(struct lh_get_call *call, const char *text, uint64_t revision)
{
    expect_complete(&w, call, LH_OK);
    check_value(call->value, text, revision);
}

/* Is served by any thread, without the core. */
static bool is_cached(const char *name)
{
    struct lh_client_value *v = NULL;
    bool found = lh_client_cached(s.session, name, w.now, &v);

    lh_client_value_unref(v);
    return found;
}

/* "/v" is cached, at revision 5. */
static void given_value(void)
{
    struct lh_get_call call = get_call("/v");

    ask(&w, &call);
    say_read(leased(expect_read("/v", 0)->id, 5, "five"));
    expect_got(&call, "five", 5);
    assert_false(call.from_cache);
    assert_true(is_cached("/v"));
    expect_quiet(&w);
}

static void a_value_is_served_from_memory_while_its_lease_runs(void **state)
{
    (void)state;
    given_one_master();
    given_value();
    struct lh_get_call again = get_call("/v");
    ask(&w, &again);
    assert_true(again.from_cache);
    expect_got(&again, "five", 5);
    expect_quiet(&w);
    assert_false(is_cached("/other"));
    struct lh_instant now = w.now;
    w.now = in_ms(&w, 6000);
    assert_false(is_cached("/v"));
    w.now = now;
    world_deinit(&w);
}

static void that_there_is_no_value_is_cached_too(void **state)
{
    (void)state;
    given_one_master();
    struct lh_get_call call = get_call("/v"), again = call;
    ask(&w, &call);
    Leasehold__ValueRead m = leased(expect_read("/v", 0)->id, 0, "");
    m.error = LEASEHOLD__ERROR_CODE__NOT_FOUND;
    say_read(m);
    expect_complete(&w, &call, LH_ERR_NOT_FOUND);
    ask(&w, &again);
    expect_complete(&w, &again, LH_ERR_NOT_FOUND);
    assert_true(again.from_cache);
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_lease_counts_from_the_heartbeat_that_it_names(void **state)
{
    (void)state;
    given_one_master();
    struct lh_get_call call = get_call("/v"), other = get_call("/u");
    uint64_t shown = s.stamp;
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    ask(&w, &call);
    Leasehold__ValueRead m = leased(expect_read("/v", 0)->id, 5, "five");
    m.stamp = shown;
    say_read(m);
    expect_got(&call, "five", 5);
    struct lh_instant now = w.now;
    w.now = in_ms(&w, 1000);
    assert_true(is_cached("/v"));
    w.now = in_ms(&w, 2000);
    assert_false(is_cached("/v"));
    w.now = now;

    /* One that was never sent is no lease at all. */
    ask(&w, &other);
    m = leased(expect_read("/u", 0)->id, 6, "six");
    m.stamp = s.stamp + 1;
    say_read(m);
    expect_got(&other, "six", 6);
    assert_false(is_cached("/u"));
    world_deinit(&w);
}

/* ---- Drops. */

static void a_drop_is_forgotten_first_and_confirmed(void **state)
{
    (void)state;
    given_one_master();
    given_value();
    say_drop("/v", 31);
    assert_false(is_cached("/v"));
    expect_dropped("/v", 31);

    /* What is not cached is confirmed, too. */
    say_drop("/v", 32);
    expect_dropped("/v", 32);
    expect_quiet(&w);
    world_deinit(&w);
}

/* A read while it changes brings the old value, and it is not kept. */
static void what_is_read_while_it_changes_is_not_cached(void **state)
{
    (void)state;
    given_one_master();
    struct lh_get_call call = get_call("/v"), again = call;
    ask(&w, &call);
    Leasehold__ValueRead m = leased(expect_read("/v", 0)->id, 5, "five");
    m.changing = 9;
    say_read(m);
    expect_got(&call, "five", 5);
    assert_false(is_cached("/v"));
    ask(&w, &again);
    expect_read("/v", 0);
    world_deinit(&w);
}

/* In one message, in this order: the lease comes, and is called back. */
static void a_drop_behind_a_grant_takes_it_away(void **state)
{
    Leasehold__Drop drop = LEASEHOLD__DROP__INIT;

    (void)state;
    given_one_master();
    struct lh_get_call call = get_call("/v");
    ask(&w, &call);
    Leasehold__ValueRead m = leased(expect_read("/v", 0)->id, 5, "five");
    drop.name = (char *)(uintptr_t) "/v";
    drop.change = 9;
    Leasehold__LeaseAnswer a = answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE, &m),
                           b = answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_DROP, &drop),
                           *both[] = {&a, &b};
    say_answers(&s, both, 2);
    expect_got(&call, "five", 5);
    expect_dropped("/v", 9);
    assert_false(is_cached("/v"));
    world_deinit(&w);
}

/* ---- Sharing a request. */

static void reads_of_a_name_share_a_request_that_was_not_sent(void **state)
{
    (void)state;
    given_one_master();
    w.slow = true;
    struct lh_get_call other = get_call("/u"), a = get_call("/v"), b = a;
    ask(&w, &other);
    expect_read("/u", 0);
    ask(&w, &a);
    ask(&w, &b);
    say_sent(&w, s.link);
    uint64_t id = expect_read("/v", 0)->id;
    Leasehold__ValueRead m = leased(id, 5, "five");
    m.leased = false;
    say_read(m);
    expect_got(&a, "five", 5);
    expect_got(&b, "five", 5);
    world_deinit(&w);
}

/* The master may have answered before the second call began, and a change been made in between. */
static void a_later_call_is_not_answered_by_an_earlier_read_without_a_lease(void **state)
{
    (void)state;
    given_one_master();
    struct lh_get_call early = get_call("/v"), late = early;
    ask(&w, &early);
    uint64_t id = expect_read("/v", 0)->id;
    ask(&w, &late);
    expect_quiet(&w);
    Leasehold__ValueRead m = leased(id, 5, "five");
    m.leased = false;
    say_read(m);
    expect_got(&early, "five", 5);
    uint64_t second = expect_read("/v", 0)->id;
    assert_int_not_equal(id, second);
    say_read(m); /* the old answer again: nobody's */
    expect_quiet(&w);
    say_read(leased(second, 6, "six"));
    expect_got(&late, "six", 6);
    world_deinit(&w);
}

/* With a lease it is current: the change would have waited for it. */
static void a_lease_answers_later_calls_too(void **state)
{
    (void)state;
    given_one_master();
    struct lh_get_call early = get_call("/v"), late = early;
    ask(&w, &early);
    uint64_t id = expect_read("/v", 0)->id;
    ask(&w, &late);
    say_read(leased(id, 5, "five"));
    expect_got(&early, "five", 5);
    expect_got(&late, "five", 5);
    expect_quiet(&w);
    world_deinit(&w);
}

static void a_read_ends_at_its_deadline(void **state)
{
    (void)state;
    given_one_master();
    struct lh_get_call call = get_call("/v"), again = call;
    call.deadline = in_ms(&w, 100);
    ask(&w, &call);
    uint64_t id = expect_read("/v", 0)->id;
    pass_ms(&w, 100);
    expect_complete(&w, &call, LH_ERR_DEADLINE_EXCEEDED);
    ask(&w, &again); /* waits for the same answer */
    expect_quiet(&w);
    say_read(leased(id, 5, "five"));
    expect_got(&again, "five", 5);
    world_deinit(&w);
}

/* ---- Renewal. */

static void a_lease_that_is_used_is_renewed_before_its_end(void **state)
{
    Leasehold__ValueRead same = LEASEHOLD__VALUE_READ__INIT;

    (void)state;
    given_one_master();
    given_value();
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    say_beat(&s, s.stamp);
    pass_ms(&w, 1000);
    assert_false(is_cached("/v")); /* the core is to hear of the read */
    struct lh_get_call call = get_call("/v"), again = call;
    ask(&w, &call);
    assert_true(call.from_cache);
    expect_got(&call, "five", 5);
    uint64_t id = expect_read("/v", 5)->id;
    ask(&w, &again);
    expect_got(&again, "five", 5);
    expect_quiet(&w);
    same.id = id;
    same.revision = 5;
    same.same = same.leased = true;
    same.stamp = s.stamp;
    same.term_ns = UINT64_C(6000000000);
    say_read(same);
    pass_ms(&w, 1500);
    assert_true(is_cached("/v"));
    world_deinit(&w);
}

static void what_ran_out_is_revalidated_by_its_revision(void **state)
{
    Leasehold__ValueRead same = LEASEHOLD__VALUE_READ__INIT;

    (void)state;
    given_one_master();
    given_value();
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    say_beat(&s, s.stamp);
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    say_beat(&s, s.stamp);
    struct lh_get_call call = get_call("/v");
    ask(&w, &call);
    same.id = expect_read("/v", 5)->id;
    same.revision = 5;
    same.same = same.leased = true;
    same.stamp = s.stamp;
    same.term_ns = UINT64_C(6000000000);
    say_read(same);
    expect_got(&call, "five", 5);
    assert_true(is_cached("/v"));

    /* It was dropped while it was asked for again: "the same" still says what it is, ... */
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    say_beat(&s, s.stamp);
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    say_beat(&s, s.stamp);
    struct lh_get_call third = get_call("/v");
    ask(&w, &third);
    same.id = expect_read("/v", 5)->id;
    say_drop("/v", 8);
    expect_dropped("/v", 8);
    same.leased = false;
    same.changing = 8;
    say_read(same);
    expect_got(&third, "five", 5);
    assert_false(is_cached("/v"));

    /* ... and of a revision that the program does not have it says nothing. */
    struct lh_get_call fourth = get_call("/v");
    ask(&w, &fourth);
    same.id = expect_read("/v", 0)->id;
    say_read(same);
    uint64_t id = expect_read("/v", 0)->id;
    say_read(leased(id, 9, "nine"));
    expect_got(&fourth, "nine", 9);
    world_deinit(&w);
}

/* ---- Streams. */

static const Leasehold__Show *shown_again(uint64_t reign)
{
    break_link(&w, s.link);
    pass(&w);
    expect_attach(&s, "m1:1");
    say_greeting(&s, reign);
    return expect_show(&s);
}

static void cached_values_are_shown_and_go_on(void **state)
{
    (void)state;
    given_one_master();
    given_value();
    struct lh_get_call call = get_call("/u"), waits = get_call("/w");
    ask(&w, &call);
    say_read(leased(expect_read("/u", 0)->id, 7, "seven"));
    expect_got(&call, "seven", 7);
    ask(&w, &waits);
    expect_read("/w", 0);
    const Leasehold__Show *m = shown_again(4);
    assert_int_equal(m->n_values, 2);
    bool first = strcmp(m->values[0]->name, "/v") == 0;
    assert_int_equal(m->values[first ? 0 : 1]->revision, 5);
    assert_true(is_cached("/v"));
    Leasehold__Shown shown = shown_reply(&s);
    char *dropped[] = {(char *)(uintptr_t) "/u"};
    shown.dropped = dropped;
    shown.n_dropped = 1;
    shown.values_term_ns = UINT64_C(3000000000);
    say_shown_with(&s, shown);
    assert_false(is_cached("/u"));
    assert_true(is_cached("/v"));
    struct lh_instant now = w.now;
    w.now = in_ms(&w, 3000); /* this master's term, not the old one */
    assert_false(is_cached("/v"));
    w.now = now;

    /* What was asked for is asked again. */
    say_read(leased(expect_read("/w", 0)->id, 8, "eight"));
    expect_got(&waits, "eight", 8);
    expect_quiet(&w);
    world_deinit(&w);
}

/* TIME-4: the values' new terms count from the stamp. One that was sent on another stream, or never
 * at all, would let them be served for longer than this master waits. */
static void a_showing_that_names_another_stamp_counts_for_nothing(void **state)
{
    (void)state;
    given_one_master();
    given_value();
    uint64_t before = s.stamp;
    shown_again(4);
    struct lh_get_call waits = get_call("/w");
    ask(&w, &waits);
    Leasehold__Shown shown = shown_reply(&s);
    shown.values_term_ns = UINT64_C(8000000000);
    uint64_t stamps[] = {before, s.stamp - 1, s.stamp + UINT64_C(5000000000)};
    for (size_t i = 0; i < 3; i++) {
        shown.stamp = stamps[i];
        say_shown_with(&s, shown);
        expect_quiet(&w); /* what waits for the session goes on waiting */
    }
    struct lh_instant now = w.now;
    w.now.ns = before + UINT64_C(6000000000); /* the term of the master before */
    assert_false(is_cached("/v"));
    w.now = now;
    say_shown(&s);
    expect_read("/w", 0);
    world_deinit(&w);
}

static void a_lost_session_caches_nothing(void **state)
{
    Leasehold__BeatReply unknown = LEASEHOLD__BEAT_REPLY__INIT;

    (void)state;
    given_one_master();
    given_value();
    struct lh_get_call call = get_call("/u"), again = get_call("/v");
    ask(&w, &call);
    expect_read("/u", 0);
    pass(&w);
    expect_beat(&s);
    unknown.error = LEASEHOLD__ERROR_CODE__UNKNOWN_SESSION;
    say_beat_with(&s, unknown);
    expect_complete(&w, &call, LH_ERR_CLOSED);
    assert_false(is_cached("/v"));
    expect_close(&w, s.link);
    ask(&w, &again);
    expect_complete(&w, &again, LH_ERR_CLOSED);
    world_deinit(&w);
}

/* ---- Bounds. */

static void values_that_nobody_uses_make_room(void **state)
{
    static const char *const names[] = {"/a", "/b", "/c"};

    (void)state;
    given_one_master_with((struct lh_client_config){.cached_values = 2});
    for (unsigned i = 0; i < 3; i++) {
        struct lh_get_call call = get_call(names[i]);
        ask(&w, &call);
        say_read(leased(expect_read(names[i], 0)->id, 5 + i, "x"));
        expect_got(&call, "x", 5 + i);
        assert_true(is_cached("/a") || i == 3); /* uses it */
    }
    assert_true(is_cached("/a"));
    assert_false(is_cached("/b"));
    assert_true(is_cached("/c"));
    world_deinit(&w);
}

static void so_many_bytes_are_cached(void **state)
{
    (void)state;
    given_one_master_with((struct lh_client_config){.cached_bytes = 1});
    given_value(); /* the newest one always is */
    struct lh_get_call call = get_call("/u");
    ask(&w, &call);
    say_read(leased(expect_read("/u", 0)->id, 6, "six"));
    expect_got(&call, "six", 6);
    assert_false(is_cached("/v"));
    assert_true(is_cached("/u"));
    world_deinit(&w);
}

/* Whoever has a value keeps it, whatever becomes of the cache. */
static void a_value_outlives_its_place_in_the_cache(void **state)
{
    (void)state;
    given_one_master();
    given_value();
    struct lh_client_value *v;
    assert_true(lh_client_cached(s.session, "/v", w.now, &v));
    say_drop("/v", 1);
    expect_dropped("/v", 1);
    check_value(v, "five", 5);
    world_deinit(&w);
}

/* VAL-2: the change waits for it. */
static void what_is_read_while_it_changes_is_served_for_as_long_as_is_promised(void **state)
{
    (void)state;
    given_one_master();
    struct lh_get_call call = get_call("/v");
    ask(&w, &call);
    Leasehold__ValueRead m = leased(expect_read("/v", 0)->id, 5, "five");
    m.leased = false;
    m.changing = 1;
    m.term_ns = UINT64_C(500000000);
    say_read(m);
    expect_got(&call, "five", 5);
    assert_true(is_cached("/v"));
    struct lh_instant now = w.now;
    w.now.ns = s.stamp + m.term_ns;
    assert_false(is_cached("/v"));
    w.now = now;
    /* The next one has it no longer. */
    say_drop("/v", 1);
    expect_dropped("/v", 1);
    ask(&w, &call);
    m.id = expect_read("/v", 0)->id;
    m.term_ns = 0;
    say_read(m);
    expect_got(&call, "five", 5);
    assert_false(is_cached("/v"));
    world_deinit(&w);
}

/* ---- Broadcasts. */

static void say_broadcast(uint64_t stamp, uint64_t revision, bool promised)
{
    Leasehold__BeatReply beat = LEASEHOLD__BEAT_REPLY__INIT;
    Leasehold__BroadcastState state = LEASEHOLD__BROADCAST_STATE__INIT, *states[] = {&state};

    state.prefix = (char *)(uintptr_t) "/b/";
    state.revision = revision;
    state.promised = promised;
    beat.stamp = stamp;
    beat.term_ns = TERM_MS * UINT64_C(1000000);
    beat.broadcasts = states;
    beat.n_broadcasts = 1;
    say_beat_with(&s, beat);
}

static Leasehold__ValueRead broadcast_read(uint64_t id, uint64_t revision, uint64_t of_prefix)
{
    Leasehold__ValueRead m = leased(id, revision, "x");

    m.leased = false;
    m.prefix_revision = of_prefix;
    m.prefix = (char *)(uintptr_t) "/b/";
    return m;
}

/* "/b/x" was read at revision 20 of its prefix, which is subscribed to. */
static void given_broadcast(void)
{
    struct lh_get_call call = get_call("/b/x");

    ask(&w, &call);
    say_read(broadcast_read(expect_read("/b/x", 0)->id, 5, 20));
    expect_got(&call, "x", 5);
    const Leasehold__Broadcast *m = expect_op(&s, LEASEHOLD__LEASE_OP__OP_BROADCAST)->broadcast;
    assert_string_equal(m->prefix, "/b/");
    assert_false(is_cached("/b/x"));
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
}

static void what_was_read_at_the_promised_revision_is_served(void **state)
{
    (void)state;
    given_one_master();
    given_broadcast();
    uint64_t sent = w.now.ns;
    w.now = in_ms(&w, 100);
    say_broadcast(s.stamp, 20, true);
    assert_true(is_cached("/b/x"));
    struct lh_instant now = w.now;
    w.now.ns = sent + TERM_MS * UINT64_C(1000000) - 1; /* counted from the stamp */
    assert_true(is_cached("/b/x"));
    w.now.ns++;
    assert_false(is_cached("/b/x"));
    w.now = now;

    pass(&w);
    expect_beat(&s);
    say_broadcast(s.stamp, 20, false); /* something is about to change */
    assert_false(is_cached("/b/x"));
    pass(&w);
    expect_beat(&s);
    say_broadcast(s.stamp, 21, true); /* it did */
    assert_false(is_cached("/b/x"));
    struct lh_get_call call = get_call("/b/x");
    ask(&w, &call);
    say_read(broadcast_read(expect_read("/b/x", 5)->id, 5, 21));
    expect_got(&call, "x", 5);
    assert_true(is_cached("/b/x"));
    world_deinit(&w);
}

static void what_is_left_of_a_promise_is_served_while_a_change_waits(void **state)
{
    (void)state;
    given_one_master();
    given_broadcast();
    Leasehold__BeatReply beat = LEASEHOLD__BEAT_REPLY__INIT;
    Leasehold__BroadcastState b = LEASEHOLD__BROADCAST_STATE__INIT, *states[] = {&b};
    b.prefix = (char *)(uintptr_t) "/b/";
    b.revision = 20;
    b.promised_ns = UINT64_C(700000000);
    beat.stamp = s.stamp;
    beat.term_ns = TERM_MS * UINT64_C(1000000);
    beat.broadcasts = states;
    beat.n_broadcasts = 1;
    say_beat_with(&s, beat);
    assert_true(is_cached("/b/x"));
    struct lh_instant now = w.now;
    w.now.ns = s.stamp + b.promised_ns;
    assert_false(is_cached("/b/x"));
    w.now = now;
    world_deinit(&w);
}

static void a_new_stream_ends_the_promise(void **state)
{
    (void)state;
    given_one_master();
    given_broadcast();
    say_broadcast(s.stamp, 20, true);
    assert_true(is_cached("/b/x"));
    const Leasehold__Show *m = shown_again(4);
    assert_int_equal(m->n_broadcasts, 1);
    assert_string_equal(m->broadcasts[0], "/b/");
    assert_int_equal(m->n_values, 0);
    assert_false(is_cached("/b/x"));
    say_shown(&s);
    assert_false(is_cached("/b/x"));
    world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_served_from_memory_while_its_lease_runs),
        cmocka_unit_test(that_there_is_no_value_is_cached_too),
        cmocka_unit_test(a_lease_counts_from_the_heartbeat_that_it_names),
        cmocka_unit_test(a_drop_is_forgotten_first_and_confirmed),
        cmocka_unit_test(what_is_read_while_it_changes_is_not_cached),
        cmocka_unit_test(a_drop_behind_a_grant_takes_it_away),
        cmocka_unit_test(reads_of_a_name_share_a_request_that_was_not_sent),
        cmocka_unit_test(a_later_call_is_not_answered_by_an_earlier_read_without_a_lease),
        cmocka_unit_test(a_lease_answers_later_calls_too),
        cmocka_unit_test(a_read_ends_at_its_deadline),
        cmocka_unit_test(a_lease_that_is_used_is_renewed_before_its_end),
        cmocka_unit_test(what_ran_out_is_revalidated_by_its_revision),
        cmocka_unit_test(cached_values_are_shown_and_go_on),
        cmocka_unit_test(a_showing_that_names_another_stamp_counts_for_nothing),
        cmocka_unit_test(a_lost_session_caches_nothing),
        cmocka_unit_test(values_that_nobody_uses_make_room),
        cmocka_unit_test(so_many_bytes_are_cached),
        cmocka_unit_test(a_value_outlives_its_place_in_the_cache),
        cmocka_unit_test(what_is_read_while_it_changes_is_served_for_as_long_as_is_promised),
        cmocka_unit_test(what_was_read_at_the_promised_revision_is_served),
        cmocka_unit_test(what_is_left_of_a_promise_is_served_while_a_change_waits),
        cmocka_unit_test(a_new_stream_ends_the_promise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
