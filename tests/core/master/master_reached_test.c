/* HA-9a: which chunkservers a master reaches, and which it misses. */
#include "tests/core/master/master_story.h"

static char *const names[] = {"a", "b", "x"};

static uint64_t reached(void)
{
    return lh_master_reached(w.m, w.now);
}

static uint64_t missed(void)
{
    return lh_master_missed(w.m, w.now, NULL, 0);
}

static uint64_t missed_of_names(void)
{
    return lh_master_missed(w.m, w.now, names, 3);
}

static void who_is_in_session_and_hears_the_answers_is_reached(void **state)
{
    (void)state;
    three_up();
    assert_int_equal(reached(), 3);
    assert_int_equal(missed(), 0);
    assert_int_equal(missed_of_names(), 0); /* x never registered */
    server_heartbeat(&w, a);
    /* b and c say nothing any more. */
    for (int i = 0; i < 8; i++) {
        world_advance(&w, 2500);
        server_heartbeat(&w, a);
    }
    assert_int_equal(reached(), 1);
    assert_int_equal(missed(), 2);
    assert_int_equal(missed_of_names(), 1);
}

/* Its heartbeats come, and their answers are lost. */
static void who_hears_no_answers_is_missed(void **state)
{
    (void)state;
    three_up();
    uint64_t last = a->last_stamp;
    for (int i = 0; i < 8; i++) {
        world_advance(&w, 2500);
        a->last_stamp = last;
        server_heartbeat(&w, a);
        server_heartbeat(&w, b);
        server_heartbeat(&w, c);
    }
    assert_int_equal(reached(), 2);
    assert_int_equal(missed_of_names(), 1);
}

static bool would_register(const char *id, const char *cluster, uint64_t reign, uint64_t name)
{
    Leasehold__MastersRequest r = LEASEHOLD__MASTERS_REQUEST__INIT;

    r.server_id = (char *)(uintptr_t)id;
    r.cluster_id = (char *)(uintptr_t)cluster;
    r.reign_seen = reign;
    r.reign_name_seen = name;
    return lh_master_would_register(w.m, w.identity, &r);
}

static void whom_it_would_register(void **state)
{
    (void)state;
    three_up();
    assert_true(would_register("a", "", 1, a->name_seen));
    assert_false(would_register("new", "", 0, 0));
    assert_false(would_register("", "", 0, 0));
    assert_false(would_register("a", "another", 1, a->name_seen));
    assert_false(would_register("a", "", 1, 4711));
    assert_false(would_register("a", "", 2, 4711));
    w.identity = "leasehold://chunkserver/b";
    assert_false(would_register("a", "", 0, 0));
    assert_true(would_register("b", "", 0, 0));
    w.identity = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(who_is_in_session_and_hears_the_answers_is_reached),
        STORY(who_hears_no_answers_is_missed),
        STORY(whom_it_would_register),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
