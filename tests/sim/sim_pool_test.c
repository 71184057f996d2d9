/* The processes of `leasehold-sim swarm`: whatever a task does to its process, it is reported and
 * the others go on. */
#include "sim/command/pool.h"

#include "base/assert.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum deed { SQUARE, ASSERT, KILLED, EXIT, HANG };

struct task {
    enum deed deed;
    uint64_t number;
};

static void work(void *arg, const void *task_bytes, void *result)
{
    const struct task *task = task_bytes;

    (void)arg;
    switch (task->deed) {
    case SQUARE:
        *(uint64_t *)result = task->number * task->number;
        break;
    case ASSERT:
        LH_ASSERT(task->deed == SQUARE);
        break;
    case KILLED:
        (void)raise(SIGKILL);
        break;
    case EXIT:
        (void)fputs("I have had enough\n", stderr);
        _exit(7);
    case HANG:
        for (;;)
            (void)pause();
    }
}

static struct lh_sim_pool *a_pool(size_t jobs, struct lh_duration limit)
{
    struct lh_sim_pool_config config = {
        .jobs = jobs,
        .task_size = sizeof(struct task),
        .result_size = sizeof(uint64_t),
        .work = work,
        .limit = limit,
    };
    struct lh_sim_pool *pool = lh_sim_pool_create(&config);
    assert_non_null(pool);
    return pool;
}

static struct lh_sim_pool_done wait_for_one(struct lh_sim_pool *pool)
{
    struct lh_sim_pool_done done;

    for (int i = 0; i < 100; i++)
        if (lh_sim_pool_wait(pool, lh_seconds(1), &done))
            return done;
    fail_msg("no task came to its end");
    return done;
}

static void all_tasks_are_done_once(void **state)
{
    (void)state;
    struct lh_sim_pool *pool = a_pool(3, lh_seconds(60));
    uint64_t given = 0, sum = 0, expected = 0;

    while (given < 100 || lh_sim_pool_busy(pool) > 0) {
        struct task task = {SQUARE, given};
        if (given < 100 && lh_sim_pool_give(pool, &task)) {
            expected += given * given;
            given++;
            continue;
        }
        struct lh_sim_pool_done done = wait_for_one(pool);
        assert_non_null(done.result);
        uint64_t number = ((const struct task *)done.task)->number;
        assert_int_equal(*(const uint64_t *)done.result, number * number);
        sum += number * number;
    }
    assert_int_equal(sum, expected);
    lh_sim_pool_destroy(pool);
}

static void a_busy_pool_takes_nothing(void **state)
{
    (void)state;
    struct lh_sim_pool *pool = a_pool(1, lh_seconds(60));
    struct task hang = {HANG, 0};

    assert_true(lh_sim_pool_give(pool, &hang));
    assert_false(lh_sim_pool_give(pool, &hang));
    struct lh_sim_pool_done done;
    assert_false(lh_sim_pool_wait(pool, lh_milliseconds(1), &done));
    lh_sim_pool_destroy(pool);
}

/* Given one worker, when a task kills it, then the death is told and the next task is done. */
static void what_kills_a_worker_is_told(void **state)
{
    (void)state;
    static const struct {
        struct task task;
        const char *crash;
    } deaths[] = {
        {{ASSERT, 1}, "assertion failed: task->deed == SQUARE at tests/sim/sim_pool_test.c:"},
        {{KILLED, 2}, "signal 9"},
        {{EXIT, 3}, "I have had enough"},
        {{HANG, 4}, "no end after 1 s"},
    };
    struct lh_sim_pool *pool = a_pool(1, lh_seconds(1));

    for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++) {
        assert_true(lh_sim_pool_give(pool, &deaths[i].task));
        struct lh_sim_pool_done done = wait_for_one(pool);
        assert_null(done.result);
        assert_int_equal(((const struct task *)done.task)->number, deaths[i].task.number);
        assert_non_null(strstr(done.crash, deaths[i].crash));

        struct task task = {SQUARE, 5};
        assert_true(lh_sim_pool_give(pool, &task));
        done = wait_for_one(pool);
        assert_non_null(done.result);
        assert_int_equal(*(const uint64_t *)done.result, 25);
    }
    lh_sim_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_tasks_are_done_once),
        cmocka_unit_test(a_busy_pool_takes_nothing),
        cmocka_unit_test(what_kills_a_worker_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
