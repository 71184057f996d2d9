/* Stories about a chunkserver's data directory: its identity, its incarnations, who is let in. */
#include "chunkserver/data_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char path[4096];
static char why[512];

/* Given a directory that is not there yet. */
static int setup(void **state)
{
    (void)state;
    const char *base = getenv("TEST_TMPDIR");
    (void)snprintf(path, sizeof path, "%s/data-dir-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    assert_int_equal(rmdir(path), 0);
    why[0] = '\0';
    return 0;
}

static const char *certified; /* the name in the server's certificate */

static struct lh_data_dir *open_ok(const char *server_id)
{
    struct lh_data_dir *dir = NULL;
    int error = lh_data_dir_open(path, server_id, certified, &dir, why, sizeof why);
    if (error != LH_OK)
        fail_msg("%s: %s", lh_error_name(error), why);
    return dir;
}

static void refused(const char *server_id, int expected, const char *mentions)
{
    struct lh_data_dir *dir = NULL;
    assert_int_equal(lh_data_dir_open(path, server_id, certified, &dir, why, sizeof why), expected);
    assert_null(dir);
    assert_non_null(strstr(why, mentions));
}

static void write_file(const char *name, const char *text)
{
    char file[5000];
    (void)snprintf(file, sizeof file, "%s/%s", path, name);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void a_new_directory_gets_a_random_name_and_keeps_it(void **state)
{
    (void)state;
    struct lh_data_dir *dir = open_ok(NULL);
    char name[LH_IDENTITY_TEXT_MAX + 1];
    (void)snprintf(name, sizeof name, "%s", lh_data_dir_identity(dir)->server_id);
    assert_int_equal(strncmp(name, "cs-", 3), 0);
    assert_string_equal(lh_data_dir_identity(dir)->cluster_id, "");
    lh_data_dir_close(dir);

    dir = open_ok(NULL);
    assert_string_equal(lh_data_dir_identity(dir)->server_id, name);
    lh_data_dir_close(dir);
}

static void every_opening_is_a_higher_incarnation(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 3; i++) {
        struct lh_data_dir *dir = open_ok("cs1");
        assert_int_equal(lh_data_dir_identity(dir)->incarnation, i);
        lh_data_dir_close(dir);
    }
}

static void a_second_opener_is_refused_until_the_first_is_gone(void **state)
{
    (void)state;
    struct lh_data_dir *dir = open_ok("cs1");
    refused("cs1", LH_ERR_IN_USE, path);
    lh_data_dir_close(dir);
    dir = open_ok("cs1");
    /* The refused one used up no incarnation. */
    assert_int_equal(lh_data_dir_identity(dir)->incarnation, 2);
    lh_data_dir_close(dir);
}

static mode_t mode_of(const char *name)
{
    char file[5000];
    struct stat s;

    (void)snprintf(file, sizeof file, "%s/%s", path, name);
    assert_int_equal(stat(file, &s), 0);
    return s.st_mode & 07777;
}

static void a_deleted_lock_lets_nobody_in(void **state)
{
    char file[5000];

    (void)state;
    struct lh_data_dir *dir = open_ok("cs1");
    (void)snprintf(file, sizeof file, "%s/LOCK", path);
    assert_int_equal(unlink(file), 0);
    refused("cs1", LH_ERR_IN_USE, path);
    assert_int_not_equal(access(file, F_OK), 0);
    lh_data_dir_close(dir);
    lh_data_dir_close(open_ok("cs1"));
}

static void what_is_in_it_is_not_for_everybody(void **state)
{
    mode_t before = umask(0);
    char file[5000];

    (void)state;
    lh_data_dir_close(open_ok("cs1"));
    assert_int_equal(mode_of(""), 0750);
    assert_int_equal(mode_of("IDENTITY"), 0640);
    assert_int_equal(mode_of("LOCK"), 0640);

    /* As older releases made it; what is no file of ours to change is left alone. */
    assert_int_equal(chmod(path, 0755), 0);
    (void)snprintf(file, sizeof file, "%s/IDENTITY", path);
    assert_int_equal(chmod(file, 0644), 0);
    (void)snprintf(file, sizeof file, "%s/chunks", path);
    assert_int_equal(mkdir(file, 0755), 0);
    (void)snprintf(file, sizeof file, "%s/lost+found", path);
    assert_int_equal(symlink("/", file), 0);
    write_file("somebody's", "note");
    mode_t others = mode_of("somebody's");
    lh_data_dir_close(open_ok("cs1"));
    assert_int_equal(mode_of(""), 0750);
    assert_int_equal(mode_of("IDENTITY"), 0640);
    assert_int_equal(mode_of("chunks"), 0750);
    assert_int_equal(mode_of("somebody's"), others);
    (void)umask(before);
}

static void another_servers_directory_is_refused(void **state)
{
    (void)state;
    struct lh_data_dir *dir = open_ok("cs1");
    assert_int_equal(lh_data_dir_join(dir, "cluster-a", why, sizeof why), LH_OK);
    lh_data_dir_close(dir);
    refused("cs2", LH_ERR_WRONG_IDENTITY, "cs1");
    lh_data_dir_close(open_ok("cs1"));
}

static void is_named(const char *server_id, const char *name, uint64_t incarnation)
{
    struct lh_data_dir *dir = open_ok(server_id);

    assert_string_equal(lh_data_dir_identity(dir)->server_id, name);
    assert_int_equal(lh_data_dir_identity(dir)->incarnation, incarnation);
    lh_data_dir_close(dir);
}

static void a_name_stays_once_a_cluster_has_taken_it(void **state)
{
    (void)state;
    is_named("cs1", "cs1", 1);
    certified = "cs2";
    is_named(NULL, "cs2", 2); /* no master took cs1 */
    is_named("cs3", "cs3", 3);
    certified = "no id";
    is_named(NULL, "cs3", 4);
    certified = NULL;
    struct lh_data_dir *dir = open_ok(NULL);
    assert_int_equal(lh_data_dir_join(dir, "cluster-a", why, sizeof why), LH_OK);
    lh_data_dir_close(dir);
    certified = "cs2";
    is_named(NULL, "cs3", 6);
    refused("cs2", LH_ERR_WRONG_IDENTITY, "cs3");
    certified = NULL;
}

static void chunks_keep_the_name_of_their_server(void **state)
{
    (void)state;
    char chunks[5000];
    lh_data_dir_close(open_ok("cs1"));
    (void)snprintf(chunks, sizeof chunks, "%s/chunks", path);
    assert_int_equal(mkdir(chunks, 0755), 0);
    write_file("chunks/0000000000000000.chunk", "the disk's probe");
    is_named("cs0", "cs0", 2);
    is_named("cs1", "cs1", 3);
    write_file("chunks/0000000000000001.chunk", "x");
    refused("cs2", LH_ERR_WRONG_IDENTITY, "cs1");
}

static void a_cluster_is_joined_once(void **state)
{
    (void)state;
    struct lh_data_dir *dir = open_ok("cs1");
    assert_int_equal(lh_data_dir_join(dir, "cluster-a", why, sizeof why), LH_OK);
    lh_data_dir_close(dir);

    dir = open_ok("cs1");
    assert_string_equal(lh_data_dir_identity(dir)->cluster_id, "cluster-a");
    assert_int_equal(lh_data_dir_join(dir, "cluster-a", why, sizeof why), LH_OK);
    assert_int_equal(lh_data_dir_join(dir, "cluster-b", why, sizeof why), LH_ERR_WRONG_IDENTITY);
    assert_non_null(strstr(why, "cluster-b"));
    assert_string_equal(lh_data_dir_identity(dir)->cluster_id, "cluster-a");
    lh_data_dir_close(dir);
}

static void somebody_elses_directory_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path, 0755), 0);
    write_file("precious.txt", "mine");
    refused("cs1", LH_ERR_WRONG_FORMAT, "precious.txt");
    char file[5000];
    (void)snprintf(file, sizeof file, "%s/LOCK", path);
    assert_int_not_equal(access(file, F_OK), 0); /* nothing was made in it */
}

static void the_highest_masters_term_is_remembered(void **state)
{
    (void)state;
    struct lh_data_dir *dir = open_ok("cs1");
    assert_int_equal(lh_data_dir_identity(dir)->master_term, 0);
    assert_int_equal(lh_data_dir_note_master_term(dir, 7, 0, why, sizeof why), LH_OK);
    assert_int_equal(lh_data_dir_note_master_term(dir, 3, 0, why, sizeof why), LH_OK);
    lh_data_dir_close(dir);

    dir = open_ok("cs1");
    assert_int_equal(lh_data_dir_identity(dir)->master_term, 7);
    assert_true(lh_data_dir_identity(dir)->reign_name == 0);

    /* The name is learnt later, or the reign is another one of a restored store (SES-9). */
    assert_int_equal(lh_data_dir_note_master_term(dir, 7, UINT64_MAX, why, sizeof why), LH_OK);
    assert_int_equal(lh_data_dir_note_master_term(dir, 3, 4711, why, sizeof why), LH_OK);
    lh_data_dir_close(dir);
    dir = open_ok("cs1");
    assert_int_equal(lh_data_dir_identity(dir)->master_term, 7);
    assert_true(lh_data_dir_identity(dir)->reign_name == UINT64_MAX);
    lh_data_dir_close(dir);
}

static void the_scrubs_position_is_remembered(void **state)
{
    (void)state;
    struct lh_data_dir *dir = open_ok("cs1");
    assert_string_equal(lh_data_dir_identity(dir)->scrub, "");
    assert_int_equal(lh_data_dir_note_scrub(dir, "48 301020", why, sizeof why), LH_OK);
    assert_int_equal(lh_data_dir_note_scrub(dir, "4\nx 1", why, sizeof why), LH_ERR_MALFORMED);
    lh_data_dir_close(dir);

    dir = open_ok("cs1");
    assert_string_equal(lh_data_dir_identity(dir)->scrub, "48 301020");
    assert_int_equal(lh_data_dir_identity(dir)->incarnation, 2);
    lh_data_dir_close(dir);

    /* An older release did not write it. */
    write_file("IDENTITY",
        "leasehold-chunkserver 2\nserver_id cs1\ncluster_id -\nincarnation 9\nmaster_term 3\n");
    dir = open_ok("cs1");
    assert_string_equal(lh_data_dir_identity(dir)->scrub, "");
    assert_int_equal(lh_data_dir_identity(dir)->master_term, 3);
    lh_data_dir_close(dir);
}

static void a_newer_format_is_refused_and_left_alone(void **state)
{
    (void)state;
    lh_data_dir_close(open_ok("cs1"));
    write_file("IDENTITY", "leasehold-chunkserver 3\nserver_id cs1\nnew_field x\n");
    refused("cs1", LH_ERR_WRONG_FORMAT, "format 3");

    char file[5000], text[100] = "";
    (void)snprintf(file, sizeof file, "%s/IDENTITY", path);
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    (void)fclose(f);
    assert_non_null(strstr(text, "new_field"));
}

static void what_an_older_release_wrote_is_refused_with_what_to_do(void **state)
{
    (void)state;
    lh_data_dir_close(open_ok("cs1"));
    write_file("IDENTITY",
        "leasehold-chunkserver 1\nserver_id cs1\ncluster_id -\nincarnation 9\nmaster_term 3\n");
    refused("cs1", LH_ERR_WRONG_FORMAT, "empty --data-dir");
}

static void what_is_no_identity_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int error;
    } cases[] = {
        {"", LH_ERR_WRONG_FORMAT},
        {"something else", LH_ERR_WRONG_FORMAT},
        {"leasehold-chunkserver 2", LH_ERR_CORRUPT},
        {"leasehold-chunkserver 2\nserver_id cs1\n", LH_ERR_CORRUPT},
        {"leasehold-chunkserver 2\nserver_id a\ncluster_id -\nincarnation 1\n", LH_ERR_CORRUPT},
        {"leasehold-chunkserver 2\nserver_id a/b\ncluster_id -\nincarnation 1\nmaster_term 0\n",
            LH_ERR_CORRUPT},
        {"leasehold-chunkserver 2\nserver_id a\ncluster_id -\nincarnation -1\nmaster_term 0\n",
            LH_ERR_CORRUPT},
        {"leasehold-chunkserver 2\nserver_id a\ncluster_id -\nincarnation "
         "18446744073709551615\nmaster_term 0\n",
            LH_ERR_CORRUPT},
    };
    assert_int_equal(mkdir(path, 0755), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file("IDENTITY", cases[i].text);
        refused(NULL, cases[i].error, path);
    }
}

static void chunks_without_an_identity_are_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path, 0755), 0);
    char chunks[5000];
    (void)snprintf(chunks, sizeof chunks, "%s/chunks", path);
    assert_int_equal(mkdir(chunks, 0755), 0);
    lh_data_dir_close(open_ok("cs1")); /* empty: no harm */
    (void)snprintf(chunks, sizeof chunks, "%s/IDENTITY", path);
    assert_int_equal(unlink(chunks), 0);
    write_file("chunks/0000000000000001.chunk", "x");
    refused("cs1", LH_ERR_WRONG_FORMAT, "IDENTITY");
}

static void odd_server_ids_are_refused(void **state)
{
    (void)state;
    refused("", LH_ERR_INVALID_ARGUMENT, "server id");
    refused("a b", LH_ERR_INVALID_ARGUMENT, "a b");
    refused("../x", LH_ERR_INVALID_ARGUMENT, "../x");
    refused("12345678901234567890123456789012345678901234567890123456789012345",
        LH_ERR_INVALID_ARGUMENT, "64");
    lh_data_dir_close(open_ok("1234567890123456789012345678901234567890123456789012345678901234"));
}

static void a_missing_parent_is_named(void **state)
{
    (void)state;
    (void)snprintf(path + strlen(path), 10, "/a/b");
    refused("cs1", LH_ERR_NOT_FOUND, path);
}

/* Whatever is written to a file of this process is refused, or not. */
static void refuse_writes(bool yes)
{
    static struct rlimit before;
    struct rlimit none;

    (void)signal(SIGXFSZ, SIG_IGN);
    if (!yes) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        return;
    }
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
}

/* REC-8. */
static void a_directory_that_cannot_be_written_is_opened_as_it_is(void **state)
{
    (void)state;
    lh_data_dir_close(open_ok("cs1"));
    refuse_writes(true);
    struct lh_data_dir *dir = open_ok("cs1");
    assert_true(lh_data_dir_unwritten(dir));
    assert_string_not_equal(why, "");
    assert_int_equal(lh_data_dir_identity(dir)->incarnation, 1);
    refused("cs1", LH_ERR_IN_USE, path);

    /* What it learns counts, and is written when that is possible. */
    assert_int_not_equal(lh_data_dir_note_master_term(dir, 7, 0, why, sizeof why), LH_OK);
    assert_int_equal(lh_data_dir_identity(dir)->master_term, 7);
    refuse_writes(false);
    assert_int_equal(lh_data_dir_note_scrub(dir, "48 301020", why, sizeof why), LH_OK);
    assert_false(lh_data_dir_unwritten(dir));
    lh_data_dir_close(dir);

    dir = open_ok("cs1");
    assert_string_equal(why, "");
    assert_int_equal(lh_data_dir_identity(dir)->incarnation, 2);
    assert_int_equal(lh_data_dir_identity(dir)->master_term, 7);
    lh_data_dir_close(dir);
}

static void a_new_directory_that_cannot_be_written_is_refused(void **state)
{
    (void)state;
    refuse_writes(true);
    refused("cs1", LH_ERR_DISK_FULL, path);
    refuse_writes(false);
    lh_data_dir_close(open_ok("cs1"));
}

static void a_read_only_file_system_is_opened_as_it_is(void **state)
{
    char data[4300];
    struct lh_data_dir *dir;

    (void)state;
    assert_int_equal(mkdir(path, 0755), 0);
    if (mount("tmpfs", path, "tmpfs", 0, "size=1m") != 0)
        skip(); /* not allowed to */
    (void)snprintf(data, sizeof data, "%s/data", path);
    assert_int_equal(lh_data_dir_open(data, "cs1", NULL, &dir, why, sizeof why), LH_OK);
    lh_data_dir_close(dir);
    assert_int_equal(mount("tmpfs", path, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
    int error = lh_data_dir_open(data, "cs1", NULL, &dir, why, sizeof why);
    if (error == LH_OK) {
        assert_true(lh_data_dir_unwritten(dir));
        assert_int_equal(lh_data_dir_identity(dir)->incarnation, 1);
        assert_non_null(strstr(why, strerror(EROFS)));
        lh_data_dir_close(dir);
    }
    assert_int_equal(umount(path), 0);
    assert_int_equal(error, LH_OK);
}

/* Takes all room that is left. */
static void fill_up(void)
{
    char name[4300], bytes[4096];
    (void)snprintf(name, sizeof name, "%s.mount/filler", path);
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    memset(bytes, 1, sizeof bytes);
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
    assert_int_equal(errno, ENOSPC);
    (void)close(fd);
}

/* What must be written at a start and later has its room from the beginning. */
static void a_full_disk_is_opened_and_written_to(void **state)
{
    char mountpoint[4200], data[4300];
    struct lh_data_dir *dir;

    (void)state;
    (void)snprintf(mountpoint, sizeof mountpoint, "%s.mount", path);
    (void)snprintf(data, sizeof data, "%s/data", mountpoint);
    assert_int_equal(mkdir(mountpoint, 0755), 0);
    if (mount("tmpfs", mountpoint, "tmpfs", 0, "size=1m") != 0) {
        assert_int_equal(rmdir(mountpoint), 0);
        skip(); /* not allowed to */
    }
    assert_int_equal(lh_data_dir_open(data, "cs1", NULL, &dir, why, sizeof why), LH_OK);
    lh_data_dir_close(dir);
    fill_up();
    for (uint64_t start = 2; start <= 5; start++) {
        if (lh_data_dir_open(data, "cs1", NULL, &dir, why, sizeof why) != LH_OK)
            fail_msg("start %d: %s", (int)start, why);
        assert_int_equal(lh_data_dir_identity(dir)->incarnation, start);
        assert_int_equal(lh_data_dir_join(dir, "a-cluster", why, sizeof why), LH_OK);
        assert_int_equal(
            lh_data_dir_note_master_term(dir, start * 1000, 0, why, sizeof why), LH_OK);
        assert_int_equal(lh_data_dir_note_scrub(dir, "123 456", why, sizeof why), LH_OK);
        lh_data_dir_close(dir);
    }
    assert_int_equal(lh_data_dir_open(data, "cs1", NULL, &dir, why, sizeof why), LH_OK);
    assert_int_equal(lh_data_dir_identity(dir)->master_term, 5000);
    assert_string_equal(lh_data_dir_identity(dir)->cluster_id, "a-cluster");
    lh_data_dir_close(dir);
    assert_int_equal(umount(mountpoint), 0);
    assert_int_equal(rmdir(mountpoint), 0);
}

/* An open directory needs no descriptor to keep what it is told. */
static void a_shortage_of_descriptors_keeps_nothing_from_being_written(void **state)
{
    struct rlimit before, few;
    struct lh_data_dir *dir;
    int fds[64], count = 0;

    (void)state;
    assert_int_equal(lh_data_dir_open(path, "cs1", NULL, &dir, why, sizeof why), LH_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){.rlim_cur = 32, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while ((fds[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    assert_int_equal(lh_data_dir_note_master_term(dir, 7, 0, why, sizeof why), LH_OK);
    assert_int_equal(lh_data_dir_note_master_term(dir, 8, 0, why, sizeof why), LH_OK);
    while (count > 0)
        (void)close(fds[--count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    lh_data_dir_close(dir);
    assert_int_equal(lh_data_dir_open(path, "cs1", NULL, &dir, why, sizeof why), LH_OK);
    assert_int_equal(lh_data_dir_identity(dir)->master_term, 8);
    lh_data_dir_close(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_new_directory_gets_a_random_name_and_keeps_it, setup),
        cmocka_unit_test_setup(every_opening_is_a_higher_incarnation, setup),
        cmocka_unit_test_setup(a_second_opener_is_refused_until_the_first_is_gone, setup),
        cmocka_unit_test_setup(a_deleted_lock_lets_nobody_in, setup),
        cmocka_unit_test_setup(what_is_in_it_is_not_for_everybody, setup),
        cmocka_unit_test_setup(another_servers_directory_is_refused, setup),
        cmocka_unit_test_setup(a_name_stays_once_a_cluster_has_taken_it, setup),
        cmocka_unit_test_setup(chunks_keep_the_name_of_their_server, setup),
        cmocka_unit_test_setup(a_cluster_is_joined_once, setup),
        cmocka_unit_test_setup(somebody_elses_directory_is_left_alone, setup),
        cmocka_unit_test_setup(the_highest_masters_term_is_remembered, setup),
        cmocka_unit_test_setup(the_scrubs_position_is_remembered, setup),
        cmocka_unit_test_setup(a_newer_format_is_refused_and_left_alone, setup),
        cmocka_unit_test_setup(what_an_older_release_wrote_is_refused_with_what_to_do, setup),
        cmocka_unit_test_setup(what_is_no_identity_is_refused, setup),
        cmocka_unit_test_setup(chunks_without_an_identity_are_refused, setup),
        cmocka_unit_test_setup(odd_server_ids_are_refused, setup),
        cmocka_unit_test_setup(a_missing_parent_is_named, setup),
        cmocka_unit_test_setup(a_directory_that_cannot_be_written_is_opened_as_it_is, setup),
        cmocka_unit_test_setup(a_new_directory_that_cannot_be_written_is_refused, setup),
        cmocka_unit_test_setup(a_read_only_file_system_is_opened_as_it_is, setup),
        cmocka_unit_test_setup(a_full_disk_is_opened_and_written_to, setup),
        cmocka_unit_test_setup(a_shortage_of_descriptors_keeps_nothing_from_being_written, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
