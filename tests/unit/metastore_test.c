/* The metadata store on a real directory: order, atomicity, reload, one process at a time. */
#include "base/alloc.h"
#include "master/store/metastore_lmdb.h"
#include "master/store/stores.h"
#include "proto/stored.pb-c.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[256];
static char why[512];

/* Filled by the store's thread, read after lh_metastore_close() has joined it. */
static struct {
    uint64_t tickets[20000];
    int errors[20000];
    char why[512];
    _Atomic unsigned shortages;
    _Atomic size_t count;
} done;

static void on_committed(void *arg, uint64_t ticket, int error, const char *text)
{
    (void)arg;
    if (error == LH_ERR_SHORTAGE) { /* not yet */
        done.shortages++;
        snprintf(done.why, sizeof done.why, "%s", text);
        return;
    }
    size_t at = done.count;
    assert_true(at < sizeof done.tickets / sizeof *done.tickets);
    done.tickets[at] = ticket;
    done.errors[at] = error;
    if (text != NULL)
        snprintf(done.why, sizeof done.why, "%s", text);
    done.count = at + 1;
}

static int open_in(uint64_t map_bytes, struct lh_metastore **store)
{
    return lh_metastore_lmdb_open(directory, map_bytes, on_committed, NULL, store, why, sizeof why);
}

static int set_up(void **state)
{
    const char *base = getenv("TEST_TMPDIR");

    (void)state;
    memset(&done, 0, sizeof done);
    snprintf(directory, sizeof directory, "%s/metastore.XXXXXX", base == NULL ? "/tmp" : base);
    return mkdtemp(directory) == NULL;
}

static int tear_down(void **state)
{
    char command[300];

    (void)state;
    (void)umount(directory); /* of a story that failed */
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static struct lh_change change(const char *key, const char *value)
{
    struct lh_change c = {.key = (uint8_t *)lh_strdup(key), .key_size = (uint32_t)strlen(key)};

    if (value != NULL) {
        c.value = (uint8_t *)lh_strdup(value);
        c.value_size = (uint32_t)strlen(value);
    }
    return c;
}

/* One commit with up to two changes; a NULL key: none, a NULL value: a delete. */
static void commit(struct lh_metastore *store, uint64_t ticket, const char *key1,
    const char *value1, const char *key2, const char *value2)
{
    struct lh_change *changes = lh_alloc_array(2, sizeof *changes);

    changes[0] = change(key1, value1);
    if (key2 != NULL)
        changes[1] = change(key2, value2);
    lh_metastore_commit(store, ticket, changes, key2 == NULL ? 1 : 2);
}

static int gather(void *arg, const void *key, size_t key_size, const void *value, size_t value_size)
{
    char *text = arg;
    size_t used = strlen(text);

    snprintf(text + used, 1024 - used, "%.*s=%.*s ", (int)key_size, (const char *)key,
        (int)value_size, (const char *)value);
    return LH_OK;
}

static void assert_stored(const char *expected)
{
    struct lh_metastore *store;
    char text[1024] = "";

    assert_int_equal(open_in(0, &store), LH_OK);
    assert_int_equal(lh_metastore_load(store, gather, text, why, sizeof why), LH_OK);
    assert_string_equal(text, expected);
    lh_metastore_close(store);
}

static void what_was_committed_is_loaded_in_the_order_of_keys(void **state)
{
    struct lh_metastore *store;

    (void)state;
    assert_stored("");
    assert_int_equal(open_in(0, &store), LH_OK);
    commit(store, 1, "k2", "two", "k10", "ten");
    commit(store, 2, "M", "master", "k", "prefix");
    commit(store, 3, "k2", "two again", "gone", NULL); /* deleting what is not there is no error */
    commit(store, 4, "k10", NULL, NULL, NULL);
    lh_metastore_close(store);
    assert_int_equal(done.count, 4);
    for (size_t i = 0; i < done.count; i++)
        assert_int_equal(done.errors[i], LH_OK);
    assert_stored("M=master k=prefix k2=two again ");
}

static void commits_complete_in_order(void **state)
{
    struct lh_metastore *store;
    char key[32];

    (void)state;
    assert_int_equal(open_in(0, &store), LH_OK);
    for (uint64_t i = 1; i <= 5000; i++) {
        snprintf(key, sizeof key, "%06u", (unsigned)i);
        commit(store, i, key, "x", NULL, NULL);
    }
    lh_metastore_close(store); /* waits for all of them */
    assert_int_equal(done.count, 5000);
    for (uint64_t i = 0; i < 5000; i++) {
        assert_int_equal(done.tickets[i], i + 1);
        assert_int_equal(done.errors[i], LH_OK);
    }
}

static void a_commit_that_fails_leaves_nothing_and_ends_all_later_ones(void **state)
{
    struct lh_metastore *store;
    char key[1001];

    (void)state;
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    assert_int_equal(open_in(0, &store), LH_OK);
    commit(store, 1, "a", "1", "b", "1");
    /* Let the first one go first: what is begun together fails together. */
    while (done.count == 0)
        sched_yield();
    commit(store, 2, "a", "2", key, "longer than LMDB takes");
    commit(store, 3, "c", "3", NULL, NULL);
    lh_metastore_close(store);
    assert_int_equal(done.count, 3);
    assert_int_equal(done.errors[0], LH_OK);
    assert_int_equal(done.errors[1], LH_ERR_IO);
    assert_int_equal(done.errors[2], LH_ERR_IO);
    assert_non_null(strstr(done.why, directory));
    assert_stored("a=1 b=1 ");
}

static void wait_until(bool (*condition)(void))
{
    for (int i = 0; i < 6000 && !condition(); i++)
        (void)usleep(10000);
    assert_true(condition());
}

static bool short_of_room(void)
{
    return done.shortages > 0;
}

static bool two_are_done(void)
{
    return done.count >= 2;
}

static void remove_file(const char *name)
{
    char path[300];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(unlink(path), 0);
}

static void fill_disk(void)
{
    static const char block[4096];
    char path[300];

    snprintf(path, sizeof path, "%s/lost+found", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    setbuf(file, NULL);
    while (fwrite(block, sizeof block, 1, file) == 1)
        ;
    fclose(file);
}

/* A batch larger than what is left, so that a write of several pages is cut short, or not. */
static void commit_bytes(struct lh_metastore *store, uint64_t ticket, size_t size)
{
    struct lh_change *changes = lh_alloc_array(1, sizeof *changes);

    changes[0] = change("big", "");
    free(changes[0].value);
    changes[0].value = lh_alloc(size);
    changes[0].value_size = (uint32_t)size;
    lh_metastore_commit(store, ticket, changes, 1);
}

/* A small tmpfs; skipped where mounting is not allowed. */
static void mount_small(void)
{
    if (mount("metastore_test", directory, "tmpfs", 0, "size=1m") == 0)
        return;
    print_message("not allowed to mount: %s\n", strerror(errno));
    skip();
}

static void a_store_grows_beyond_the_address_space_that_it_took(void **state)
{
    struct lh_metastore *store;

    (void)state;
    assert_int_equal(open_in(256u << 10, &store), LH_OK);
    commit(store, 1, "a", "1", NULL, NULL);
    for (uint64_t ticket = 2; ticket <= 9; ticket++)
        commit_bytes(store, ticket, ticket << 18); /* from 512 KiB to 2.25 MiB, one after another */
    commit(store, 10, "big", NULL, "c", "3");
    lh_metastore_close(store);
    assert_int_equal(done.count, 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(done.errors[i], LH_OK);
    assert_stored("a=1 c=3 ");
}

static void a_full_disk_is_waited_for(void **state)
{
    struct lh_metastore *store;

    (void)state;
    for (size_t size = 1; size <= 300000; size += 299999) {
        memset(&done, 0, sizeof done);
        mount_small();
        assert_int_equal(open_in(0, &store), LH_OK);
        commit(store, 1, "a", "1", NULL, NULL);
        while (done.count == 0)
            sched_yield();
        fill_disk();
        commit_bytes(store, 2, size);
        wait_until(short_of_room);
        assert_int_equal(done.count, 1); /* nothing is claimed */
        assert_non_null(strstr(done.why, directory));
        assert_non_null(strstr(done.why, "its disk is full; free some room there"));
        commit(store, 3, "big", NULL, "c", "3");
        remove_file("lost+found");
        wait_until(two_are_done);
        lh_metastore_close(store);
        assert_int_equal(done.count, 3);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(done.tickets[i], i + 1);
            assert_int_equal(done.errors[i], LH_OK);
        }
        assert_stored("a=1 c=3 ");
        assert_int_equal(umount(directory), 0);
    }
}

static void without_room_the_store_closes_and_keeps_what_it_had(void **state)
{
    struct lh_metastore *store;

    (void)state;
    mount_small();
    assert_int_equal(open_in(0, &store), LH_OK);
    commit(store, 1, "a", "1", NULL, NULL);
    while (done.count == 0)
        sched_yield();
    fill_disk();
    commit_bytes(store, 2, 1000);
    commit(store, 3, "c", "3", NULL, NULL);
    wait_until(short_of_room);
    lh_metastore_close(store);
    assert_int_equal(done.count, 3);
    assert_int_equal(done.errors[1], LH_ERR_DISK_FULL);
    assert_int_equal(done.errors[2], LH_ERR_DISK_FULL);
    assert_stored("a=1 ");
    assert_int_equal(umount(directory), 0);
}

static void what_waits_for_room_has_a_bound(void **state)
{
    struct lh_metastore *store;
    uint64_t ticket = 2;

    (void)state;
    mount_small();
    assert_int_equal(open_in(0, &store), LH_OK);
    commit(store, 1, "a", "1", NULL, NULL);
    while (done.count == 0)
        sched_yield();
    fill_disk();
    commit_bytes(store, ticket, 1000);
    wait_until(short_of_room);
    for (uint64_t bytes = 0; bytes <= LH_METASTORE_WAITING_MAX; bytes += 1u << 20)
        commit_bytes(store, ++ticket, 1u << 20);
    wait_until(two_are_done);
    lh_metastore_close(store);
    assert_int_equal(done.count, ticket);
    assert_int_equal(done.errors[1], LH_ERR_DISK_FULL);
    assert_int_equal(umount(directory), 0);
}

static int stop_at_first(
    void *arg, const void *key, size_t key_size, const void *value, size_t value_size)
{
    (void)key, (void)key_size, (void)value, (void)value_size;
    ++*(int *)arg;
    return LH_ERR_CORRUPT;
}

static void loading_stops_when_told_to(void **state)
{
    struct lh_metastore *store;
    int seen = 0;

    (void)state;
    assert_int_equal(open_in(0, &store), LH_OK);
    commit(store, 1, "a", "1", "b", "2");
    lh_metastore_close(store);
    assert_int_equal(open_in(0, &store), LH_OK);
    assert_int_equal(
        lh_metastore_load(store, stop_at_first, &seen, why, sizeof why), LH_ERR_CORRUPT);
    assert_int_equal(seen, 1);
    lh_metastore_close(store);
}

static void the_longest_key_is_kept_and_a_longer_one_is_not_there(void **state)
{
    struct lh_metastore *store;
    char longest[LH_KEY_BYTES_MAX + 1], longer[LH_KEY_BYTES_MAX + 2], expected[1024];

    (void)state;
    memset(longest, 'v', sizeof longest);
    memset(longer, 'v', sizeof longer);
    longest[sizeof longest - 1] = longer[sizeof longer - 1] = '\0';
    assert_int_equal(open_in(0, &store), LH_OK);
    assert_int_equal(store->key_bytes_max, LH_KEY_BYTES_MAX);
    commit(store, 1, longest, "edge", longer, NULL); /* a delete, of what cannot be there */
    lh_metastore_close(store);
    assert_int_equal(done.errors[0], LH_OK);
    snprintf(expected, sizeof expected, "%s=edge ", longest);
    assert_stored(expected);
}

static void a_second_process_is_refused(void **state)
{
    struct lh_metastore *store, *second;
    char file[300];
    int status;

    (void)state;
    assert_int_equal(open_in(0, &store), LH_OK);
    assert_int_equal(open_in(0, &second), LH_ERR_IN_USE); /* not even within this process */
    snprintf(file, sizeof file, "%s/LOCK", directory);    /* nor when somebody tidies up */
    assert_int_equal(unlink(file), 0);
    assert_int_equal(open_in(0, &second), LH_ERR_IN_USE);
    assert_non_null(strstr(why, directory));
    assert_non_null(strstr(why, "in use by another process"));
    pid_t child = fork();
    if (child == 0)
        _exit(open_in(0, &second) == LH_ERR_IN_USE ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    lh_metastore_close(store);
    assert_stored(""); /* free again */
}

static void write_file(const char *name, const char *text)
{
    char path[300];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_newer_format_is_refused(void **state)
{
    struct lh_metastore *store;

    (void)state;
    assert_stored("");
    write_file("FORMAT", "leasehold-master 2\n");
    assert_int_equal(open_in(0, &store), LH_ERR_WRONG_FORMAT);
    assert_non_null(strstr(why, "newer release"));
    write_file("FORMAT", "something else\n");
    assert_int_equal(open_in(0, &store), LH_ERR_WRONG_FORMAT);
    write_file("FORMAT", "leasehold-master 1\n");
    assert_stored("");
}

static void a_chunkservers_directory_is_refused(void **state)
{
    struct lh_metastore *store;

    (void)state;
    write_file("IDENTITY", "1\n");
    assert_int_equal(open_in(0, &store), LH_ERR_WRONG_FORMAT);
    assert_non_null(strstr(why, "directory of its own"));
}

static void a_damaged_store_is_refused(void **state)
{
    struct lh_metastore *store;

    (void)state;
    assert_stored("");
    write_file("data.mdb", "this is no database, and long enough to be looked at as if it were "
                           "one: LMDB reads a header of a hundred and fifty bytes or so before "
                           "it decides what the file is.");
    assert_int_not_equal(open_in(0, &store), LH_OK);
    assert_non_null(strstr(why, directory));
}

/* A store that is gone would begin a new cluster, with the old one's chunkservers. */
/* The master's record, of the cluster of that name, as it is stored. */
static void commit_cluster(struct lh_metastore *store, uint64_t ticket, const char *id)
{
    LeaseholdStored__Master record = LEASEHOLD_STORED__MASTER__INIT;
    struct lh_change *changes = lh_alloc_array(1, sizeof *changes);

    record.cluster_id = (char *)(uintptr_t)id;
    changes[0] = change("M", NULL);
    changes[0].value_size = (uint32_t)leasehold_stored__master__get_packed_size(&record);
    changes[0].value = lh_alloc(changes[0].value_size + 1);
    leasehold_stored__master__pack(&record, changes[0].value);
    lh_metastore_commit(store, ticket, changes, 1);
}

static void begin_cluster(const char *id)
{
    struct lh_metastore *store;

    assert_int_equal(open_in(0, &store), LH_OK);
    commit_cluster(store, 1, id);
    lh_metastore_close(store);
}

static void assert_refused(int error, const char *text)
{
    struct lh_metastore *store;

    assert_int_equal(open_in(0, &store), error);
    if (strstr(why, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, text);
}

static void a_store_that_is_gone_is_refused(void **state)
{
    (void)state;
    assert_stored(""); /* a start that failed proves nothing */
    remove_file("data.mdb");
    begin_cluster("one");

    remove_file("data.mdb");
    assert_refused(LH_ERR_CORRUPT, "cluster one");
    assert_refused(LH_ERR_CORRUPT, "data.mdb is missing");
    assert_refused(LH_ERR_CORRUPT, "an empty directory");
    write_file("data.mdb", "");
    assert_refused(LH_ERR_CORRUPT, "data.mdb is empty");
}

static void a_store_that_was_emptied_is_refused(void **state)
{
    struct lh_metastore *store;

    (void)state;
    begin_cluster("one");
    assert_int_equal(open_in(0, &store), LH_OK);
    commit(store, 2, "M", NULL, NULL, NULL);
    lh_metastore_close(store);
    assert_refused(LH_ERR_CORRUPT, "has nothing of it");
}

static void a_store_of_another_cluster_is_refused(void **state)
{
    (void)state;
    begin_cluster("one");
    write_file("CLUSTER", "two\n");
    assert_refused(LH_ERR_WRONG_IDENTITY, "of cluster two");
    assert_refused(LH_ERR_WRONG_IDENTITY, "is of cluster one");
    write_file("CLUSTER", "");
    assert_refused(LH_ERR_CORRUPT, "CLUSTER: it has no id");
}

/* As an earlier release left it, or somebody who put a copy into a new directory. */
static void a_store_without_the_cluster_file_gets_it(void **state)
{
    struct lh_metastore *store;

    (void)state;
    begin_cluster("one");
    remove_file("CLUSTER");
    assert_int_equal(open_in(0, &store), LH_OK);
    lh_metastore_close(store);
    remove_file("data.mdb");
    assert_refused(LH_ERR_CORRUPT, "cluster one");
}

static void a_directory_that_cannot_be_made_is_named(void **state)
{
    struct lh_metastore *store;

    (void)state;
    assert_int_equal(lh_metastore_lmdb_open(
                         "/nonexistent/parent/dir", 0, on_committed, NULL, &store, why, sizeof why),
        LH_ERR_NOT_FOUND);
    assert_non_null(strstr(why, "/nonexistent/parent/dir"));
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void a_store_is_opened_by_the_name_of_its_kind(void **state)
{
    struct lh_metastore *store;

    (void)state;
    assert_int_equal(
        lh_metastore_open("lmdb", directory, on_committed, NULL, &store, why, sizeof why), LH_OK);
    lh_metastore_close(store);
    assert_int_equal(
        lh_metastore_open("paper", directory, on_committed, NULL, &store, why, sizeof why),
        LH_ERR_INVALID_ARGUMENT);
    assert_string_equal(why, "there is no kind of metadata store \"paper\": use lmdb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(what_was_committed_is_loaded_in_the_order_of_keys),
        STORY(commits_complete_in_order),
        STORY(a_commit_that_fails_leaves_nothing_and_ends_all_later_ones),
        STORY(a_store_grows_beyond_the_address_space_that_it_took),
        STORY(a_full_disk_is_waited_for),
        STORY(without_room_the_store_closes_and_keeps_what_it_had),
        STORY(what_waits_for_room_has_a_bound),
        STORY(loading_stops_when_told_to),
        STORY(the_longest_key_is_kept_and_a_longer_one_is_not_there),
        STORY(a_second_process_is_refused),
        STORY(a_newer_format_is_refused),
        STORY(a_chunkservers_directory_is_refused),
        STORY(a_damaged_store_is_refused),
        STORY(a_store_that_is_gone_is_refused),
        STORY(a_store_that_was_emptied_is_refused),
        STORY(a_store_of_another_cluster_is_refused),
        STORY(a_store_without_the_cluster_file_gets_it),
        STORY(a_directory_that_cannot_be_made_is_named),
        STORY(a_store_is_opened_by_the_name_of_its_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
