/* Bugs that can be planted, and coverage marks: the simulator's build of the cores has all of them,
 * the table of bugs tells of each, and the product has none.
 *
 *   planted_test BINARY...    the product's */
#include "base/probe.h"
#include "chunkserver/chunkserver.h"
#include "client/core/client.h"
#include "master/master.h"
#include "master/reigns/reigns.h"
#include "sim/cluster/guard.h"
#include "sim/run/bugs.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Naming them here has the linker take the cores in. */
static void (*const cores[])(void) = {
    (void (*)(void))lh_master_create,
    (void (*)(void))lh_master_load,
    (void (*)(void))lh_master_core,
    (void (*)(void))lh_chunkserver_create,
    (void (*)(void))lh_client_create,
    (void (*)(void))lh_reigns_create,
    (void (*)(void))lh_sim_guard_act,
};

static char **binaries;
static int binary_count;
static const char *self;

static bool is_name(const char *s)
{
    return s[0] >= 'a' && s[0] <= 'z' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(s);
}

static void each_place_has_a_row_in_the_table(void **state)
{
    size_t count;
    const struct lh_probe *plants = lh_plants(&count);

    (void)state;
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++)
        assert_non_null(cores[i]);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++)
        if (lh_sim_bug_find(plants[i].name) == NULL)
            fail_msg("%s:%" PRIu64 ": %s is not in sim/run/bugs.c", plants[i].file, plants[i].line,
                plants[i].name);
}

static void each_row_has_a_place_in_the_cores(void **state)
{
    size_t count;
    const struct lh_sim_bug *bugs = lh_sim_bugs(&count);

    (void)state;
    assert_true(count >= 30);
    for (size_t i = 0; i < count; i++) {
        if (!lh_plant(bugs[i].name, true))
            fail_msg("%s stands nowhere in the cores", bugs[i].name);
        assert_ptr_equal(lh_sim_bug_find(bugs[i].name), &bugs[i]); /* no name twice */
        assert_true(is_name(bugs[i].name));
        assert_true(bugs[i].rule[0] != '\0' && bugs[i].expected[0] != '\0');
        assert_true(bugs[i].mistake[0] != '\0' && strchr(bugs[i].mistake, '\n') == NULL);
    }
    lh_plant_none();
}

static void planting_one_plants_no_other(void **state)
{
    size_t count;
    struct lh_probe *plants = lh_plants(&count);
    const char *name = plants[0].name;

    (void)state;
    assert_true(lh_plant(name, true));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(plants[i].value != 0, strcmp(plants[i].name, name) == 0);
    assert_true(lh_plant(name, false));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(plants[i].value, 0);
    assert_false(lh_plant("no-such-bug", true));
}

static void marks_have_names_and_no_run_has_come_by(void **state)
{
    size_t count;
    const struct lh_probe *marks = lh_marks(&count);

    (void)state;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        assert_true(is_name(marks[i].name));
        assert_int_equal(marks[i].value, 0);
    }
}

static char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");

    if (f == NULL)
        fail_msg("%s cannot be read", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long end = ftell(f);
    assert_true(end > 0);
    rewind(f);
    char *bytes = malloc((size_t)end);
    assert_non_null(bytes);
    *size = fread(bytes, 1, (size_t)end, f);
    assert_int_equal(*size, end);
    fclose(f);
    return bytes;
}

/* The name as the compiler puts it, with its end. */
static bool contains(const char *bytes, size_t size, const char *name)
{
    return memmem(bytes, size, name, strlen(name) + 1) != NULL;
}

static void the_product_contains_none_of_them(void **state)
{
    size_t plant_count, mark_count, own_size;
    const struct lh_probe *plants = lh_plants(&plant_count), *marks = lh_marks(&mark_count);
    char *own = slurp(self, &own_size);

    (void)state;
    assert_true(binary_count > 0);
    for (int b = 0; b < binary_count; b++) {
        size_t size;
        char *bytes = slurp(binaries[b], &size);
        for (size_t i = 0; i < plant_count + mark_count; i++) {
            const struct lh_probe *p = i < plant_count ? &plants[i] : &marks[i - plant_count];
            assert_true(contains(own, own_size, p->name)); /* this is how it would look */
            if (contains(bytes, size, p->name))
                fail_msg("%s contains %s", binaries[b], p->name);
        }
        free(bytes);
    }
    free(own);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_have_names_and_no_run_has_come_by),
        cmocka_unit_test(each_place_has_a_row_in_the_table),
        cmocka_unit_test(each_row_has_a_place_in_the_cores),
        cmocka_unit_test(planting_one_plants_no_other),
        cmocka_unit_test(the_product_contains_none_of_them),
    };

    self = argv[0];
    binaries = argv + 1;
    binary_count = argc - 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
