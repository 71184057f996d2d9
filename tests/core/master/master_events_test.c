/* What ListEvents says of leases of chunks. */
#include "tests/core/master/master_story.h"

static const Leasehold__ListEventsReply *events_of(uint64_t chunk, const char *name, uint32_t limit)
{
    Leasehold__ListEventsRequest r = LEASEHOLD__LIST_EVENTS_REQUEST__INIT;

    r.chunk = chunk;
    r.name = (char *)(uintptr_t)name;
    r.limit = limit;
    const Leasehold__ListEventsReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_EVENTS, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    return reply;
}

/* The newest first. */
static void assert_events(uint64_t chunk, size_t count, const Leasehold__LeaseEventKind *kinds)
{
    const Leasehold__ListEventsReply *r = events_of(chunk, "", 0);

    assert_int_equal(r->n_events, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(r->events[i]->kind, kinds[i]);
    assert_false(r->more);
}

#define KIND(name) LEASEHOLD__LEASE_EVENT_KIND__LEASE_##name
#define ASSERT_EVENTS(chunk, ...)                                                                  \
    do {                                                                                           \
        const Leasehold__LeaseEventKind kinds_[] = {__VA_ARGS__};                                  \
        assert_events((chunk), sizeof kinds_ / sizeof *kinds_, kinds_);                            \
    } while (0)

static void a_grant_and_its_confirmation(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    world_advance(&w, 700);
    ASSERT_EVENTS(chunk, KIND(CONFIRMED), KIND(GRANTED));
    const Leasehold__LeaseEvent *e = events_of(chunk, "", 0)->events[1];
    assert_string_equal(e->holder, primary->id);
    assert_int_equal(e->version, 1);
    assert_int_equal(e->ago_ms, 700);
    assert_true(e->left_ms > 0);
    assert_int_equal(events_of(file_with_primary("/g", &primary), "", 0)->n_events, 2);
    assert_int_equal(events_of(chunk, "", 0)->n_events, 2);
}

static void renewals_are_counted_and_told_once(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    for (int i = 0; i < 3; i++) {
        heartbeats(HEARTBEAT_MS);
        assert_true(server_heartbeat_active(&w, primary, chunk, 1, NULL));
    }
    world_advance(&w, 5);
    ASSERT_EVENTS(chunk, KIND(RENEWED), KIND(CONFIRMED), KIND(GRANTED));
    const Leasehold__LeaseEvent *e = events_of(chunk, "", 0)->events[0];
    assert_int_equal(e->count, 3);
    assert_int_equal(e->ago_ms, 5);
    server_release(&w, primary, chunk, 1);
    ASSERT_EVENTS(chunk, KIND(RELEASED), KIND(RENEWED), KIND(CONFIRMED), KIND(GRANTED));
    assert_int_equal(events_of(chunk, "", 0)->events[1]->count, 3);
}

static void renewals_are_of_the_version_before_the_new_one(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    heartbeats(HEARTBEAT_MS);
    assert_true(server_heartbeat_active(&w, primary, chunk, 1, NULL));
    server_member_failed(&w, primary, chunk, 1, (primary == a ? b : a)->id);
    ASSERT_EVENTS(chunk, KIND(GRANTED), KIND(RENEWED), KIND(CONFIRMED), KIND(GRANTED));
    assert_int_equal(events_of(chunk, "", 0)->events[0]->version, 2);
    assert_int_equal(events_of(chunk, "", 0)->events[1]->version, 1);
}

static void a_holder_that_is_gone(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    down(primary);
    world_advance(&w, 60000);
    const Leasehold__ListEventsReply *r = events_of(chunk, "", 1);
    assert_int_equal(r->n_events, 1);
    assert_true(r->more);
    assert_int_equal(r->events[0]->kind, KIND(EXPIRED));
    assert_string_equal(r->events[0]->holder, primary->id);
}

/* ACC-3: no path says who may see them. */
static void a_chunk_that_is_not_there(void **state)
{
    Leasehold__ListEventsRequest r = LEASEHOLD__LIST_EVENTS_REQUEST__INIT;

    (void)state;
    three_up();
    r.chunk = 77;
    const Leasehold__ListEventsReply *reply =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_EVENTS, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    assert_int_equal(reply->n_events, 0);
}

static void explain_names_both_ends_of_the_term(void **state)
{
    struct server *primary = NULL;

    (void)state;
    three_up();
    uint64_t chunk = file_with_primary("/f", &primary);
    const Leasehold__ChunkState *now = explain("", chunk)->chunk;
    assert_true(now->holder_left_ms > 0);
    assert_true(now->holder_left_ms < now->lease_left_ms); /* TIME-4 */
    uint64_t before = now->lease_left_ms - now->holder_left_ms;
    world_advance(&w, 500);
    now = explain("", chunk)->chunk;
    assert_int_equal(now->lease_left_ms - now->holder_left_ms, before);
}

/* The oldest ones are forgotten, and nothing of others is shown for them. */
static void the_events_are_bounded(void **state)
{
    struct server *primary = NULL;

    (void)state;
    w.config.events_max = 4;
    world_crash(&w);
    three_up();
    uint64_t first = file_with_primary("/first", &primary);
    ASSERT_EVENTS(first, KIND(CONFIRMED), KIND(GRANTED));
    for (int i = 0; i < 3; i++) {
        char path[16];
        snprintf(path, sizeof path, "/f%d", i);
        uint64_t chunk = file_with_primary(path, &primary);
        const Leasehold__ListEventsReply *r = events_of(chunk, "", 0);
        assert_int_equal(r->n_events, 2);
        assert_int_equal(r->more, i > 0);
        assert_int_equal(r->events[0]->kind, KIND(CONFIRMED));
        assert_int_equal(r->events[1]->kind, KIND(GRANTED));
    }
    assert_int_equal(events_of(first, "", 0)->n_events, 0);
    assert_true(events_of(first, "", 0)->more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_grant_and_its_confirmation),
        STORY(renewals_are_counted_and_told_once),
        STORY(renewals_are_of_the_version_before_the_new_one),
        STORY(a_holder_that_is_gone),
        STORY(a_chunk_that_is_not_there),
        STORY(explain_names_both_ends_of_the_term),
        STORY(the_events_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
