/* Stories about chunkservers that the master refuses: an operator sees them, and why. */
#include "tests/core/master/master_story.h"

#define STORE_1 "leasehold://chunkserver/a"
#define WRITER  "leasehold://writer/ingest"

static const Leasehold__ListServersReply *listed(void)
{
    Leasehold__ListServersRequest r = LEASEHOLD__LIST_SERVERS_REQUEST__INIT;
    const char *identity = w.identity;

    w.identity = NULL;
    const Leasehold__ListServersReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_SERVERS, &r));
    w.identity = identity;
    assert_non_null(reply);
    return reply;
}

static const Leasehold__RefusedServer *only_one(void)
{
    const Leasehold__ListServersReply *reply = listed();

    assert_int_equal(reply->n_refused, 1);
    return reply->refused[0];
}

static void tries(struct server *s, const char *identity, bool registers)
{
    w.identity = identity;
    s->registration++;
    assert_int_equal(server_register(&w, s), registers);
    w.identity = NULL;
}

static void a_name_that_its_certificate_has_not_is_shown(void **state)
{
    (void)state;
    tries(b, STORE_1, false);
    world_advance(&w, 1500);
    const Leasehold__RefusedServer *r = only_one();
    assert_string_equal(r->server_id, "b");
    assert_string_equal(r->address, "b:7401");
    assert_string_equal(r->peer, "peer");
    assert_string_equal(r->identity, STORE_1);
    assert_int_equal(r->error, LEASEHOLD__ERROR_CODE__PERMISSION);
    assert_non_null(strstr(r->error_text, "may not register as \"b\""));
    assert_int_equal(r->times, 1);
    assert_int_equal(r->ago_ms, 1500);

    tries(b, STORE_1, false);
    r = only_one();
    assert_int_equal(r->times, 2);
    assert_int_equal(r->ago_ms, 0);

    /* The certificate's own server is another one, elsewhere: nothing is mended. */
    tries(a, STORE_1, true);
    (void)only_one();
    tries(b, "leasehold://chunkserver/b", true);
    assert_int_equal(listed()->n_refused, 0);

    /* It takes the name that its certificate has. */
    c->address = "d:7401";
    tries(c, "leasehold://chunkserver/d", false);
    (void)only_one();
    tries(d, "leasehold://chunkserver/d", true);
    assert_int_equal(listed()->n_refused, 0);
}

static void who_has_no_role_is_shown_without_a_name(void **state)
{
    (void)state;
    w.identity = WRITER;
    assert_int_equal(world_end(&w, world_open_link(&w, LH_METHOD_SESSION)), LH_ERR_PERMISSION);
    assert_int_equal(world_end(&w, world_open_link(&w, LH_METHOD_SESSION)), LH_ERR_PERMISSION);
    w.identity = NULL;
    const Leasehold__RefusedServer *r = only_one();
    assert_string_equal(r->server_id, "");
    assert_string_equal(r->identity, WRITER);
    assert_string_equal(r->peer, "peer");
    assert_int_equal(r->times, 2);
}

static void every_reason_is_shown_until_the_server_registers(void **state)
{
    static const struct {
        const char *address, *cluster;
        uint64_t term;
        int error;
    } wrong[] = {
        {"127.0.0.1:1", "", 0, LH_ERR_INVALID_ARGUMENT},
        {"a:7401", "another", 0, LH_ERR_WRONG_IDENTITY},
        {"a:7401", "", 1000, LH_ERR_STALE_MASTER},
    };

    (void)state;
    w.config.refuse_loopback = true;
    world_crash(&w);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
        Leasehold__Register r = LEASEHOLD__REGISTER__INIT;
        r.server_id = (char *)(uintptr_t) "a";
        r.address = (char *)(uintptr_t)wrong[i].address;
        r.cluster_id = (char *)(uintptr_t)wrong[i].cluster;
        r.master_term_seen = wrong[i].term;
        r.incarnation = r.registration = 1;
        request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
        request.register_ = &r;
        world_message(&w, world_open_link(&w, LH_METHOD_SESSION), &request);
        const Leasehold__RefusedServer *last = listed()->refused[0];
        assert_int_equal(lh_error_from_wire(last->error), wrong[i].error);
        assert_string_equal(last->address, wrong[i].address);
    }
    /* A file that lacks servers says so, too. */
    make_file("/f");
    assert_true(says(explain("/f", 0), "has seen master term 1000"));

    tries(a, NULL, true);
    assert_int_equal(listed()->n_refused, 0);
}

static void so_many_are_kept_for_so_long(void **state)
{
    (void)state;
    w.config.refused_max = 2;
    w.config.refused_keep = lh_seconds(10);
    world_crash(&w);
    tries(b, STORE_1, false);
    tries(c, STORE_1, false);
    tries(b, STORE_1, false);
    world_advance(&w, 5000);
    tries(d, STORE_1, false); /* it was c whose last refusal was the oldest */
    const Leasehold__ListServersReply *reply = listed();
    assert_int_equal(reply->n_refused, 2);
    assert_string_equal(reply->refused[0]->server_id, "d");
    assert_string_equal(reply->refused[1]->server_id, "b");
    world_advance(&w, 5000);
    assert_string_equal(only_one()->server_id, "d");
    world_advance(&w, 5000);
    assert_int_equal(listed()->n_refused, 0);
    tries(d, STORE_1, false);
    assert_int_equal(only_one()->times, 1);
}

/* What is listed is UTF-8 and moves no cursor, whatever it was that was refused. */
static void texts_of_strangers_are_plain(void **state)
{
    static const char bad[] = "x\x1b[2J\xff";
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__Register r = LEASEHOLD__REGISTER__INIT;

    (void)state;
    r.server_id = r.address = r.cluster_id = (char *)(uintptr_t)bad;
    r.incarnation = r.registration = 1;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_REGISTER;
    request.register_ = &r;
    world_message(&w, world_open_link(&w, LH_METHOD_SESSION), &request);
    r.server_id = r.address = (char *)(uintptr_t) "x";
    world_message(&w, world_open_link(&w, LH_METHOD_SESSION), &request);
    const Leasehold__ListServersReply *reply = listed();
    assert_int_equal(reply->n_refused, 2);
    assert_string_equal(reply->refused[1]->server_id, "x\\x1b[2J\\xff");
    for (size_t i = 0; i < 2; i++)
        for (const char *at = reply->refused[i]->error_text; *at != '\0'; at++)
            assert_in_range(*at, 0x20, 0x7e);
}

static void one_more_than_there_may_be_is_refused_and_who_was_there_comes_back(void **state)
{
    (void)state;
    w.config.servers_max = 2;
    world_crash(&w);
    tries(a, NULL, true);
    tries(b, NULL, true);
    assert_int_equal(listed()->n_refused, 0);
    tries(c, NULL, false);
    const Leasehold__RefusedServer *r = only_one();
    assert_string_equal(r->server_id, "c");
    assert_int_equal(lh_error_from_wire(r->error), LH_ERR_NO_MEMORY);
    assert_non_null(strstr(r->error_text, "the limit of 2 chunkservers is reached"));
    tries(b, NULL, true);

    /* Also of a master that finds them in its store. */
    world_crash(&w);
    tries(d, NULL, false);
    tries(a, NULL, true);
    tries(b, NULL, true);
    w.config.servers_max = 3;
    world_crash(&w);
    tries(c, NULL, true);
    tries(d, NULL, false);
}

static void where_it_came_from_is_an_address_as_all_others(void **state)
{
    static const char *const peers[][2] = {{"ipv4:10.0.0.13:41486", "10.0.0.13:41486"},
        {"ipv6:%5B::1%5D:7", "[::1]:7"}, {"ipv6:[::1]:7", "[::1]:7"},
        {"ipv6:%5Bfe80::1%25eth0%5D:7", "[fe80::1%eth0]:7"}, {"unix:", "unix:"}, {"ipv6:%5", "%5"},
        {"ipv6:%", "%"}, {"ipv4:\x1b", "\\x1b"}, {"ipv6:%1b", "\\x1b"}};

    (void)state;
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        w.peer = peers[i][0];
        w.identity = WRITER;
        (void)world_end(&w, world_open_link(&w, LH_METHOD_SESSION));
        w.identity = NULL;
        assert_string_equal(only_one()->peer, peers[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_name_that_its_certificate_has_not_is_shown),
        STORY(who_has_no_role_is_shown_without_a_name),
        STORY(every_reason_is_shown_until_the_server_registers),
        STORY(so_many_are_kept_for_so_long),
        STORY(texts_of_strangers_are_plain),
        STORY(one_more_than_there_may_be_is_refused_and_who_was_there_comes_back),
        STORY(where_it_came_from_is_an_address_as_all_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
