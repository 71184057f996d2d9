/* Lookups of files that programs cache (VAL-7): which file has a path, and the calls that wait
 * until nobody believes it any more. */
#include "tests/core/master/values_story.h"

#include "proto/leasehold.pb-c.h"

/* Sessions that look up files. */
static void come_both(void)
{
    one.lookups = two.lookups = true;
    comes(&one);
    comes(&two);
}

/* Its id. */
static uint64_t makes(const char *path)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    const Leasehold__CreateReply *reply = world_reply(&w, world_call(&w, LH_METHOD_CREATE, &r));
    assert_int_equal(reply->error, LEASEHOLD__ERROR_CODE__OK);
    return reply->info->file;
}

static uint64_t begin_rename(const char *from, const char *to, Leasehold__CallId *id)
{
    Leasehold__RenameRequest r = LEASEHOLD__RENAME_REQUEST__INIT;

    r.from = (char *)(uintptr_t)from;
    r.to = (char *)(uintptr_t)to;
    r.call = id;
    return world_call(&w, LH_METHOD_RENAME, &r);
}

static void renamed(uint64_t link, Leasehold__ErrorCode error)
{
    const Leasehold__RenameReply *reply = world_reply(&w, link);

    assert_non_null(reply);
    assert_int_equal(reply->error, error);
}

static uint64_t begin_remove(const char *path, uint64_t file)
{
    Leasehold__RemoveRequest r = LEASEHOLD__REMOVE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.file = file;
    return world_call(&w, LH_METHOD_REMOVE, &r);
}

static void removed(uint64_t link, Leasehold__ErrorCode error)
{
    const Leasehold__RemoveReply *reply = world_reply(&w, link);

    assert_non_null(reply);
    assert_int_equal(reply->error, error);
}

static bool waits(uint64_t link)
{
    return world_reply(&w, link) == NULL;
}

/* 0: there is none. */
static uint64_t file_at(const char *path)
{
    Leasehold__StatRequest r = LEASEHOLD__STAT_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    const Leasehold__StatReply *reply = world_reply(&w, world_call(&w, LH_METHOD_STAT, &r));
    return reply->error != LEASEHOLD__ERROR_CODE__OK ? 0 : reply->info->file;
}

static bool has_no_file(struct prog *p, const char *lookup)
{
    const Leasehold__ValueRead *read = read_value(p, lookup);

    return read->error == LEASEHOLD__ERROR_CODE__NOT_FOUND && !read->leased && read->term_ns == 0;
}

/* ---- Looking up. */

static void a_lookup_says_what_a_file_keeps_for_ever_with_a_lease(void **state)
{
    (void)state;
    come_both();
    uint64_t file = makes("/f");
    const Leasehold__ValueRead *read = read_value(&one, ":/f");
    assert_true(read->leased && read->term_ns > 0);
    assert_int_equal(read->revision, file);
    Leasehold__FileInfo *info =
        leasehold__file_info__unpack(NULL, read->value.len, read->value.data);
    assert_non_null(info);
    assert_int_equal(info->file, file);
    assert_true(info->chunk_size > 0 && info->replication > 0);
    leasehold__file_info__free_unpacked(info, NULL);
    ask_value(&one, 2, ":/f", file, true);
    read = value_read(&one);
    assert_true(read->same && read->leased && read->value.len == 0);
}

static void that_a_path_has_no_file_is_not_cached(void **state)
{
    (void)state;
    come_both();
    assert_true(has_no_file(&one, ":/f"));
    uint64_t file = makes("/f"); /* at once */
    assert_int_equal(cache_value(&one, ":/f"), file);
}

/* Its id may be given to another file, if this master dies. */
static void a_file_that_is_not_durable_is_not_leased(void **state)
{
    (void)state;
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    come_both();
    w.hold_commits = true;
    r.path = "/f";
    world_call(&w, LH_METHOD_CREATE, &r);
    assert_true(has_no_file(&one, ":/f"));
    world_commit_all(&w);
    assert_int_not_equal(cache_value(&one, ":/f"), 0);
}

/* Something else of the file is under way, and its path was durable long ago: the program serves it
 * until it hears that it may not. */
static void a_lookup_that_is_shown_while_its_file_commits_goes_on(void **state)
{
    Leasehold__OpenTailRequest open = LEASEHOLD__OPEN_TAIL_REQUEST__INIT;

    (void)state;
    come_both();
    uint64_t file = makes("/f");
    assert_int_equal(cache_value(&one, ":/f"), file);
    uint64_t token = locks(&two, "/owner", false);
    w.hold_commits = true;
    open.path = "/f";
    open.lock_name = "/owner";
    open.token = token;
    open.wait_ms = 10000;
    world_call(&w, LH_METHOD_OPEN_TAIL, &open); /* the file's fence */
    assert_true(w.commit_count > 0);
    assert_non_null(attach(&one, false));
    shows_value(":/f", file);
    const Leasehold__Shown *shown = shows(&one);
    assert_non_null(shown);
    assert_int_equal(shown->n_dropped, 0);
    w.hold_commits = false;
    world_commit_all(&w);
    uint64_t removal = begin_remove("/f", 0);
    assert_true(waits(removal));
}

static void only_sessions_that_said_so_look_up_files(void **state)
{
    (void)state;
    one.lookups = true;
    comes(&one);
    comes(&two);
    uint64_t file = makes("/f");
    assert_int_equal(read_value(&two, ":/f")->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    assert_int_equal(read_value(&one, ":f")->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    world_break_link(&w, two.link);
    const Leasehold__Shown *shown = comes_back(&two, ":/f", file);
    assert_int_equal(shown->n_dropped, 1);
    renamed(begin_rename("/f", "/g", NULL), LEASEHOLD__ERROR_CODE__OK);
}

static void a_lookup_is_no_name(void **state)
{
    (void)state;
    Leasehold__ListNamesRequest r = LEASEHOLD__LIST_NAMES_REQUEST__INIT;
    Leasehold__Policy p = policy_for(":/");

    come_both();
    makes("/f");
    cache_value(&one, ":/f");
    assert_int_equal(get_value(":/f")->error, LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    change_refused(begin_put(":/f", "x"), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    change_refused(begin_put(":/f", NULL), LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT);
    asks(&one, ":/f", false);
    assert_non_null(refused(&one));
    assert_int_not_equal(set_policy(&p, false), LEASEHOLD__ERROR_CODE__OK);
    put_value("/f", "a value has nothing to do with the file"); /* it waits for nobody */
    assert_null(look_at(":/f"));
    const Leasehold__ListNamesReply *all =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_NAMES, &r));
    assert_int_equal(all->n_names, 1);
    assert_string_equal(all->names[0]->name, "/f");
    r.prefix = ":";
    all = world_reply(&w, world_call(&w, LH_METHOD_LIST_NAMES, &r));
    assert_int_equal(all->n_names, 0);
}

/* ---- Paths that change. */

static void a_rename_waits_until_each_has_dropped_the_path(void **state)
{
    (void)state;
    come_both();
    uint64_t file = makes("/f");
    cache_value(&one, ":/f");
    cache_value(&two, ":/f");
    uint64_t link = begin_rename("/f", "/g", NULL);
    uint64_t change = told_to_drop(&one, ":/f");
    assert_int_equal(told_to_drop(&two, ":/f"), change);
    has_dropped(&one, ":/f", change);
    assert_true(waits(link));
    assert_int_equal(file_at("/f"), file);
    const Leasehold__ValueRead *read = read_value(&one, ":/f");
    assert_true(!read->leased && read->changing == change);
    has_dropped(&two, ":/f", change);
    renamed(link, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(file_at("/f"), 0);
    assert_true(has_no_file(&one, ":/f"));
    assert_int_equal(cache_value(&one, ":/g"), file);
}

static void a_removal_waits_too_by_path_and_by_id(void **state)
{
    (void)state;
    come_both();
    for (unsigned i = 0; i < 2; i++) {
        uint64_t file = makes("/f");
        assert_int_equal(cache_value(&one, ":/f"), file);
        uint64_t link = begin_remove(i == 0 ? "/f" : "", i == 0 ? 0 : file);
        uint64_t change = told_to_drop(&one, ":/f");
        assert_true(change != 0 && waits(link));
        has_dropped(&one, ":/f", change);
        removed(link, LEASEHOLD__ERROR_CODE__OK);
        assert_true(has_no_file(&one, ":/f"));
    }
}

static void a_silent_session_is_waited_for_until_it_ends(void **state)
{
    (void)state;
    come_both();
    makes("/f");
    cache_value(&one, ":/f");
    uint64_t link = begin_rename("/f", "/g", NULL);
    world_advance(&w, 10000);
    assert_true(waits(link));
    world_advance(&w, 2);
    renamed(link, LEASEHOLD__ERROR_CODE__OK);
}

static void what_nobody_caches_changes_at_once(void **state)
{
    (void)state;
    come_both();
    makes("/f");
    makes("/h");
    cache_value(&one, ":/h");
    renamed(begin_rename("/f", "/g", NULL), LEASEHOLD__ERROR_CODE__OK);
    removed(begin_remove("/g", 0), LEASEHOLD__ERROR_CODE__OK);
    makes("/g");
    assert_int_equal(told_to_drop(&one, ":/h"), 0);
}

static void lookups_between_commit_and_durability_wait(void **state)
{
    (void)state;
    come_both();
    makes("/f");
    cache_value(&one, ":/f");
    w.hold_commits = true;
    uint64_t link = begin_rename("/f", "/g", NULL);
    has_dropped(&one, ":/f", told_to_drop(&one, ":/f"));
    assert_true(waits(link));
    assert_null(read_value(&two, ":/f"));
    world_commit_all(&w);
    renamed(link, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(value_read(&two)->error, LEASEHOLD__ERROR_CODE__NOT_FOUND);
}

/* ---- Calls that wait. */

static void a_call_is_judged_when_it_is_carried_out(void **state)
{
    (void)state;
    come_both();
    uint64_t file = makes("/f");
    cache_value(&one, ":/f");
    uint64_t link = begin_rename("/f", "/g", NULL), change = told_to_drop(&one, ":/f");
    makes("/g");
    has_dropped(&one, ":/f", change);
    renamed(link, LEASEHOLD__ERROR_CODE__ALREADY_EXISTS);
    assert_int_equal(cache_value(&one, ":/f"), file); /* nothing has changed */
}

static void calls_on_one_path_follow_each_other(void **state)
{
    (void)state;
    come_both();
    uint64_t file = makes("/f");
    cache_value(&one, ":/f");
    uint64_t first = begin_rename("/f", "/g", NULL);
    uint64_t second = begin_rename("/f", "/h", NULL);
    uint64_t third = begin_remove("", file);
    has_dropped(&one, ":/f", told_to_drop(&one, ":/f"));
    renamed(first, LEASEHOLD__ERROR_CODE__OK);
    world_advance(&w, 0);
    renamed(second, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    removed(third, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(file_at("/g"), 0);
}

/* By id: when its turn comes the file has another path, which is cached as well. */
static void a_removal_by_id_waits_for_the_path_that_the_file_has_by_then(void **state)
{
    (void)state;
    come_both();
    uint64_t file = makes("/f");
    cache_value(&one, ":/f");
    w.hold_commits = true;
    uint64_t first = begin_rename("/f", "/g", NULL);
    uint64_t change = told_to_drop(&one, ":/f");
    has_dropped(&one, ":/f", change);
    uint64_t second = begin_remove("", file); /* its path is /g already, and nobody caches that */
    uint64_t third = begin_rename("/g", "/h", NULL);
    world_commit_all(&w);
    w.hold_commits = false;
    renamed(first, LEASEHOLD__ERROR_CODE__OK);
    removed(second, LEASEHOLD__ERROR_CODE__OK);
    renamed(third, LEASEHOLD__ERROR_CODE__NOT_FOUND);

    file = makes("/f");
    cache_value(&one, ":/f");
    first = begin_rename("/f", "/g", NULL);
    second = begin_remove("", file); /* it waits behind the rename */
    w.hold_commits = true;
    has_dropped(&one, ":/f", told_to_drop(&one, ":/f"));
    world_commit_all(&w); /* of the rename; the removal is judged next */
    w.hold_commits = false;
    world_advance(&w, 0);
    removed(second, LEASEHOLD__ERROR_CODE__OK);
    assert_int_equal(file_at("/g"), 0);
}

static void a_repeat_takes_the_place_of_its_call(void **state)
{
    (void)state;
    Leasehold__CallId id = call_id(1, false);

    come_both();
    makes("/f");
    cache_value(&one, ":/f");
    uint64_t first = begin_rename("/f", "/g", &id);
    world_break_link(&w, first);
    id.repeated = true;
    uint64_t second = begin_rename("/f", "/g", &id);
    assert_true(waits(second));
    has_dropped(&one, ":/f", told_to_drop(&one, ":/f"));
    renamed(second, LEASEHOLD__ERROR_CODE__OK);
    renamed(begin_rename("/f", "/g", &id), LEASEHOLD__ERROR_CODE__OK); /* as before */
}

static void a_call_whose_caller_is_gone_goes_on(void **state)
{
    (void)state;
    Leasehold__CallId id = call_id(2, false);

    come_both();
    uint64_t file = makes("/f");
    cache_value(&one, ":/f");
    world_break_link(&w, begin_rename("/f", "/g", NULL));
    uint64_t second = begin_rename("/g", "/h", &id);
    renamed(second, LEASEHOLD__ERROR_CODE__NOT_FOUND);
    has_dropped(&one, ":/f", told_to_drop(&one, ":/f"));
    assert_int_equal(file_at("/g"), file);
}

static void more_calls_than_may_wait_are_refused(void **state)
{
    (void)state;
    w.config.changes_max = 2;
    crash();
    come_both();
    makes("/f");
    cache_value(&one, ":/f");
    uint64_t first = begin_rename("/f", "/g", NULL), second = begin_rename("/f", "/h", NULL);
    removed(begin_remove("/f", 0), LEASEHOLD__ERROR_CODE__NO_MEMORY);
    has_dropped(&one, ":/f", told_to_drop(&one, ":/f"));
    renamed(first, LEASEHOLD__ERROR_CODE__OK);
    world_advance(&w, 0);
    renamed(second, LEASEHOLD__ERROR_CODE__NOT_FOUND);
}

static void explain_says_who_is_waited_for(void **state)
{
    (void)state;
    Leasehold__ExplainRequest r = LEASEHOLD__EXPLAIN_REQUEST__INIT;

    come_both();
    makes("/f");
    cache_value(&one, ":/f");
    r.path = "/f";
    const Leasehold__ExplainReply *reply = world_reply(&w, world_call(&w, LH_METHOD_EXPLAIN, &r));
    assert_non_null(strstr(reply->sentences[0], "1 session may open it without asking"));
    begin_rename("/f", "/g", NULL);
    reply = world_reply(&w, world_call(&w, LH_METHOD_EXPLAIN, &r));
    assert_non_null(strstr(reply->sentences[0], "waits until 1 session has dropped"));
}

/* ---- Another master (PS-3). */

static void after_a_start_a_rename_waits_for_sessions_that_look_up_files(void **state)
{
    (void)state;
    one.lookups = true;
    comes(&one);
    uint64_t file = makes("/f");
    makes("/h");
    cache_value(&one, ":/f");
    crash();
    uint64_t link = begin_rename("/f", "/g", NULL), other = begin_remove("/h", 0);
    makes("/i"); /* binds a free path */
    assert_true(waits(link) && waits(other));
    const Leasehold__Shown *shown = comes_back(&one, ":/f", file);
    assert_int_equal(shown->n_dropped, 1); /* it is changing */
    removed(other, LEASEHOLD__ERROR_CODE__OK);
    uint64_t change = told_to_drop(&one, ":/f");
    assert_true(change != 0 && waits(link));
    has_dropped(&one, ":/f", change);
    renamed(link, LEASEHOLD__ERROR_CODE__OK);
}

static void after_a_start_a_lookup_goes_on_and_is_dropped_for_the_next_rename(void **state)
{
    (void)state;
    come_both();
    uint64_t file = makes("/f");
    cache_value(&one, ":/f");
    crash();
    const Leasehold__Shown *shown = comes_back(&one, ":/f", file);
    assert_true(shown->n_dropped == 0 && shown->values_term_ns > 0);
    uint64_t link = begin_rename("/f", "/g", NULL);
    assert_true(waits(link)); /* for two, which may have it as well */
    has_dropped(&one, ":/f", told_to_drop(&one, ":/f"));
    assert_true(waits(link));
    comes_back(&two, NULL, 0);
    renamed(link, LEASEHOLD__ERROR_CODE__OK);
}

static void after_a_start_a_session_that_does_not_come_back_is_waited_for(void **state)
{
    (void)state;
    one.lookups = true;
    comes(&one);
    makes("/f");
    cache_value(&one, ":/f");
    crash();
    uint64_t link = begin_rename("/f", "/g", NULL);
    world_advance(&w, 10000);
    assert_true(waits(link));
    world_advance(&w, 2);
    renamed(link, LEASEHOLD__ERROR_CODE__OK);
}

static void after_a_start_sessions_that_look_up_nothing_are_not_waited_for(void **state)
{
    (void)state;
    comes(&one);
    makes("/f");
    crash();
    uint64_t value = begin_put("/v", "waits for all sessions");
    renamed(begin_rename("/f", "/g", NULL), LEASEHOLD__ERROR_CODE__OK);
    removed(begin_remove("/g", 0), LEASEHOLD__ERROR_CODE__OK);
    assert_null(change_reply(value));
}

static void a_path_that_has_another_file_by_now_is_not_served(void **state)
{
    (void)state;
    come_both();
    uint64_t file = makes("/f");
    cache_value(&one, ":/f");
    world_break_link(&w, one.link);
    world_advance(&w, 10002); /* its session is over, but for what it believes itself */
    one = prog_of(7);
    one.lookups = true;
    removed(begin_remove("/f", 0), LEASEHOLD__ERROR_CODE__OK);
    makes("/f");
    assert_non_null(attach(&one, true));
    shows_value(":/f", file);
    assert_int_equal(shows(&one)->n_dropped, 1);
}

static void a_master_that_stops_ends_calls_that_wait(void **state)
{
    (void)state;
    come_both();
    makes("/f");
    cache_value(&one, ":/f");
    uint64_t link = begin_rename("/f", "/g", NULL);
    world_stop(&w);
    assert_true(waits(link));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_lookup_says_what_a_file_keeps_for_ever_with_a_lease),
        STORY(that_a_path_has_no_file_is_not_cached),
        STORY(a_file_that_is_not_durable_is_not_leased),
        STORY(a_lookup_that_is_shown_while_its_file_commits_goes_on),
        STORY(only_sessions_that_said_so_look_up_files),
        STORY(a_lookup_is_no_name),
        STORY(a_rename_waits_until_each_has_dropped_the_path),
        STORY(a_removal_waits_too_by_path_and_by_id),
        STORY(a_silent_session_is_waited_for_until_it_ends),
        STORY(what_nobody_caches_changes_at_once),
        STORY(lookups_between_commit_and_durability_wait),
        STORY(a_call_is_judged_when_it_is_carried_out),
        STORY(calls_on_one_path_follow_each_other),
        STORY(a_removal_by_id_waits_for_the_path_that_the_file_has_by_then),
        STORY(a_repeat_takes_the_place_of_its_call),
        STORY(a_call_whose_caller_is_gone_goes_on),
        STORY(more_calls_than_may_wait_are_refused),
        STORY(explain_says_who_is_waited_for),
        STORY(after_a_start_a_rename_waits_for_sessions_that_look_up_files),
        STORY(after_a_start_a_lookup_goes_on_and_is_dropped_for_the_next_rename),
        STORY(after_a_start_a_session_that_does_not_come_back_is_waited_for),
        STORY(after_a_start_sessions_that_look_up_nothing_are_not_waited_for),
        STORY(a_path_that_has_another_file_by_now_is_not_served),
        STORY(a_master_that_stops_ends_calls_that_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
