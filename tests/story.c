/* In each test program: with LH_STORY=NAME in the environment it runs that story alone. `*` and `?`
 * stand for letters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

__attribute__((constructor)) static void choose_story(void)
{
    cmocka_set_test_filter(getenv("LH_STORY"));
}
