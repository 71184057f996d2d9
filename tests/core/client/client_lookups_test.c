/* Files that are opened from memory (VAL-7): which file has a path is cached under leases of
 * a session of the core's own. */
#include "tests/core/client/lease_world.h"

#include <stdio.h>

static struct world w;
static struct stage s; /* of that session */
static struct lh_appender_open_call opening;
static uint8_t bytes[128];

#define FOUR_MIB (4u << 20)

static void given_lookups_with(struct lh_client_config config)
{
    config.masters = (const char *[]){"m1:1"};
    config.master_count = 1;
    if (config.lookups_max == 0)
        config.lookups_max = 100;
    config.lookups_host = "h1";
    config.lookups_process = "4711 logger";
    s = (struct stage){.w = &w};
    world_init_with(&w, config);
}

static void begin_open(const char *path)
{
    opening = (struct lh_appender_open_call){.call.kind = LH_CALL_APPENDER_OPEN,
        .path = path,
        .deadline = in_ms(&w, 20000),
        .give_up = lh_seconds(60)};
    ask(&w, &opening);
}

static void close_opened(void)
{
    struct lh_appender_close_call close = {
        .call.kind = LH_CALL_APPENDER_CLOSE, .appender = opening.appender};

    ask(&w, &close);
    expect_complete(&w, &close, LH_OK);
}

static void say_file(uint64_t link, uint64_t file)
{
    Leasehold__FileInfo info = file_info();
    Leasehold__StatReply m = LEASEHOLD__STAT_REPLY__INIT;

    info.file = file;
    m.info = &info;
    say(&w, link, &m);
}

static void expect_opened(uint64_t file, bool from_cache)
{
    expect_complete(&w, &opening, LH_OK);
    assert_int_equal(opening.file, file);
    assert_int_equal(opening.from_cache, from_cache);
    assert_true(opening.chunk_size > 0);
    close_opened();
}

/* Asked by Stat, with nothing beside it. */
static void opens_by_stat(const char *path, uint64_t file)
{
    begin_open(path);
    say_file(expect_request(&w, LH_METHOD_STAT, "m1:1", NULL), file);
    expect_opened(file, false);
}

/* The read of the path; its id. */
static uint64_t expect_lookup(const char *name, uint64_t has)
{
    const Leasehold__ReadValue *m = expect_op(&s, LEASEHOLD__LEASE_OP__OP_READ)->read;

    assert_string_equal(m->name, name);
    assert_int_equal(m->revision, has);
    assert_true(m->lease);
    return m->id;
}

/* Asked by Stat, and beside that on the session's stream: the id of that. */
static uint64_t opens_and_looks_up(const char *path, uint64_t file, uint64_t has)
{
    char name[64];

    begin_open(path);
    uint64_t link = expect_request(&w, LH_METHOD_STAT, "m1:1", NULL);
    snprintf(name, sizeof name, ":%s", path);
    uint64_t id = expect_lookup(name, has);
    say_sent(&w, s.link);
    say_file(link, file);
    expect_opened(file, false);
    return id;
}

static Leasehold__ValueRead looked_up(uint64_t id, uint64_t file)
{
    Leasehold__ValueRead m = LEASEHOLD__VALUE_READ__INIT;
    Leasehold__FileInfo info = LEASEHOLD__FILE_INFO__INIT;

    info.file = file;
    info.chunk_size = FOUR_MIB;
    m.id = id;
    m.revision = file;
    m.value.len = leasehold__file_info__pack(&info, bytes);
    m.value.data = bytes;
    m.leased = true;
    m.stamp = s.stamp;
    m.term_ns = UINT64_C(600000000000);
    return m;
}

static void say_read(Leasehold__ValueRead m)
{
    say_one(&s, answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_VALUE, &m));
}

/* The session is up, and "/f" is remembered as file 7. */
static void given_known_file_with(struct lh_client_config config)
{
    given_lookups_with(config);
    begin_open("/f");
    expect_attach(&s, "m1:1");
    say_file(expect_request(&w, LH_METHOD_STAT, "m1:1", NULL), 7);
    expect_opened(7, false);
    say_greeting(&s, 3);
    expect_show(&s);
    say_shown(&s);
    say_read(looked_up(opens_and_looks_up("/f", 7, 0), 7));
    expect_quiet(&w);
}

static void given_known_file(void)
{
    given_known_file_with((struct lh_client_config){0});
}

static void opens_from_memory(const char *path, uint64_t file)
{
    begin_open(path);
    expect_opened(file, true);
    expect_quiet(&w);
}

/* ---- */

static void without_the_option_there_is_no_session(void **state)
{
    (void)state;
    given_lookups_with((struct lh_client_config){0});
    world_deinit(&w);
    world_init_with(
        &w, (struct lh_client_config){.masters = (const char *[]){"m1:1"}, .master_count = 1});
    opens_by_stat("/f", 7);
    opens_by_stat("/f", 7);
    expect_quiet(&w);
    world_deinit(&w);
}

static void the_first_opening_begins_a_session_and_does_not_wait_for_it(void **state)
{
    (void)state;
    given_lookups_with((struct lh_client_config){0});
    begin_open("/f");
    const Leasehold__Attach *a = expect_attach(&s, "m1:1");
    assert_true(a->opens && a->lookups);
    assert_string_equal(a->label, "lookups of files");
    assert_string_equal(a->process, "4711 logger");
    say_file(expect_request(&w, LH_METHOD_STAT, "m1:1", NULL), 7);
    expect_opened(7, false);
    opens_by_stat("/f", 7); /* still not greeted */
    say_greeting(&s, 3);
    expect_show(&s);
    say_shown(&s);
    opens_and_looks_up("/f", 7, 0);
    world_deinit(&w);
}

static void a_file_that_is_remembered_is_opened_without_a_message(void **state)
{
    struct lh_reader_open_call reader = {
        .call.kind = LH_CALL_READER_OPEN, .path = "/f", .readahead = 8u << 20};
    const Leasehold__LocateRequest *m;

    (void)state;
    given_known_file();
    opens_from_memory("/f", 7);
    reader.deadline = in_ms(&w, 1000);
    ask(&w, &reader);
    expect_complete(&w, &reader, LH_OK);
    assert_true(reader.from_cache && reader.file == 7);
    expect_request(&w, LH_METHOD_LOCATE, "m1:1", &m);
    assert_int_equal(m->file, 7);
    world_deinit(&w);
}

/* A reader of "/f" at that offset, from memory. */
static struct lh_reader_open_call given_reader(uint64_t offset)
{
    struct lh_reader_open_call call = {
        .call.kind = LH_CALL_READER_OPEN, .path = "/f", .offset = offset, .readahead = 8u << 20};

    call.deadline = in_ms(&w, 1000);
    ask(&w, &call);
    expect_complete(&w, &call, LH_OK);
    assert_true(call.from_cache);
    return call;
}

/* What was under way is not looked at. */
static void close_reader(struct lh_reader_open_call *open)
{
    struct lh_reader_close_call close = {.call.kind = LH_CALL_READER_CLOSE, .reader = open->reader};

    ask(&w, &close);
    while (w.count - w.taken > 1)
        take(&w, w.events[w.taken].kind);
    expect_complete(&w, &close, LH_OK);
}

static uint64_t expect_locate(uint64_t offset)
{
    const Leasehold__LocateRequest *m = NULL;
    uint64_t link = expect_request(&w, LH_METHOD_LOCATE, "m1:1", &m);

    assert_int_equal(m->file, 7);
    assert_int_equal(m->offset, offset);
    return link;
}

static uint64_t expect_read_of(uint64_t chunk, uint64_t offset)
{
    struct event *e = take(&w, LH_FX_OPEN);
    uint64_t link = e->link;

    assert_int_equal(e->method, LH_METHOD_READ);
    const Leasehold__ReadRequest *m = expect_send(&w, link);
    assert_int_equal(m->chunk, chunk);
    assert_int_equal(m->offset, offset);
    return link;
}

/* "/f" has the sealed chunks 11 and 12 of 1000 bytes and the tail 13, and all are remembered. */
static void given_known_chunks(void)
{
    Leasehold__ChunkInfo chunks[] = {
        sealed_chunk(11, 1, 0, 1000), sealed_chunk(12, 1, 1000, 1000), open_chunk(13, 1, 2000, 0)};

    given_known_file();
    struct lh_reader_open_call first = given_reader(0);
    say_chunks(&w, expect_locate(0), chunks, 3);
    close_reader(&first);
}

static void a_reader_begins_with_chunks_that_are_remembered(void **state)
{
    (void)state;
    given_known_chunks();
    struct lh_reader_open_call r = given_reader(1500);
    expect_read_of(12, 500);
    close_reader(&r);
    r = given_reader(2500);
    expect_read_of(13, 500);
    close_reader(&r);
    world_deinit(&w);
}

/* APP-6: a primary has nothing more, and the master says that this is the tail. */
static void where_the_end_is_is_asked_all_the_same(void **state)
{
    Leasehold__ChunkInfo tail = open_chunk(13, 1, 2000, 0);
    Leasehold__ReadReply nothing = LEASEHOLD__READ_REPLY__INIT;
    struct lh_fetch_call fetch = {.call.kind = LH_CALL_FETCH};

    (void)state;
    given_known_chunks();
    struct lh_reader_open_call r = given_reader(2500);
    nothing.committed = 500;
    nothing.primary = true;
    say(&w, expect_read_of(13, 500), &nothing); /* before somebody wanted to know */
    fetch.reader = r.reader;
    fetch.deadline = in_ms(&w, 20000);
    ask(&w, &fetch);
    say(&w, expect_read_of(13, 500), &nothing);
    say_chunks(&w, expect_locate(2500), &tail, 1);
    expect_complete(&w, &fetch, LH_ERR_CLOSED);
    close_reader(&r);
    r = given_reader(500); /* the others are remembered still */
    expect_read_of(11, 500);
    close_reader(&r);
    world_deinit(&w);
}

static void a_tail_that_was_sealed_is_begun_with_only_once(void **state)
{
    Leasehold__ReadReply sealed = LEASEHOLD__READ_REPLY__INIT;
    Leasehold__ChunkInfo next = open_chunk(14, 1, 2500, 0);
    struct lh_fetch_call fetch = {.call.kind = LH_CALL_FETCH};

    (void)state;
    given_known_chunks();
    struct lh_reader_open_call r = given_reader(2500);
    fetch.reader = r.reader;
    fetch.deadline = in_ms(&w, 20000);
    uint64_t read = expect_read_of(13, 500);
    ask(&w, &fetch);
    sealed.committed = 500;
    sealed.sealed = true;
    say(&w, read, &sealed);
    say_chunks(&w, expect_locate(2500), &next, 1);
    expect_read_of(14, 0);
    close_reader(&r);
    world_deinit(&w);
}

static void a_reader_beyond_what_is_remembered_asks(void **state)
{
    Leasehold__ChunkInfo chunks[] = {sealed_chunk(11, 1, 0, 1000)};

    (void)state;
    given_known_file();
    struct lh_reader_open_call r = given_reader(0);
    say_chunks(&w, expect_locate(0), chunks, 1);
    close_reader(&r);
    r = given_reader(1000);
    expect_locate(1000);
    close_reader(&r);
    world_deinit(&w);
}

static void chunks_are_forgotten_with_the_stream(void **state)
{
    (void)state;
    given_known_chunks();
    break_link(&w, s.link);
    pass(&w);
    expect_attach(&s, "m1:1");
    say_greeting(&s, 4);
    expect_show(&s);
    Leasehold__Shown shown = shown_reply(&s);
    shown.values_term_ns = UINT64_C(600000000000);
    say_shown_with(&s, shown);
    struct lh_reader_open_call r = given_reader(0);
    expect_locate(0);
    close_reader(&r);
    world_deinit(&w);
}

/* TOK-2. */
static void an_exclusive_appender_always_asks(void **state)
{
    const Leasehold__OpenTailRequest *m;

    (void)state;
    given_known_file();
    opening = (struct lh_appender_open_call){.call.kind = LH_CALL_APPENDER_OPEN,
        .path = "/f",
        .lock_name = "/l",
        .token = 5,
        .deadline = in_ms(&w, 20000)};
    ask(&w, &opening);
    expect_request(&w, LH_METHOD_OPEN_TAIL, "m1:1", &m);
    assert_string_equal(m->path, "/f");
    assert_int_equal(m->file, 0);
    world_deinit(&w);
}

static void a_path_that_was_dropped_is_asked_for_again(void **state)
{
    Leasehold__Drop drop = LEASEHOLD__DROP__INIT;

    (void)state;
    given_known_file();
    drop.name = ":/f";
    drop.change = 9;
    say_one(&s, answer_of(LEASEHOLD__LEASE_ANSWER__ANSWER_DROP, &drop));
    const Leasehold__Dropped *d = expect_op(&s, LEASEHOLD__LEASE_OP__OP_DROPPED)->dropped;
    assert_string_equal(d->name, ":/f");
    assert_int_equal(d->change, 9);
    say_sent(&w, s.link);
    /* While it changes it is not remembered. */
    Leasehold__ValueRead m = looked_up(opens_and_looks_up("/f", 7, 0), 7);
    m.leased = false;
    m.changing = 9;
    m.term_ns = 0;
    say_read(m);
    say_read(looked_up(opens_and_looks_up("/f", 8, 0), 8));
    opens_from_memory("/f", 8);
    world_deinit(&w);
}

/* VAL-2: the change waits for that. */
static void a_path_that_changes_is_remembered_for_as_long_as_is_promised(void **state)
{
    (void)state;
    given_known_file();
    Leasehold__ValueRead m = looked_up(opens_and_looks_up("/p", 7, 0), 7);
    m.leased = false;
    m.changing = 9;
    say_read(m);
    opens_from_memory("/p", 7);
    world_deinit(&w);
}

static void a_path_without_a_file_is_not_remembered(void **state)
{
    Leasehold__StatReply stat = LEASEHOLD__STAT_REPLY__INIT;
    Leasehold__ValueRead m = LEASEHOLD__VALUE_READ__INIT;

    (void)state;
    given_known_file();
    stat.error = m.error = LEASEHOLD__ERROR_CODE__NOT_FOUND;
    for (unsigned i = 0; i < 2; i++) {
        begin_open("/g");
        uint64_t link = expect_request(&w, LH_METHOD_STAT, "m1:1", NULL);
        m.id = expect_lookup(":/g", 0);
        say_sent(&w, s.link);
        say(&w, link, &stat);
        expect_complete(&w, &opening, LH_ERR_NOT_FOUND);
        say_read(m);
    }
    world_deinit(&w);
}

static void an_answer_that_makes_no_sense_is_not_believed(void **state)
{
    (void)state;
    given_known_file();
    for (unsigned i = 0; i < 3; i++) {
        Leasehold__ValueRead m = looked_up(opens_and_looks_up("/g", 8, i == 2 ? 9 : 0), 8);
        if (i == 0)
            m.leased = false;
        else if (i == 1)
            m.revision = 9;
        say_read(m);
    }
    opens_from_memory("/g", 8);
    world_deinit(&w);
}

static void a_lease_is_renewed_in_its_last_third(void **state)
{
    (void)state;
    given_known_file();
    Leasehold__ValueRead m = looked_up(opens_and_looks_up("/g", 8, 0), 8);
    m.term_ns = UINT64_C(3000000000);
    say_read(m);
    pass_ms(&w, 2500);
    begin_open("/g");
    expect_complete(&w, &opening, LH_OK);
    assert_true(opening.from_cache);
    m = looked_up(expect_lookup(":/g", 8), 8);
    say_sent(&w, s.link);
    m.same = true;
    m.value.len = 0;
    say_read(m);
    pass_ms(&w, 1000); /* beyond the first term */
    expect_beat(&s);
    opens_from_memory("/g", 8);
    world_deinit(&w);
}

/* TIME-5. */
static void nothing_is_served_after_the_sessions_term(void **state)
{
    (void)state;
    given_known_file();
    w.now = in_ms(&w, TERM_MS); /* no timer has fired */
    begin_open("/f");
    while (w.events[w.taken].kind != LH_FX_OPEN || w.events[w.taken].method != LH_METHOD_STAT) {
        assert_int_not_equal(w.events[w.taken].kind, LH_FX_COMPLETE);
        take(&w, w.events[w.taken].kind);
    }
    say_file(expect_request(&w, LH_METHOD_STAT, "m1:1", NULL), 8);
    world_deinit(&w);
}

static void after_a_lost_session_another_one_is_opened(void **state)
{
    (void)state;
    given_known_file();
    Leasehold__BeatReply beat = LEASEHOLD__BEAT_REPLY__INIT;
    beat.error = LEASEHOLD__ERROR_CODE__UNKNOWN_SESSION;
    pass_ms(&w, BEAT_MS);
    expect_beat(&s);
    say_beat_with(&s, beat);
    expect_close(&w, s.link);
    opens_by_stat("/f", 8); /* closes what was lost */
    begin_open("/f");
    const Leasehold__Attach *a = expect_attach(&s, "m1:1");
    assert_true(a->opens && a->lookups);
    world_deinit(&w);
}

static void what_is_remembered_is_shown_to_the_next_master(void **state)
{
    (void)state;
    given_known_file();
    break_link(&w, s.link);
    pass(&w);
    assert_false(expect_attach(&s, "m1:1")->opens);
    opens_from_memory("/f", 7); /* the session's term runs */
    say_greeting(&s, 4);
    const Leasehold__Show *show = expect_show(&s);
    assert_int_equal(show->n_values, 1);
    assert_string_equal(show->values[0]->name, ":/f");
    assert_int_equal(show->values[0]->revision, 7);
    Leasehold__Shown shown = shown_reply(&s);
    shown.n_dropped = 1;
    shown.dropped = (char *[]){":/f"};
    say_shown_with(&s, shown);
    opens_and_looks_up("/f", 8, 0);
    world_deinit(&w);
}

static void the_paths_that_were_used_last_stay(void **state)
{
    (void)state;
    given_known_file_with((struct lh_client_config){.lookups_max = 2});
    say_read(looked_up(opens_and_looks_up("/g", 8, 0), 8));
    opens_from_memory("/f", 7);
    say_read(looked_up(opens_and_looks_up("/h", 9, 0), 9));
    opens_from_memory("/f", 7);
    opens_from_memory("/h", 9);
    opens_and_looks_up("/g", 8, 0);
    world_deinit(&w);
}

static void the_end_is_said_to_the_master(void **state)
{
    struct lh_lookups_end_call end = {.call.kind = LH_CALL_LOOKUPS_END};

    (void)state;
    given_known_file();
    end.deadline = in_ms(&w, 1000);
    ask(&w, &end);
    expect_request_on(&w, s.link, LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE);
    end_link(&w, s.link, LH_OK, NULL);
    expect_complete(&w, &end, LH_OK);
    opens_by_stat("/f", 7); /* and no other session is opened */
    expect_quiet(&w);
    world_deinit(&w);
}

static void an_end_that_nobody_hears_ends_at_its_deadline(void **state)
{
    struct lh_lookups_end_call end = {.call.kind = LH_CALL_LOOKUPS_END};

    (void)state;
    given_known_file();
    end.deadline = in_ms(&w, 1000);
    ask(&w, &end);
    expect_request_on(&w, s.link, LEASEHOLD__LEASE_SESSION_REQUEST__BODY_CLOSE);
    pass_ms(&w, 1000);
    expect_close(&w, s.link);
    expect_complete(&w, &end, LH_ERR_DEADLINE_EXCEEDED);
    world_deinit(&w);
}

static void without_a_session_the_end_is_at_once(void **state)
{
    struct lh_lookups_end_call end = {.call.kind = LH_CALL_LOOKUPS_END};

    (void)state;
    given_lookups_with((struct lh_client_config){0});
    ask(&w, &end);
    expect_complete(&w, &end, LH_OK);
    opens_by_stat("/f", 7);
    expect_quiet(&w);
    world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_option_there_is_no_session),
        cmocka_unit_test(the_first_opening_begins_a_session_and_does_not_wait_for_it),
        cmocka_unit_test(a_file_that_is_remembered_is_opened_without_a_message),
        cmocka_unit_test(a_reader_begins_with_chunks_that_are_remembered),
        cmocka_unit_test(where_the_end_is_is_asked_all_the_same),
        cmocka_unit_test(a_tail_that_was_sealed_is_begun_with_only_once),
        cmocka_unit_test(a_reader_beyond_what_is_remembered_asks),
        cmocka_unit_test(chunks_are_forgotten_with_the_stream),
        cmocka_unit_test(an_exclusive_appender_always_asks),
        cmocka_unit_test(a_path_that_was_dropped_is_asked_for_again),
        cmocka_unit_test(a_path_that_changes_is_remembered_for_as_long_as_is_promised),
        cmocka_unit_test(a_path_without_a_file_is_not_remembered),
        cmocka_unit_test(an_answer_that_makes_no_sense_is_not_believed),
        cmocka_unit_test(a_lease_is_renewed_in_its_last_third),
        cmocka_unit_test(nothing_is_served_after_the_sessions_term),
        cmocka_unit_test(after_a_lost_session_another_one_is_opened),
        cmocka_unit_test(what_is_remembered_is_shown_to_the_next_master),
        cmocka_unit_test(the_paths_that_were_used_last_stay),
        cmocka_unit_test(the_end_is_said_to_the_master),
        cmocka_unit_test(an_end_that_nobody_hears_ends_at_its_deadline),
        cmocka_unit_test(without_a_session_the_end_is_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
