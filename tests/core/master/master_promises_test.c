/* What the machine remembers over restarts of its master (LEASE-9): a lock is free when its own
 * promise is over, and never before. */
#include "tests/core/master/master_programs.h"

#include "lease/promises.h"

#define SLOTS 1024u

static struct lh_promises *memory;

static int begin(void **state)
{
    int error = set_up(state);

    memory = calloc(1, lh_promises_size(SLOTS));
    lh_promises_open(memory, SLOTS, "boot 1");
    w.config.promises = memory;
    world_crash(&w); /* from now on it is noted */
    return error;
}

static int end(void **state)
{
    int error = tear_down(state);

    free(memory);
    return error;
}

#define REMEMBERED(name) cmocka_unit_test_setup_teardown(name, begin, end)

static void crash(void)
{
    world_crash(&w);
    one.link = two.link = three.link = 0;
}

static void comes_back(struct prog *p)
{
    assert_non_null(attach(p, false));
    assert_non_null(shows(p));
}

/* Both beat once a second; NULL: nobody does. */
static void time_passes(struct prog *p, struct prog *q, uint64_t ms)
{
    for (uint64_t step; ms > 0; ms -= step) {
        step = ms < 1000 ? ms : 1000;
        world_advance(&w, step);
        assert_true(p == NULL || beat(p));
        assert_true(q == NULL || beat(q));
    }
}

/* `one` has a lock and dies; `two` lives on. */
static void holder_dies(uint64_t ms)
{
    comes(&one);
    comes(&two);
    locks(&one, "/a", false);
    time_passes(&two, NULL, ms);
}

/* `two` gets the lock then, and not a millisecond before. */
static void is_free_in(uint64_t ms)
{
    uint64_t id = asks(&two, "/a", false);

    assert_null(granted(&two));
    time_passes(&two, NULL, ms - 1);
    assert_null(granted(&two));
    world_advance(&w, 1);
    const Leasehold__Granted *g = granted(&two);
    assert_non_null(g);
    assert_int_equal(g->id, id);
}

/* What `one` was promised at its last heartbeat lasts for 10 s, and a millisecond (TIME-4). */
static void a_lock_is_free_when_its_own_promise_is_over(void **state)
{
    (void)state;
    holder_dies(2000);
    crash();
    comes_back(&two);
    time_passes(&two, NULL, 4000);
    crash();
    comes_back(&two);
    time_passes(&two, NULL, 3000);
    crash(); /* the fourth start knows what was promised in the first one */
    comes_back(&two);
    is_free_in(1001);
}

static void what_is_over_at_the_start_is_not_waited_for(void **state)
{
    (void)state;
    holder_dies(9000);
    w.now = lh_instant_add(w.now, lh_milliseconds(1001)); /* the master is away */
    crash();
    comes_back(&two);
    locks(&two, "/a", false);
    /* The session itself can be gone on with for a term, and has no lock. */
    assert_non_null(attach(&one, false));
    assert_false(beat(&one)); /* PS-2a would be a promise that nobody waits for */
    shows_lock("/a", 1, false);
    assert_int_equal(shows(&one)->n_lost, 1);
    assert_true(beat(&one));
}

static void a_session_that_is_awaited_while_it_shows_is_noted(void **state)
{
    (void)state;
    holder_dies(5000);
    crash();
    assert_non_null(attach(&one, false));
    time_passes(&one, NULL, 4000); /* PS-2a */
    crash();
    comes_back(&two);
    is_free_in(10001);
}

static void a_session_is_noted_from_its_first_promise_on(void **state)
{
    (void)state;
    comes(&two);
    time_passes(&two, NULL, 30000);
    comes(&one);
    locks(&one, "/a", false);
    crash();
    comes_back(&two);
    is_free_in(10001);
}

/* ---- Where nothing can be remembered the whole term is waited for, from the start on. */

static void not_on_another_boot(void **state)
{
    (void)state;
    holder_dies(9000);
    lh_promises_open(memory, SLOTS, "boot 2");
    crash();
    comes_back(&two);
    is_free_in(10001);
}

/* One that remembers nothing here, as on another machine. */
static void not_with_another_master_in_between(void **state)
{
    (void)state;
    holder_dies(9000);
    w.config.promises = NULL;
    crash();
    assert_non_null(attach(&one, false));
    assert_non_null(shows(&one));
    comes_back(&two);
    locks(&one, "/a", false);
    w.config.promises = memory;
    crash();
    comes_back(&two);
    is_free_in(10001);
}

static void not_if_that_one_has_not_said_anything_yet(void **state)
{
    (void)state;
    holder_dies(9000);
    w.config.promises = NULL;
    crash();
    comes_back(&two);
    w.config.promises = memory;
    crash();
    comes_back(&two);
    is_free_in(10001);
}

/* The copy is of the last reign. It does not know everybody who was promised something. */
static void not_with_an_older_copy_of_the_store(void **state)
{
    uint64_t commits;

    (void)state;
    comes(&two);
    commits = memory->commits;
    holder_dies(9000);
    assert_true(memory->commits > commits);
    memory->commits += 1; /* as if the last commit were not in it */
    crash();
    comes_back(&two);
    is_free_in(10001);
}

/* As it was when the machine's memory was saved: it does not know of `one`. */
static void not_with_an_older_copy_of_the_memory(void **state)
{
    struct lh_promises *copy = calloc(1, lh_promises_size(SLOTS));

    (void)state;
    time_passes(NULL, NULL, 20000);
    memcpy(copy, memory, lh_promises_size(SLOTS));
    holder_dies(2000);
    memcpy(memory, copy, lh_promises_size(SLOTS));
    free(copy);
    crash();
    comes_back(&two);
    is_free_in(10001);
}

/* Killed between two stores: the last commit is durable, and nothing has noted that. */
static void a_commit_that_is_not_known_to_be_durable_changes_nothing(void **state)
{
    (void)state;
    holder_dies(2000);
    memory->commits -= 1;
    crash();
    comes_back(&two);
    is_free_in(8001);
}

/* Likewise: another one had begun, and has come to nothing. */
static void a_commit_that_has_begun_changes_nothing(void **state)
{
    (void)state;
    holder_dies(2000);
    memory->begun += 1;
    crash();
    comes_back(&two);
    is_free_in(8001);
}

static void not_if_the_operator_says_that_it_was_restored(void **state)
{
    (void)state;
    holder_dies(9000);
    w.config.restored = true;
    crash();
    w.config.restored = false;
    comes_back(&two);
    is_free_in(10001);
}

static void not_if_the_clock_has_gone_back(void **state)
{
    (void)state;
    time_passes(NULL, NULL, 60000);
    holder_dies(9000);
    w.now.ns -= 50000000000u;
    crash();
    comes_back(&two);
    is_free_in(10001);
}

/* Killed before it is durable that it began: nobody has heard of it. */
static void a_start_that_came_to_nothing_changes_nothing(void **state)
{
    (void)state;
    holder_dies(9000);
    uint64_t reign = memory->reign;
    crash();
    assert_true(memory->reign != reign);
    memory->reign = reign; /* as it was before the first commit was durable ... */
    world_crash(&w);       /* ... which the store knows of: nobody can say what came of it */
    one.link = two.link = 0;
    comes_back(&two);
    is_free_in(10001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REMEMBERED(a_lock_is_free_when_its_own_promise_is_over),
        REMEMBERED(what_is_over_at_the_start_is_not_waited_for),
        REMEMBERED(a_session_that_is_awaited_while_it_shows_is_noted),
        REMEMBERED(a_session_is_noted_from_its_first_promise_on),
        REMEMBERED(not_on_another_boot),
        REMEMBERED(not_with_another_master_in_between),
        REMEMBERED(not_if_that_one_has_not_said_anything_yet),
        REMEMBERED(not_with_an_older_copy_of_the_store),
        REMEMBERED(not_with_an_older_copy_of_the_memory),
        REMEMBERED(a_commit_that_is_not_known_to_be_durable_changes_nothing),
        REMEMBERED(a_commit_that_has_begun_changes_nothing),
        REMEMBERED(not_if_the_operator_says_that_it_was_restored),
        REMEMBERED(not_if_the_clock_has_gone_back),
        REMEMBERED(a_start_that_came_to_nothing_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
