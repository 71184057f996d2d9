/* Stories about primaries that live and are of no use to who wants them: when the master asks for
 * the lease back, and when it lets things be (INV-9). */
#include "tests/core/master/master_story.h"

static uint64_t chunk, version;
static struct server *primary;

static void waiting_file(const char *path)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.on_primary_loss = LEASEHOLD__ON_PRIMARY_LOSS__WAIT;
    const Leasehold__CreateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_CREATE, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    open_tail(path, 1000);
    chunk = obey(&primary);
    assert_int_not_equal(chunk, 0);
    version = 1;
    server_recovered(&w, primary, chunk, version);
}

static uint64_t lost_of(const char *path, uint64_t failed_chunk)
{
    Leasehold__OpenTailRequest r = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.failed_chunk = failed_chunk;
    r.failed_version = version;
    r.wait_ms = 100;
    return world_call(&w, LH_METHOD_OPEN_TAIL, &r);
}

static uint64_t lost(const char *path)
{
    return lost_of(path, chunk);
}

static bool recalled(void)
{
    return world_next(&w, primary->link, LEASEHOLD__SESSION_REPLY__BODY_RECALL) != NULL;
}

static void pass(uint64_t ms)
{
    for (uint64_t done = 0; done < ms; done += 500) {
        world_advance(&w, 500);
        for (size_t i = 0; i < SERVERS; i++)
            if (is_up(&servers[i]))
                server_heartbeat_active(
                    &w, &servers[i], chunk, &servers[i] == primary ? version : 0, &(bool){false});
    }
}

/* The primary lets go; the next one is the primary of this story. */
static void let_go(void)
{
    struct server *old = primary;

    server_release(&w, primary, chunk, version);
    open_tail("/f", 1000);
    assert_int_equal(obey(&primary), chunk);
    assert_ptr_not_equal(primary, old);
    version++;
    server_recovered(&w, primary, chunk, version);
}

static void a_primary_that_a_client_cannot_reach_is_asked_to_let_another(void **state)
{
    (void)state;
    three_up();
    waiting_file("/f");
    for (unsigned i = 0; i < 6; i++) {
        lost("/f");
        assert_false(recalled());
        pass(500);
    }
    lost("/f"); /* for three seconds now */
    assert_true(recalled());
    let_go();
}

static void words_that_are_few_or_far_between_move_nothing(void **state)
{
    (void)state;
    three_up();
    waiting_file("/f");
    for (unsigned i = 0; i < 10; i++) {
        lost("/f");
        assert_false(recalled());
        pass(10000);
    }
}

/* All chunks begin at version 1. A file that has gone on to the next one leaves clients behind
 * whose words are still about the last one. */
static void what_is_said_of_another_chunk_moves_nothing(void **state)
{
    (void)state;
    three_up();
    waiting_file("/f");
    for (unsigned i = 0; i < 12; i++) {
        lost_of("/f", chunk + 1);
        assert_false(recalled());
        pass(500);
    }
    for (unsigned i = 0; i < 6; i++) {
        lost("/f");
        assert_false(recalled()); /* only now does it begin to count */
        pass(500);
    }
    lost("/f");
    assert_true(recalled());
}

static void who_is_there_alone_is_not_asked(void **state)
{
    (void)state;
    three_up();
    waiting_file("/f");
    for (size_t i = 0; i < 3; i++)
        if (&servers[i] != primary)
            down(&servers[i]);
    for (unsigned i = 0; i < 20; i++) {
        lost("/f");
        assert_false(recalled());
        pass(500);
    }
}

static unsigned recalls_in(uint64_t ms)
{
    unsigned count = 0;

    for (uint64_t done = 0; done < ms; done += 500) {
        lost("/f");
        if (recalled()) {
            let_go();
            count++;
        }
        pass(500);
    }
    return count;
}

/* One client with a bad link cannot keep a chunk moving. */
static void a_file_that_was_moved_rests_for_ever_longer(void **state)
{
    (void)state;
    three_up();
    waiting_file("/f");
    assert_int_equal(recalls_in(5000), 1);
    assert_int_equal(recalls_in(55000), 0);
    assert_int_equal(recalls_in(10000), 1);
    assert_int_equal(recalls_in(100000), 0);
    assert_int_equal(recalls_in(3600000), 4); /* after 2, 4, 8 and 16 minutes */
}

/* The primary says that neither of the others answers. */
static void say_short(bool unsure, bool appends_wait)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__MemberFailed failed = LEASEHOLD__MEMBER_FAILED__INIT;
    char *others[] = {(char *)(uintptr_t)servers[primary == a ? 1 : 0].id,
        (char *)(uintptr_t)servers[primary == c ? 1 : 2].id};

    failed.session = primary->session;
    failed.chunk = chunk;
    failed.version = version;
    failed.n_server_ids = 2;
    failed.server_ids = others;
    failed.reason = (char *)(uintptr_t) "no answer";
    failed.appends_wait = appends_wait;
    failed.unsure = unsure;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_MEMBER_FAILED;
    request.member_failed = &failed;
    server_send(&w, primary, &request);
}

static void asked_after_three_seconds(bool unsure)
{
    three_up();
    waiting_file("/f");
    for (unsigned i = 0; i < 7; i++) {
        say_short(unsure, true);
        assert_int_equal(recalled(), i == 6);
        if (i < 6)
            pass(500);
    }
    let_go();
}

static void a_primary_that_cannot_reach_members_that_live_is_asked(void **state)
{
    (void)state;
    asked_after_three_seconds(false);
}

/* REC-2a: it waits for both of them, and the file would stand still for as long. */
static void likewise_one_that_is_not_sure_of_its_log(void **state)
{
    (void)state;
    asked_after_three_seconds(true);
}

/* INV-9: the file stands still for nobody. */
static void while_no_append_waits_a_primary_keeps_its_lease(void **state)
{
    (void)state;
    three_up();
    waiting_file("/f");
    for (unsigned i = 0; i < 40; i++) {
        say_short(i < 20, false);
        assert_false(recalled());
        pass(500);
    }
}

static void members_that_are_dead_are_no_cause(void **state)
{
    (void)state;
    three_up();
    waiting_file("/f");
    struct server *other = primary == a ? b : a;
    down(other);
    down(primary == c ? b : c);
    for (unsigned i = 0; i < 20; i++) {
        server_waits_for_member(&w, primary, chunk, version, other->id, true);
        assert_false(recalled());
        pass(500);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_primary_that_a_client_cannot_reach_is_asked_to_let_another),
        STORY(words_that_are_few_or_far_between_move_nothing),
        STORY(what_is_said_of_another_chunk_moves_nothing),
        STORY(who_is_there_alone_is_not_asked),
        STORY(a_file_that_was_moved_rests_for_ever_longer),
        STORY(a_primary_that_cannot_reach_members_that_live_is_asked),
        STORY(likewise_one_that_is_not_sure_of_its_log),
        STORY(while_no_append_waits_a_primary_keeps_its_lease),
        STORY(members_that_are_dead_are_no_cause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
