/* Stories about who may do what at a master (ACC). */
#include "tests/core/master/values_story.h"

#define INGEST  "leasehold://writer/ingest"
#define WEB     "leasehold://reader/web"
#define OTHER   "leasehold://writer/other"
#define EVE     "leasehold://admin/eve"
#define STORE_1 "leasehold://chunkserver/cs1"

static struct lh_access *table;

/* The master starts with this table of roles. */
static void roles_are(const char *lines)
{
    char why[256];

    assert_int_equal(lh_access_parse(lines, strlen(lines), &table, why, sizeof why), LH_OK);
    w.config.access = table;
    world_crash(&w);
}

static int forget(void **state)
{
    tear_down(state);
    lh_access_free(table);
    table = NULL;
    return 0;
}

static void speaks(const char *identity)
{
    w.identity = identity;
}

static int created(const char *path)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    uint64_t link = world_call(&w, LH_METHOD_CREATE, &r);
    const Leasehold__CreateReply *reply = world_reply(&w, link);
    return reply == NULL ? world_end(&w, link) : lh_error_from_wire(reply->error);
}

static int stated(const char *path)
{
    Leasehold__StatRequest r = LEASEHOLD__STAT_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    uint64_t link = world_call(&w, LH_METHOD_STAT, &r);
    const Leasehold__StatReply *reply = world_reply(&w, link);
    return reply == NULL ? world_end(&w, link) : lh_error_from_wire(reply->error);
}

static void a_reader_changes_nothing(void **state)
{
    (void)state;
    speaks(WEB);
    assert_int_equal(created("/a"), LH_ERR_PERMISSION);
    speaks("");
    assert_int_equal(stated("/a"), LH_ERR_NOT_FOUND);
    speaks(WEB);
    assert_int_equal(stated("/a"), LH_ERR_NOT_FOUND);
    speaks("CN=somebody");
    assert_int_equal(stated("/a"), LH_ERR_PERMISSION);
}

static void a_file_is_reached_by_its_path_whoever_names_its_number(void **state)
{
    Leasehold__LocateRequest r = LEASEHOLD__LOCATE_REQUEST__INIT;

    (void)state;
    roles_are(INGEST " writer /mine/\n" WEB " reader /mine/");
    speaks(EVE);
    assert_int_equal(created("/theirs"), LH_OK);
    speaks(INGEST);
    assert_int_equal(created("/mine/a"), LH_OK);
    assert_int_equal(created("/other"), LH_ERR_PERMISSION);
    speaks(WEB);
    r.file = 1;
    uint64_t refused_call = world_call(&w, LH_METHOD_LOCATE, &r);
    assert_null(world_reply(&w, refused_call));
    assert_int_equal(world_end(&w, refused_call), LH_ERR_PERMISSION);
    r.file = 2;
    const Leasehold__LocateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_LOCATE, &r));
    assert_non_null(reply);
    assert_string_equal(reply->info->path, "/mine/a");
}

static void a_chunkserver_registers_under_its_own_name_alone(void **state)
{
    struct server cs1 = {.id = "cs1", .incarnation = 1, .registration = 1};
    struct server cs2 = {.id = "cs2", .incarnation = 1, .registration = 1};

    (void)state;
    speaks(STORE_1);
    assert_true(server_register(&w, &cs1));
    assert_false(server_register(&w, &cs2));
    speaks(INGEST);
    assert_int_equal(world_end(&w, world_open_link(&w, LH_METHOD_SESSION)), LH_ERR_PERMISSION);
}

static void a_program_is_refused_what_it_does_not_reach_and_keeps_its_session(void **state)
{
    (void)state;
    roles_are(INGEST " writer /mine/");
    speaks(INGEST);
    comes(&one);
    uint64_t request = asks(&one, "/theirs/lock", false);
    const Leasehold__Refused *no = refused(&one);
    assert_non_null(no);
    assert_int_equal(no->id, request);
    assert_int_equal(no->error, -LH_ERR_PERMISSION);
    assert_null(read_value(&one, "/theirs/value"));
    assert_int_equal(refused(&one)->error, -LH_ERR_PERMISSION);
    assert_true(locks(&one, "/mine/lock", false) > 0);
    assert_true(beat(&one));
}

static void a_reader_caches_and_does_not_lock(void **state)
{
    (void)state;
    speaks(INGEST);
    put_value("/v", "1");
    speaks(WEB);
    comes(&one);
    assert_true(cache_value(&one, "/v") > 0);
    asks(&one, "/v", true);
    assert_int_equal(refused(&one)->error, -LH_ERR_PERMISSION);
    uint64_t change = begin_put("/v", "2");
    assert_null(change_reply(change));
    assert_int_equal(world_end(&w, change), LH_ERR_PERMISSION);
}

/* Its id is no secret: listings show it. */
static void a_session_is_used_by_whoever_opened_it(void **state)
{
    (void)state;
    speaks(INGEST);
    comes(&one);
    speaks(OTHER);
    assert_null(attach(&one, false));
    assert_int_equal(world_end(&w, one.link), LH_ERR_PERMISSION);
    speaks(NULL);
    assert_null(attach(&one, false));

    world_crash(&w);
    one.stream = 0;
    speaks(OTHER);
    assert_null(attach(&one, false));
    speaks(INGEST);
    assert_non_null(attach(&one, false));
    assert_non_null(shows(&one));
}

static int attached_to(struct prog *p, const char *name)
{
    Leasehold__ChangeRequest r = change_to(name, "1");

    r.attach = (ProtobufCBinaryData){.data = p->id, .len = sizeof p->id};
    uint64_t change = begin_change(&r);
    const Leasehold__ChangeReply *reply = change_reply(change);
    return reply == NULL ? world_end(&w, change) : lh_error_from_wire(reply->error);
}

static void a_value_goes_with_a_session_of_whoever_puts_it(void **state)
{
    (void)state;
    speaks(INGEST);
    comes(&one);
    assert_int_equal(attached_to(&one, "/a"), LH_OK);
    speaks(OTHER);
    assert_int_equal(attached_to(&one, "/b"), LH_ERR_PERMISSION);
}

/* It asked while it had no stream: what it asked for is refused alone. */
static void a_request_that_is_shown_is_refused_as_if_it_were_asked(void **state)
{
    (void)state;
    roles_are(INGEST " writer /mine/");
    speaks(INGEST);
    comes(&one);
    uint64_t token = locks(&one, "/mine/lock", false);
    assert_non_null(attach(&one, false));
    shows_lock("/mine/lock", token, false);
    shows_request("/theirs/lock", 77, 0, false);
    shows_broadcast("/"); /* a revision, of which nobody learns anything */
    const Leasehold__Shown *shown = shows(&one);
    assert_non_null(shown);
    assert_int_equal(shown->n_lost, 0);
    const Leasehold__Refused *no = refused(&one);
    while (no != NULL && no->id != 77) /* nothing is broadcast there */
        no = refused(&one);
    assert_non_null(no);
    assert_int_equal(no->error, -LH_ERR_PERMISSION);
    assert_true(beat(&one));
}

/* The table has changed since: what the program has it cannot go on with. */
static void what_is_shown_is_looked_at_too(void **state)
{
    (void)state;
    speaks(INGEST);
    comes(&one);
    uint64_t token = locks(&one, "/theirs", false);
    roles_are(INGEST " writer /mine/");
    assert_non_null(attach(&one, false));
    shows_lock("/theirs", token, false);
    assert_null(shows(&one));
    assert_int_equal(world_end(&w, one.link), LH_ERR_PERMISSION);
    assert_non_null(attach(&one, false));
    assert_non_null(shows(&one));
}

int main(void)
{
#undef STORY
#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, forget)
    const struct CMUnitTest tests[] = {
        STORY(a_reader_changes_nothing),
        STORY(a_file_is_reached_by_its_path_whoever_names_its_number),
        STORY(a_chunkserver_registers_under_its_own_name_alone),
        STORY(a_program_is_refused_what_it_does_not_reach_and_keeps_its_session),
        STORY(a_reader_caches_and_does_not_lock),
        STORY(a_session_is_used_by_whoever_opened_it),
        STORY(a_value_goes_with_a_session_of_whoever_puts_it),
        STORY(a_request_that_is_shown_is_refused_as_if_it_were_asked),
        STORY(what_is_shown_is_looked_at_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
