/* Stories of the list of masters, as one that acts gives it (HA-10). */
#include "base/cluster.h"
#include "tests/core/master/master_story.h"

static const Leasehold__MastersReply *masters(void)
{
    static const Leasehold__MastersRequest r = LEASEHOLD__MASTERS_REQUEST__INIT;

    return world_reply(&w, world_call(&w, LH_METHOD_MASTERS, &r));
}

static const Leasehold__LocateReply *locate(const char *path)
{
    Leasehold__LocateRequest r = LEASEHOLD__LOCATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    return world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
}

static const Leasehold__OpenTailReply *open_tail_of(const char *path)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    return world_reply(&w, world_call(&w, LH_METHOD_OPEN_TAIL, &r));
}

/* The answer to the server's last registration. */
static const Leasehold__Registered *registered(const struct server *s)
{
    for (size_t i = w.line_count; i-- > 0;) {
        const Leasehold__SessionReply *m = (const void *)w.lines[i].message;
        if (w.lines[i].link == s->link && m != NULL &&
            m->body_case == LEASEHOLD__SESSION_REPLY__BODY_REGISTERED)
            return m->registered;
    }
    fail_msg("%s was not answered", s->id);
    return NULL;
}

static void a_master_that_knows_no_other_lists_none(void **state)
{
    (void)state;
    three_up();
    make_file("/f");
    assert_int_equal(registered(a)->n_masters, 0);
    assert_int_equal(locate("/f")->n_masters, 0);
    assert_int_equal(open_tail_of("/f")->n_masters, 0);
    const Leasehold__MastersReply *m = masters();
    assert_true(m->acting);
    assert_int_equal(m->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(m->n_masters, 0);
    assert_true(m->reign == registered(a)->master_term);
    assert_string_equal(m->cluster_id, registered(a)->cluster_id);
}

/* SES-10: it knows another one by this address. */
static void a_call_from_another_cluster_is_refused(void **state)
{
    Leasehold__LocateRequest r = LEASEHOLD__LOCATE_REQUEST__INIT;
    Leasehold__WatchRequest watch = LEASEHOLD__WATCH_REQUEST__INIT;

    (void)state;
    three_up();
    make_file("/f");
    r.path = (char *)(uintptr_t) "/f";
    r.cluster = lh_cluster_hash(masters()->cluster_id);
    const Leasehold__LocateReply *found = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    assert_int_equal(found->error, LEASEHOLD__ERROR_CODE__OK);
    r.cluster = watch.cluster = lh_cluster_hash("another");
    assert_int_equal(world_end(&w, world_call(&w, LH_METHOD_LOCATE, &r)), LH_ERR_NOT_ACTIVE);
    assert_int_equal(world_end(&w, world_call(&w, LH_METHOD_WATCH, &watch)), LH_ERR_NOT_ACTIVE);
}

static void all_masters_are_listed_in_answers(void **state)
{
    const char *const list[] = {"m1:1", "m2:1"}, *const other[] = {"m3:1"};

    (void)state;
    lh_master_know_masters(w.m, list, 2);
    three_up();
    make_file("/f");
    assert_int_equal(registered(a)->n_masters, 2);
    assert_string_equal(registered(a)->masters[1], "m2:1");
    assert_int_equal(locate("/f")->n_masters, 2);
    assert_int_equal(open_tail_of("/f")->n_masters, 2);
    assert_int_equal(masters()->n_masters, 2);
    assert_string_equal(masters()->masters[0]->address, "m1:1");

    lh_master_know_masters(w.m, other, 1);
    assert_int_equal(masters()->n_masters, 1);
    assert_string_equal(locate("/f")->masters[0], "m3:1");
}

/* The reign is the master's term; no commit of another call is waited for. */
static void the_question_who_acts_is_answered_at_once(void **state)
{
    Leasehold__CreateRequest create = LEASEHOLD__CREATE_REQUEST__INIT;

    (void)state;
    uint64_t first = masters()->reign;
    world_crash(&w);
    w.hold_commits = true;
    create.path = (char *)(uintptr_t) "/f";
    uint64_t call = world_call(&w, LH_METHOD_CREATE, &create);
    assert_true(masters()->acting);
    assert_true(masters()->reign == first + 1);
    assert_null(world_reply(&w, call));
    w.hold_commits = false;
    world_commit_all(&w);
    assert_non_null(world_reply(&w, call));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_master_that_knows_no_other_lists_none),
        STORY(a_call_from_another_cluster_is_refused),
        STORY(all_masters_are_listed_in_answers),
        STORY(the_question_who_acts_is_answered_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
