/* Values that go with a session (VAL-4), and broadcast prefixes (VAL-5). */
#include "tests/core/master/values_story.h"

static void both_up(void)
{
    comes(&one);
    comes(&two);
}

static Leasehold__ChangeRequest attached_to(struct prog *p, const char *name, const char *value)
{
    Leasehold__ChangeRequest r = change_to(name, value);

    r.attach = (ProtobufCBinaryData){.data = p->id, .len = sizeof p->id};
    return r;
}

static uint64_t attach_value(struct prog *p, const char *name, const char *value)
{
    Leasehold__ChangeRequest r = attached_to(p, name, value);

    return changed(begin_change(&r));
}

/* ---- Attached values. */

static void an_attached_value_goes_when_its_session_is_closed(void **state)
{
    (void)state;
    both_up();
    attach_value(&one, "/servers/1", "here");
    attach_value(&one, "/servers/2", "here");
    uint64_t other = attach_value(&two, "/servers/3", "there");
    const Leasehold__GetReply *reply = get_value("/servers/1");
    assert_memory_equal(reply->value->session.data, one.id, sizeof one.id);
    uint64_t link = watch("/servers/", other + 1);
    closes(&one);
    value_is("/servers/1", NULL);
    value_is("/servers/2", NULL);
    value_is("/servers/3", "there");
    size_t removed = 0;
    for (const Leasehold__WatchReply *r; (r = watched(link)) != NULL; world_sent(&w, link))
        for (size_t i = 0; i < r->n_events; i++)
            removed += r->events[i]->removed != 0;
    assert_int_equal(removed, 2);
}

static void it_stays_while_the_session_lives_and_goes_when_it_has_run_out(void **state)
{
    (void)state;
    both_up();
    attach_value(&one, "/s", "here");
    world_break_link(&w, one.link);
    world_advance(&w, 9999);
    value_is("/s", "here");
    world_advance(&w, 10);
    value_is("/s", NULL);
}

static void its_caches_are_told_first(void **state)
{
    (void)state;
    both_up();
    attach_value(&one, "/s", "here");
    cache_value(&two, "/s");
    closes(&one);
    value_is("/s", "here");
    has_dropped(&two, "/s", told_to_drop(&two, "/s"));
    value_is("/s", NULL);
}

static void the_last_put_alone_attaches(void **state)
{
    (void)state;
    both_up();
    attach_value(&one, "/a", "mine");
    put_value("/a", "free");
    put_value("/b", "free");
    attach_value(&one, "/b", "mine");
    attach_value(&one, "/c", "mine");
    attach_value(&two, "/c", "yours");
    closes(&one);
    value_is("/a", "free");
    value_is("/b", NULL);
    value_is("/c", "yours");
}

/* The put comes while the deletion waits for a cache. */
static void a_put_while_the_session_ends_is_not_lost(void **state)
{
    (void)state;
    both_up();
    attach_value(&one, "/s", "mine");
    cache_value(&two, "/s");
    uint64_t link = begin_put("/s", "free");
    closes(&one);
    has_dropped(&two, "/s", told_to_drop(&two, "/s"));
    changed(link);
    world_advance(&w, 1);
    value_is("/s", "free");

    comes(&three);
    attach_value(&three, "/s", "mine");
    cache_value(&two, "/s");
    closes(&three);
    link = begin_put("/s", "later");
    has_dropped(&two, "/s", told_to_drop(&two, "/s"));
    changed(link);
    value_is("/s", "later");
}

static void a_session_that_ends_while_the_put_waits_attaches_nothing(void **state)
{
    (void)state;
    both_up();
    put_value("/s", "free");
    cache_value(&two, "/s");
    Leasehold__ChangeRequest r = attached_to(&one, "/s", "mine");
    uint64_t link = begin_change(&r);
    closes(&one);
    has_dropped(&two, "/s", told_to_drop(&two, "/s"));
    change_refused(link, LEASEHOLD__ERROR_CODE__UNKNOWN_SESSION);
    value_is("/s", "free");
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__UNKNOWN_SESSION);
}

static void attached_values_outlive_a_master_if_their_session_does(void **state)
{
    (void)state;
    both_up();
    attach_value(&one, "/1", "here");
    attach_value(&two, "/2", "here");
    crash();
    comes_back(&one, NULL, 0);
    value_is("/1", "here");
    value_is("/2", "here");
    world_advance(&w, 9000);
    heartbeat(&one);
    value_is("/2", "here");
    world_advance(&w, 1010); /* two's recorded term is over */
    value_is("/1", "here");
    value_is("/2", NULL);
}

/* The session's record is gone, and the master dies before its values are. */
static void values_of_a_session_without_a_record_are_deleted_when_a_master_starts(void **state)
{
    (void)state;
    w.config.changes_step = 1;
    crash();
    both_up();
    attach_value(&one, "/1", "here");
    attach_value(&one, "/2", "here");
    attach_value(&two, "/3", "here");
    cache_value(&two, "/1");
    cache_value(&two, "/2");
    closes(&one);
    crash();
    value_is("/1", "here");
    comes_back(&two, NULL, 0);
    world_advance(&w, 1);
    value_is("/1", NULL);
    value_is("/2", NULL);
    value_is("/3", "here");
}

static void thousands_of_attached_values_go_a_few_in_each_step(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    char name[16];

    w.unchecked = true;
    w.config.follows_max = 8;
    crash();
    both_up();
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "/n%04u", i);
        attach_value(&one, name, "here");
    }
    world_forget_lines(&w);
    w.hold_commits = true;
    closes(&one);
    /* Each a value and a change; and the session, and the number of the commit. */
    for (size_t i = 0; i < w.commit_count; i++)
        assert_true(w.commits[i].count <= 8 * 2 + 2);
    world_commit_all(&w);
    w.hold_commits = false;
    assert_null(look_at("/n0000"));
    assert_null(look_at("/n0999"));
    put_value("/other", "x");
    lh_master_check(w.m);
}

/* A session's end is as many events as it has values; what is kept of locks stays. */
static void the_events_of_many_values_leave_those_of_locks(void **state)
{
    Leasehold__ListEventsRequest r = LEASEHOLD__LIST_EVENTS_REQUEST__INIT;
    char name[32];

    (void)state;
    w.config.events_max = w.config.events_locks_max = w.config.events_values_max = 8;
    world_crash(&w);
    both_up();
    locks(&two, "/leader", false);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "/servers/%d", i);
        attach_value(&one, name, "here");
    }
    closes(&one);
    value_is("/servers/39", NULL);
    r.name = (char *)(uintptr_t) "/leader";
    const Leasehold__ListEventsReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_EVENTS, &r));
    assert_int_equal(reply->n_events, 1);
    assert_int_equal(reply->events[0]->kind, LEASEHOLD__LEASE_EVENT_KIND__LEASE_GRANTED);
    assert_true(reply->more); /* a change of its value may have been */
    r.name = name;
    reply = world_reply(&w, world_call(&w, LH_METHOD_LIST_EVENTS, &r));
    assert_int_equal(reply->n_events, 1); /* that it was put is forgotten */
    assert_int_equal(reply->events[0]->kind, LEASEHOLD__LEASE_EVENT_KIND__VALUE_REMOVED);
}

/* What a name has of both kinds is told in the order of time. */
static void events_of_a_lock_and_a_value_are_in_one_order(void **state)
{
    static const Leasehold__LeaseEventKind kinds[] = {LEASEHOLD__LEASE_EVENT_KIND__VALUE_REMOVED,
        LEASEHOLD__LEASE_EVENT_KIND__LEASE_RELEASED, LEASEHOLD__LEASE_EVENT_KIND__VALUE_CHANGED,
        LEASEHOLD__LEASE_EVENT_KIND__LEASE_GRANTED, LEASEHOLD__LEASE_EVENT_KIND__VALUE_CHANGED};
    Leasehold__ListEventsRequest r = LEASEHOLD__LIST_EVENTS_REQUEST__INIT;

    (void)state;
    both_up();
    attach_value(&one, "/a", "1");
    world_advance(&w, 1);
    uint64_t token = locks(&one, "/a", false);
    world_advance(&w, 1);
    attach_value(&one, "/a", "2");
    world_advance(&w, 1);
    releases(&one, "/a", token);
    closes(&one);
    r.name = (char *)(uintptr_t) "/a";
    const Leasehold__ListEventsReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_EVENTS, &r));
    assert_int_equal(reply->n_events, sizeof kinds / sizeof *kinds);
    for (size_t i = 0; i < reply->n_events; i++)
        assert_int_equal(reply->events[i]->kind, kinds[i]);
}

static void as_many_values_as_may_be_are_attached_to_a_session(void **state)
{
    (void)state;
    w.config.attached_max = 2;
    crash();
    both_up();
    attach_value(&one, "/1", "x");
    attach_value(&one, "/2", "x");
    Leasehold__ChangeRequest r = attached_to(&one, "/3", "x");
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__NO_MEMORY);
    attach_value(&one, "/2", "y");
}

/* ---- Broadcasts. */

static void broadcast(const char *prefix)
{
    Leasehold__Policy p = policy_for(prefix);

    p.broadcast = true;
    assert_int_equal(set_policy(&p, false), LEASEHOLD__ERROR_CODE__OK);
}

static const Leasehold__BroadcastState *state_of(struct prog *p)
{
    const Leasehold__BeatReply *reply = heartbeat(p);

    assert_true(reply != NULL && reply->n_broadcasts == 1);
    return reply->broadcasts[0];
}

static void a_prefix_is_promised_with_heartbeats_and_a_change_waits_for_the_promise(void **state)
{
    (void)state;
    both_up();
    broadcast("/etc/");
    uint64_t first = put_value("/etc/hosts", "old");
    put_value("/other", "x");
    subscribe(&one, "/etc/");
    const Leasehold__ValueRead *read = read_value(&one, "/etc/hosts");
    assert_true(!read->leased && read->prefix_revision == first);
    world_advance(&w, 1000);
    const Leasehold__BroadcastState *s = state_of(&one);
    assert_string_equal(s->prefix, "/etc/");
    assert_true(s->promised && s->revision == first);

    world_advance(&w, 1000);
    uint64_t link = begin_put("/etc/hosts", "new");
    s = state_of(&one);
    assert_false(s->promised);
    world_advance(&w, 9000);
    assert_null(change_reply(link));
    world_advance(&w, 1);
    uint64_t revision = changed(link);
    heartbeat(&two);
    s = state_of(&one);
    assert_true(s->promised && s->revision == revision);
    changed(begin_put("/other", "y")); /* it is not under it */
    assert_int_equal(state_of(&one)->revision, revision);
}

/* Of a term that begins with the heartbeat, by the holder's clock. */
static void while_a_change_waits_heartbeats_have_the_rest_of_the_promise(void **state)
{
    (void)state;
    both_up();
    broadcast("/etc/");
    uint64_t first = put_value("/etc/hosts", "old");
    subscribe(&one, "/etc/");
    subscribe(&two, "/etc/");
    assert_true(state_of(&one)->promised);
    world_advance(&w, 1000);
    uint64_t link = begin_put("/etc/hosts", "new");
    world_advance(&w, 2000);
    const Leasehold__BroadcastState *s = state_of(&two);
    assert_true(!s->promised && s->revision == first);
    assert_true(s->promised_ns > 6800000000 && s->promised_ns < 7000000000);
    world_advance(&w, 3000);
    heartbeat(&one);
    world_advance(&w, 3995);
    assert_true(state_of(&one)->promised_ns < 5000000);
    world_advance(&w, 5); /* ten seconds after the last whole promise */
    assert_null(change_reply(link));
    assert_int_equal(state_of(&one)->promised_ns, 0);
    world_advance(&w, 1);
    changed(link);
    s = state_of(&one);
    assert_true(s->promised && s->promised_ns == 0);
}

static void nothing_is_promised_before_the_change_is_durable(void **state)
{
    (void)state;
    both_up();
    broadcast("/etc/");
    uint64_t first = put_value("/etc/hosts", "old");
    subscribe(&one, "/etc/");
    w.hold_commits = true;
    uint64_t link = begin_put("/etc/hosts", "new");
    const Leasehold__BroadcastState *s = state_of(&one);
    assert_true(!s->promised && s->revision == first);
    /* Another name: what is read is as of the revision before. */
    ask_value(&one, 9, "/etc/passwd", 0, true);
    assert_int_equal(value_read(&one)->prefix_revision, first);
    world_commit_all(&w);
    w.hold_commits = false;
    s = state_of(&one);
    assert_true(s->promised && s->revision == changed(link));
}

static void a_prefix_without_the_policy_is_refused_and_a_policy_that_goes_ends_the_promise(
    void **state)
{
    (void)state;
    Leasehold__Policy p = policy_for("/etc/");

    both_up();
    subscribe(&one, "/etc/");
    assert_int_equal(refused(&one)->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    assert_int_equal(heartbeat(&one)->n_broadcasts, 0);
    broadcast("/etc/");
    put_value("/etc/hosts", "old");
    subscribe(&one, "/etc/");
    subscribe(&one, "/etc/");
    assert_true(state_of(&one)->promised);
    set_policy(&p, true);
    assert_false(state_of(&one)->promised);
    uint64_t link = begin_put("/etc/hosts", "new"); /* what was promised holds */
    world_advance(&w, 9999);
    assert_null(change_reply(link));
    heartbeat(&one);
    world_advance(&w, 3);
    changed(link);
}

static void prefixes_within_prefixes_are_all_waited_for(void **state)
{
    (void)state;
    both_up();
    broadcast("/etc/");
    broadcast("/etc/deep/");
    subscribe(&one, "/etc/");
    assert_true(state_of(&one)->promised);
    uint64_t link = begin_put("/etc/deep/x", "new");
    assert_null(change_reply(link));
    assert_false(state_of(&one)->promised);
    world_advance(&w, 10002);
    changed(link);
}

/* A deletion that the history has forgotten: the prefix's revision does not go back to what it was
 * before. */
static void a_prefix_does_not_get_an_old_revision_again(void **state)
{
    (void)state;
    w.config.history_events = 2;
    crash();
    both_up();
    broadcast("/etc/");
    put_value("/etc/a", "x");
    uint64_t before = put_value("/etc/b", "x");
    Leasehold__ChangeRequest r = change_to("/etc/a", NULL);
    uint64_t removed = changed(begin_change(&r));
    for (unsigned i = 0; i < 5; i++)
        put_value("/other", "x");
    crash();
    comes_back(&two, NULL, 0);
    assert_non_null(attach(&one, false));
    shows_broadcast("/etc/");
    shows(&one);
    const Leasehold__BroadcastState *s = state_of(&one);
    assert_true(s->promised && s->revision >= removed && s->revision > before);
    assert_int_equal(read_value(&one, "/etc/b")->prefix_revision, s->revision);
}

/* VAL-5, PS-3: what the last master promised is over when all are back. */
static void the_next_master_waits_for_the_promises_of_the_last(void **state)
{
    (void)state;
    both_up();
    broadcast("/etc/");
    put_value("/etc/a", "x");
    subscribe(&one, "/etc/");
    assert_true(state_of(&one)->promised);
    crash();
    comes_back(&two, NULL, 0);
    uint64_t link = begin_put("/etc/a", "y");
    world_advance(&w, 1000);
    assert_null(change_reply(link));
    comes_back(&one, NULL, 0);
    changed(link);
}

/* Who draws no new id for its next session is not punished for the end of its last one. */
static void the_end_of_a_session_takes_nothing_from_a_later_one_with_its_id(void **state)
{
    (void)state;
    w.config.follows_max = 1;
    crash();
    both_up();
    comes(&three);
    attach_value(&one, "/a", "mine");
    attach_value(&three, "/b", "mine");
    cache_value(&two, "/a");
    closes(
        &one); /* the deletion waits for the cache, and what is the next session's waits for it */
    closes(&three);
    Leasehold__ChangeRequest r = change_to("/b", NULL);
    changed(begin_change(&r));
    world_advance(&w, 0);
    comes(&three);
    attach_value(&three, "/c", "mine");
    has_dropped(&two, "/a", told_to_drop(&two, "/a"));
    world_advance(&w, 0);
    value_is("/a", NULL);
    value_is("/c", "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(the_end_of_a_session_takes_nothing_from_a_later_one_with_its_id),
        STORY(an_attached_value_goes_when_its_session_is_closed),
        STORY(it_stays_while_the_session_lives_and_goes_when_it_has_run_out),
        STORY(its_caches_are_told_first),
        STORY(the_last_put_alone_attaches),
        STORY(a_put_while_the_session_ends_is_not_lost),
        STORY(a_session_that_ends_while_the_put_waits_attaches_nothing),
        STORY(attached_values_outlive_a_master_if_their_session_does),
        STORY(values_of_a_session_without_a_record_are_deleted_when_a_master_starts),
        STORY(thousands_of_attached_values_go_a_few_in_each_step),
        STORY(the_events_of_many_values_leave_those_of_locks),
        STORY(events_of_a_lock_and_a_value_are_in_one_order),
        STORY(as_many_values_as_may_be_are_attached_to_a_session),
        STORY(a_prefix_is_promised_with_heartbeats_and_a_change_waits_for_the_promise),
        STORY(while_a_change_waits_heartbeats_have_the_rest_of_the_promise),
        STORY(nothing_is_promised_before_the_change_is_durable),
        STORY(a_prefix_without_the_policy_is_refused_and_a_policy_that_goes_ends_the_promise),
        STORY(prefixes_within_prefixes_are_all_waited_for),
        STORY(a_prefix_does_not_get_an_old_revision_again),
        STORY(the_next_master_waits_for_the_promises_of_the_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
