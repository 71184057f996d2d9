/* The master under random schedules (master_life.h).
 *
 * LH_SEED=n replays one schedule, LH_RUNS=n tries so many. */
#include "base/probe.h"
#include "tests/core/master/master_life.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void run(uint64_t seed)
{
    life_open(seed);
    for (unsigned i = 0; i < LIFE_STEPS; i++)
        life_step();
    life_close();
}

static void random_schedules_keep_the_invariants(void **state)
{
    (void)state;
    life_run_all(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_schedules_keep_the_invariants)};

    if (!lh_plant("token-without-its-lock", true)) /* nobody here holds a lock */
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
