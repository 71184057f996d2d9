/* `leasehold-sim scenario`: do stories end as they say. */
#include "sim/command/command.h"
#include "sim/command/host.h"
#include "sim/command/pool.h"
#include "sim/command/subject.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "scenario"

struct stories {
    struct lh_sim_subject *subjects;
    struct lh_sim_outcome *outcomes;
    bool *done;
    size_t count, said;
    int code;
};

/* ---- In a worker's process ---- */

static void work(void *arg, const void *task, void *result)
{
    const struct stories *s = arg;
    size_t i;

    memcpy(&i, task, sizeof i);
    lh_sim_subject_run(&s->subjects[i], NULL, result);
}

/* ---- What it says ---- */

static void say(struct stories *s, size_t i)
{
    const struct lh_sim_outcome *o = &s->outcomes[i];
    const char *name = s->subjects[i].name;
    char took[24];

    s->code = lh_sim_command_worse(s->code, (int)o->verdict);
    if (o->verdict == LH_SIM_EXIT_OK) {
        (void)printf(
            "%s: ok (%s of virtual time)\n", name, lh_sim_host_duration(took, o->virtual_ns));
    } else {
        bool named = strncmp(o->text, name, strlen(name)) == 0;
        (void)printf("%s%s%s\n", named ? "" : name, named ? "" : ": ", o->text);
        (void)printf("  to see it happen: leasehold-sim replay %s\n", name);
    }
    if (o->idle_line != 0)
        (void)printf(
            "%s:%" PRIu32 ": did nothing: there was nothing to do it to\n", name, o->idle_line);
    (void)fflush(stdout);
}

/* In the order of the command line, whoever is done first. */
static void say_what_is_done(struct stories *s)
{
    while (s->said < s->count && s->done[s->said]) {
        say(s, s->said);
        s->said++;
    }
}

/* ---- All of them ---- */

static int run_all(struct stories *s, struct lh_sim_pool *pool)
{
    for (size_t given = 0; s->said < s->count;) {
        struct lh_sim_pool_done done;
        while (given < s->count && lh_sim_pool_give(pool, &given))
            given++;
        if (lh_sim_pool_busy(pool) == 0)
            return lh_sim_command_error(
                LH_SIM_EXIT_OUTPUT, COMMAND, "cannot start a process: %s", strerror(errno));
        if (!lh_sim_pool_wait(pool, lh_seconds(1), &done))
            continue;
        size_t i;
        memcpy(&i, done.task, sizeof i);
        if (done.result != NULL)
            memcpy(&s->outcomes[i], done.result, sizeof s->outcomes[i]);
        else
            lh_sim_outcome_crashed(&s->outcomes[i], done.crash);
        s->done[i] = true;
        say_what_is_done(s);
    }
    return s->code;
}

static int run_with(struct stories *s, uint64_t jobs, struct lh_duration limit)
{
    struct lh_sim_pool_config config = {
        .jobs = jobs < s->count ? jobs : s->count,
        .task_size = sizeof(size_t),
        .result_size = sizeof(struct lh_sim_outcome),
        .work = work,
        .arg = s,
        .limit = limit,
    };
    struct lh_sim_pool *pool = lh_sim_pool_create(&config);

    if (pool == NULL)
        return lh_sim_command_error(
            LH_SIM_EXIT_OUTPUT, COMMAND, "cannot start processes: %s", strerror(errno));
    int code = run_all(s, pool);
    lh_sim_pool_destroy(pool);
    return code;
}

int lh_sim_command_scenario(int argc, char **argv)
{
    struct {
        uint64_t jobs;
        struct lh_duration limit;
    } o = {0};
    const struct lh_flag table[] = {
        LH_SIM_JOBS_FLAG(o.jobs),
        LH_SIM_LIMIT_FLAG(o.limit),
    };
    const struct lh_flags flags = {
        .command = "leasehold-sim scenario",
        .usage = "FILE... [OPTION]...",
        .summary = "Runs scenario files (docs/scenarios.md tells how to write one) and says ok, "
                   "or the line that was not met: what it expected and what was found.",
        LH_FLAG_ROWS(table),
    };
    struct lh_sim_subjects files;
    struct lh_flags_result args;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 1, SIZE_MAX, &args, &code))
        return code;
    lh_sim_jobs_default(&o.jobs);
    code =
        lh_sim_subjects_load(&files, (const char *const *)args.args, args.arg_count, NULL, COMMAND);
    struct stories s = {
        .subjects = files.subjects,
        .count = files.count,
        .outcomes = lh_alloc_array(files.count, sizeof *s.outcomes),
        .done = lh_alloc_array(files.count, sizeof *s.done),
    };
    /* All mistakes at once, and nothing is run with one. */
    if (code == LH_SIM_EXIT_OK)
        code = run_with(&s, o.jobs, o.limit);
    free(s.outcomes);
    free(s.done);
    lh_sim_subjects_deinit(&files);
    lh_flags_free(&args);
    return code;
}
