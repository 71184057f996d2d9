/* SES-8: nothing is placed at a chunkserver that was not heard at the address that it gave. */
#include "tests/core/master/master_story.h"

static struct server *const all[] = {a, b, c, d};

static void identify_all(void)
{
    for (size_t i = 0; i < SERVERS; i++)
        servers[i].identifies = true;
}

/* The server answers at its address. */
static void heard(const struct server *s)
{
    char address[64];

    snprintf(address, sizeof address, "%s:7401", s->id);
    world_identify(&w, world_called(&w, s->address != NULL ? s->address : address), s->id,
        s->process != 0 ? s->process : s->incarnation);
}

static const Leasehold__ServerInfo *info_of(const struct server *s)
{
    Leasehold__ListServersRequest r = LEASEHOLD__LIST_SERVERS_REQUEST__INIT;
    const Leasehold__ListServersReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_SERVERS, &r));

    for (size_t i = 0; i < reply->n_servers; i++)
        if (strcmp(reply->servers[i]->server_id, s->id) == 0)
            return reply->servers[i];
    fail_msg("no such server: %s", s->id);
    return NULL;
}

static const Leasehold__SessionReply *next(struct server *s, Leasehold__SessionReply__BodyCase body)
{
    return world_next(&w, s->link, body);
}

static bool is_placed_at(struct server *s)
{
    return next(s, LEASEHOLD__SESSION_REPLY__BODY_CREATE) != NULL;
}

/* Three servers that were heard, and one that is called. */
static void three_heard_and_one_called(void)
{
    identify_all();
    for (size_t i = 0; i < 4; i++)
        up(all[i]);
    for (size_t i = 0; i < 3; i++)
        heard(all[i]);
}

static void nothing_is_placed_at_a_server_that_was_not_heard(void **state)
{
    (void)state;
    three_heard_and_one_called();
    assert_int_not_equal(world_called(&w, "d:7401"), 0);

    /* It is called, refuses to be, is silent: it makes no difference. */
    for (unsigned i = 0; i < 8; i++) {
        char path[16];
        snprintf(path, sizeof path, "/f%u", i);
        make_file(path);
        open_tail(path, 1000);
        assert_false(is_placed_at(d));
        if (i == 4)
            world_call_fails(&w, world_called(&w, "d:7401"), LH_ERR_UNAVAILABLE);
    }
    assert_true(is_placed_at(a) && is_placed_at(b) && is_placed_at(c));
    assert_non_null(strstr(info_of(d)->unheard, "d:7401"));
    assert_string_equal(info_of(a)->unheard, "");
}

static void it_is_called_again_and_used_once_it_was_heard(void **state)
{
    (void)state;
    three_heard_and_one_called();
    world_call_fails(&w, world_called(&w, "d:7401"), LH_ERR_UNAVAILABLE);
    assert_int_equal(world_called(&w, "d:7401"), 0);

    /* After a second, then two, then four ... */
    for (uint64_t pause = 1000; pause <= 4000; pause *= 2) {
        world_advance(&w, pause - 100);
        assert_int_equal(world_called(&w, "d:7401"), 0);
        world_advance(&w, 100);
        world_call_fails(&w, world_called(&w, "d:7401"), LH_ERR_UNAVAILABLE);
        for (size_t i = 0; i < 4; i++)
            assert_true(server_heartbeat(&w, all[i]));
    }
    world_advance(&w, 8000);
    heard(d);
    for (size_t i = 0; i < 4; i++)
        assert_true(server_heartbeat(&w, all[i]));
    a->free_bytes = b->free_bytes = c->free_bytes = 1u << 21;
    for (size_t i = 0; i < 4; i++)
        assert_true(server_heartbeat(&w, all[i]));
    make_file("/f");
    open_tail("/f", 1000);
    assert_true(is_placed_at(d));
    assert_string_equal(info_of(d)->unheard, "");
}

static void an_address_that_leads_to_another_server_is_not_its_own(void **state)
{
    (void)state;
    d->address = "a:7401";
    three_heard_and_one_called();
    world_identify(&w, world_called(&w, "a:7401"), "a", 1);
    assert_non_null(strstr(info_of(d)->unheard, "\"a\" answers there"));
    make_file("/f");
    open_tail("/f", 1000);
    assert_false(is_placed_at(d));

    /* A former process of its own, at a machine that it was moved from, is no better. */
    d->address = "old:7401";
    d->registration++;
    assert_true(server_register(&w, d));
    world_identify(&w, world_called(&w, "old:7401"), "d", 77);
    assert_non_null(strstr(info_of(d)->unheard, "another process"));
    assert_true(server_heartbeat(&w, d));
    make_file("/g");
    open_tail("/g", 1000);
    assert_false(is_placed_at(d));
}

static void a_file_waits_for_servers_that_are_being_called(void **state)
{
    (void)state;
    identify_all();
    three_up();
    make_file("/f");
    open_tail("/f", 5000);
    assert_false(is_placed_at(a) || is_placed_at(b) || is_placed_at(c));

    heard(a);
    heard(b);
    heard(c);
    assert_true(is_placed_at(a) && is_placed_at(b) && is_placed_at(c));
}

static void what_was_heard_outlives_the_master(void **state)
{
    (void)state;
    three_heard_and_one_called();
    world_call_fails(&w, world_called(&w, "d:7401"), LH_ERR_UNAVAILABLE);

    /* The same processes at the same addresses: those that were heard are not even called. */
    crash();
    for (size_t i = 0; i < 4; i++) {
        all[i]->registration++;
        up(all[i]);
    }
    assert_int_equal(world_called(&w, "a:7401"), 0);
    assert_int_not_equal(world_called(&w, "d:7401"), 0);
    make_file("/f");
    open_tail("/f", 1000);
    assert_true(is_placed_at(a) && is_placed_at(b) && is_placed_at(c));
    assert_false(is_placed_at(d));
}

static void a_new_process_is_used_while_it_is_called(void **state)
{
    (void)state;
    three_heard_and_one_called();
    heard(d);
    down(c);
    c->incarnation++;
    up(c);
    a->free_bytes = 1u << 19;
    assert_true(server_heartbeat(&w, a));
    make_file("/f");
    open_tail("/f", 1000);
    assert_true(is_placed_at(c));

    /* If it does not answer where the one before did, it is not used any more. */
    world_call_fails(&w, world_called(&w, "c:7401"), LH_ERR_DEADLINE_EXCEEDED);
    make_file("/g");
    open_tail("/g", 1000);
    assert_false(is_placed_at(c));

    /* And with another address it is not before. */
    down(d);
    d->incarnation++;
    d->address = "e:7401";
    up(d);
    assert_int_not_equal(world_called(&w, "e:7401"), 0);
    world_drop_lines(&w);
    make_file("/h");
    open_tail("/h", 1000);
    assert_false(is_placed_at(d));
}

static void a_server_that_a_primary_does_not_reach_is_called_again(void **state)
{
    struct server *primary;

    (void)state;
    three_heard_and_one_called();
    uint64_t chunk = file_with_primary("/f", &primary);
    struct server *member = primary == a ? b : a;
    char address[16];
    snprintf(address, sizeof address, "%s:7401", member->id);
    heartbeats(HEARTBEAT_MS);
    server_member_failed(&w, primary, chunk, 1, member->id);
    assert_int_equal(obey(&primary), chunk);
    world_call_fails(&w, world_called(&w, address), LH_ERR_DEADLINE_EXCEEDED);
    assert_non_null(strstr(info_of(member)->unheard, address));

    /* It is no copy's target, and takes no lease, as long as that lasts. */
    heartbeats(20000);
    assert_null(next(member, LEASEHOLD__SESSION_REPLY__BODY_COPY));
    world_call_fails(&w, world_called(&w, address), LH_ERR_DEADLINE_EXCEEDED);
    world_advance(&w, 2000);
    heard(member);
    heartbeats(20000);
    assert_non_null(next(member, LEASEHOLD__SESSION_REPLY__BODY_COPY));
}

static void a_lease_goes_to_a_member_that_was_heard(void **state)
{
    struct server *primary;

    (void)state;
    three_heard_and_one_called();
    uint64_t chunk = file_with_primary("/f", &primary);
    for (size_t i = 0; i < 3; i++) {
        if (all[i] == primary)
            continue;
        server_member_failed(&w, primary, 1000, 1, all[i]->id); /* says nothing */
    }
    /* All but one start again, and are not heard where they are now. */
    for (size_t i = 0; i < 3; i++) {
        Leasehold__ReplicaReport report = report_of(chunk, 1, false);
        if (all[i] == b)
            continue;
        all[i]->process = 50;
        all[i]->address = "nowhere:1";
        come_with(all[i], &report, 1);
    }
    if (primary == b)
        server_release(&w, b, chunk, 1);
    open_tail("/f", 1000);
    assert_non_null(server_grant(&w, b));
}

static void a_join_that_fails_rests(void **state)
{
    struct server *primary;

    (void)state;
    three_heard_and_one_called();
    world_call_fails(&w, world_called(&w, "d:7401"), LH_ERR_UNAVAILABLE);
    uint64_t chunk = file_with_primary("/f", &primary);
    struct server *member = primary == a ? b : a;
    uint64_t version = 1;

    server_member_failed(&w, primary, chunk, version, member->id);
    /* The master hears it, and the primary does not: it is copied to, joins, is left out again. */
    for (unsigned second = 0; second < 300; second++) {
        const Leasehold__SessionReply *r;
        uint64_t call;
        world_advance(&w, 1000);
        for (size_t i = 0; i < 3; i++)
            assert_true(server_heartbeat_active(&w, all[i], chunk, version, &(bool){false}));
        while ((call = world_called(&w, "a:7401")) != 0)
            world_identify(&w, call, "a", 1);
        while ((call = world_called(&w, "b:7401")) != 0)
            world_identify(&w, call, "b", 1);
        while ((r = next(primary, LEASEHOLD__SESSION_REPLY__BODY_GRANT)) != NULL) {
            version = r->grant->version;
            server_confirm(&w, primary, chunk, version, LH_OK);
            if (r->grant->n_members == 3) {
                server_member_failed(&w, primary, chunk, version, member->id);
                continue;
            }
            server_recovered(&w, primary, chunk, version);
        }
        while ((r = next(member, LEASEHOLD__SESSION_REPLY__BODY_COPY)) != NULL)
            server_copied(&w, member, chunk, r->copy->version);
    }
    /* Two versions each time: 1, 2, 4 ... 64 s between them. */
    assert_in_range(version, 10, 24);
}

static void a_loopback_is_refused_where_it_leads_elsewhere(void **state)
{
    (void)state;
    w.config.refuse_loopback = true;
    world_crash(&w);
    static const char *const addresses[] = {
        "127.0.0.1:7500", "localhost:7500", "LocalHost:7500", "127.9.9.9:1", "[::1]:7500"};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        a->address = addresses[i];
        a->registration++;
        assert_false(server_register(&w, a));
        a->link = 0;
    }
    a->address = "10.0.0.1:7500";
    a->registration++;
    assert_true(server_register(&w, a));
    b->address = "127.example.org:7500"; /* nobody's name begins so, and it is refused as well */
    assert_false(server_register(&w, b));

    w.config.refuse_loopback = false;
    crash();
    a->address = "127.0.0.1:7500";
    a->registration++;
    assert_true(server_register(&w, a));
}

static void so_many_are_called_at_a_time(void **state)
{
    (void)state;
    w.config.reach_calls = 2;
    world_crash(&w);
    identify_all();
    for (size_t i = 0; i < 4; i++)
        up(all[i]);
    assert_int_not_equal(world_called(&w, "a:7401"), 0);
    assert_int_not_equal(world_called(&w, "b:7401"), 0);
    assert_int_equal(world_called(&w, "c:7401"), 0);
    heard(b);
    assert_int_not_equal(world_called(&w, "c:7401"), 0);
    assert_int_equal(world_called(&w, "d:7401"), 0);

    /* One whose session ends makes way. */
    a->registration++;
    a->identifies = false;
    assert_true(server_register(&w, a));
    assert_int_not_equal(world_called(&w, "d:7401"), 0);
    heard(c);
    heard(d);
    world_stop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(nothing_is_placed_at_a_server_that_was_not_heard),
        STORY(it_is_called_again_and_used_once_it_was_heard),
        STORY(an_address_that_leads_to_another_server_is_not_its_own),
        STORY(a_file_waits_for_servers_that_are_being_called),
        STORY(what_was_heard_outlives_the_master),
        STORY(a_new_process_is_used_while_it_is_called),
        STORY(a_server_that_a_primary_does_not_reach_is_called_again),
        STORY(a_lease_goes_to_a_member_that_was_heard),
        STORY(a_join_that_fails_rests),
        STORY(a_loopback_is_refused_where_it_leads_elsewhere),
        STORY(so_many_are_called_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
