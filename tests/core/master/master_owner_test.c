/* Stories about who owns a file by a lock that programs acquire (TOK-2): which tokens raise its
 * fence, also while sessions are awaited (PS-3). */
#include "tests/core/master/master_programs.h"

#define LOCK "/locks/log"

static struct server servers[3] = {{.id = "a"}, {.id = "b"}, {.id = "c"}};

/* All do what they are asked to: they create replicas, and confirm grants. */
static void obey(void)
{
    const Leasehold__SessionReply *r;

    for (unsigned round = 0; round < 2; round++)
        for (size_t i = 0; i < 3; i++) {
            struct server *s = &servers[i];
            while ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_CREATE)) != NULL)
                server_created(&w, s, r->create->chunk, LH_OK);
            while ((r = world_next(&w, s->link, LEASEHOLD__SESSION_REPLY__BODY_GRANT)) != NULL)
                server_confirm(&w, s, r->grant->chunk, r->grant->version, LH_OK);
        }
}

static void servers_come(void)
{
    for (size_t i = 0; i < 3; i++) {
        servers[i].link = 0;
        servers[i].incarnation++; /* a new process: it holds nothing */
        servers[i].registration = 1;
        assert_true(server_register(&w, &servers[i]));
        assert_true(server_heartbeat(&w, &servers[i]));
    }
}

static void given_a_file(void)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    for (size_t i = 0; i < 3; i++) /* of a cluster that begins */
        servers[i].term_seen = servers[i].name_seen = 0;
    servers_come();
    r.path = "/f";
    const Leasehold__CreateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_CREATE, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
}

static uint64_t opens(uint64_t token, uint64_t wait_ms)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = "/f";
    r.wait_ms = wait_ms;
    r.lock_name = LOCK;
    r.token = token;
    uint64_t call = world_call(&w, LH_METHOD_OPEN_TAIL, &r);
    obey();
    return call;
}

/* -1: nothing is answered. */
static int answer_to(uint64_t call)
{
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);

    return reply == NULL ? -1 : (int)reply->error;
}

#define OK          LEASEHOLD__ERROR_CODE__OK
#define STALE_TOKEN LEASEHOLD__ERROR_CODE__STALE_TOKEN
#define UNAVAILABLE LEASEHOLD__ERROR_CODE__UNAVAILABLE

static void an_owner_holds_its_lock_when_it_comes(void **state)
{
    (void)state;
    given_a_file();
    comes(&one);
    comes(&two);
    uint64_t first = locks(&one, LOCK, false);
    assert_int_equal(answer_to(opens(first + 1, 1000)), STALE_TOKEN); /* it was never given */
    assert_int_equal(answer_to(opens(first, 1000)), OK);
    releases(&one, LOCK, first);
    assert_int_equal(answer_to(opens(first, 1000)), OK); /* nobody came after it */
    uint64_t second = locks(&two, LOCK, false);
    assert_true(second > first);
    assert_int_equal(answer_to(opens(first, 1000)), OK);
    assert_int_equal(answer_to(opens(second, 1000)), OK);
    assert_int_equal(answer_to(opens(first, 1000)), STALE_TOKEN);
}

static void a_lock_that_was_lost_before_it_was_used_admits_nobody(void **state)
{
    (void)state;
    given_a_file();
    comes(&one);
    comes(&two);
    uint64_t first = locks(&one, LOCK, false);
    releases(&one, LOCK, first);
    assert_int_equal(answer_to(opens(first, 1000)), STALE_TOKEN);
    uint64_t second = locks(&two, LOCK, false);
    assert_int_equal(answer_to(opens(first, 1000)), STALE_TOKEN);
    assert_int_equal(answer_to(opens(second, 1000)), OK);
}

static void a_new_master_waits_for_the_session_that_may_hold_it(void **state)
{
    (void)state;
    given_a_file();
    comes(&one);
    comes(&two);
    uint64_t token = locks(&one, LOCK, false);
    world_crash(&w);
    servers_come();
    uint64_t call = opens(token, 5000), never = opens(token + 7, 5000);
    assert_int_equal(answer_to(call), -1);
    assert_int_equal(answer_to(never), -1);
    assert_non_null(attach(&one, false));
    shows_lock(LOCK, token, false);
    assert_non_null(shows(&one));
    obey();
    assert_int_equal(answer_to(opens(token, 1000)), OK); /* known to be in force, whoever is away */
    assert_non_null(attach(&two, false));
    assert_non_null(shows(&two));
    obey();
    assert_int_equal(answer_to(call), OK);
    assert_int_equal(answer_to(never), STALE_TOKEN);
}

static void who_has_no_patience_hears_that_it_is_not_known(void **state)
{
    (void)state;
    given_a_file();
    comes(&one);
    uint64_t token = locks(&one, LOCK, false);
    world_crash(&w);
    servers_come();
    uint64_t call = opens(token, 1000);
    world_advance(&w, 1000);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_non_null(reply);
    assert_int_equal(reply->error, UNAVAILABLE);
    assert_non_null(strstr(reply->error_text, "not all back"));
}

/* The session is over, and its token was never seen here: it will not come back. */
static void who_does_not_come_back_is_refused(void **state)
{
    (void)state;
    given_a_file();
    comes(&one);
    uint64_t token = locks(&one, LOCK, false);
    world_crash(&w);
    servers_come();
    uint64_t call = opens(token, 10000);
    world_advance(&w, 5000);
    for (size_t i = 0; i < 3; i++)
        assert_true(server_heartbeat(&w, &servers[i]));
    world_advance(&w, 5500);
    assert_true(answer_to(call) == STALE_TOKEN || answer_to(call) == UNAVAILABLE);
    assert_int_equal(answer_to(opens(token, 1000)), STALE_TOKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(an_owner_holds_its_lock_when_it_comes),
        STORY(a_lock_that_was_lost_before_it_was_used_admits_nobody),
        STORY(a_new_master_waits_for_the_session_that_may_hold_it),
        STORY(who_has_no_patience_hears_that_it_is_not_known),
        STORY(who_does_not_come_back_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
