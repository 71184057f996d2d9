/* `leasehold-sim run`: one run, its verdict, and whether the same seed gives the same run. */
#include "sim/command/command.h"
#include "sim/command/failure.h"
#include "sim/command/pool.h"
#include "sim/command/subject.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND "run"

/* ---- Where two runs part ---- */

struct trace {
    pid_t pid;
    FILE *from;
    char *line;
    size_t capacity;
};

/* A child process runs the plan and writes its trace to a pipe. `after_another`: it has run it once
 * before, so that memory lies elsewhere. */
static bool start_trace(struct trace *t, const struct lh_sim_plan *plan, bool after_another)
{
    int ends[2];

    *t = (struct trace){0};
    if (pipe(ends) != 0)
        return false;
    (void)fflush(NULL);
    t->pid = fork();
    if (t->pid == 0) {
        struct lh_sim_result result;
        (void)close(ends[0]);
        if (after_another) {
            lh_sim_run(plan, NULL, &result);
            lh_sim_result_deinit(&result);
        }
        struct lh_sim_run_options options = {.stage.trace = fdopen(ends[1], "w")};
        if (options.stage.trace != NULL) {
            lh_sim_run(plan, &options, &result);
            (void)fclose(options.stage.trace);
        }
        _exit(0);
    }
    (void)close(ends[1]);
    t->from = t->pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (t->from == NULL)
        (void)close(ends[0]);
    return t->from != NULL;
}

static bool next_line(struct trace *t)
{
    ssize_t n = getline(&t->line, &t->capacity, t->from);

    if (n > 0 && t->line[n - 1] == '\n')
        t->line[n - 1] = '\0';
    return n > 0;
}

static void end_trace(struct trace *t)
{
    /* A child that still writes gets SIGPIPE's error and goes on to its end. */
    if (t->from != NULL)
        (void)fclose(t->from);
    if (t->pid > 0) {
        while (waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    free(t->line);
}

static void print_first_difference(const struct lh_sim_plan *plan)
{
    struct trace a = {0}, b = {0};
    char *common = NULL;
    uint64_t number = 0;

    if (start_trace(&a, plan, false) && start_trace(&b, plan, true)) {
        for (bool more = true; more;) {
            bool a_more = next_line(&a), b_more = next_line(&b);
            number++;
            if (a_more && b_more && strcmp(a.line, b.line) == 0) {
                free(common);
                common = strdup(a.line);
                continue;
            }
            more = false;
            if (!a_more && !b_more) {
                (void)printf("  run twice more with a trace, both were the same: what differs is "
                             "no event, or it differs rarely\n");
                continue;
            }
            (void)printf("  the first event where they differ, line %" PRIu64 " of the trace:\n"
                         "    both   %s\n    first  %s\n    second %s\n",
                number, common != NULL ? common : "(nothing before it)",
                a_more ? a.line : "(ended)", b_more ? b.line : "(ended)");
        }
    }
    end_trace(&a);
    end_trace(&b);
    free(common);
}

/* ---- The command ---- */

int lh_sim_command_run(int argc, char **argv)
{
    struct {
        struct lh_sim_subject_options subject;
        bool check_determinism;
        struct lh_duration limit;
    } o = {0};
    const struct lh_flag table[] = {
        LH_SIM_SEED_FLAG(o.subject),
        LH_SIM_PROFILE_FLAGS(o.subject),
        {LH_FLAG("check-determinism", BOOL, &o.check_determinism, NULL),
            .help = "run twice: both must be the same, event by event"},
        LH_SIM_LIMIT_FLAG(o.limit),
    };
    const struct lh_flags flags = {
        .command = "leasehold-sim run",
        .usage = "--seed S [OPTION]...",
        .summary = "Draws a run from the seed, carries it out and says how it ended.",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    struct lh_sim_subject subject;
    struct lh_sim_outcome outcome, again;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, 0, &args, &code))
        return code;
    code = lh_sim_subject_of_options(&subject, &o.subject, NULL, COMMAND);
    if (code != LH_SIM_EXIT_OK) {
        lh_flags_free(&args);
        return code;
    }
    if (!lh_sim_outcome_isolated(&subject.plan, o.limit, &outcome, COMMAND)) {
        code = LH_SIM_EXIT_OUTPUT;
    } else {
        code = (int)outcome.verdict;
        if (code != LH_SIM_EXIT_CRASH)
            lh_sim_outcome_print(stdout, subject.name, &outcome);
        if (code != LH_SIM_EXIT_OK)
            lh_sim_failure_print(&subject, &outcome);
        /* In this process, where memory lies differently than in the one before. */
        if (o.check_determinism && code != LH_SIM_EXIT_CRASH) {
            lh_sim_outcome_of(&subject.plan, NULL, &again);
            if (again.hash == outcome.hash) {
                (void)printf("%s: the same again\n", subject.name);
            } else {
                (void)printf("%s: NOT the same again: hash %016" PRIx64 " after %" PRIu64
                             " events\n",
                    subject.name, again.hash, again.events);
                print_first_difference(&subject.plan);
                code = lh_sim_command_worse(code, LH_SIM_EXIT_EXPECTED);
            }
        }
    }
    lh_sim_subject_deinit(&subject);
    lh_flags_free(&args);
    return code;
}
