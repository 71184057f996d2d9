/* `leasehold-sim swarm`: many runs, side by side, each from its own seed. Scenario files may come
 * first: where they get to counts as reached, too. */
#include "sim/command/command.h"
#include "sim/command/coverage.h"
#include "sim/command/failure.h"
#include "sim/command/host.h"
#include "sim/command/pool.h"
#include "sim/command/seed.h"
#include "sim/command/subject.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COMMAND "swarm"

struct options {
    struct lh_duration time, progress, limit;
    uint64_t runs, jobs;
    const char *first;
    int profile;
    const char *plant;
    bool keep_going, marks, require_marks;
};

#define KINDS_MAX    32
#define MARKS_LISTED 20u /* not reached; more of them say only that the swarm was short */
#define KIND_SEEDS   8   /* that are named */
#define KIND_SHOWN   3   /* failures of one kind that are shown in full */

/* Failures of the same rule, or crashes of the same assertion. */
struct kind {
    char what[160];
    uint64_t count;
    uint64_t seeds[KIND_SEEDS];
};

struct swarm {
    const struct options *o;
    struct lh_sim_subject *stories; /* scenario files */
    size_t story_count, stories_given;
    struct lh_sim_pool *pool;
    uint64_t first, given;
    uint64_t began_ns;
    bool enough; /* gives no more */

    uint64_t runs, failures, virtual_ns, events, acknowledged, faults, busy_ns;
    uint64_t *counts;       /* of marks, by seeds */
    uint64_t *story_counts; /* ... and by stories */
    struct kind kinds[KINDS_MAX];
    size_t kind_count;
    int code;
};

struct task {
    bool is_story;
    uint64_t number; /* the seed, or which story */
};

/* ---- In a worker's process ---- */

/* The outcome, and behind it the marks' counts. */
static void work(void *arg, const void *task_bytes, void *result)
{
    const struct swarm *s = arg;
    struct lh_sim_subject subject;
    struct task task;

    memcpy(&task, task_bytes, sizeof task);
    lh_sim_coverage_reset();
    if (task.is_story) {
        lh_sim_subject_run(&s->stories[task.number], NULL, result);
    } else {
        lh_sim_subject_draw(&subject, task.number, (enum lh_sim_profile)s->o->profile, s->o->plant);
        lh_sim_outcome_of(&subject.plan, NULL, result);
        lh_sim_subject_deinit(&subject);
    }
    lh_sim_coverage_read((uint64_t *)((struct lh_sim_outcome *)result + 1));
}

/* ---- What it says ---- */

static double per_second(uint64_t count, uint64_t ns)
{
    return ns == 0 ? 0 : (double)count / ((double)ns / 1e9);
}

static void print_progress(const struct swarm *s)
{
    const struct options *o = s->o;
    uint64_t used = lh_sim_host_ns() - s->began_ns;
    char virtual_time[24], rate[24], left[24], eta[64] = "";
    uint64_t remaining = o->time.ns == 0 ? UINT64_MAX : o->time.ns > used ? o->time.ns - used : 0;

    if (o->runs != 0 && s->runs > 0) {
        uint64_t by_runs = used / s->runs * (o->runs > s->runs ? o->runs - s->runs : 0);
        remaining = by_runs < remaining ? by_runs : remaining;
    }
    if (remaining != UINT64_MAX)
        (void)snprintf(eta, sizeof eta, ", %s left", lh_sim_host_duration(left, remaining));
    (void)fprintf(stderr,
        "swarm: %" PRIu64 " runs, %s of virtual time, %s events/s, %" PRIu64 " failed%s\n", s->runs,
        lh_sim_host_duration(virtual_time, s->virtual_ns),
        lh_sim_host_count(rate, per_second(s->events, used)), s->failures, eta);
}

static void print_summary(const struct swarm *s)
{
    uint64_t used = lh_sim_host_ns() - s->began_ns;
    char seed[40], virtual_time[24], host_time[24], events[24], rate[24], core[24], speed[24];

    (void)printf("%" PRIu64 " runs from seed %s on, %" PRIu64 " failed: %s of virtual time, %s "
                 "events, %" PRIu64 " appends acknowledged, %" PRIu64 " faults\n",
        s->runs, lh_sim_seed_print(seed, s->first), s->failures,
        lh_sim_host_duration(virtual_time, s->virtual_ns),
        lh_sim_host_count(events, (double)s->events), s->acknowledged, s->faults);
    (void)printf(
        "took %s: %s events/s (%s for each process), %s times real time for each process\n",
        lh_sim_host_duration(host_time, used), lh_sim_host_count(rate, per_second(s->events, used)),
        lh_sim_host_count(core, per_second(s->events, s->busy_ns)),
        lh_sim_host_count(speed, per_second(s->virtual_ns / 1000, s->busy_ns) / 1e6));
}

static void print_kinds(const struct swarm *s)
{
    char text[40];

    for (size_t i = 0; i < s->kind_count; i++) {
        const struct kind *k = &s->kinds[i];
        (void)printf("  %s: %" PRIu64 " failed, seeds", k->what, k->count);
        for (size_t j = 0; j < k->count && j < KIND_SEEDS; j++)
            (void)printf(" %s", lh_sim_seed_print(text, k->seeds[j]));
        (void)printf("%s\n", k->count > KIND_SEEDS ? " ..." : "");
    }
}

static void print_marks(struct swarm *s)
{
    size_t count = lh_sim_coverage_count();
    size_t by_seeds = count - lh_sim_coverage_print(NULL, s->counts, false);

    for (size_t i = 0; i < count; i++)
        s->counts[i] += s->story_counts[i];
    size_t missing = lh_sim_coverage_print(NULL, s->counts, false);
    (void)printf("marks: %zu of %zu reached", count - missing, count);
    if (count - missing > by_seeds)
        (void)printf(", %zu of them by scenarios alone", count - missing - by_seeds);
    (void)printf("\n");
    /* A swarm that was cut short has not had the time to get everywhere. */
    bool cut_short = (s->failures > 0 && !s->o->keep_going) || lh_sim_host_interrupted();
    if (s->o->marks) {
        (void)lh_sim_coverage_print(stdout, s->counts, false);
    } else if (missing > MARKS_LISTED && !s->o->require_marks && !cut_short) {
        (void)printf("%zu were not reached, by so few runs: --marks lists all\n", missing);
    } else if (missing > 0 && !cut_short) {
        (void)printf("never reached:\n");
        (void)lh_sim_coverage_print(stdout, s->counts, true);
    }
    if (s->o->require_marks && missing > 0)
        s->code = lh_sim_command_worse(s->code, LH_SIM_EXIT_MARKS);
}

/* ---- The swarm ---- */

/* How many of its kind there are now. */
static uint64_t count_failure(struct swarm *s, const struct lh_sim_outcome *outcome, uint64_t seed)
{
    const char *what = outcome->verdict == LH_SIM_EXIT_CRASH ? outcome->text : outcome->rule;
    struct kind *k = s->kinds;

    while (k < s->kinds + s->kind_count && strncmp(k->what, what, sizeof k->what - 1) != 0)
        k++;
    /* Whatever has no place of its own goes with the last. */
    if (k == s->kinds + KINDS_MAX)
        k--;
    else if (k == s->kinds + s->kind_count) {
        (void)snprintf(k->what, sizeof k->what, "%.*s", (int)sizeof k->what - 1, what);
        s->kind_count++;
    }
    if (k->count < KIND_SEEDS)
        k->seeds[k->count] = seed;
    return ++k->count;
}

static void report(struct swarm *s, const struct lh_sim_outcome *outcome, uint64_t seed)
{
    struct lh_sim_subject subject;

    s->failures++;
    s->code = lh_sim_command_worse(s->code, (int)outcome->verdict);
    lh_sim_subject_draw(&subject, seed, (enum lh_sim_profile)s->o->profile, s->o->plant);
    if (count_failure(s, outcome, seed) <= KIND_SHOWN) {
        lh_sim_failure_print(&subject, outcome);
    } else {
        (void)printf("FAILED  %s (%s), %s\n  %.*s\n", outcome->rule, lh_sim_outcome_word(outcome),
            subject.name, (int)strcspn(outcome->text, "\n"), outcome->text);
        (void)fflush(stdout);
    }
    lh_sim_subject_deinit(&subject);
    s->enough = s->enough || !s->o->keep_going;
}

static void report_story(
    struct swarm *s, const struct lh_sim_outcome *outcome, const struct lh_sim_subject *story)
{
    s->failures++;
    s->code = lh_sim_command_worse(s->code, (int)outcome->verdict);
    (void)printf("FAILED  %s (%s)\n  %s\nto see it happen:  leasehold-sim replay %s\n", story->name,
        lh_sim_outcome_word(outcome), outcome->text, story->arguments);
    (void)fflush(stdout);
    s->enough = s->enough || !s->o->keep_going;
}

static void take(struct swarm *s, const struct lh_sim_pool_done *done)
{
    struct lh_sim_outcome outcome;
    struct task task;

    memcpy(&task, done->task, sizeof task);
    uint64_t *sum = task.is_story ? s->story_counts : s->counts;
    if (done->result != NULL) {
        const uint64_t *counts =
            (const uint64_t *)((const struct lh_sim_outcome *)done->result + 1);
        memcpy(&outcome, done->result, sizeof outcome);
        for (size_t i = 0; i < lh_sim_coverage_count(); i++)
            sum[i] += counts[i];
    } else {
        lh_sim_outcome_crashed(&outcome, done->crash);
    }
    if (task.is_story) {
        if (outcome.verdict != LH_SIM_EXIT_OK)
            report_story(s, &outcome, &s->stories[task.number]);
        return;
    }
    s->runs++;
    s->virtual_ns += outcome.virtual_ns;
    s->events += outcome.events;
    s->acknowledged += outcome.acknowledged;
    s->faults += outcome.faults;
    s->busy_ns += outcome.host_ns;
    if (outcome.verdict != LH_SIM_EXIT_OK)
        report(s, &outcome, task.number);
}

static bool give_story(struct swarm *s)
{
    struct task task = {true, s->stories_given};

    if (!lh_sim_pool_give(s->pool, &task))
        return false;
    s->stories_given++;
    return true;
}

/* Gives every idle worker a run. False: there are no processes to be had. */
static bool feed(struct swarm *s)
{
    const struct options *o = s->o;

    s->enough = s->enough || lh_sim_host_interrupted() ||
                (o->time.ns != 0 && lh_sim_host_ns() - s->began_ns >= o->time.ns);
    while (!s->enough) {
        if (s->stories_given < s->story_count) {
            if (!give_story(s))
                break;
            continue;
        }
        if (o->runs != 0 && s->given == o->runs) {
            s->enough = true;
            break;
        }
        struct task task = {false, s->first + s->given};
        if (!lh_sim_pool_give(s->pool, &task))
            break;
        s->given++;
    }
    return s->enough || lh_sim_pool_busy(s->pool) > 0;
}

static void run_swarm(struct swarm *s)
{
    uint64_t shown = s->began_ns;

    for (;;) {
        struct lh_sim_pool_done done;
        if (!feed(s)) {
            s->code = lh_sim_command_error(
                LH_SIM_EXIT_OUTPUT, COMMAND, "cannot start a process: %s", strerror(errno));
            return;
        }
        /* Ctrl-C does not wait for the runs that are under way; neither does a first failure. */
        if (lh_sim_pool_busy(s->pool) == 0 || lh_sim_host_interrupted() ||
            (s->enough && s->failures > 0 && !s->o->keep_going))
            return;
        if (lh_sim_pool_wait(s->pool, lh_milliseconds(200), &done))
            take(s, &done);
        if (s->o->progress.ns != 0 && lh_sim_host_ns() - shown >= s->o->progress.ns) {
            print_progress(s);
            shown = lh_sim_host_ns();
        }
    }
}

static int run_with(const struct options *o, uint64_t first, const struct lh_sim_subjects *stories)
{
    size_t marks = lh_sim_coverage_count();
    struct swarm s = {
        .o = o,
        .stories = stories->subjects,
        .story_count = stories->count,
        .first = first,
        .began_ns = lh_sim_host_ns(),
        .counts = lh_alloc_array(marks, sizeof(uint64_t)),
        .story_counts = lh_alloc_array(marks, sizeof(uint64_t)),
        .code = LH_SIM_EXIT_OK,
    };
    struct lh_sim_pool_config config = {
        .jobs = o->jobs,
        .task_size = sizeof(struct task),
        .result_size = sizeof(struct lh_sim_outcome) + marks * sizeof(uint64_t),
        .work = work,
        .arg = &s,
        .limit = o->limit,
    };
    char text[40];

    s.pool = lh_sim_pool_create(&config);
    if (s.pool == NULL) {
        free(s.counts);
        free(s.story_counts);
        return lh_sim_command_error(
            LH_SIM_EXIT_OUTPUT, COMMAND, "cannot start processes: %s", strerror(errno));
    }
    (void)printf(
        "swarm from seed %s on, %" PRIu64 " processes\n", lh_sim_seed_print(text, first), o->jobs);
    (void)fflush(stdout);
    lh_sim_host_catch_interrupts();
    run_swarm(&s);
    lh_sim_pool_destroy(s.pool);
    if (lh_sim_host_interrupted())
        (void)printf("interrupted\n");
    print_summary(&s);
    print_kinds(&s);
    print_marks(&s);
    free(s.counts);
    free(s.story_counts);
    return s.code;
}

int lh_sim_command_swarm(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("for", DURATION, &o.time, NULL),
            .help = "begin runs for this long [1m, unless --runs says how many]", .min = 1000000},
        {LH_FLAG("runs", UINT, &o.runs, NULL), .help = "so many runs", .min = 1},
        LH_SIM_JOBS_FLAG(o.jobs),
        {LH_FLAG("first", STRING, &o.first, NULL),
            .help = "the first seed; the others follow it. Any text that is no number names a "
                    "seed too, for example commit:1a2b3c [by the clock]",
            .metavar = "S"},
        {LH_FLAG("keep-going", BOOL, &o.keep_going, NULL),
            .help = "do not end with the first failure"},
        LH_SIM_PROFILE_FLAGS(o),
        {LH_FLAG("marks", BOOL, &o.marks, NULL),
            .help = "print all coverage marks with their counts"},
        {LH_FLAG("require-marks", BOOL, &o.require_marks, NULL),
            .help = "exit with 6 when a mark was never reached"},
        {LH_FLAG("progress", DURATION, &o.progress, "10s"),
            .help = "how often to say how far it is; 0: never"},
        LH_SIM_LIMIT_FLAG(o.limit),
    };
    const struct lh_flags flags = {
        .command = "leasehold-sim swarm",
        .usage = "[FILE...] [OPTION]...",
        .summary = "Runs one seed after another, each with its own mixture of faults, until the "
                   "time is over or one fails.\nScenario FILEs are run first, with the bug "
                   "of --plant too, and the marks that they reach count.\nCtrl-C ends it with the "
                   "summary.",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    uint64_t first = (uint64_t)time(NULL) % 100000000 * 10;
    struct lh_sim_subjects stories = {0};
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, SIZE_MAX, &args, &code))
        return code;
    if (o.time.ns == 0 && o.runs == 0)
        o.time = lh_seconds(60);
    lh_sim_jobs_default(&o.jobs);
    code = lh_sim_check_plant(o.plant, "--plant", COMMAND);
    if (code == LH_SIM_EXIT_OK && o.first != NULL)
        code = lh_sim_seed_parse_or_name(o.first, &first, "--first", COMMAND);
    if (code == LH_SIM_EXIT_OK)
        code = lh_sim_subjects_load(
            &stories, (const char *const *)args.args, args.arg_count, o.plant, COMMAND);
    if (code == LH_SIM_EXIT_OK)
        code = run_with(&o, first, &stories);
    lh_sim_subjects_deinit(&stories);
    lh_flags_free(&args);
    return code;
}
