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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_found_as_a_killed_process_left_it, begin, end),
        cmocka_unit_test_setup_teardown(one_process_has_it, begin, end),
        cmocka_unit_test_setup_teardown(a_copy_is_another_place, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
