/* What ListEvents says of locks and values. */
#include "master/tables/tables.h"
#include "tests/core/master/master_programs.h"

static const Leasehold__ListEventsReply *events_of(const char *name)
{
    Leasehold__ListEventsRequest r = LEASEHOLD__LIST_EVENTS_REQUEST__INIT;

    r.name = (char *)(uintptr_t)name;
    return world_reply(&w, world_call(&w, LH_METHOD_LIST_EVENTS, &r));
}

/* As many letters as events, the oldest first: g)ranted, q)ueued, w)ithdrawn, r)eleased, e)xpired,
 * k)ept, y)ielded, c)ancelled, R)ecalled, o)n, x: another. */
static const char *story_of(const char *name)
{
    static char text[64];
    static const char letters[] = "xgxoxRkycrexqwVx";
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

static uint64_t locks_recallable(struct prog *p, const char *name)
{
    Leasehold__Acquire a = acquire_of(p, name, false);

    a.recallable = true;
    asks_with(p, &a);
    return granted(p)->token;
}

/* A holder can answer a recall as often as it likes. */
static void what_a_holder_repeats_is_noted_once(void **state)
{
    (void)state;
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, "/a", false);
    for (int i = 0; i < 10; i++)
        yields(&one, "/a", token, UINT64_MAX); /* nobody asked */
    assert_string_equal(story_of("/a"), "g");
    token = locks_recallable(&one, "/b");
    asks(&two, "/b", false);
    for (int i = 0; i < 10; i++)
        yields(&one, "/b", token, UINT64_MAX);
    assert_string_equal(story_of("/b"), "gqRk");
    for (int i = 0; i < 10; i++)
        yields(&one, "/b", token, 5000);
    assert_string_equal(story_of("/b"), "gqRky");
}

/* An answer has a bound, whatever limit is asked for. */
static void a_thousand_events_in_one_answer(void **state)
{
    Leasehold__ListEventsRequest r = LEASEHOLD__LIST_EVENTS_REQUEST__INIT;

    (void)state;
    w.config.events_session = 2000;
    world_crash(&w);
    comes(&one);
    comes(&two);
    for (int i = 0; i < 600; i++) {
        struct prog *p = i % 2 == 0 ? &one : &two;
        releases(p, "/a", locks(p, "/a", false));
    }
    r.name = (char *)(uintptr_t) "/a";
    r.limit = 10000;
    const Leasehold__ListEventsReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_EVENTS, &r));
    assert_int_equal(reply->n_events, 1000);
    assert_true(reply->more);
}

/* Labels of holders have up to a KB. Rounds that became one item take the place of one. */
static void an_answer_of_events_is_bounded_in_bytes(void **state)
{
    (void)state;
    w.config.list_bytes = 600;
    w.config.events_session = 2000;
    world_crash(&w);
    comes(&one);
    comes(&two);
    for (int i = 0; i < 60; i++) {
        struct prog *p = i % 2 == 0 ? &one : &two;
        releases(p, "/a", locks(p, "/a", false));
        releases(&one, "/b", locks(&one, "/b", false));
    }
    const Leasehold__ListEventsReply *reply = events_of("/a");
    assert_in_range(reply->n_events, 2, 20);
    assert_true(leasehold__list_events_reply__get_packed_size(reply) <= 700);
    assert_true(reply->more);
    reply = events_of("/b");
    assert_int_equal(reply->n_events, 2);
    assert_int_equal(reply->events[1]->count, 59);
    assert_false(reply->more);
}

/* Names whose digests were equal while the digest had no key: a reader of one found the other. */
static void a_name_made_to_collide(void **state)
{
    (void)state;
    comes(&one);
    locks(&one, "/secret/payroll-leader", false);
    assert_string_equal(story_of("/public/02318456zRxVVsip"), "");
    assert_string_equal(story_of("/secret/payroll-leader"), "g");
}

/* SipHash-2-4: the reference's vector of no bytes, and one of a name; the upper bit is ours. */
static void the_digest_of_names_depends_on_the_key(void **state)
{
    struct lh_master *m = lh_alloc(sizeof *m);

    (void)state;
    for (uint8_t i = 0; i < LH_EVENT_SECRET_BYTES; i++)
        m->config.event_secret[i] = i;
    assert_true(lh_m_event_of_name(m, "") == UINT64_C(0xf26fdb47dd0e0e31));
    assert_true(lh_m_event_of_name(m, "/secret/payroll-leader") == UINT64_C(0x9e3863a073bf6047));
    m->config.event_secret[15]++;
    assert_false(lh_m_event_of_name(m, "/secret/payroll-leader") == UINT64_C(0x9e3863a073bf6047));
    free(m);
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
        STORY(what_a_holder_repeats_is_noted_once),
        STORY(a_thousand_events_in_one_answer),
        STORY(an_answer_of_events_is_bounded_in_bytes),
        STORY(a_name_made_to_collide),
        STORY(the_digest_of_names_depends_on_the_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
