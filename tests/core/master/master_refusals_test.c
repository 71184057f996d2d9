/* Stories about grants that are refused: whom the lease is offered to next, and how often. */
#include "tests/core/master/master_story.h"

/* The server refuses; its replica has adopted that version. */
static void refuse(struct server *s, const Leasehold__Grant *grant, int error, uint64_t adopted)
{
    Leasehold__SessionRequest request = LEASEHOLD__SESSION_REQUEST__INIT;
    Leasehold__GrantConfirm confirm = LEASEHOLD__GRANT_CONFIRM__INIT;

    confirm.session = s->session;
    confirm.chunk = grant->chunk;
    confirm.version = grant->version;
    confirm.error = (Leasehold__ErrorCode)-error;
    confirm.adopted = adopted;
    request.body_case = LEASEHOLD__SESSION_REQUEST__BODY_CONFIRM;
    request.confirm = &confirm;
    server_send(&w, s, &request);
}

/* Everybody refuses what it is granted, for so long while somebody waits; how many grants. */
static unsigned refused_for(uint64_t ms, int error, uint64_t adopted)
{
    unsigned count = 0;

    for (uint64_t i = 0; i < ms; i++) {
        bool again = true;
        if (i % 5000 == 0)
            open_tail("/f", 5000);
        for (unsigned n = 0; again && n < 100; n++) { /* as fast as they can */
            again = false;
            for (size_t k = 0; k < SERVERS; k++) {
                const Leasehold__Grant *grant =
                    is_up(&servers[k]) ? server_grant(&w, &servers[k]) : NULL;
                if (grant == NULL)
                    continue;
                refuse(&servers[k], grant, error, adopted);
                count++;
                again = true;
            }
        }
        world_advance(&w, 1);
        if (i % HEARTBEAT_MS == 0)
            for (size_t k = 0; k < SERVERS; k++)
                if (is_up(&servers[k]))
                    server_heartbeat(&w, &servers[k]);
    }
    return count;
}

static uint64_t free_file(void)
{
    struct server *primary = NULL;

    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    heartbeats(12000); /* it was held for a while */
    server_release(&w, primary, chunk, 1);
    return chunk;
}

/* A chunk that nobody takes is offered to each member at once, and then ever more seldom. */
static void grants_that_all_refuse_do_not_storm(void **state)
{
    (void)state;
    free_file();
    unsigned count = refused_for(50000, LH_ERR_IO, 0);
    assert_in_range(count, 3, 40);
    assert_true(says(explain("/f", 0), "refused it"));
}

static void whoever_refuses_is_passed_over_at_once(void **state)
{
    const Leasehold__Grant *grant = NULL;

    (void)state;
    free_file();
    open_tail("/f", 5000);
    for (unsigned tries = 0; tries < 2; tries++) {
        struct server *s = NULL;
        for (size_t k = 0; k < 3 && s == NULL; k++)
            if ((grant = server_grant(&w, &servers[k])) != NULL)
                s = &servers[k];
        assert_non_null(s);
        refuse(s, grant, LH_ERR_IO, 0);
    }
    bool third = false;
    for (size_t k = 0; k < 3; k++)
        third = third || server_grant(&w, &servers[k]) != NULL;
    assert_true(third);
}

/* KEEP-4: what a replica has adopted above the record proves that the record is older. The next
 * grant goes above it. */
static void the_next_grant_goes_above_what_was_adopted(void **state)
{
    const Leasehold__Grant *grant = NULL;
    struct server *s = NULL;

    (void)state;
    uint64_t chunk = free_file();
    uint64_t call = open_tail("/f", 5000);
    for (size_t k = 0; k < 3 && s == NULL; k++)
        if ((grant = server_grant(&w, &servers[k])) != NULL)
            s = &servers[k];
    assert_non_null(s);
    refuse(s, grant, LH_ERR_STALE_VERSION, 1000);
    struct server *primary = NULL;
    assert_int_equal(obey(&primary), chunk);
    const Leasehold__OpenTailReply *reply = world_reply(&w, call);
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(reply->chunk->version, 1001);
    const Leasehold__GarbageReply *g = garbage(false);
    assert_false(g->deleting);
    assert_non_null(strstr(g->why_not, "version 1000 of chunk"));
}

/* No number is jumped to after which none are left; and the operator hears of it. */
static void a_version_that_makes_no_sense_is_not_jumped_to(void **state)
{
    (void)state;
    free_file();
    unsigned count = refused_for(50000, LH_ERR_STALE_VERSION, UINT64_MAX - 1);
    assert_in_range(count, 3, 40);
    const Leasehold__ExplainReply *reply = explain("/f", 0);
    assert_true(says(reply, "refused it"));
    assert_true(says(reply, "version 18446744073709551614"));
    assert_in_range(reply->chunk->chunk->version, 3, 50);
}

/* Taken, and given back at once, again and again. */
static void a_lease_that_is_given_back_at_once_rests_too(void **state)
{
    unsigned count = 0;

    (void)state;
    uint64_t chunk = free_file();
    for (unsigned i = 0; i < 50000; i++) {
        if (i % 5000 == 0)
            open_tail("/f", 5000);
        for (size_t k = 0; k < 3; k++) {
            const Leasehold__Grant *grant = server_grant(&w, &servers[k]);
            if (grant == NULL)
                continue;
            uint64_t version = grant->version;
            server_confirm(&w, &servers[k], chunk, version, LH_OK);
            server_release(&w, &servers[k], chunk, version);
            count++;
        }
        world_advance(&w, 1);
        if (i % HEARTBEAT_MS == 0)
            for (size_t k = 0; k < 3; k++)
                server_heartbeat(&w, &servers[k]);
    }
    assert_in_range(count, 3, 60);
}

/* Long enough for a sweep to have found that nothing goes on. */
#define A_WHILE_MS 200000u

static void who_gave_it_up_or_had_it_last_is_remembered_while_nothing_goes_on(void **state)
{
    struct server *first = NULL, *next = NULL, *last = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &first);
    heartbeats(12000);
    server_release(&w, first, chunk, 1);
    heartbeats(A_WHILE_MS);
    open_tail("/f", 1000);
    assert_int_equal(obey(&next), chunk);
    assert_ptr_not_equal(next, first);
    heartbeats(A_WHILE_MS); /* it runs out */
    assert_string_equal(state_of(chunk), "FREE");
    open_tail("/f", 1000);
    assert_int_equal(obey(&last), chunk);
    assert_ptr_equal(last, next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(grants_that_all_refuse_do_not_storm),
        STORY(whoever_refuses_is_passed_over_at_once),
        STORY(the_next_grant_goes_above_what_was_adopted),
        STORY(a_version_that_makes_no_sense_is_not_jumped_to),
        STORY(a_lease_that_is_given_back_at_once_rests_too),
        STORY(who_gave_it_up_or_had_it_last_is_remembered_while_nothing_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
