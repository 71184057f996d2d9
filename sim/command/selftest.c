/* `leasehold-sim selftest`: is every planted bug found. Each round gives every bug that is not
 * found yet one more seed: easy ones are out of the way at once, and what is hard gets all of the
 * time. What no seed has found is left to the scenarios that name it. */
#include "sim/command/command.h"
#include "sim/command/host.h"
#include "sim/command/pool.h"
#include "sim/command/seed.h"
#include "sim/command/subject.h"

#include "base/alloc.h"
#include "sim/run/bugs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "selftest"

struct options {
    struct lh_duration time, limit;
    uint64_t jobs, seeds;
    const char *bug, *first;
    bool unnamed;
};

/* One row of the table: a planted bug, or clocks that leave their bound. */
struct row {
    const struct lh_sim_bug *bug; /* NULL: the clocks */
    uint64_t given, done;         /* seeds */
    uint64_t busy_ns;             /* of all its runs */
    bool found;
    uint64_t seed; /* that found it, if `story` is NULL */
    const char *story;
    char caught_by[16];
};

struct selftest {
    const struct options *o;
    struct row *rows;
    size_t count;
    struct lh_sim_pool *pool;
    uint64_t first, began_ns;
    size_t next;                    /* row */
    struct lh_sim_subject *stories; /* scenario files */
    size_t story_count;
    /* Seeds that fail without any planted bug: they prove nothing about one. */
    struct tainted {
        uint64_t seed;
        enum lh_sim_profile profile;
    } * tainted;
    size_t tainted_count, tainted_capacity;
};

struct task {
    size_t row;
    uint64_t seed;
};

#define CLOCKS "clocks beyond rho"

static const char *name_of(const struct row *row)
{
    return row->bug != NULL ? row->bug->name : CLOCKS;
}

/* By the rule, or by who should notice it. */
static bool is_of_leases(const struct lh_sim_bug *bug)
{
    static const char *const rules[] = {"PS-", "NL-", "VAL-", "TOK-"};
    static const char *const expected[] = {"INV-13", "INV-14", "INV-15", "INV-17", "INV-18"};
    bool is = false;

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        is = is || strncmp(bug->rule, rules[i], strlen(rules[i])) == 0;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        is = is || strcmp(bug->expected, expected[i]) == 0;
    return is;
}

/* What is wrong with several masters shows only where there are some; and what is wrong with
 * leases of programs, where programs have some. */
static enum lh_sim_profile profile_of(const struct row *row)
{
    if (row->bug == NULL)
        return LH_SIM_PROFILE_CLOCKS;
    if (strcmp(row->bug->rule, "WIRE") == 0)
        return LH_SIM_PROFILE_WIRE;
    if (is_of_leases(row->bug))
        return LH_SIM_PROFILE_LEASES;
    bool of_masters =
        strncmp(row->bug->rule, "HA-", 3) == 0 || strcmp(row->bug->rule, "SES-10") == 0;
    return of_masters ? LH_SIM_PROFILE_MASTERS : LH_SIM_PROFILE_SWARM;
}

/* ---- In a worker's process ---- */

static void work(void *arg, const void *task_bytes, void *result)
{
    const struct selftest *t = arg;
    struct lh_sim_subject subject;
    struct task task;

    memcpy(&task, task_bytes, sizeof task);
    const struct row *row = &t->rows[task.row];
    lh_sim_subject_draw(
        &subject, task.seed, profile_of(row), row->bug != NULL ? row->bug->name : NULL);
    lh_sim_outcome_of(&subject.plan, NULL, result);
    lh_sim_subject_deinit(&subject);
}

/* ---- The table ---- */

static void print_header(void)
{
    (void)printf("%-42s %-9s %-9s %-9s %5s %8s  %s\n", "bug", "rule", "expected", "caught by",
        "seeds", "seconds", "found by");
}

static void print_row(const struct row *row)
{
    char seed[40] = "-";

    enum lh_sim_profile profile = profile_of(row);
    if (row->found && row->story == NULL &&
        (profile == LH_SIM_PROFILE_MASTERS || profile == LH_SIM_PROFILE_LEASES ||
            profile == LH_SIM_PROFILE_WIRE))
        (void)snprintf(seed, sizeof seed, "%" PRIu64 "@%u of %s", row->seed,
            (unsigned)LH_SIM_GENERATION, lh_sim_profile_name(profile));
    else if (row->found && row->story == NULL)
        (void)lh_sim_seed_print(seed, row->seed);
    (void)printf("%-42s %-9s %-9s %-9s %5" PRIu64 " %8.1f  %s\n", name_of(row),
        row->bug != NULL ? row->bug->rule : "TIME-4",
        row->bug != NULL ? row->bug->expected : "INV-1/2",
        row->found ? row->caught_by : "NOT FOUND", row->done, (double)row->busy_ns / 1e9,
        row->story != NULL ? row->story : seed);
    (void)fflush(stdout);
}

/* ---- The rounds ---- */

/* Does the seed fail by itself? */
static bool is_tainted(struct selftest *t, uint64_t seed, enum lh_sim_profile profile)
{
    struct lh_sim_subject subject;
    struct lh_sim_outcome outcome;
    char text[40];

    for (size_t i = 0; i < t->tainted_count; i++)
        if (t->tainted[i].seed == seed && t->tainted[i].profile == profile)
            return true;
    lh_sim_subject_draw(&subject, seed, profile, NULL);
    bool ran = lh_sim_outcome_isolated(&subject.plan, t->o->limit, &outcome, COMMAND);
    lh_sim_subject_deinit(&subject);
    if (ran && outcome.verdict == LH_SIM_EXIT_OK)
        return false;
    if (ran)
        (void)fprintf(stderr,
            "selftest: seed %s fails without a planted bug too (%s), and finds none\n",
            lh_sim_seed_print(text, seed), outcome.rule);
    LH_GROW(t->tainted, t->tainted_capacity, t->tainted_count + 1);
    t->tainted[t->tainted_count++] = (struct tainted){seed, profile};
    return true;
}

static void take(struct selftest *t, const struct lh_sim_pool_done *done)
{
    struct lh_sim_outcome outcome;
    struct task task;

    memcpy(&task, done->task, sizeof task);
    struct row *row = &t->rows[task.row];
    if (done->result != NULL)
        memcpy(&outcome, done->result, sizeof outcome);
    else
        lh_sim_outcome_crashed(&outcome, done->crash);
    row->done++;
    row->busy_ns += outcome.host_ns;
    if (row->found)
        return;
    /* Beyond rho INV-1 and INV-2 are seen to break and excused (INV-7): that they are seen is what
     * counts. Anything else that breaks then is no proof of that. */
    row->found = row->bug != NULL ? outcome.verdict != LH_SIM_EXIT_OK &&
                                        !is_tainted(t, task.seed, profile_of(row))
                                  : outcome.excused > 0;
    if (!row->found)
        return;
    row->seed = task.seed;
    (void)snprintf(
        row->caught_by, sizeof row->caught_by, "%s", row->bug != NULL ? outcome.rule : "INV-1/2");
    print_row(row);
}

/* The next row, round about, that is not found and may have another seed; NULL: there is none. */
static struct row *next_row(struct selftest *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct row *row = &t->rows[(t->next + i) % t->count];
        if (!row->found && (t->o->seeds == 0 || row->given < t->o->seeds)) {
            t->next = (size_t)(row - t->rows) + 1;
            return row;
        }
    }
    return NULL;
}

static bool time_is_over(const struct selftest *t)
{
    return lh_sim_host_interrupted() ||
           (t->o->time.ns != 0 && lh_sim_host_ns() - t->began_ns >= t->o->time.ns);
}

static int run_rounds(struct selftest *t)
{
    struct row *row = NULL;

    for (;;) {
        struct lh_sim_pool_done done;
        if (time_is_over(t))
            return LH_SIM_EXIT_OK;
        if (row == NULL)
            row = next_row(t);
        if (row != NULL) {
            struct task task = {(size_t)(row - t->rows), t->first + row->given};
            if (lh_sim_pool_give(t->pool, &task)) {
                row->given++;
                row = NULL;
                continue;
            }
        }
        if (lh_sim_pool_busy(t->pool) == 0) {
            if (row == NULL)
                return LH_SIM_EXIT_OK;
            return lh_sim_command_error(
                LH_SIM_EXIT_OUTPUT, COMMAND, "cannot start a process: %s", strerror(errno));
        }
        if (lh_sim_pool_wait(t->pool, lh_milliseconds(200), &done) && !time_is_over(t))
            take(t, &done);
        if (row != NULL && row->found)
            row = NULL;
    }
}

/* ---- The stories ---- */

static bool is_named(const struct lh_sim_scenario *scenario, const char *bug)
{
    for (size_t i = 0; i < scenario->broken_by_count; i++)
        if (strcmp(scenario->broken_by[i], bug) == 0)
            return true;
    return false;
}

static bool is_in_a_story(const struct selftest *t, const char *bug)
{
    for (size_t i = 0; i < t->story_count; i++)
        if (is_named(&t->stories[i].scenario, bug))
            return true;
    return false;
}

/* False: the system gave no process. `rule`: what broke with `plant`; "": nothing did. */
static bool run_story(struct selftest *t, struct lh_sim_subject *story, const char *plant,
    struct row *row, char rule[static 16])
{
    struct lh_sim_settings *settings = &story->scenario.settings;
    struct lh_sim_outcome outcome;

    (void)snprintf(settings->plant, sizeof settings->plant, "%s", plant);
    bool ran = lh_sim_outcome_isolated_scenario(
        &story->scenario, story->name, t->o->limit, &outcome, COMMAND);
    settings->plant[0] = '\0';
    if (!ran)
        return false;
    row->busy_ns += outcome.host_ns;
    /* Its own expectation may be what is not met. */
    (void)snprintf(rule, 16, "%s",
        outcome.verdict == LH_SIM_EXIT_OK ? ""
        : outcome.rule[0] != '\0'         ? outcome.rule
                                          : "story");
    return true;
}

static bool look_in_stories(struct selftest *t, struct row *row)
{
    char without[16], with[16];

    for (size_t i = 0; i < t->story_count && !row->found; i++) {
        struct lh_sim_subject *story = &t->stories[i];
        if (!is_named(&story->scenario, row->bug->name))
            continue;
        if (!run_story(t, story, "", row, without) ||
            !run_story(t, story, row->bug->name, row, with))
            return false;
        if (without[0] != '\0' || with[0] == '\0')
            continue;
        row->found = true;
        row->story = story->name;
        memcpy(row->caught_by, with, sizeof row->caught_by);
        print_row(row);
    }
    return true;
}

static int look_in_stories_for_the_rest(struct selftest *t)
{
    for (size_t i = 0; i < t->count && !lh_sim_host_interrupted(); i++)
        if (!t->rows[i].found && t->rows[i].bug != NULL && !look_in_stories(t, &t->rows[i]))
            return LH_SIM_EXIT_OUTPUT;
    return LH_SIM_EXIT_OK;
}

static int conclude(const struct selftest *t)
{
    size_t found = 0, by_stories = 0;
    char text[24];

    for (size_t i = 0; i < t->count; i++) {
        found += t->rows[i].found;
        by_stories += t->rows[i].story != NULL;
        if (!t->rows[i].found)
            print_row(&t->rows[i]);
    }
    (void)printf("%zu of %zu found in %s", found, t->count,
        lh_sim_host_duration(text, lh_sim_host_ns() - t->began_ns));
    if (by_stories > 0)
        (void)printf(", %zu of them by scenarios alone", by_stories);
    (void)printf("\n");
    if (found < t->count)
        (void)printf(
            "One that is not found needs more seeds, or is a missing observer or a missing "
            "fault.\n");
    return found == t->count ? LH_SIM_EXIT_OK : LH_SIM_EXIT_EXPECTED;
}

static int run_with(const struct options *o, uint64_t first, const struct lh_sim_subjects *stories)
{
    size_t bugs;
    const struct lh_sim_bug *all = lh_sim_bugs(&bugs);
    struct selftest t = {
        .o = o,
        .first = first,
        .rows = lh_alloc_array(bugs + 1, sizeof *t.rows),
        .began_ns = lh_sim_host_ns(),
        .stories = stories->subjects,
        .story_count = stories->count,
    };
    struct lh_sim_pool_config config = {
        .jobs = o->jobs,
        .task_size = sizeof(struct task),
        .result_size = sizeof(struct lh_sim_outcome),
        .work = work,
        .arg = &t,
        .limit = o->limit,
    };
    char text[40];

    for (size_t i = 0; i < bugs; i++)
        if ((o->bug == NULL || strcmp(o->bug, all[i].name) == 0) &&
            !(o->unnamed && is_in_a_story(&t, all[i].name)))
            t.rows[t.count++].bug = &all[i];
    if (o->bug == NULL)
        t.count++;
    t.pool = lh_sim_pool_create(&config);
    if (t.pool == NULL) {
        free(t.rows);
        return lh_sim_command_error(
            LH_SIM_EXIT_OUTPUT, COMMAND, "cannot start processes: %s", strerror(errno));
    }
    (void)printf("selftest from seed %s on, %" PRIu64 " processes\n",
        lh_sim_seed_print(text, first), o->jobs);
    print_header();
    lh_sim_host_catch_interrupts();
    int code = run_rounds(&t);
    lh_sim_pool_destroy(t.pool);
    if (code == LH_SIM_EXIT_OK)
        code = look_in_stories_for_the_rest(&t);
    code = lh_sim_command_worse(code, conclude(&t));
    free(t.tainted);
    free(t.rows);
    return code;
}

int lh_sim_command_selftest(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("for", DURATION, &o.time, "15m"), .help = "give up after this long",
            .min = 1000000},
        {LH_FLAG("seeds", UINT, &o.seeds, NULL),
            .help = "give a bug up after so many seeds [never]", .min = 1},
        LH_SIM_JOBS_FLAG(o.jobs),
        {LH_FLAG("first", STRING, &o.first, "1"), .help = "the first seed for each bug",
            .metavar = "S"},
        {LH_FLAG("bug", STRING, &o.bug, NULL), .help = "only this one", .metavar = "BUG"},
        {LH_FLAG("unnamed", BOOL, &o.unnamed, NULL),
            .help = "only what no FILE names by `broken by`"},
        LH_SIM_LIMIT_FLAG(o.limit),
    };
    const struct lh_flags flags = {
        .command = "leasehold-sim selftest",
        .usage = "[FILE...] [OPTION]...",
        .summary = "Plants each bug alone (`leasehold-sim bugs` lists them) and runs seeds until "
                   "an observer finds it. So too for clocks that leave their bound: the observers "
                   "must see INV-1 or INV-2 break (INV-7). What no seed has found within --seeds "
                   "or --for is looked for in the scenario FILEs that say `broken by` it. Exits "
                   "with 5 when one was not found.",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    struct lh_sim_subjects stories = {0};
    uint64_t first;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, SIZE_MAX, &args, &code))
        return code;
    lh_sim_jobs_default(&o.jobs);
    code = lh_sim_check_plant(o.bug, "--bug", COMMAND);
    if (code == LH_SIM_EXIT_OK)
        code = lh_sim_seed_parse_or_name(o.first, &first, "--first", COMMAND);
    if (code == LH_SIM_EXIT_OK)
        code = lh_sim_subjects_load(
            &stories, (const char *const *)args.args, args.arg_count, NULL, COMMAND);
    if (code == LH_SIM_EXIT_OK)
        code = run_with(&o, first, &stories);
    lh_sim_subjects_deinit(&stories);
    lh_flags_free(&args);
    return code;
}
