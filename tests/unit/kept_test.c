/* Memory that later processes find, until the machine boots. */
#include "runtime/kept.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SIZE 10000u

static char name[64];
static char why[256];

static int begin(void **state)
{
    (void)state;
    snprintf(name, sizeof name, "test-%ld", (long)getpid());
    int directory = lh_kept_directory(true);
    if (directory < 0)
        skip(); /* a machine that has neither */
    close(directory);
    return 0;
}

static int end(void **state)
{
    char file[96];
    int directory = lh_kept_directory(true);

    (void)state;
    snprintf(file, sizeof file, "kept-%s", name);
    (void)unlinkat(directory, file, 0);
    close(directory);
    return 0;
}

static void it_is_found_as_a_killed_process_left_it(void **state)
{
    struct lh_kept kept;

    (void)state;
    pid_t child = fork();
    if (child == 0) {
        if (!lh_kept_open(&kept, name, SIZE, why, sizeof why))
            _exit(1);
        memset(kept.memory, 7, SIZE);
        kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_true(lh_kept_open(&kept, name, SIZE, why, sizeof why));
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(((uint8_t *)kept.memory)[i], 7);
    lh_kept_close(&kept);
}

static void one_process_has_it(void **state)
{
    struct lh_kept kept, other;

    (void)state;
    assert_true(lh_kept_open(&kept, name, SIZE, why, sizeof why));
    assert_int_equal(((uint8_t *)kept.memory)[SIZE - 1], 0);
    assert_false(lh_kept_open(&other, name, SIZE, why, sizeof why));
    assert_non_null(strstr(why, "another process has it"));
    lh_kept_close(&kept);
    assert_true(lh_kept_open(&other, name, SIZE, why, sizeof why));
    lh_kept_close(&other);
}

static void a_copy_is_another_place(void **state)
{
    struct lh_kept kept;
    char place[LH_KEPT_PLACE], from[96], to[96];
    int directory = lh_kept_directory(true);

    (void)state;
    assert_true(lh_kept_open(&kept, name, SIZE, why, sizeof why));
    memcpy(place, kept.place, sizeof place);
    lh_kept_close(&kept);
    assert_true(lh_kept_open(&kept, name, SIZE, why, sizeof why));
    assert_string_equal(kept.place, place);
    snprintf(from, sizeof from, "kept-%s", name);
    snprintf(to, sizeof to, "kept-%s-moved", name);
    assert_int_equal(renameat(directory, from, directory, to), 0);
    lh_kept_close(&kept);
    assert_true(lh_kept_open(&kept, name, SIZE, why, sizeof why));
    assert_string_not_equal(kept.place, place);
    lh_kept_close(&kept);
    assert_int_equal(unlinkat(directory, to, 0), 0);
    close(directory);
}

static void age(int directory, const char *file)
{
    const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};

    assert_int_equal(utimensat(directory, file, long_ago, 0), 0);
}

/* A process that runs for days leaves no mark of when it ran. */
static void what_was_taken_long_ago_is_found_and_another_ones_goes(void **state)
{
    struct lh_kept kept, other;
    char file[96], others[128], other_name[96];
    int directory = lh_kept_directory(true);

    (void)state;
    snprintf(other_name, sizeof other_name, "%s-other", name);
    snprintf(file, sizeof file, "kept-%s", name);
    snprintf(others, sizeof others, "kept-%s", other_name);
    assert_true(lh_kept_open(&kept, name, SIZE, why, sizeof why));
    ((uint8_t *)kept.memory)[0] = 7;
    lh_kept_close(&kept);
    age(directory, file);
    assert_true(lh_kept_open(&other, other_name, SIZE, why, sizeof why));
    lh_kept_close(&other);
    assert_int_equal(faccessat(directory, file, F_OK, 0), -1);

    assert_true(lh_kept_open(&kept, name, SIZE, why, sizeof why));
    ((uint8_t *)kept.memory)[0] = 7;
    lh_kept_close(&kept);
    age(directory, file);
    age(directory, others);
    assert_true(lh_kept_open(&kept, name, SIZE, why, sizeof why));
    assert_int_equal(((uint8_t *)kept.memory)[0], 7);
    assert_int_equal(faccessat(directory, others, F_OK, 0), -1);
    lh_kept_close(&kept);
    close(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_found_as_a_killed_process_left_it, begin, end),
        cmocka_unit_test_setup_teardown(one_process_has_it, begin, end),
        cmocka_unit_test_setup_teardown(a_copy_is_another_place, begin, end),
        cmocka_unit_test_setup_teardown(
            what_was_taken_long_ago_is_found_and_another_ones_goes, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
