/* `leasehold-sim minimize`: the least that still fails, as a scenario file. */
#include "sim/run/minimize.h"

#include "sim/command/command.h"
#include "sim/command/host.h"
#include "sim/command/subject.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "minimize"

struct options {
    struct lh_sim_subject_options subject;
    const char *output;
    uint64_t seeds;
    struct lh_duration limit;
};

struct task {
    const struct options *o;
    struct lh_sim_outcome wanted; /* how it failed at first */
    struct lh_sim_outcome last;   /* how the smallest plan so far fails */
    uint64_t began_ns;
    const char *said; /* what was being done when progress was printed last */
    size_t said_actions;
    bool no_processes;
};

static bool same_failure(const struct lh_sim_outcome *a, const struct lh_sim_outcome *b)
{
    if (a->verdict != b->verdict || strcmp(a->rule, b->rule) != 0)
        return false;
    /* Two assertions are the same if they stand at the same place. */
    return a->verdict != LH_SIM_EXIT_CRASH || strcmp(a->text, b->text) == 0;
}

static bool fails(void *arg, const struct lh_sim_plan *plan, uint64_t *failed_at)
{
    struct task *t = arg;
    struct lh_sim_outcome outcome;

    if (!lh_sim_outcome_isolated(plan, t->o->limit, &outcome, COMMAND)) {
        t->no_processes = true;
        return false;
    }
    if (!same_failure(&outcome, &t->wanted))
        return false;
    t->last = outcome;
    /* A run that crashed cannot say when. */
    *failed_at = outcome.verdict == LH_SIM_EXIT_CRASH ? plan->duration.ns * 2 : outcome.failed_at;
    return true;
}

static void smaller(void *arg, const char *doing, const struct lh_sim_plan *plan, uint64_t runs)
{
    struct task *t = arg;
    char text[24];

    if (t->said == doing && t->said_actions == plan->action_count)
        return;
    t->said = doing;
    t->said_actions = plan->action_count;
    (void)fprintf(stderr,
        "minimize: %zu actions, %" PRIu32 " chunkservers, %" PRIu32 " clients (%s; %" PRIu64
        " runs, %s)\n",
        plan->action_count, plan->settings.servers, plan->settings.clients, doing, runs,
        lh_sim_host_duration(text, lh_sim_host_ns() - t->began_ns));
}

static bool enough(void *arg)
{
    const struct task *t = arg;

    return lh_sim_host_interrupted() || t->no_processes;
}

/* ---- The file ---- */

/* Into one line of a comment, which a scenario file bounds. */
static void print_comment(FILE *to, const char *name, const char *text)
{
    (void)fprintf(to, "# What is left of %s: ", name);
    for (size_t i = 0; text[i] != '\0' && i < LH_SIM_LINE_MAX / 2; i++)
        (void)fputc(text[i] >= ' ' && text[i] <= '~' ? text[i] : ' ', to);
    (void)fputc('\n', to);
}

/* The format's name stays the first line; what was found is a comment below it. */
static bool write_scenario(const struct lh_sim_scenario *scenario, const struct task *t,
    const char *name, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);

    if (memory != NULL) {
        lh_sim_scenario_print(scenario, memory);
        (void)fclose(memory);
    }
    FILE *to = text != NULL ? fopen(path, "we") : NULL;
    bool ok = to != NULL;
    if (ok) {
        int first = (int)strcspn(text, "\n");
        (void)fprintf(to, "%.*s\n", first, text);
        print_comment(to, name, t->last.text);
        (void)fputs(text + first + 1, to);
        ok = fflush(to) == 0 && !ferror(to);
    }
    if (!ok)
        (void)lh_sim_command_error(
            LH_SIM_EXIT_OUTPUT, COMMAND, "cannot write %s: %s", path, strerror(errno));
    if (to != NULL)
        (void)fclose(to);
    free(text);
    return ok;
}

/* The file, as anybody would run it, ends as it says. */
static int verify(const char *path, const struct task *t)
{
    struct lh_sim_subject_options options = {0};
    struct lh_sim_subject subject;
    struct lh_sim_outcome outcome;

    int code = lh_sim_subject_of_options(&subject, &options, path, COMMAND);
    if (code != LH_SIM_EXIT_OK)
        return code;
    if (!lh_sim_outcome_isolated_scenario(&subject.scenario, path, t->o->limit, &outcome, COMMAND))
        code = LH_SIM_EXIT_OUTPUT;
    else if (t->wanted.verdict == LH_SIM_EXIT_CRASH ? !same_failure(&outcome, &t->wanted)
                                                    : outcome.verdict != LH_SIM_EXIT_OK)
        code = lh_sim_command_error(LH_SIM_EXIT_EXPECTED, COMMAND,
            "%s, run as a scenario, does not end in the same way: %s", path,
            outcome.text[0] != '\0' ? outcome.text : "it ends well");
    lh_sim_subject_deinit(&subject);
    return code;
}

/* ---- The command ---- */

static int make_small(struct task *t, struct lh_sim_plan *plan, const char *name)
{
    const struct lh_sim_minimizer minimizer = {
        .arg = t,
        .fails = fails,
        .smaller = smaller,
        .enough = enough,
        .seeds = (uint32_t)t->o->seeds,
    };
    size_t before = plan->action_count;
    char took[24];

    lh_sim_host_catch_interrupts();
    uint64_t runs = lh_sim_minimize(plan, &minimizer);
    if (t->no_processes)
        return LH_SIM_EXIT_OUTPUT;
    if (runs == 0)
        return lh_sim_command_error(LH_SIM_EXIT_EXPECTED, COMMAND,
            "%s fails (%s), but what was done in it, done again without the nemesis, does not",
            name, t->wanted.rule);
    struct lh_sim_scenario scenario;
    bool crash = t->wanted.verdict == LH_SIM_EXIT_CRASH;
    lh_sim_plan_scenario(plan, crash ? NULL : t->wanted.rule, &scenario);
    int code = write_scenario(&scenario, t, name, t->o->output) ? verify(t->o->output, t)
                                                                : LH_SIM_EXIT_OUTPUT;
    lh_sim_scenario_deinit(&scenario);
    if (code == LH_SIM_EXIT_OK)
        (void)printf("%s: %zu actions of %zu are left after %" PRIu64 " runs in %s\n  %s\n"
                     "to see it happen:  leasehold-sim replay %s\n"
                     "to look at it:     leasehold-sim timeline %s -o failure.html\n",
            t->o->output, plan->action_count, before, runs,
            lh_sim_host_duration(took, lh_sim_host_ns() - t->began_ns), t->last.text, t->o->output,
            t->o->output);
    return code;
}

/* Before the work rather than after it. */
static bool can_write(const char *path)
{
    FILE *to = fopen(path, "ae");

    if (to == NULL) {
        (void)lh_sim_command_error(
            LH_SIM_EXIT_OUTPUT, COMMAND, "cannot write %s: %s", path, strerror(errno));
        return false;
    }
    (void)fclose(to);
    return true;
}

static int minimize(const struct options *o, const struct lh_sim_subject *subject)
{
    struct task t = {.o = o, .began_ns = lh_sim_host_ns()};
    struct lh_sim_plan recorded;

    if (!lh_sim_outcome_recorded(&subject->plan, o->limit, &t.wanted, &recorded, COMMAND))
        return LH_SIM_EXIT_OUTPUT;
    int code;
    if (t.wanted.verdict == LH_SIM_EXIT_OK)
        code =
            lh_sim_command_error(LH_SIM_EXIT_EXPECTED, COMMAND, "%s does not fail", subject->name);
    else if (!can_write(o->output))
        code = LH_SIM_EXIT_OUTPUT;
    else
        code = make_small(&t, &recorded, subject->name);
    lh_sim_plan_deinit(&recorded);
    return code;
}

int lh_sim_command_minimize(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        LH_SIM_SEED_FLAG(o.subject),
        LH_SIM_PROFILE_FLAGS(o.subject),
        {.name = "output",
            .letter = 'o',
            .type = LH_FLAG_STRING,
            .value = &o.output,
            .help = "the scenario; what the file held before is lost",
            .metavar = "FILE"},
        {LH_FLAG("tries", UINT, &o.seeds, "4"),
            .help = "seeds of the world that each smaller run is tried with", .min = 1,
            .max = 1000},
        LH_SIM_LIMIT_FLAG(o.limit),
    };
    const struct lh_flags flags = {
        .command = "leasehold-sim minimize",
        .usage = "--seed S -o FILE [OPTION]...",
        .summary =
            "Drops faults, programs, servers and settings of a failing run as long as the same "
            "rule still breaks, and writes what is left as a scenario file. Ctrl-C ends it with "
            "the smallest that was found so far.",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    struct lh_sim_subject subject;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, 0, &args, &code))
        return code;
    if (o.output == NULL)
        code = lh_sim_command_error(LH_SIM_EXIT_USAGE, COMMAND, "where to? Give -o FILE");
    else
        code = lh_sim_subject_of_options(&subject, &o.subject, NULL, COMMAND);
    if (code == LH_SIM_EXIT_OK) {
        code = minimize(&o, &subject);
        lh_sim_subject_deinit(&subject);
    }
    lh_flags_free(&args);
    return code;
}
