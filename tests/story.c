/* In each test program: with LH_STORY=NAME in the environment it runs that story alone. `*` and `?`
 * stand for letters. A name that no story has is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *chosen;
static bool found;

static void expect_one(void)
{
    if (found)
        return;
    fprintf(stderr, "LH_STORY=%s: there is no such story in this program\n", chosen);
    _exit(1);
}

__attribute__((constructor)) static void choose_story(void)
{
    chosen = getenv("LH_STORY");
    if (chosen == NULL)
        return;
    cmocka_set_test_filter(chosen);
    if (getenv("TEST_TOTAL_SHARDS") == NULL) /* else it may be in another part */
        (void)atexit(expect_one);
}

/* What cmocka_run_group_tests() calls, by the linker's --wrap. */
int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
    CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
    CMFixtureFunction setup, CMFixtureFunction teardown);

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
    CMFixtureFunction setup, CMFixtureFunction teardown)
{
    for (size_t i = 0; chosen != NULL && i < count; i++)
        found = found || fnmatch(chosen, tests[i].name, 0) == 0;
    return __real__cmocka_run_group_tests(name, tests, count, setup, teardown);
}
