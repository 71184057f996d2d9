/* Processes that work through tasks side by side. A task that kills its process (an assertion, a
 * signal, no end in sight) costs that process alone: it is reported and replaced.
 *
 * Tasks and results are plain bytes without pointers. One thread. */
#pragma once

#include "base/error.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_SIM_POOL_JOBS_MAX 256

struct lh_sim_pool;

/* For a command's table of flags: how many; 0 until lh_sim_jobs_default() has been called. */
#define LH_SIM_JOBS_FLAG(jobs)                                                                     \
    {                                                                                              \
        LH_FLAG("jobs", UINT, &(jobs), NULL),                                                      \
            .min = 1, .max = LH_SIM_POOL_JOBS_MAX,                                                 \
            .help = "processes side by side [as many as there are processors]"                     \
    }
void lh_sim_jobs_default(uint64_t *jobs);

struct lh_sim_pool_config {
    size_t jobs; /* 1 to LH_SIM_POOL_JOBS_MAX */
    size_t task_size, result_size;
    /* In a worker's process: does the task and fills `result`, which is zeroed. */
    void (*work)(void *arg, const void *task, void *result);
    void *arg;
    struct lh_duration limit; /* host time after which a task is taken for hung */
};

/* A task that is over. Valid until the pool's next call. */
struct lh_sim_pool_done {
    const void *task;
    const void *result; /* NULL: its process died */
    const char *crash;  /* of what; NULL with a result */
};

/* NULL, with errno: no processes could be made. */
struct lh_sim_pool *lh_sim_pool_create(const struct lh_sim_pool_config *config);

/* Ends all workers at once, whatever they are doing. */
void lh_sim_pool_destroy(struct lh_sim_pool *pool);

/* Gives a task to a worker that has none. False: all are busy, or a process that died could not be
 * replaced and none is left (lh_sim_pool_busy() is then 0). */
LH_MUST_USE bool lh_sim_pool_give(struct lh_sim_pool *pool, const void *task);

/* Workers that have a task. */
size_t lh_sim_pool_busy(const struct lh_sim_pool *pool);

/* Waits until a task is over, at most `bound` of host time. False: none was, or a signal came. */
LH_MUST_USE bool lh_sim_pool_wait(
    struct lh_sim_pool *pool, struct lh_duration bound, struct lh_sim_pool_done *done);
