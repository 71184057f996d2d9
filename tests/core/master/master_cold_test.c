/* A master that has seen nothing of its store's history gives no token at once (NL-2a). */
#include "tests/core/master/master_programs.h"

static struct server servers[3];

static void given_three_servers(void)
{
    static const char *const names[] = {"a", "b", "c"};

    for (size_t i = 0; i < 3; i++) {
        servers[i] = (struct server){.id = names[i], .incarnation = 1, .registration = 1};
        assert_true(server_register(&w, &servers[i]));
        assert_true(server_heartbeat(&w, &servers[i]));
    }
}

static void starts_cold(void)
{
    w.config.seed++;
    w.config.reign_followed = false;
    world_crash(&w);
    for (size_t i = 0; i < 3; i++)
        servers[i].link = 0;
    one.link = two.link = three.link = 0;
}

static void given_one_that_asks_a_cold_master(void)
{
    given_three_servers();
    starts_cold();
    comes(&one);
    asks(&one, "/job", false);
}

static void again(struct server *s)
{
    s->registration++;
    assert_true(server_register(&w, s));
    assert_true(server_heartbeat(&w, s));
}

static void a_new_cluster_waits_for_nobody(void **state)
{
    (void)state;
    comes(&one);
    assert_true(locks(&one, "/job", false) != 0);
}

static void more_than_half_of_the_servers_show_that_it_fits(void **state)
{
    (void)state;
    given_one_that_asks_a_cold_master();
    again(&servers[0]);
    world_advance(&w, 1000);
    assert_null(granted(&one));
    servers[1].registration++;
    assert_true(server_register(&w, &servers[1]));
    world_advance(&w, 100);
    assert_null(granted(&one)); /* whether it has the answer is not known */
    assert_true(server_heartbeat(&w, &servers[1]));
    world_advance(&w, 100);
    assert_non_null(granted(&one));
}

static void a_server_of_another_history_shows_nothing(void **state)
{
    (void)state;
    given_one_that_asks_a_cold_master();
    again(&servers[0]);
    servers[1].name_seen++;
    servers[1].registration++;
    assert_false(server_register(&w, &servers[1]));
    world_advance(&w, 1000);
    assert_null(granted(&one));
}

static void nobody_comes_for_a_term(void **state)
{
    (void)state;
    given_one_that_asks_a_cold_master();
    for (int i = 0; i < 3; i++) {
        world_advance(&w, 3000);
        assert_null(granted(&one));
        assert_true(beat(&one));
    }
    world_advance(&w, 1500);
    assert_non_null(granted(&one));
}

static void without_servers_a_program_shows_it(void **state)
{
    (void)state;
    comes(&one);
    starts_cold();
    comes(&two);
    asks(&two, "/job", false);
    assert_non_null(attach(&one, false));
    assert_non_null(shows(&one));
    world_advance(&w, 100);
    assert_non_null(granted(&two));
}

static void who_followed_the_last_master_waits_for_nobody(void **state)
{
    (void)state;
    given_three_servers();
    starts_cold();
    w.config.reign_followed = true;
    world_crash(&w);
    comes(&one);
    assert_true(locks(&one, "/job", false) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_new_cluster_waits_for_nobody),
        STORY(more_than_half_of_the_servers_show_that_it_fits),
        STORY(a_server_of_another_history_shows_nothing),
        STORY(nobody_comes_for_a_term),
        STORY(without_servers_a_program_shows_it),
        STORY(who_followed_the_last_master_waits_for_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
