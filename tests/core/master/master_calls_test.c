/* Stories of calls that happen once (HA-12): a repeat is answered as its first message was. */
#include "tests/core/master/master_story.h"

#include "base/alloc.h"
#include "base/cluster.h"
#include "base/crc32c.h"
#include "base/seal.h"
#include "proto/codec.h"
#include "proto/stored.pb-c.h"

#define CLIENT UINT64_C(0x1122334455667788)

static Leasehold__CallId id;

/* The id of the client's call of that number. */
static Leasehold__CallId *call(uint64_t number, bool repeated)
{
    leasehold__call_id__init(&id);
    id.client = CLIENT;
    id.number = number;
    id.repeated = repeated;
    return &id;
}

static uint64_t send_create(const char *path, Leasehold__CallId *of)
{
    Leasehold__CreateRequest r = LEASEHOLD__CREATE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.call = of;
    return world_call(&w, LH_METHOD_CREATE, &r);
}

static const Leasehold__CreateReply *create(const char *path, Leasehold__CallId *of)
{
    return world_reply(&w, send_create(path, of));
}

static uint64_t send_remove(const char *path, Leasehold__CallId *of)
{
    Leasehold__RemoveRequest r = LEASEHOLD__REMOVE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.call = of;
    return world_call(&w, LH_METHOD_REMOVE, &r);
}

static const Leasehold__RemoveReply *remove_it(const char *path, Leasehold__CallId *of)
{
    return world_reply(&w, send_remove(path, of));
}

static int rename_it(const char *from, const char *to, Leasehold__CallId *of)
{
    Leasehold__RenameRequest r = LEASEHOLD__RENAME_REQUEST__INIT;

    r.from = (char *)(uintptr_t)from;
    r.to = (char *)(uintptr_t)to;
    r.call = of;
    const Leasehold__RenameReply *reply = world_reply(&w, world_call(&w, LH_METHOD_RENAME, &r));
    return (int)reply->error;
}

static const Leasehold__RestoreReply *restore_file(
    const char *path, uint64_t file, const char *to, Leasehold__CallId *of)
{
    Leasehold__RestoreRequest r = LEASEHOLD__RESTORE_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    r.file = file;
    r.to = (char *)(uintptr_t)to;
    r.call = of;
    return world_reply(&w, world_call(&w, LH_METHOD_RESTORE, &r));
}

static bool exists(const char *path)
{
    Leasehold__StatRequest r = LEASEHOLD__STAT_REQUEST__INIT;

    r.path = (char *)(uintptr_t)path;
    const Leasehold__StatReply *reply = world_reply(&w, world_call(&w, LH_METHOD_STAT, &r));
    return reply->error == LEASEHOLD__ERROR_CODE__OK;
}

static size_t stored(bool marks)
{
    static const uint8_t zero[8];
    size_t count = 0;

    for (size_t i = 0; i < w.store_count; i++)
        count += w.store[i].key[0] == 'c' && (memcmp(w.store[i].key + 9, zero, 8) == 0) == marks;
    return count;
}

static size_t calls_stored(void)
{
    return stored(false);
}

static size_t marks_stored(void)
{
    return stored(true);
}

#define OK             LEASEHOLD__ERROR_CODE__OK
#define NOT_FOUND      LEASEHOLD__ERROR_CODE__NOT_FOUND
#define ALREADY_EXISTS LEASEHOLD__ERROR_CODE__ALREADY_EXISTS
#define INVALID        LEASEHOLD__ERROR_CODE__INVALID_ARGUMENT
#define UNAVAILABLE    LEASEHOLD__ERROR_CODE__UNAVAILABLE

/* ---- Repeats. */

static void a_repeated_create_is_answered_with_its_own_file(void **state)
{
    (void)state;
    const Leasehold__CreateReply *first = create("/f", call(1, false));
    assert_int_equal(first->error, OK);
    uint64_t file = first->info->file, created = first->info->created_unix_ms;
    crash();
    const Leasehold__CreateReply *again = create("/f", call(1, true));
    assert_int_equal(again->error, OK);
    assert_true(again->info->file == file && again->info->created_unix_ms == created);
    assert_string_equal(again->info->path, "/f");
    assert_int_equal(again->info->replication, w.config.replication);
    assert_int_equal(calls_stored(), 1);

    /* Without an id, or with another one, it is another call. */
    assert_int_equal(create("/f", NULL)->error, ALREADY_EXISTS);
    assert_int_equal(create("/f", call(2, false))->error, ALREADY_EXISTS);
}

static void a_repeated_remove_spares_the_next_file_of_that_path(bool restarted)
{
    assert_int_equal(create("/f", call(1, false))->error, OK);
    uint64_t file = remove_it("/f", call(2, false))->file;
    uint64_t next = create("/f", call(3, false))->info->file;
    assert_true(next != file);
    if (restarted)
        crash();
    const Leasehold__RemoveReply *again = remove_it("/f", call(2, true));
    assert_int_equal(again->error, OK);
    assert_true(again->file == file);
    assert_true(exists("/f"));
}

static void a_repeated_remove_changes_nothing(void **state)
{
    (void)state;
    a_repeated_remove_spares_the_next_file_of_that_path(false);
}

static void a_repeated_remove_changes_nothing_after_a_restart(void **state)
{
    (void)state;
    a_repeated_remove_spares_the_next_file_of_that_path(true);
}

static void a_repeated_rename_moves_no_other_file(void **state)
{
    (void)state;
    make_file("/f");
    assert_int_equal(rename_it("/f", "/g", call(1, false)), OK);
    assert_int_equal(rename_it("/g", "/h", call(2, false)), OK);
    make_file("/f");
    crash();
    assert_int_equal(rename_it("/f", "/g", call(1, true)), OK);
    assert_true(exists("/f") && exists("/h") && !exists("/g"));
}

static void a_repeated_restore_names_the_path_it_restored_to(void **state)
{
    (void)state;
    make_file("/f");
    uint64_t file = remove_it("/f", NULL)->file;
    assert_string_equal(restore_file("/f", 0, "", call(1, false))->info->path, "/f");
    remove_it("/f", NULL);
    assert_string_equal(restore_file("", file, "", call(2, false))->info->path, "/f");
    remove_it("/f", NULL);
    assert_string_equal(restore_file("", file, "/g", call(3, false))->info->path, "/g");
    crash();
    assert_string_equal(restore_file("/f", 0, "", call(1, true))->info->path, "/f");
    assert_string_equal(restore_file("", file, "", call(2, true))->info->path, "/f");
    const Leasehold__RestoreReply *last = restore_file("", file, "/g", call(3, true));
    assert_string_equal(last->info->path, "/g");
    assert_true(last->info->file == file);
    assert_true(exists("/g") && !exists("/f"));
}

static void a_repeated_drain_does_not_undo_what_came_after(void **state)
{
    (void)state;
    Leasehold__SetServerRequest r = LEASEHOLD__SET_SERVER_REQUEST__INIT;

    three_up();
    r.server_id = (char *)(uintptr_t) "a";
    r.admin = LEASEHOLD__SERVER_ADMIN__DRAINING;
    r.call = call(1, false);
    world_call(&w, LH_METHOD_SET_SERVER, &r);
    r.admin = LEASEHOLD__SERVER_ADMIN__ACTIVE;
    r.call = call(2, false);
    world_call(&w, LH_METHOD_SET_SERVER, &r);
    crash();
    r.admin = LEASEHOLD__SERVER_ADMIN__DRAINING;
    r.call = call(1, true);
    const Leasehold__SetServerReply *again =
        world_reply(&w, world_call(&w, LH_METHOD_SET_SERVER, &r));
    assert_int_equal(again->error, OK);
    assert_int_equal(again->server->admin, LEASEHOLD__SERVER_ADMIN__DRAINING); /* as it was then */
    Leasehold__ListServersRequest list = LEASEHOLD__LIST_SERVERS_REQUEST__INIT;
    const Leasehold__ListServersReply *now =
        world_reply(&w, world_call(&w, LH_METHOD_LIST_SERVERS, &list));
    assert_int_equal(now->servers[0]->admin, LEASEHOLD__SERVER_ADMIN__ACTIVE);
}

/* ---- Durability. */

static void a_repeat_waits_for_the_commit_of_the_first(void **state)
{
    (void)state;
    w.hold_commits = true;
    uint64_t first = send_create("/f", call(1, false));
    uint64_t again = send_create("/f", call(1, true));
    assert_null(world_reply(&w, first));
    assert_null(world_reply(&w, again));
    assert_int_equal(w.commit_count, 1);
    world_commit(&w);
    const Leasehold__CreateReply *one = world_reply(&w, first), *two = world_reply(&w, again);
    assert_int_equal(one->error, OK);
    assert_int_equal(two->error, OK);
    assert_true(one->info->file == two->info->file);
}

static void what_was_never_durable_is_done_by_the_repeat(void **state)
{
    (void)state;
    make_file("/f");
    w.hold_commits = true;
    send_remove("/f", call(1, false));
    w.hold_commits = false;
    crash();
    assert_true(exists("/f"));
    assert_int_equal(remove_it("/f", call(1, true))->error, OK);
    assert_false(exists("/f"));
    assert_int_equal(calls_stored(), 1);
}

/* The change and its answer are one commit: there is no moment at which one of them is there. */
static void the_answer_is_in_the_commit_of_the_change(void **state)
{
    (void)state;
    w.hold_commits = true;
    send_create("/f", call(1, false));
    assert_int_equal(w.commit_count, 1);
    size_t files = 0, calls = 0;
    for (size_t i = 0; i < w.commits[0].count; i++) {
        files += w.commits[0].changes[i].key[0] == 'f';
        calls += w.commits[0].changes[i].key[0] == 'c';
    }
    assert_int_equal(files, 1);
    assert_int_equal(calls, 1);
    world_commit(&w);
}

/* ---- Refusals. */

static void a_first_message_that_is_refused_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(remove_it("/f", call(1, false))->error, NOT_FOUND);
    assert_int_equal(calls_stored(), 0);
    /* Its answer was lost: nobody has heard of it, so the repeat may succeed. */
    make_file("/f");
    assert_int_equal(remove_it("/f", call(1, true))->error, OK);
}

/* The message before may arrive after the client was told. */
static void a_refused_repeat_stays_refused(void **state)
{
    (void)state;
    make_file("/f");
    assert_int_equal(create("/f", call(1, true))->error, ALREADY_EXISTS);
    assert_int_equal(calls_stored(), 1);
    remove_it("/f", NULL);
    crash();
    const Leasehold__CreateReply *late = create("/f", call(1, false));
    assert_int_equal(late->error, ALREADY_EXISTS);
    assert_null(late->info);
    assert_false(exists("/f"));
}

static void an_id_that_is_another_calls_is_refused(void **state)
{
    (void)state;
    make_file("/g");
    assert_int_equal(create("/f", call(1, false))->error, OK);
    assert_int_equal(create("/other", call(1, false))->error, INVALID);
    assert_int_equal(remove_it("/g", call(1, false))->error, INVALID);
    assert_int_equal(rename_it("/g", "/h", call(1, true)), INVALID);
    assert_true(exists("/g") && !exists("/other") && !exists("/h"));
}

/* The only answer that is kept, as earlier releases kept it: all of the request counted, without
 * its id. */
static void as_an_earlier_release_kept_it(enum lh_method method, const ProtobufCMessage *bare)
{
    struct pair *pair = w.store;
    const char *name = lh_method_info(method)->path;
    size_t size = protobuf_c_message_get_packed_size(bare);
    uint8_t *bytes = lh_alloc(size);

    while (pair->key[0] != 'c')
        pair++;
    protobuf_c_message_pack(bare, bytes);
    size_t value = pair->value_size - LH_SEAL_BYTES;
    LeaseholdStored__Call *kept = leasehold_stored__call__unpack(NULL, value, pair->value);
    kept->request = lh_crc32c(lh_crc32c(0, name, strlen(name)), bytes, size);
    assert_int_equal(leasehold_stored__call__get_packed_size(kept), value);
    leasehold_stored__call__pack(kept, pair->value);
    leasehold_stored__call__free_unpacked(kept, NULL);
    free(bytes);
    world_as_written(&w);
    crash();
}

static void what_an_earlier_release_kept_is_answered(void **state)
{
    Leasehold__RenameRequest r = LEASEHOLD__RENAME_REQUEST__INIT;

    (void)state;
    assert_int_equal(create("/f", NULL)->error, OK);
    r.from = (char *)(uintptr_t) "/f";
    r.to = (char *)(uintptr_t) "/g";
    r.call = call(1, false);
    const Leasehold__RenameReply *reply = world_reply(&w, world_call(&w, LH_METHOD_RENAME, &r));
    assert_int_equal(reply->error, OK);
    r.cluster = lh_cluster_hash(lh_master_cluster(w.m)); /* which that release does not know */
    r.call = NULL;
    as_an_earlier_release_kept_it(LH_METHOD_RENAME, &r.base);
    r.call = call(1, true);
    reply = world_reply(&w, world_call(&w, LH_METHOD_RENAME, &r));
    assert_int_equal(reply->error, OK);
}

static void a_client_of_number_0_has_no_ids(void **state)
{
    (void)state;
    Leasehold__CallId none = LEASEHOLD__CALL_ID__INIT;

    none.number = 1;
    assert_int_equal(create("/f", &none)->error, OK);
    assert_int_equal(create("/f", &none)->error, ALREADY_EXISTS);
    none.client = 1;
    none.number = 0;
    assert_int_equal(create("/g", &none)->error, INVALID);
    assert_int_equal(calls_stored(), 0);
}

/* ---- How long. */

static void given_short_keeping(uint64_t keep_ms, uint32_t most, uint32_t at_once)
{
    w.config.call_keep = lh_milliseconds(keep_ms);
    w.config.calls_max = most;
    w.config.calls_dropped = at_once;
    crash();
}

static void answers_are_kept_for_their_time_and_then_go(void **state)
{
    (void)state;
    given_short_keeping(8000, 1000, 2);
    for (uint64_t i = 1; i <= 5; i++)
        assert_int_equal(create((char[]){'/', (char)('a' + i), 0}, call(i, false))->error, OK);
    assert_int_equal(calls_stored(), 5);
    world_advance(&w, 8000);
    assert_int_equal(calls_stored(), 5);
    world_advance(&w, 3000);
    assert_int_equal(calls_stored(), 0);
    world_advance(&w, 100000);
    assert_int_equal(create("/b", call(1, true))->error, ALREADY_EXISTS); /* as documented */
}

static void a_restart_keeps_answers_for_their_whole_time_again(void **state)
{
    (void)state;
    given_short_keeping(8000, 1000, 2);
    create("/f", call(1, false));
    world_advance(&w, 7000);
    crash();
    world_advance(&w, 7000);
    assert_int_equal(create("/f", call(1, true))->error, OK);
    world_advance(&w, 5000);
    assert_int_equal(calls_stored(), 0);
}

static void beyond_the_number_the_oldest_goes(void **state)
{
    (void)state;
    given_short_keeping(600000, 3, 2);
    for (uint64_t i = 1; i <= 5; i++)
        create((char[]){'/', (char)('a' + i), 0}, call(i, false));
    assert_int_equal(calls_stored(), 3);
    crash(); /* and by the same order afterwards */
    create("/z", call(6, false));
    assert_int_equal(calls_stored(), 3);
    assert_int_equal(create("/e", call(4, true))->error, OK);
    assert_int_equal(create("/d", call(3, true))->error, UNAVAILABLE);

    /* With a smaller number what is too much goes a few at a time. */
    given_short_keeping(600000, 1, 1);
    world_advance(&w, 1000);
    make_file("/y");
    make_file("/x");
    assert_int_equal(calls_stored(), 1);
}

/* The removal's answer went; the repeat comes here and at the next master, and as the first message
 * that others overtook. */
static void a_call_whose_answer_went_early_is_never_carried_out_again(void **state)
{
    (void)state;
    given_short_keeping(8000, 3, 2);
    make_file("/f");
    assert_int_equal(remove_it("/f", call(5, false))->error, OK);
    for (uint64_t i = 6; i <= 9; i++)
        create((char[]){'/', (char)('a' + i), 0}, call(i, false));
    assert_int_equal(marks_stored(), 1);
    make_file("/f");
    assert_int_equal(remove_it("/f", call(5, true))->error, UNAVAILABLE);
    assert_int_equal(remove_it("/f", call(5, false))->error, UNAVAILABLE);
    crash();
    assert_int_equal(remove_it("/f", call(5, true))->error, UNAVAILABLE);
    assert_int_equal(remove_it("/f", call(4, true))->error, UNAVAILABLE); /* who knows */
    assert_true(exists("/f"));
    assert_int_equal(create("/h", call(7, true))->error, OK);
    assert_int_equal(create("/y", call(10, false))->error, OK); /* its next one */

    /* Another client's calls do not matter. */
    Leasehold__CallId other = LEASEHOLD__CALL_ID__INIT;
    other.client = 1;
    other.number = 1;
    assert_int_equal(remove_it("/f", &other)->error, OK);

    /* When no repeat can come any more it is all forgotten. */
    world_advance(&w, 20000);
    assert_int_equal(calls_stored() + marks_stored(), 0);
}

static void with_too_many_marks_nothing_is_carried_out_that_is_not_remembered(void **state)
{
    (void)state;
    Leasehold__CallId of = LEASEHOLD__CALL_ID__INIT;

    w.config.call_marks_max = 1;
    given_short_keeping(8000, 2, 2);
    of.number = 1;
    for (of.client = 1; of.client <= 4; of.client++) {
        char path[] = {'/', (char)('a' + of.client), 0};
        const Leasehold__CreateReply *reply = create(path, &of);
        assert_int_equal(reply->error, of.client < 4 ? OK : UNAVAILABLE);
    }
    assert_int_equal(calls_stored(), 2);
    assert_int_equal(marks_stored(), 1);
    of.client = 1;
    assert_int_equal(create("/b", &of)->error, UNAVAILABLE);
    of.client = 2;
    assert_int_equal(create("/c", &of)->error, OK); /* as before */
    world_advance(&w, 20000);
    of.client = 4;
    assert_int_equal(create("/e", &of)->error, OK);
}

/* A process that stood still reads what came meanwhile before it forgets any call. */
static void a_repeat_that_waited_for_a_paused_master_finds_its_call(void **state)
{
    (void)state;
    given_short_keeping(8000, 1000, 64);
    make_file("/f");
    remove_it("/f", call(1, false));
    make_file("/f");
    w.now = lh_instant_add(w.now, lh_seconds(3600));
    remove_it("/f", call(1, true)); /* the step in which the timers fire */
    assert_true(exists("/f"));
    remove_it("/f", call(1, true));
    assert_true(exists("/f"));
    world_advance(&w, 20000);
    assert_int_equal(calls_stored(), 0);
}

/* ---- Stores. */

static int load_with(const uint8_t *key, size_t key_size, const uint8_t *value, size_t value_size)
{
    char text[512];
    struct lh_master *m = lh_master_create(&w.config);
    int error = LH_OK;

    for (size_t i = 0; i < w.store_count && error == LH_OK; i++)
        if (w.store[i].key[0] == 'M')
            error = lh_master_load(m, w.store[i].key, w.store[i].key_size, w.store[i].value,
                w.store[i].value_size, text, sizeof text);
    assert_int_equal(error, LH_OK);
    struct pair pair = {.key = lh_alloc(key_size),
        .value = lh_alloc(value_size + 1),
        .key_size = (uint32_t)key_size,
        .value_size = (uint32_t)value_size};
    memcpy(pair.key, key, key_size);
    if (value_size > 0)
        memcpy(pair.value, value, value_size);
    world_seal(&pair);
    error =
        lh_master_load(m, pair.key, pair.key_size, pair.value, pair.value_size, text, sizeof text);
    free(pair.key);
    free(pair.value);
    lh_master_destroy(m);
    return error;
}

static void a_record_that_cannot_be_read_is_refused(void **state)
{
    (void)state;
    uint8_t key[17] = {'c', 1}, none[17] = {'c'};
    static const uint8_t wrong[] = {0xff, 0xff, 0xff};
    /* The next call's would be 0. */
    static const uint8_t last[] = {8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1};

    assert_int_equal(load_with(key, 17, NULL, 0), LH_OK);
    assert_int_equal(load_with(key, 17, last, sizeof last), LH_ERR_CORRUPT);
    assert_int_equal(load_with(key, 16, NULL, 0), LH_ERR_CORRUPT);
    assert_int_equal(load_with(none, 17, NULL, 0), LH_ERR_CORRUPT);
    assert_int_equal(load_with(key, 17, wrong, sizeof wrong), LH_ERR_CORRUPT);
}

/* An answer is small, whatever the path is. */
static void an_answer_takes_little_room(void **state)
{
    (void)state;
    char path[1000];

    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = 0;
    assert_int_equal(create(path, call(1, false))->error, OK);
    assert_int_equal(rename_it(path, "/f", call(2, false)), OK);
    assert_int_equal(remove_it("/f", call(3, false))->error, OK);
    for (size_t i = 0; i < w.store_count; i++)
        if (w.store[i].key[0] == 'c')
            assert_in_range(w.store[i].value_size, 0, 64);
    assert_string_equal(create(path, call(1, true))->info->path, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_repeated_create_is_answered_with_its_own_file),
        STORY(a_repeated_remove_changes_nothing),
        STORY(a_repeated_remove_changes_nothing_after_a_restart),
        STORY(a_repeated_rename_moves_no_other_file),
        STORY(a_repeated_restore_names_the_path_it_restored_to),
        STORY(a_repeated_drain_does_not_undo_what_came_after),
        STORY(a_repeat_waits_for_the_commit_of_the_first),
        STORY(what_was_never_durable_is_done_by_the_repeat),
        STORY(the_answer_is_in_the_commit_of_the_change),
        STORY(a_first_message_that_is_refused_leaves_nothing),
        STORY(a_refused_repeat_stays_refused),
        STORY(an_id_that_is_another_calls_is_refused),
        STORY(what_an_earlier_release_kept_is_answered),
        STORY(a_client_of_number_0_has_no_ids),
        STORY(answers_are_kept_for_their_time_and_then_go),
        STORY(a_restart_keeps_answers_for_their_whole_time_again),
        STORY(beyond_the_number_the_oldest_goes),
        STORY(a_call_whose_answer_went_early_is_never_carried_out_again),
        STORY(with_too_many_marks_nothing_is_carried_out_that_is_not_remembered),
        STORY(a_repeat_that_waited_for_a_paused_master_finds_its_call),
        STORY(a_record_that_cannot_be_read_is_refused),
        STORY(an_answer_takes_little_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
