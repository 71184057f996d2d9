/* Values without sessions: changes, conditions, calls that happen once, bounds, restarts,
 * policies. */
#include "tests/core/master/values_story.h"

#define VALUE_BYTES_MAX 65536

/* ---- Changes and reads. */

static void a_value_is_put_read_changed_and_deleted(void **state)
{
    (void)state;
    uint64_t first = put_value("/a", "one");
    value_is("/a", "one");
    uint64_t second = put_value("/a", "two");
    value_is("/a", "two");
    assert_true(second > first);

    Leasehold__ChangeRequest r = change_to("/a", NULL);
    assert_true(changed(begin_change(&r)) > second);
    value_is("/a", NULL);
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__NOT_FOUND);
}

static void an_answer_comes_when_its_change_is_durable_and_so_does_what_is_read_meanwhile(
    void **state)
{
    (void)state;
    put_value("/a", "one");
    w.hold_commits = true;
    Leasehold__ChangeRequest r = change_to("/a", "two");
    uint64_t link = begin_change(&r);
    Leasehold__GetRequest g = LEASEHOLD__GET_REQUEST__INIT;
    g.name = (char *)(uintptr_t) "/a";
    uint64_t read = world_call(&w, LH_METHOD_GET, &g);
    assert_null(change_reply(link));
    assert_null(world_reply(&w, read));

    world_commit_all(&w);
    uint64_t revision = changed(link);
    const Leasehold__GetReply *reply = world_reply(&w, read);
    assert_true(is_text(&reply->value->value, "two"));
    assert_true(reply->store_revision >= revision);
}

static void a_reader_that_has_the_value_is_not_sent_it_again(void **state)
{
    (void)state;
    Leasehold__GetRequest g = LEASEHOLD__GET_REQUEST__INIT;

    g.revision = put_value("/a", "one");
    g.name = (char *)(uintptr_t) "/a";
    const Leasehold__GetReply *reply = world_reply(&w, world_call(&w, LH_METHOD_GET, &g));
    assert_true(reply->same);
    assert_int_equal(reply->value->value.len, 0);
    assert_int_equal(reply->value->size, 3);
}

static void two_changes_of_one_name_are_committed_one_after_the_other(void **state)
{
    (void)state;
    w.hold_commits = true;
    Leasehold__ChangeRequest a = change_to("/a", "one"), b = change_to("/a", "two");
    uint64_t first = begin_change(&a), second = begin_change(&b);
    assert_int_equal(w.commit_count, 1);

    world_commit(&w);
    assert_int_equal(w.commit_count, 1);
    uint64_t revision = changed(first);
    assert_null(change_reply(second));
    world_commit(&w);
    assert_true(changed(second) > revision);
    w.hold_commits = false;
    value_is("/a", "two");
}

static void a_condition_is_checked_when_the_change_before_it_is_through(void **state)
{
    (void)state;
    uint64_t revision = put_value("/a", "one");
    Leasehold__ChangeRequest b = change_to("/a", "two"), c = change_to("/a", "three");

    c.if_revision = true;
    c.revision = revision;
    w.hold_commits = true;
    uint64_t first = begin_change(&b), second = begin_change(&c);
    world_commit_all(&w);
    w.hold_commits = false;
    revision = changed(first);
    change_refused(second, LEASEHOLD__ERROR_CODE__ALREADY_EXISTS);
    assert_int_equal(change_reply(second)->revision, revision);
    value_is("/a", "two");

    c.revision = revision;
    changed(begin_change(&c));
    c.revision = 0;
    change_refused(begin_change(&c), LEASEHOLD__ERROR_CODE__ALREADY_EXISTS);
    c.name = (char *)(uintptr_t) "/b";
    changed(begin_change(&c));
    c.name = (char *)(uintptr_t) "/c";
    c.revision = 5;
    change_refused(begin_change(&c), LEASEHOLD__ERROR_CODE__NOT_FOUND);
}

static void a_token_that_is_not_in_force_changes_nothing(void **state)
{
    (void)state;
    Leasehold__ChangeRequest r = change_to("/a", "one");

    r.token = (UINT64_C(1) << 40) + 1;
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__STALE_TOKEN);
    value_is("/a", NULL);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const uint8_t large[VALUE_BYTES_MAX + 1];
    Leasehold__ChangeRequest r = change_to("a", "one");

    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    r.name = (char *)(uintptr_t) "/a";
    r.attach = text_bytes("short");
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    r.attach = text_bytes("0123456789abcdef");
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__UNKNOWN_SESSION);
    r.attach.len = 0;
    r.value = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)large, .len = sizeof large};
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__TOO_LARGE);
    r.value.len--;
    changed(begin_change(&r));
    r.lock = (char *)(uintptr_t) "no/name";
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    assert_int_equal(get_value("no")->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
}

/* ---- Calls that happen once (HA-12). */

static void a_repeat_after_the_commit_is_answered_and_changes_nothing(void **state)
{
    (void)state;
    Leasehold__CallId id = call_id(1, false);
    Leasehold__ChangeRequest r = change_to("/a", "one");

    r.call = &id;
    uint64_t revision = changed(begin_change(&r));
    put_value("/a", "two");
    id.repeated = true;
    assert_int_equal(changed(begin_change(&r)), revision);
    value_is("/a", "two");
    crash();
    assert_int_equal(changed(begin_change(&r)), revision);
    value_is("/a", "two");
}

static void a_repeat_before_the_commit_is_durable_is_answered_with_it(void **state)
{
    (void)state;
    Leasehold__CallId id = call_id(1, false);
    Leasehold__ChangeRequest r = change_to("/a", "one");

    r.call = &id;
    w.hold_commits = true;
    uint64_t first = begin_change(&r);
    id.repeated = true;
    uint64_t second = begin_change(&r);
    assert_null(change_reply(first));
    assert_null(change_reply(second));
    assert_int_equal(w.commit_count, 1);
    world_commit_all(&w);
    w.hold_commits = false;
    assert_int_equal(changed(first), changed(second));
}

/* The change waits behind another one; its caller comes again on another link. */
static void a_repeat_of_a_change_that_waits_takes_its_place(void **state)
{
    (void)state;
    Leasehold__CallId id = call_id(1, false);
    Leasehold__ChangeRequest r = change_to("/a", "mine"), before = change_to("/a", "before");

    r.call = &id;
    w.hold_commits = true;
    uint64_t other = begin_change(&before);
    uint64_t first = begin_change(&r);
    id.repeated = true;
    uint64_t second = begin_change(&r);
    assert_int_equal(world_end(&w, first), LH_ERR_UNAVAILABLE);
    world_break_link(&w, second);
    uint64_t third = begin_change(&r);
    world_commit_all(&w);
    w.hold_commits = false;
    uint64_t revision = changed(other);
    assert_int_equal(changed(third), revision + 1);
    value_is("/a", "mine");
}

static void a_change_whose_caller_is_gone_is_carried_out_and_answered_when_it_comes_again(
    void **state)
{
    (void)state;
    Leasehold__CallId id = call_id(1, false);
    Leasehold__ChangeRequest r = change_to("/a", "mine"), before = change_to("/a", "before");

    r.call = &id;
    w.hold_commits = true;
    begin_change(&before);
    world_break_link(&w, begin_change(&r));
    world_commit_all(&w);
    w.hold_commits = false;
    value_is("/a", "mine");
    put_value("/a", "later");
    id.repeated = true;
    changed(begin_change(&r));
    value_is("/a", "later");
}

static void another_call_with_the_id_of_one_that_waits_is_refused(void **state)
{
    (void)state;
    Leasehold__CallId id = call_id(1, false);
    Leasehold__ChangeRequest r = change_to("/a", "mine"), before = change_to("/a", "before");

    r.call = &id;
    w.hold_commits = true;
    begin_change(&before);
    uint64_t first = begin_change(&r);
    r.value = text_bytes("other");
    uint64_t second = begin_change(&r);
    world_commit_all(&w);
    w.hold_commits = false;
    change_refused(second, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    changed(first);
    value_is("/a", "mine");
}

/* The first message's refusal may be unknown to its caller, so its repeat may succeed; and the
 * refusal of a repeat is kept. */
static void a_refusal_of_a_repeat_is_kept(void **state)
{
    (void)state;
    Leasehold__CallId id = call_id(1, false);
    Leasehold__ChangeRequest r = change_to("/a", "mine");

    r.call = &id;
    r.if_revision = true;
    r.revision = 9;
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__NOT_FOUND);
    id.repeated = true;
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__NOT_FOUND);
    for (unsigned i = 1; i <= 9; i++)
        assert_int_equal(put_value("/a", "others"), i);
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__NOT_FOUND);
    value_is("/a", "others");
}

static void a_second_message_on_the_link_of_a_change_is_ignored(void **state)
{
    (void)state;
    Leasehold__ChangeRequest r = change_to("/a", "mine"), before = change_to("/a", "before");

    w.hold_commits = true;
    begin_change(&before);
    uint64_t link = begin_change(&r);
    world_message(&w, link, &before);
    world_commit_all(&w);
    w.hold_commits = false;
    changed(link);
    value_is("/a", "mine");
}

/* ---- Bounds. */

static void an_etcd_that_fills_takes_no_value_and_lets_them_be_deleted(void **state)
{
    (void)state;
    put_value("/a", "one");
    lh_master_store_fills(w.m, "etcd is nearly full");
    Leasehold__ChangeRequest r = change_to("/a", "two");
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__DISK_FULL);
    r = change_to("/a", NULL);
    changed(begin_change(&r));
}

static void changes_of_one_name_wait_up_to_a_bound(void **state)
{
    (void)state;
    w.config.changes_max = 2;
    crash();
    w.hold_commits = true;
    Leasehold__ChangeRequest r = change_to("/a", "one");
    begin_change(&r);
    uint64_t second = begin_change(&r), third = begin_change(&r), fourth = begin_change(&r);
    r.name = (char *)(uintptr_t) "/b";
    uint64_t other = begin_change(&r);
    world_commit_all(&w);
    w.hold_commits = false;
    changed(second);
    changed(third);
    change_refused(fourth, LEASEHOLD__ERROR_CODE__NO_MEMORY);
    changed(other);
}

static void there_are_at_most_so_many_values_and_bytes(void **state)
{
    (void)state;
    w.config.values_max = 2;
    w.config.values_bytes_max = 10;
    crash();
    put_value("/a", "12345");
    Leasehold__ChangeRequest r = change_to("/b", "123456");
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__NO_MEMORY);
    put_value("/b", "12345");
    put_value("/b", "54321");
    r = change_to("/c", "");
    change_refused(begin_change(&r), LEASEHOLD__ERROR_CODE__NO_MEMORY);
}

static void a_change_that_waits_too_long_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    Leasehold__ChangeRequest first = change_to("/a", "one"), r = change_to("/a", "two");

    r.wait_ms = 100;
    w.hold_commits = true;
    begin_change(&first);
    uint64_t link = begin_change(&r);
    world_advance(&w, 99);
    assert_null(change_reply(link));
    world_advance(&w, 1);
    change_refused(link, LEASEHOLD__ERROR_CODE__LEASE_HELD);
    world_commit_all(&w);
    w.hold_commits = false;
    value_is("/a", "one");
}

static void changes_of_many_names_do_not_wait_for_each_other(void **state)
{
    (void)state;
    enum { NAMES = 40 };
    uint64_t links[NAMES];
    char name[16];

    w.config.changes_step = 4;
    crash();
    w.hold_commits = true;
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "/n%02u", i);
        Leasehold__ChangeRequest r = change_to(name, "first");
        links[i] = begin_change(&r);
        r = change_to(name, "second");
        links[i] = begin_change(&r);
    }
    world_commit_all(&w);
    w.hold_commits = false;
    for (unsigned i = 0; i < NAMES; i++)
        changed(links[i]);
}

static void a_master_that_stops_refuses_changes_that_wait(void **state)
{
    (void)state;
    Leasehold__ChangeRequest first = change_to("/a", "one"), r = change_to("/a", "two");

    w.hold_commits = true;
    uint64_t before = begin_change(&first), link = begin_change(&r), stream = watch("/", 0);
    world_stop(&w);
    assert_int_equal(world_end(&w, link), LH_ERR_SHUTTING_DOWN);
    assert_int_equal(world_end(&w, stream), LH_ERR_SHUTTING_DOWN);
    world_commit_all(&w);
    changed(before);
    assert_true(w.stopped);
}

/* ---- Restarts. */

static void values_and_revisions_outlive_the_master(void **state)
{
    (void)state;
    put_value("/a", "one");
    put_value("/b", "two");
    Leasehold__ChangeRequest r = change_to("/b", NULL);
    uint64_t last = changed(begin_change(&r));
    crash();
    value_is("/a", "one");
    value_is("/b", NULL);
    assert_int_equal(put_value("/b", "three"), last + 1);
}

static void a_change_that_is_not_durable_when_the_master_dies_is_none(void **state)
{
    (void)state;
    put_value("/a", "one");
    w.hold_commits = true;
    Leasehold__ChangeRequest r = change_to("/a", "two");
    begin_change(&r);
    crash();
    w.hold_commits = false;
    value_is("/a", "one");
}

/* ---- Policies (NL-5). */

static void the_policy_of_the_longest_prefix_says_for_how_long_a_value_is_current(void **state)
{
    (void)state;
    Leasehold__Policy all = policy_for("/"), some = policy_for("/a/"), whole = policy_for("/a/b");

    put_value("/a/b", "x");
    put_value("/a/c", "x");
    put_value("/d", "x");
    assert_int_equal(get_value("/d")->ttl_ms, 1000);
    all.term_min_ms = 2000;
    some.share_percent = 50;
    some.term_max_ms = 20000;
    whole.term_min_ms = whole.term_max_ms = 7000;
    assert_int_equal(set_policy(&all, false), LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(set_policy(&some, false), LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(set_policy(&whole, false), LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(get_value("/d")->ttl_ms, 2000);
    assert_int_equal(get_value("/a/b")->ttl_ms, 7000);
    world_advance(&w, 30000);
    assert_int_equal(get_value("/a/c")->ttl_ms, 15000);
    assert_int_equal(get_value("/d")->ttl_ms, 3000);
    world_advance(&w, 30000);
    assert_int_equal(get_value("/a/c")->ttl_ms, 20000);

    crash(); /* how old the values are is known no more */
    assert_int_equal(get_value("/a/c")->ttl_ms, 1000);
    assert_int_equal(get_value("/a/b")->ttl_ms, 7000);
    assert_int_equal(set_policy(&whole, true), LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(get_value("/a/b")->ttl_ms, 1000);
    crash();
    assert_int_equal(get_value("/a/b")->ttl_ms, 1000);
}

static void policies_are_listed_and_bounded(void **state)
{
    (void)state;
    Leasehold__ListPoliciesRequest r = LEASEHOLD__LIST_POLICIES_REQUEST__INIT;
    Leasehold__Policy second = policy_for("/b/"), first = policy_for("/a/"),
                      third = policy_for("/c/");
    Leasehold__Policy none = policy_for("c"), wrong = policy_for("/a/");

    w.config.policies_max = 2;
    crash();
    second.no_recall = second.broadcast = true;
    first.no_lease = true;
    assert_int_equal(set_policy(&second, false), LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(set_policy(&first, false), LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(set_policy(&third, false), LEASEHOLD__ERROR_CODE__NO_MEMORY);
    assert_int_equal(set_policy(&first, false), LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(set_policy(&none, false), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    assert_int_equal(set_policy(&third, true), LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_int_equal(set_policy(NULL, false), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    wrong.term_min_ms = 2;
    wrong.term_max_ms = 1;
    assert_int_equal(set_policy(&wrong, false), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    const Leasehold__ListPoliciesReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_POLICIES, &r));
    assert_int_equal(reply->n_policies, 2);
    assert_string_equal(reply->policies[0]->prefix, "/a/");
    assert_true(reply->policies[0]->no_lease);
    assert_true(reply->policies[1]->no_recall && reply->policies[1]->broadcast);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_value_is_put_read_changed_and_deleted),
        STORY(an_answer_comes_when_its_change_is_durable_and_so_does_what_is_read_meanwhile),
        STORY(a_reader_that_has_the_value_is_not_sent_it_again),
        STORY(two_changes_of_one_name_are_committed_one_after_the_other),
        STORY(a_condition_is_checked_when_the_change_before_it_is_through),
        STORY(a_token_that_is_not_in_force_changes_nothing),
        STORY(what_makes_no_sense_is_refused),
        STORY(a_repeat_after_the_commit_is_answered_and_changes_nothing),
        STORY(a_repeat_before_the_commit_is_durable_is_answered_with_it),
        STORY(a_repeat_of_a_change_that_waits_takes_its_place),
        STORY(a_change_whose_caller_is_gone_is_carried_out_and_answered_when_it_comes_again),
        STORY(another_call_with_the_id_of_one_that_waits_is_refused),
        STORY(a_refusal_of_a_repeat_is_kept),
        STORY(a_second_message_on_the_link_of_a_change_is_ignored),
        STORY(an_etcd_that_fills_takes_no_value_and_lets_them_be_deleted),
        STORY(changes_of_one_name_wait_up_to_a_bound),
        STORY(there_are_at_most_so_many_values_and_bytes),
        STORY(a_change_that_waits_too_long_is_refused_and_changes_nothing),
        STORY(changes_of_many_names_do_not_wait_for_each_other),
        STORY(a_master_that_stops_refuses_changes_that_wait),
        STORY(values_and_revisions_outlive_the_master),
        STORY(a_change_that_is_not_durable_when_the_master_dies_is_none),
        STORY(the_policy_of_the_longest_prefix_says_for_how_long_a_value_is_current),
        STORY(policies_are_listed_and_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
