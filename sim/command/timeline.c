/* `leasehold-sim timeline`: a run as a page to look at in a browser. */
#include "sim/report/timeline.h"

#include "sim/command/command.h"
#include "sim/command/guard.h"
#include "sim/command/subject.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMMAND "timeline"

struct drawing {
    const struct lh_sim_subject *subject;
    const char *path;
    FILE *to;
    struct lh_sim_timeline *timeline;
    bool written, failed;
};

static void attach(void *arg, struct lh_sim_cluster *c, struct lh_sim_observers *o)
{
    struct drawing *d = arg;

    (void)o;
    d->timeline = lh_sim_timeline_attach(c, d->subject->name);
}

/* Also of a run that is dying: the page then shows it up to there. */
static void write_page(void *arg)
{
    struct drawing *d = arg;

    if (d->timeline == NULL || d->written)
        return;
    d->written = true;
    errno = 0;
    bool ok = lh_sim_timeline_write(d->timeline, d->to) == LH_OK && fflush(d->to) == 0;
    if (!ok) {
        d->failed = true;
        (void)lh_sim_command_error(LH_SIM_EXIT_OUTPUT, COMMAND, "cannot write %s: %s", d->path,
            strerror(errno != 0 ? errno : EIO));
    }
}

static void detach(void *arg, struct lh_sim_cluster *c, struct lh_sim_observers *o)
{
    (void)c;
    (void)o;
    write_page(arg);
}

static int work(void *arg)
{
    struct drawing *d = arg;
    struct lh_sim_run_options options = {.stage = {.attach = attach, .detach = detach, .arg = d}};
    struct lh_sim_outcome outcome;

    lh_sim_subject_run(d->subject, &options, &outcome);
    lh_sim_timeline_destroy(d->timeline);
    if (d->failed)
        return LH_SIM_EXIT_OUTPUT;
    const char *well = d->subject->is_scenario ? " ended as it says" : " ended well";
    (void)printf("%s: %s%s%s\n", d->path, d->subject->name,
        outcome.verdict == LH_SIM_EXIT_OK ? well : ": ", outcome.text);
    return (int)outcome.verdict;
}

static int draw(const struct lh_sim_subject *subject, const char *path)
{
    struct drawing d = {.subject = subject, .path = path, .to = fopen(path, "we")};
    char crash[256];

    if (d.to == NULL)
        return lh_sim_command_error(
            LH_SIM_EXIT_OUTPUT, COMMAND, "cannot write %s: %s", path, strerror(errno));
    int code = lh_sim_guarded(work, write_page, &d, crash, sizeof crash);
    if (code == LH_SIM_EXIT_CRASH)
        (void)printf("%s: %s, up to the death of the process: %s\n", path, subject->name, crash);
    (void)fclose(d.to);
    return code;
}

int lh_sim_command_timeline(int argc, char **argv)
{
    struct {
        struct lh_sim_subject_options subject;
        const char *output;
    } o = {0};
    const struct lh_flag table[] = {
        LH_SIM_SEED_FLAG(o.subject),
        LH_SIM_PROFILE_FLAGS(o.subject),
        {.name = "output",
            .letter = 'o',
            .type = LH_FLAG_STRING,
            .value = &o.output,
            .help = "the page; what the file held before is lost",
            .metavar = "FILE.html"},
    };
    const struct lh_flags flags = {
        .command = "leasehold-sim timeline",
        .usage = "(--seed S | FILE.scenario) -o FILE.html [OPTION]...",
        .summary = "Writes one self-contained page with a lane for each node: leases as the master "
                   "and as the holder believe in them, sessions, appends, faults, and the failure "
                   "if there is one. Open it in a browser.",
        LH_FLAG_ROWS(table),
    };
    struct lh_flags_result args;
    struct lh_sim_subject subject;
    int code;

    if (!lh_sim_command_parse(&flags, argc, argv, 0, 1, &args, &code))
        return code;
    if (o.output == NULL)
        code = lh_sim_command_error(LH_SIM_EXIT_USAGE, COMMAND, "where to? Give -o FILE.html");
    else
        code = lh_sim_subject_of_options(&subject, &o.subject, args.args[0], COMMAND);
    if (code == LH_SIM_EXIT_OK) {
        code = draw(&subject, o.output);
        lh_sim_subject_deinit(&subject);
    }
    lh_flags_free(&args);
    return code;
}
