/* What the master keeps in memory for locks that are held, all told: sessions, names, the engine's
 * records. How it is counted: tests/freed.h. */
#include "tests/core/master/master_programs.h"

#include "base/alloc.h"
#include "tests/freed.h"

#define LOCK_BYTES_GOAL 160
#define SESSIONS        5000u
#define LOCKS           100u /* of each */

/* Asks for `count` locks in one message. */
static void asks_for_many(struct prog *p, unsigned first, unsigned count)
{
    static Leasehold__LeaseOp ops[LOCKS], *pointers[LOCKS];
    static Leasehold__Acquire requests[LOCKS];
    static char names[LOCKS][64];

    for (unsigned i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "/jobs/compact/%08u", first + i);
        requests[i] = acquire_of(p, names[i], false);
        leasehold__lease_op__init(&ops[i]);
        ops[i].op_case = LEASEHOLD__LEASE_OP__OP_ACQUIRE;
        ops[i].acquire = &requests[i];
        pointers[i] = &ops[i];
    }
    operate(p, pointers, count);
}

/* Of a core with so many sessions that hold so many locks each. */
static int64_t bytes_of(unsigned sessions, unsigned locks)
{
    world_close(&w);
    memset(&w, 0, sizeof w);
    world_open(&w);
    w.unchecked = true;
    for (unsigned s = 0; s < sessions; s++) {
        struct prog p = prog_of(0);
        memcpy(p.id, &(uint32_t){s + 1}, 4);
        comes(&p);
        asks_for_many(&p, s * locks, locks);
        if (locks > 0)
            assert_non_null(granted(&p));
        world_forget_lines(&w);
    }
    lh_master_check(w.m);
    uint64_t before = freed();
    lh_master_destroy(w.m);
    uint64_t bytes = freed() - before;
    w.m = NULL;
    return (int64_t)bytes;
}

static void a_held_lock_costs_little(void **state)
{
    (void)state;
    if (mallctl == NULL)
        skip();
    /* With one, so that what there is once (the events of leases) is no part of a lock. */
    int64_t none = bytes_of(1, 1), idle = bytes_of(SESSIONS, 0), held = bytes_of(SESSIONS, LOCKS);

    print_message("a session: %.0f bytes; a lock, all told: %.1f\n",
        (double)(idle - none) / SESSIONS, (double)(held - none) / (SESSIONS * LOCKS));
    assert_true(held - none <= (int64_t)SESSIONS * LOCKS * LOCK_BYTES_GOAL);
    assert_true(
        held - none >= (int64_t)SESSIONS * LOCKS * 100); /* else something was not counted */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_held_lock_costs_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
