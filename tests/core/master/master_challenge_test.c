/* Registrations of processes that could not write a new incarnation down (SES-1b). */
#include "tests/core/master/master_story.h"

/* A process on the disk of `s`, which it cannot write: it has the incarnation that is stored, and a
 * stream of its own. */
static struct server successor_of(const struct server *s, uint64_t process)
{
    return (struct server){
        .id = s->id, .incarnation = s->incarnation, .process = process, .read_only = true};
}

static bool answer(struct server *s)
{
    s->challenge = s->challenged;
    bool registered = server_register(&w, s);
    s->challenge = 0;
    return registered;
}

/* Is refused, and registers by its challenge. */
static void come_by_challenge(struct server *s)
{
    assert_false(server_register(&w, s));
    assert_true(s->challenged != 0);
    assert_true(answer(s));
    assert_true(server_heartbeat(&w, s));
}

static void a_process_without_a_new_incarnation_registers_by_a_challenge(void **state)
{
    struct server *primary;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    down(primary);
    struct server next = successor_of(primary, 77);
    come_by_challenge(&next);
    /* It proves nobody dead: the lease runs out by the clock. */
    assert_string_not_equal(state_of(chunk), "FREE");
    assert_true(server_heartbeat(&w, &next));
}

static void it_needs_a_challenge_each_time(void **state)
{
    (void)state;
    three_up();
    down(a);
    struct server next = successor_of(a, 77);
    come_by_challenge(&next);
    world_break_link(&w, next.link);
    next.link = 0;
    come_by_challenge(&next);
    crash();
    next.link = 0;
    come_by_challenge(&next);
}

/* The process before it had raised the incarnation, and its registrations are on their way. */
static void who_comes_without_a_number_lets_no_number_of_its_incarnation_count(void **state)
{
    (void)state;
    three_up();
    down(a);
    struct server late = *a, next = successor_of(a, 77);
    late.incarnation = ++next.incarnation;
    assert_true(server_register(&w, &next));
    late.link = 0;
    assert_false(server_register(&w, &late));
    assert_true(server_heartbeat(&w, &next));
}

/* The process before it has sent another registration, which was on its way. */
static void a_number_of_the_process_before_counts_no_more(void **state)
{
    (void)state;
    three_up();
    struct server late = *a;
    down(a);
    struct server next = successor_of(a, 77);
    come_by_challenge(&next);
    late.link = 0;
    late.registration += 5;
    assert_false(server_register(&w, &late));
    assert_true(server_heartbeat(&w, &next));
    crash();
    late.link = 0;
    late.registration += 5;
    assert_false(server_register(&w, &late));
}

/* The process before it was challenged, too, and its answer was on its way. */
static void only_the_last_challenge_counts(void **state)
{
    (void)state;
    three_up();
    down(a);
    struct server before = successor_of(a, 66), next = successor_of(a, 77);
    assert_false(server_register(&w, &before));
    come_by_challenge(&next);
    assert_false(answer(&before));
    assert_true(server_heartbeat(&w, &next));
    /* Nor does it count twice. */
    next.challenge = next.challenged;
    assert_false(server_register(&w, &next));
}

static void a_challenge_counts_on_its_stream_alone(void **state)
{
    (void)state;
    three_up();
    down(a);
    struct server next = successor_of(a, 77);
    assert_false(server_register(&w, &next));
    next.link = 0;
    assert_false(answer(&next));
    assert_true(answer(&next));
}

static void an_older_copy_of_the_directory_gets_no_challenge(void **state)
{
    (void)state;
    a->incarnation = 4;
    three_up();
    struct server older = {.id = "a", .incarnation = 3, .registration = 9, .process = 77};
    assert_false(server_register(&w, &older));
    assert_true(older.challenged == 0);
    older.challenge = 1;
    older.link = 0;
    assert_false(server_register(&w, &older));
    assert_true(server_heartbeat(&w, a));
}

static void a_new_incarnation_needs_no_challenge(void **state)
{
    (void)state;
    three_up();
    down(a);
    struct server next = successor_of(a, 77);
    come_by_challenge(&next);
    down(&next);
    a->incarnation++;
    a->registration = 1;
    up(a);
}

/* SES-5a: what its own process was granted it gives back by not showing it. */
static void what_it_was_granted_itself_is_free_when_it_does_not_show_it(void **state)
{
    struct server *primary = NULL, *const s = b;

    (void)state;
    three_up();
    down(s);
    struct server next = successor_of(s, 77);
    next.read_only = false; /* the disk can be written again */
    come_by_challenge(&next);
    *s = next;
    assert_true(is_up(s) && is_up(c));
    uint64_t chunk = 0;
    for (unsigned i = 0; i < 8 && primary != s; i++) {
        char path[8];
        snprintf(path, sizeof path, "/%u", i);
        chunk = file_with_primary(path, &primary);
    }
    assert_ptr_equal(primary, s);
    world_break_link(&w, s->link);
    s->link = 0;
    come_by_challenge(s);
    assert_string_equal(state_of(chunk), "FREE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_process_without_a_new_incarnation_registers_by_a_challenge),
        STORY(it_needs_a_challenge_each_time),
        STORY(who_comes_without_a_number_lets_no_number_of_its_incarnation_count),
        STORY(a_number_of_the_process_before_counts_no_more),
        STORY(only_the_last_challenge_counts),
        STORY(a_challenge_counts_on_its_stream_alone),
        STORY(an_older_copy_of_the_directory_gets_no_challenge),
        STORY(a_new_incarnation_needs_no_challenge),
        STORY(what_it_was_granted_itself_is_free_when_it_does_not_show_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
